// Answers made in one turn: all of them are sent, in their order, before the turn ends, and none to a client who has gone.

import t, { type Test } from 'tap';
import { Arrived } from '../../src/http/arrived.ts';
import { Call, type ResponseHandle } from '../../src/http/call.ts';
import { ListLine } from '../../src/http/list-line.ts';
import { Departing } from '../../src/http/departing.ts';
import type { HttpObserver } from '../../src/http/observer.ts';
import { OpenCalls } from '../../src/http/open-calls.ts';
import { LIMITS } from '../../src/limits.ts';

const ROUTE = { surface: 'v1', method: 'GET', path: '/v1/balances' } as const;

/** Calls of one front, and what becomes of them, in order: "sent 1", "reply 200", "aborted". */
function setUp(): { readonly events: string[]; readonly call: () => { call: Call; abort: () => void } } {
  const events: string[] = [];
  const observer: HttpObserver = {
    onReply: (_route, status) => void events.push(`reply ${status}`),
    onNoReply: (_route, reason) => void events.push(reason),
    onMadeWay: () => t.fail('nobody has to make way'),
    onKeyFull: () => t.fail('no key has much under way'),
    onConnectionRefused: () => t.fail('there are no connections'),
  };
  let calls = 0;
  const context = {
    open: new OpenCalls(),
    arrived: new Arrived(),
    lists: new ListLine(),
    departing: new Departing(),
    observer,
    nextRequestId: () => `req_${calls + 1}`,
    bounds: LIMITS,
    closing: false,
  };
  function call(): { call: Call; abort: () => void } {
    const number = calls + 1;
    let abort = (): void => {};
    const response: ResponseHandle = {
      writeStatus: () => {},
      writeHeader: () => {},
      end: () => {},
      tryEnd: () => {
        events.push(`sent ${number}`);
        return [true, true];
      },
      onWritable: () => {},
      close: () => {},
      cork: (write) => write(),
      onAborted: (handler) => (abort = handler),
      onData: () => {},
    };
    const made = new Call(context, ROUTE, true, response);
    calls = number;
    return { call: made, abort: () => abort() };
  }
  return { events, call };
}

function answer(call: Call): void {
  call.settle({ type: 'done', body: '{}', replayed: false }, 200);
}

/** A turn takes no time but what is spent: however slow the machine, no answer has waited for long of itself. */
let nowMs = 0;
performance.now = () => nowMs;

function spend(ms: number): void {
  nowMs += ms;
}

t.test('answers of one turn are sent when it has done its work, in their order', async (t: Test) => {
  const { events, call } = setUp();
  for (const { call: each } of [call(), call(), call()]) answer(each);
  t.strictSame(events, [], 'not in between');
  await Promise.resolve();
  t.strictSame(events, ['sent 1', 'reply 200', 'sent 2', 'reply 200', 'sent 3', 'reply 200']);
});

t.test('an answer does not wait for the whole of a long turn', async (t: Test) => {
  const { events, call } = setUp();
  answer(call().call);
  spend(LIMITS.answersGatheredMs);
  answer(call().call);
  t.strictSame(events, ['sent 1', 'reply 200', 'sent 2', 'reply 200']);
  answer(call().call);
  t.equal(events.length, 4, 'the next begin anew');
  await Promise.resolve();
  t.strictSame(events.slice(4), ['sent 3', 'reply 200']);
});

t.test(
  'a client who goes between its answer and the sending gets nothing, and counts as gone',
  async (t: Test) => {
    const { events, call } = setUp();
    const gone = call();
    answer(gone.call);
    gone.abort();
    answer(call().call);
    await Promise.resolve();
    t.strictSame(events, ['aborted', 'sent 2', 'reply 200']);
    gone.abort();
    t.equal(events.length, 3, 'once');
  },
);

t.test('an answer is given once', async (t: Test) => {
  const { events, call } = setUp();
  const { call: twice } = call();
  answer(twice);
  answer(twice);
  twice.expire();
  await Promise.resolve();
  t.strictSame(events, ['sent 1', 'reply 200']);
});
