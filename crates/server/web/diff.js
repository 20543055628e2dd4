// Diffs: a unified text as lines in one column or two, and lists of changed files.

import * as api from './api.js';
import { attempt, badge, button, bytes, facts, fill, h, number, plural } from './ui.js';

const LINES_FIRST = 400;

/** The lines of a unified diff: {kind: 'hunk' | 'same' | 'add' | 'del' | 'note', old, now, text}. */
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

/** Rows of two columns: removed lines stand beside the added ones that follow them. */
function pairs(lines) {
  const rows = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    if (line.kind === 'hunk' || line.kind === 'note') { rows.push([line, line]); at += 1; continue; }
    if (line.kind === 'same') { rows.push([line, line]); at += 1; continue; }
    const run = { del: [], add: [] };
    while (at < lines.length && (lines[at].kind === 'del' || lines[at].kind === 'add')) { run[lines[at].kind].push(lines[at]); at += 1; }
    for (let i = 0; i < Math.max(run.del.length, run.add.length); i += 1) rows.push([run.del[i] ?? null, run.add[i] ?? null]);
  }
  return rows;
}

const SIGN = { add: '+', del: '−', same: ' ', note: ' ' };
const SAYS = { add: 'added', del: 'removed' };
const gutter = (value) => h('td', { class: 'ln', 'data-n': value ?? '' });
const cell = (line) => h('td', { class: `code ${line?.kind ?? 'none'}` },
  line && SAYS[line.kind] && h('span', { class: 'visually-hidden' }, `${SAYS[line.kind]}: `),
  line && h('span', { class: 'sign', 'aria-hidden': 'true' }, SIGN[line.kind]), line?.text ?? '');

function unifiedRow(line) {
  if (line.kind === 'hunk') return h('tr', { class: 'hunk' }, h('td', { colspan: 3 }, line.text));
  return h('tr', {}, gutter(line.old), gutter(line.now), cell(line));
}

function pairRow([left, right]) {
  if (left?.kind === 'hunk') return h('tr', { class: 'hunk' }, h('td', { colspan: 4 }, left.text));
  return h('tr', {}, gutter(left?.old), cell(left), gutter(right?.now), cell(right));
}

/** A unified diff as a table; `split` puts both sides beside each other. */
export function lines(text, split = false, label = 'Changed lines') {
  const all = parse(text);
  const rows = split ? pairs(all) : all;
  const make = split ? pairRow : unifiedRow;
  const body = h('tbody', {}, rows.slice(0, LINES_FIRST).map(make));
  const box = h('div', { class: `diff ${split ? 'split' : 'unified'}`, tabindex: '0', role: 'region', 'aria-label': label }, h('table', {}, body));
  if (rows.length > LINES_FIRST) {
    const more = button(`Show ${number(rows.length - LINES_FIRST)} more lines`, { onclick: () => { body.append(...rows.slice(LINES_FIRST).map(make)); more.remove(); } });
    return h('div', {}, box, more);
  }
  return box;
}

/** `split` or `unified`, as it was chosen last. */
export function mode() {
  const chosen = localStorage.getItem('rappel.diff');
  return chosen ?? (matchMedia('(min-width: 1100px)').matches ? 'split' : 'unified');
}

/** The two buttons that choose. */
export function modePicker(onchange) {
  const box = h('div', { class: 'segmented', role: 'group', 'aria-label': 'How to show lines' });
  const draw = () => fill(box, [['unified', 'Unified'], ['split', 'Side by side']].map(([value, words]) =>
    button(words, { kind: 'small', 'aria-pressed': String(mode() === value), onclick: () => { localStorage.setItem('rappel.diff', value); draw(); box.querySelector('[aria-pressed="true"]').focus(); onchange(value); } })));
  draw();
  return box;
}

const CHANGE = { added: ['+', 'good', 'Added'], modified: ['~', 'info', 'Changed'], deleted: ['−', 'bad', 'Deleted'], renamed: ['→', 'info', 'Renamed'] };

/** The files of a diff answer as [{path, change, from, text, added, removed}], in the order of their paths. */
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

/**
 * Changed files, each folded below its name. `sides` are the checkpoints {from, to}; `to` is null
 * for the workspace. The first few are open. With `only`, that path is open alone.
 */
export function files(diff, sides, { only = null } = {}) {
  const list = filesOf(diff);
  const box = h('div', { class: 'files-diff' });
  const open = new Set(only ? [only] : list.slice(0, list.length > 12 ? 0 : 5).filter((one) => (one.added ?? 0) + (one.removed ?? 0) < 300).map((one) => one.path));
  const draw = () => fill(box, list.map((file) => one(file, sides, open)));
  draw();
  if (!list.length) return h('p', { class: 'muted' }, 'No file differs.');
  const all = (state) => () => { for (const node of box.querySelectorAll('details')) node.open = state; };
  return h('div', { class: 'stack' },
    h('div', { class: 'row spread' }, h('span', { class: 'muted' }, plural(list.length, 'file')),
      h('div', { class: 'row' }, button('Open all', { kind: 'small', onclick: all(true) }), button('Close all', { kind: 'small', onclick: all(false) }), modePicker(draw))),
    box,
    diff.more_texts && h('p', { class: 'muted' }, 'More files differ than are shown with their lines. Choose a folder to see the rest.'));
}

