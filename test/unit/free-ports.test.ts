// Two processes that are given ports at the same time, for what they have yet to start, are not given the same.
import t from 'tap';
import type { freePorts } from '../../deploy/free-ports.ts';

const BLOCK = 100;

t.test('who is given ports has them alone', async (t) => {
  // Two of the module, in one process, are as two processes whose numbers lead to one block.
  const modules = ['first', 'second'].map((name) => `../../deploy/free-ports.ts?${name}`);
  const given = await Promise.all(
    modules.map(async (module) => {
      const loaded = (await import(module)) as { freePorts: typeof freePorts };
      return loaded.freePorts(BLOCK - 1);
    }),
  );
  const ports = given.flat();
  t.equal(new Set(ports).size, ports.length);
});
