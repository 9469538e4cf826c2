// The file named by RAILS: routes and credentials, read once at start. Everything wrong with it is reported at once,
// each with its line, and nothing starts.
//
// Invariants: a secret is never written in the file as it is; it is named ({"env": "NAME"} or {"file": "path"}) or
// sealed ({"sealed": "v1.…"}), and never repeated in a message. A pair of country and network has one route at most.

import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import {
  COUNTRIES,
  COUNTRY_FACTS,
  CURRENCY_DECIMALS,
  type Currency,
  NETWORKS,
  type Network,
} from '../domain/country.ts';
import { LIMITS } from '../limits.ts';
import { encryptRsa, type HashOver, parsePublicKey, type PinPadding } from './airtel-crypto.ts';
import type { AirtelOptions, AirtelPin } from './airtel.ts';
import type { MtnCredentials, MtnOptions } from './mtn.ts';
import type { ProviderRailOptions } from './provider-rail.ts';
import { type JsonNode, type JsonObject, JsonSyntaxError, parseJsonWithLines } from './routes-json.ts';

/** What its adapter is given but for what the process has, and the network that it is of. */
type RouteOf<Options extends ProviderRailOptions> = Omit<Options, 'clock' | 'forgetful' | 'callbackUrl'> & {
  readonly network: Network;
};

export interface MtnRoute extends RouteOf<MtnOptions> {
  readonly adapter: 'mtn';
  /** False: X-Callback-Url is left out, and enquiries alone find the outcome. */
  readonly callbacks: boolean;
}

export interface AirtelCallback {
  /** In the address that is set in the portal. */
  readonly secret: string;
  /** Null: callbacks carry no hash. */
  readonly hashKey: string | null;
  readonly hashOver: HashOver;
}

export interface AirtelRoute extends RouteOf<AirtelOptions> {
  readonly adapter: 'airtel';
  /** Null: no callbacks are expected. */
  readonly callback: AirtelCallback | null;
}

export type Route = MtnRoute | AirtelRoute;

export interface RoutesFile {
  /** Where the providers reach /callbacks, without a slash at its end; null: as the service says. */
  readonly callbackBaseUrl: string | null;
  readonly routes: readonly Route[];
}

export interface SecretSource {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Opens what was sealed with the master key. Throws when it cannot. */
  readonly openSealed: ((sealed: string) => string) | null;
}

/** All that is wrong with the file, one line each: "rails.json:12: routes[0].base_url: …". */
export class RoutesFileError extends Error {
  override readonly name = 'RoutesFileError';
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/** Throws RoutesFileError. */
export function readRoutesFile(path: string, secrets: SecretSource): RoutesFile {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new RoutesFileError([`${path}: cannot be read: ${(error as Error).message}`]);
  }
  return parseRoutesFile(text, path, secrets);
}

/** Throws RoutesFileError. */
export function parseRoutesFile(text: string, path: string, secrets: SecretSource): RoutesFile {
  if (text.length > LIMITS.routesFileBytesMax) {
    throw new RoutesFileError([`${path}: over ${LIMITS.routesFileBytesMax} bytes; is it a file of routes?`]);
  }
  const problems: string[] = [];
  const file = readFile(path, text, problems, secrets);
  if (problems.length > 0 || file === null) throw new RoutesFileError(problems);
  return file;
}

function readFile(path: string, text: string, problems: string[], secrets: SecretSource): RoutesFile | null {
  let root: JsonNode;
  try {
    root = parseJsonWithLines(text);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    problems.push(`${path}:${error.line}: ${error.message}`);
    return null;
  }
  const context: Context = { path, problems, secrets };
  const fields = Fields.of(context, root, '');
  if (fields === null) return null;
  const callbackBaseUrl = fields.optional('callback_base_url', (field) => field.url());
  const routes = fields.list('routes', readRoute);
  fields.nothingElse();
  if (routes.length === 0 && problems.length === 0) fields.problem('routes: at least one is needed');
  checkPairs(context, routes);
  return { callbackBaseUrl, routes: routes.map(({ route }) => route) };
}

interface ReadRoute {
  readonly route: Route;
  readonly line: number;
}

function checkPairs({ path, problems }: Context, routes: readonly ReadRoute[]): void {
  const seen = new Map<string, number>();
  for (const { route, line } of routes) {
    for (const name of [`id ${route.id}`, `${route.country} ${route.network}`]) {
      const first = seen.get(name);
      if (first !== undefined) problems.push(`${path}:${line}: ${name} has a route at line ${first} already`);
      else seen.set(name, line);
    }
  }
}

