// The log for people and machines: one JSON object a line on stdout, by pino. (The write-ahead log is wal/.)
//
// Invariants: every field and message passes redaction before it is written; a line does nothing to the terminal that shows it.

import { pino, stdTimeFunctions } from 'pino';
import type { DestinationStream, Logger } from 'pino';
import { printable } from '../../wal/printable.ts';
import { LogOutput } from './log-output.ts';
import { redact, redactText } from './redact.ts';

/** `fields` first, then what happened: `log.info({request_id}, 'charge created')`. An error goes in `err`. */
type Write = (fields: object, message: string) => void;

export interface Log {
  readonly debug: Write;
  readonly info: Write;
  readonly warn: Write;
  readonly error: Write;
  readonly fatal: Write;
  /** False: a debug line would not be written, so its fields need not be made. */
  readonly debugEnabled: boolean;
  /** Lines with these fields. */
  child(fields: object): Log;
}

interface Destination extends DestinationStream {
  flushSync?(): void;
}

export interface LogOptions {
  readonly level: string;
  /** In every line. */
  readonly node: string;
  /** Default: stdout. */
  readonly stream?: Destination;
}

export function createLog(options: LogOptions): Log {
  const destination: Destination = options.stream ?? new LogOutput();
  const shown: Destination = {
    write: (line) => destination.write(printable(line)),
    flushSync: () => destination.flushSync?.(),
  };
  return wrap(
    pino(
      {
        level: options.level,
        base: { node: options.node },
        timestamp: stdTimeFunctions.isoTime,
        messageKey: 'message',
        formatters: {
          level: (label) => ({ level: label }),
          log: (fields) => redact(fields) as Record<string, unknown>,
          bindings: (fields) => redact(fields) as Record<string, unknown>,
        },
        // Errors have become plain data in `formatters.log`.
        serializers: { err: (err: unknown) => err },
      },
      shown,
    ),
  );
}

function wrap(logger: Logger): Log {
  const writer =
    (level: 'debug' | 'info' | 'warn' | 'error' | 'fatal'): Write =>
    (fields, message) => {
      if (logger.isLevelEnabled(level)) logger[level](fields, redactText(message));
    };
  return {
    debug: writer('debug'),
    info: writer('info'),
    warn: writer('warn'),
    error: writer('error'),
    fatal: writer('fatal'),
    debugEnabled: logger.isLevelEnabled('debug'),
    child: (fields) => wrap(logger.child(fields)),
  };
}
