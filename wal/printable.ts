// Text that others chose, as a terminal may be shown it.

/** Controls, C1's too, which JSON leaves as they are, and what turns the direction of writing around. */
const UNPRINTABLE = /(?!\n)[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** `text` with these spelled out: merchants and providers choose texts that are shown, and a terminal obeys them. Of JSON the text
 *  stays JSON, of the same value. */
export function printable(text: string): string {
  return text.replace(
    UNPRINTABLE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
