// Loaded before all else into the process of each test file (.taprc). tap records which files a process loads, and has that done in
// each of its threads and in each process that it starts, too; nobody here asks for it. It took as long as starting all of
// them, and had services under test hear signals that they do not listen to.
import module from 'node:module';

// tap's recorder finds that it has begun, and begins nothing.
Object.assign(globalThis, { [Symbol.for('@tapjs/processinfo.ProcessInfoNodeData')]: { files: [] } });
const { register } = module;
module.register = () => {
  module.register = register;
};

// Of this process alone; those that it starts take over nothing but the files whose types are stripped.
process.env['NODE_OPTIONS'] = `--import=${import.meta.resolve('../.npm/stripped-types.mjs')}`;
