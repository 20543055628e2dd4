// Compare: any two points, files and reasoning. `to=now` is the workspace as it is.

import * as api from '../api.js';
import * as diffs from '../diff.js';
import { comparison, href } from '../route.js';
import { loadNames } from '../rows.js';
import * as failing from '../failing.js';
import { loadSessions, sessionLink, titleOf, triggerWords } from '../words.js';
import { said } from './session.js';
import {
  badge, button, dialog, duration, failure, fill, h, head, linked, more, muted, plural, search,
  section, time,
} from '../ui.js';

export default {
  still: true,
  async load(ctx) {
    const from = ctx.query.from || 'latest';
    const to = !ctx.query.to || ctx.query.to === 'now' ? null : ctx.query.to;
    const about = (id) => (id && api.get(api.checkpoint(id), {}, ctx).then((one) => one.checkpoint));
    const [diff, left, right] = await Promise.all([
      api.get('/api/diff', { from, to, path: ctx.query.path, text: true }, ctx), about(from), about(to), loadSessions(ctx),
    ]);
    return view(ctx, diff, left, right, await loadNames(ctx, [left, right]));
  },
};

function view(ctx, diff, left, right, names) {
  const go = (query) => ctx.navigate(comparison(left.id, right?.id, { path: ctx.query.path, ...query }));
  const from = () => choose(ctx, 'Compare from', false, (id) => go({ from: id }));
  const to = () => choose(ctx, 'Compare with', true, (id) => go({ to: id }));
  // What the user has open is not to be taken away.
  const stale = h('p.note.row', { hidden: true, role: 'status' },
    'The workspace has changed since.',
    button('Compare again', { kind: 'small', onclick: () => ctx.reload() }));
  if (!right) ctx.on('checkpoint restore.done restore.undone reset', () => { stale.hidden = false; });
  const side = (label, one, pick) => h('div.card.cmp-side',
    h('span.muted', label),
    one ? h('a.cmp-title', { href: href('checkpoint', one.id) },
      names.check(one) && [failing.sign(names.check(one)), ' '], names.of(one))
      : h('strong.cmp-title', 'Now'),
    h('span.muted', one ? [`${triggerWords(one.trigger)} · #${one.sequence} · `, time(one.created_at)] : 'the workspace as it is'),
    h('div.row', button('Choose another', { kind: 'small', 'aria-label': `Choose another checkpoint: ${label}`, onclick: pick }),
      one && linked('Restore this', href('restore', one.id), { kind: 'small' })));
  const { agents } = diff;
  return h('div.view',
    head('Compare', `${diffs.counts(diff)}; ${duration(Math.abs(diff.time_delta_ms))} between them`),
    h('div.grid', side('From', left, from), side('To', right, to)),
    stale,
    ctx.query.plan && h('p.note', 'This is what changed since the checkpoint. The restore takes it back.'),
    (diff.warnings ?? []).map((text) => h('p.note.warn', text)),
    ctx.query.path && h('p.row', 'Only ', h('code', ctx.query.path),
      h('a', { href: comparison(left.id, right?.id) }, 'Show everything')),
    section('Files', diffs.files(diff, { from: left.id, to: right?.id ?? null }, { only: ctx.query.path })),
    !ctx.query.path && h('div.grid',
      section('Git', diffs.git(diff.git)),
      section('Databases', diff.databases.length ? h('div.stack', diffs.databases(diff.databases)) : muted('No database differs.'))),
    !ctx.query.path && section('Reasoning', reasoning(agents)));
}

const LISTED = 100;

