// The transactions that one partition of the pollers follows, by id and by number. What only waits is parked, and becomes an
// object again when somebody asks for it.

import { IdIndex, NONE } from './id-index.ts';
import { isParkable, Parked } from './parked.ts';
import type { Port } from './rail-lane.ts';
import type { Watched } from './watched.ts';

export class Followed {
  /** Those that are objects, by number. */
  readonly #awake = new Map<number, Watched>();
  readonly #parked: Parked;
  readonly #index = new IdIndex((number) => this.#awake.get(number)?.id ?? this.#parked.idOf(number));

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
    const awake = this.#awake.get(number);
    if (awake !== undefined) return awake;
    const watched = this.#parked.take(number);
    this.#awake.set(number, watched);
    return watched;
  }

  /** Whoever is no object only waits. */
  awake(): Iterable<Watched> {
    return this.#awake.values();
  }

  /** One whose id is not followed; gives it its number. */
  add(watched: Watched): void {
    watched.number = this.#index.add(watched.id);
    this.#awake.set(watched.number, watched);
  }

  /** Does nothing for one that is not followed any more. */
  remove(watched: Watched): void {
    if (this.#awake.get(watched.number) !== watched) return;
    this.#index.remove(watched.number);
    this.#awake.delete(watched.number);
    watched.number = NONE;
  }

  /** Parks it if it only waits; whoever calls is done with the object. */
  park(watched: Watched): void {
    if (!isParkable(watched) || this.#awake.get(watched.number) !== watched) return;
    this.#parked.put(watched);
    this.#awake.delete(watched.number);
  }
}
