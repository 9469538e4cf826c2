// The page at the simulator's root: the last transactions, with buttons so that a person can play the customer, and the
// numbers that misbehave. Plain HTML and forms; it refreshes itself.

import { type Answer, type Call, html, json } from './call.ts';
import type { Network } from './network.ts';
import { behaviourOfNumber } from './number-table.ts';
import { majorText, type Payment } from './payment.ts';
import { actOn, newest } from './portal.ts';

const ROWS = 50;
const REFRESH_SECONDS = 3;

export function page(network: Network): Answer {
  const { pending, submitted } = network.counts();
  const payments = newest(network, ROWS);
  const rows = payments.map(row).join('\n');
  const none = '<tr><td colspan="8">None yet. Create a charge, and it appears here.</td></tr>';
  return html(
    200,
    `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="${REFRESH_SECONDS}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Provider simulator</title>
<style>${STYLE}</style>
</head>
<body>
<h1>Provider simulator</h1>
<p>MTN MoMo and Airtel Open API. ${submitted} submitted since the start, ${pending} waiting. A customer approves by
himself after ${network.approveAfterMs / 1_000} s unless the number ends in one of those below.
<a href="/statement.csv">Statement</a></p>
<table>
<thead><tr><th>Time</th><th>Network</th><th>What</th><th>Number</th><th class="amount">Amount</th><th>Behaviour</th>
<th>State</th><th></th></tr></thead>
<tbody>
${rows === '' ? none : rows}
</tbody>
</table>
<h2>Numbers that misbehave</h2>
<table class="numbers"><thead><tr><th>Ends in</th><th>Collect</th><th>Send</th></tr></thead><tbody>
${NUMBERS}
</tbody></table>
</body>
</html>
`,
  );
}

/** The buttons: acts, then back to the page. */
export function act(network: Network, { path }: Call): Answer {
  const [, number = '', action = ''] = /^\/transactions\/(\d+)\/(\w+)$/.exec(path) ?? [];
  const payment = network.byNumber(Number(number));
  if (payment === undefined) return json(404, { error: 'no such transaction' });
  // Too late is no error: the page shows what it has become.
  actOn(network, payment, action);
  return { status: 303, contentType: null, body: '', location: '/' };
}

function row(payment: Payment): string {
  const { number, provider, kind, msisdn, state, reason, till } = payment;
  const time = new Date(payment.createdAt).toISOString().slice(11, 19);
  const why = reason === null ? '' : ` <small>${escaped(reason.code)}</small>`;
  const shown = payment.accepted || payment.behaviour.answer === 'refused' ? state : 'not accepted';
  return `<tr><td>${time}</td><td>${provider.toUpperCase()} ${escaped(till.country)}</td><td>${kind}</td>
<td>${escaped(msisdn)}</td><td class="amount">${majorText(payment.amount)} ${escaped(payment.currency)}</td>
<td>${escaped(payment.behaviour.name)}</td><td class="${state}">${shown}${why}</td>
<td>${buttons(payment)
    .map(
      (action) =>
        `<form method="post" action="/transactions/${number}/${action}"><button>${action}</button></form>`,
    )
    .join('')}</td></tr>`;
}

function buttons({ state, accepted }: Payment): string[] {
  if (!accepted) return [];
  if (state === 'pending') return ['approve', 'decline'];
  return state === 'succeeded' ? ['reverse'] : [];
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const NUMBERS = Array.from({ length: 100 }, (_, digits) => String(digits).padStart(2, '0'))
  .map((digits) => ({
    digits,
    collect: behaviourOfNumber(digits, 'collect').name,
    send: behaviourOfNumber(digits, 'send').name,
  }))
  .filter(({ collect, send }) => collect !== 'approves' || send !== 'approves')
  .map(({ digits, collect, send }) => `<tr><td>${digits}</td><td>${collect}</td><td>${send}</td></tr>`)
  .join('\n');

const STYLE = `
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1c1e21; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; } .numbers { width: auto; }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid #e4e6ea; vertical-align: top; }
.amount { text-align: right; white-space: nowrap; }
form { display: inline; } button { font: inherit; padding: .1rem .6rem; margin-right: .3rem; cursor: pointer; }
.succeeded { color: #13692b; } .failed, .expired, .reversed { color: #a11a1a; } .pending { color: #8a5a00; }
small { color: #606770; }
`;
