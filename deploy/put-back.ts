// `npm run cluster -- put-back`: a stream that was purged empty gets the end of a node's log back, so that the partition can be
// proved again, and served.
//
// Invariant: a stream that has anything is never touched: what it has decides, not a log.

import type { NatsLink } from '../src/nats/connection.ts';
import { LIMITS } from '../src/limits.ts';
import { StreamPublisher } from '../src/nats/stream-publisher.ts';
import { partitionOfStream, logStream, logSubject } from '../src/nats/subjects.ts';
import { chosen, nameOf, partitionOptions, withReader } from '../wal/tools/partitions.ts';
import { UsageError } from '../wal/tools/tool.ts';
import type { Tool, ToolInput, ToolResult } from '../wal/tools/tool.ts';
import type { Batch } from '../wal/types.ts';

/** `connect` is called once. */
export function putBackTool(connect: () => Promise<NatsLink>): Tool {
  return {
    name: 'put-back',
    summary: "Write the end of a stopped node's log to its stream, which was purged empty.",
    help: `
For a partition that no node serves because its stream was purged empty, and nothing proves any more which log is whole. Choose
the log yourself, of the nodes that had the partition: the one with the highest epoch, and of these with the highest last
sequence (npm run wal -- inspect). What another log has beyond it is cut off there. Without --yes it says what it would write.

  put-back --data /var/lib/daftari --group accounts --partition 3 --yes`,
    options: { ...partitionOptions, yes: { type: 'boolean', help: 'write it' } },
    run: (input) =>
      withReader(input.directory, async (log) => {
        const [name, ...others] = chosen(log.partitionNames(), input.values);
        if (name === undefined || others.length > 0) {
          throw new UsageError('give --group and --partition with it');
        }
        const place = partitionOfStream(logStream(name.group as never, name.partition));
        if (place === null) throw new UsageError(`${nameOf(name)} has no stream`);
        const batches = log.lastBatches(place.group, place.partition, LIMITS.streamWarmUpMessages);
        const link = await connect();
        try {
          return await putBack(link, place, batches, input);
        } finally {
          await link.close();
        }
      }),
  };
}

async function putBack(
  link: NatsLink,
  { group, partition }: NonNullable<ReturnType<typeof partitionOfStream>>,
  batches: readonly Batch[],
  { values }: ToolInput,
): Promise<ToolResult> {
  const name = nameOf({ group, partition });
  const { state } = await link.manager.streams.info(logStream(group, partition));
  if (state.messages > 0) throw new Error(`the stream of ${name} is not empty: it says what the log is`);
  // A batch stands at its number or later: what is numbered above the stream's last message it never had.
  const had = batches.filter(({ batch }) => batch <= state.last_seq);
  const last = had.at(-1);
  if (last === undefined) throw new Error(`the stream of ${name} has had nothing of this log`);
  const isWritten = values['yes'] === true;
  if (isWritten) await publishAll(link, logSubject(group, partition), state.last_seq, had);
  const { batch, epoch, firstSequence, records } = last;
  const sequence = firstSequence + records.length - 1;
  const end = `batch ${batch}, epoch ${epoch}, sequence ${sequence}`;
  return {
    sound: true,
    report: { written: isWritten, group, partition, batches: had.length, batch, epoch, sequence },
    lines: [
      `${name}: ${had.length} batches of this log up to ${end}; the stream has had ${state.last_seq} messages`,
      isWritten ? 'Written.' : 'Nothing was written: add --yes to write this.',
    ],
  };
}

async function publishAll(
  link: NatsLink,
  subject: string,
  after: number,
  batches: readonly Batch[],
): Promise<void> {
  const publisher = new StreamPublisher(link);
  try {
    // Without message ids: the server may remember these batches from before the purge.
    for (const [index, { bytes }] of batches.entries()) {
      const result = await publisher.publish(subject, bytes, { lastSequence: after + index });
      if (result.type === 'stored') continue;
      throw new Error(`${subject}: ${result.description}; purge it and try again`);
    }
  } finally {
    publisher.close();
  }
}
