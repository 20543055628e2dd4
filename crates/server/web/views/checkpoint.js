// A checkpoint: what it holds, facet by facet, and what can be done with it.

import * as api from '../api.js';
import * as diffs from '../diff.js';
import * as failing from '../failing.js';
import { comparison, href } from '../route.js';
import { loadNames } from '../rows.js';
import {
  checkpointLink, FACETS, facetStates, facetWords, isBefore, kindOf, KINDS, loadSessions, sessionLink,
  sessionName, triggerWords,
} from '../words.js';
import {
  ask, attempt, badge, button, bytes, confirm, dialog, duration, exact, facts, fill,
  fillWith, h, head, HIDDEN, idButton, muted, newest, number, plural, search, section, segmented,
  svg, table, time, toast,
} from '../ui.js';

const TEXT_MAX = 1 << 20;
const FORMATS = [['rappel', 'Rappel (everything)'], ['lugh', 'Lugh'], ['loki', 'Loki Mode'], ['forge', 'Forge'], ['caf', 'CAF'], ['aiwg', 'AIWG']];

export default {
  title: (id) => `Checkpoint ${id}`,
  async load(ctx) {
    const [{ checkpoint }] = await Promise.all([api.get(api.checkpoint(ctx.id), {}, ctx), loadSessions(ctx)]);
    const names = await loadNames(ctx, [checkpoint]);
    return view(ctx, checkpoint, names.of(checkpoint), names.check(checkpoint));
  },
};

function view(ctx, one, title, check) {
  const { id } = one;
  const change = async (body, said) => {
    const done = await attempt(() => api.patch(api.checkpoint(id), body));
    if (done) { toast(said); ctx.reload(); }
  };
  const tag = async () => {
    const text = await ask('Add tags', 'Tags, with commas', '', { ok: 'Add' });
    const tags = (text ?? '').split(',').map((word) => word.trim()).filter(Boolean);
    if (tags.length) change({ add_tags: tags }, 'Tagged.');
  };
  const describe = async () => {
    const text = await ask('Describe this checkpoint', 'What this moment is', one.description ?? '', { long: true });
    if (text != null) change({ description: text }, 'Described.');
  };
  const actions = [
    ['r', 'Restore this', () => ctx.go('restore', id), check?.passed !== false && 'primary'],
    one.parent && !isBefore(one.trigger) && ['b', 'Back to before this', () => ctx.go('restore', one.parent)],
    ['c', 'Compare with now', () => ctx.navigate(comparison(id))],
    ['t', 'Tag', tag],
    ['p', one.pinned ? 'Unpin' : 'Pin', () => change({ pinned: !one.pinned }, one.pinned ? 'Unpinned.' : 'Pinned: it will not be pruned.')],
    ['e', 'Describe', describe],
  ].filter(Boolean);
  ctx.keys({
    'To the parent': { '[': () => one.parent && ctx.go('checkpoint', one.parent) },
    'To the timeline': { Escape: () => ctx.go('timeline', null, { at: id }) },
  });
  ctx.on('checkpoint.labelled', (data) => { if (data.checkpoint === id) ctx.reload(); });

  const untag = (tag) => h('span.badge', tag,
    button('✕', { kind: 'plain cp-x', 'aria-label': `Remove the tag ${tag}`, onclick: () => change({ remove_tags: [tag] }, 'The tag is gone.') }));
  const { shape, colour } = KINDS[kindOf(one.trigger)];
  return h('div.view',
    head([svg('svg', { width: 18, height: 18, class: 'cp-mark', ...HIDDEN },
      svg('path', { d: shape, fill: colour, transform: 'translate(9 9)' })), check && [failing.sign(check), ' '], title],
      [triggerWords(one.trigger), ' · ', time(one.created_at), ' · ', exact(one.created_at)],
      actions.map(([key, words, run, kind]) => button(words, { kind, key, onclick: run })),
      button('Export', { onclick: () => exportDialog(one) }),
      button('Delete', { kind: 'danger', onclick: () => remove(ctx, one, title) })),
    notes(one),
    h('div.grid.cp-top',
      section('About',
        facts([
          ['Id', idButton(id)],
          ['Number', `#${number(one.sequence)}`],
          ['Parent', one.parent && h('a.mono', { href: href('checkpoint', one.parent) }, one.parent)],
          ['Session', one.session_id && sessionLink(one.session_id)],
          ['Pinned', one.pinned && 'yes: it will not be pruned'],
          ['Environment', one.environment],
          ['Came from', one.lineage?.origin],
          ['Took', duration(one.cost.wall_ms)],
          ['New on disk', bytes(one.cost.new_bytes)],
        ]),
        one.tags.length && h('div.row.cp-tags', h('span.muted', 'Tags'), one.tags.map(untag))),
      section('What it holds', holds(one))),
    changed(ctx, one),
    one.files && browser(ctx, one),
    h('div.grid',
      one.git && section('Git', git(one.git)),
      one.databases.length && databases(ctx, one),
      one.agents && section('Agent sessions', sessions(one)),
      one.knowledge && section('Knowledge',
        facts([['Documents', number(one.knowledge.document_count)], ['Projects', one.knowledge.projects.join(', ')], ['Paths', one.knowledge.paths.join(', ')]])),
      one.process && section('Process', values(one.process)),
      Object.keys(one.variables).length && section('Variables', values(one.variables)),
      Object.keys(one.metadata).some((name) => name !== 'checkpoint_reason') && section('Metadata', values(one.metadata))));
}