function readRoute(fields: Fields): ReadRoute | null {
  const adapter = fields.required('adapter', (field) => field.oneOf(['mtn', 'airtel'] as const));
  const id = fields.required('id', (field) => field.matching(/^[a-z][a-z0-9_]{1,31}$/, 'like "mtn_ug"'));
  const country = fields.required('country', (field) => field.oneOf(COUNTRIES));
  const network = fields.required('network', (field) => field.oneOf(NETWORKS));
  const baseUrl = fields.required('base_url', (field) => field.url());
  const answerMs =
    fields.optional('answer_ms', (field) => field.whole(1_000, ANSWER_LONGEST_MS)) ?? LIMITS.railAnswerMs;
  // A submit may be on its way for as long as its answer may take: "not found" earlier, and it would be sent twice.
  const graceSecondsMin = Math.ceil((2 * answerMs) / 1_000);
  const common = {
    maxConcurrency:
      fields.optional('max_concurrency', (field) => field.whole(1, LIMITS.railConcurrencyMax)) ??
      LIMITS.railConcurrencyDefault,
    answerMs,
    notFoundGraceMs:
      1_000 *
      (fields.optional('not_found_grace_seconds', (field) => field.whole(graceSecondsMin, 3_600)) ??
        GRACE_SECONDS),
  };
  const ownCurrency: Currency | null = country === null ? null : COUNTRY_FACTS[country].currency;
  const currencies: readonly (Currency | 'EUR')[] = [ownCurrency ?? 'UGX', 'EUR'];
  const currency = fields.optional('currency', (field) =>
    field.oneOf(adapter === 'airtel' ? currencies.slice(0, 1) : currencies),
  );
  // Without it nobody knows which other fields belong here.
  if (adapter === null) return null;
  const specific = adapter === 'airtel' ? readAirtel(fields, ownCurrency) : readMtn(fields);
  if (specific?.adapter === 'mtn') {
    const isSandbox = specific.targetEnvironment === SANDBOX;
    // Elsewhere 500 shillings would be sent as 500 euros.
    if (!isSandbox && currency === 'EUR') fields.problem(`currency: "EUR" is the sandbox's alone`);
    // It refuses each payment in any other.
    if (isSandbox && currency !== 'EUR') fields.problem('currency: the sandbox takes "EUR" alone');
  }
  fields.nothingElse();
  if (id === null || country === null || network === null || baseUrl === null) {
    return null;
  }
  if (specific === null || ownCurrency === null) return null;
  const route = { id, country, network, baseUrl, currency: currency ?? ownCurrency, ...common, ...specific };
  return { route, line: fields.line };
}

const ANSWER_LONGEST_MS = 60_000;
const GRACE_SECONDS = 120;
/** MTN's target environment that takes euros, and nothing else. */
const SANDBOX = 'sandbox';

type MtnSpecific = Omit<MtnRoute, keyof RouteOf<ProviderRailOptions>>;
type AirtelSpecific = Omit<AirtelRoute, keyof RouteOf<ProviderRailOptions>>;

function readMtn(fields: Fields): MtnSpecific | null {
  const targetEnvironment = fields.required('target_environment', (field) =>
    field.matching(/^[a-z]{3,32}$/, 'like "mtnuganda" or "sandbox"'),
  );
  const collection = fields.object('collection', readMtnCredentials);
  const disbursement = fields.object('disbursement', readMtnCredentials);
  const callbacks = fields.optional('callbacks', (field) => field.flag()) ?? true;
  if (!fields.has('collection') && !fields.has('disbursement')) {
    fields.problem('collection, disbursement or both are needed');
  }
  if (targetEnvironment === null) return null;
  return { adapter: 'mtn', targetEnvironment, collection, disbursement, callbacks };
}

function readMtnCredentials(fields: Fields): MtnCredentials | null {
  const subscriptionKey = fields.required('subscription_key', (field) => field.secret());
  const apiUser = fields.required('api_user', (field) => field.textOrSecret());
  const apiKey = fields.required('api_key', (field) => field.secret());
  fields.nothingElse();
  if (subscriptionKey === null || apiUser === null || apiKey === null) return null;
  return { subscriptionKey, apiUser, apiKey };
}

