// A transaction's story for a terminal: what a merchant chose cannot look like a line of it.
import t from 'tap';
import { storyLines } from '../../src/log-tools/story-text.ts';
import type { Story } from '../../src/log-tools/story.ts';

const FORGED = 'top-up\n2026-11-24T00:00:00.000Z  accounts/1  sequence 9, batch 9';

t.test('texts of more than a word are quoted, on one line', async (t) => {
  const event = { type: 'ChargeCreated', at: 1, id: 'chg_1', description: FORGED, reference: 'order-1' };
  const status = { status: 'FAILED', at: 1, source: 'PROVIDER', providerStatus: null, message: FORGED };
  const place = { group: 'accounts', partition: 1, batch: 1, sequence: 1, at: 1 };
  const chapter = { ...place, events: [event], statuses: [status], journals: [] };
  const told = { transactionId: 'chg_1', accountId: 'acc_1', partition: 1, chapters: [chapter] };
  const lines = storyLines({ ...told, detail: { transaction: {} } } as unknown as Story);
  t.strictSame(
    lines.filter((line) => line.includes('\n')),
    [],
  );
  t.strictSame(lines.slice(-2), [
    `    ChargeCreated: description ${JSON.stringify(FORGED)}, reference order-1`,
    `    → FAILED (PROVIDER: ${JSON.stringify(FORGED)})`,
  ]);
});
