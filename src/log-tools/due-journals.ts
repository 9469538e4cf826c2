// Which journals a transaction has by what became of it, written down a second time: shares no code with what books them.

import type { Journal, LedgerAccount, Reason } from '../domain/ledger.ts';
import type { Transaction } from '../domain/transaction.ts';

/** Debits are above zero, credits below. An account that is moved by zero may be left out. */
type Moves = Readonly<Partial<Record<LedgerAccount, number>>>;

type DueJournal = readonly [reason: Reason, moves: Moves];

/** What is wrong with them; null: nothing. */
export function journalsProblem(transaction: Transaction): string | null {
  const due = dueJournals(transaction);
  const { journals, status } = transaction;
  const [reasons, dueReasons] = [journals.map(({ reason }) => reason), due.map(([reason]) => reason)];
  if (reasons.join() !== dueReasons.join()) {
    return `it is ${status}, for which its journals are ${listOf(dueReasons)}, and it has ${listOf(reasons)}`;
  }
  const wrong = due.find(([, moves], index) => !doesMove(journals[index]!, moves));
  return wrong === undefined ? null : `${wrong[0]} does not move its amount and its fee as it should`;
}

function dueJournals(transaction: Transaction): readonly DueJournal[] {
  const { type, status, amount, fee, released } = transaction;
  const [net, total] = [amount - fee, amount + fee];
  switch (type) {
    case 'CHARGE': {
      if (status !== 'SUCCESSFUL' && status !== 'REVERSED') return [];
      const owed = released ? 'MERCHANT_AVAILABLE' : 'MERCHANT_PENDING';
      const release: DueJournal = ['CHARGE_RELEASED', { MERCHANT_PENDING: net, MERCHANT_AVAILABLE: -net }];
      const reversal: DueJournal = [
        'CHARGE_REVERSED',
        { [owed]: net, FEES_REVENUE: fee, PROVIDER_FLOAT: -amount },
      ];
      return [
        ['CHARGE_SETTLED', { PROVIDER_FLOAT: amount, MERCHANT_PENDING: -net, FEES_REVENUE: -fee }],
        // A fee that takes the whole amount leaves nothing to release.
        ...(released && net !== 0 ? [release] : []),
        ...(status === 'REVERSED' ? [reversal] : []),
      ];
    }
    case 'DEPOSIT':
      if (status !== 'SUCCESSFUL') return [];
      return [['DEPOSIT_SETTLED', { PROVIDER_FLOAT: amount, MERCHANT_AVAILABLE: -amount }]];
    case 'PAYOUT':
    case 'WITHDRAWAL': {
      const hold: DueJournal = [`${type}_HELD`, { MERCHANT_AVAILABLE: total, SETTLEMENT_CLEARING: -total }];
      if (status === 'FAILED') {
        return [hold, [`${type}_RETURNED`, { SETTLEMENT_CLEARING: total, MERCHANT_AVAILABLE: -total }]];
      }
      if (status !== 'SUCCESSFUL') return [hold];
      const payment = { SETTLEMENT_CLEARING: total, PROVIDER_FLOAT: -amount, FEES_REVENUE: -fee };
      return [hold, [`${type}_SETTLED`, payment]];
    }
    case 'REFUND':
      return [];
  }
}

function doesMove({ entries }: Journal, moves: Moves): boolean {
  const left = new Map(Object.entries(moves));
  for (const { account, side, amount } of entries) {
    left.set(account, (left.get(account) ?? 0) - (side === 'DEBIT' ? amount : -amount));
  }
  return [...left.values()].every((amount) => amount === 0);
}

function listOf(reasons: readonly Reason[]): string {
  return reasons.length === 0 ? 'none' : reasons.join(', ');
}
