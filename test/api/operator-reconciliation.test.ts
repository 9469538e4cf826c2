// Reconciliation items: listed in one order, resolved once, counted for `/metrics` whatever becomes of the process.
import { equal, ok } from 'node:assert/strict';
import t from 'tap';
import { type Bus, partitionOf, request } from '../../src/bus/bus.ts';
import type { ReconciliationKind } from '../../src/domain/account-event.ts';
import { startOperator } from './operator-harness.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const dir = temporaryDirectory(t);
let operator = await startOperator(dir);
t.teardown(() => operator.stop());

async function newAccount(): Promise<string> {
  const { status, body } = await operator.call('POST', '/accounts', {
    name: 'Kampala Coffee',
    country: 'UG',
  });
  equal(status, 201);
  return body.id as string;
}

/** An item for each of these accounts, in turn. */
async function raiseFor(accounts: readonly string[]): Promise<void> {
  for (const [at, id] of accounts.entries()) {
    await request(operator.bus, 'accounts', partitionOf(id, operator.bus.partitions('accounts')), {
      type: 'RaiseReconciliation',
      accountId: id,
      kind: 'CONTRADICTION',
      transactionId: null,
      detail: `Paid ${at} times.`,
      deadline: Date.now() + 5_000,
    });
  }
}

/** Of all pages of a list. */
async function idsOf(query: string): Promise<string[]> {
  const ids: string[] = [];
  for (let after = ''; ;) {
    const { body } = await operator.call('GET', `/reconciliation?${query}${after}`);
    const onPage: string[] = body.data.map((item: { id: string }) => item.id);
    ok(onPage.length <= Number(/limit=(\d+)/.exec(query)![1]), 'as many as were asked for, at most');
    ids.push(...onPage);
    equal(body.has_more, body.next_cursor !== null);
    if (!body.has_more) return ids;
    after = `&starting_after=${body.next_cursor}`;
  }
}

t.test('a trial balance and a reconciliation list are there from the start', async (t) => {
  const id = await newAccount();
  t.hasStrict((await operator.call('GET', `/accounts/${id}/trial_balance`)).body, {
    account_id: id,
    balanced: true,
  });
  const raise = { type: 'RaiseReconciliation', accountId: id, kind: 'CONTRADICTION', transactionId: null };
  const { bus } = operator;
  const message = { ...raise, detail: 'Paid twice.', deadline: Date.now() + 5_000 };
  await request(bus, 'accounts', partitionOf(id, bus.partitions('accounts')), message);

  const all = await operator.call('GET', '/reconciliation?open=true');
  t.match(all.body.data, [{ id: /^rec_/, account_id: id, kind: 'CONTRADICTION', resolved_at: null }]);
  const of = await operator.call('GET', `/reconciliation?account=${id}`);
  t.strictSame(of.body.data, all.body.data);
  const mistyped = id.slice(0, -1) + (id.endsWith('0') ? '1' : '0');
  t.equal((await operator.call('GET', `/reconciliation?account=${mistyped}`)).body.error?.code, 'not_found');
  const resolve = { account_id: id, resolution: 'Paid back by hand.', by: 'amina' };
  const path = `/reconciliation/${all.body.data[0].id}/resolve`;
  t.hasStrict((await operator.call('POST', path, resolve)).body, {
    resolved_by: 'amina',
    resolution: resolve.resolution,
  });
  t.hasStrict(await operator.call('POST', path, { ...resolve, resolution: 'Other.' }), {
    status: 409,
    body: { error: { code: 'conflict', param: null } },
  });
  t.strictSame((await operator.call('GET', '/reconciliation?open=true')).body.data, []);
  for (const query of ['', '?open=false']) {
    const { body } = await operator.call('GET', `/reconciliation${query}`);
    t.hasStrict(body.data, [{ id: all.body.data[0].id, resolved_by: 'amina' }], query);
  }
});

t.test(
  'reconciliation items are in one order, of one account or of all, also within a millisecond',
  async (t) => {
    const id = await newAccount();
    const partition = partitionOf(id, operator.bus.partitions('accounts'));
    const raise = { type: 'RaiseReconciliation', accountId: id, kind: 'CONTRADICTION', transactionId: null };
    await Promise.all(
      Array.from({ length: 20 }, (_, i) => {
        const message = { ...raise, detail: `Paid ${i} times.`, deadline: Date.now() + 5_000 };
        return request(operator.bus, 'accounts', partition, message);
      }),
    );
    const list = async (query: string): Promise<{ id: string; account_id: string; raised_at: string }[]> =>
      (await operator.call('GET', `/reconciliation?limit=100${query}`)).body.data;
    const own = await list(`&account=${id}`);
    t.equal(own.length, 20);
    t.strictSame(
      own.map((item) => item.id),
      own
        .map((item) => item.id)
        .sort()
        .reverse(),
    );
    const all = await list('');
    t.strictSame(
      all.filter((item) => item.account_id === id),
      own,
    );
    const { body: page } = await operator.call('GET', '/reconciliation?limit=3');
    t.strictSame(page.data, all.slice(0, 3));
    for (const item of own) {
      const how = { account_id: id, resolution: 'Paid back by hand.' };
      equal((await operator.call('POST', `/reconciliation/${item.id}/resolve`, how)).status, 200);
    }
  },
);

