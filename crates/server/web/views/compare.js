// Compare: any two points, files and reasoning. `to=now` is the workspace as it is.

import * as api from '../api.js';
import * as diffs from '../diff.js';
import { href } from '../route.js';
import { sessionLink, titleOf, triggerWords } from '../words.js';
import { badge, button, dialog, duration, fill, h, head, linked, plural, section, time, toast } from '../ui.js';

export default {
  title: () => 'Compare',
  css: true,
  async load(ctx) {
    const from = ctx.query.from || 'latest';
    const to = !ctx.query.to || ctx.query.to === 'now' ? null : ctx.query.to;
    const about = (id) => (id ? api.get(api.checkpoint(id), {}, ctx).then((one) => one.checkpoint) : null);
    const [diff, left, right] = await Promise.all([
      api.get('/api/diff', { from, to, path: ctx.query.path, text: true }, ctx), about(from), about(to),
    ]);
    return view(ctx, diff, left, right);
  },
};

function view(ctx, diff, left, right) {
  const go = (query) => ctx.navigate(href('compare', null, { from: left.id, to: right?.id ?? 'now', path: ctx.query.path, ...query }));
  const swap = () => (right ? go({ from: right.id, to: left.id }) : toast('Now can only be on the right.'));
  ctx.keys({
    x: { does: 'Swap the sides', run: swap },
    f: { does: 'Choose the left side', run: () => choose(ctx, 'Compare from', false, (id) => go({ from: id })) },
    t: { does: 'Choose the right side', run: () => choose(ctx, 'Compare with', true, (id) => go({ to: id })) },
  });
  if (!right) ctx.on('checkpoint', () => ctx.reload());
  const side = (label, one, pick) => h('div.card.cmp-side',
    h('span.muted', label),
    one ? h('a.cmp-title', { href: href('checkpoint', one.id) }, titleOf(one)) : h('strong.cmp-title', 'Now'),
    h('span.muted', one ? [`${triggerWords(one.trigger)} · #${one.sequence} · `, time(one.created_at)] : 'the workspace as it is'),
    h('div.row', button('Choose another', { kind: 'small', 'aria-label': `Choose another checkpoint: ${label}`, onclick: pick }),
      one && linked('Restore this', href('restore', one.id), { kind: 'small' })));
  const { agents } = diff;
  return h('div.view',
    head('Compare', `${diffs.counts(diff)}; ${duration(Math.abs(diff.time_delta_ms))} between them`),
    h('div.cmp-sides',
      side('From', left, () => choose(ctx, 'Compare from', false, (id) => go({ from: id }))),
      button('⇄', { title: 'Swap the sides', 'aria-label': 'Swap the sides', disabled: !right, onclick: swap }),
      side('To', right, () => choose(ctx, 'Compare with', true, (id) => go({ to: id })))),
    (diff.warnings ?? []).map((text) => h('p.note.warn', text)),
    ctx.query.path && h('p.row', 'Only ', h('code', ctx.query.path),
      h('a', { href: href('compare', null, { from: left.id, to: right?.id ?? 'now' }) }, 'Show everything')),
    section('Files', diffs.files(diff, { from: left.id, to: right?.id ?? null }, { only: ctx.query.path })),
    !ctx.query.path && h('div.grid',
      section('Git', diffs.git(diff.git)),
      section('Databases', diff.databases.length ? h('div.stack', diffs.databases(diff.databases)) : h('p.muted', 'No database differs.'))),
    !ctx.query.path && section('Reasoning', reasoning(agents)));
}

