// What must be true after a load: what was acknowledged exists, what was sent again is answered as before, and all money
// adds up. Checks say what they saw; they never throw because of it.

import { severalAtOnce } from '../src/several-at-once.ts';
import type { Check, Load } from './result.ts';
import { parseApiKey } from '../src/http/api-key.ts';
import { getAs, sendOnce } from './load/send-once.ts';
import { isCreate, kindOf, linesOf, RequestMaker, targetsOf, type Work } from './load/work.ts';
import type { Driven } from './load/drive.ts';
import type { Server } from './servers/server.ts';
import type { Service } from './servers/start-service.ts';

const AT_ONCE = 32;
/** A request may be overtaken by so many turns of the other connections before it is taken as answered. */
const UNSURE_TURNS = 8;
const ACCOUNTS_BALANCED = 200;
const PAGE_ROWS = 100;

/** No two of the ids that a load was acknowledged, or that it read, are the same, and every so many-th names an object: a status
 *  alone does not. One that is another's is there, too, and a create lost and one made twice are together as many as were sent. */
export async function checkIds(
  how: 'acknowledged' | 'read',
  server: Server,
  work: Work,
  idsFile: string,
  countMax: number,
): Promise<Check> {
  const all = targetsOf(idsFile, linesOf(work.keysFile));
  const chosen = spread(all, countMax);
  const again = all.length - new Set(all.map(({ id }) => id)).size;
  const missing: string[] = [];
  const nameless = all.filter(({ id }) => id === '').length;
  await severalAtOnce(AT_ONCE, chosen, async ({ key, id }) => {
    const path = id.startsWith('pyt_') ? 'payouts' : 'charges';
    const response = await getAs(server, key, `/v1/${path}/${id}`);
    const found = (await response.json()) as { id?: string };
    if (found.id !== id) missing.push(id);
  });
  return {
    what: `${how} ids exist`,
    // Of none nothing is known.
    passed: all.length > 0 && missing.length === 0 && again === 0 && nameless === 0,
    detail: `${chosen.length - missing.length} of ${chosen.length} found, of ${all.length} ${how}${again === 0 ? '' : `, ${again} of them another's`}${nameless === 0 ? '' : `, ${nameless} answers without one`}${first(missing)}`,
  };
}

/** Creates that a driver sent, sent once more, are answered as replays. For drivers that keep no ids. */
export async function checkReplays(
  server: Server,
  work: Work,
  driven: Driven,
  countMax: number,
): Promise<Check> {
  const maker = new RequestMaker(work, `${server.host}:${server.port}`);
  const sent = createsOf(work, driven);
  const creates = sent.filter((counter) => isSure(driven, counter));
  const chosen = spread(creates, countMax);
  const wrong: string[] = [];
  await severalAtOnce(AT_ONCE, chosen, async (counter) => {
    const { status, replayed } = await sendOnce(server, maker, counter);
    if (status !== 201 || !replayed) wrong.push(`request ${counter}: ${status}`);
  });
  return {
    what: 'creates sent again are replays',
    // A load too short for wrk to be sure of any proves nothing.
    passed: chosen.length > 0 && wrong.length === 0,
    detail:
      chosen.length === 0
        ? `none of ${sent.length} sent is certain to have been answered: measure longer (--seconds), or with fewer connections`
        : `${chosen.length - wrong.length} of ${chosen.length} replayed, of ${creates.length} sent${first(wrong)}`,
  };
}

/** Of all creates, not of some: neither lost nor made twice, but for those whose answer nobody waited for. */
export function checkMade(work: Work, driven: Driven): Check {
  const { sent, answered, made } = driven;
  const creates = createsOf(work, driven).length;
  const unsure = sent - answered;
  return {
    what: 'every create was made once',
    passed: made <= creates && made >= creates - unsure,
    detail: `${made} made of ${creates} sent${unsure === 0 ? '' : `; ${unsure} requests without a 2xx`}`,
  };
}

/** A work and what came of it. */
export interface Done {
  readonly work: Work;
  readonly driven: Driven;
}

/** Of all creates, by their references in the lists of whoever sent them: a create lost and one made twice are together as many
 *  as were sent. `all`: the last loads that created, the first of them first, with none between. */
