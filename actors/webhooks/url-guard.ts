// Where a webhook may go: only out to the public internet. The URL is checked when it is saved and before each attempt,
// and every address its name resolves to is checked when a connection is made (sender.ts).
//
// Invariants: an address is allowed only if this file's own tables and ipaddr.js both find nothing against it; IPv6 only
// inside 2000::/3, so that whatever is not yet assigned, mapped or translated is refused, but for DNS64's, which are what they
// embed; one bad address among those of a name that may be tried refuses the name. Nothing here does I/O.

import ipaddr from 'ipaddr.js';
import { LIMITS } from '../../src/limits.ts';

export interface GuardOptions {
  /** WEBHOOK_ALLOW_PRIVATE: http, private addresses and any port, for development. */
  readonly allowPrivate: boolean;
  /** WEBHOOK_PORTS: allowed besides 443. */
  readonly ports: readonly number[];
}

/** What is wrong with `text` as a webhook URL, in words for the person who saved it; null: nothing. */
export function checkWebhookUrl(text: string, options: GuardOptions): string | null {
  const lengthMax = LIMITS.webhookUrlLengthMax;
  if (text.length > lengthMax) return `is longer than ${lengthMax} characters`;
  // The URL parser drops tabs and newlines, trims spaces and reads "\" as "/", and some characters turn the direction of writing: what a
  // person reads is then not where it goes.
  if (/[\s\\\p{Cc}\p{Bidi_Control}]/u.test(text)) {
    return 'contains white space, a control character or a backslash';
  }
  const url = URL.parse(text);
  if (url === null) return 'is not a URL';
  const isAllowed = url.protocol === 'https:' || (options.allowPrivate && url.protocol === 'http:');
  if (!isAllowed) return 'must start with https://';
  if (url.username !== '' || url.password !== '') return 'must not contain credentials';
  if (text.includes('#')) return 'must not contain a fragment';
  return hostProblem(url.hostname, options) ?? portProblem(url, options);
}

function portProblem(url: URL, { allowPrivate, ports }: GuardOptions): string | null {
  if (allowPrivate || url.port === '' || ports.includes(Number(url.port))) return null;
  return `must not use port ${url.port}`;
}

/** `hostname` as the URL parser leaves it: every notation of an IPv4 address is dotted decimal by now, also with a root dot. */
function hostProblem(hostname: string, { allowPrivate }: GuardOptions): string | null {
  if (allowPrivate) return null;
  const literal = literalOf(hostname);
  if (literal !== null) return isPublic(literal) ? null : `leads to ${NOT_PUBLIC}`;
  return nameProblem(hostname.replace(/\.$/, ''));
}

/** The address in a URL's host, null when it is a name. */
function literalOf(hostname: string): string | null {
  if (hostname.startsWith('[')) return hostname.slice(1, -1);
  return /^\d+\.\d+\.\d+\.\d+$/.test(hostname) ? hostname : null;
}

/** Names that mean this machine or this network, RFC 6761, 6762, 8375 and clouds' own. */
const PRIVATE_SUFFIXES = [
  'localhost',
  'localdomain',
  'local',
  'internal',
  'intranet',
  'private',
  'corp',
  'lan',
  'home',
  'home.arpa',
  'in-addr.arpa',
  'ip6.arpa',
  'test',
  'invalid',
  'onion',
];

/** With the lengths of RFC 1035, 2.3.4: no name server is even asked for a longer name, or for one with a longer label. */
const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})+$/;

function nameProblem(name: string): string | null {
  const lower = name.toLowerCase();
  if (!lower.includes('.')) return 'must name a public host';
  if (!HOST_NAME.test(lower)) return 'has an invalid host name';
  // What ends in a number is an address to some resolvers and a name to others.
  if (/(?:^|\.)(?:\d+|0x[0-9a-f]*)$/.test(lower)) return 'has an invalid host name';
  for (const suffix of PRIVATE_SUFFIXES) {
    if (lower === suffix || lower.endsWith(`.${suffix}`)) return 'must name a public host';
  }
  return null;
}

/** IANA special-purpose registry and what else leads inside. */
const REFUSED_IPV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  // Answers for the metadata and DNS services of a cloud, from a public range.
  '168.63.129.16/32',
  '224.0.0.0/4',
  '240.0.0.0/4',
].map((range) => ipaddr.IPv4.parseCIDR(range));

const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3');

/** Inside 2000::/3: protocol assignments with Teredo, ORCHID and benchmarking; 6to4; documentation; AS112. */
const REFUSED_IPV6 = [
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '2620:4f:8000::/48',
  '3fff::/20',
  '3ffe::/16',
].map((range) => ipaddr.IPv6.parseCIDR(range));

export const NOT_PUBLIC = 'an address that is not public';

/** Whether `address` is on the public internet. */
export function isPublic(address: string): boolean {
  if (address.includes('%')) return false;
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return isPublicIpv4(ipaddr.IPv4.parse(address));
  return ipaddr.IPv6.isValid(address) && isPublicIpv6(ipaddr.IPv6.parse(address));
}

function isPublicIpv4(address: ipaddr.IPv4): boolean {
  return address.range() === 'unicast' && !REFUSED_IPV4.some((range) => address.match(range));
}

/** RFC 6052, 2.1: a network of IPv6 alone translates it to the IPv4 address in its last 32 bits. That of local use, 64:ff9b:1::/48, may
 *  lead anywhere inside. */
const TRANSLATED_TO_IPV4 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

function isPublicIpv6(address: ipaddr.IPv6): boolean {
  if (address.match(TRANSLATED_TO_IPV4)) {
    return isPublicIpv4(new ipaddr.IPv4(address.toByteArray().slice(-4)));
  }
  if (!address.match(GLOBAL_UNICAST) || address.range() !== 'unicast') return false;
  if (REFUSED_IPV6.some((range) => address.match(range))) return false;
  // ISATAP: an IPv4 address behind the interface id 0:5efe or 200:5efe, delivered by a tunnel inside.
  const [, , , , high, low] = address.parts;
  return !(low === 0x5efe && (high === 0 || high === 0x200));
}
