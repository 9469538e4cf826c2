// Nothing secret reaches a log line: neither by its field's name, nor inside a message, an error or a nested value.
import t from 'tap';
import { COUNTRIES, COUNTRY_FACTS } from '../../src/domain/country.ts';
import { createHttpObserver } from '../../src/observability/http-observer.ts';
import { createLog } from '../../src/observability/log.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { redact, redactText } from '../../src/observability/redact.ts';
import { providerWord } from '../../src/rails/provider-word.ts';

function recorded(level = 'debug') {
  const lines: Record<string, unknown>[] = [];
  const stream = { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) };
  return { lines, log: createLog({ level, node: 'n1', stream }) };
}

// [text, what is written instead]
const texts: [string, string][] = [
  ['charge from 256772123456 failed', 'charge from 25677****456 failed'],
  ['+254712345678,+233241234567', '+25471****678,+23324****567'],
  ['00256772123456', '0025677****456'],
  ['call +256 772 123 456, or +254-712-345678', 'call +25677****456, or +25471****678'],
  ['256 batches of 123456789 bytes, 254 772 123 456', '256 batches of 123456789 bytes, 254 772 123 456'],
  [
    'call +256\u00a0772\u202f123\u2009456 or +256\u2011772\u2011123456',
    'call +25677****456 or +25677****456',
  ],
  ['call +(256) 772.123.456 or +256 (772) 123456', 'call +25677****456 or +25677****456'],
  ['call 00256 772 123 456 or 00(256)772-123456', 'call 0025677****456 or 0025677****456'],
  ['amount 100256 772 123 456', 'amount 100256 772 123 456'],
  ['msisdn=256772123456&x=1', 'msisdn=25677****456&x=1'],
  ['amount 1256772123456 and time 2567721234561', 'amount 1256772123456 and time 2567721234561'],
  ['Authorization: Bearer abc.def', 'Authorization: Bearer [redacted]'],
  ['basic dXNlcjpwYXNz', 'basic [redacted]'],
  ['key sk_live_0ABC rest', 'key sk_live_[redacted] rest'],
  ['whsec_abc-_1', 'whsec_[redacted]'],
  ['{"text":"one\\nsk_live_0ABC"}', '{"text":"one\\nsk_live_[redacted]"}'],
  ['{"text":"one\\nBearer abc.def"}', '{"text":"one\\nBearer [redacted]"}'],
  ['nothing to hide', 'nothing to hide'],
];

t.test('texts lose numbers and keys and keep the rest', async (t) => {
  for (const [text, written] of texts) t.equal(redactText(text), written, text);
});

t.test('numbers of every country are known', async (t) => {
  for (const { dialingCode } of COUNTRIES.map((country) => COUNTRY_FACTS[country])) {
    t.equal(redactText(`no wallet on ${dialingCode}772123456`), `no wallet on ${dialingCode}77****456`);
    t.equal(redactText(`call +${dialingCode} 772 123 456`), `call +${dialingCode}77****456`);
    t.equal(
      providerWord(`+${dialingCode} 77 212 is barred, +${dialingCode} 772 123 456`),
      `+${dialingCode} 77 212 is barred, +****456`,
    );
  }
});

t.test('fields are judged by their names, at any depth', async (t) => {
  const written = redact({
    secret_key: 'a',
    signingSecret: 'b',
    'Subscription-Key': 'c',
    token: null,
    msisdn: '0772123456',
    phone: 256772123456,
    phoneNumber: 772123456,
    wallet: { PartyId: '123', list: [{ password: 'd' }, 'call 256772123456'] },
    amount: '256',
    at: new Date(0),
    bytes: Buffer.from('x'),
    map: new Map([['apiKey', 'e']]),
  });
  t.strictSame(written, {
    secret_key: '[redacted]',
    signingSecret: '[redacted]',
    'Subscription-Key': '[redacted]',
    token: null,
    msisdn: '077****456',
    phone: '25677****456',
    phoneNumber: '****',
    wallet: { PartyId: '****', list: [{ password: '[redacted]' }, 'call 25677****456'] },
    amount: '256',
    at: '1970-01-01T00:00:00.000Z',
    bytes: '[1 bytes]',
    map: { apiKey: '[redacted]' },
  });
});