export async function checkListed(server: Server, all: readonly Done[]): Promise<Check> {
  const loads = all.map(({ work, driven }) => ({
    work,
    driven,
    keys: linesOf(work.keysFile),
    times: new Uint8Array(driven.sent),
  }));
  const byPrefix = new Map(loads.map((load) => [load.work.prefix, load]));
  const wrong: string[] = [];
  await severalAtOnce(AT_ONCE, [...new Set(loads.flatMap(({ keys }) => keys))], async (key) => {
    for await (const reference of newestReferences(server, key, wrong)) {
      const split = reference.lastIndexOf('-');
      const load = byPrefix.get(reference.slice(0, split));
      if (load === undefined) return;
      const { keys, times } = load;
      const counter = Number(reference.slice(split + 1));
      if (keys[counter % keys.length] !== key) wrong.push(`${reference} is in another's list`);
      if (counter >= times.length) wrong.push(`${reference} was not sent`);
      else if (++times[counter]! === 2) wrong.push(`${reference} was made twice`);
    }
  });
  let listed = 0;
  let sent = 0;
  for (const { work, driven, times } of loads) {
    const creates = createsOf(work, driven);
    const missing = creates.filter((counter) => times[counter] === 0);
    const lost = missing.find((counter) => isSure(driven, counter));
    if (lost !== undefined) wrong.push(`request ${lost} of ${work.prefix} is not there`);
    const unsure = driven.sent - driven.answered;
    if (missing.length > unsure) wrong.push(`${missing.length} of ${work.prefix} are not there`);
    sent += creates.length;
    listed += creates.length - missing.length;
  }
  return {
    what: 'every create is listed once',
    passed: listed > 0 && wrong.length === 0,
    detail: `${listed} listed of ${sent} sent${first(wrong)}`,
  };
}

/** A page that is refused is wrong. */
async function* newestReferences(server: Server, key: string, wrong: string[]): AsyncGenerator<string> {
  let after = '';
  for (;;) {
    const response = await getAs(server, key, `/v1/transactions?limit=${PAGE_ROWS}${after}`);
    if (!response.ok) {
      wrong.push(`a page of a list: ${response.status} ${await response.text()}`);
      return;
    }
    const page = (await response.json()) as Page;
    for (const { reference } of page.data) yield reference;
    if (page.next_cursor === null) return;
    after = `&starting_after=${encodeURIComponent(page.next_cursor)}`;
  }
}

interface Page {
  readonly data: readonly { readonly reference: string }[];
  readonly next_cursor: string | null;
}

export async function checkTrialBalances(service: Service, keysFile: string): Promise<Check> {
  const keys = spread(linesOf(keysFile), ACCOUNTS_BALANCED);
  const wrong: string[] = [];
  await severalAtOnce(AT_ONCE, keys, async (key) => {
    const { accountId } = parseApiKey(key)!;
    const path = `/accounts/${accountId}/trial_balance`;
    const { data } = (await service.operator('GET', path)) as { data: { currency: string; sum: string }[] };
    for (const { currency, sum } of data) if (sum !== '0') wrong.push(`${accountId}: ${sum} ${currency}`);
  });
  return {
    what: 'trial balances are zero',
    passed: wrong.length === 0,
    detail: `${keys.length} accounts${first(wrong)}`,
  };
}

/** There were answers, none refused, and every request had its own. */
export function checkAnswers({ label, statuses, errors }: Load): Check {
  const refused = Object.entries(statuses).filter(([status]) => !status.startsWith('2'));
  const failed = Object.entries(errors);
  const answers = Object.values(statuses).reduce((sum, count) => sum + count, 0);
  return {
    what: `${label}: every answer is a 2xx`,
    passed: answers > 0 && refused.length === 0 && failed.length === 0,
    detail:
      [...refused, ...failed].map(([what, count]) => `${what}: ${count}`).join(', ') ||
      (answers > 0 ? 'none refused, no error' : 'there was none'),
  };
}

/** Numbers of the creates that were begun. */
function createsOf(work: Work, { sent }: Driven): number[] {
  return Array.from({ length: sent }, (_, counter) => counter).filter((counter) =>
    isCreate(kindOf(work, counter)),
  );
}

/** Its answer was waited for. */
function isSure({ brokeOffAt, load }: Driven, counter: number): boolean {
  const margin = UNSURE_TURNS * load.connections;
  return brokeOffAt.every((end) => counter >= end || counter < end - margin);
}

/** At most `countMax`, evenly spread, the last among them. */
export function spread<Item>(items: readonly Item[], countMax: number): Item[] {
  if (items.length <= countMax) return [...items];
  return Array.from(
    { length: countMax },
    (_, n) => items[Math.floor(((n + 1) * items.length) / countMax) - 1]!,
  );
}

function first(problems: readonly string[]): string {
  return problems.length === 0 ? '' : `; first: ${problems[0]}`;
}
