// Diffs: a unified text as lines in one column or two, and lists of changed files.

import * as api from './api.js';
import { comparison } from './route.js';
import {
  attempt, badge, button, bytes, facts, fill, fillWith, h, HIDDEN, more, muted, number,
  plural, segmented, table,
} from './ui.js';

const LINES_FIRST = 400;

// The lines of a unified diff: {kind: 'hunk' | 'same' | 'add' | 'del' | 'note', old, now, text}.
export function parse(text) {
  const lines = [];
  let [old, now, left, right] = [0, 0, 0, 0];
  for (const line of text.replace(/\n$/, '').split('\n')) {
    const hunk = left <= 0 && right <= 0 && /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)/.exec(line);
    if (hunk) {
      [old, left, now, right] = [Number(hunk[1]), Number(hunk[2] ?? 1), Number(hunk[3]), Number(hunk[4] ?? 1)];
      lines.push({ kind: 'hunk', text: line });
    } else if (line.startsWith('\\')) lines.push({ kind: 'note', text: line.slice(2) });
    else if (left <= 0 && right <= 0) continue; // the names of the files
    else if (line.startsWith('+')) { lines.push({ kind: 'add', now, text: line.slice(1) }); now += 1; right -= 1; }
    else if (line.startsWith('-')) { lines.push({ kind: 'del', old, text: line.slice(1) }); old += 1; left -= 1; }
    else { lines.push({ kind: 'same', old, now, text: line.slice(1) }); old += 1; now += 1; left -= 1; right -= 1; }
  }
  return lines;
}

// Rows of two columns: removed lines stand beside the added ones that follow them.
function pairs(lines) {
  const rows = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const run = { del: [], add: [] };
    if (!run[line.kind]) { rows.push([line, line]); at += 1; continue; }
    while (run[lines[at]?.kind]) { run[lines[at].kind].push(lines[at]); at += 1; }
    for (let i = 0; i < Math.max(run.del.length, run.add.length); i += 1) rows.push([run.del[i] ?? null, run.add[i] ?? null]);
  }
  return rows;
}

const SIGN = { add: '+', del: '−', same: ' ', note: ' ' };
const SAYS = { add: 'added', del: 'removed' };
const gutter = (value) => h('td.ln', { 'data-n': value ?? '' });
const cell = (line) => h('td', { class: `code ${line?.kind ?? 'none'}` },
  line && SAYS[line.kind] && h('span.visually-hidden', `${SAYS[line.kind]}: `),
  line && h('span.sign', HIDDEN, SIGN[line.kind]), line?.text ?? '');

function unifiedRow(line) {
  if (line.kind === 'hunk') return h('tr.hunk', h('td', { colspan: 3 }, line.text));
  return h('tr', gutter(line.old), gutter(line.now), cell(line));
}

function pairRow([left, right]) {
  if (left?.kind === 'hunk') return h('tr.hunk', h('td', { colspan: 4 }, left.text));
  return h('tr', gutter(left?.old), cell(left), gutter(right?.now), cell(right));
}

// A unified diff as a table; `split` puts both sides beside each other.
export function lines(text, split = false, label = 'Changed lines') {
  const all = parse(text);
  const rows = split ? pairs(all) : all;
  const make = split ? pairRow : unifiedRow;
  const body = h('tbody', rows.slice(0, LINES_FIRST).map(make));
  const box = h('div', { class: `diff ${split ? 'split' : 'unified'}`, tabindex: '0', role: 'region', 'aria-label': label }, h('table', body));
  if (rows.length > LINES_FIRST) {
    const rest = button(`Show ${number(rows.length - LINES_FIRST)} more lines`, { onclick: () => {
      body.append(...rows.slice(LINES_FIRST).map(make));
      rest.remove();
    } });
    return h('div', box, rest);
  }
  return box;
}

function mode() {
  const chosen = localStorage.getItem('rappel.diff');
  return chosen ?? (matchMedia('(min-width: 1100px)').matches ? 'split' : 'unified');
}

