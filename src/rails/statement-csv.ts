// CSV as banks and providers write it (RFC 4180): quotes, doubled quotes, line breaks inside quotes, a byte order mark,
// comma, semicolon or tab. The first row has the headings.

export interface CsvRow {
  /** Of the file, from 1: where the row begins. */
  readonly line: number;
  /** By heading in lower case. */
  readonly fields: ReadonlyMap<string, string>;
}

/** Throws with the line at fault. */
export function readCsv(text: string): CsvRow[] {
  const [headings, ...rows] = splitRows(text.replace(/^\uFEFF/, ''));
  if (headings === undefined) throw new Error('the file is empty');
  const names = headings.cells.map((name) => name.trim().toLowerCase());
  return rows.map(({ line, cells }) => {
    if (cells.length !== names.length) {
      throw new Error(`line ${line}: ${cells.length} columns, where the headings are ${names.length}`);
    }
    return { line, fields: new Map(names.map((name, index) => [name, cells[index] ?? ''])) };
  });
}

interface Cells {
  readonly line: number;
  readonly cells: string[];
}

function splitRows(text: string): Cells[] {
  const separator = separatorOf(text);
  const rows: Cells[] = [];
  let cells: string[] = [];
  let cell = '';
  let quoted = false;
  let line = 1;
  let startLine = 1;
  const endRow = (): void => {
    cells.push(cell);
    // An empty line is no row.
    if (cells.length > 1 || cell !== '') rows.push({ line: startLine, cells });
    cells = [];
    cell = '';
  };
  for (let i = 0; i < text.length; i++) {
    const character = text[i]!;
    if (character === '\n') line++;
    if (quoted) {
      if (character !== '"') cell += character;
      else if (text[i + 1] === '"') cell += text[++i]!;
      else quoted = false;
    } else if (character === '"' && cell === '') {
      quoted = true;
    } else if (character === separator) {
      cells.push(cell);
      cell = '';
    } else if (character === '\n') {
      endRow();
      startLine = line;
    } else if (character !== '\r') {
      cell += character;
    }
  }
  if (quoted) throw new Error(`line ${startLine}: a quote is not closed`);
  if (cell !== '' || cells.length > 0) endRow();
  return rows;
}

/** The one of comma, semicolon and tab that the headings have most of. */
function separatorOf(text: string): string {
  const headings = text.slice(0, text.indexOf('\n') === -1 ? undefined : text.indexOf('\n'));
  const count = (separator: string): number => headings.split(separator).length;
  return [',', ';', '\t'].reduce((best, separator) => (count(separator) > count(best) ? separator : best));
}
