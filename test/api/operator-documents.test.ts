// What the documents for operators say of a running service is so, and nothing is left out: the tables of metrics and of routes, the
// alerts, the dashboard, and the runbook's notices.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { panels, queries } from '../dashboard.ts';
import { startService } from './start.ts';
import type { Running } from './start.ts';

const DEPLOY = join(import.meta.dirname, '../../deploy');

/** A wallet that refuses (src/rails/README.md). */
const REFUSED = '+256772000051';

let service: Running;
t.before(async () => {
  service = await startService();
  const charge = { amount: '5000', currency: 'UGX', msisdn: '+256772000001', reference: 'order-1' };
  const made = await service.merchant('POST', '/v1/charges', { body: charge });
  await service.until(
    () => service.merchant('GET', `/v1/charges/${made.body.id}`),
    ({ body }) => body.status === 'SUCCESSFUL',
  );
  const refused = await service.merchant('POST', '/v1/charges', { body: { ...charge, msisdn: REFUSED } });
  await service.until(
    () => service.merchant('GET', `/v1/charges/${refused.body.id}`),
    ({ body }) => body.status === 'FAILED',
  );
  await service.merchant('POST', '/v1/charges', { body: { ...charge, amount: '-1' } });
});
t.teardown(() => service.stop());

t.test('the README has every metric, with its type, its labels and its meaning, and no other', async (t) => {
  const readme = readFileSync(join(import.meta.dirname, '../../src/observability/README.md'), 'utf8');
  const rows = [...readme.matchAll(/^\| `(daftari_\w+)` *\| (\w+) *\| (.*?) *\| (.*?) *\|$/gm)];
  const told = rows.map(([, name, type, , help]) => `${name} ${type}: ${help}`);
  const { text } = await service.operator('GET', '/metrics');
  const metrics = [...text.matchAll(/^# HELP (daftari_\w+) (.*)\n# TYPE \1 (\w+)$/gm)];
  const registered = metrics.map(([, name, help, type]) => `${name} ${type}: ${help}`);
  t.ok(registered.length > 0);
  t.strictSame(told, registered);

  const labels = new Map(rows.map(([, name = '', , names = '']) => [name, names.match(/\w+/g) ?? []]));
  for (const [, sample = '', values = ''] of text.matchAll(/^(daftari_\w+)\{(.*)\} /gm)) {
    const names = labels.get(sample) ?? labels.get(sample.replace(/_(?:bucket|sum|count)$/, ''));
    const shown = Array.from(values.matchAll(/(\w+)="/g), ([, name]) => name).filter((name) => name !== 'le');
    t.strictSame(shown, names, sample);
  }
  const counters = registered.filter((each) => / counter: /.test(each));
  t.ok(counters.every((each) => /_total counter: /.test(each)));
});

t.test('the README has every route of operators, with what it takes, and no other', async (t) => {
  const readme = readFileSync(join(import.meta.dirname, '../../src/operator/README.md'), 'utf8');
  const told = Array.from(
    readme.matchAll(/^\| (`(?:GET|POST|PATCH|DELETE) .*?) *\| (.*?) *\| .*\|$/gm),
    ([, calls = '', takes = '']) => routesTold(calls, takes),
  ).flat();
  const document = (await service.operator('GET', '/openapi.json')).body as unknown as OperatorDocument;
  const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], requestBody }]) => {
      const name = requestBody?.content['application/json'].schema.$ref.split('/').at(-1) ?? '';
      const { properties = {}, required = [] } = document.components.schemas[name] ?? {};
      const fields = Object.keys(properties).map((field) => (required.includes(field) ? field : `${field}?`));
      const query = parameters.filter(({ in: place }) => place === 'query').map((each) => `${each.name}=`);
      const short = path.replace('/operator/v1', '').replace(/\{\w+\}/g, ':id');
      return [method.toUpperCase(), short, ...[...fields, ...query].sort()].join(' ');
    }),
  );
  t.strictSame([...told, 'GET /openapi.json'].sort(), routes.sort());
});

interface OperatorDocument {
  readonly paths: Record<string, Record<string, OperatorCall>>;
  readonly components: { readonly schemas: Record<string, { properties?: object; required?: string[] }> };
}

interface OperatorCall {
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
  readonly requestBody?: {
    readonly content: { readonly 'application/json': { readonly schema: { readonly $ref: string } } };
  };
}

/** "`GET /a/:id`, `/b`" is a GET of /a/:id and one of /a/b; what stands in brackets says more of a field. */
function routesTold(calls: string, takes: string): string[] {
  const [first = '', ...others] = Array.from(calls.matchAll(/`(.*?)`/g), ([, call = '']) => call);
  const [method = '', path = ''] = first.replace('…', '/accounts/:id').split(' ');
  const [names = ''] = takes.replaceAll(/\(.*?\)/g, '').match(/`.*`/) ?? [];
  const query = names.match(/[a-z_]+=/g) ?? [];
  const fields = query.length > 0 ? [] : (names.match(/[a-z_]+\??/g) ?? []);
  const rest = others.map((other) => {
    if (other.includes(' ')) return other;
    const before = other === '/:id' ? path : path.slice(0, path.lastIndexOf('/'));
    return [method, `${before}${other}`, ...fields.sort()].join(' ');
  });
  return [[method, path, ...[...fields, ...query].sort()].join(' '), ...rest];
}

/** What some node of a cluster tells besides. */
const OF_NODES = ['daftari_partitions_unproven', 'daftari_nodes_with_other_terms']
  .map((name) => `# TYPE ${name} gauge`)
  .join('\n');

for (const [what, expressions] of [
  ['the alerts are', readFileSync(join(DEPLOY, 'prometheus/alerts.yaml'), 'utf8')],
  ['the dashboard is', queries.join('\n')],
] as const) {
  t.test(`${what} of metrics, labels and values that there are`, async (t) => {
    const { text } = await service.operator('GET', '/metrics');
    const metric = /\b((?:daftari|process|nodejs)_\w+?)(_bucket|_count|_sum)?\b(?:\{(.*?)\})?/g;
    const named = [...expressions.matchAll(metric)];
    t.ok(named.length > 10);
    for (const [, name = '', part, matchers = ''] of named) {
      const type = part === undefined ? '(?:gauge|counter)' : 'histogram';
      t.match(`${text}\n${OF_NODES}`, new RegExp(`^# TYPE ${name} ${type}$`, 'm'), name);
      for (const [, label = '', values = ''] of matchers.matchAll(/(\w+)=~?"([^"]*)"/g)) {
        // Whom Prometheus asks, it adds itself. A status is there once it was answered.
        if (label === 'job' || label === 'instance') continue;
        const expected = label === 'status' && name.startsWith('daftari_http') ? ['\\d+'] : values.split('|');
        for (const value of expected) {
          t.match(text, new RegExp(`^${name}\\w*\\{.*\\b${label}="${value}"`, 'm'), `${label}="${value}"`);
        }
      }
    }
  });
}

t.test('the dashboard shows every metric of ours', async (t) => {
  const shown = queries.join('\n');
  const { text } = await service.operator('GET', '/metrics');
  const told = [...`${text}\n${OF_NODES}`.matchAll(/^# TYPE (daftari_\w+) /gm)];
  t.ok(told.length > 10);
  for (const [, name = ''] of told) {
    t.match(shown, new RegExp(`\\b${name}(?:_bucket|_count|_sum)?\\b`), name);
  }
});

t.test(
  'the panels of the dashboard lie beside each other, and each has its own number and says what it shows',
  (t) => {
    t.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    const taken = new Set<string>();
    for (const { title, type, description, targets, gridPos } of panels) {
      const { x, y, w, h } = gridPos;
      t.ok(x + w <= 24, `${title} is within the page`);
      const cells = Array.from(
        { length: w * h },
        (_, index) => `${x + (index % w)} ${y + Math.floor(index / w)}`,
      );
      t.notOk(
        cells.some((cell) => taken.has(cell)),
        `${title} covers no other`,
      );
      for (const cell of cells) taken.add(cell);
      if (type !== 'row') t.ok(description && targets?.length, title);
    }
    t.end();
  },
);

t.test('the runbook says of each notice that calls for a person what is to be done', async (t) => {
  const [, notices = ''] =
    /daftari_rail_notices_total\{what=~"(.*?)"/.exec(
      readFileSync(join(DEPLOY, 'prometheus/alerts.yaml'), 'utf8'),
    ) ?? [];
  const [, table = ''] =
    /^\| notice .*\n((?:\|.*\n)*)/m.exec(readFileSync(join(DEPLOY, 'README.md'), 'utf8')) ?? [];
  const told = Array.from(table.matchAll(/^\| `(\w+)`/gm), ([, name = '']) => name);
  t.strictSame([...new Set(told)].sort(), notices.split('|').sort());
});
