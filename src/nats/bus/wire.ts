// How commands and replies look on the wire. Pure: text in, text out.
//
//   commands:  <id> <attempt> <JSON of the message>\n …     one NATS message per event-loop turn and partition
//   replies:   <id> <attempt> <code><rest>\n …              one NATS message per callback and caller
//
// JSON text never holds a raw line feed, so a line is a message. `id` is the caller's number of the request, `attempt`
// counts its sends from 1. Codes: d done (rest: body), p done from an earlier identical request (rest: body),
// r rejected (rest: JSON of the rejection), u unavailable, n not the owner, x unknown.
//
// Nothing that comes throws: what cannot be read here is of a later version, or of nobody. A message is then one that no
// group knows; a line without its parts is of request 0, which nobody has made.

import { type Message, type Reply, UNAVAILABLE, UNKNOWN } from '../../bus/bus.ts';
import { ERROR_CODES, type Rejection } from '../../domain/error-code.ts';
import { fieldsIn } from '../fields-in.ts';

/** What an owner can say; `not_owner`: nothing was decided, and nothing will be, of this attempt. */
export type WireReply = Reply | { readonly type: 'not_owner' };

export type OnCommand = (id: number, attempt: number, message: Message) => void;
export type OnWireReply = (id: number, attempt: number, reply: WireReply) => void;

export const NOT_OWNER = { type: 'not_owner' } as const;
/** Its type is of no group: it is answered, and counted, like one of a later version. */
const UNREADABLE: Message = { type: '', deadline: 0 };

export function commandLine(id: number, attempt: number, message: Message): string {
  return `${id} ${attempt} ${JSON.stringify(message)}\n`;
}

export function readCommands(text: string, onCommand: OnCommand): void {
  eachLine(text, (id, attempt, start, end) => {
    onCommand(id, attempt, messageFrom(text.slice(start, end)));
  });
}

function messageFrom(text: string): Message {
  const message = fieldsIn<Message>(text);
  const { type, deadline } = message;
  return typeof type === 'string' && typeof deadline === 'number' ? (message as Message) : UNREADABLE;
}

export function replyLine(id: number, attempt: number, reply: WireReply): string {
  switch (reply.type) {
    case 'done':
      // A raw line feed would break the frame for every other reply in the message.
      if (reply.body.includes('\n')) throw new Error('a reply body holds a line feed');
      return `${id} ${attempt} ${reply.replayed ? 'p' : 'd'}${reply.body}\n`;
    case 'rejected':
      return `${id} ${attempt} r${JSON.stringify(reply.rejection)}\n`;
    case 'unavailable':
      return `${id} ${attempt} u\n`;
    case 'not_owner':
      return `${id} ${attempt} n\n`;
    case 'unknown':
      return `${id} ${attempt} x\n`;
  }
}

export function readReplies(text: string, onReply: OnWireReply): void {
  eachLine(text, (id, attempt, start, end) => {
    onReply(id, attempt, replyFrom(text[start] ?? '', text.slice(start + 1, end)));
  });
}

function replyFrom(code: string, rest: string): WireReply {
  switch (code) {
    case 'd':
      return { type: 'done', body: rest, replayed: false };
    case 'p':
      return { type: 'done', body: rest, replayed: true };
    case 'r':
      return rejectionFrom(rest);
    case 'u':
      return UNAVAILABLE;
    case 'n':
      return NOT_OWNER;
    // A code of a later version: whatever it means, it is not known here.
    default:
      return UNKNOWN;
  }
}

/** Why it was refused cannot be told with a code that is not known here; that nothing was decided can. */
function rejectionFrom(text: string): WireReply {
  const rejection = fieldsIn<Rejection>(text);
  if (rejection.code === undefined || !Object.hasOwn(ERROR_CODES, rejection.code)) return UNAVAILABLE;
  return { type: 'rejected', rejection: rejection as Rejection };
}

type OnLine = (id: number, attempt: number, start: number, end: number) => void;

function eachLine(text: string, onLine: OnLine): void {
  let at = 0;
  while (at < text.length) {
    const space = text.indexOf(' ', at);
    const secondSpace = text.indexOf(' ', space + 1);
    const end = text.indexOf('\n', secondSpace + 1);
    if (space < 0 || secondSpace < 0 || end < 0) return onLine(0, 0, text.length, text.length);
    onLine(digits(text, at, space), digits(text, space + 1, secondSpace), secondSpace + 1, end);
    at = end + 1;
  }
}

/** Cheaper than Number(text.slice(…)), twice per message. */
function digits(text: string, start: number, end: number): number {
  let value = 0;
  for (let i = start; i < end; i++) value = value * 10 + text.charCodeAt(i) - 48;
  return value;
}
