// The graph of beliefs: a belief stands below those that it depends on. The kind of a dependency
// shows as line style and as a word.

import { followed } from './chart.js';
import { h, HIDDEN, percent, svg } from './ui.js';

const WIDE = 210;
const GAP = 18;
const LINE = 16;
const STYLES = { requires: '', supports: '7 4', contradicts: '2 4' };

// How deep each belief is: 0 depends on nothing. A circle ends where it began.
function depths(beliefs, links) {
  const below = new Map(beliefs.map((one) => [one.id, []]));
  for (const link of links) if (link.type !== 'contradicts' && below.has(link.to)) below.get(link.from)?.push(link.to);
  const found = new Map();
  const depth = (id, path) => {
    if (found.has(id)) return found.get(id);
    if (path.has(id)) return 0;
    path.add(id);
    const deep = Math.max(0, ...below.get(id).map((on) => depth(on, path) + 1));
    path.delete(id);
    found.set(id, deep);
    return deep;
  };
  for (const one of beliefs) depth(one.id, new Set());
  return found;
}

function wrap(text, chars, most) {
  const lines = [''];
  for (const word of text.split(/\s+/)) {
    const now = lines.at(-1);
    if ((now + word).length + 1 > chars && now) lines.push(word);
    else lines[lines.length - 1] = now ? `${now} ${word}` : word;
  }
  const cut = lines.slice(0, most).map((line) => (line.length > chars ? `${line.slice(0, chars - 1)}…` : line));
  if (lines.length > most) cut[most - 1] = `${cut[most - 1].slice(0, chars - 1)}…`;
  return cut;
}

function place(beliefs, links, width) {
  const deep = depths(beliefs, links);
  const layers = [];
  for (const one of beliefs) (layers[deep.get(one.id)] ??= []).push(one);
  const fit = Math.max(1, Math.floor((width + GAP) / (Math.min(WIDE, 150) + GAP)));
  const places = new Map();
  let top = 4;
  for (const layer of layers.filter(Boolean)) {
    for (let at = 0; at < layer.length; at += fit) {
      const row = layer.slice(at, at + fit);
      const wide = Math.min(WIDE, (width - GAP * (row.length - 1) - 2) / row.length);
      const begin = (width - row.length * wide - (row.length - 1) * GAP) / 2;
      const texts = row.map((one) => wrap(one.text, Math.floor((wide - 16) / 6.7), 4));
      const high = Math.max(...texts.map((t) => t.length)) * LINE + 34;
      row.forEach((one, i) => places.set(one.id, { one, lines: texts[i], x: begin + i * (wide + GAP), y: top, wide, high }));
      top += high + 46;
    }
  }
  return [places, top - 38];
}

// The graph, and as a list for a screen reader, of `beliefs` and `links` ({from, to, type}); `against` holds the ids that contradict.
export function graph(beliefs, links, against = new Set()) {
  const words = (one) => `${one.text} (${percent(one.confidence)} sure${against.has(one.id) ? ', contradicted' : ''})`;
  const texts = new Map(beliefs.map((one) => [one.id, one.text]));
  const read = h('ul.visually-hidden', beliefs.map((one) => h('li', words(one), links
    .filter(({ from }) => from === one.id).map(({ to, type }) => `; ${type}: ${texts.get(to)}`))));
  return [read, followed((width) => {
    const [places, height] = place(beliefs, links, width);
    const root = svg('svg', { width, height, ...HIDDEN });
    const labels = [];
    let lowest = height;
    for (const link of links) {
      const [from, to] = [places.get(link.from), places.get(link.to)];
      if (!from || !to || from === to) continue;
      const level = Math.abs(from.y - to.y) < 4;
      const [upper, lower] = from.y < to.y ? [from, to] : [to, from];
      const a = { x: upper.x + upper.wide / 2, y: upper.y + upper.high };
      const b = { x: lower.x + lower.wide / 2, y: level ? lower.y + lower.high : lower.y };
      const bend = level ? 34 : 0;
      lowest = Math.max(lowest, a.y + bend);
      const path = level
        ? `M${a.x} ${a.y}C${a.x} ${a.y + bend} ${b.x} ${b.y + bend} ${b.x} ${b.y}`
        : `M${a.x} ${a.y}C${a.x} ${a.y + 26} ${b.x} ${b.y - 26} ${b.x} ${b.y}`;
      const bad = link.type === 'contradicts';
      root.append(svg('path', { d: path, class: bad ? 'edge against' : 'edge', 'stroke-dasharray': STYLES[link.type] ?? '' }));
      // The word of a long line stands above the nodes that the line passes.
      const [x, y] = b.y - a.y > 60 ? [a.x + (b.x - a.x) * 0.1, a.y + 22] : [(a.x + b.x) / 2, (a.y + b.y) / 2 + (level ? bend * 0.75 : 0)];
      labels.push([x, y, bad ? '✕ contradicts' : link.type, bad]);
    }
    for (const { one, lines, x, y, wide, high } of places.values()) {
      const doubted = against.has(one.id);
      root.append(svg('g', svg('title', words(one)),
        svg('rect', { x, y, width: wide, height: high, rx: 6, class: doubted ? 'node against' : 'node' }),
        svg('rect.trough', { x: x + 8, y: y + high - 10, width: wide - 16, height: 4, rx: 2 }),
        svg('rect', { x: x + 8, y: y + high - 10, width: Math.max(2, (wide - 16) * one.confidence), height: 4, rx: 2, fill: 'var(--accent)' }),
        lines.map((line, i) => svg('text.node-text', { x: x + 8, y: y + 17 + i * LINE }, line)),
        svg('text.axis', { x: x + 8, y: y + high - 15 },
          `${doubted ? '✕ ' : ''}${one.id} · ${percent(one.confidence)} sure`)));
    }
    for (const [x, y, text, bad] of labels) {
      const wide = text.length * 6.2 + 8;
      root.append(svg('rect.edge-back', { x: x - wide / 2, y: y - 9, width: wide, height: 16 }),
        svg('text', { x, y: y + 3, 'text-anchor': 'middle', class: bad ? 'axis bad-text' : 'axis' }, text));
    }
    root.setAttribute('height', lowest);
    return [root, lowest];
  })];
}
