// Accounts, users and apps.

import { rejectedReply, type Reply } from '../bus/bus.ts';
import type { AccountSettingsChanges } from '../domain/account-command.ts';
import { rejection } from '../domain/error-code.ts';
import type { Rejection } from '../domain/error-code.ts';
import { parseAccountTerms } from '../domain/policy-file.ts';
import type { PolicyProblem } from '../domain/policy-file.ts';
import { echoed } from '../http/echoed.ts';
import type { PlainRoute } from '../http/route.ts';
import { PayoutDestinationList } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { CannotOpen } from '../secrets.ts';
import { connectApp, createAccount, makeAppSecrets } from './account-actions.ts';
import { askAccount, askPlatform, freshId } from './context.ts';
import type { OperatorContext } from './context.ts';
import { done, operatorRoute, pageOf, repeatableOf } from './route.ts';
import * as examples from './examples.ts';
import * as replies from './reply-schemas.ts';
import * as schemas from './schemas.ts';

export function accountRoutes(context: OperatorContext): readonly PlainRoute[] {
  return [...ofAccounts(context), ...ofUsers(context), ...ofApps(context)];
}

function ofAccounts(context: OperatorContext): PlainRoute[] {
  return [
    operatorRoute(context, {
      method: 'POST',
      path: '/accounts',
      operationId: 'createAccount',
      summary: 'Create an account',
      description:
        'Opens an account for a merchant, without members, apps or money; what is not switched on here is off. Next: ' +
        '`addUser` for its owner and, once it is `live`, `connectApp`, which makes the key for `/v1`.',
      body: schemas.CreateAccountBody,
      bodyExamples: { shop: examples.createAccount },
      status: 201,
      answers: 'The account.',
      examples: { opened: examples.accountOpened },
      errors: ['idempotency_key_reused', 'conflict'],
      reply: replies.Account,
      handle: ({ body, operator, deadline }) =>
        createAccount(
          context,
          {
            accountId: freshId('account'),
            name: body.name,
            country: body.country,
            live: body.live ?? false,
            payoutsEnabled: body.payouts_enabled ?? false,
            withdrawalsEnabled: body.withdrawals_enabled ?? false,
            operator,
          },
          deadline,
          repeatableOf(body),
        ),
    }),
    operatorRoute(context, {
      method: 'GET',
      path: '/accounts',
      operationId: 'listAccounts',
      summary: 'List accounts, newest first',
      description:
        'Changes nothing. `getAccount` has the rest of each. One that is not `opened` is opened by the service, as soon as its ' +
        'partition can be reached.',
      answers: 'A page of accounts.',
      examples: { page: examples.page(examples.accountEntry) },
      query: schemas.PageQuery,
      errors: ['invalid_cursor'],
      reply: replies.AccountPage,
      handle: ({ query }) => askPlatform(context, { type: 'ListAccounts', ...pageOf(query) }),
    }),
    operatorRoute(context, {
      method: 'GET',
      path: '/accounts/:account_id',
      operationId: 'getAccount',
      summary: 'Get an account with its users, apps, wallets and balances',
      description:
        'Changes nothing. Of `fees`, `limits` and `approval_thresholds` what is its own. Of members and apps that were removed, ' +
        'and of wallets that were revoked, the newest are told.',
      answers: 'The account.',
      examples: { inUse: examples.account },
      reply: replies.Account,
      handle: (_, accountId) => askAccount(context, { type: 'GetAccount', accountId }),
    }),
    operatorRoute(context, {
      method: 'PATCH',
      path: '/accounts/:account_id',
      operationId: 'changeAccount',
      summary: 'Change what an account may do, and its own terms',
      description:
        'What is left out stays as it is. It holds for what is asked for from then on: what was created before keeps its fee, and ' +
        'what is in flight goes on. While `live` is off every key of the account is refused.',
      body: schemas.ChangeAccountBody,
      bodyExamples: { goLive: examples.goLive, ownTerms: examples.ownTerms },
      answers: 'The account.',
      examples: { changed: examples.account },
      reply: replies.Account,
      handle: async ({ body, operator, deadline }, accountId) => {
        const terms = parseAccountTerms(body);
        if (terms.type === 'invalid') return rejectedReply(termsProblem(terms.problems));
        const changes: AccountSettingsChanges = {
          live: body.live,
          payoutsEnabled: body.payouts_enabled,
          withdrawalsEnabled: body.withdrawals_enabled,
          cashOutPerMinute: body.cash_out_per_minute,
          ...terms.value,
        };
        return askAccount(context, { type: 'ChangeAccountSettings', accountId, changes, operator, deadline });
      },
    }),
  ];
}

const OWNER_OR_OPERATOR =
  'whoever has the operator token. With `by` an owner of the account, who can neither change nor remove another owner.';