function notes(one) {
  const list = [
    ...one.partial_reasons.map((why) => `Not complete: ${[facetWords[why.facet], why.database, why.path].filter(Boolean).join(', ')}: ${why.reason}`),
    one.interrupted_restore && 'It was made after a restore broke off: some files may be of another moment.',
    one.mid_operation.length && `A tool was running while it was made: ${one.mid_operation.map((call) => call.tool ?? call.command ?? call.id ?? call).join(', ')}.`,
  ].filter(Boolean);
  return list.length ? h('div.stack', list.map((text) => h('p.note.warn', text))) : null;
}

function holds(one) {
  const summary = {
    files: one.files && `${plural(one.files.count, 'file')}, ${bytes(one.files.bytes)}${one.files.skipped.length ? `; ${number(one.files.skipped.length)} left out` : ''}`,
    git: one.git && [one.git.branch ?? (one.git.detached && 'no branch'), one.git.commit?.slice(0, 10)].filter(Boolean).join(' at '),
    databases: one.databases.map((db) => `${db.name} (${plural(db.tables, 'table')}, ${bytes(db.bytes)}${db.stale ? '; older than the checkpoint' : ''})`).join(', '),
    agents: one.agents && plural(one.agents.sessions, 'session'),
    knowledge: one.knowledge && plural(one.knowledge.document_count, 'document'),
    process: one.process && 'memory and load of the supervised process',
  };
  const rows = FACETS.map((facet) => ({ facet, state: one.facets[facet] ?? 'not-asked' })).filter((row) => row.state !== 'not-asked');
  return h('div.stack',
    table([
      { name: 'Part', class: 'nowrap', cell: (row) => facetWords[row.facet] },
      { name: 'State', cell: (row) => badge(...(facetStates[row.state] ?? [row.state])) },
      { name: 'What', cell: (row) => summary[row.facet] || h('span.muted', '–') },
    ], rows, { caption: 'What the checkpoint holds' }),
    one.files?.skipped.length && h('details', h('summary', `${plural(one.files.skipped, 'path')} left out`),
      h('ul.mono', one.files.skipped.slice(0, 200).map((skip) => h('li', `${skip.path}: ${skip.reason}`)))));
}

function changed(ctx, one) {
  const body = h('div.cp-changed', muted('Comparing …'));
  const choices = [['parent', 'Since its parent'], ['now', 'From it until now']].slice(one.parent ? 0 : 1);
  const [[first]] = choices;
  const asking = newest(ctx);
  const picks = segmented('Compare with', choices, first, (value) => show(value));
  const show = (which) => {
    const [from, to] = which === 'parent' ? [one.parent, one.id] : [one.id, null];
    const query = { from, to, text: true, only: 'files' };
    const signal = asking();
    return fillWith(body, async () =>
      diffs.files(await api.get('/api/diff', query, { signal }), { from, to }));
  };
  if (one.files) show(first);
  else fill(body, muted('It holds no files.'));
  return section('Changed files', picks, body);
}

function browser(ctx, one) {
  const list = h('div.stack');
  let entries = null;
  const box = h('details.card.cp-browse', h('summary', h('h2', `All files (${number(one.files.count)})`)), list);
  const draw = (text) => {
    const found = entries.filter((entry) => entry.kind !== 'directory' && (!text || entry.path.toLowerCase().includes(text)));
    return [h('ul.cp-tree', found.slice(0, 300).map((entry) => h('li', button(entry.path, { kind: 'plain small mono', onclick: () => showFile(one.id, entry) }), h('span.number.muted', entry.size == null ? 'link' : bytes(entry.size))))),
      found.length > 300 && muted(`${number(found.length - 300)} more: type a part of the path.`)];
  };
  box.addEventListener('toggle', async () => {
    if (!box.open || entries) return;
    const tree = await attempt(() => api.get(api.checkpoint(one.id, '/tree'), {}, ctx));
    if (!tree) return;
    entries = tree.entries;
    const rows = h('div');
    fill(list, search('Filter files', (text) => fill(rows, draw(text.toLowerCase()))), fill(rows, draw('')));
  });
  return box;
}

