// Whether views can be made from the log of this machine, for the main thread and the checkpoint thread alike.

import { isOfFormat } from '../../actors/runtime/checkpointer.ts';
import type { LogReader } from '../../wal/log-reader.ts';
import type { ViewStore } from '../../wal/views.ts';
import type { HostedGroup } from './groups.ts';

/** They cannot: the log begins after a trim or a snapshot, and the views do not reach its beginning any more, or are of
 *  another version's form. */
export function lacksHistory(
  log: LogReader,
  views: ViewStore,
  group: HostedGroup,
  partition: number,
): boolean {
  const start = log.startOf(group.name, partition).batch;
  if (start === 0) return false;
  views.refresh();
  const position = views.position(group.name, partition);
  if (position === null || position.batch < start) return true;
  return !isOfFormat(views.reader(group.name, partition), group);
}
