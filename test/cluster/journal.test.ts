// The journal of a cluster's callers has what the checker must know: a create that was refused may be there all the same, by a
// call of it before that had no reply.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { Load } from './load.ts';

t.test('a create that was refused after a call without a reply has a line for both', async (t) => {
  let calls = 0;
  const server = createServer((request, response) => {
    calls++;
    if (calls === 1) request.socket.destroy();
    else response.writeHead(calls === 2 ? 503 : 201).end('{"id":"chg_1"}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const accounts = [{ id: 'acc_1', secretKey: 'sk_live_1' }];
  const load = new Load({ accounts, baseUrls: () => [`http://127.0.0.1:${port}`], callers: 1, pauseMs: 0 });
  while (load.answered < 3) await new Promise((resolve) => setImmediate(resolve));
  const { journal, closedConnections } = await load.stop();
  t.equal(closedConnections, 1);
  const [refused, unknown, next] = journal;
  t.strictSame(
    [refused, unknown, next].map((entry) => entry?.status),
    [503, null, 201],
  );
  t.equal(unknown?.key, refused?.key);
  t.not(next?.key, refused?.key);
});
