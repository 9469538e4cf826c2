// What the queues to a rail promise: accounts in turn, each in its order, and room for whoever has little waiting.
import t from 'tap';
import { CallQueue } from '../../actors/pollers/call-queue.ts';

interface Call {
  readonly accountId: string;
  readonly number: number;
}

const called = (accountId: string, number = 0): Call => ({ accountId, number });

function drain(queue: CallQueue<Call>): string {
  const order: string[] = [];
  for (let call = queue.shift(); call !== undefined; call = queue.shift()) {
    order.push(call.accountId + call.number);
  }
  return order.join(' ');
}

t.test('accounts in turn, and each in the order of its calls', async (t) => {
  const queue = new CallQueue<Call>(100);
  for (let i = 0; i < 4; i++) queue.push(called('a', i));
  t.equal(queue.shift()?.number, 0);
  queue.push(called('b', 0));
  queue.push(called('b', 1));
  queue.push(called('c', 0));
  t.equal(queue.size, 6);
  t.equal(drain(queue), 'a1 b0 c0 a2 b1 a3');
  t.equal(queue.size, 0);
  queue.push(called('a', 9));
  t.equal(drain(queue), 'a9', 'an account that has left comes again');
});

t.test('one account has half of the places, and the others always have some', async (t) => {
  const queue = new CallQueue<Call>(100);
  const fill = (accountId: string): number => {
    for (let count = 0; ; count++) if (!queue.push(called(accountId, count))) return count;
  };
  t.equal(fill('a'), 50);
  t.equal(fill('b'), 25);
  t.equal(fill('c'), 13);
  let others = 0;
  while (queue.push(called(`other-${others}`))) others++;
  t.equal(queue.size, 100);
  t.equal(others, 12, 'one of each of many');
  queue.shift();
  t.notOk(queue.push(called('a')), 'what was freed is not for who has many');
  t.ok(queue.push(called('z')));
});
