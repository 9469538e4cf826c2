// Access tokens of a provider: one fetch for many requests, none handed out that a request could outlive, and no storm of
// fetches when they fail or are refused.
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { lifeMsOf, sendWithToken, TokenCache, tokenIn } from '../../src/rails/token-cache.ts';
import type { Minted, Token, TokenFailure } from '../../src/rails/token-cache.ts';
import { DrivenClock } from './pollers-driven.ts';

const LIFE_MS = 3_600_000;
const ANSWER_MS = 20_000;
const REFUSED: TokenFailure = { type: 'refused', reason: 'wrong key' };

/** A cache whose fetches end when the test says so. */
function heldCache(answerMs = ANSWER_MS) {
  const clock = new DrivenClock(1_772_357_500_000);
  const fetches: ((result: Minted | TokenFailure) => void)[] = [];
  const cache = new TokenCache(() => new Promise((resolve) => fetches.push(resolve)), clock, answerMs);
  /** Ends the last fetch; resolves when that has been taken in. */
  const end = async (result: Minted | TokenFailure): Promise<void> => {
    fetches.at(-1)?.(result);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { clock, fetches, cache, end };
}

const minted = (value: string, lifeMs = LIFE_MS): Minted => ({ type: 'token', value, lifeMs });
function valueOf(token: Token | TokenFailure | Promise<unknown>): string {
  if (token instanceof Promise) return 'fetched';
  return token.type === 'token' ? token.value : token.type;
}

t.test('one fetch for all who ask while it is out, and none while its token is good', async (t) => {
  const { clock, fetches, cache, end } = heldCache();
  const asked = Promise.all([cache.get(), cache.get(), cache.get()]);
  t.equal(fetches.length, 1);
  await end(minted('one'));
  t.same((await asked).map(valueOf), ['one', 'one', 'one']);
  await clock.advance(LIFE_MS * 0.7 - 1, LIFE_MS);
  t.equal(valueOf(cache.get()), 'one');
  t.equal(fetches.length, 1);
});

t.test('it is renewed in time, once, and used meanwhile; not when a request could outlive it', async (t) => {
  const { clock, fetches, cache, end } = heldCache();
  void cache.get();
  await end(minted('one'));
  await clock.advance(LIFE_MS * 0.7, LIFE_MS);
  t.same([valueOf(cache.get()), valueOf(cache.get())], ['one', 'one']);
  t.equal(fetches.length, 2);
  await clock.advance(LIFE_MS * 0.3 - ANSWER_MS - 1, LIFE_MS);
  t.equal(valueOf(cache.get()), 'one', 'the last moment');
  await clock.advance(1);
  const waiting = cache.get();
  t.equal(valueOf(waiting), 'fetched');
  t.equal(fetches.length, 2, 'by the fetch that is out');
  await end(minted('two'));
  t.equal(valueOf(await waiting), 'two');
  t.equal(valueOf(cache.get()), 'two');
});

t.test('a token that lives shorter than a request may take is used while it lives', async (t) => {
  const { clock, cache, end } = heldCache();
  void cache.get();
  await end(minted('short', 10_000));
  t.equal(valueOf(cache.get()), 'short');
  await clock.advance(6_999, 10_000);
  t.equal(valueOf(cache.get()), 'short');
  await clock.advance(1);
  t.equal(valueOf(cache.get()), 'fetched');
});

t.test('after a fetch that failed none is tried for a while', async (t) => {
  const { clock, fetches, cache, end } = heldCache();
  void cache.get();
  await end(REFUSED);
  await clock.advance(LIMITS.railTokenRetryMs - 1, LIMITS.railTokenRetryMs);
  t.equal(valueOf(cache.get()), 'refused');
  t.equal(fetches.length, 1);
  await clock.advance(1);
  t.equal(valueOf(cache.get()), 'fetched');
  t.equal(fetches.length, 2);
  await end(minted('one'));
  t.equal(valueOf(cache.get()), 'one');

  await clock.advance(LIFE_MS * 0.7, LIFE_MS);
  t.equal(valueOf(cache.get()), 'one');
  await end(REFUSED);
  t.same(
    [valueOf(cache.get()), valueOf(cache.get())],
    ['one', 'one'],
    'a good token outlives a failed renewal',
  );
  t.equal(fetches.length, 3);
});

t.test('a refused token is replaced, one that was just made is not', async (t) => {
  const { clock, fetches, cache, end } = heldCache();
  void cache.get();
  await end(minted('one'));
  const one = await cache.get();
  if (one.type !== 'token') throw new Error('there is one');
  await clock.advance(LIMITS.railTokenRetryMs - 1, LIMITS.railTokenRetryMs);
  cache.refuse(one);
  t.equal(valueOf(cache.get()), 'one');
  await clock.advance(1);
  cache.refuse({ ...one });
  t.equal(valueOf(cache.get()), 'one', 'another is not meant');
  cache.refuse(one);
  const another = cache.get();
  t.equal(fetches.length, 2);
  await end(minted('two'));
  t.equal(valueOf(await another), 'two');
  cache.refuse(one);
  t.equal(valueOf(cache.get()), 'two');
});

t.test(
  'it is we that are refused when so many tokens were for so long, and none of them twice',
  async (t) => {
    const { clock, fetches, cache, end } = heldCache();
    const refuseAnother = async (): Promise<void> => {
      void cache.get();
      await end(minted(`token ${fetches.length}`));
      const token = await cache.get();
      if (token.type !== 'token') throw new Error('there is one');
      for (let calls = 0; calls < LIMITS.railTokensRefusedMin; calls++) cache.refuse(token);
      await clock.advance(LIMITS.railTokenRetryMs);
      cache.refuse(token);
    };
    await refuseAnother();
    await clock.advance(2 * LIMITS.railTokensRefusedMs, LIMITS.railTokensRefusedMs);
    t.notOk(cache.refusesAll, 'many calls, and one token');
    cache.letIn();
    const since = clock.now();
    for (let tokens = 0; tokens < LIMITS.railTokensRefusedMin; tokens++) await refuseAnother();
    await clock.advance(since + LIMITS.railTokensRefusedMs - 1 - clock.now(), LIMITS.railTokensRefusedMs);
    t.notOk(cache.refusesAll, 'many tokens, and not for long');
    await clock.advance(1);
    t.ok(cache.refusesAll);
    cache.letIn();
    t.notOk(cache.refusesAll);
  },
);

t.test('a request whose token is refused is sent once more, with another or not at all', async (t) => {
  const answer = (status: number) =>
    ({ type: 'answer', status, contentType: 'application/json', body: '' }) as never;
  for (const status of [401, 403, 200, 500]) {
    const { clock, cache, fetches, end } = heldCache();
    void cache.get();
    await end(minted('one'));
    await clock.advance(LIMITS.railTokenRetryMs, LIMITS.railTokenRetryMs);
    const sent: string[] = [];
    const result = sendWithToken(cache, (token) => {
      sent.push(token);
      return Promise.resolve(answer(token === 'one' ? status : 202));
    });
    await new Promise((resolve) => setImmediate(resolve));
    const isRefusal = status < 404 && status > 400;
    t.equal(fetches.length, isRefusal ? 2 : 1);
    await end(minted('two'));
    t.hasStrict(await result, { type: 'answer', status: isRefusal ? 202 : status });
    t.same(sent, isRefusal ? ['one', 'two'] : ['one']);
  }
  const { cache, end } = heldCache();
  void cache.get();
  await end(minted('one'));
  let sends = 0;
  const refused = await sendWithToken(cache, () => {
    sends++;
    return Promise.resolve(answer(401));
  });
  t.hasStrict(refused, { type: 'token_refused', answer: { status: 401 }, failure: { type: 'unavailable' } });
  t.equal(sends, 1, 'the same again would be refused again');
});

t.test('what was answered is not sent again, although there is a newer token by then', async (t) => {
  const { clock, cache, fetches, end } = heldCache();
  void cache.get();
  await end(minted('one'));
  await clock.advance(LIFE_MS * 0.7, LIFE_MS);
  const sent: string[] = [];
  const result = await sendWithToken(cache, async (token) => {
    sent.push(token);
    await end(minted('two'));
    return { type: 'answer', status: 202, text: '', mayBeCut: false };
  });
  t.hasStrict(result, { type: 'answer', status: 202 });
  t.strictSame(sent, ['one']);
  t.equal(fetches.length, 2);
  t.equal(valueOf(cache.get()), 'two');
});

t.test('without a token nothing is sent, first or again', async (t) => {
  const { clock, cache, end } = heldCache();
  const sent: string[] = [];
  const send = (token: string) => {
    sent.push(token);
    return Promise.resolve({ type: 'answer', status: 401, text: '', mayBeCut: false } as const);
  };
  const first = sendWithToken(cache, send);
  await end(REFUSED);
  t.strictSame(await first, REFUSED);
  t.strictSame(sent, []);

  await clock.advance(LIMITS.railTokenRetryMs, LIMITS.railTokenRetryMs);
  void cache.get();
  await end(minted('one'));
  await clock.advance(LIMITS.railTokenRetryMs, LIMITS.railTokenRetryMs);
  const again = sendWithToken(cache, send);
  await new Promise((resolve) => setImmediate(resolve));
  await end(REFUSED);
  t.hasStrict(await again, { type: 'token_refused', failure: REFUSED });
  t.strictSame(sent, ['one']);
});

t.test('how long a token lives, as providers say it', async (t) => {
  t.equal(lifeMsOf('3600', 60), 3_600_000);
  const senseless = [null, '', '0', '-1', 'soon', 'Infinity'];
  for (const said of senseless) t.equal(lifeMsOf(said, 60), 60_000, String(said));
});

t.test('a refusal that may have been cut off before its page says nothing of our credentials', (t) => {
  for (const status of [400, 401, 403]) {
    for (const [text, mayBeCut, type] of [
      ['', false, 'refused'],
      ['', true, 'unavailable'],
      ['<html>', false, 'unavailable'],
      ['{"error":"invalid_client"}', true, 'refused'],
    ] as const) {
      const failure = tokenIn({ type: 'answer', status, text, mayBeCut }, 60, () => 'told');
      t.hasStrict(failure, { type, reason: 'token: told' }, `${status} ${text} ${mayBeCut}`);
    }
  }
  t.end();
});
