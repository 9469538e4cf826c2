// Line plots as inline SVG, with linear or logarithmic axes. Nothing is fetched and nothing runs in the reader's browser.

export interface Line {
  readonly label: string;
  readonly points: readonly (readonly [number, number])[];
}

export interface PlotOptions {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly xLog?: boolean;
  readonly yLog?: boolean;
  readonly lines: readonly Line[];
  /** Of the ticks of x; absent: the number itself. */
  readonly xText?: (x: number) => string;
}

interface Scale {
  readonly at: (value: number) => number;
  readonly ticks: readonly number[];
}

const WIDTH = 640;
const HEIGHT = 300;
const LEFT = 64;
const RIGHT = 12;
const TOP = 30;
const BOTTOM = 44;
const LEGEND_LINE = 16;
const TICKS = 5;
const COLOURS = ['#2f5bd0', '#c8501e', '#2c8a4b', '#8a3fb0', '#a07a00', '#1c8c9c', '#b02a55', '#555555'];

/** '' when there is nothing to draw. */
export function plot(options: PlotOptions): string {
  const lines = options.lines
    .map(({ label, points }) => ({ label, points: points.filter((point) => isDrawable(point, options)) }))
    .filter(({ points }) => points.length > 0);
  if (lines.length === 0) return '';
  const all = lines.flatMap(({ points }) => points);
  const x = scaleOf(
    all.map((point) => point[0]),
    options.xLog === true,
    LEFT,
    WIDTH - RIGHT,
  );
  const y = scaleOf(
    all.map((point) => point[1]),
    options.yLog === true,
    HEIGHT - BOTTOM,
    TOP,
  );
  const height = HEIGHT + lines.length * LEGEND_LINE;
  return [
    `<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escape(options.title)}">`,
    `<text x="${LEFT}" y="18" class="title">${escape(options.title)}</text>`,
    ...x.ticks.map((tick) => xTick(x.at(tick), (options.xText ?? shortText)(tick))),
    ...y.ticks.map((tick) => yTick(y.at(tick), shortText(tick))),
    `<text x="${(LEFT + WIDTH) / 2}" y="${HEIGHT - 8}" text-anchor="middle">${escape(options.xLabel)}</text>`,
    `<text transform="translate(14 ${HEIGHT / 2}) rotate(-90)" text-anchor="middle">${escape(options.yLabel)}</text>`,
    ...lines.flatMap((line, index) => drawn(line, index, x, y)),
    '</svg>',
  ].join('\n');
}

function isDrawable([x, y]: readonly [number, number], { xLog, yLog }: PlotOptions): boolean {
  return Number.isFinite(x) && Number.isFinite(y) && !(xLog === true && x <= 0) && !(yLog === true && y <= 0);
}

function drawn({ label, points }: Line, index: number, x: Scale, y: Scale): string[] {
  const colour = COLOURS[index % COLOURS.length]!;
  const places = points.map(([a, b]) => `${x.at(a).toFixed(1)},${y.at(b).toFixed(1)}`);
  const dots = points.map(
    ([a, b]) => `<circle cx="${x.at(a).toFixed(1)}" cy="${y.at(b).toFixed(1)}" r="2.5" fill="${colour}"/>`,
  );
  const legendY = HEIGHT + index * LEGEND_LINE + 6;
  return [
    `<polyline points="${places.join(' ')}" fill="none" stroke="${colour}" stroke-width="1.5"/>`,
    ...dots,
    `<rect x="${LEFT}" y="${legendY - 8}" width="10" height="3" fill="${colour}"/>`,
    `<text x="${LEFT + 16}" y="${legendY - 2}">${escape(label)}</text>`,
  ];
}

function xTick(at: number, text: string): string {
  return (
    `<line x1="${at.toFixed(1)}" x2="${at.toFixed(1)}" y1="${TOP}" y2="${HEIGHT - BOTTOM}" class="grid"/>` +
    `<text x="${at.toFixed(1)}" y="${HEIGHT - BOTTOM + 14}" text-anchor="middle">${escape(text)}</text>`
  );
}

function yTick(at: number, text: string): string {
  return (
    `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at.toFixed(1)}" y2="${at.toFixed(1)}" class="grid"/>` +
    `<text x="${LEFT - 6}" y="${(at + 4).toFixed(1)}" text-anchor="end">${escape(text)}</text>`
  );
}

/** Linear axes begin at 0. */
function scaleOf(values: readonly number[], isLog: boolean, from: number, to: number): Scale {
  const low = isLog ? Math.min(...values) : 0;
  const high = Math.max(...values, isLog ? 0 : Number.MIN_VALUE);
  const measure = isLog ? Math.log10 : (value: number): number => value;
  const span = measure(high) - measure(low) || 1;
  const at = (value: number): number => from + ((measure(value) - measure(low)) / span) * (to - from);
  return { at, ticks: isLog ? logTicks(low, high) : linearTicks(high) };
}

function linearTicks(high: number): number[] {
  const rough = high / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  return Array.from({ length: Math.floor(high / step) + 1 }, (_, n) => n * step);
}

/** Powers of ten; where there are fewer than two, the ends. */
function logTicks(low: number, high: number): number[] {
  const first = Math.ceil(Math.log10(low));
  const count = Math.floor(Math.log10(high)) - first + 1;
  if (count < 2) return low === high ? [low] : [low, high];
  return Array.from({ length: count }, (_, n) => 10 ** (first + n));
}

function shortText(value: number): string {
  if (value >= 1e6) return `${trimmed(value / 1e6)}M`;
  if (value >= 1e3) return `${trimmed(value / 1e3)}k`;
  return trimmed(value);
}

function trimmed(value: number): string {
  return String(Number(value.toPrecision(3)));
}

export function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
