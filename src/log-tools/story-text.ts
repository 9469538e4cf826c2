// A transaction's story as lines for a terminal: a line for each record with its place, under it what it says.

import type { AttemptRecorded } from '../../actors/webhooks/record.ts';
import { formatTime } from '../domain/time.ts';
import { faultLine } from '../../wal/tools/verify.ts';
import { NEXT_OF_DAMAGE } from './explain-fault.ts';
import type { Chapter, Story } from './story.ts';

interface Shown {
  readonly transaction: Readonly<Record<string, string | null>>;
}

export function storyLines(story: Story): string[] {
  const { transaction } = story.detail as Shown;
  const of = (name: string): string => transaction[name] ?? '-';
  return [
    `${story.transactionId}  ${of('type')} of ${of('amount')} ${of('currency')}, ${of('status')}`,
    `account ${story.accountId}, reference ${of('reference')}, ${of('network')} ${of('country')} ` +
      `${of('msisdn_masked')}, over ${of('provider')}`,
    `approval ${of('approval_status')}, fee booked ${of('fee')}, net ${of('net')}`,
    '',
    ...story.chapters.flatMap(chapterLines),
    ...story.faults.map(
      (fault) => `NOT SOUND: ${faultLine(fault)}; nothing that is behind it is in this story`,
    ),
    ...(story.faults.length === 0 ? [] : [NEXT_OF_DAMAGE]),
  ];
}

function chapterLines(chapter: Chapter): string[] {
  const { group, partition, batch, sequence, at, events, statuses, journals } = chapter;
  return [
    `${formatTime(at)}  ${group}/${partition}  sequence ${sequence}, batch ${batch}`,
    ...events.flatMap(eventLines).map(indented),
    ...statuses.map(({ status, source, providerStatus, message }) => {
      const said = providerStatus === null ? '' : `, the provider said ${JSON.stringify(providerStatus)}`;
      return indented(`→ ${status} (${source}${said}${message === null ? '' : `: ${wordOf(message)}`})`);
    }),
    ...journals.map(({ reason, currency, entries }) => {
      const moved = entries.map(({ account, side, amount }) => `${account} ${side.toLowerCase()} ${amount}`);
      return indented(`booked ${reason} in ${currency}: ${moved.join(', ')}`);
    }),
  ];
}

function indented(line: string): string {
  return `    ${line}`;
}

function eventLines(event: Chapter['events'][number]): string[] {
  if (event.type === 'EventTaken') return takenLines(event as Taken);
  if (event.type === 'AttemptRecorded') return attemptLines(event as AttemptRecorded);
  const { type, at: _, ...fields } = event as { readonly type: string } & Record<string, unknown>;
  const said = Object.entries(fields).filter(([name, value]) => name !== 'id' && value !== null);
  const words = said.map(([name, value]) => `${name} ${wordOf(value)}`);
  return [`${type}${words.length === 0 ? '' : `: ${words.join(', ')}`}`];
}

/** Quoted where it is more than a word: a merchant's description may look like lines of the story itself. */
function wordOf(value: unknown): string {
  return typeof value === 'string' && /^[\w.:*/+-]+$/.test(value) ? value : JSON.stringify(value);
}

function takenLines({ eventId, eventType, deliveries }: Taken): string[] {
  return [
    `webhook ${eventId} ${eventType}`,
    ...deliveries.map(({ id, appId }) => `  delivery ${id} to ${appId}`),
    ...(deliveries.length === 0 ? ['  nobody to hear it'] : []),
  ];
}

function attemptLines({ deliveryId, attempt, next }: AttemptRecorded): string[] {
  const came = attempt.statusCode === null ? (attempt.error ?? 'no answer') : `HTTP ${attempt.statusCode}`;
  const then = next === null ? '' : `, now ${next.status}`;
  const nextAt = next?.nextAt ?? null;
  const again = nextAt === null ? '' : `, again at ${formatTime(nextAt)}`;
  return [`delivery ${deliveryId} to ${attempt.url}: ${came} in ${attempt.durationMs} ms${then}${again}`];
}

interface Taken {
  readonly type: 'EventTaken';
  readonly eventId: string;
  readonly eventType: string;
  readonly deliveries: readonly { readonly id: string; readonly appId: string }[];
}
