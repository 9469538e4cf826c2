// A CPU profile (node --cpu-prof) as a table: where the time of one thread went, by stage of the pipeline and by function.
// Stages are read off the file that a function is in; time of natives and of Node itself goes to the stage that called them.

interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  readonly children?: readonly number[];
}

export interface StageTime {
  readonly stage: string;
  readonly ms: number;
  /** Of the time that was not idle. */
  readonly part: number;
}

/** The first that matches a file decides. */
const STAGES: readonly (readonly [RegExp, string])[] = [
  [/\/src\/http\//, 'http: read, validate, answer'],
  [/\/src\/(?:bus|nats)\//, 'bus'],
  [/\/src\/domain\/(?:event-codec|render\/json-text)/, 'encode and decode records'],
  [/\/src\/domain\/render/, 'render bodies'],
  [/\/src\/domain\/evolve/, 'evolve'],
  [/\/src\/domain\//, 'decide'],
  [/\/actors\/accounts\//, 'accounts: memory, queries, timers'],
  [/\/actors\/pollers\/|\/src\/rails\//, 'pollers and rails'],
  [/\/actors\/webhooks\//, 'webhooks'],
  [/\/actors\/runtime\//, 'runtime: mailbox, feed'],
  [/\/wal\//, 'log: seal, hash, commit'],
  [/\/src\/observability\//, 'metrics'],
  [/\/src\/storage\//, 'storage'],
  [/\/src\/(?:cluster|wiring)\//, 'wiring'],
];
const IDLE = '(idle)';
const COLLECTOR = '(garbage collector)';
const OTHER = 'Node and natives, called by nobody of ours';
const US_PER_MS = 1_000;
const FUNCTIONS_TOLD = 25;

export function stagesOf(text: string): StageTime[] {
  const profile = JSON.parse(text) as CpuProfile;
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const stages = new Map<number, string>();
  const mark = (id: number, inherited: string): void => {
    const node = nodes.get(id)!;
    const stage = stageOf(node) ?? inherited;
    stages.set(id, stage);
    for (const child of node.children ?? []) mark(child, stage);
  };
  const children = new Set(profile.nodes.flatMap((node) => node.children ?? []));
  for (const { id } of profile.nodes) if (!children.has(id)) mark(id, OTHER);
  return shares(timesBy(profile, (id) => stages.get(id)!));
}

export function profileText(text: string): string {
  const profile = JSON.parse(text) as CpuProfile;
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const functions = shares(timesBy(profile, (id) => placeOf(nodes.get(id)!)));
  const row = ({ stage, ms, part }: StageTime): string =>
    `${(part * 100).toFixed(1).padStart(6)} %  ${ms.toFixed(0).padStart(8)} ms  ${stage}`;
  return [
    'By stage:',
    ...stagesOf(text).map(row),
    '',
    'By function, its own time:',
    ...functions.slice(0, FUNCTIONS_TOLD).map(row),
  ].join('\n');
}

/** Null: of whoever called it. */
function stageOf({ callFrame: { functionName, url } }: ProfileNode): string | null {
  if (functionName === IDLE || functionName === COLLECTOR) return functionName;
  const found = STAGES.find(([pattern]) => pattern.test(url));
  return found === undefined ? null : found[1];
}

function placeOf({ callFrame: { functionName, url, lineNumber } }: ProfileNode): string {
  const file = url.split('/').slice(-3).join('/');
  return `${functionName || '(anonymous)'}${file === '' ? '' : ` ${file}:${lineNumber + 1}`}`;
}

function timesBy({ samples, timeDeltas }: CpuProfile, nameOf: (id: number) => string): Map<string, number> {
  const times = new Map<string, number>();
  samples.forEach((id, index) => {
    const name = nameOf(id);
    times.set(name, (times.get(name) ?? 0) + (timeDeltas[index] ?? 0) / US_PER_MS);
  });
  return times;
}

/** Without idle time, the largest first. */
function shares(times: Map<string, number>): StageTime[] {
  times.delete(IDLE);
  const total = [...times.values()].reduce((sum, ms) => sum + ms, 0);
  return Array.from(times, ([stage, ms]) => ({ stage, ms, part: ms / total })).toSorted(
    (a, b) => b.ms - a.ms,
  );
}
