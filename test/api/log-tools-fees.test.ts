// Day 8 of deploy/README.md: what was charged too much while a wrong fee was configured, counted as it is written there.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { logTools } from '../../src/log-tools/commands.ts';
import { walTools } from '../../wal/tools/all.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import { bodyOf, numberOf, openMerchant } from './merchants.ts';
import { startService } from './start.ts';

const runbook = readFileSync(join(import.meta.dirname, '../../deploy/README.md'), 'utf8');
const hasJq = spawnSync('jq', ['--version']).status === 0;

t.test(
  'a wrong fee of one currency: its sum is what the right fee, rounded, would have been less',
  { skip: hasJq ? false : 'jq is not here' },
  async (t) => {
    const service = await startService();
    t.teardown(() => service.stop());
    const merchant = await openMerchant(service);
    const charge = async (amount: string, currency: 'UGX' | 'KES', lastDigits = '01'): Promise<number> => {
      const body = bodyOf({ amount, currency, msisdn: numberOf(currency, lastDigits) });
      const { body: made } = await merchant.post('/v1/charges', body);
      return Number((await merchant.finished(`/v1/charges/${made.id}`)).fee);
    };
    const fee = (currency: string, row: object | null) => ({ fees: { CHARGE: { [currency]: row } } });
    await merchant.change(fee('KES', { basis_points: 400 }));
    await charge('999', 'UGX');
    await merchant.change(fee('UGX', { basis_points: 300 }));
    let tooMuch = 0;
    for (const [amount, right] of [
      ['501', 13],
      ['777', 19],
      ['5000', 125],
    ] as const) {
      tooMuch += (await charge(amount, 'UGX')) - right;
    }
    t.equal(await charge('100001', 'KES'), 4_000, 'as agreed for this currency');
    await charge('5000', 'UGX', '50');
    await merchant.change(fee('UGX', null));
    t.equal(await charge('777', 'UGX'), 19);

    const { body: audit } = await service.operator('GET', '/operator/v1/audit?limit=20');
    const [right, wrong] = audit.data.filter(({ action }: { action: string }) => action.startsWith('PATCH'));
    const account = ['--account', merchant.accountId, '--limit', '100000', '--json'];
    const inspect = ['inspect', '--data', service.dataDir, ...account];
    const inspected = await runTool([...walTools, ...logTools], ...inspect);
    const program = /^wal inspect --account [^\n]* jq [^\n]*\\\n +'([^']+)'$/m.exec(runbook)?.[1];
    t.ok(program, 'the runbook has it');
    const window = ['--arg', 'from', wrong.created_at, '--arg', 'to', right.ended_at];
    const { stdout, stderr } = spawnSync('jq', [...window, program!], { input: inspected.out });
    t.equal(String(stderr), '');
    t.equal(Number(stdout), tooMuch);
  },
);