// A file's content as text; size, hash and download of one that is large or binary.
async function showFile(id, entry) {
  const body = h('div.stack', muted('Loading …'));
  dialog(entry.path, (box) => box.append(body));
  body.closest('dialog').classList.add('wide');
  await fillWith(body, async () => {
    const about = await diffs.stored(id, entry.path);
    const text = entry.kind === 'file' && entry.size <= TEXT_MAX
      ? await api.text(api.checkpoint(id, `/files/${api.inPath(entry.path)}`)) : '\0';
    return [about, !/[\0\ufffd]/.test(text) ? h('pre.output.cp-text', { tabindex: '0' }, text)
      : entry.kind === 'file' && muted('Binary, or over 1 MiB: the content is not shown.')];
  });
}

function git(part) {
  const list = (title, paths) => paths.length && h('details',
    h('summary', `${title}: ${plural(paths, 'file')}`), h('ul.mono', paths.slice(0, 300).map((path) => h('li', path))));
  return h('div.stack',
    facts([['Branch', part.branch ?? (part.detached && 'none (detached)')],
      ['Commit', part.commit && h('code', part.commit)], ['In progress', part.operation],
      ['Other work trees', part.worktrees?.length && part.worktrees.map((tree) => tree.name).join(', ')]]),
    list('Staged', part.staged), list('Modified', part.modified), list('Untracked', part.untracked),
    !part.staged.length && !part.modified.length && !part.untracked.length && muted('Nothing was uncommitted.'));
}

function databases(ctx, one) {
  const tables = (differ) => one.databases.map((db) => {
    const moved = differ?.find((other) => other.name === db.name);
    const now = new Map((moved?.tables ?? []).map((row) => [row.table, row]));
    const names = [...new Set([...db.tables, ...now.keys()])];
    return { ...db, tables: names.map((table) => {
      const then = db.row_counts?.[table] ?? null;
      // Where nothing differs, there are as many rows as then.
      const same = { from: then, to: differ ? then : undefined };
      const { from, to, change } = now.get(table) ?? same;
      return { table, from: then ?? from, to, change };
    }) };
  });
  const draw = (differ) => diffs.databases(tables(differ), 'then', 'now');
  const body = h('div.stack', draw(null));
  fillWith(body, async () =>
    draw((await api.get('/api/diff', { from: one.id, only: 'databases' }, ctx)).databases));
  const stale = one.databases.filter((db) => db.stale);
  return section('Databases', stale.map((db) => h('p.note.warn',
    `The dump of ${db.name} is older than the checkpoint: it is of `, checkpointLink(db.as_of))), body);
}

function sessions(one) {
  const list = one.agents.sessions;
  if (!list.length) return muted('No session was known.');
  return h('ul.stack', list.map((each) => h('li',
    h('a', { href: href('session', each.id, { event: each.event }), title: each.id }, sessionName(each.id)), ' ', badge(each.status), ' ',
    h('span.muted', `at event ${number(each.event)}`), ' · ', time(each.latest_at))));
}

// What sessions say about a checkpoint. Its reason is told elsewhere.
const SHOW = { duration_ms: duration, rss: bytes, checkpoint_reason: () => null };
const text = (value) => (typeof value === 'object' ? h('code', JSON.stringify(value)) : String(value));
const values = (object) => facts(Object.entries(object).map(([name, value]) => [name.replaceAll('_', ' '), (SHOW[name] ?? text)(value)]));

function exportDialog(one) {
  const format = h('select', { id: 'export-format' }, FORMATS.map(([value, words]) => h('option', { value }, words)));
  const redact = h('input', { type: 'checkbox' });
  dialog('Export this checkpoint', (body) => body.append(
    h('label', { for: 'export-format' }, 'Form'), format,
    h('label.tick', redact, 'Leave out what looks like a secret')),
  (close) => [button('Cancel', { onclick: close }), button('Download', { kind: 'primary', onclick: async () => {
    const query = { format: format.value, redact: redact.checked && 'true' };
    if (await attempt(() => api.download(api.checkpoint(one.id, '/export'), query))) close();
  } })]);
}

async function remove(ctx, one, title) {
  const yes = await confirm('Delete this checkpoint?', `“${title}” disappears from the timeline. For a day it can be brought back.`, 'Delete');
  if (!yes) return;
  const done = await attempt(() => api.del(api.checkpoint(one.id)));
  if (!done) return;
  ctx.go('timeline');
  toast('Deleted.', { action: ['Bring it back', async () => {
    if (await attempt(() => api.post(api.checkpoint(one.id, '/undelete')))) ctx.go('checkpoint', one.id);
  }] });
}
