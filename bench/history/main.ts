// Writes a history quickly: the real actors, log and checkpoints in one process, with commands instead of HTTP and this
// program instead of the pollers. What it leaves is a data directory like any other.
//
//   node main.ts '{…}'        job.ts says what

import type { HistoryLine, HistoryJob } from './job.ts';
import { HistoryWriter } from './writer.ts';

const job = JSON.parse(process.argv[2]!) as HistoryJob;
const startedAt = performance.now();
const tell = (line: HistoryLine): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

// Whatever it dies of goes into the report, too.
process.on('uncaughtExceptionMonitor', ({ message }) => tell({ type: 'failed', message }));

const writer = await HistoryWriter.open(job, (what, done, of) => tell({ type: 'progress', what, done, of }));
await writer.openAccounts();
await writer.writeTransactions();
const records = await writer.close();
tell({ type: 'done', seconds: (performance.now() - startedAt) / 1_000, records });
