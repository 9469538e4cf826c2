/** What every process that a test starts has in its environment: where programs are, and the files whose types are stripped
 *  (`no-recorder.ts`). All else is the test's to say. */
export const ENVIRONMENT = {
  PATH: process.env['PATH'],
  NODE_OPTIONS: process.env['NODE_OPTIONS'],
};
