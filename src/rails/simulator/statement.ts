// The statement of a till, as a network would send it by mail: one line a movement of money, oldest first, a reversal
// as a line of its own. `GET /statement.csv?rail=mtn_ug&from=&to=`; times are ISO 8601, from inclusive, to exclusive.

import { type Answer, json } from './call.ts';
import type { Network } from './network.ts';
import { majorText, type Payment } from './payment.ts';

const STATEMENT_COLUMNS = 'time,type,reference,transaction_id,msisdn,amount,currency';

export function statement(network: Network, query: URLSearchParams): Answer {
  const rail = query.get('rail');
  const from = timeOf(query.get('from'), 0);
  const to = timeOf(query.get('to'), Infinity);
  if (from === null || to === null) return json(400, { error: 'from and to are ISO 8601 times' });

  const lines: { readonly at: number; readonly text: string }[] = [];
  for (const payment of network.all()) {
    if (payment.finishedAt === null || payment.moneyId === null || !payment.accepted) continue;
    if (rail !== null && railOf(payment) !== rail.toLowerCase()) continue;
    const sign = payment.kind === 'collect' ? 1 : -1;
    addLine(payment, payment.finishedAt, payment.kind, sign * (payment.amountMoved ?? payment.amount));
    if (payment.reversedAt !== null) addLine(payment, payment.reversedAt, 'reversal', -sign * payment.amount);
  }

  function addLine(payment: Payment, at: number, type: string, amount: number): void {
    if (at < from! || at >= to!) return;
    const { provider, externalId, reference, moneyId, msisdn, currency } = payment;
    const ours = provider === 'mtn' ? externalId : reference;
    const fields = [new Date(at).toISOString(), type, ours, moneyId, msisdn, majorText(amount), currency];
    lines.push({ at, text: fields.map((field) => quoted(field ?? '')).join(',') });
  }

  lines.sort((a, b) => a.at - b.at);
  const body = `${[STATEMENT_COLUMNS, ...lines.map(({ text }) => text)].join('\n')}\n`;
  return { status: 200, contentType: 'text/csv; charset=utf-8', body };
}

function railOf({ provider, till }: Payment): string {
  return `${provider}_${till.country.toLowerCase()}`;
}

function timeOf(text: string | null, fallback: number): number | null {
  if (text === null || text === '') return fallback;
  const time = Date.parse(text);
  return Number.isNaN(time) ? null : time;
}

function quoted(field: string): string {
  return /[",\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}
