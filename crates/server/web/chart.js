// Charts, drawn in SVG at the width that they have. Series differ by dash and mark as well as by
// colour. The height is fixed, so that nothing moves when data arrives.

import { clock, exact, fill, h, seconds, svg } from './ui.js';

const DASHES = ['', '6 3', '2 3', '9 3 2 3'];
const MARKS = ['●', '■', '▲', '◆', '○', '□', '△', '◇'];
const COLOURS = 8;

export const colour = (place) => `var(--c${(place % COLOURS) + 1})`;
export const mark = (place) => MARKS[place % MARKS.length];

// A box that draws itself again whenever its width changes: draw(width) -> [node, height].
export function followed(draw, height = null) {
  const box = h('div.chart', { style: height ? { height: `${height}px` } : {} });
  let last = 0;
  box.redraw = () => {
    if (!last) return;
    const [node, high] = draw(last);
    box.style.height = `${high}px`;
    fill(box, node);
  };
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width && width !== last) { last = width; box.redraw(); }
  }).observe(box);
  return box;
}

const room = (values, format) => Math.min(70, Math.max(...values.map((v) => format(v).length)) * 6.6 + 10);

// Lines at round values, with their labels on the left.
const scale = (values, format, left, right, py) => values.map((value) => [
  svg('line.gridline', { x1: left, x2: right, y1: py(value), y2: py(value) }),
  svg('text.axis', { x: left - 6, y: py(value) + 4, 'text-anchor': 'end' }, format(value))]);

// Up to `count` round values from 0 or `low` to `high`.
function ticks(low, high, count = 4, base = 10) {
  const span = high - low || 1;
  let step = base ** Math.floor(Math.log(span / count) / Math.log(base));
  for (const factor of base === 10 ? [1, 2, 5, 10] : [1, 2, 4, 8, 16]) {
    if (span / (step * factor) <= count) { step *= factor; break; }
  }
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(at);
  return found;
}

// Lines over time: series [{name, points: [{x: ms, y}], step}], x and y their ranges, format(y) with
// the unit. What follows the moment `at` is faint; `box.at(ms)` moves it; `pick(ms)` is a click.
export function lines({ series, x, y, format, label, height = 160, at = null, pick = null, base = 10, area = false }) {
  let moment = at;
  const [from, to] = x[1] > x[0] ? x : [x[0] - 500, x[0] + 500];
  const box = followed((width) => {
    const values = ticks(y[0], y[1], 3, base);
    const edge = { left: room(values, format), right: 10, top: 8, bottom: 20 };
    const px = (v) => edge.left + ((v - from) / (to - from)) * (width - edge.left - edge.right);
    const py = (v) => height - edge.bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (height - edge.top - edge.bottom);
    const root = svg('svg', { width, height, role: 'img', 'aria-label': label, class: pick && 'pickable' },
      scale(values, format, edge.left, width - edge.right, py));
    const words = to - from < 120_000 ? seconds : clock;
    root.append(
      svg('text.axis', { x: edge.left, y: height - 5 }, words(from)),
      svg('text.axis', { x: width - edge.right, y: height - 5, 'text-anchor': 'end' }, words(to)));
    series.forEach((one, place) => {
      const points = one.points.map((p) => [px(p.x), py(p.y)]);
      if (!points.length) return;
      const until = one.until ?? to;
      let path = `M${points[0].join(' ')}`;
      for (let i = 1; i < points.length; i += 1) path += one.step ? `H${points[i][0]}V${points[i][1]}` : `L${points[i].join(' ')}`;
      if (one.step) path += `H${px(until)}`;
      if (area) {
        const end = one.step ? px(until) : points.at(-1)[0];
        root.append(svg('path', { d: `${path}V${py(y[0])}H${points[0][0]}Z`, fill: colour(place), opacity: '.14' }));
      }
      root.append(svg('path', { d: path, fill: 'none', stroke: colour(place), 'stroke-width': 2,
        'stroke-dasharray': DASHES[place % DASHES.length], 'stroke-linejoin': 'round' }));
      for (const [i, p] of one.points.entries()) {
        if (one.points.length > 60 && i !== one.points.length - 1) continue;
        root.append(svg('g', svg('title', `${one.name}: ${format(p.y)}, ${exact(p.x)}`),
          svg('circle', { cx: points[i][0], cy: points[i][1], r: 8, fill: 'transparent' }),
          svg('text', { x: points[i][0], y: points[i][1] + 4, 'text-anchor': 'middle', class: 'point', fill: colour(place) }, mark(place))));
      }
    });
    if (moment != null) {
      const here = Math.min(Math.max(px(moment), edge.left), width - edge.right);
      root.append(
        svg('rect.later', { x: here, y: edge.top, width: Math.max(0, width - edge.right - here), height: height - edge.top - edge.bottom }),
        svg('line.moment', { x1: here, x2: here, y1: edge.top - 4, y2: height - edge.bottom }));
    }
    if (pick) {
      root.addEventListener('click', (event) => {
        const place = event.clientX - root.getBoundingClientRect().left;
        pick(from + ((place - edge.left) / (width - edge.left - edge.right)) * (to - from));
      });
    }
    return [root, height];
  }, height);
  box.at = (ms) => { moment = ms; box.redraw(); };
  return box;
}

// Columns: columns([{name, value, title}], {format, label}).
export function columns(items, { format, label, height = 140, base = 2 }) {
  return followed((width) => {
    const most = Math.max(1, ...items.map((one) => one.value));
    const values = ticks(0, most, 3, base);
    // The highest line stands above the highest column.
    if (values.at(-1) < most) values.push(values.at(-1) + values[1]);
    const high = values.at(-1);
    const left = room(values, format);
    const py = (v) => height - 20 - (v / high) * (height - 28);
    const root = svg('svg', { width, height, role: 'img', 'aria-label': label },
      scale(values, format, left, width - 8, py));
    const each = (width - left - 8) / items.length;
    const every = Math.max(1, Math.ceil(items.length * 60 / (width - left)));
    items.forEach((one, place) => {
      const wide = Math.min(48, Math.max(2, each - 3));
      const middle = left + each * (place + 0.5);
      root.append(svg('g', svg('title', one.title ?? `${one.name}: ${format(one.value)}`),
        svg('rect', { x: middle - wide / 2, y: py(one.value), width: wide, height: Math.max(1, height - 20 - py(one.value)), rx: 2, fill: 'var(--c1)' })));
      if (place % every === 0) root.append(svg('text.axis', { x: middle, y: height - 5, 'text-anchor': 'middle' }, one.name));
    });
    return [root, height];
  }, height);
}
