// Random power cuts, in which all servers of NATS forget what they had taken last, while a partition goes from node to node, its owners
// die at any step, and replaced ones write on: what was acknowledged, and is in the stream or on the machine that takes the partition, is
// lost by no take-over; nothing is acknowledged that the stream does not have (with REPLICATION=async: the owner's log); and in the end
// all machines have one log.

import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Replication } from '../../src/config.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import type { Expectation, PublishResult } from '../../src/nats/stream-publisher.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { messageOf } from '../../wal/thrown.ts';
import { forgetLast, messagesOf } from './adapters.ts';
import { type Hosting, startHostServers } from './host-driven.ts';
import { needs } from '../needs.ts';
import { lengthOf, randomFrom, seedOf } from '../seed.ts';
import { OPEN_ACCOUNT, send } from '../unit/storage-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

const SEED = seedOf(t);
const RUNS = lengthOf(t, 'RUNS', 3);
const STEPS = lengthOf(t, 'STEPS', 30);
const NAMES = ['a', 'b', 'c'];
const FORGOTTEN_MAX = 4;
/** Of a node, in the end. */
const TRIES = 4;
/** Of accounts, as records have them. */
const IDS = /[0-9A-Z]{10}0{14}(?=")/g;

const { nats, startHost } = await startHostServers(t);

/** What is sent, or what is answered, goes nowhere. */
type Cut = 'sent' | 'answered' | null;

class CutPublisher extends StreamPublisher {
  cut: Cut = null;
  /** Told of each that was cut. */
  onCut = (): void => {};

  override async publish(subject: string, data: Uint8Array, expected: Expectation): Promise<PublishResult> {
    if (this.cut === null) return super.publish(subject, data, expected);
    if (this.cut === 'answered') await super.publish(subject, data, expected);
    this.onCut();
    return { type: 'unanswered', description: 'cut' };
  }
}

class Node {
  readonly name: string;
  readonly replication: Replication;
  readonly #directory: string;
  readonly to = new CutPublisher(nats);
  #hosting: Hosting;
  #losing: Promise<void> = Promise.resolve();

  constructor(name: string, directory: string, replication: Replication) {
    this.name = name;
    this.replication = replication;
    this.#directory = directory;
    this.#hosting = this.#start();
  }

  #start(): Hosting {
    return startHost({}, null, {
      directory: this.#directory,
      replication: this.replication,
      to: this.to,
      // As an owner that gives up what its log refuses it.
      onFenced: () => void (this.#losing = this.#losing.then(() => this.lose())),
    });
  }

  partition = 0;
  /** Under which it took the partition last. */
  epoch = 0;

  get host(): Hosting['host'] {
    return this.#hosting.host;
  }

  get storage(): Hosting['storage'] {
    return this.#hosting.storage;
  }

  get isServing(): boolean {
    return this.host.isServing('accounts', this.partition);
  }

  async lose(): Promise<void> {
    await this.host.lose('accounts', this.partition);
  }

  async settled(): Promise<void> {
    await this.#losing;
  }

  async restart(): Promise<void> {
    if (this.isServing) await this.lose();
    await this.settled();
    await this.#hosting.stop();
    this.#hosting = this.#start();
  }

  async stop(): Promise<void> {
    await this.#hosting.stop();
    this.to.close();
  }

  /** Accounts in the log of this machine. */
  get accounts(): Set<string> {
    const { log } = this.storage;
    log.refresh();
    const lines = [...log.read('accounts', this.partition, { afterBatch: 0 })].flatMap(
      ({ records }) => records,
    );
    return new Set(lines.flatMap((line) => line.match(IDS) ?? []));
  }
}

function accountsIn(messages: readonly Buffer[]): Set<string> {
  return new Set(messages.flatMap((message) => message.toString('latin1').match(IDS) ?? []));
}

const root = temporaryDirectory(t);
let accounts = 0;

class Run {
  readonly #nodes: readonly Node[];
  readonly #partition: number;
  readonly random: () => number;
  readonly story: string[] = [];
  /** And not lost by a node that could not know of them. */
  acknowledged = new Set<string>();
  #epoch = 0;
  /** Since somebody took it. */
  #hasForgotten = false;

  constructor(nodes: readonly Node[], partition: number, seed: number) {
    this.#nodes = nodes;
    this.#partition = partition;
    this.random = randomFrom(seed);
    for (const node of nodes) Object.assign(node, { partition, epoch: 0 });
  }

  between(from: number, to: number): number {
    return from + Math.floor(this.random() * (to - from + 1));
  }

  /** What is wrong; null: nothing. */
  async step(): Promise<string | null> {
    for (const each of this.#nodes) await each.settled();
    const node = this.#nodes[this.between(0, this.#nodes.length - 1)]!;
    const owner = this.#nodes.find(({ isServing, epoch }) => isServing && epoch === this.#epoch);
    const kind = this.random();
    if (kind < 0.3 && owner !== undefined) return this.#write(owner);
    if (kind < 0.4 && owner !== undefined) return this.#die(owner);
    if (kind < 0.52) return this.#forget();
    if (kind < 0.72) return node.isServing ? this.#write(node) : this.take(node);
    if (kind < 0.95) return this.#follow(node);
    this.#tell(`${node.name} begins anew`);
    await node.restart();
    return null;
  }

  #tell(what: string): void {
    this.story.push(what);
  }

  async #forget(): Promise<null> {
    if (this.#epoch === 0) return null;
    await this.#tellReplaced();
    this.#hasForgotten = true;
    // Mostly the last alone, as where little goes on.
    const count = this.random() < 0.5 ? 1 : this.between(2, FORGOTTEN_MAX);
    this.#tell(`NATS forgets ${count}`);
    await forgetLast(nats, this.#partition, count);
    return null;
  }

  /** Whose batches are forgotten, or the next owner's first is, nothing but leases keeps from writing on: the place that it expects may be the
   *  stream's next again. */
  async #tellReplaced(): Promise<void> {
    for (const node of this.#nodes) if (node.isServing && node.epoch < this.#epoch) await node.lose();
  }

  async #follow(node: Node): Promise<null> {
    if (node.isServing) return null;
    const ends = await node.host.prepare('accounts', this.#partition).then(() => 'well', messageOf);
    this.#tell(`${node.name} follows: ${ends}`);
    return null;
  }

  #send(node: Node): { readonly id: string; readonly type: Promise<string> } {
    accounts += 1;
    const id = `${encodeTime(accounts)}${'0'.repeat(16)}`;
    const command = { ...OPEN_ACCOUNT, accountId: makeId('account', id), deadline: Date.now() + 60_000 };
    return {
      id: id.slice(0, 24),
      type: send(node.storage, this.#partition, command).then(({ type }) => type),
    };
  }

  async #write(node: Node): Promise<string | null> {
    const { id, type } = this.#send(node);
    const told = await type;
    await node.settled();
    this.#tell(`${node.name} writes ${id.slice(0, 10)}: ${told}`);
    return told === 'done' ? this.#noteDone(node, id) : null;
  }

  async #noteDone(node: Node, id: string): Promise<string | null> {
    const isAsync = node.replication === 'async';
    // What a replaced owner acknowledges so is lost: its lease keeps it from that.
    if (!isAsync || node.epoch === this.#epoch) this.acknowledged.add(id);
    const has = isAsync ? node.accounts : accountsIn(await messagesOf(nats, this.#partition));
    const where = isAsync ? 'its log' : 'the stream';
    return has.has(id) ? null : `${id} was acknowledged by ${node.name}, and ${where} has it not`;
  }

  /** With a batch on its way. */
  async #die(node: Node): Promise<string | null> {
    const cut: Cut = this.random() < 0.5 ? 'sent' : 'answered';
    const { promise, resolve } = Promise.withResolvers<void>();
    node.to.onCut = resolve;
    node.to.cut = cut;
    const { id, type } = this.#send(node);
    // Its stream may have refused it before.
    await Promise.race([promise, type]);
    node.to.cut = null;
    await node.lose();
    const told = await type;
    await node.settled();
    this.#tell(`${node.name} dies, its ${cut === 'sent' ? 'batch' : 'answer'} is lost: ${told}`);
    if (told !== 'done') return null;
    if (node.replication === 'async') return this.#noteDone(node, id);
    return `${id} was acknowledged by ${node.name}, which had no answer`;
  }

  /** What is wrong; null: nothing. */
  async take(node: Node): Promise<string | null> {
    this.#epoch += 1;
    if (this.#hasForgotten) await this.#tellReplaced();
    const known = new Set([...node.accounts, ...accountsIn(await streamedOrNone(this.#partition))]);
    try {
      await node.host.acquire('accounts', this.#partition, this.#epoch);
      node.host.serve('accounts', this.#partition);
      await node.settled();
    } catch (error) {
      await node.lose();
      this.#tell(`${node.name} takes it under ${this.#epoch}: ${messageOf(error)}`);
      return null;
    }
    node.epoch = this.#epoch;
    this.#hasForgotten = false;
    this.#tell(`${node.name} takes it under ${this.#epoch}: well`);
    const has = node.accounts;
    const lost = [...this.acknowledged].filter((id) => known.has(id) && !has.has(id));
    this.acknowledged = new Set([...this.acknowledged].filter((id) => has.has(id)));
    return lost.length === 0 ? null : `${node.name} lost ${lost.join(', ')}`;
  }
}

async function streamedOrNone(partition: number): Promise<Buffer[]> {
  return messagesOf(nats, partition).catch(() => []);
}

for (const replication of ['sync', 'async'] as const) {
  t.test(`with REPLICATION=${replication}`, async (t) => {
    const nodes = NAMES.map((name) => new Node(name, join(root, replication, name), replication));
    t.teardown(() => Promise.all(nodes.map((node) => node.stop())));
    for (let run = 0; run < RUNS; run++) {
      const partition = replication === 'sync' ? run : RUNS + run;
      await t.test(`SEED=${SEED + run}`, (t) => weather(t, nodes, partition, SEED + run));
    }
  });
}

async function weather(t: Test, nodes: readonly Node[], partition: number, seed: number): Promise<void> {
  const world = new Run(nodes, partition, seed);
  const wrong: string[] = [];
  for (let step = 0; step < STEPS && wrong.length === 0; step++) {
    const found = await world.step();
    if (found !== null) wrong.push(found);
  }
  for (const node of nodes) if (node.isServing) await node.lose();
  for (const node of nodes) await node.settled();
  // In the end one of them takes it, and the others follow.
  const [last, ...others] = nodes;
  for (let tries = 0; tries < TRIES && !last!.isServing; tries++) {
    const found = await world.take(last!);
    if (found !== null) wrong.push(found);
  }
  t.ok(last!.isServing, 'it is served in the end');
  for (const { host, storage } of others) {
    // A copy that has read what was forgotten since is told so by what follows, later.
    await host.forget('accounts', partition);
    await host.prepare('accounts', partition);
    t.strictSame(
      storage.log.tip('accounts', partition),
      last!.storage.log.tip('accounts', partition),
      'one log',
    );
  }
  const missing = [...world.acknowledged].filter((id) => !last!.accounts.has(id));
  t.strictSame([...wrong, ...missing], [], world.story.join('\n'));
  for (const { host } of others) await host.forget('accounts', partition);
  await last!.host.release('accounts', partition);
}
