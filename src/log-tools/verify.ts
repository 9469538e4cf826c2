// `verify` with the domain in it: what wal's own verify finds wrong with the log, with the transactions at fault; and the
// money, added up a second time from what the checkpoint has.

import { placesNoted } from '../data-directory/identity.ts';
import { LIMITS } from '../limits.ts';
import { type Explanation, explainFaults, NEXT_OF_DAMAGE } from './explain-fault.ts';
import { type Data, uncountedViews, withData } from './data.ts';
import { auditedText, auditLedger, type LedgerAudit, ledgerLines } from './ledger-audit.ts';
import { isChosenBy, ViewsUnreadable } from '../../wal/tools/partitions.ts';
import { breathe } from '../../wal/tools/priority.ts';
import type { Tool, ToolInput, ToolResult } from '../../wal/tools/tool.ts';
import { type Fault, faultLine, verify as logVerify, verifyLog } from '../../wal/tools/verify.ts';
import { nameOf, type PartitionName } from '../../wal/types.ts';

export const verify: Tool = {
  name: 'verify',
  summary: 'Prove the log: every CRC, the hash chain, the sequences, the checkpoints, and the ledger.',
  help: `
Reads every batch. Finds any changed bit, a batch that is missing, moved or from elsewhere, and an end that is lost: a
checkpoint reaches further than the log, or was made from another one. Then adds up the money of the checkpoint from its
journals: debits equal credits, balances are their sums, all accounts of a currency sum to zero, open holds are
SETTLEMENT_CLEARING, nothing is below zero but by a reversal. Works on a live directory.

Each fault names partition, batch, sequence and, where it can still be read, the transactions. Restore from a backup what it
names; nothing is repaired here. A partition with very many faults is not read to its end, and named. Whether the checkpoint is what the log says: replay --verify.`,
  options: logVerify.options,
  run: async (input) => {
    try {
      return await verifyAll(input, null);
    } catch (error) {
      if (!(error instanceof ViewsUnreadable)) throw error;
      // The log is proven all the same.
      return verifyAll(input, error.message);
    }
  },
};

/** `damage`: of the views, which are not read then. */
async function verifyAll(input: ToolInput, damage: string | null): Promise<ToolResult> {
  const log = await verifyLog(input, damage === null);
  return withData(
    input.directory,
    (data) => withDomain(data, log, input, { views: damage, identity: data.identityProblem }),
    damage === null,
  );
}

/** Of wal's own verify. `partitions`: all it has looked at. */
interface LogReport {
  readonly faults: readonly Fault[];
  readonly partitions: readonly (PartitionName & { readonly sequence: number })[];
}

/** Those of the places that the directory has, and of which its log has nothing. A log without any record may be young; with one, a
 *  standalone service has a batch in each of them (src/wiring/ledger.ts), and a node of a cluster has those that it had to do with. */
function absentFrom({ report }: ToolResult, { directory, values }: ToolInput): PartitionName[] {
  const { partitions, faults } = report as LogReport;
  if (faults.length === 0 && partitions.every(({ sequence }) => sequence === 0)) return [];
  const there = new Set(partitions.map(nameOf));
  const places = (placesNoted(directory) ?? []).filter(isChosenBy(values));
  return places.filter((place) => !there.has(nameOf(place)));
}

function absentLines(absent: readonly PartitionName[]): string[] {
  if (absent.length === 0) return [];
  const named = absent.slice(0, LIMITS.logToolPartitionsNamedMax).map(nameOf).join(', ');
  const hidden = absent.length - LIMITS.logToolPartitionsNamedMax;
  const names = hidden > 0 ? `${named} and ${hidden} more` : named;
  return [
    `not in this log, of the partitions that daftari.json says: ${names}. A node of a cluster need not have them; a standalone service refuses them, ` +
      'for they are lost, or were left out of what was restored',
  ];
}

/** What is wrong besides the log; null: nothing. */
interface Damages {
  readonly views: string | null;
  readonly identity: string | null;
}

async function withDomain(
  data: Data,
  log: ToolResult,
  input: ToolInput,
  damages: Damages,
): Promise<ToolResult> {
  const { faults, partitions } = log.report as LogReport;
  const absent = absentFrom(log, input);
  const explanations = explainFaults(data, faults);
  const explained = faults.map((fault, at) => ({ ...fault, ...explanations[at]! }));
  const { audits, unaudited } = await auditAll(data, partitions, input.progress);
  const ledger = audits.flatMap((audit) =>
    audit.faults.map((fault) => ({ group: audit.group, partition: audit.partition, ...fault })),
  );
  const sound = log.sound && ledger.length === 0 && damages.views === null && damages.identity === null;
  return {
    sound,
    report: { ...log.report, sound, faults: explained, ledger, unaudited, absent, ...damages },
    lines: [
      ...explained.flatMap(faultLines),
      ...ledgerLines(audits),
      ...unaudited.map((one) => `${nameOf(one)}: ${one.why}: its ledger was not looked at`),
      ...absentLines(absent),
      // The verdict on the log alone comes last of its lines.
      ...log.lines.slice(faults.length),
      ...(data.views === null
        ? [
            damages.views === null
              ? 'there is no checkpoint: the ledger was not looked at'
              : `NOT SOUND: ${damages.views}`,
          ]
        : [
            `${ledger.length === 0 ? 'sound' : 'NOT SOUND'}: the ledger of the checkpoint, ${auditedText(audits)}`,
          ]),
      ...(damages.identity === null ? [] : [`NOT SOUND: ${damages.identity}`]),
      ...(log.sound && ledger.length === 0 && damages.views === null ? [] : [NEXT_OF_DAMAGE]),
    ],
  };
}

interface Audits {
  readonly audits: readonly (LedgerAudit & PartitionName)[];
  /** Of which the checkpoint has rows that are not to be added up. */
  readonly unaudited: readonly (PartitionName & { readonly why: string })[];
}

async function auditAll(
  { views }: Data,
  partitions: readonly PartitionName[],
  progress: ToolInput['progress'],
): Promise<Audits> {
  const audits: (LedgerAudit & PartitionName)[] = [];
  const unaudited: (PartitionName & { readonly why: string })[] = [];
  if (views === null) return { audits, unaudited };
  const ofAccounts = partitions.filter(({ group }) => group === 'accounts');
  progress.start('ledger', ofAccounts.length, 'partitions');
  for (const { group, partition } of ofAccounts) {
    views.refresh();
    const why = uncountedViews(views, group, partition);
    if (why === null) audits.push({ group, partition, ...auditLedger(views.rows(group, partition)) });
    else unaudited.push({ group, partition, why });
    progress.add(1, 0);
    await breathe();
  }
  return { audits, unaudited };
}

function faultLines(fault: Fault & Explanation): string[] {
  const { explanation, transactions } = fault;
  const named = transactions.slice(0, LIMITS.logToolTransactionsNamedMax);
  const hidden = transactions.length - named.length;
  return [
    faultLine(fault),
    ...(explanation === '' ? [] : [`    ${explanation}`]),
    ...named.map((id) => `    ${id}`),
    ...(hidden > 0 ? [`    and ${hidden} more`] : []),
  ];
}
