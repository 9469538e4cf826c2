// The platform group: one partition with the registry of accounts and the operators' audit log, put together for the
// runtime. No timers, nobody waits. Nothing is decided or rendered in this file.

import { assert, AssertionFailure } from '../../src/domain/assert.ts';
import type { PlatformCommand, PlatformQuery } from '../../src/domain/platform-message.ts';
import type { Group, PartitionLogic } from '../runtime/group.ts';
import { decide } from './decide.ts';
import { evolve } from './evolve.ts';
import { answerQuery } from './query.ts';
import { decodePlatformRecord, encodePlatformRecord } from './record.ts';
import type { PlatformRecord } from './record.ts';
import { PlatformState } from './state.ts';

type PlatformLogic = PartitionLogic<PlatformCommand, PlatformQuery, PlatformRecord>;

export const platformGroup: Group<PlatformCommand, PlatformQuery, PlatformRecord> = {
  name: 'platform',
  messages: {
    RegisterAccount: 'command',
    RegisterKeyedAccount: 'command',
    MarkAccountOpened: 'command',
    BeginAudit: 'command',
    EndAudit: 'command',
    ListAccounts: 'query',
    ListUnopenedAccounts: 'query',
    GetAudit: 'query',
  },
  answerWaitMs: 0,
  viewsFormat: 1,
  open(partition, views, { writesRows }): PlatformLogic {
    assert(partition === 0, 'the platform has one partition');
    return openLogic(new PlatformState(views, writesRows));
  },
  encode: encodePlatformRecord,
  decode: decodePlatformRecord,
};

function openLogic(state: PlatformState): PlatformLogic {
  let lastSequence = 0;
  return {
    decide: (command, tick) => decide(state, command, tick),
    evolve(record, sequence) {
      evolve(state, record, sequence);
      lastSequence = sequence;
    },
    query: (query) => ({ reply: answerQuery(state, query), sequence: lastSequence }),
    answer: () => null,
    settleAnswer: (key) => {
      throw new AssertionFailure(`nobody waits for an answer of the platform: ${key}`);
    },
    nextDue: () => Infinity,
    takeDue: () => [],
    takeRows: () => state.takeRows(),
    evict: (sequence) => state.evict(sequence),
  };
}
