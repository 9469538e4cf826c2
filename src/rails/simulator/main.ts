// `npm run simulator`: the simulator alone, until it is interrupted. Settings are those of the service that concern it.

import { startSimulator } from './server.ts';

/** As of the service and the tools. */
const WRONGLY_ASKED = 2;

const HELP = `The provider simulator: speaks MTN MoMo's and Airtel's protocols, with a page at its root.

  SIMULATOR_PORT               port (8082)
  SIMULATOR_HOST               address to listen on (127.0.0.1)
  SIMULATOR_APPROVE_AFTER_MS   when a customer approves (1500)
`;

const given = process.argv.slice(2);
if (given.includes('--help') || given.includes('-h')) {
  process.stdout.write(HELP);
} else if (given.length > 0) {
  process.stderr.write(
    'npm run simulator takes no arguments: settings are environment variables; --help lists them.\n',
  );
  process.exitCode = WRONGLY_ASKED;
} else {
  await run();
}

async function run(): Promise<void> {
  const port = whole('SIMULATOR_PORT', 8_082, 65_535);
  const approveAfterMs = whole('SIMULATOR_APPROVE_AFTER_MS', 1_500, 3_600_000);
  if (port === undefined || approveAfterMs === undefined) return;
  // An empty value is an absent one; as an address it would be every address of the machine.
  const given = process.env['SIMULATOR_HOST'] ?? '';
  const host = given === '' ? '127.0.0.1' : given;
  try {
    const simulator = await startSimulator({ port, host, approveAfterMs });
    process.stdout.write(`The simulator listens on ${simulator.url}\n`);
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => void simulator.close());
    }
  } catch (error) {
    process.stderr.write(`The simulator cannot listen on ${host}:${port}: ${(error as Error).message}\n`);
    process.exitCode = 1;
  }
}

/** Undefined, with a message and the exit status set, when it is wrong. */
function whole(name: string, fallback: number, max: number): number | undefined {
  const text = process.env[name] ?? '';
  const value = text === '' ? fallback : Number(text);
  if (Number.isInteger(value) && value >= 0 && value <= max) return value;
  process.stderr.write(`${name}: "${text}" is not a whole number from 0 to ${max} (default: ${fallback})\n`);
  process.exitCode = WRONGLY_ASKED;
  return undefined;
}
