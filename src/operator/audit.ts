// Every change that operators make is in the audit log: durably before it is tried, with what came of it after.
//
// Invariant: no change without its entry. When the entry cannot be written, or not in time, the change is not tried; when only its
// end cannot be written the operator still gets the answer, and the entry stays open.

import { answerOf, UNAVAILABLE } from '../http/route.ts';
import type { Answer, PlainRequest } from '../http/route.ts';
import { ERROR_CODES } from '../domain/error-code.ts';
import type { EndAudit } from '../domain/platform-message.ts';
import { redact } from '../observability/redact.ts';
import { askPlatform, freshId, fromNow } from './context.ts';
import type { OperatorContext } from './context.ts';

const OPERATOR_BY_DEFAULT = 'operator';
const NAME_LENGTH = 64;

const NOT_DONE: Answer = { type: 'rejected', rejection: UNAVAILABLE };

/** Who acts: the `Operator` header, printable and short, or "operator". */
export function operatorOf({ operator }: { readonly operator: string | null }): string {
  const name = (operator ?? '')
    .replace(/[^\x20-\x7e]/g, '')
    .trim()
    .slice(0, NAME_LENGTH);
  return name === '' ? OPERATOR_BY_DEFAULT : name;
}

/** `action`: method and path template. */
export async function audited(
  context: OperatorContext,
  action: string,
  request: PlainRequest<unknown, object>,
  change: () => Promise<Answer>,
): Promise<Answer> {
  const auditId = freshId('audit');
  const begun = await askPlatform(context, {
    type: 'BeginAudit',
    auditId,
    operator: operatorOf(request),
    action,
    target: request.path,
    body: textOf(request),
    deadline: request.deadline,
  });
  // The change was not tried, so this is certain even when the entry's fate is not.
  if (begun.type === 'unknown') return NOT_DONE;
  if (begun.type !== 'done') return answerOf(begun, 200);

  // A caller who has been cut off may have seen that it was not done, and may have sent it again.
  const answer = Date.now() > request.deadline ? NOT_DONE : await change();
  const end = { type: 'EndAudit', auditId, ...endOf(answer), deadline: fromNow() } as const;
  const ended = await askPlatform(context, end);
  if (ended.type !== 'done') {
    const fields = { request_id: request.requestId, audit_id: auditId, reply: ended.type, ...endOf(answer) };
    context.log.error(fields, 'the end of a change is missing in the audit log');
  }
  return answer;
}

/** What was sent: the body, or where there is none the query. */
function textOf({ body, query }: PlainRequest<unknown, object>): string | null {
  if (body !== null) return JSON.stringify(redact(body));
  return Object.keys(query).length === 0 ? null : JSON.stringify(redact(query));
}

function endOf(answer: Answer): Pick<EndAudit, 'outcome' | 'status' | 'code' | 'objectId'> {
  switch (answer.type) {
    case 'body':
      return { outcome: 'done', status: answer.status, code: null, objectId: madeBy(answer) };
    case 'rejected': {
      const { code } = answer.rejection;
      return { outcome: 'refused', status: ERROR_CODES[code].status, code, objectId: null };
    }
    case 'unknown':
      return { outcome: 'unknown', status: null, code: null, objectId: null };
  }
}

/** Its id, of a create; null: nothing was made. */
function madeBy({ status, body }: Extract<Answer, { type: 'body' }>): string | null {
  if (status !== 201) return null;
  const { id } = JSON.parse(body) as { readonly id?: unknown };
  return typeof id === 'string' ? id : null;
}
