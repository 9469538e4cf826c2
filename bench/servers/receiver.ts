// Merchants' webhook endpoints, all of them, in a program of its own: POST /hook/<number of the account>. It answers 200 at
// once, or never where it is told to hang, and remembers how old each event was when it first came.
//
//   node receiver.ts '{"hangEvery":5}'   0: none hangs. GET /stats tells; after POST /begin of the times of what is created from then on.

import { App } from 'uWebSockets.js';
import { build } from 'hdr-histogram-js';
import { PERCENTILES } from '../result.ts';
import { listen } from './listen.ts';
import type { ReceiverStats } from './start-receiver.ts';

const { hangEvery } = JSON.parse(process.argv[2]!) as { hangEvery: number };
const CREATED_AT = '"created_at":"';
const TIME_LENGTH = 24;
const SEEN_MAX = 5_000_000;

const sinceEvent = build({ highestTrackableValue: 3_600_000, numberOfSignificantValueDigits: 3 });
const sinceCreate = build({ highestTrackableValue: 3_600_000, numberOfSignificantValueDigits: 3 });
const seen = new Set<string>();
/** Whose object was created before it is not in the times, ms since 1970. */
let begunAt = 0;
let deliveries = 0;
let timed = 0;
let firstAt = 0;
let lastAt = 0;

const app = App();
app.post('/hook/:account', (response, request) => {
  const hangs = hangEvery > 0 && Number(request.getParameter(0)) % hangEvery === 0;
  const eventId = request.getHeader('service-event-id');
  response.onAborted(() => {});
  let text = '';
  response.onData((chunk, isLast) => {
    text += Buffer.from(chunk).toString('latin1');
    if (!isLast) return;
    if (hangs) return;
    receive(eventId, text);
    response.cork(() => {
      response.writeStatus('200 OK').end();
    });
  });
});

function receive(eventId: string, text: string): void {
  const now = Date.now();
  deliveries++;
  if (seen.has(eventId) || seen.size >= SEEN_MAX) return;
  seen.add(eventId);
  const eventAt = text.indexOf(CREATED_AT);
  const objectAt = text.indexOf(CREATED_AT, eventAt + 1);
  const createdAt = timeAt(text, objectAt);
  if (createdAt < begunAt) return;
  if (timed === 0) firstAt = now;
  lastAt = now;
  timed++;
  sinceEvent.recordValue(Math.max(0, now - timeAt(text, eventAt)));
  sinceCreate.recordValue(Math.max(0, now - createdAt));
}

function timeAt(text: string, at: number): number {
  const from = at + CREATED_AT.length;
  return Date.parse(text.slice(from, from + TIME_LENGTH));
}

app.post('/begin/:at', (response, request) => {
  begunAt = Number(request.getParameter(0));
  timed = 0;
  sinceEvent.reset();
  sinceCreate.reset();
  response.end();
});

app.get('/stats', (response) => {
  const stats: ReceiverStats = {
    deliveries,
    events: seen.size,
    timed,
    firstAt,
    lastAt,
    sinceEvent: PERCENTILES.map((percent) => [percent, sinceEvent.getValueAtPercentile(percent)]),
    sinceCreate: PERCENTILES.map((percent) => [percent, sinceCreate.getValueAtPercentile(percent)]),
  };
  response.writeHeader('Content-Type', 'application/json').end(JSON.stringify(stats));
});

listen(app);
