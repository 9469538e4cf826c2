#!/usr/bin/env node
// The developer's tools for webhooks: `npm run webhooks -- listen | trigger`. Finds the running service through
// DATA_DIR/demo.json or the environment; puts listen.ts and trigger.ts and the terminal together.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { DataDirectoryError, IDENTITY_FILE, readIdentity } from '../../src/data-directory/identity.ts';
import { STOP_SIGNALS } from '../../src/end-process.ts';
import { parseApiKey } from '../../src/http/api-key.ts';
import { printable } from '../../wal/printable.ts';
import { dataDirectoryOf, ownTerminal } from '../../wal/tools/tool.ts';
import { listen } from './listen.ts';
import { appOf, ServiceClient, ServiceRefused } from './service-client.ts';
import type { App, ServiceAddress } from './service-client.ts';
import { isEventType, trigger, TRIGGERS } from './trigger.ts';

const HELP = `npm run webhooks -- <command>

  listen [--key sk_live_…] [--app app_…] [--forward-to http://localhost:3000/hook]
      Prints an app's events as they come and passes them on to your local server. The service must run on this machine
      with WEBHOOK_ALLOW_PRIVATE=true. The app's own webhook URL is put back when you press Ctrl-C or close the terminal;
      after a kill -9, by the next listen.

  trigger <event type> [--key sk_live_…]
      Moves money in the simulator so that the event comes, never where DATA_DIR says that money is real:
      ${Object.keys(TRIGGERS).join('\n      ')}

The service is found through DATA_DIR/demo.json (default ./data), which standalone writes. For an account other than the
demo account give its key and, for listen, --app; BASE_URL, OPERATOR_URL, OPERATOR_TOKEN and SECRET_KEY stand for what the
file says. Everybody on the machine reads the arguments of a process: a key that is worth something belongs in SECRET_KEY.
`;

const WRONG_USAGE = 2;
/** From the start on: whoever reads no further ends nothing in its middle. */
const terminal = ownTerminal();

process.exitCode = await run();

async function run(): Promise<number> {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        key: { type: 'string' },
        app: { type: 'string' },
        'forward-to': { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    });
    const [command, type = ''] = positionals;
    if (values.help === true) return say(HELP, 0);
    const surplus = positionals[command === 'listen' ? 1 : 2];
    if (surplus !== undefined) return say(`"${surplus}" is one too many. ${HELP}`, WRONG_USAGE);
    if (command === 'listen') return await runListen(values, values['forward-to'] ?? null);
    if (command !== 'trigger') return say(HELP, WRONG_USAGE);
    if (!isEventType(type)) return say(`"${type}" is no event type. ${HELP}`, WRONG_USAGE);
    return await runTrigger(values, type);
  } catch (error) {
    if (error instanceof ServiceRefused || error instanceof DataDirectoryError) return say(error.message, 1);
    const isUsage =
      error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS');
    if (isUsage) return say(error.message, WRONG_USAGE);
    throw error;
  }
}

interface Chosen {
  readonly key?: string | undefined;
  readonly app?: string | undefined;
}

async function runListen(chosen: Chosen, forwardTo: string | null): Promise<number> {
  if (forwardTo !== null && !isHttpUrl(forwardTo)) return say(noHttpUrl(forwardTo), WRONG_USAGE);
  const client = new ServiceClient(addressOf(chosen));
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  // For good: npm passes a Ctrl-C on that was heard already, and the second would end this before the URL is put back.
  for (const signal of STOP_SIGNALS) process.on(signal, () => ask());
  // Nobody reads what comes (`| head`), or it cannot be written.
  process.stdout.once('error', () => ask());
  const listening = await listen({ client, forwardTo, print: (line) => print(printable(line)) });
  await asked;
  const isPutBack = await listening.stop();
  print(
    isPutBack
      ? 'The webhook URL of the app is as it was.'
      : 'The webhook URL of the app was changed by somebody else: it stays.',
  );
  return 0;
}

async function runTrigger(chosen: Chosen, type: Parameters<typeof trigger>[1]): Promise<number> {
  refuseRealMoney();
  const client = new ServiceClient(addressOf(chosen));
  const { appId } = client.address;
  const app = appId === null ? null : await appOf(client, appId);
  const { id, status } = await trigger(client, type);
  print(`${id} is ${status}; ${whatFollows(type, app)}`);
  return 0;
}

/** `app`: of the key; null: nobody said which it is. */
function whatFollows(type: string, app: App | null): string {
  if (app === null) return `${type} will follow if the app of the key has a webhook URL.`;
  if (app.webhook_url !== null) return `${type} will follow.`;
  return `nobody hears of it: ${app.id} has no webhook URL. "listen" gives it one.`;
}

function addressOf({ key, app }: Chosen): ServiceAddress {
  const demo = readDemo();
  const { BASE_URL, OPERATOR_URL, OPERATOR_TOKEN, SECRET_KEY } = process.env;
  const secretKey = key ?? SECRET_KEY ?? demo['secret_key'];
  if (secretKey === undefined) {
    const problem = `There is no ${demoPath()}: set DATA_DIR to the service's, or SECRET_KEY to a secret key (sk_live_…).`;
    throw new ServiceRefused('usage', problem);
  }
  const accountId = parseApiKey(secretKey)?.accountId;
  if (accountId === undefined) throw new ServiceRefused('usage', 'The key is not one of this service.');
  const appId = app ?? (secretKey === demo['secret_key'] ? (demo['app_id'] ?? null) : null);
  return {
    baseUrl: serviceUrl(BASE_URL ?? demo['base_url'] ?? 'http://127.0.0.1:8080'),
    operatorUrl: serviceUrl(OPERATOR_URL ?? demo['operator_url'] ?? 'http://127.0.0.1:8081'),
    operatorToken: OPERATOR_TOKEN ?? demo['operator_token'] ?? '',
    secretKey,
    accountId,
    appId,
  };
}

/** Paths are put behind it, and begin with a slash. */
function serviceUrl(text: string): string {
  if (!isHttpUrl(text)) throw new ServiceRefused('usage', noHttpUrl(text));
  return text.replace(/\/+$/, '');
}

/** "localhost:3000/hook" is a URL too, of the scheme "localhost:". */
function isHttpUrl(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? '');
}

function noHttpUrl(text: string): string {
  return `"${text}" is not a URL that starts with http:// or https://.`;
}

/** The numbers that the simulator knows are those of strangers, too. Of a service that only BASE_URL names nothing here says it. */
function refuseRealMoney(): void {
  const directory = dataDirectoryOf(undefined, process.env);
  if (process.env['BASE_URL'] !== undefined || readIdentity(directory)?.money !== 'real') return;
  const says = `${join(directory, IDENTITY_FILE)} says that money is real there`;
  throw new ServiceRefused(
    'real_money',
    `${says}: "trigger" would ask strangers for some, and send it to them.`,
  );
}

function demoPath(): string {
  return join(dataDirectoryOf(undefined, process.env), 'demo.json');
}

function readDemo(): Readonly<Record<string, string | undefined>> {
  const path = demoPath();
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new ServiceRefused('demo', `${path} cannot be read: ${String(error)}`, { cause: error });
  }
}

function say(text: string, status: number): number {
  if (status === 0) print(text);
  else terminal.err(`${printable(text)}\n`);
  return status;
}

function print(text: string): void {
  terminal.out(`${text}\n`);
}
