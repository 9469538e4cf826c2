// Everything that callers could be shown of a data directory's log, rebuilt from the log alone: what a golden log is held
// against. By what is promised outwards, not by rows: those may change.

import { decodeAccount } from '../../actors/accounts/rows.ts';
import { decodeTransaction } from '../../actors/accounts/transaction-row.ts';
import type { Message, Reply } from '../../src/bus/bus.ts';
import {
  renderAccount,
  renderBalances,
  renderPayoutDestinations,
  renderTrialBalance,
} from '../../src/domain/render/account.ts';
import { renderAnswer, renderCurrent, renderDetail } from '../../src/domain/render/render.ts';
import { groupOf } from '../../src/log-tools/data.ts';
import type { Rebuild } from '../../src/log-tools/rebuild.ts';
import { withRebuilt } from './versions.ts';

export interface State {
  readonly accounts: Record<string, object>;
  readonly transactions: Record<string, object>;
  readonly reconciliation: unknown[];
  readonly deliveries: Record<string, unknown>;
  readonly platform: object;
}

/** `ends`: the last sequence to apply, by "group/partition"; to the end when not named. */
export async function stateOf(
  directory: string,
  ends: Readonly<Record<string, number>> = {},
): Promise<State> {
  const state: State = { accounts: {}, transactions: {}, reconciliation: [], deliveries: {}, platform: {} };
  await withRebuilt(directory, ends, (views, names) => {
    for (const { group, partition } of names) add(state, views, group, partition);
  });
  return state;
}

function add(state: State, views: Rebuild['views'], group: string, partition: number): void {
  const sequence = views.position(group, partition)?.sequence ?? 0;
  const logic = groupOf(group).open(partition, views.reader(group, partition), { sequence, writesRows: false });
  const ask = (message: object): unknown => {
    const { reply } = logic.query({ deadline: Infinity, ...message } as Message as never, 0);
    return bodyOf(reply);
  };
  const page = { limit: 1_000, startingAfter: null };
  if (group === 'platform') {
    Object.assign(state.platform, {
      accounts: ask({ type: 'ListAccounts', ...page }),
      audit: ask({ type: 'GetAudit', ...page }),
    });
    return;
  }
  for (const { table, value } of views.rows(group, partition)) {
    if (table === 'account') addAccount(state, value ?? '');
    if (table === 'transaction') addTransaction(state, value ?? '');
    if (table === 'endpoint') {
      const { accountId } = JSON.parse(value ?? '') as { accountId: string };
      state.deliveries[accountId] = ask({
        type: 'ListDeliveries',
        accountId,
        appId: null,
        status: null,
        ...page,
      });
    }
  }
  if (group === 'accounts') {
    const { data } = ask({ type: 'ListReconciliation', accountId: '', open: false, limit: 1_000 }) as {
      data: unknown[];
    };
    state.reconciliation.push(...data);
  }
}

function addAccount(state: State, row: string): void {
  const account = decodeAccount(row);
  state.accounts[account.id] = {
    account: JSON.parse(renderAccount(account)),
    balances: JSON.parse(renderBalances(account)),
    payout_destinations: JSON.parse(renderPayoutDestinations(account)),
    trial_balance: JSON.parse(renderTrialBalance(account)),
  };
}

function addTransaction(state: State, row: string): void {
  const transaction = decodeTransaction(row);
  state.transactions[transaction.id] = {
    object: JSON.parse(renderCurrent(transaction)),
    detail: JSON.parse(renderDetail(transaction)),
    // Byte for byte what a replay of the create call is answered.
    answer: transaction.answeredAt === null ? null : renderAnswer(transaction),
  };
}

function bodyOf(reply: Reply): unknown {
  if (reply.type !== 'done') throw new Error(`not answered: ${JSON.stringify(reply)}`);
  return JSON.parse(reply.body);
}
