// A checkpoint: what it holds, facet by facet, and what can be done with it.

import * as api from '../api.js';
import * as diffs from '../diff.js';
import { comparison, href } from '../route.js';
import { loadNames } from '../rows.js';
import { FACETS, facetStates, facetWords, isBefore, kindOf, KINDS, loadSessions, sessionLink, sessionName, triggerWords } from '../words.js';
import { ask, attempt, badge, button, bytes, confirm, dialog, duration, exact, facts, failure, fill, h, head, idButton, number, plural, search, section, segmented, svg, table, time, toast } from '../ui.js';

const TEXT_MAX = 1 << 20;
const FORMATS = [['rappel', 'Rappel (everything)'], ['lugh', 'Lugh'], ['loki', 'Loki Mode'], ['forge', 'Forge'], ['caf', 'CAF'], ['aiwg', 'AIWG']];

export default {
  title: (params) => `Checkpoint ${params.id}`,
  css: true,
  async load(ctx) {
    const [{ checkpoint }] = await Promise.all([api.get(api.checkpoint(ctx.params.id), {}, ctx), loadSessions(ctx)]);
    return view(ctx, checkpoint, (await loadNames(ctx, [checkpoint])).of(checkpoint));
  },
};

function view(ctx, one, title) {
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
    ['r', 'Restore this', () => ctx.navigate(href('restore', id)), 'primary'],
    one.parent && !isBefore(one.trigger) && ['b', 'Back to before this', () => ctx.navigate(href('restore', one.parent))],
    ['c', 'Compare with now', () => ctx.navigate(comparison(id))],
    ['t', 'Tag', tag],
    ['p', one.pinned ? 'Unpin' : 'Pin', () => change({ pinned: !one.pinned }, one.pinned ? 'Unpinned.' : 'Pinned: it will not be pruned.')],
    ['e', 'Describe', describe],
  ].filter(Boolean);
  for (const [key, does, run] of actions) ctx.keys({ [key]: { does, run } });
  ctx.keys({
    '[': { does: 'To the parent', run: () => one.parent && ctx.navigate(href('checkpoint', one.parent)) },
    Escape: { does: 'To the timeline', run: () => ctx.navigate(href('timeline', null, { at: id })) },
  });
  ctx.on('checkpoint.labelled', (data) => { if (data.checkpoint === id) ctx.reload(); });

  const untag = (tag) => h('span.badge', tag,
    button('✕', { kind: 'plain cp-x', 'aria-label': `Remove the tag ${tag}`, onclick: () => change({ remove_tags: [tag] }, 'The tag is gone.') }));
  const { shape, colour } = KINDS[kindOf(one.trigger)];
  return h('div.view',
    head([svg('svg', { width: 18, height: 18, class: 'cp-mark', 'aria-hidden': 'true' },
      svg('path', { d: shape, fill: colour, transform: 'translate(9 9)' })), title],
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
          ['Pinned', one.pinned ? 'yes: it will not be pruned' : null],
          ['Environment', one.environment],
          ['Came from', one.lineage?.origin],
          ['Took', duration(one.cost.wall_ms)],
          ['New on disk', bytes(one.cost.new_bytes)],
        ]),
        one.tags.length > 0 && h('div.row.cp-tags', h('span.muted', 'Tags'), one.tags.map(untag))),
      section('What it holds', holds(one))),
    changed(ctx, one),
    one.files && browser(ctx, one),
    h('div.grid',
      one.git && section('Git', git(one.git)),
      one.databases.length > 0 && databases(ctx, one),
      one.agents && section('Agent sessions', sessions(one)),
      one.knowledge && section('Knowledge',
        facts([['Documents', number(one.knowledge.document_count)], ['Projects', one.knowledge.projects.join(', ')], ['Paths', one.knowledge.paths.join(', ')]])),
      one.process && section('Process', values(one.process)),
      Object.keys(one.variables).length > 0 && section('Variables', values(one.variables)),
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
    git: one.git && [one.git.branch ?? (one.git.detached ? 'no branch' : null), one.git.commit?.slice(0, 10)].filter(Boolean).join(' at '),
    databases: one.databases.map((db) => `${db.name} (${plural(db.tables.length, 'table')}, ${bytes(db.bytes)}${db.stale ? '; older than the checkpoint' : ''})`).join(', '),
    agents: one.agents && plural(one.agents.sessions.length, 'session'),
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
    one.files?.skipped.length > 0 && h('details', h('summary', `${plural(one.files.skipped.length, 'path')} left out`),
      h('ul.mono', one.files.skipped.slice(0, 200).map((skip) => h('li', `${skip.path}: ${skip.reason}`)))));
}

/** Changed files since the parent, or until now. */
function changed(ctx, one) {
  const body = h('div.cp-changed', h('p.muted', 'Comparing …'));
  const choices = [['parent', 'Since its parent'], ['now', 'From it until now']].slice(one.parent ? 0 : 1);
  let [[now]] = choices;
  const picks = segmented('Compare with', choices, now, (value) => show(value));
  const show = async (which) => {
    now = which;
    const query = which === 'parent' ? { from: one.parent, to: one.id } : { from: one.id };
    try {
      const diff = await api.get('/api/diff', { ...query, text: true, only: 'files' }, ctx);
      if (now === which) fill(body, diffs.files(diff, { from: query.from, to: query.to ?? null }));
    } catch (error) {
      if (error.name !== 'AbortError') fill(body, failure(error, () => show(which)));
    }
  };
  if (one.files) show(now);
  else fill(body, h('p.muted', 'It holds no files.'));
  return section('Changed files', picks, body);
}

