// Finds a name that an object of a body, or of the policy file, has twice. JSON.parse keeps the last of them and says nothing: of two
// amounts one would move, and nobody would know that there had been another.
//
// Hot path: a body without one is told by counting. Takes time in proportion to the text's length, whatever stands in it.

/** Path of the first name that stands a second time in its object, or its first `partsMax` parts; null: none does. `value`: what JSON.parse
 *  made of `text`. */
export function repeatedName(text: string, value: unknown, partsMax: number): string | null {
  return endsOfNames(text) === namesIn(value) ? null : findRepeated(text, partsMax);
}

const QUOTE = 34;
const SPACE = 32;

/** Colons behind a quotation mark: one for each name, and perhaps some inside of strings. */
function endsOfNames(text: string): number {
  let count = 0;
  for (let at = text.indexOf(':'); at !== -1; at = text.indexOf(':', at + 1)) {
    let before = at - 1;
    // Nothing but white space is below it in JSON. Each run of it stands before one colon.
    while (text.charCodeAt(before) <= SPACE) before--;
    if (text.charCodeAt(before) === QUOTE) count++;
  }
  return count;
}

/** Not recursive: depth is the caller's to choose. */
function namesIn(root: unknown): number {
  let count = 0;
  const rest = [root];
  for (let value = rest.pop(); value !== undefined; value = rest.pop()) {
    if (Array.isArray(value)) {
      for (const item of value) if (typeof item === 'object' && item !== null) rest.push(item);
      continue;
    }
    const object = value as Readonly<Record<string, unknown>>;
    for (const name in object) {
      count++;
      const inner = object[name];
      if (typeof inner === 'object' && inner !== null) rest.push(inner);
    }
  }
  return count;
}

/** Strings, with the colon that makes one a name, and what opens and closes. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[{}[\]]/g;

interface Open {
  readonly names: Set<string>;
  readonly path: string;
  /** Of the path: not counted anew for each name in it, for names may be long. */
  readonly parts: number;
}

function findRepeated(text: string, partsMax: number): string | null {
  const open: Open[] = [];
  let path = '';
  let parts = 0;
  for (const [token, colon] of text.matchAll(TOKENS)) {
    if (token === '{' || token === '[') {
      open.push({ names: new Set(), path, parts });
    } else if (token === '}' || token === ']') {
      ({ path, parts } = open.pop()!);
    } else if (colon !== undefined) {
      const holder = open.at(-1)!;
      const name = JSON.parse(token.slice(0, -colon.length)) as string;
      ({ path, parts } = holder);
      if (parts < partsMax) {
        path = joined(path, name);
        parts = path === '' ? 0 : parts + name.split('.').length;
      }
      if (holder.names.has(name)) return path;
      holder.names.add(name);
    }
  }
  return null;
}

export function joined(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}
