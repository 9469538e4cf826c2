// The transactions that one partition of the pollers follows, by id and by number. What only waits is parked, and becomes an
// object again when somebody asks for it.

import { IdIndex, NONE } from './id-index.ts';
import { isParkable, Parked } from './parked.ts';
import type { Port } from './rail-lane.ts';
import type { Watched } from './watched.ts';

export class Followed {
  /** Those that are objects, by number. */
  readonly #awake: (Watched | null)[] = [];
  readonly #parked: Parked;
  readonly #index = new IdIndex((number) => this.#awake[number]?.id ?? this.#parked.idOf(number));

  /** `ports`: all that a transaction can have. */
  constructor(ports: readonly Port[]) {
    this.#parked = new Parked(ports);
  }

  get size(): number {
    return this.#index.size;
  }

  has(id: string): boolean {
    return this.#index.find(id) !== NONE;
  }

  get(id: string): Watched | undefined {
    const number = this.#index.find(id);
    return number === NONE ? undefined : this.at(number);
  }

  /** The one that has this number. */
  at(number: number): Watched {
    return (this.#awake[number] ??= this.#parked.take(number));
  }

  /** Whoever is no object only waits. */
  awake(): Watched[] {
    return this.#awake.filter((watched) => watched !== null);
  }

  /** One whose id is not followed; gives it its number. */
  add(watched: Watched): void {
    const number = this.#index.add(watched.id);
    watched.number = number;
    watched.port.followed++;
    // Numbers are given one after the other: no place is left out.
    this.#awake[number] = watched;
  }

  /** Does nothing for one that is not followed any more. */
  remove(watched: Watched): void {
    const { number } = watched;
    if (this.#awake[number] !== watched) return;
    this.#index.remove(number);
    watched.port.followed--;
    this.#leave(number, watched);
  }

  /** Parks it if it only waits; whoever calls is done with the object. */
  park(watched: Watched): void {
    const { number } = watched;
    if (!isParkable(watched) || this.#awake[number] !== watched) return;
    this.#parked.put(watched);
    this.#leave(number, watched);
  }

  /** The object has no number any more: whoever still holds it can do nothing to one that has. */
  #leave(number: number, watched: Watched): void {
    this.#awake[number] = null;
    watched.number = NONE;
  }
}
