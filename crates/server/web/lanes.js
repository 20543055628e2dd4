// The graph of the timeline: its columns, its lines, and the shapes of its nodes.

import { h, HIDDEN, svg } from './ui.js';
import { KINDS, kindOf } from './words.js';

const LANE = 14;
const LANES_MAX = 9;

// The columns of the graph, from the newest row down: each waits for the row that its line leads to.
export class Lanes {
  waiting = [];

  get width() { return this.waiting.length; }

  pass() {
    return { lane: null, joins: [], passing: this.waiting.flatMap((id, at) => (id == null ? [] : [at])), up: false, down: false };
  }

  place(id, parent) {
    const own = this.waiting.flatMap((waits, at) => (waits === id ? [at] : []));
    const up = own.length > 0;
    if (!own.length) own.push(this.waiting.includes(null) ? this.waiting.indexOf(null) : this.waiting.length);
    const [lane, ...joins] = own;
    for (const at of own) this.waiting[at] = null;
    const passing = this.waiting.flatMap((waits, at) => (waits == null ? [] : [at]));
    this.waiting[lane] = parent;
    while (this.waiting.length && this.waiting.at(-1) == null) this.waiting.pop();
    return { lane, joins, passing, up, down: parent != null };
  }
}

export const graphWidth = (lanes) => Math.min(lanes, LANES_MAX) * LANE + 14;

const laneColour = (lane) => `var(--c${(lane % 8) + 1})`;

export function graph({ place, entry, kind }, lanes, height) {
  const x = (lane) => Math.min(lane, LANES_MAX - 1) * LANE + 12;
  const middle = height > 50 ? 18 : height / 2;
  const line = (d, lane, dashed = false) => svg('path', { d, stroke: laneColour(lane), 'stroke-dasharray': dashed && '2 3' });
  const lines = place.passing.map((lane) => line(`M${x(lane)} 0V${height}`, lane));
  let node = null;
  if (place.lane != null) {
    const at = x(place.lane);
    if (place.up) lines.push(line(`M${at} 0V${middle}`, place.lane));
    if (place.down) lines.push(line(`M${at} ${middle}V${height}`, place.lane, kind === 'now'));
    for (const lane of place.joins) lines.push(line(`M${x(lane)} 0C${x(lane)} ${middle * 0.7} ${at} ${middle * 0.3} ${at} ${middle}`, lane));
    node = kind === 'now'
      ? svg('circle.tl-now', { cx: at, cy: middle, r: 5 })
      : mark(kindOf(entry.trigger), at, middle, entry.holds_files);
  }
  return svg('svg.tl-graph', { width: graphWidth(lanes), height, ...HIDDEN }, svg('g', { fill: 'none', 'stroke-width': '1.8' }, lines), node);
}

export function mark(kind, x, y, holdsFiles = true) {
  const { shape, colour, hollow } = KINDS[kind];
  return svg('path', { d: shape, transform: `translate(${x} ${y})`, fill: hollow || !holdsFiles ? 'var(--panel)' : colour, stroke: colour, 'stroke-width': '1.5' });
}

export function legend() {
  const row = (shape, says) => h('li', svg('svg', { width: 16, height: 16, ...HIDDEN }, shape), says);
  return h('details.tl-legend', h('summary', 'What the shapes mean'),
    h('ul', Object.entries(KINDS).map(([kind, { says }]) => row(mark(kind, 8, 8), says)),
      row(mark('work', 8, 8, false), 'Hollow: agent state only, no files')));
}
