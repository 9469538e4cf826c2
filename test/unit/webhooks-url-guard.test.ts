// Webhooks go out to the public internet and nowhere else: the URLs that may be saved, and the addresses that may be
// connected to.

import t from 'tap';
import { checkWebhookUrl, isPublic, type GuardOptions } from '../../actors/webhooks/url-guard.ts';

function longUrl(length: number): string {
  return 'https://example.com/'.padEnd(length, 'a');
}

const REFUSED_URLS: readonly (readonly [url: string, why: string])[] = [
  // Not a URL for us.
  ['', 'empty'],
  ['example.com/hook', 'no scheme'],
  ['http://example.com/hook', 'not https'],
  ['ftp://example.com/', 'not https'],
  ['file:///etc/passwd', 'not https'],
  ['javascript:alert(1)', 'not https'],
  ['https://', 'no host'],
  ['https://user@example.com/', 'credentials'],
  ['https://user:secret@example.com/', 'credentials'],
  ['https://:secret@example.com/', 'a password alone'],
  ['https://example.com@127.0.0.1/', 'credentials that look like the host'],
  ['https://example.com\\@127.0.0.1/', 'backslash read as slash'],
  ['https://example.com\t.evil.com/', 'tab that the parser drops'],
  ['https://exa\nmple.com/', 'newline that the parser drops'],
  [' https://example.com/', 'leading space'],
  ['https://evil.com/\u202emoc.elpmaxe//:sptth', 'read from the right, another address'],
  ['https://example.com/\u2066hook', 'the direction of writing is turned'],
  ['https://example.com/#fragment', 'fragment'],
  ['https://example.com:8443/', 'odd port'],
  ['https://example.com:22/', 'odd port'],
  ['https://example.com:99999/', 'no such port'],
  [longUrl(2_049), 'too long'],
  ['https://exa!mple.com/', 'no host name'],
  ['https://hooks..example.com/', 'an empty label'],
  [`https://${'a'.repeat(64)}.example.com/`, 'a label longer than names may have'],
  [`https://${'é'.repeat(63)}.example.com/`, 'the same, once it is written in ASCII'],
  [`https://${'a1234567.'.repeat(27)}example.com/`, 'longer than a name may be'],
  // Names of this machine and this network.
  ['https://localhost/', 'this machine'],
  ['https://LOCALHOST/', 'this machine'],
  ['https://localhost./', 'this machine, with the root dot'],
  ['https://foo.localhost/', 'this machine'],
  ['https://printer.local/', 'mDNS'],
  ['https://metadata.google.internal/', 'cloud metadata'],
  ['https://metadata/', 'single label'],
  ['https://kubernetes.default.svc.cluster.local/', 'cluster'],
  ['https://router.home.arpa/', 'home network'],
  ['https://db.corp/', 'private suffix'],
  ['https://home.arpa/', 'home network'],
  ['https://1.0.0.127.in-addr.arpa/', 'reverse name'],
  ['https://1.ip6.arpa/', 'reverse name'],
  ['https://hook.localdomain/', 'this machine'],
  ['https://hook.intranet/', 'private suffix'],
  ['https://hook.private/', 'private suffix'],
  ['https://hook.lan/', 'private suffix'],
  ['https://hook.home/', 'private suffix'],
  ['https://hook.test/', 'reserved for tests'],
  ['https://hook.invalid/', 'reserved'],
  ['https://hook.onion/', 'another network'],
  ['https://printer.local./', 'mDNS, with the root dot'],
  // IPv4 in every notation.
  ['https://127.0.0.1/', 'loopback'],
  ['https://127.1/', 'loopback, short'],
  ['https://127.0.1/', 'loopback, three parts'],
  ['https://2130706433/', 'loopback, one number'],
  ['https://0x7f000001/', 'loopback, hexadecimal'],
  ['https://0x7f.0.0.1/', 'loopback, mixed'],
  ['https://0177.0.0.1/', 'loopback, octal'],
  ['https://017700000001/', 'loopback, octal number'],
  ['https://127.0.0.1./', 'loopback, with the root dot'],
  ['https://%31%32%37.0.0.1/', 'loopback, percent-encoded'],
  ['https://①②⑦.⓪.⓪.①/', 'loopback, circled digits'],
  ['https://127。0。0。1/', 'loopback, ideographic dots'],
  ['https://0/', 'unspecified'],
  ['https://0.0.0.0/', 'unspecified'],
  ['https://10.1.2.3/', 'private'],
  ['https://172.16.0.1/', 'private'],
  ['https://172.31.255.255/', 'private'],
  ['https://192.168.1.1/', 'private'],
  ['https://0xc0a80101/', 'private, hexadecimal'],
  ['https://100.64.0.1/', 'carrier-grade NAT'],
  ['https://169.254.169.254/latest/meta-data/', 'cloud metadata'],
  ['https://2852039166/', 'cloud metadata, one number'],
  ['https://168.63.129.16/', 'Azure metadata'],
  ['https://192.0.0.192/', 'Oracle metadata'],
  ['https://192.0.2.1/', 'documentation'],
  ['https://192.31.196.1/', 'AS112'],
  ['https://192.52.193.1/', 'AMT'],
  ['https://192.175.48.1/', 'AS112'],
  ['https://192.88.99.1/', '6to4 relay'],
  ['https://198.18.0.1/', 'benchmarking'],
  ['https://198.51.100.1/', 'documentation'],
  ['https://203.0.113.1/', 'documentation'],
  ['https://224.0.0.1/', 'multicast'],
  ['https://239.255.255.250/', 'multicast'],
  ['https://240.0.0.1/', 'reserved'],
  ['https://255.255.255.255/', 'broadcast'],
  ['https://1.2.3.4.5/', 'five parts'],
  ['https://256.0.0.1/', 'part too large'],
  // IPv6.
  ['https://[::1]/', 'loopback'],
  ['https://[0:0:0:0:0:0:0:1]/', 'loopback, long'],
  ['https://[::]/', 'unspecified'],
  ['https://[::127.0.0.1]/', 'IPv4-compatible loopback'],
  ['https://[::7f00:1]/', 'IPv4-compatible loopback, hexadecimal'],
  ['https://[::ffff:127.0.0.1]/', 'mapped loopback'],
  ['https://[::ffff:7f00:1]/', 'mapped loopback, hexadecimal'],
  ['https://[::ffff:8.8.8.8]/', 'mapped, even of a public address'],
  ['https://[::ffff:0:127.0.0.1]/', 'translated loopback'],
  ['https://[64:ff9b::7f00:1]/', 'NAT64 loopback'],
  ['https://[64:ff9b::a9fe:a9fe]/', 'NAT64 metadata'],
  ['https://[64:ff9b:1::1]/', 'local NAT64'],
  ['https://[2002:7f00:1::]/', '6to4 loopback'],
  ['https://[2002:a9fe:a9fe::1]/', '6to4 metadata'],
  ['https://[2001:0:7f00:1::]/', 'Teredo'],
  ['https://[2001::1]/', 'Teredo'],
  ['https://[2001:2::1]/', 'benchmarking'],
  ['https://[2001:20::1]/', 'ORCHID'],
  ['https://[2001:db8::1]/', 'documentation'],
  ['https://[3fff::1]/', 'documentation'],
  ['https://[3ffe::1]/', '6bone'],
  ['https://[fc00::1]/', 'unique-local'],
  ['https://[fd00:ec2::254]/', 'AWS metadata'],
  ['https://[fe80::1]/', 'link-local'],
  ['https://[fec0::1]/', 'site-local'],
  ['https://[ff02::1]/', 'multicast'],
  ['https://[100::1]/', 'discard'],
  ['https://[4000::1]/', 'not assigned'],
  ['https://[5f00::1]/', 'segment routing'],
  ['https://[2606:4700::5efe:10.0.0.1]/', 'ISATAP'],
  ['https://[2606:4700::200:5efe:10.0.0.1]/', 'ISATAP'],
  ['https://[2620:4f:8000::1]/', 'AS112'],
  ['https://[fe80::1%25eth0]/', 'zone'],
];

