// All sessions of the workspace, newest first.

import { href } from '../route.js';
import { duration, empty, fill, h, head, more, number, plural, search, tick, time } from '../ui.js';
import { isFailed, loadSessions, watchSessions } from '../words.js';
import { agentOf, continues, nameOf, verdictBadge } from './session.js';

const LISTED = 500;

// Sessions in the order of a tree: a session that another one sent stands below it.
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

async function load(ctx) {
  const sessions = await loadSessions(ctx);
  let only = ctx.query.failures === 'yes';
  const box = tick('Only failures', only, (on) => { only = on; changed(); });
  const find = search('Search sessions', () => changed(), { value: ctx.query.find ?? '' });
  const rows = h('ul.session-list');
  const row = ([one, depth]) => h('li', { style: { 'padding-left': `${Math.min(depth, 4) * 20}px` } },
    h('a.session-row', { href: href('session', one.id) },
      h('span.name', depth && h('span.muted', { title: 'Sent by the session above' }, '↳ ', h('span.visually-hidden', 'sent by the session above: ')), nameOf(one)),
      h('span', verdictBadge(one)),
      h('span.muted', agentOf(one)),
      h('span.muted', time(one.started_at)),
      h('span.muted.number', lasted(one)),
      h('span.muted.number', plural(one.events, 'event'))));
  const draw = () => {
    const text = find.value.toLowerCase();
    const wanted = sessions.filter((one) => (!only || isFailed(one)) && `${one.id} ${one.task ?? ''} ${one.provider ?? ''}`.toLowerCase().includes(text));
    fill(rows, wanted.length ? tree(wanted).slice(0, LISTED).map(row)
      : h('li.muted', 'No session matches.'), more(wanted.length, LISTED));
  };
  const changed = () => { ctx.setQuery({ failures: only && 'yes', find: find.value }); draw(); };
  const step = (by) => {
    const all = [...rows.querySelectorAll('a')];
    const at = all.indexOf(document.activeElement);
    all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + by))]?.focus();
  };
  ctx.keys({
    'Only failures': { f: () => box.click() },
    Search: { '/': () => find.focus() },
    'Next or previous session': { j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1) },
  });
  ctx.on('session.started session.ended session.paused session.resumed session.deleted', () => ctx.reloadSoon(500));
  watchSessions(ctx, sessions);
  draw();
  if (!sessions.length) {
    return h('div.view', head('Sessions', 'What agents did, and what they knew.'),
      empty('No agent has worked here yet. Have your agent recorded:', 'rappel integrate claude'));
  }
  return h('div.view', head('Sessions', `${number(sessions.length)} in this workspace, newest first.`),
    h('div.row', find, box), h('div.card.flush', rows));
}

export default { load };
