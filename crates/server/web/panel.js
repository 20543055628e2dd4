// The panel beside the timeline: what the selected row is, what changed, and the ways from there.

import * as api from './api.js';
import { filesOf, names } from './diff.js';
import * as failing from './failing.js';
import { legend } from './lanes.js';
import { comparison, href } from './route.js';
import {
  badge, button, facts, fill, fillWith, h, idButton, linked, muted, newest, time,
} from './ui.js';
import { atWork, sessionLink, triggerWords } from './words.js';

// `list` is the timeline; `node` is filled.
export class Panel {
  constructor(list) {
    this.list = list;
    this.look = newest(list.ctx);
    this.node = h('section.tl-panel', { 'aria-label': 'Details' });
  }

  draw(item) {
    const { list } = this;
    const signal = this.look();
    if (!item || item.kind === 'now') { fill(this.node, this.now(signal), legend()); return; }
    const entry = item.heading ?? item.entry;
    const files = h('div.tl-files', muted('Looking …'));
    const before = list.before(item);
    const [from, to] = item.group ? [item.from, item.to] : [entry.parent, entry.id];
    const outcomes = list.outcomesOf(item);
    const one = !entry.spoken;
    fill(this.node,
      h('h2', list.titleOf(item)),
      outcomes.length && h('ul.items',
        outcomes.slice(0, 8).map((each) => h('li', failing.sign(each), ' ', h('code', each.text), failing.output(each.error)))),
      h('div.row',
        one && linked('Open', href('checkpoint', entry.id)),
        before && button('Back to before this', { onclick: () => list.back(item) }),
        one && before !== entry.id && linked('Restore this', href('restore', entry.id), { title: 'Go to the state that it holds' }),
        linked('Compare with now', comparison(entry.id))),
      facts([
        ['Made', time(item.entry.created_at)],
        ['Why', triggerWords(entry.trigger)],
        ['Branch', entry.branch],
        ['Number', one && `#${entry.sequence}`],
        ['Session', entry.session_id && sessionLink(entry.session_id)],
        ['Tags', entry.tags.length && entry.tags.join(', ')],
        ['Id', one && idButton(entry.id)],
      ]),
      h('h3', item.group ? 'Changed inside' : 'Changed since its parent'), files, legend());
    setTimeout(() => {
      if (signal.aborted) return;
      if (!from) { fill(files, muted('The first checkpoint.')); return; }
      fillWith(files, () => fileList(from, to, signal));
    }, 120);
  }

  now(signal) {
    const { list } = this;
    if (!list.status) return [h('h2', 'Now'), muted('Looking …')];
    const box = h('div.tl-files');
    const from = list.here();
    const { unsaved, crashed_sessions: crashed, state, reasons } = list.status;
    const sessions = atWork(list.sessions);
    if (from && unsaved) {
      fill(box, muted('Looking …'));
      fillWith(box, () => fileList(from, null, signal));
    } else fill(box, muted(from ? 'Everything is saved.' : 'Nothing is saved yet.'));
    return [
      h('h2', 'Now'),
      h('p', badge(state, { protected: 'good', degraded: 'warn' }[state] ?? 'bad'), ' ', reasons.slice(0, 2).join('; ')),
      h('h3', 'Unsaved changes'), box,
      h('h3', 'At work'),
      sessions.length ? h('ul.stack', sessions.map((id) => h('li', sessionLink(id)))) : muted('No agent.'),
      crashed.length && [h('h3', 'Crashed'), h('ul.stack', crashed.map(({ id }) => h('li', sessionLink(id, {}, 'runs'))))],
    ];
  }
}

async function fileList(from, to, signal) {
  const diff = await api.get('/api/diff', { from, to }, { signal });
  const count = filesOf(diff).length;
  const others = [...diff.databases.map((one) => `database ${one.name}`), diff.git && 'git'].filter(Boolean);
  const learnt = diff.agents?.sessions?.[0]?.summary;
  if (!count && !others.length) return muted(learnt ? `No files. Agents: ${learnt}.` : 'Nothing changed.');
  return [
    names(diff.files, { most: 20, link: (path) => comparison(from, to ?? 'now', { path }) }),
    others.length && h('p', `Also: ${others.join(', ')}`),
    h('a', { href: comparison(from, to ?? 'now') }, 'See the lines'),
  ];
}
