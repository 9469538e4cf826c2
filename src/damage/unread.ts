// What a process that may be ended by what it reads has yet to read. It may also be aborted for want of memory, or by a person: so what
// ended one is read once more, and is believed to have done it when it ends the next one, too.

export class Unread {
  #names: readonly string[];
  #suspected: string | null = null;

  /** Of partitions, in the order in which they are read. */
  constructor(names: readonly string[]) {
    this.#names = names;
  }

  get names(): readonly string[] {
    return this.#names;
  }

  /** A process was ended while it read that partition; those before it are read. True: it is what ends them, and is left out. */
  endedBy(name: string): boolean {
    const isSure = name === this.#suspected;
    this.#suspected = name;
    this.#names = this.#names.slice(this.#names.indexOf(name) + (isSure ? 1 : 0));
    return isSure;
  }
}