function ofUsers(context: OperatorContext): PlainRoute[] {
  return [
    operatorRoute(context, {
      method: 'POST',
      path: '/accounts/:account_id/users',
      operationId: 'addUser',
      summary: 'Add a member',
      description:
        'What they may do goes by their role, wherever `by` names them. The same address and role again answer the member that ' +
        'there is; with another role it is 409, for `changeUser`. Next: pass their `id` as `by`.',
      body: schemas.AddUserBody,
      bodyExamples: { owner: examples.addUser },
      status: 201,
      answers: 'The member.',
      examples: { owner: examples.user },
      errors: ['conflict'],
      reply: replies.User,
      handle: ({ body, operator, deadline }, accountId) =>
        askAccount(context, { type: 'AddUser', accountId, ...body, operator, deadline }),
    }),
    partOfAccount(context, 'users'),
    operatorRoute(context, {
      method: 'PATCH',
      path: '/accounts/:account_id/users/:user_id',
      operationId: 'changeUser',
      summary: 'Change what a member may do; the last owner stays one',
      description:
        'Gives a member another role. What they did before stays. Refused for the last owner: add another one first.',
      who: OWNER_OR_OPERATOR,
      body: schemas.ChangeUserBody,
      bodyExamples: { toAdmin: examples.changeUser },
      answers: 'The member.',
      examples: { admin: examples.clerk },
      errors: ['not_permitted', 'conflict'],
      reply: replies.User,
      handle: ({ body, operator, deadline, parameters }, accountId) =>
        askAccount(context, {
          type: 'ChangeUserRole',
          accountId,
          userId: parameters.user_id,
          role: body.role,
          by: body.by ?? null,
          operator,
          deadline,
        }),
    }),
    operatorRoute(context, {
      method: 'DELETE',
      path: '/accounts/:account_id/users/:user_id',
      operationId: 'removeUser',
      summary: 'Remove a member, who may do nothing from then on; the last owner stays',
      description:
        'What they did stays, under their id, and lists show them with `removed_at`. The wallets that they added and the ' +
        'withdrawals that they asked for go on, and still wait for somebody else. Again it changes nothing. Added again they are a ' +
        'new user, and the same person.',
      who: OWNER_OR_OPERATOR,
      answers: 'The member that was removed.',
      examples: { removed: examples.clerkRemoved },
      query: schemas.RemoveUserQuery,
      errors: ['not_permitted', 'conflict'],
      reply: replies.User,
      handle: ({ query, operator, deadline, parameters }, accountId) =>
        askAccount(context, {
          type: 'RemoveUser',
          accountId,
          userId: parameters.user_id,
          by: query.by ?? null,
          operator,
          deadline,
        }),
    }),
  ];
}

function ofApps(context: OperatorContext): PlainRoute[] {
  return [
    operatorRoute(context, {
      method: 'POST',
      path: '/accounts/:account_id/apps',
      operationId: 'connectApp',
      summary: 'Connect an app; its secret key is shown this once',
      description:
        'Makes the keys for `/v1` and the secret that signs the webhooks of the app. The account has to be `live`. Next: give the ' +
        'merchant `secret_key` and `signing_secret`, where nobody else can read them. Of the key only a hash is kept: if it is ' +
        'lost, `removeApp`, and connect another.',
      body: schemas.ConnectAppBody,
      bodyExamples: { shop: examples.connectApp },
      status: 201,
      answers: 'The app, with its secrets.',
      examples: { connected: examples.connectedApp },
      errors: ['live_mode_not_enabled', 'conflict'],
      reply: replies.ConnectedApp,
      handle: async ({ body, operator, deadline }, accountId) => {
        const webhookUrl = body.webhook_url ?? null;
        const problem = webhookProblem(context, webhookUrl);
        if (problem !== null) return rejectedReply(problem);
        const secrets = makeAppSecrets(accountId, body.idempotency_key);
        const app = { accountId, name: body.name, domain: body.domain, webhookUrl };
        const reply = await connectApp(context, { ...app, operator, deadline }, secrets);
        return withFields(reply, { secret_key: secrets.secretKey, signing_secret: secrets.signingSecret });
      },
    }),
    partOfAccount(context, 'apps'),
    operatorRoute(context, {
      method: 'PATCH',
      path: '/accounts/:account_id/apps/:app_id',
      operationId: 'changeApp',
      summary: "Change an app's webhook URL",
      description:
        'Attempts go there from then on, those of events that wait for one as well. With null what waits is cancelled, and what ' +
        'happens without a URL is not told later.',
      body: schemas.ChangeAppBody,
      bodyExamples: { moved: examples.changeApp, nowhere: { webhook_url: null } },
      answers: 'The app.',
      examples: { moved: examples.app },
      errors: ['conflict'],
      reply: replies.App,
      handle: async ({ body, operator, deadline, parameters }, accountId) => {
        const webhookUrl = body.webhook_url;
        const problem = webhookProblem(context, webhookUrl);
        if (problem !== null) return rejectedReply(problem);
        const appId = parameters.app_id;
        return askAccount(context, {
          type: 'ChangeAppWebhook',
          accountId,
          appId,
          webhookUrl,
          operator,
          deadline,
        });
      },
    }),
    operatorRoute(context, {
      method: 'DELETE',
      path: '/accounts/:account_id/apps/:app_id',
      operationId: 'removeApp',
      summary: 'Remove an app: its keys stop working at once',
      description:
        'For good, and the way to end a key that has leaked. Its webhooks that wait are cancelled; the money that its keys moved ' +
        'goes on. Again it changes nothing. Next: `connectApp` for another.',
      answers: 'The app that was removed.',
      examples: { removed: examples.appRemoved },
      reply: replies.App,
      handle: ({ operator, deadline, parameters }, accountId) =>
        askAccount(context, { type: 'RemoveApp', accountId, appId: parameters.app_id, operator, deadline }),
    }),
    ofSigningSecret(context),
  ];
}