const modePicker = (change) => segmented('How to show lines', [['unified', 'Unified'], ['split', 'Side by side']], mode(),
  (value) => { localStorage.setItem('rappel.diff', value); change(); });

const CHANGE = {
  added: ['+', 'good', 'new'], modified: ['~', 'info', 'changed'],
  deleted: ['−', 'bad', 'deleted'], renamed: ['→', 'info', 'renamed'],
};

// The files of a diff answer as [{path, change, from, text, added, removed}], in the order of their paths.
export function filesOf(diff) {
  const { added, modified, deleted, renamed } = diff.files;
  const texts = new Map((diff.texts ?? []).map((one) => [one.path, one]));
  const file = (change) => (path) => ({ path, change, ...texts.get(path) });
  const moved = new Set(renamed.flatMap((one) => [one.from, one.to]));
  const alone = (path) => !moved.has(path);
  const list = [...added.filter(alone).map(file('added')), ...modified.map(file('modified')), ...deleted.filter(alone).map(file('deleted')),
    ...renamed.map((one) => ({ path: one.to, change: 'renamed', ...texts.get(one.to), from: one.from, same: one.similarity === 100 }))];
  return list.sort((a, b) => (a.path < b.path ? -1 : 1));
}

export function names(files, { label = 'Changed files', most = 40, link = null } = {}) {
  const list = filesOf({ files });
  const row = ({ path, from, change }) => {
    const words = from ? `${from} → ${path}` : path;
    return h('li', fileSign(change), link ? h('a', { href: link(path) }, words) : words);
  };
  return h('ul.files.mono', { 'aria-label': label }, list.slice(0, most).map(row),
    more(list.length, most));
}

export function fileSign(change) {
  const [mark, kind, says] = CHANGE[change];
  return h('span.file-mark', { class: kind, title: says, role: 'img', 'aria-label': says }, mark);
}

// Changed files, each folded below its name. `sides` are the checkpoints {from, to}; `to` is null
// for the workspace. The first few are open. With `only`, that path is open alone.
export function files(diff, sides, { only = null } = {}) {
  const list = filesOf(diff);
  const box = h('div.files-diff');
  const open = new Set(only ? [only] : list.slice(0, list.length > 12 ? 0 : 5).filter((one) => (one.added ?? 0) + (one.removed ?? 0) < 300).map((one) => one.path));
  const draw = () => fill(box, list.map((file) => one(file, { ...sides, cut: diff.more_texts }, open)));
  draw();
  if (!list.length) return muted('No file differs.');
  const all = (state) => () => { for (const node of box.querySelectorAll('details')) node.open = state; };
  return h('div.stack',
    h('div.row.spread', h('span.muted', plural(list, 'file')),
      h('div.row', button('Open all', { kind: 'small', onclick: all(true) }), button('Close all', { kind: 'small', onclick: all(false) }), modePicker(draw))),
    box);
}

export function counts(diff) {
  const groups = Map.groupBy(filesOf(diff), (one) => one.change);
  const said = Object.entries(CHANGE).filter(([change]) => groups.has(change));
  return said.map(([change, [, , says]]) => `${number(groups.get(change).length)} ${says}`).join(', ') || 'no file differs';
}

function one(file, sides, open) {
  const body = h('div.file-body');
  const box = h('details.file-diff', { 'data-path': file.path },
    h('summary', fileSign(file.change),
      h('span.mono.path', file.from ? `${file.from} → ${file.path}` : file.path),
      h('span.mono.nowrap.lines', file.added != null && [h('span.good', `+${number(file.added)}`), ' ', h('span.bad', `−${number(file.removed)}`)])), body);
  const draw = () => {
    if (!box.open || body.firstChild) return;
    if (file.text) body.append(lines(file.text, mode() === 'split', `Changed lines of ${file.path}`));
    else if (file.same || file.text === '') body.append(h('p.muted.pad', 'The content is the same. Only its place or mode differs.'));
    else if (sides.cut && file.text === undefined) body.append(beyond(file, sides));
    else body.append(opaque(file, sides));
  };
  box.addEventListener('toggle', () => { if (box.open) open.add(file.path); else open.delete(file.path); draw(); });
  box.open = open.has(file.path);
  draw();
  return box;
}