const ALLOWED_URLS = [
  'https://example.com/hook',
  'https://example.com',
  'https://EXAMPLE.com:443/hook?app=1',
  'https://example.com./hook',
  longUrl(2_048),
  'https://hooks.shop.co.ug/daftari',
  'https://xn--bcher-kva.example.com/',
  'https://bücher.example.com/',
  'https://my_app.example.com/',
  `https://${'a'.repeat(63)}.example.com/`,
  `https://${'a.'.repeat(121)}example.com./`,
  'https://8.8.8.8/',
  'https://172.32.0.1/',
  'https://[2606:4700:4700::1111]/',
  'https://[2a00:1450:4001:82b::200e]/hook',
] as const;

const PUBLIC_ONLY: GuardOptions = { allowPrivate: false, ports: [] };

void t.test('a URL that leads inside, or could, is refused when it is saved', (t) => {
  for (const [url, why] of REFUSED_URLS) {
    t.type(checkWebhookUrl(url, PUBLIC_ONLY), 'string', `${why}: ${JSON.stringify(url.slice(0, 60))}`);
  }
  t.ok(REFUSED_URLS.length >= 60, `${REFUSED_URLS.length} URLs`);
  t.end();
});

void t.test('whoever saves it is told what is wrong with it', (t) => {
  const told = [
    ['https://example.com/ hook', 'contains white space, a control character or a backslash'],
    ['example.com/hook', 'is not a URL'],
    ['http://example.com/hook', 'must start with https://'],
    ['https://user@example.com/', 'must not contain credentials'],
    ['https://example.com/#hook', 'must not contain a fragment'],
    ['https://example.com:8443/', 'must not use port 8443'],
    ['https://metadata/', 'must name a public host'],
    ['https://hooks..example.com/', 'has an invalid host name'],
    ['https://8.8.8.8./', null],
    ['https://10.0.0.1./', 'leads to an address that is not public'],
    [longUrl(2_049), 'is longer than 2048 characters'],
  ] as const;
  for (const [url, words] of told) t.equal(checkWebhookUrl(url, PUBLIC_ONLY), words, url.slice(0, 60));
  t.end();
});