/** A dialog that chooses a checkpoint. */
async function choose(ctx, title, withNow, done) {
  const list = h('ul.cmp-list');
  const field = h('input', { type: 'search', placeholder: 'Part of the title, a tag or an id', 'aria-label': 'Filter checkpoints' });
  let entries = [];
  let close = () => {};
  const row = (id, words, more) => h('li', h('button',
    { type: 'button', class: 'plain', onclick: () => { close(); done(id); } }, h('span.ellipsis', words), h('span.muted.nowrap', more)));
  const draw = () => {
    const text = field.value.trim().toLowerCase();
    const found = entries.filter((one) => [titleOf(one), one.id, one.branch ?? '', ...one.tags].some((word) => word.toLowerCase().includes(text)));
    fill(list, withNow && !text && row('now', 'Now', 'the workspace'), found.slice(0, 100).map((one) => row(one.id, titleOf(one), time(one.created_at))),
      !found.length && h('li.muted', entries.length ? 'None matches.' : 'Loading …'));
  };
  field.addEventListener('input', draw);
  close = dialog(title, (body) => body.append(field, list));
  draw();
  const page = await api.get('/api/timeline', { limit: 1000, all: true }, ctx).catch(() => null);
  entries = page?.checkpoints ?? [];
  draw();
}

// ---- What agents learnt

function reasoning(agents) {
  if (!agents) return h('p.muted', 'One of the two holds no agent state.');
  const text = (one) => one.text ?? one.content ?? '';
  const changesOf = (list) => list.map((one) => [one.change, `${one.id}${one.field ? ` · ${one.field}` : ''}`, moved(one)]);
  const plain = (list, sign) => list.map((one) => [sign, text(one), null]);
  const calls = (list, sign) => list.map((one) => [sign, `${one.tool} ${argument(one.arguments)}`, one.success === false ? badge('failed', 'bad') : null]);
  const groups = [
    ['Hypotheses', changesOf(agents.hypothesis_changes)],
    ['Beliefs', changesOf(agents.belief_changes)],
    ['Evidence', [...agents.evidence_added.map((one) => ['added', one.text,
      badge(one.supports ? 'for' : 'against', one.supports ? 'good' : 'bad')]), ...plain(agents.evidence_removed, 'removed')]],
    ['Gaps', [...plain(agents.gaps_opened, 'opened'),
      ...agents.gaps_filled.map((one) => ['filled',
      `${one.text}${one.answer ? `: ${one.answer}` : ''}`, null]), ...plain(agents.gaps_reopened, 'reopened'), ...plain(agents.gaps_removed, 'removed')]],
    ['Verifications',
      [...agents.verifications_added.map((one) => ['added', one.text,
      badge(one.passed ? 'passed' : 'failed', one.passed ? 'good' : 'bad')]), ...plain(agents.verifications_removed, 'removed')]],
    ['Notes', [...plain(agents.notes_added, 'added'), ...plain(agents.notes_removed, 'removed')]],
    ['Context', changesOf(agents.context_changes)],
    ['Thoughts', [...plain(agents.thoughts_added, 'added'), ...plain(agents.thoughts_removed, 'removed')]],
    ['Tool calls', [...calls(agents.tool_calls_added, 'added'),
      ...calls(agents.tool_calls_finished, 'finished'), ...calls(agents.tool_calls_unfinished, 'unfinished'), ...calls(agents.tool_calls_removed, 'removed')]],
  ].filter(([, rows]) => rows.length);
  if (!groups.length) return h('p.muted', 'Agents learnt nothing in between.');
  return h('div.stack',
    agents.sessions.length > 0 && h('ul', agents.sessions.filter((one) => one.summary).map((one) => h('li', sessionLink(one.session), `: ${one.summary}`))),
    groups.map(([name, rows]) => h('details', { open: rows.length <= 20 }, h('summary', h('strong', name), ` ${plural(rows.length, 'change')}`),
      h('ul.cmp-changes', rows.slice(0,
        200).map(([sign, words, more]) => h('li',
        h('span', { class: `badge ${{ added: 'good', opened: 'warn', filled: 'good', removed: 'bad', deleted: 'bad' }[sign] ?? 'info'}` }, sign), h('span', words), more))))));
}

function moved(one) {
  const show = (value) => (value == null ? 'none' : typeof value === 'object' ? JSON.stringify(value) : String(value));
  if (one.old == null && one.new == null) return null;
  return h('span.muted', one.old == null ? show(one.new) : `${show(one.old)} → ${show(one.new)}`);
}

function argument(value) {
  if (value == null) return '';
  if (typeof value !== 'object') return String(value).slice(0, 200);
  const one = value.command ?? value.file_path ?? value.path ?? value.pattern ?? null;
  return String(one ?? JSON.stringify(value)).slice(0, 200);
}
