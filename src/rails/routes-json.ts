// JSON with the line of every value, so that a wrong setting can be pointed at. Strict JSON (RFC 8259), no comments; a
// field given twice is an error, because one of the two would be lost. What is wrong is told without what was written: it
// may be a secret.

export interface JsonNode {
  /** From 1. */
  readonly line: number;
  readonly value: JsonScalar | JsonObject | JsonArray;
}
export type JsonScalar = string | number | boolean | null;
export type JsonObject = ReadonlyMap<string, JsonNode>;
export type JsonArray = readonly JsonNode[];

export class JsonSyntaxError extends Error {
  override readonly name = 'JsonSyntaxError';
  readonly line: number;
  constructor(line: number, what: string) {
    super(what);
    this.line = line;
  }
}

/** Throws JsonSyntaxError. */
export function parseJsonWithLines(text: string): JsonNode {
  const reader = new Reader(text);
  const node = reader.value(0);
  reader.end();
  return node;
}

const TOKEN =
  /\s*(?:([{}[\]:,])|("(?:[^"\\\n]|\\.)*")|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null))/y;
const DEEPEST = 16;

/** Characters told of what is no JSON at all. */
const FOUND_LENGTH = 3;

class Reader {
  readonly #text: string;
  #at = 0;
  #line = 1;
  /** How far line breaks were counted, and the line there. */
  #counted = { at: 0, line: 1 };

  constructor(text: string) {
    this.#text = text.replace(/^\uFEFF/, '');
  }

  value(depth: number): JsonNode {
    const token = this.#next('a value');
    const line = this.#line;
    if (depth > DEEPEST) throw new JsonSyntaxError(line, 'nested too deeply');
    if (token === '{') return { line, value: this.#object(depth) };
    if (token === '[') return { line, value: this.#array(depth) };
    if (/^[}\]:,]$/.test(token)) throw new JsonSyntaxError(line, `${token} where a value belongs`);
    return { line, value: this.#scalar(token, line) };
  }

  end(): void {
    const rest = this.#text.slice(this.#at).trim();
    if (rest !== '') throw new JsonSyntaxError(this.#lineAt(this.#at), 'something follows the end');
  }

  #object(depth: number): JsonObject {
    const fields = new Map<string, JsonNode>();
    let token = this.#next('a field or }');
    while (token !== '}') {
      const line = this.#line;
      if (!token.startsWith('"')) {
        throw new JsonSyntaxError(line, `${shown(token)} where the name of a field belongs`);
      }
      const name = this.#scalar(token, line) as string;
      if (fields.has(name)) throw new JsonSyntaxError(line, `${name} is given twice`);
      this.#expect(':');
      fields.set(name, this.value(depth + 1));
      token = this.#next(', or }');
      if (token === '}') break;
      if (token !== ',') throw new JsonSyntaxError(this.#line, `${shown(token)} where , or } belongs`);
      token = this.#next('a field');
      if (token === '}') throw new JsonSyntaxError(this.#line, 'a comma before }');
    }
    return fields;
  }

  #array(depth: number): JsonArray {
    const items: JsonNode[] = [];
    if (this.#peek() === ']') {
      this.#next(']');
      return items;
    }
    for (;;) {
      items.push(this.value(depth + 1));
      const token = this.#next(', or ]');
      if (token === ']') return items;
      if (token !== ',') throw new JsonSyntaxError(this.#line, `${shown(token)} where , or ] belongs`);
    }
  }

  #scalar(token: string, line: number): JsonScalar {
    try {
      return JSON.parse(token) as JsonScalar;
    } catch {
      throw new JsonSyntaxError(line, `${shown(token)} is no JSON value`);
    }
  }

  #peek(): string {
    return /\S/.exec(this.#text.slice(this.#at))?.[0] ?? '';
  }

  #expect(wanted: string): void {
    const token = this.#next(wanted);
    if (token !== wanted) throw new JsonSyntaxError(this.#line, `${shown(token)} where ${wanted} belongs`);
  }

  #next(wanted: string): string {
    TOKEN.lastIndex = this.#at;
    const match = TOKEN.exec(this.#text);
    if (match === null) {
      const start = this.#at + (/^\s*/.exec(this.#text.slice(this.#at))?.[0].length ?? 0);
      const line = this.#lineAt(start);
      const found = this.#text.slice(start, start + FOUND_LENGTH).split('\n')[0] ?? '';
      throw new JsonSyntaxError(
        line,
        found === '' ? `it ends where ${wanted} belongs` : `not JSON: ${found}`,
      );
    }
    const token = match[1] ?? match[2] ?? match[3] ?? match[4] ?? '';
    this.#at = TOKEN.lastIndex;
    this.#line = this.#lineAt(this.#at - token.length);
    return token;
  }

  /** Asked for ever later places: each line break is counted once. */
  #lineAt(index: number): number {
    let { at, line } = this.#counted;
    for (; at < index; at++) if (this.#text[at] === '\n') line++;
    this.#counted = { at, line };
    return line;
  }
}

function shown(token: string): string {
  if (/^[{}[\]:,]$/.test(token)) return token;
  return token.startsWith('"') ? 'a text' : 'a number or word';
}
