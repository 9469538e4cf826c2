/** What a process that is started here has of ours in its environment: where programs are, and how Node is to run. All else is said
 *  by whoever starts it. */
export const ENVIRONMENT = {
  PATH: process.env['PATH'],
  NODE_OPTIONS: process.env['NODE_OPTIONS'],
};