async function choose(ctx, title, withNow, done) {
  const list = h('ul.cmp-list');
  const field = search('Filter checkpoints', () => draw());
  const entries = [];
  let state = h('li.muted', 'Loading …');
  const row = (id, words, note) => h('li', button(
    [h('span.ellipsis', words), h('span.muted.nowrap', note)],
    { kind: 'plain', onclick: () => { close(); done(id); } }));
  const says = (one, text) => [titleOf(one), one.id, one.branch ?? '', ...one.tags]
    .some((word) => word.toLowerCase().includes(text));
  const draw = () => {
    const text = field.value.trim().toLowerCase();
    const found = entries.filter((one) => says(one, text));
    fill(list, withNow && !text && row('now', 'Now', 'the workspace'),
      found.slice(0, LISTED).map((one) => row(one.id, titleOf(one), time(one.created_at))),
      more(found.length, LISTED), state ?? (!found.length && h('li.muted', 'None matches.')));
  };
  const close = dialog(title, (body) => body.append(field, list));
  draw();
  try {
    for (let after = null; after !== undefined;) {
      const page = await api.get('/api/timeline', { limit: 1000, all: true, after }, ctx);
      entries.push(...page.checkpoints);
      after = page.next ?? undefined;
    }
    state = null;
  } catch (error) {
    state = h('li', failure(error));
  }
  draw();
}

const KINDS = { added: 'good', opened: 'warn', filled: 'good', removed: 'bad', deleted: 'bad' };

function reasoning(agents) {
  if (!agents) return muted('One of the two holds no agent state.');
  const text = (one) => one.text ?? one.content ?? '';
  const changesOf = (list) => list.map((one) => [one.change, `${one.id}${one.field ? ` · ${one.field}` : ''}`, moved(one)]);
  const plain = (list, sign) => list.map((one) => [sign, text(one), null]);
  const both = (added, removed) => [...plain(added, 'added'), ...plain(removed, 'removed')];
  const judged = (list, yes, words) => list.map((one) => ['added', one.text, badge(words[yes(one) ? 0 : 1], yes(one) ? 'good' : 'bad')]);
  const calls = (list, sign) => list.map((one) => [sign, `${one.tool} ${said(one.arguments).slice(0, 200)}`, one.success === false ? badge('failed', 'bad') : null]);
  const groups = [
    ['Hypotheses', changesOf(agents.hypothesis_changes)],
    ['Beliefs', changesOf(agents.belief_changes)],
    ['Evidence', [...judged(agents.evidence_added, (one) => one.supports, ['for', 'against']), ...plain(agents.evidence_removed, 'removed')]],
    ['Gaps', [...plain(agents.gaps_opened, 'opened'),
      ...agents.gaps_filled.map((one) => ['filled', `${one.text}${one.answer ? `: ${one.answer}` : ''}`, null]),
      ...plain(agents.gaps_reopened, 'reopened'), ...plain(agents.gaps_removed, 'removed')]],
    ['Verifications', [...judged(agents.verifications_added, (one) => one.passed, ['passed', 'failed']), ...plain(agents.verifications_removed, 'removed')]],
    ['Notes', both(agents.notes_added, agents.notes_removed)],
    ['Context', changesOf(agents.context_changes)],
    ['Thoughts', both(agents.thoughts_added, agents.thoughts_removed)],
    ['Tool calls', [...calls(agents.tool_calls_added, 'added'),
      ...calls(agents.tool_calls_finished, 'finished'), ...calls(agents.tool_calls_unfinished, 'unfinished'), ...calls(agents.tool_calls_removed, 'removed')]],
  ].filter(([, rows]) => rows.length);
  if (!groups.length) return muted('Agents learnt nothing in between.');
  return h('div.stack',
    agents.sessions.length && h('ul', agents.sessions.filter((one) => one.summary).map((one) => h('li', sessionLink(one.session), `: ${one.summary}`))),
    groups.map(([name, rows]) => h('details', { open: rows.length <= 20 },
      h('summary', h('strong', name), ` ${plural(rows, 'change')}`),
      h('ul.cmp-changes', rows.slice(0, LISTED).map(([sign, words, note]) =>
        h('li', badge(sign, KINDS[sign] ?? 'info'), h('span', words), note)),
      more(rows.length, LISTED)))));
}

function moved(one) {
  const show = (value) => (value == null ? 'none' : typeof value === 'object' ? JSON.stringify(value) : String(value));
  if (one.old == null && one.new == null) return null;
  return h('span.muted', one.old == null ? show(one.new) : `${show(one.old)} → ${show(one.new)}`);
}