function ofSigningSecret(context: OperatorContext): PlainRoute {
  return operatorRoute(context, {
    method: 'POST',
    path: '/accounts/:account_id/apps/:app_id/reveal_signing_secret',
    operationId: 'revealSigningSecret',
    summary: "Show an app's webhook signing secret again",
    description:
      'Changes nothing; the audit log has that it was shown. For a merchant who has lost it: one that has leaked is not ' +
      'changed, its app is removed.',
    answers: 'The signing secret.',
    examples: { shown: examples.signingSecret },
    errors: ['conflict'],
    reply: replies.SigningSecret,
    handle: async ({ parameters }, accountId) => {
      const appId = parameters.app_id;
      const reply = await askAccount(context, { type: 'GetWebhookEndpoint', accountId, appId });
      if (reply.type !== 'done') return reply;
      const { signingSecretSealed } = JSON.parse(reply.body) as { signingSecretSealed: string };
      try {
        const signingSecret = context.secrets.open('signing-secret', signingSecretSealed);
        return done({ id: appId, signing_secret: signingSecret });
      } catch (error) {
        if (!(error instanceof CannotOpen)) throw error;
        return rejectedReply(
          rejection('conflict', 'The secret was sealed with another MASTER_KEY than this one.'),
        );
      }
    },
  });
}

const PARTS = {
  users: {
    reply: replies.UserList,
    description: 'Of those who were removed the newest, with `removed_at`.',
    answers: 'The members.',
    examples: { members: examples.list(examples.user, examples.clerk) },
  },
  apps: {
    reply: replies.AppList,
    description: 'Of those that were removed the newest, with `removed_at`. Without their secrets.',
    answers: 'The apps.',
    examples: { apps: examples.list(examples.app) },
  },
  wallets: {
    reply: PayoutDestinationList,
    description: 'Of those that were revoked the newest. `PENDING_APPROVAL` waits for `approveWallet`.',
    answers: 'The payout wallets.',
    examples: { wallets: examples.list(examples.wallet) },
  },
} as const;

/** GET …/users, …/apps, …/wallets. */
export function partOfAccount(context: OperatorContext, part: 'users' | 'apps' | 'wallets'): PlainRoute {
  const facts = PARTS[part];
  return operatorRoute(context, {
    method: 'GET',
    path: `/accounts/:account_id/${part}`,
    operationId: `list${part.charAt(0).toUpperCase()}${part.slice(1)}`,
    summary: `List the ${part} of an account, in the order they were added`,
    ...facts,
    description: `Changes nothing. ${facts.description}`,
    handle: async (_, accountId) => {
      const reply = await askAccount(context, { type: 'GetAccount', accountId });
      if (reply.type !== 'done') return reply;
      const account = JSON.parse(reply.body) as Record<typeof part, readonly unknown[]>;
      return done({ object: 'list', data: account[part] });
    },
  });
}

function withFields(reply: Reply, fields: object): Reply {
  if (reply.type !== 'done') return reply;
  return done({ ...(JSON.parse(reply.body) as object), ...fields });
}

function webhookProblem(context: OperatorContext, url: string | null): Rejection | null {
  const problem = url === null ? null : context.checkWebhookUrl(url);
  return problem === null
    ? null
    : rejection('validation_failed', `\`webhook_url\` ${problem}.`, 'webhook_url');
}

/** Their names are the caller's, any number and as long as a body. */
function termsProblem(problems: readonly PolicyProblem[]): Rejection {
  const told = problems.slice(0, LIMITS.termProblemsToldMax).map(({ path, message }) => {
    const name = echoed(path);
    return name === path ? message : `${name} is not known`;
  });
  const more = problems.length - told.length;
  const message = more > 0 ? [...told, `and ${more} more`] : told;
  return rejection('validation_failed', `${message.join('; ')}.`, echoed(problems[0]?.path ?? ''));
}