t.test('no key, token, password or secret is written, whatever its field is called', async (t) => {
  const names = ['Authorization', 'Cookie', 'password', 'PIN', 'token', 'OPERATOR_TOKEN', 'access_token'];
  const keys = [
    'MASTER_KEY',
    'secret',
    'secret_key',
    'secretKeyHash',
    'keyHash',
    'api-key',
    'subscription_key',
  ];
  const secrets = ['signing_secret', 'signingSecretSealed', 'client_secret'];
  for (const name of [...names, ...keys, ...secrets]) {
    t.strictSame(redact({ [name]: 'of 8 letters' }), { [name]: '[redacted]' });
  }
});

t.test('of a phone number four digits are hidden, however it is written', async (t) => {
  const written = ['+256 772 123 456', '2-5-6-7-7-2-1-2-3-4-5-6', '0772 123 456', ' 772-123-456 '];
  const masked = written.map((msisdn) => redact({ msisdn }));
  t.strictSame(masked, [
    { msisdn: '+25677****456' },
    { msisdn: '25677****456' },
    { msisdn: '077****456' },
    { msisdn: '****' },
  ]);
});

t.test('a phone number is one without quotes, too, and other numbers stay numbers', async (t) => {
  const metadata = { payer: 256772123456, order: 1256772123456, at: 1_764_258_000_000, share: 0.5 };
  t.strictSame(redact({ metadata }), { metadata: { ...metadata, payer: '25677****456' } });
  t.strictSame(redact({ sums: [5n, 256772123456n] }), { sums: ['5', '25677****456'] }, 'JSON has no bigint');
});

t.test('a name is a text too', async (t) => {
  const body = { metadata: { '256772123456': 'payer', 'key sk_live_0ABC': 1 } };
  t.strictSame(redact(body), { metadata: { '25677****456': 'payer', 'key sk_live_[redacted]': 1 } });
});

t.test('no name hides what it names from the audit log', async (t) => {
  const body = '{"reference":"r","__proto__":{"a":1},"metadata":{"__proto__":"x","constructor":"y"}}';
  t.equal(JSON.stringify(redact(JSON.parse(body))), body);
});

t.test('a cycle ends', async (t) => {
  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;
  t.match(JSON.stringify(redact(cycle)), /deeper/);
  const list: unknown[] = [];
  list.push(list);
  const error = new Error('of itself');
  error.cause = error;
  for (const value of [list, error]) t.match(JSON.stringify(redact(value)), /deeper/);
});

t.test('what JSON has no form for has one in a line', async (t) => {
  const fields = { at: new Date(NaN), keys: new Set(['sk_live_0ABC', 1]), token: undefined };
  const written = { at: null, keys: ['sk_live_[redacted]', 1], token: undefined };
  t.strictSame(redact(fields), written, 'a time that is none would throw, and end the process over a line');
});

t.test('a line has time, level, node, fields and message, all redacted', async (t) => {
  const { lines, log } = recorded();
  const cause = new Error('no wallet on 256772123456');
  const err = Object.assign(new Error('submit with Bearer xyz', { cause }), {
    code: 'EPROVIDER',
    token: 'q',
  });
  log.child({ request_id: 'req_1' }).error({ err, to: '256772123456' }, 'failed for 256772123456');
  const [line] = lines;
  t.match(line, {
    level: 'error',
    time: /^\d{4}-\d\d-\d\dT/,
    node: 'n1',
    request_id: 'req_1',
    to: '25677****456',
    message: 'failed for 25677****456',
    err: { type: 'Error', message: 'submit with Bearer [redacted]', code: 'EPROVIDER', token: '[redacted]' },
  });
  t.notMatch(JSON.stringify(line), /256772123456|xyz/);
  t.hasStrict(line, { err: { cause: { message: 'no wallet on 25677****456' } } });
  const { stack } = line!['err'] as { readonly stack: string };
  t.match(stack, /^Error: submit with Bearer \[redacted\]\n +at /, 'and where it was thrown');
});

