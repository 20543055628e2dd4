// The panel beside the timeline: what the selected row is, what changed, and the ways from there.

import * as api from './api.js';
import { filesOf, names } from './diff.js';
import * as failing from './failing.js';
import { legend } from './lanes.js';
import { href } from './route.js';
import { promptsOf } from './rows.js';
import { badge, button, facts, fill, h, idButton, linked, time } from './ui.js';
import { sessionLink, sessionName, triggerWords } from './words.js';

/** `list` is the timeline; `node` is filled. */
export class Panel {
  constructor(list) {
    this.list = list;
    this.node = h('section.tl-panel', { 'aria-label': 'Details' });
  }

  draw(item) {
    const { list } = this;
    this.looking?.abort();
    if (!item || item.kind === 'now') { fill(this.node, this.now(), legend()); return; }
    const entry = item.heading ?? item.entry;
    const files = h('div.tl-files', h('p.muted', 'Looking …'));
    const before = list.before(item);
    const newest = item.kind === 'entry' ? entry : item.entry;
    const from = item.kind === 'entry' ? entry.parent : item.heading ? item.heading.id : item.oldest.parent;
    const to = item.kind === 'entry' || !item.group ? entry.id : newestOf(list.entries, item);
    fill(this.node,
      h('h2', list.titleOf(entry)),
      list.outcomesOf(entry).length > 0 && h('ul.items',
        list.outcomesOf(entry).slice(0, 8).map((one) => h('li', failing.sign(one), ' ', h('code', one.text), one.error && h('pre.output', one.error)))),
      h('div.row',
        linked('Open', href('checkpoint', entry.id)),
        before && button('Back to before this', { onclick: () => list.back(item) }),
        before !== entry.id && h('a.button', { href: href('restore', entry.id), title: 'Go to the state that it holds' }, 'Restore this'),
        linked('Compare with now', href('compare', null, { from: entry.id, to: 'now' }))),
      facts([
        ['Made', time(newest.created_at)],
        ['Why', triggerWords(entry.trigger)],
        ['Branch', entry.branch],
        ['Number', `#${entry.sequence}`],
        ['Session', entry.session_id && sessionLink(entry.session_id)],
        ['Tags', entry.tags.length ? entry.tags.join(', ') : null],
        ['Id', idButton(entry.id)],
      ]),
      h('h3', item.kind === 'entry' ? 'Changed since its parent' : 'Changed inside'), files, legend());
    this.looking = new AbortController();
    const { signal } = this.looking;
    setTimeout(async () => {
      if (signal.aborted || list.ctx.signal.aborted) return;
      if (!from) { fill(files, h('p.muted', 'The first checkpoint.')); return; }
      try {
        const diff = await api.get('/api/diff', { from, to }, { signal });
        fill(files, fileList(diff, from, to));
      } catch (error) {
        if (error.name !== 'AbortError') fill(files, h('p.muted', error.message));
      }
    }, 120);
  }

  now() {
    const { list } = this;
    if (!list.status) return [h('h2', 'Now'), h('p.muted', 'Looking …')];
    const box = h('div.tl-files');
    const from = list.current()?.id;
    const { unsaved, crashed_sessions: crashed, state, reasons } = list.status;
    const sessions = list.atWork();
    if (from && unsaved) {
      this.looking = new AbortController();
      const { signal } = this.looking;
      fill(box, h('p.muted', 'Looking …'));
      api.get('/api/diff', { from }, { signal }).then((diff) => fill(box, fileList(diff, from, 'now')), () => fill(box));
    } else fill(box, h('p.muted', from ? 'Everything is saved.' : 'Nothing is saved yet.'));
    return [
      h('h2', 'Now'),
      h('p', badge(state, { protected: 'good', degraded: 'warn' }[state] ?? 'bad'), ' ', reasons.slice(0, 2).join('; ')),
      h('h3', 'Unsaved changes'), box,
      h('h3', 'At work'),
      sessions.length || crashed.length ? h('ul.stack',
        sessions.map((id) => h('li', sessionLink(id))),
        crashed.map((one) => h('li', h('a', { href: href('runs') }, sessionName(one.id)), ' ', badge('crashed', 'bad')))) : h('p.muted', 'No agent.'),
    ];
  }
}

/** The newest checkpoint inside a group. */
function newestOf(entries, item) {
  const prompts = promptsOf(entries);
  return entries.find((one) => prompts.get(one.id) === item.heading?.id)?.id ?? item.entry.id;
}

function fileList(diff, from, to) {
  const count = filesOf(diff).length;
  const others = [...diff.databases.map((one) => `database ${one.name}`), diff.git && 'git'].filter(Boolean);
  const learnt = diff.agents?.sessions?.[0]?.summary;
  if (!count && !others.length) return h('p.muted', learnt ? `No files. Agents: ${learnt}.` : 'Nothing changed.');
  return [
    names(diff.files, { most: 20, link: (path) => href('compare', null, { from, to, path }) }),
    others.length > 0 && h('p', `Also: ${others.join(', ')}`),
    h('a', { href: href('compare', null, { from, to }) }, 'See the lines'),
  ];
}
