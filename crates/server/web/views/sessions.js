// All sessions of the workspace, newest first. `#/session/ID` shows one of them.

import { get } from '../api.js';
import { href } from '../route.js';
import { duration, empty, fill, h, head, number, plural, time } from '../ui.js';
import { agentOf, continues, loadSession, nameOf, verdictBadge } from './session.js';

/** Sessions in the order of a tree: a session that another one sent stands below it. */
function tree(sessions) {
  const known = new Set(sessions.map((one) => one.id));
  const below = Map.groupBy(sessions, (one) => (known.has(one.parent) && !continues(one, sessions) ? one.parent : null));
  const found = [];
  const seen = new Set();
  const add = (list, depth) => {
    for (const one of list ?? []) {
      if (seen.has(one.id)) continue;
      seen.add(one.id);
      found.push([one, depth]);
      add(below.get(one.id), depth + 1);
    }
  };
  add(below.get(null), 0);
  add(sessions, 0);
  return found;
}

function lasted(one) {
  if (!one.started_at) return '–';
  const end = one.ended_at ?? (one.process_gone ? null : Date.now());
  return end ? duration(new Date(end) - new Date(one.started_at)) : '–';
}

async function list(ctx) {
  const { sessions } = await get('/api/sessions', {}, { signal: ctx.signal });
  const failed = (one) => one.process_gone || one.status === 'failed';
  const only = h('input', { type: 'checkbox', checked: ctx.query.failures === 'yes' });
  const find = h('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search sessions', value: ctx.query.find ?? '' });
  const rows = h('ul', { class: 'session-list' });
  const row = ([one, depth]) => h('li', { style: { 'padding-left': `${Math.min(depth, 4) * 20}px` } },
    h('a', { class: 'session-row', href: href('session', one.id) },
      h('span', { class: 'name' }, depth > 0 && h('span', { class: 'muted', title: 'Sent by the session above' }, '↳ ', h('span', { class: 'visually-hidden' }, 'sent by the session above: ')), nameOf(one)),
      h('span', {}, verdictBadge(one)),
      h('span', { class: 'muted' }, agentOf(one)),
      h('span', { class: 'muted' }, time(one.started_at)),
      h('span', { class: 'muted number' }, lasted(one)),
      h('span', { class: 'muted number' }, plural(one.events, 'event'))));
  const draw = () => {
    const text = find.value.toLowerCase();
    const wanted = sessions.filter((one) => (!only.checked || failed(one)) && `${one.id} ${one.task ?? ''} ${one.provider ?? ''}`.toLowerCase().includes(text));
    fill(rows, wanted.length ? tree(wanted).slice(0, 500).map(row) : h('li', { class: 'muted' }, 'No session matches.'));
  };
  const changed = () => { ctx.setQuery({ failures: only.checked ? 'yes' : null, find: find.value || null }); draw(); };
  only.addEventListener('change', changed);
  find.addEventListener('input', changed);
  const links = () => [...rows.querySelectorAll('a')];
  const step = (by) => {
    const all = links();
    const at = all.indexOf(document.activeElement);
    all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + by))]?.focus();
  };
  ctx.keys({
    j: { does: 'Next or previous session', run: () => step(1) },
    k: { does: 'Next or previous session', run: () => step(-1) },
    ArrowDown: { does: 'Next or previous session', run: () => step(1) },
    ArrowUp: { does: 'Next or previous session', run: () => step(-1) },
    f: { does: 'Only failures', run: () => only.click() },
    '/': { does: 'Search', run: () => find.focus() },
  });
  for (const name of ['session.started', 'session.ended', 'session.paused', 'session.resumed', 'session.deleted']) ctx.on(name, () => ctx.reload());
  draw();
  if (!sessions.length) {
    return h('div', { class: 'view' }, head('Sessions', 'What agents did, and what they knew.'),
      empty('No agent has worked here yet. Have your agent recorded:', 'rappel integrate claude'), empty('Or run any command with checkpoints:', 'rappel run -- YOUR COMMAND'));
  }
  return h('div', { class: 'view' }, head('Sessions', `${number(sessions.length)} in this workspace, newest first.`),
    h('div', { class: 'row' }, find, h('label', { class: 'tick' }, only, 'Only failures')), h('div', { class: 'card flush' }, rows));
}

export default {
  title: (params) => (params.id ? `Session ${params.id}` : 'Sessions'),
  load: (ctx) => (ctx.params.id ? loadSession(ctx) : list(ctx)),
};
