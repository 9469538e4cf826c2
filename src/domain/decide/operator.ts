// Decisions on what operators do with the operator token: open and configure accounts, connect apps.
// Who sends one again because its answer was lost finds its own work done and gets the same answer (src/operator/README.md names them).

import type { Account, AccountSettings, App } from '../account.ts';
import type {
  AccountSettingsChanges,
  ChangeAccountSettings,
  ChangeAppWebhook,
  ConnectApp,
  OpenAccount,
  RemoveApp,
} from '../account-command.ts';
import { changed, type Decision, done, NO_ACCOUNT, refuse } from './decision.ts';
import { type Rejection, rejection } from '../error-code.ts';
import { newAccount } from '../evolve.ts';
import { makeId } from '../id.ts';
import { bytesOf, isNotRemoved, renderAccount, renderApp } from '../render/account.ts';
import type { Context, LedgerState } from '../state.ts';
import { formatTime } from '../time.ts';

export const NO_APP: Rejection = rejection('not_found', 'There is no such app on the account.');

export function decideOpenAccount(
  state: LedgerState,
  command: OpenAccount,
  { now, accountListBytesMax }: Context,
): Decision {
  const { accountId, name, country, live, payoutsEnabled, withdrawalsEnabled } = command;
  const existing = state.account(accountId);
  if (existing !== undefined) return done(null, renderAccount(existing, accountListBytesMax));
  const settings: AccountSettings = {
    live,
    payoutsEnabled,
    withdrawalsEnabled,
    approvalThresholds: {},
    cashOutPerMinute: null,
    fees: {},
    limits: {},
  };
  return changed(
    accountId,
    now,
    { type: 'AccountOpened', name, country, settings },
    renderAccount(newAccount(accountId, name, country, now, settings, 0)),
  );
}

export function decideChangeSettings(
  state: LedgerState,
  command: ChangeAccountSettings,
  { now, accountListBytesMax }: Context,
): Decision {
  const account = state.account(command.accountId);
  if (account === undefined) return refuse(NO_ACCOUNT);
  const settings = mergeSettings(account.settings, command.changes);
  return changed(
    account.id,
    now,
    { type: 'AccountSettingsChanged', settings, by: command.operator },
    renderAccount({ ...account, settings }, accountListBytesMax),
  );
}

/** A field that is absent stays; one of the account's own terms that is null is dropped, so that policy holds again. */
function mergeSettings(current: AccountSettings, changes: AccountSettingsChanges): AccountSettings {
  return {
    live: changes.live ?? current.live,
    payoutsEnabled: changes.payoutsEnabled ?? current.payoutsEnabled,
    withdrawalsEnabled: changes.withdrawalsEnabled ?? current.withdrawalsEnabled,
    approvalThresholds: mergeTerms(current.approvalThresholds, changes.approvalThresholds),
    cashOutPerMinute:
      changes.cashOutPerMinute === undefined ? current.cashOutPerMinute : changes.cashOutPerMinute,
    fees: mergeTerms(current.fees, changes.fees),
    limits: mergeTerms(current.limits, changes.limits),
  };
}

function mergeTerms<K extends string, V>(
  current: Partial<Record<K, V>>,
  changes: Partial<Record<K, V | null>> | undefined,
): Partial<Record<K, V>> {
  const merged: Partial<Record<K, V>> = { ...current };
  if (changes === undefined) return merged;
  for (const key of Object.keys(changes) as K[]) {
    const value = changes[key];
    if (value === null) delete merged[key];
    else if (value !== undefined) merged[key] = value;
  }
  return merged;
}

export function decideConnectApp(
  state: LedgerState,
  command: ConnectApp,
  { now, freshBody, appsMax, accountListBytesMax }: Context,
): Decision {
  const account = state.account(command.accountId);
  if (account === undefined) return refuse(NO_ACCOUNT);
  // Specification, part 5: until live payments are on, API keys cannot be created.
  if (!account.settings.live) return refuse(rejection('live_mode_not_enabled'));
  let connected = 0;
  for (const app of account.apps.values()) {
    if (app.publishableKey === command.publishableKey) {
      // The same command, sent again by the bus, or another with the idempotency key of the first.
      const isSame = app.secretKeyHash === command.secretKeyHash;
      return isSame ? done(null, renderApp(app)) : refuse(connectedBefore(app));
    }
    if (app.removedAt === null) connected++;
  }
  if (connected >= appsMax) {
    return refuse(
      rejection('conflict', `The account has ${connected} apps, the most it may have: remove one.`),
    );
  }
  const {
    name,
    domain,
    webhookUrl,
    publishableKey,
    secretKeyHash,
    signingSecretSealed,
    operator: by,
  } = command;
  const id = makeId('app', freshBody);
  const app = { id, name, domain, webhookUrl, publishableKey, secretKeyHash, signingSecretSealed };
  const body = renderApp({ ...app, removedAt: null, createdAt: now });
  if (bytesOf([...otherApps(account, id), body]) > accountListBytesMax) return refuse(APPS_TOO_LONG);
  return changed(account.id, now, { type: 'AppConnected', ...app, by }, body);
}

function connectedBefore({ id, createdAt, removedAt }: App): Rejection {
  const what = `${id} was connected with this idempotency key at ${formatTime(createdAt)}`;
  const mend =
    'Its secret key is told once: where nobody has it, remove the app, and connect another with a new key.';
  return rejection(
    'conflict',
    removedAt === null ? `${what}. ${mend}` : `${what}, and removed since: use a new key.`,
  );
}

const APPS_TOO_LONG: Rejection = rejection(
  'conflict',
  'The apps of the account would be too long to be told: remove one, or shorten a webhook URL.',
);

/** As they are told: the connected ones but this. */
function otherApps(account: Account, appId: string): string[] {
  return [...account.apps.values()].filter((app) => app.id !== appId && isNotRemoved(app)).map(renderApp);
}

export function decideChangeAppWebhook(
  state: LedgerState,
  command: ChangeAppWebhook,
  { now, accountListBytesMax }: Context,
): Decision {
  const { accountId, appId, webhookUrl, operator: by } = command;
  const account = state.account(accountId);
  const app = account?.apps.get(appId);
  if (account === undefined || app === undefined) return refuse(NO_APP);
  if (app.removedAt !== null) return refuse(rejection('conflict', 'The app was removed.'));
  const body = renderApp({ ...app, webhookUrl });
  if (app.webhookUrl === webhookUrl) return done(null, body);
  const isLonger = bytesOf([body]) > bytesOf([renderApp(app)]);
  if (isLonger && bytesOf([...otherApps(account, appId), body]) > accountListBytesMax) {
    return refuse(APPS_TOO_LONG);
  }
  return changed(accountId, now, { type: 'AppWebhookChanged', id: appId, webhookUrl, by }, body);
}

export function decideRemoveApp(state: LedgerState, command: RemoveApp, { now }: Context): Decision {
  const { accountId, appId, operator: by } = command;
  const app = state.account(accountId)?.apps.get(appId);
  if (app === undefined) return refuse(NO_APP);
  if (app.removedAt !== null) return done(null, renderApp(app));
  return changed(
    accountId,
    now,
    { type: 'AppRemoved', id: appId, by },
    renderApp({ ...app, removedAt: now }),
  );
}