t.test('a terminal obeys nothing of what a provider has said', async (t) => {
  const written: string[] = [];
  const log = createLog({ level: 'info', node: 'n1', stream: { write: (line) => written.push(line) } });
  const reason = 'HTTP 500: up\u009b2J, \u202e\u2066\u2028 \u001b[2J\u007f, Zoë';
  log.warn({ reason }, reason);
  t.hasStrict(JSON.parse(written[0]!), { reason, message: reason }, 'as JSON it is the same text');
  t.match(
    written[0],
    /^\{[^\p{Cc}\p{Bidi_Control}\u2028\u2029]*Zoë[^\p{Cc}\p{Bidi_Control}\u2028\u2029]*\}\n$/u,
  );
});

t.test('lines below the level are not written', async (t) => {
  const { lines, log } = recorded('warn');
  log.info({}, 'quiet');
  log.warn({}, 'loud');
  t.hasStrict(lines, [{ message: 'loud' }]);
  t.equal(log.debugEnabled, false);
});

t.test('a request leaves a line with its id where a person should look', async (t) => {
  const { lines, log } = recorded('info');
  const observer = createHttpObserver(new Metrics(), log);
  const route = { surface: 'v1', method: 'POST', path: '/v1/charges' };
  observer.onReply(route, 201, 1, 'req_1', null);
  observer.onNoReply(route, 'aborted', 1, 'req_2');
  for (let i = 3; i < 10; i++) observer.onReply(route, 503, 1.2345678, `req_${i}`, 'service_unavailable');
  observer.onNoReply(route, 'unknown', 1, 'req_10');
  t.hasStrict(lines, [
    { level: 'warn', request_id: 'req_3', route: '/v1/charges', status: 503, duration_ms: 1.235 },
    { level: 'error', request_id: 'req_10', reason: 'unknown' },
  ]);
});

t.test('whose key has too much under way is named, once a second', async (t) => {
  const { lines, log } = recorded('info');
  const observer = createHttpObserver(new Metrics(), log);
  for (let i = 0; i < 3; i++) observer.onKeyFull('acc_1');
  t.hasStrict(lines, [{ level: 'warn', account_id: 'acc_1', refused_since_last_line: 0 }]);
  t.equal(lines.length, 1);
});

t.test(
  'what had no room is counted apart from what the service refuses, and told once a second',
  async (t) => {
    const { lines, log } = recorded('info');
    const metrics = new Metrics();
    const observer = createHttpObserver(metrics, log);
    const route = { surface: 'v1', method: 'POST', path: '/v1/charges' };
    for (let i = 0; i < 3; i++) observer.onMadeWay(route, `req_${i}`, 'service_unavailable');
    for (let i = 0; i < 2; i++) observer.onConnectionRefused();
    observer.onKeyFull('acc_1');
    t.hasStrict(lines, [
      { level: 'warn', request_id: 'req_0', route: '/v1/charges', made_way_since_last_line: 0 },
      { level: 'warn', refused_since_last_line: 0 },
      { level: 'warn', account_id: 'acc_1' },
    ]);
    t.equal(lines.length, 3);
    const text = await metrics.text();
    for (const line of [
      'daftari_http_crowded_out_total{reason="slow_body"} 3',
      'daftari_http_crowded_out_total{reason="connection"} 2',
      'daftari_http_crowded_out_total{reason="key"} 1',
      'daftari_http_errors_total{surface="v1",code="service_unavailable"} 3',
    ]) {
      t.ok(text.includes(`${line}\n`), line);
    }
    t.notMatch(text, /^daftari_http_request_duration_seconds_count.+/m, 'no latency, and no refusal of ours');
  },
);

t.test('at level debug every request leaves one', async (t) => {
  const { lines, log } = recorded();
  const observer = createHttpObserver(new Metrics(), log);
  observer.onReply({ surface: 'v1', method: 'GET', path: '/v1/balances' }, 200, 1, 'req_1', null);
  t.hasStrict(lines, [{ level: 'debug', request_id: 'req_1', status: 200, code: null }]);
});
