// Kinds of settings: what a value of the environment may look like and how it is read. Pure; knows no setting by name
// (config.ts has them).

export interface Setting<Value> {
  /** Reads "PORT takes …". */
  readonly takes: string;
  readonly fallback: Value;
  readonly fallbackText: string;
  readonly meaning: string;
  /** Its value is not repeated in messages. */
  readonly secret: boolean;
  /** Undefined: the text is not what the setting takes. */
  readonly parse: (text: string) => Value | undefined;
}

export function port(fallback: number, meaning: string): Setting<number> {
  return whole(fallback, 0, 65_535, meaning);
}

export function whole(fallback: number, min: number, max: number, meaning: string): Setting<number> {
  return {
    takes: `a whole number from ${min} to ${max}`,
    fallback,
    fallbackText: `\`${fallback}\``,
    meaning,
    secret: false,
    parse: (text) => parseWhole(text, min, max),
  };
}

/** Read as seconds, kept as milliseconds. */
export function seconds(fallbackMs: number, meaning: string): Setting<number> {
  return {
    takes: 'a duration in seconds, up to a year',
    fallback: fallbackMs,
    fallbackText: `\`${fallbackMs / SECOND_MS}\``,
    meaning,
    secret: false,
    parse: parseSeconds,
  };
}

const FLAGS = new Map([
  ['true', true],
  ['false', false],
]);

export function flag(fallback: boolean, meaning: string): Setting<boolean> {
  return {
    takes: '`true` or `false`',
    fallback,
    fallbackText: `\`${fallback}\``,
    meaning,
    secret: false,
    parse: (text) => FLAGS.get(text),
  };
}

export function text(fallback: string, takes: string, shape: RegExp, meaning: string): Setting<string> {
  return {
    takes,
    fallback,
    fallbackText: `\`${fallback}\``,
    meaning,
    secret: false,
    parse: (value) => (shape.test(value) ? value : undefined),
  };
}

/** Null when absent. */
export function optional<Value>(setting: Omit<Setting<Value>, 'fallback'>): Setting<Value | null> {
  return { ...setting, fallback: null };
}

export function parseWhole(value: string, min: number, max: number): number | undefined {
  const number = /^\d{1,15}$/.test(value) ? Number(value) : NaN;
  return number >= min && number <= max ? number : undefined;
}

/** Milliseconds. */
export function parseSeconds(value: string): number | undefined {
  if (!/^\d{1,9}(?:\.\d{1,3})?$/.test(value)) return undefined;
  const ms = Math.round(Number(value) * SECOND_MS);
  return ms <= YEAR_MS ? ms : undefined;
}

/** Comma-separated, at least one; undefined as soon as one is wrong. */
export function listOf<Value>(
  text: string,
  parse: (item: string) => Value | undefined,
): readonly Value[] | undefined {
  const items: Value[] = [];
  for (const part of text.split(',')) {
    const item = parse(part.trim());
    if (item === undefined) return undefined;
    items.push(item);
  }
  return items;
}

export const SECOND_MS = 1_000;
const YEAR_MS = 366 * 86_400 * SECOND_MS;
