// Bearer tokens of one protocol: minted for a holder, checked, and dead when their time is over.

import { randomBytes } from 'node:crypto';
import { LIMITS } from '../../limits.ts';

interface Token<Holder> {
  readonly holder: Holder;
  readonly expiresAt: number;
}

export class Tokens<Holder> {
  readonly lifeSeconds: number;
  /** How many were ever minted: tests count them. */
  minted = 0;
  /** A new one revokes that which the same credentials had before. */
  oneEach = false;
  readonly #tokens = new Map<string, Token<Holder>>();
  /** The newest token of each set of credentials. */
  readonly #newest = new WeakMap<object, string>();

  constructor(lifeSeconds: number) {
    this.lifeSeconds = lifeSeconds;
  }

  /** `credentials`: whose token it is. */
  mint(holder: Holder, credentials: object): string {
    const token = randomBytes(24).toString('base64url');
    const before = this.#newest.get(credentials);
    if (this.oneEach && before !== undefined) this.#tokens.delete(before);
    this.#newest.set(credentials, token);
    this.#tokens.set(token, { holder, expiresAt: Date.now() + this.lifeSeconds * 1_000 });
    this.minted++;
    if (this.#tokens.size > LIMITS.simulatorTokensMax) {
      for (const oldest of this.#tokens.keys()) {
        this.#tokens.delete(oldest);
        break;
      }
    }
    return token;
  }

  /** Undefined: no such token, or it is over. */
  holderOf(authorization: string | undefined): Holder | undefined {
    if (authorization === undefined || !authorization.startsWith('Bearer ')) return undefined;
    const token = this.#tokens.get(authorization.slice('Bearer '.length));
    return token === undefined || token.expiresAt <= Date.now() ? undefined : token.holder;
  }

  expireAll(): void {
    this.#tokens.clear();
  }
}
