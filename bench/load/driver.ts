// The node driver: a process of its own that sends requests over keep-alive connections, one at a time on each, and keeps
// HDR histograms. Started by drive.ts with a file of JSON (job.ts).
//
// In an open loop the n-th request is intended at n / rate, whatever the server does. When no connection is free it waits,
// and its wait counts: latency is from the intended send time, so a stall of the server is felt by every request
// that should have been sent meanwhile (no coordinated omission).
//
// Nothing may be computed here per request that the other driver does not need too: it shares the cores with the server.

import { readFileSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { build, type Histogram } from 'hdr-histogram-js';
import { PERCENTILES, type Latency } from '../result.ts';
import type { DriverJob, DriverLine } from './job.ts';
import { isCreate, kindOf, RequestMaker } from './work.ts';
import { pause } from '../../src/pause.ts';

/** Without a whole answer for this long a request is given up and its connection replaced. */
const ANSWER_MS = 10_000;
/** As HTTP clients do: services close connections that are idle longer (ours after 10 s), maybe as a request comes. */
const IDLE_MS = 5_000;
const TICK_MS = 1;
const US_PER_MS = 1_000;
const MS_PER_SECOND = 1_000;
const ANSWER_START = 'HTTP/';
const HEAD_END = '\r\n\r\n';
const HEAD_END_LENGTH = HEAD_END.length;
const ID_START = '{"id":"';

interface Connection {
  socket: Socket;
  /** What has come of the answer. */
  received: string;
  /** Number of the request under way; -1: none. */
  counter: number;
  intendedAt: number;
  sentAt: number;
  idleSince: number;
}

class Driver {
  readonly #job: DriverJob;
  readonly #maker: RequestMaker;
  readonly #latencies: Histogram = histogram();
  readonly #lateness: Histogram = histogram();
  readonly #statuses: Record<string, number> = {};
  readonly #errors: Record<string, number> = {};
  readonly #series: number[] = [];
  readonly #acknowledged: string[] = [];
  /** The longest idle first: each is used in its turn. */
  readonly #idle: Connection[] = [];
  readonly #all: Connection[] = [];
  readonly #connecting = new Set<Socket>();
  #startAt = 0;
  #sent = 0;
  #answeredWith2xx = 0;
  #open = 0;
  #sending = true;
  /** Measured; Infinity: until one is answered. */
  #seconds: number;

  constructor(job: DriverJob) {
    this.#job = job;
    this.#seconds = job.seconds;
    this.#maker = new RequestMaker(job.work, `${job.host}:${job.port}`);
  }

  async run(): Promise<void> {
    const { connections, warmUpSeconds, seconds } = this.#job;
    await Promise.all(Array.from({ length: connections }, () => this.#connect()));
    this.#startAt = performance.now();
    const ticking = setInterval(() => this.#tick(), TICK_MS);
    this.#pump();
    await pause(warmUpSeconds * MS_PER_SECOND);
    tell({ type: 'begin' });
    const telling = setInterval(() => this.#tellSecond(), MS_PER_SECOND);
    await pause(seconds * MS_PER_SECOND);
    await this.#untilOneAnswered();
    this.#sending = false;
    tell({ type: 'end' });
    clearInterval(telling);
    const unsent = await this.#countUnsent();
    await this.#untilAnswered();
    clearInterval(ticking);
    // Or this process would live on for them.
    for (const { socket } of this.#all) socket.destroy();
    for (const socket of this.#connecting) socket.destroy();
    this.#finish(unsent);
  }

  /** So that a stall longer than a short load is measured, not taken for a service that answers nothing. */
  async #untilOneAnswered(): Promise<void> {
    if (this.#series.length > 0) return;
    this.#seconds = Infinity;
    const giveUpAt = performance.now() + ANSWER_MS;
    while (this.#series.length === 0 && this.#all.length > 0 && performance.now() < giveUpAt) {
      await pause(TICK_MS);
    }
    this.#seconds = this.#secondOf(performance.now());
  }

  #finish(unsent: number): void {
    const { acknowledgedFile, ratePerSecond } = this.#job;
    if (acknowledgedFile !== null) writeFileSync(acknowledgedFile, this.#acknowledged.join('\n'));
    tell({
      type: 'result',
      result: {
        statuses: this.#statuses,
        errors: this.#errors,
        unsent,
        latency: latencyOf(this.#latencies),
        driverLateMsP99: ratePerSecond === null ? null : this.#lateness.getValueAtPercentile(99) / US_PER_MS,
        seconds: this.#seconds,
        series: Array.from(
          { length: Math.max(1, Math.floor(this.#seconds)) },
          (_, at) => this.#series[at] ?? 0,
        ),
        sent: this.#sent,
        answered: this.#answeredWith2xx,
      },
    });
  }

  // ---- Sending

  #tick(): void {
    this.#replaceIdle();
    this.#pump();
    const now = performance.now();
    for (const connection of this.#all) {
      if (connection.counter >= 0 && now - connection.sentAt > ANSWER_MS) this.#lose(connection, 'timeout');
    }
  }

  /** Sends what is due, as far as connections are free. */
  #pump(): void {
    if (!this.#sending) return;
    const { ratePerSecond } = this.#job;
    const now = performance.now();
    const due =
      ratePerSecond === null
        ? Infinity
        : Math.floor(((now - this.#startAt) / MS_PER_SECOND) * ratePerSecond) + 1;
    while (this.#sent < due) {
      const connection = this.#idle.shift();
      if (connection === undefined) return;
      this.#send(connection, ratePerSecond, now);
    }
  }

  #send(connection: Connection, ratePerSecond: number | null, now: number): void {
    const counter = this.#sent++;
    connection.counter = counter;
    connection.sentAt = now;
    connection.intendedAt = ratePerSecond === null ? now : this.#intendedAt(counter, ratePerSecond);
    connection.received = '';
    this.#open++;
    connection.socket.write(this.#maker.request(counter), 'latin1');
    // When a connection was free, all of the wait was the driver's own doing.
    if (ratePerSecond !== null && this.#idle.length > 0 && this.#isMeasured(connection.intendedAt)) {
      this.#lateness.recordValue(microseconds(now - connection.intendedAt));
    }
  }

  #intendedAt(counter: number, ratePerSecond: number): number {
    return this.#startAt + (counter / ratePerSecond) * MS_PER_SECOND;
  }

  /** Those that should have been sent by now: as if they were answered as soon as a connection is free, which is
   *  no later than they would have been. */
  async #countUnsent(): Promise<number> {
    const { ratePerSecond, warmUpSeconds } = this.#job;
    if (ratePerSecond === null) return 0;
    const intended = Math.floor((warmUpSeconds + this.#seconds) * ratePerSecond);
    while (this.#sent < intended && this.#idle.length === 0 && this.#open > 0) await pause(TICK_MS);
    const now = performance.now();
    for (let counter = this.#sent; counter < intended; counter++) {
      const intendedAt = this.#intendedAt(counter, ratePerSecond);
      if (this.#isMeasured(intendedAt)) this.#latencies.recordValue(microseconds(now - intendedAt));
    }
    return Math.max(0, intended - this.#sent);
  }

  // ---- Answers

  #hear(connection: Connection, chunk: Buffer): void {
    connection.received += chunk.toString('latin1');
    const { received } = connection;
    if (connection.counter < 0) {
      // Of an answer there may be something left.
      if (!received.startsWith(ANSWER_START)) return;
      this.#countError('unasked');
      this.#lose(connection, 'unasked');
      return;
    }
    const headEnd = received.indexOf(HEAD_END);
    if (headEnd < 0) return;
    const length = contentLengthOf(received.slice(0, headEnd));
    const end = headEnd + HEAD_END_LENGTH + length;
    if (received.length < end) return;
    // It would be taken for the answer to the next request.
    if (received.startsWith(ANSWER_START, end)) {
      this.#lose(connection, 'unasked');
      return;
    }
    const status = received.slice(9, 12);
    this.#answered(connection, status, headEnd + HEAD_END_LENGTH);
    connection.counter = -1;
    connection.received = '';
    this.#open--;
    this.#release(connection);
    this.#pump();
  }

  #answered(connection: Connection, status: string, bodyAt: number): void {
    const now = performance.now();
    const { counter, received, intendedAt } = connection;
    const isDone = status.startsWith('2');
    if (isDone) this.#answeredWith2xx++;
    const { acknowledgedFile, work } = this.#job;
    if (isDone && acknowledgedFile !== null && isCreate(kindOf(work, counter))) {
      this.#acknowledged.push(`${this.#maker.keyNumberOf(counter)} ${idIn(received, bodyAt)}`);
    }
    const isMeasured = this.#isMeasured(intendedAt);
    if (isMeasured) this.#latencies.recordValue(microseconds(now - intendedAt));
    const second = this.#secondOf(now);
    // What comes after the end is not done in its time, but a refusal is one whenever it comes. It may come before we know that
    // the time is over.
    const isOver = !this.#sending || second >= this.#seconds;
    if (second < 0 || (isOver && isDone)) return;
    // What the warm-up left behind is not done of what was offered since.
    if (!isMeasured && this.#job.ratePerSecond !== null) return;
    this.#statuses[status] = (this.#statuses[status] ?? 0) + 1;
    if (isDone) this.#series[Math.floor(second)] = (this.#series[Math.floor(second)] ?? 0) + 1;
  }

  /** Of the measured time; negative during the warm-up. */
  #secondOf(at: number): number {
    return (at - this.#startAt) / MS_PER_SECOND - this.#job.warmUpSeconds;
  }

  #isMeasured(intendedAt: number): boolean {
    return this.#secondOf(intendedAt) >= 0;
  }

  #tellSecond(): void {
    const second = Math.floor(this.#secondOf(performance.now())) - 1;
    tell({ type: 'second', second, perSecond: this.#series[second] ?? 0 });
  }

  // ---- Connections

  #connect(): Promise<void> {
    return new Promise((resolve, reject) => {
      const { host, port } = this.#job;
      const socket = connect({ host, port, noDelay: true });
      const connection: Connection = {
        socket,
        received: '',
        counter: -1,
        intendedAt: 0,
        sentAt: 0,
        idleSince: 0,
      };
      this.#connecting.add(socket);
      const refused = (error: Error): void => {
        this.#connecting.delete(socket);
        reject(error);
      };
      socket.once('error', refused);
      socket.once('connect', () => {
        this.#connecting.delete(socket);
        socket.off('error', refused);
        this.#all.push(connection);
        this.#attach(connection);
        resolve();
      });
    });
  }

  #attach(connection: Connection): void {
    const { socket } = connection;
    socket.on('data', (chunk) => this.#hear(connection, chunk));
    socket.on('error', () => this.#lose(connection, 'reset'));
    socket.on('close', () => this.#lose(connection, 'closed'));
    this.#release(connection);
  }

  #release(connection: Connection): void {
    connection.idleSince = performance.now();
    this.#idle.push(connection);
  }

  #replaceIdle(): void {
    const before = performance.now() - IDLE_MS;
    for (
      let oldest = this.#idle[0];
      oldest !== undefined && oldest.idleSince < before;
      oldest = this.#idle[0]
    ) {
      this.#lose(oldest, 'idle');
    }
  }

  /** The connection is gone; what was under way on it has no answer. */
  #lose(connection: Connection, reason: string): void {
    const place = this.#all.indexOf(connection);
    if (place < 0) return;
    this.#all.splice(place, 1);
    const free = this.#idle.indexOf(connection);
    if (free >= 0) this.#idle.splice(free, 1);
    if (connection.counter >= 0) {
      this.#open--;
      this.#countError(reason);
      if (this.#isMeasured(connection.intendedAt)) {
        this.#latencies.recordValue(microseconds(performance.now() - connection.intendedAt));
      }
    }
    connection.socket.destroy();
    if (!this.#sending) return;
    this.#connect().then(
      () => this.#pump(),
      () => this.#countRefused(),
    );
  }

  #countError(reason: string): void {
    this.#errors[reason] = (this.#errors[reason] ?? 0) + 1;
  }

  #countRefused(): void {
    this.#countError('refused');
    if (this.#all.length === 0) this.#sending = false;
  }

  async #untilAnswered(): Promise<void> {
    while (this.#open > 0) await pause(TICK_MS);
  }
}

/** '': it names none. */
function idIn(received: string, bodyAt: number): string {
  if (!received.startsWith(ID_START, bodyAt)) return '';
  const idAt = bodyAt + ID_START.length;
  return received.slice(idAt, received.indexOf('"', idAt));
}

function contentLengthOf(head: string): number {
  const found = /content-length: *(\d+)/i.exec(head);
  return found === null ? 0 : Number(found[1]);
}

function histogram(): Histogram {
  return build({
    lowestDiscernibleValue: 1,
    highestTrackableValue: 3_600_000_000,
    numberOfSignificantValueDigits: 3,
    bitBucketSize: 32,
  });
}

function microseconds(ms: number): number {
  return Math.max(1, Math.round(ms * US_PER_MS));
}

function latencyOf(latencies: Histogram): Latency {
  return {
    meanMs: latencies.mean / US_PER_MS,
    maxMs: latencies.maxValue / US_PER_MS,
    percentiles: PERCENTILES.map((percent) => [percent, latencies.getValueAtPercentile(percent) / US_PER_MS]),
  };
}

function tell(line: DriverLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

// Whatever it dies of goes into the report, too.
process.on('uncaughtExceptionMonitor', ({ message }) => tell({ type: 'failed', message }));

await new Driver(JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as DriverJob).run();