/** All files, loaded when they are asked for. */
function browser(ctx, one) {
  const list = h('div.stack');
  let entries = null;
  const box = h('details.card.cp-browse', h('summary', h('h2', `All files (${number(one.files.count)})`)), list);
  const draw = (text) => {
    const found = entries.filter((entry) => entry.kind !== 'directory' && (!text || entry.path.toLowerCase().includes(text)));
    return [h('ul.cp-tree', found.slice(0,
      300).map((entry) => h('li', button(entry.path,
      { kind: 'plain small mono', onclick: () => showFile(one.id, entry) }), h('span.number.muted', entry.size == null ? 'link' : bytes(entry.size))))),
      found.length > 300 && h('p.muted', `${number(found.length - 300)} more: type a part of the path.`)];
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

/** A file's content as text; size, hash and download of one that is large or binary. */
async function showFile(id, entry) {
  const body = h('div.stack', h('p.muted', 'Loading …'));
  dialog(entry.path, (box) => { box.closest('dialog')?.classList.add('wide'); box.append(body); });
  body.closest('dialog')?.classList.add('wide');
  const about = await diffs.stored(id, entry.path);
  let text = null;
  if (entry.kind === 'file' && entry.size <= TEXT_MAX) {
    text = await attempt(() => api.text(api.checkpoint(id, `/files/${api.inPath(entry.path)}`)));
    if (text?.includes('\0') || text?.includes('\ufffd')) text = null;
  }
  fill(body, about, text == null ? entry.kind === 'file' && h('p.muted', 'Binary, or over 1 MiB: the content is not shown.') : h('pre.output.cp-text', { tabindex: '0' }, text));
}

function git(part) {
  const list = (title, paths) => paths.length > 0 && h('details',
    h('summary', `${title}: ${plural(paths.length, 'file')}`), h('ul.mono', paths.slice(0, 300).map((path) => h('li', path))));
  return h('div.stack',
    facts([['Branch', part.branch ?? (part.detached ? 'none (detached)' : null)],
      ['Commit', part.commit && h('code', part.commit)], ['In progress', part.operation],
      ['Other work trees', part.worktrees?.length ? part.worktrees.map((tree) => tree.name).join(', ') : null]]),
    list('Staged', part.staged), list('Modified', part.modified), list('Untracked', part.untracked),
    !part.staged.length && !part.modified.length && !part.untracked.length && h('p.muted', 'Nothing was uncommitted.'));
}

/** Tables with their rows then and now. */
function databases(ctx, one) {
  const tables = (differ) => one.databases.map((db) => {
    const moved = differ?.find((other) => other.name === db.name);
    const now = new Map((moved?.tables ?? []).map((row) => [row.table, row]));
    const names = [...new Set([...db.tables, ...now.keys()])];
    return { ...db,
      tables: names.map((name) => ({ table: name,
      from: db.row_counts?.[name] ?? now.get(name)?.from ?? null,
      to: now.has(name) ? now.get(name).to : differ ? db.row_counts?.[name] ?? null : null, change: now.get(name)?.change })) };
  });
  const body = h('div.stack', diffs.databases(tables(null), 'then', 'now'));
  api.get('/api/diff', { from: one.id, only: 'databases' }, ctx).then((diff) => fill(body, diffs.databases(tables(diff.databases), 'then', 'now')), () => {});
  const stale = one.databases.filter((db) => db.stale);
  return section('Databases', stale.map((db) => h('p.note.warn', `The dump of ${db.name} is older than the checkpoint: it is of ${db.as_of}.`)), body);
}

function sessions(one) {
  const list = one.agents.sessions;
  if (!list.length) return h('p.muted', 'No session was known.');
  return h('ul.stack', list.map((each) => h('li',
    h('a', { href: href('session', each.id, { event: each.event }), title: each.id }, sessionName(each.id)), ' ', badge(each.status), ' ',
    h('span.muted', `at event ${number(each.event)}`), ' · ', time(each.latest_at))));
}

/** What sessions say about a checkpoint. Its reason is told elsewhere. */
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
    const done = await attempt(async () => { await api.download(api.checkpoint(one.id, '/export'),
      { format: format.value, redact: redact.checked ? 'true' : null }); return true; });
    if (done) close();
  } })]);
}

async function remove(ctx, one, title) {
  const yes = await confirm('Delete this checkpoint?', `“${title}” disappears from the timeline. For a day it can be brought back.`, 'Delete');
  if (!yes) return;
  const done = await attempt(() => api.del(api.checkpoint(one.id)));
  if (!done) return;
  ctx.navigate(href('timeline'));
  toast('Deleted.', { action: ['Bring it back', async () => {
    if (await attempt(() => api.post(api.checkpoint(one.id, '/undelete')))) ctx.navigate(href('checkpoint', one.id));
  }] });
}
