// A load of the bench on an endpoint of the test's own.

import { once } from 'node:events';
import type { AddressInfo, Server as Listener } from 'node:net';
import { join } from 'node:path';
import type { Test } from 'tap';
import { drive, type Driven, type DriveOptions } from '../../bench/load/drive.ts';
import type { Server } from '../../bench/servers/server.ts';

/** On which it listens from now on, until the test is over. */
export async function portOf(t: Test, endpoint: Listener): Promise<number> {
  endpoint.listen(0, '127.0.0.1');
  await once(endpoint, 'listening');
  t.teardown(() => endpoint.close());
  return (endpoint.address() as AddressInfo).port;
}

type Offer = Partial<DriveOptions> & { readonly readMetrics?: Server['readMetrics'] };

/** Charges for a second, by Node's driver, unless `offer` says otherwise. */
export function driveOn(t: Test, port: number, { readMetrics = null, ...offer }: Offer): Promise<Driven> {
  const keysFile = join(t.testdir({ keys: 'sk_live_one' }), 'keys');
  return drive({
    label: 'load',
    server: { name: 'endpoint', host: '127.0.0.1', port, processes: [], readMetrics, stop: async () => {} },
    work: { kinds: ['charge'], keysFile, idsFile: null, lists: [], msisdn: '256772000001', prefix: 'load' },
    connections: 2,
    ratePerSecond: null,
    warmUpSeconds: 0,
    seconds: 1,
    wrk: false,
    onProgress: () => {},
    ...offer,
  });
}
