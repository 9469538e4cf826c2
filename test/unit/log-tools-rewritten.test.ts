// What a log says that is cut off and written anew while it is read is of one history of it, and no fault.
import t from 'tap';
import { encodeRecord } from '../../src/domain/event-codec.ts';
import { bodyOf, encodeTime, makeId, timeOf } from '../../src/domain/id.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { Rebuild } from '../../src/log-tools/rebuild.ts';
import { LogReader, untilUnchanged } from '../../wal/log-reader.ts';
import { ViewStore } from '../../wal/views.ts';
import { ACCOUNT, charge, merchant, opened, START } from './domain/scenario.ts';
import { quiet, runTool } from './wal/run-tool.ts';
import { BATCHES, CUT, PLACE, rewrite, rewrittenDuring, written } from './wal/rewriting.ts';
import type { RecordsOf } from './wal/rewriting.ts';

const { group, partition } = PLACE;
/** Of the event loop: about as many as reading all of it takes. */
const TURNS = 20;
/** Of a batch: the whole log takes more than one commit of views. */
const ACCOUNTS = 4;

const first = merchant();
const paid = first.create(charge());

/** A charge, and then accounts that each history has of its own. */
const accounts: RecordsOf = (history, batch) => {
  if (batch === 1) return first.lines;
  return Array.from({ length: ACCOUNTS }, (_, index) => {
    const time = encodeTime(START + history);
    const accountId = makeId('account', `${time}${String(batch * ACCOUNTS + index).padStart(16, '0')}`);
    return encodeRecord({ accountId, at: START, events: [opened] });
  });
};

/** Histories that accounts are of which were opened in what is cut off again and again. */
function historiesIn(views: ViewStore): Set<number> {
  const opened = [...views.rows(group, partition)].filter(({ table }) => table === 'account');
  const ids = opened.map(({ key }) => key).filter((id) => id !== ACCOUNT);
  const cut = ids.filter((id) => Number(bodyOf(id).slice(-16)) >= (BATCHES - CUT + 1) * ACCOUNTS);
  return new Set(cut.map((id) => timeOf(id) - START));
}

t.test('what is rebuilt of a log that is rewritten under it is one history of it', async (t) => {
  const { directory, log } = await written(BATCHES, accounts);
  const reader = LogReader.openReader({ directory });
  t.teardown(() => Promise.all([reader.close(), log.close()]));
  for (let turns = 0; turns < TURNS; turns += 1) {
    const histories = await rewrittenDuring(
      log,
      turns,
      () =>
        untilUnchanged(async () => {
          const rebuild = Rebuild.inScratch(reader, null, quiet);
          try {
            reader.refresh();
            const fault = await rebuild.advance(PLACE, reader.tip(group, partition).sequence);
            t.equal(fault, null);
            return historiesIn(rebuild.views);
          } finally {
            await rebuild.close();
          }
        }),
      accounts,
    );
    // None: between the cut and what is written anew.
    t.ok(histories.size <= 1, [...histories].join(' and '));
  }
});

t.test('replay and inspect find nothing wrong with a log that is rewritten under them', async (t) => {
  const { directory, log } = await written(BATCHES, accounts);
  t.teardown(() => log.close());
  for (const asked of [['replay'], ['inspect', '--transaction', paid.id]]) {
    for (let turns = 0; turns < TURNS; turns += 1) {
      const look = (): ReturnType<typeof runTool> => runTool(logTools, ...asked, '--data', directory);
      const { status, out, err } = await rewrittenDuring(log, turns, look, accounts);
      t.equal(status, 0, out + err);
    }
  }
});

t.test('a checkpoint that is removed before what it was made from is no fault', async (t) => {
  const { directory, log } = await written(BATCHES, accounts);
  const views = ViewStore.open({ directory });
  t.teardown(() => Promise.all([views.close(), log.close()]));
  for (let turns = 0; turns < TURNS; turns += 1) {
    const rebuilding = Rebuild.inScratch(log, null, quiet);
    log.refresh();
    const tip = log.tip(group, partition);
    t.equal(await rebuilding.advance(PLACE, tip.sequence), null);
    rebuilding.views.refresh();
    await views.commit(group, partition, tip, [...rebuilding.views.rows(group, partition)]);
    await rebuilding.close();
    const verifying = runTool(logTools, 'replay', '--verify', '--data', directory);
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    await views.drop(group, partition);
    await rewrite(log, CUT, CUT, accounts);
    const { status, out, err } = await verifying;
    t.equal(status, 0, out + err);
  }
});