export function counts(diff) {
  const list = filesOf(diff);
  const [added, modified, deleted, renamed] = ['added', 'modified', 'deleted', 'renamed'].map((change) => list.filter((one) => one.change === change));
  return [added.length && `${number(added.length)} added`, modified.length && `${number(modified.length)} changed`, deleted.length && `${number(deleted.length)} deleted`, renamed.length && `${number(renamed.length)} renamed`].filter(Boolean).join(', ') || 'no file differs';
}

function one(file, sides, open) {
  const [sign, kind, says] = CHANGE[file.change];
  const body = h('div', { class: 'file-body' });
  const box = h('details', { class: 'file-diff', 'data-path': file.path },
    h('summary', {}, h('span', { class: `sign ${kind}`, title: says, role: 'img', 'aria-label': says }, sign),
      h('span', { class: 'mono path' }, file.from ? `${file.from} → ${file.path}` : file.path),
      h('span', { class: 'mono nowrap lines' }, file.added != null && [h('span', { class: 'good' }, `+${number(file.added)}`), ' ', h('span', { class: 'bad' }, `−${number(file.removed)}`)])), body);
  const draw = () => {
    if (!box.open || body.firstChild) return;
    if (file.text) body.append(lines(file.text, mode() === 'split', `Changed lines of ${file.path}`));
    else if (file.same || file.text === '') body.append(h('p', { class: 'muted pad' }, 'The content is the same. Only its place or mode differs.'));
    else body.append(opaque(file, sides));
  };
  box.addEventListener('toggle', () => { if (box.open) open.add(file.path); else open.delete(file.path); draw(); });
  box.open = open.has(file.path);
  draw();
  return box;
}

/** A file without lines to compare: size, hash and download for each side. */
function opaque(file, { from, to }) {
  const sides = h('div', { class: 'grid' });
  const box = h('div', { class: 'pad stack' }, h('p', {}, 'Binary, or over 1 MiB: no lines are shown.'), sides);
  const side = async (label, id, path) => {
    const part = h('div', {}, h('h3', {}, label));
    sides.append(part);
    if (!id) { part.append(h('p', { class: 'muted' }, 'It is in the workspace.')); return; }
    part.append(await stored(id, path));
  };
  if (file.change !== 'added') side('Before', from, file.from ?? file.path);
  if (file.change !== 'deleted') side('After', to, file.path);
  return box;
}

/** Size, hash and download of one file in a checkpoint. */
export async function stored(id, path) {
  const address = `/api/checkpoints/${encodeURIComponent(id)}`;
  const tree = await api.get(`${address}/tree`, { path }).catch(() => ({ entries: [] }));
  const entry = tree.entries.find((found) => found.path === path);
  if (!entry) return h('p', { class: 'muted' }, 'It is not in this checkpoint.');
  if (entry.kind === 'symlink') return facts([['Link to', h('code', {}, entry.target)]]);
  return h('div', { class: 'stack' },
    facts([['Size', `${bytes(entry.size)} (${plural(entry.size, 'byte')})`], ['Hash', entry.content && h('code', {}, entry.content)], ['Mode', h('code', {}, entry.mode)]]),
    h('div', {}, button('Download', { kind: 'small', 'aria-label': `Download ${path}`, onclick: () => attempt(() => api.download(`${address}/files/${api.inPath(path)}`, {}, path.split('/').pop())) })));
}

/** Where git moved to, for people. */
export function git(moved) {
  if (!moved) return h('p', { class: 'muted' }, 'Git did not move.');
  const arrow = (pair) => pair && h('span', {}, h('code', {}, String(pair.from ?? 'none').slice(0, 40)), ' → ', h('code', {}, String(pair.to ?? 'none').slice(0, 40)));
  return h('div', { class: 'stack' },
    facts([['Branch', arrow(moved.branch)], ['Commit', arrow(moved.commit)], ['Operation', arrow(moved.operation)], ['Staged', moved.index ? 'the index differs' : null]]),
    moved.refs.length > 0 && h('ul', {}, moved.refs.slice(0, 100).map((ref) => h('li', { class: 'mono' }, `${ref.name}: ${(ref.from ?? 'none').slice(0, 10)} → ${(ref.to ?? 'none').slice(0, 10)}`))));
}

/** Tables of databases with row counts on both sides: [{name, kind, tables: [{table, from, to}]}]. */
export function databases(list, left = 'Before', right = 'After') {
  const count = (value) => (value == null ? 'none' : number(value));
  return list.map((one) => h('div', { class: 'stack' },
    h('h3', {}, one.name, ' ', badge(one.kind)),
    one.tables.length ? h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Tables of ${one.name}` }, h('table', {},
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Table'), h('th', { scope: 'col', class: 'number' }, `Rows ${left.toLowerCase()}`), h('th', { scope: 'col', class: 'number' }, `Rows ${right.toLowerCase()}`), h('th', { scope: 'col', class: 'number' }, 'Difference'))),
      h('tbody', {}, one.tables.map((row) => {
        const by = row.from != null && row.to != null ? row.to - row.from : null;
        return h('tr', {}, h('td', { class: 'mono' }, row.table), h('td', { class: 'number' }, count(row.from)), h('td', { class: 'number' }, count(row.to)),
          h('td', { class: `number ${by ? (by > 0 ? 'good' : 'bad') : 'muted'}` }, by == null ? '' : by === 0 ? (row.change === 'modified' ? 'content differs' : 'same') : `${by > 0 ? '+' : '−'}${number(Math.abs(by))}`));
      })))) : h('p', { class: 'muted' }, 'No table differs in its number of rows.')));
}
