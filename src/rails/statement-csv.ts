// CSV as banks and providers write it (RFC 4180): quotes, doubled quotes, line breaks inside quotes, a byte order mark,
// UTF-8 or UTF-16, comma, semicolon or tab, lines that end in a line feed, a carriage return or both. The first row has the headings.

export interface CsvRow {
  /** Of the file, from 1: where the row begins. */
  readonly line: number;
  /** By heading in lower case. Of two columns with one heading the first counts: an amount's currency comes behind it, before those of
   *  fees and balances. */
  readonly fields: ReadonlyMap<string, string>;
}

/** By its byte order mark. */
const UTF_16: ReadonlyMap<string, string> = new Map([
  ['fffe', 'utf-16le'],
  ['feff', 'utf-16be'],
]);

/** Of a file, without a byte order mark: UTF-16, as Excel's "Unicode Text" is, where the mark says so; else UTF-8. */
export function textOf(bytes: Buffer): string {
  const encoding = UTF_16.get(bytes.toString('hex', 0, 2)) ?? 'utf-8';
  return new TextDecoder(encoding).decode(bytes);
}

/** One after the other, so that a statement of a million is not held as rows as well. Throws with the line at fault. */
export function* readCsv(text: string): Generator<CsvRow, void> {
  let names: string[] | null = null;
  for (const { line, cells } of splitRows(text)) {
    if (names === null) {
      names = cells.map((name) => name.trim().toLowerCase());
      continue;
    }
    if (cells.length !== names.length) {
      throw new Error(`line ${line}: ${cells.length} columns, where the headings are ${names.length}`);
    }
    const fields = new Map<string, string>();
    for (const [index, name] of names.entries()) if (!fields.has(name)) fields.set(name, cells[index] ?? '');
    yield { line, fields };
  }
  if (names === null) throw new Error('the file is empty');
}

interface Cells {
  readonly line: number;
  readonly cells: string[];
}

function* splitRows(text: string): Generator<Cells, void> {
  const separator = separatorOf(text);
  let cells: string[] = [];
  let cell = '';
  /** What `cell` has not yet begins here. */
  let from = 0;
  let quoted = false;
  let line = 1;
  let startLine = 1;
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (character === '\n' || (character === '\r' && text[i + 1] !== '\n')) line++;
    if (quoted) {
      if (character !== '"') continue;
      const isDoubled = text[i + 1] === '"';
      cell += text.slice(from, isDoubled ? ++i : i);
      from = i + 1;
      quoted = isDoubled;
    } else if (character === '"' && from === i) {
      quoted = true;
      from = i + 1;
    } else if (character === separator || character === '\n' || character === '\r') {
      cells.push(cell + text.slice(from, i));
      from = i + 1;
      cell = '';
      if (character === separator) continue;
      if (!isEmpty(cells)) yield { line: startLine, cells };
      cells = [];
      startLine = line;
    }
  }
  if (quoted) throw new Error(`line ${startLine}: a quote is not closed`);
  cells.push(cell + text.slice(from));
  if (!isEmpty(cells)) yield { line: startLine, cells };
}

/** An empty line is no row, nor is one of separators alone. */
function isEmpty(cells: readonly string[]): boolean {
  return cells.every((cell) => cell.trim() === '');
}

/** The one of comma, semicolon and tab that the headings have most of. */
function separatorOf(text: string): string {
  const [headings = ''] = /^[^\r\n]*/.exec(text) ?? [];
  const count = (separator: string): number => headings.split(separator).length;
  return [',', ';', '\t'].reduce((best, separator) => (count(separator) > count(best) ? separator : best));
}