// A file whose lines the answer does not have: so many differ.
const beyond = ({ path }, { from, to }) => h('p.pad', 'Too many files differ to show all lines. ',
  h('a', { href: comparison(from, to ?? 'now', { path }) }, 'Show this file alone'));

// A file without lines to compare: size, hash and download for each side.
function opaque(file, { from, to }) {
  const sides = h('div.grid');
  const box = h('div.pad.stack', h('p', 'Binary, or over 1 MiB: no lines are shown.'), sides);
  const side = (label, id, path) => {
    const content = h('div');
    sides.append(h('div', h('h3', label), content));
    if (id) fillWith(content, () => stored(id, path));
    else fill(content, muted('It is in the workspace.'));
  };
  if (file.change !== 'added') side('Before', from, file.from ?? file.path);
  if (file.change !== 'deleted') side('After', to, file.path);
  return box;
}

export async function stored(id, path) {
  const { entries } = await api.get(api.checkpoint(id, '/tree'), { path });
  const entry = entries.find((found) => found.path === path);
  if (!entry) return muted('It is not in this checkpoint.');
  if (entry.kind === 'symlink') return facts([['Link to', h('code', entry.target)]]);
  return h('div.stack',
    facts([['Size', `${bytes(entry.size)} (${plural(entry.size, 'byte')})`], ['Hash', entry.content && h('code', entry.content)], ['Mode', h('code', entry.mode)]]),
    h('div', button('Download', { kind: 'small', 'aria-label': `Download ${path}`,
      onclick: () => attempt(() => api.download(api.checkpoint(id, `/files/${api.inPath(path)}`), {}, path.split('/').pop())) })));
}

export function git(moved) {
  if (!moved) return muted('Git did not move.');
  const name = (value) => h('code', { title: value }, /^[0-9a-f]{40,}$/.test(value) ? value.slice(0, 7) : value ?? 'none');
  const arrow = (pair) => pair && h('span', name(pair.from), ' → ', name(pair.to));
  return h('div.stack',
    facts([['Branch', arrow(moved.branch)], ['Commit', arrow(moved.commit)],
      ['Operation', arrow(moved.operation)], ['Staged', moved.index && 'the index differs']]),
    moved.refs.length && h('ul', moved.refs.slice(0, 100).map((ref) => h('li', h('code', ref.name), ': ', arrow(ref)))));
}

// Tables of databases with row counts on both sides: [{name, kind, tables: [{table, from, to}]}].
export function databases(list, left = 'before', right = 'after') {
  const difference = ({ from, to, change }) => {
    if (from == null || to == null) return '';
    if (from === to) return h('span.muted', change === 'modified' ? 'content differs' : 'same');
    return h('span', { class: to > from ? 'good' : 'bad' }, `${to > from ? '+' : '−'}${number(Math.abs(to - from))}`);
  };
  // `undefined` is not known yet.
  const count = (value) => (value === undefined ? '…' : value === null ? 'none' : number(value));
  return list.map((one) => h('div.stack',
    h('h3', one.name, ' ', badge(one.kind)),
    one.tables.length ? table([
      { name: 'Table', class: 'mono', cell: (row) => row.table },
      { name: `Rows ${left}`, number: true, cell: (row) => count(row.from) },
      { name: `Rows ${right}`, number: true, cell: (row) => count(row.to) },
      { name: 'Difference', number: true, cell: difference },
    ], one.tables, { caption: `Tables of ${one.name}` }) : muted('No table differs in its number of rows.')));
}