function readAirtel(fields: Fields, currency: Currency | null): AirtelSpecific | null {
  const clientId = fields.required('client_id', (field) => field.textOrSecret());
  const clientSecret = fields.required('client_secret', (field) => field.secret());
  const collectionApi = fields.required('collection_api', (field) => field.oneOf(['v1', 'v2'] as const));
  const decimals = CURRENCY_DECIMALS[currency ?? 'KES'];
  const amountDecimals =
    fields.optional('amount_decimals', (field) =>
      decimals === 0 ? field.zero(`${currency} has no decimals`) : field.whole(0, decimals),
    ) ?? decimals;
  const disbursement = fields.object('disbursement', readPin);
  const callback = fields.object('callback', readCallback);
  if (clientId === null || clientSecret === null || collectionApi === null) return null;
  return { adapter: 'airtel', clientId, clientSecret, collectionApi, amountDecimals, disbursement, callback };
}

function readPin(fields: Fields): AirtelPin | null {
  const pin = fields.required('pin', (field) => field.secret());
  const padding = fields.required('pin_padding', (field) =>
    field.oneOf(['pkcs1', 'oaep-sha256'] as const satisfies readonly PinPadding[]),
  );
  const publicKey = fields.required('public_key', (field) => field.publicKey());
  fields.nothingElse();
  if (pin === null || padding === null || publicKey === null) return null;
  if (!fits(publicKey, padding, pin)) {
    fields.problem('pin: is longer than its public_key takes: give the PIN itself');
  }
  return { pin, padding, publicKey };
}

/** Otherwise no payout could be made, nor would any fail. */
function fits(publicKey: string, padding: PinPadding, pin: string): boolean {
  try {
    encryptRsa(parsePublicKey(publicKey), padding, pin);
    return true;
  } catch {
    return false;
  }
}

function readCallback(fields: Fields): AirtelCallback | null {
  const secret = fields.required('secret', (field) => field.secret());
  const hashKey = fields.optional('hash_key', (field) => field.secret());
  const hashOver = fields.optional('hash_over', (field) => field.oneOf(['transaction', 'body'] as const));
  fields.nothingElse();
  if (secret === null) return null;
  if (!/^[A-Za-z0-9_-]{16,128}$/.test(secret)) {
    fields.problem('secret: takes 16 to 128 letters, digits, _ and -: it is part of an address');
  }
  return { secret, hashKey, hashOver: hashOver ?? 'transaction' };
}

// --- Fields ------------------------------------------------------------------------------------------------------------

interface Context {
  readonly path: string;
  readonly problems: string[];
  readonly secrets: SecretSource;
}

/** The fields of one object; what is wrong is added to the problems, and the reading goes on. */
class Fields {
  readonly line: number;
  readonly #context: Context;
  readonly #object: JsonObject;
  readonly #name: string;
  readonly #known = new Set<string>();

  private constructor(context: Context, object: JsonObject, line: number, name: string) {
    this.#context = context;
    this.#object = object;
    this.line = line;
    this.#name = name;
  }

  static of(context: Context, node: JsonNode, name: string): Fields | null {
    const { value, line } = node;
    if (value instanceof Map) return new Fields(context, value, line, name);
    context.problems.push(`${context.path}:${line}: ${name === '' ? 'the file' : name}: is not an object`);
    return null;
  }

  has(name: string): boolean {
    return this.#object.has(name);
  }

  required<Value>(name: string, read: (field: Field) => Value | null): Value | null {
    const field = this.#field(name);
    if (field === null) {
      this.problem(`${name}: is missing`);
      return null;
    }
    return read(field);
  }

  optional<Value>(name: string, read: (field: Field) => Value | null): Value | null {
    const field = this.#field(name);
    return field === null ? null : read(field);
  }

  object<Value>(name: string, read: (fields: Fields) => Value | null): Value | null {
    this.#known.add(name);
    const node = this.#object.get(name);
    if (node === undefined) return null;
    const fields = Fields.of(this.#context, node, this.#pathOf(name));
    return fields === null ? null : read(fields);
  }

  list<Value>(name: string, read: (fields: Fields) => Value | null): Value[] {
    this.#known.add(name);
    const node = this.#object.get(name);
    if (node === undefined || !Array.isArray(node.value)) {
      this.problem(`${name}: ${node === undefined ? 'is missing' : 'is not a list'}`, node?.line);
      return [];
    }
    return (node.value as readonly JsonNode[]).flatMap((item, index) => {
      const fields = Fields.of(this.#context, item, `${this.#pathOf(name)}[${index}]`);
      const value = fields === null ? null : read(fields);
      return value === null ? [] : [value];
    });
  }

  nothingElse(): void {
    for (const [name, { line }] of this.#object) {
      if (!this.#known.has(name)) this.problem(`${name}: is not a field here`, line);
    }
  }

  problem(what: string, line: number = this.line): void {
    const prefix = this.#name === '' ? '' : `${this.#name}.`;
    this.#context.problems.push(`${this.#context.path}:${line}: ${prefix}${what}`);
  }

  #field(name: string): Field | null {
    this.#known.add(name);
    const node = this.#object.get(name);
    return node === undefined ? null : new Field(this.#context, node, this.#pathOf(name));
  }

  #pathOf(name: string): string {
    return this.#name === '' ? name : `${this.#name}.${name}`;
  }
}

/** One value; each reading gives it or adds a problem. */
class Field {
  readonly #context: Context;
  readonly #node: JsonNode;
  readonly #name: string;