void t.test('a public https URL may be saved', (t) => {
  for (const url of ALLOWED_URLS) t.equal(checkWebhookUrl(url, PUBLIC_ONLY), null, url);
  t.end();
});

void t.test('other ports only by configuration', (t) => {
  const options = { allowPrivate: false, ports: [8443] };
  t.equal(checkWebhookUrl('https://example.com:8443/', options), null);
  t.type(checkWebhookUrl('https://example.com:8444/', options), 'string');
  t.end();
});

void t.test('development may use http, private addresses and any port, but no credentials', (t) => {
  const options = { allowPrivate: true, ports: [] };
  t.equal(checkWebhookUrl('http://localhost:3000/hook', options), null);
  t.equal(checkWebhookUrl('https://10.0.0.1:8443/', options), null);
  t.equal(checkWebhookUrl('http://[::1]:3000/', options), null);
  t.type(checkWebhookUrl('http://user:secret@localhost:3000/', options), 'string');
  t.type(checkWebhookUrl('ftp://localhost/', options), 'string');
  t.end();
});

void t.test('addresses that a name may resolve to', (t) => {
  const refused = [
    '127.0.0.1', '10.0.0.1', '169.254.169.254', '0.0.0.0', '100.127.255.255', '192.168.0.1', '224.0.0.1',
    '::1', '::', '::7f00:1', '4000::1', '::ffff:8.8.8.8', '2002:808:808::1', '2001::1',
    'fd00::1', 'fe80::1', 'fe80::1%eth0', '2606:4700::1%eth0', 'ff02::1', '', 'localhost', '0x7f.1', '2130706433',
    '127.1', '1.2.3', '[::1]',
  ]; // prettier-ignore
  for (const address of refused) t.notOk(isPublic(address), `refused: ${address}`);
  const allowed = ['8.8.8.8', '1.1.1.1', '196.0.0.1', '2606:4700:4700::1111', '2c0f:fb50:4003::1'];
  for (const address of allowed) t.ok(isPublic(address), `allowed: ${address}`);
  t.end();
});

// What DNS64 answers for a host that has IPv4 alone, where the network has IPv6 alone.
void t.test('an address that is translated to IPv4 is what it is translated to', (t) => {
  const allowed = ['64:ff9b::808:808', '64:ff9b::8.8.8.8', '64:ff9b::c400:1', '64:ff9b:0:0:0:0:ac20:1'];
  for (const address of allowed) {
    t.ok(isPublic(address), `allowed: ${address}`);
    t.equal(checkWebhookUrl(`https://[${address}]/`, PUBLIC_ONLY), null, address);
  }
  const refused = [
    '64:ff9b::', '64:ff9b::1', '64:ff9b::7f00:1', '64:ff9b::127.0.0.1', '64:ff9b::a00:1', '64:ff9b::ac10:1', '64:ff9b::c0a8:101',
    '64:ff9b::a9fe:a9fe', '64:ff9b::a83f:8110', '64:ff9b::6440:1', '64:ff9b::e000:1', '64:ff9b::ffff:ffff', '64:ff9b::c000:201',
    // Beyond the prefix, or of local use, where the IPv4 address stands elsewhere, or leads anywhere.
    '64:ff9b:1::808:808', '64:ff9b:1::1', '64:ff9b:0:0:0:1:808:808', '64:ff9b:0:1::808:808', '64:ff9a::808:808', '64:ff9b::1:808:808',
    '64:ff9b::808:808%eth0',
  ]; // prettier-ignore
  for (const address of refused) t.notOk(isPublic(address), `refused: ${address}`);
  t.end();
});