t.test(
  'the pages of all accounts together are the whole list, and so are those of what is open',
  async (t) => {
    const accounts = [await newAccount(), await newAccount(), await newAccount()];
    await raiseFor([...accounts, ...accounts, ...accounts]);
    for (const filter of ['', 'open=true&', `account=${accounts[1]}&`]) {
      const whole = await idsOf(`${filter}limit=100`);
      t.ok(whole.length >= 3);
      t.strictSame(whole, whole.toSorted().reverse());
      for (const limit of [1, 2, 7]) t.strictSame(await idsOf(`${filter}limit=${limit}`), whole);
    }
    t.hasStrict(await operator.call('GET', '/reconciliation?starting_after=chg_1'), {
      status: 400,
      body: { error: { code: 'invalid_cursor', param: 'starting_after' } },
    });
    for (const open of ['1', 'TRUE', '']) {
      t.hasStrict(await operator.call('GET', `/reconciliation?open=${open}`), {
        status: 400,
        body: { error: { code: 'validation_failed', param: 'open' } },
      });
    }
  },
);

t.test('the pages are the whole list also where some partitions end theirs early', async (t) => {
  const accounts: string[] = [];
  const isEarly = (partition: number): boolean => partition % 2 === 1;
  const where = (id: string): boolean => isEarly(partitionOf(id, operator.bus.partitions('accounts')));
  while (new Set(accounts.map(where)).size < 2) accounts.push(await newAccount());
  await raiseFor([...accounts, ...accounts, ...accounts]);
  const whole = await idsOf('limit=100');
  const send = operator.bus.send.bind(operator.bus);
  t.intercept(operator.bus, 'send', {
    value: (...[group, partition, message, onReply]: Parameters<Bus['send']>) =>
      send(group, partition, message, (reply) => {
        // As after so many rows that were not wanted.
        const isCut = message.type === 'ListReconciliation' && isEarly(partition) && reply.type === 'done';
        if (!isCut) return onReply(reply);
        const page = JSON.parse(reply.body) as { data: { id: string }[]; next: string | null };
        const data = page.data.slice(0, 1);
        onReply({ ...reply, body: JSON.stringify({ ...page, data, next: data[0]?.id ?? page.next }) });
      }),
  });
  for (const limit of [2, 100]) t.strictSame(await idsOf(`limit=${limit}`), whole);
});

t.test('reconciliation items are counted by kind, open and raised, also over a restart', async (t) => {
  const id = await newAccount();
  const partition = partitionOf(id, operator.bus.partitions('accounts'));
  const raise = (kind: ReconciliationKind): Promise<unknown> =>
    request(operator.bus, 'accounts', partition, {
      type: 'RaiseReconciliation',
      accountId: id,
      kind,
      transactionId: null,
      detail: 'Paid twice.',
      deadline: Date.now() + 5_000,
    });
  const counted = async (what: string): Promise<number[]> => {
    const { text } = await operator.call('GET', '//metrics');
    return ['AMOUNT_MISMATCH', 'UNKNOWN_REFERENCE'].map((kind) => {
      const line = new RegExp(`^daftari_reconciliation_${what}\\{kind="${kind}"\\} (\\d+)$`, 'm');
      return Number(line.exec(text)?.[1]);
    });
  };
  t.strictSame(await counted('open'), [0, 0], 'there before there is one');
  for (const kind of ['AMOUNT_MISMATCH', 'AMOUNT_MISMATCH', 'UNKNOWN_REFERENCE'] as const) await raise(kind);
  t.strictSame(
    [await counted('open'), await counted('raised_total')],
    [
      [2, 1],
      [2, 1],
    ],
  );
  const resolve = async (kind: string): Promise<void> => {
    const { body } = await operator.call('GET', `/reconciliation?account=${id}&open=true`);
    const item = body.data.find((each: { kind: string }) => each.kind === kind);
    const how = { account_id: id, resolution: 'Paid back by hand.' };
    equal((await operator.call('POST', `/reconciliation/${item.id}/resolve`, how)).status, 200);
  };
  await resolve('UNKNOWN_REFERENCE');
  t.strictSame(
    [await counted('open'), await counted('raised_total')],
    [
      [2, 0],
      [2, 1],
    ],
  );

  await operator.handOver(partition);
  t.strictSame(
    [await counted('open'), await counted('raised_total')],
    [
      [0, 0],
      [2, 1],
    ],
    'what was counted does not go with the partition',
  );
  await operator.stop();
  operator = await startOperator(dir);
  t.strictSame(
    [await counted('open'), await counted('raised_total')],
    [
      [2, 0],
      [0, 0],
    ],
  );
  await resolve('AMOUNT_MISMATCH');
  t.strictSame(await counted('open'), [1, 0], 'one that was raised before the restart');
});

t.test('a list of all accounts is whole, or it is refused', async (t) => {
  const accounts = { served: '', away: '' };
  while (accounts.served === '' || accounts.away === '') {
    const id = await newAccount();
    accounts[partitionOf(id, operator.bus.partitions('accounts')) === 1 ? 'away' : 'served'] = id;
  }
  operator.bus.attach('accounts', 1, undefined);
  const { status, body } = await operator.call('GET', '/reconciliation');
  t.equal(status, 503);
  t.match(body.error.message, /^Some partitions do not answer: `account` asks for the items of one account/);
  t.equal((await operator.call('GET', `/reconciliation?account=${accounts.served}`)).status, 200);
  t.equal((await operator.call('GET', `/reconciliation?account=${accounts.away}`)).status, 503);
});