  constructor(context: Context, node: JsonNode, name: string) {
    this.#context = context;
    this.#node = node;
    this.#name = name;
  }

  oneOf<Value extends string>(values: readonly Value[]): Value | null {
    const found = values.find((value) => value === this.#node.value);
    return found ?? this.#wrong(`takes ${values.map((value) => `"${value}"`).join(' or ')}`);
  }

  matching(shape: RegExp, takes: string): string | null {
    const { value } = this.#node;
    return typeof value === 'string' && shape.test(value) ? value : this.#wrong(`takes a text ${takes}`);
  }

  whole(min: number, max: number): number | null {
    const { value } = this.#node;
    const fits = typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max;
    return fits ? value : this.#wrong(`takes a whole number from ${min} to ${max}`);
  }

  zero(why: string): number | null {
    return this.#node.value === 0 ? 0 : this.#wrong(`takes 0: ${why}`);
  }

  flag(): boolean | null {
    const { value } = this.#node;
    return typeof value === 'boolean' ? value : this.#wrong('takes true or false');
  }

  /** Https, or http to this machine; without a slash at its end. */
  url(): string | null {
    const { value } = this.#node;
    const url = typeof value === 'string' ? URL.parse(value) : null;
    if (url === null) return this.#wrong('takes an address like "https://proxy.momoapi.mtn.com"');
    const isHere = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(url.hostname);
    if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isHere)) {
      return this.#wrong('takes https, or http to this machine alone');
    }
    if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
      return this.#wrong('takes an address without credentials, query or fragment');
    }
    return url.href.replace(/\/$/, '');
  }

  textOrSecret(): string | null {
    const { value } = this.#node;
    return typeof value === 'string' && value !== '' ? value : this.secret();
  }

  publicKey(): string | null {
    const text = this.textOrSecret();
    if (text === null) return null;
    try {
      parsePublicKey(text);
      return text;
    } catch {
      return this.#wrong('takes an RSA public key of at least 1024 bits, PEM or base64 of its DER');
    }
  }

  secret(): string | null {
    const { value, line } = this.#node;
    if (typeof value === 'string') {
      return this.#wrong('is a secret in plain text; name it: {"env": "NAME"} or {"file": "path"}');
    }
    const [entry, ...others] = value instanceof Map ? [...value] : [];
    const named = entry?.[1].value;
    if (entry === undefined || others.length > 0 || typeof named !== 'string') {
      return this.#wrong('takes {"env": "NAME"}, {"file": "path"} or {"sealed": "v1.…"}');
    }
    const [how] = entry;
    const { environment, openSealed } = this.#context.secrets;
    switch (how) {
      case 'env':
        return this.#present(environment[named]?.trim(), `the environment has no ${named}`, line);
      case 'file':
        return this.#ofFile(named);
      case 'sealed':
        if (openSealed === null) {
          return this.#wrong(
            'is sealed, and there is no MASTER_KEY, nor a master.key to be read, to open it with',
          );
        }
        return this.#opened(openSealed, named);
    }
    return this.#wrong('takes {"env": "NAME"}, {"file": "path"} or {"sealed": "v1.…"}');
  }

  #ofFile(name: string): string | null {
    const path = resolve(dirname(this.#context.path), name);
    try {
      return this.#present(readFileSync(path, 'utf8').trim(), `${path} is empty`, this.#node.line);
    } catch (error) {
      return this.#wrong(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'error'}`);
    }
  }

  #opened(open: (sealed: string) => string, sealed: string): string | null {
    try {
      return this.#present(open(sealed).trim(), 'is sealed, and nothing is in it', this.#node.line);
    } catch (error) {
      return this.#wrong(`cannot be opened: ${(error as Error).message}`);
    }
  }

  #present(value: string | undefined, absent: string, line: number): string | null {
    return value === undefined || value === '' ? this.#wrong(absent, line) : value;
  }

  #wrong(what: string, line: number = this.#node.line): null {
    this.#context.problems.push(`${this.#context.path}:${line}: ${this.#name}: ${what}`);
    return null;
  }
}
