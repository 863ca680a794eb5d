import type { Measurement } from './measure.ts';
import { COMPARED_CONNECTIONS, type Results, titleOf, totalCpu, WORKLOAD_TITLES } from './report.ts';

/** Charts without a background, in colours that are readable on a light and on a dark one. */

const WIDTH = 860;
const COMPARISON_TITLE = 'Microseconds of CPU a request, server and PostgreSQL together';
const GROWTH_TITLE = 'The animal store as the table grows: microseconds of CPU a request';
const COLORS = ['#d9480f', '#1c7ed6', '#2b8a3e', '#9c36b5', '#b08800', '#868e96'];
const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 16px; font-weight: 600 }
  .group { font-weight: 600 }
  .axis { font-size: 11px }
  .grid { stroke: #8c959f; stroke-opacity: 0.35 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }`;

/** CPU a request of every server, by workload, on a logarithmic axis. */
export function comparisonChart(results: Results): string {
  const LEFT = 200;
  const RIGHT = 70;
  const ROW = 20;
  const measured = results.measurements.filter(({ connections }) => connections === COMPARED_CONNECTIONS);
  const groups = Map.groupBy(measured, ({ workload }) => workload);
  const scale = logScale(measured.map(cpuOf), [LEFT, WIDTH - RIGHT]);

  let y = 66;
  const top = y - 8;
  const marks: string[] = [];
  for (const [workload, measurements] of groups) {
    y += ROW;
    marks.push(text(0, y, WORKLOAD_TITLES[workload] ?? workload, 'group'));
    for (const each of measurements.toSorted((a, b) => cpuOf(a) - cpuOf(b))) {
      y += ROW;
      const color = COLORS[results.targets.findIndex(({ id }) => id === each.target)] ?? 'gray';
      const x = scale.at(cpuOf(each));
      marks.push(
        text(12, y, titleOf(results, each.target)),
        `<line x1="${LEFT}" x2="${x}" y1="${y - 4}" y2="${y - 4}" stroke="${color}" stroke-width="3"/>`,
        `<circle cx="${x}" cy="${y - 4}" r="6" fill="${color}"/>`,
        text(x + 12, y, cpuOf(each).toFixed(0)),
      );
    }
    y += ROW / 2;
  }
  const grid = scale.ticks.map(
    (tick) =>
      `<line class="grid" x1="${scale.at(tick)}" x2="${scale.at(tick)}" y1="${top}" y2="${y}"/>` +
      text(scale.at(tick) - 8, y + 16, `${tick}`, 'axis'),
  );
  return svg(y + 28, COMPARISON_TITLE, [
    text(0, 20, COMPARISON_TITLE, 'title'),
    text(
      0,
      42,
      `${COMPARED_CONNECTIONS} connections, ${results.rows.toLocaleString('en')} animals; less is better; logarithmic axis`,
    ),
    ...grid,
    ...marks,
  ]);
}

/** CPU a request of the service, by the size of the table, both axes logarithmic. */
export function growthChart({ growth }: Results): string {
  const LEFT = 50;
  const RIGHT = 60;
  const TOP = 90;
  const BOTTOM = 330;
  const LEGEND_WIDTH = 150;
  const all = growth.flatMap(({ measurements }) => measurements);
  const vertical = logScale(all.map(cpuOf), [BOTTOM, TOP]);
  const horizontal = logScale(
    growth.map(({ rows }) => rows),
    [LEFT, WIDTH - RIGHT],
  );
  const workloads = [...new Set(all.map(({ workload }) => workload))];
  const lines = workloads.flatMap((workload, index) => {
    const color = COLORS[index] ?? 'gray';
    const points = growth.flatMap(({ rows, measurements }) =>
      measurements
        .filter((each) => each.workload === workload)
        .map((each) => ({ x: horizontal.at(rows), y: vertical.at(cpuOf(each)) })),
    );
    const legendAt = LEFT + index * LEGEND_WIDTH;
    return [
      `<circle cx="${legendAt}" cy="62" r="5" fill="${color}"/>`,
      text(legendAt + 12, 66, WORKLOAD_TITLES[workload] ?? workload),
      `<polyline fill="none" stroke="${color}" stroke-width="2" points="${points.map(({ x, y }) => `${x},${y}`).join(' ')}"/>`,
      ...points.map(({ x, y }) => `<circle cx="${x}" cy="${y}" r="4" fill="${color}"/>`),
    ];
  });
  const grid = [
    ...vertical.ticks.map(
      (tick) =>
        `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${vertical.at(tick)}" y2="${vertical.at(tick)}"/>` +
        text(LEFT - 34, vertical.at(tick) + 4, `${tick}`, 'axis'),
    ),
    ...growth.map(({ rows }) =>
      text(horizontal.at(rows) - 20, BOTTOM + 20, rows.toLocaleString('en'), 'axis'),
    ),
  ];
  return svg(BOTTOM + 34, GROWTH_TITLE, [
    text(0, 20, GROWTH_TITLE, 'title'),
    text(0, 42, `${COMPARED_CONNECTIONS} connections, by the number of animals; both axes logarithmic`),
    ...grid,
    ...lines,
  ]);
}

/** Where it cannot be told, as on a machine without `/proc`, all are shown alike. */
function cpuOf(measurement: Measurement): number {
  return totalCpu(measurement) ?? measurement.serverCpu ?? 1;
}

/** Maps values to pixels by their logarithm; the ticks are 1, 2 and 5 times powers of ten. */
function logScale(values: readonly number[], [start, end]: readonly [number, number]) {
  const all = Array.from({ length: 9 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
  const least = all.findLast((tick) => tick < Math.min(...values)) ?? 1;
  const most = all.find((tick) => tick >= Math.max(...values) && tick > least) ?? 10;
  return {
    ticks: all.filter((tick) => tick >= least && tick <= most),
    at: (value: number) =>
      Math.round(start + ((end - start) * Math.log(value / least)) / Math.log(most / least)),
  };
}

function text(x: number, y: number, content: string, style?: string): string {
  return `<text x="${x}" y="${y}"${style === undefined ? '' : ` class="${style}"`}>${content}</text>`;
}

function svg(height: number, title: string, parts: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}">
<title>${title}</title>
<style>${STYLE}
</style>
${parts.join('\n')}
</svg>
`;
}
