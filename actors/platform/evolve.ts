// What a record of the platform changes. Never refuses; reads no clock; replaying the log calls this alone.

import { assert } from '../../src/domain/assert.ts';
import type { PlatformRecord } from './record.ts';
import type { PlatformState } from './state.ts';

export function evolve(state: PlatformState, record: PlatformRecord, sequence: number): void {
  switch (record.type) {
    case 'AccountRegistered': {
      const { type: _, at, repeatable, ...rest } = record;
      state.put('accounts', record.id, { ...rest, createdAt: at, openedAt: null }, sequence);
      state.put('unopened', record.id, true, sequence);
      if (repeatable === null) return;
      const { idempotencyKey, requestHash } = repeatable;
      state.put('keys', idempotencyKey, { accountId: record.id, requestHash }, sequence);
      return;
    }
    case 'RegisteredAccountOpened': {
      const account = state.get('accounts', record.id);
      assert(account !== null, 'an account is registered before it is opened');
      state.put('accounts', record.id, { ...account, openedAt: record.at }, sequence);
      state.put('unopened', record.id, null, sequence);
      return;
    }
    case 'AuditBegun': {
      const { type: _, ...rest } = record;
      const open = { outcome: null, status: null, code: null, endedAt: null };
      state.put('audit', record.id, { ...rest, ...open }, sequence);
      return;
    }
    case 'AuditEnded': {
      const entry = state.get('audit', record.id);
      assert(entry !== null, 'a change is begun before it is ended');
      const { outcome, status, code, objectId, at } = record;
      const made = objectId === null ? null : { objectId };
      state.put('audit', record.id, { ...entry, outcome, status, code, ...made, endedAt: at }, sequence);
    }
  }
}
