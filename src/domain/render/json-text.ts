// JSON text built by hand: strings, escaped only where they must be.

/** A JSON string, or null. */
export function nullable(text: string | null): string {
  return text === null ? 'null' : quote(text);
}

/** A JSON string. Most need no escape, and finding that out is cheaper than escaping. */
export function quote(text: string): string {
  if (text.length > 64) return JSON.stringify(text);
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return JSON.stringify(text);
  }
  return `"${text}"`;
}
