// Timeline: the checkpoints as a graph, newest first. The first row is now.
//
// All entries are loaded page by page; only the rows in sight are in the document. rows.js decides
// which rows there are, and computes the lanes for just these, so a folded graph is whole.

import * as api from '../api.js';
import * as failing from '../failing.js';
import { graph, graphWidth } from '../lanes.js';
import { Panel } from '../panel.js';
import { comparison, href } from '../route.js';
import { ancestor, loadPrompts, Names, rows } from '../rows.js';
import { undoBar } from '../undo.js';
import {
  atWork, isBefore, loadSessions, ownTags, sessionName, shortSession, triggerWords,
} from '../words.js';
import {
  ask, attempt, badge, button, empty, fill, h, linked, number, plural, prose, search, tick, time, toast,
} from '../ui.js';

const PAGE = 1000;
const FIRST = 120;
// The first rows wait so long for what stands above them and for prompts, in milliseconds.
const PATIENCE = 300;
const NO_FILTER = { session: '', tag: '', trigger: '', text: '', failed: '' };

export default {
  async load(ctx) {
    const told = failing.load(ctx);
    const page = new Timeline(ctx, await api.get('/api/timeline', { limit: FIRST, all: true }, ctx));
    // What stands above the rows would make them jump if it came later.
    const above = Promise.all([page.refreshOutcomes(told), page.refreshUndo()]).catch(() => {});
    await Promise.race([above, new Promise((done) => { setTimeout(done, PATIENCE); })]);
    return page.node;
  },
};

class Timeline {
  constructor(ctx, first) {
    const { total, next, unreadable } = first;
    Object.assign(this, { ctx, status: null, sessions: [], entries: [], byId: new Map(), total, next, unreadable });
    this.told = { failing: [], outcomes: [] };
    this.said = new Map(); // the prompts of sessions whose prompts made no checkpoints
    this.filter = { ...NO_FILTER, ...pick(ctx.query, Object.keys(NO_FILTER)) };
    this.house = ctx.query.house === '1';
    this.open = new Set();
    this.items = [];
    this.rows = new Map(); // key -> {node, item}
    this.selected = ctx.query.at || null;
    this.trail = []; // [to, from]
    this.marked = null;
    this.found = null;
    this.take(first.checkpoints);
    this.build();
    this.measure();
    this.redraw();
    this.live();
    this.keys();
    if (this.next) this.loadRest();
    this.refreshStatus().catch(() => {});
    ctx.onShow(() => { this.draw(); if (this.selected) this.select(this.selected); else this.drawPanel(); });
  }

  take(list) {
    for (const entry of list) {
      const known = this.byId.get(entry.id);
      if (known) Object.assign(known, entry);
      else { this.entries.push(entry); this.byId.set(entry.id, entry); }
    }
  }

  async loadRest() {
    try {
      while (this.next && !this.ctx.signal.aborted) {
        const page = await api.get('/api/timeline', { limit: PAGE, all: true, after: this.next }, this.ctx);
        this.take(page.checkpoints);
        this.next = page.next;
        this.redraw();
      }
    } catch (error) {
      if (error.name !== 'AbortError') toast('Older checkpoints could not be loaded. Reload the page.', { kind: 'bad' });
    }
  }

  async refresh() {
    const page = await api.get('/api/timeline', { limit: 100, all: true }, this.ctx);
    const fresh = page.checkpoints.filter((one) => !this.byId.has(one.id));
    const { id: here } = page.checkpoints.find((one) => one.current)
      ?? { id: standsAt(await api.get('/api/status', {}, this.ctx)) };
    this.take(page.checkpoints);
    for (const one of this.byId.values()) one.current = one.id === here;
    if (fresh.length === page.checkpoints.length && page.next) return this.ctx.reload();
    // A page is in order, so what is new goes where the page has it.
    const known = new Set(page.checkpoints.map((one) => one.id));
    const rest = this.entries.filter((one) => !known.has(one.id));
    this.entries = [...page.checkpoints.map((one) => this.byId.get(one.id)), ...rest];
    this.total = page.total;
    const before = this.items.length;
    const away = scrollY > this.list.offsetTop + this.rowHeight;
    this.redraw(new Set(fresh.map((one) => one.id)));
    if (away) scrollBy(0, (this.items.length - before) * this.rowHeight);
    return undefined;
  }

  async refreshOutcomes(told = failing.load(this.ctx)) {
    [this.told, this.said] = await Promise.all([told, loadPrompts(this.ctx, this.entries)]);
    const alarm = JSON.stringify(this.told.failing);
    if (alarm !== this.alarmed) fill(this.alarm, failing.card(this.told, { brief: true }));
    this.alarmed = alarm;
    this.redraw();
  }

  // Offers to take back the last restore, while that is possible.
  async refreshUndo() {
    const went = this.entries.some((one) => one.trigger === 'pre-restore')
      || this.entries.find((one) => one.holds_files)?.current === false;
    fill(this.undo, went && await undoBar(this.ctx));
  }

  redraw(fresh) {
    this.names = new Names(this.entries, this.told.outcomes);
    this.layout();
    this.draw(fresh);
    this.drawChoices();
    this.drawCount();
  }

  async refreshStatus() {
    const [status, sessions] = await Promise.all([api.get('/api/status', {}, this.ctx), loadSessions(this.ctx)]);
    Object.assign(this, { status, sessions });
    this.drawChoices();
    const told = JSON.stringify([atWork(sessions), pick(status, ['unsaved', 'unsaved_git',
      'unsaved_databases', 'crashed_sessions', 'latest', 'based_on', 'state', 'reasons'])]);
    if (told === this.statusTurn) return;
    this.statusTurn = told;
    this.draw();
    if (!this.selected) this.drawPanel();
  }

  live() {
    const { ctx } = this;
    const all = () => [this.refresh().then(() => this.refreshUndo()), this.refreshStatus()];
    const soon = once(250, () => Promise.all(all()).catch(() => {}));
    const status = once(2000, () => this.refreshStatus().catch(() => {}));
    const outcomes = once(1000, () => this.refreshOutcomes().catch(() => {}));
    ctx.on('checkpoint journal tool.finished restore.done restore.undone', outcomes);
    ctx.on('checkpoint checkpoint.undeleted restore.done restore.undone restore.redone', soon);
    ctx.on('session.started session.ended session.paused session.resumed tool.finished poll', status);
    ctx.on('checkpoint.deleted', ({ checkpoint }) => {
      const gone = this.byId.get(checkpoint);
      for (const one of this.entries) if (one.parent === checkpoint) one.parent = gone?.parent ?? null;
      this.byId.delete(checkpoint);
      this.entries = this.entries.filter((one) => one.id !== checkpoint);
      soon();
    });
    ctx.on('checkpoint.labelled', async ({ checkpoint }) => {
      const known = this.byId.get(checkpoint);
      const fresh = known && await api.get(api.checkpoint(checkpoint), {}, ctx).catch(() => null);
      if (!fresh) return;
      Object.assign(known, pick(fresh.checkpoint, ['tags', 'description', 'pinned']));
      this.redraw();
    });
    const scroll = () => { this.pending ??= requestAnimationFrame(() => { this.pending = null; this.draw(); }); };
    const resize = () => { this.measure(); this.rows.clear(); this.list.replaceChildren(); this.redraw(); };
    addEventListener('scroll', scroll, { passive: true, signal: ctx.signal });
    addEventListener('resize', resize, { signal: ctx.signal });
    ctx.onLeave(() => this.markNote?.remove());
  }

  get filtering() {
    return Object.values(this.filter).some(Boolean);
  }

  matches(entry) {
    const { session, tag, trigger, text, failed } = this.filter;
    if (failed && !this.names.outcomes(entry).some((one) => !one.passed)) return false;
    if (session && entry.session_id !== session) return false;
    if (trigger && entry.trigger !== trigger) return false;
    if (tag && !entry.tags.includes(tag)) return false;
    if (!text) return true;
    if (this.found?.has(entry.id)) return true;
    const words = [this.names.of(entry), entry.id, entry.branch, entry.session_id, triggerWords(entry.trigger), ...entry.tags];
    return words.some((one) => one?.toLowerCase().includes(text.toLowerCase()));
  }

  // The outcomes that a row tells of: those of its checkpoint, or of all that its group folds.
  outcomesOf({ entry, heading, run }) {
    if (!run || (heading && !heading.spoken)) return this.names.outcomes(heading ?? entry);
    const all = run.flatMap((one) => this.names.held.get(one.id) ?? []);
    return all.filter((one, at) => all.findIndex((other) => other.text === one.text && other.passed === one.passed) === at);
  }

  titleOf({ entry, heading, run, count }) {
    return run && !heading ? plural(count, 'automatic checkpoint') : this.names.of(heading ?? entry);
  }

  layout() {
    Object.assign(this, rows(this, this.filtering ? (entry) => this.matches(entry) : null));
    this.index = new Map(this.items.map((item, at) => [item.key, at]));
    this.list.style.setProperty('--graph', `${graphWidth(this.lanes)}px`);
    this.list.style.height = `${this.items.length * this.rowHeight}px`;
  }

  build() {
    this.list = h('ol.tl-rows', { 'aria-label': 'Checkpoints, newest first' });
    this.panel = new Panel(this);
    this.note = h('div', { hidden: true });
    this.alarm = h('div.tl-above');
    this.undo = h('div.tl-above');
    this.count = h('p.sub', { role: 'status' });
    this.bar = h('div.tl-filters', { role: 'search' });
    this.node = h('div.view.tl',
      h('div.head', h('div', h('h1', 'Timeline'), this.count),
        h('div.actions', button('Save now', { kind: 'primary', key: 's', onclick: () => this.save() }))),
      this.unreadable.length && h('p.note.warn', `${plural(this.unreadable, 'checkpoint')} cannot be read. `, prose('`rappel verify` tells why.')),
      this.undo, this.alarm, this.bar,
      h('div.tl-body', h('div.stack.tl-list', this.list, this.note), this.panel.node));
    this.text = search('Filter by text', later(150, (text) => this.setFilter({ text })),
      { value: this.filter.text });
    const choice = (name, label) => h('select', {
      'aria-label': label, 'data-filter': name,
      onchange: (event) => this.setFilter({ [name]: event.target.value }),
    });
    this.selects = ['session', 'trigger', 'tag'].map((name) => choice(name, `Any ${name}`));
    this.failures = tick('Only failures', false,
      (on) => this.setFilter({ failed: on ? 'yes' : '' }), {},
      'Prompts and checkpoints in which a check, a command or a tool call failed');
    this.clear = button('Clear', { kind: 'plain', onclick: () => {
      this.text.value = '';
      this.text.focus();
      this.setFilter(NO_FILTER);
    } });
    this.saves = tick('Saves before restores', this.house,
      (on) => { this.house = on; this.keepQuery(); this.redraw(); }, {},
      'Saves that Rappel made before a restore');
    this.bar.append(this.text, h('div.row', this.selects, this.failures, this.clear, this.saves));
    if (this.filter.text) this.search();
  }

  // What can be chosen, and what is. A menu that is open stays as it is.
  drawChoices() {
    this.failures.firstChild.checked = Boolean(this.filter.failed);
    this.clear.hidden = !this.filtering;
    this.saves.hidden = this.filtering;
    const tags = [...new Set(this.entries.flatMap((one) => one.tags))];
    tags.sort((a, b) => ownTags([b]).length - ownTags([a]).length || a.localeCompare(b));
    const triggers = [...new Set(this.entries.map((one) => one.trigger))].sort();
    const known = new Set(this.sessions.map((one) => one.id));
    const others = [...new Set(this.entries.map((one) => one.session_id))].filter((id) => id && !known.has(id));
    const options = {
      session: [...this.sessions.map(({ id, task }) =>
        [id, `${task ? `${task.slice(0, 40)} · ` : ''}${shortSession(id)}`]),
      ...others.map((id) => [id, shortSession(id)])],
      trigger: triggers.map((one) => [one, triggerWords(one)]),
      tag: tags.map((one) => [one, one]),
    };
    for (const node of this.selects) {
      if (node === document.activeElement) continue;
      const { filter: name } = node.dataset;
      const now = this.filter[name];
      const known = new Map([['', `Any ${name}`], ...now ? [[now, now]] : [], ...options[name]]);
      fill(node, [...known].map(([value, words]) => h('option', { value }, words)));
      node.value = now;
    }
  }

  drawCount() {
    const loading = this.next ? ` · ${number(this.entries.length)} loaded so far` : '';
    const shown = this.filtering ? `${number(this.items.length)} of ${plural(this.total, 'checkpoint')}` : plural(this.total, 'checkpoint');
    this.count.textContent = shown + loading;
    const unmatched = this.filtering && !this.items.length && !this.next;
    this.list.hidden = unmatched;
    this.note.hidden = this.entries.length > 0 && !unmatched;
    if (!this.note.hidden) fill(this.note,
      unmatched && this.entries.length ? empty('No checkpoint matches these filters.') : empty('No checkpoint yet. Make the first one here, or in the workspace:', 'rappel save "Before I begin"'));
  }

  setFilter(values) {
    Object.assign(this.filter, values);
    this.found = null;
    this.layout();
    if (!this.index.has(this.selected)) { this.selected = null; this.drawPanel(); }
    this.keepQuery();
    scrollTo(0, 0);
    this.redraw();
    if (this.filter.text) this.search();
  }

  keepQuery() {
    this.keep ??= once(100, () => {
      if (this.ctx.signal.aborted) return;
      this.ctx.setQuery({ ...this.filter, house: this.house ? '1' : '', at: this.selected });
    });
    this.keep();
  }

  async search() {
    const { text } = this.filter;
    const answer = await api.get('/api/find', { text, limit: 200, all: true }, this.ctx).catch(() => null);
    if (!answer || text !== this.filter.text) return;
    this.found = new Set((answer.checkpoints ?? []).map((one) => one.id));
    this.redraw();
  }

  measure() {
    this.rowHeight = matchMedia('(max-width: 760px)').matches ? 62 : 36;
  }

  draw(fresh = new Set()) {
    if (!this.list.isConnected) return;
    const top = this.list.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / this.rowHeight) - 12);
    const last = Math.min(this.items.length, Math.ceil((innerHeight - top) / this.rowHeight) + 12);
    const wanted = new Set();
    // From the last row up, so that rows stand in the document as they do on the screen.
    let below = null;
    for (let at = last - 1; at >= first; at -= 1) {
      const item = this.items[at];
      wanted.add(item.key);
      const { kind, entry, place, open, count, inner } = item;
      const about = entry && [entry.tags, entry.pinned, entry.current, this.titleOf(item), sessionName(entry.session_id ?? ''),
        this.outcomesOf(item).map((one) => one.passed)];
      const print = JSON.stringify([kind === 'now' && this.statusTurn, at, this.lanes, place, kind, open, count, inner, about]);
      const known = this.rows.get(item.key);
      if (known?.print === print) { below = known.node; continue; }
      const node = this.row(item, at);
      if (fresh.has(item.id)) node.classList.add('fresh');
      if (known) {
        const focused = known.node.contains(document.activeElement);
        known.node.replaceWith(node);
        if (focused) node.querySelector('a, button')?.focus({ preventScroll: true });
      } else this.list.insertBefore(node, below);
      below = node;
      this.rows.set(item.key, { node, print });
    }
    this.rows.get(this.selected)?.node.setAttribute('aria-current', 'true');
    for (const [key, { node }] of this.rows) {
      if (wanted.has(key) || node.contains(document.activeElement)) continue;
      node.remove();
      this.rows.delete(key);
    }
  }

  row(item, at) {
    const node = h('li', { class: `tl-row ${item.kind}${item.inner ? ' inner' : ''}${item.entry?.trigger === 'manual' ? ' hand' : ''}`,
      style: { top: `${at * this.rowHeight}px` }, 'aria-current': item.key === this.selected && 'true', dataset: { key: item.key } });
    node.append(graph(item, this.lanes, this.rowHeight));
    node.append(...(item.kind === 'now' ? this.nowCells() : this.cells(item)));
    node.addEventListener('click', (event) => {
      if (event.target.closest('button, .tl-act')) return;
      const link = event.target.closest('a');
      if (link && (event.ctrlKey || event.metaKey || event.shiftKey)) return;
      if (link && !wide()) return;
      event.preventDefault();
      if (item.key === this.selected && link && (item.heading || !item.group)) this.ctx.navigate(link.getAttribute('href'));
      else if (link && item.group && !(item.open && item.heading)) this.fold(item);
      if (wide()) this.select(this.items.find((one) => one.group && one.group === item.group)?.key ?? item.key, { focus: true });
    });
    return node;
  }

  nowCells() {
    if (!this.status) return [h('span.tl-title', h('a', { href: href('timeline') }, 'Now'), h('span.muted', 'looking …'))];
    const { unsaved, unsaved_databases: databases, unsaved_git: git, latest_at: at } = this.status;
    const sessions = atWork(this.sessions);
    const last = this.here() ?? 'latest';
    const parts = [unsaved && plural(unsaved, 'file'), git && 'git', databases.length && plural(databases, 'database')].filter(Boolean);
    const words = parts.length ? `${parts.join(', ')} not saved yet` : at ? 'everything is saved' : 'nothing is saved yet';
    return [
      h('span.tl-title', h('a', { href: parts.length ? comparison(last) : href('timeline') }, 'Now'),
        h('span', { class: parts.length ? 'warn' : 'muted' }, words)),
      h('span.tl-meta', sessions.slice(0, 2).map((id) => h('a.badge.info', { href: href('session', id), title: id }, `at work: ${sessionName(id)}`)),
        sessions.length > 2 && badge(`${sessions.length - 2} more`)),
      h('span.tl-changes'),
      time(at, { class: 'tl-time' }),
      h('span.tl-act', parts.length && button('Discard these changes…',
        { kind: 'small', title: 'See what going back to the last checkpoint would do', onclick: () => this.ctx.go('restore', last) })),
    ];
  }

  cells(item) {
    const { entry, kind } = item;
    const tags = ownTags(entry.tags);
    const session = item.session ?? entry.session_id;
    const heading = kind === 'head' || kind === 'title';
    const prompt = heading ? item.heading : null;
    const title = this.titleOf(item);
    const outcomes = item.start ? [] : this.outcomesOf(item);
    const own = heading ? null : this.names.check(entry);
    const link = prompt ?? entry;
    const place = link.spoken ? href('session', link.session_id) : href('checkpoint', link.id);
    const fold = heading ? button(item.open ? '▾' : '▸',
      { kind: 'tl-fold plain', 'aria-expanded': String(item.open),
      'aria-label': `${item.open ? 'Fold' : 'Unfold'} ${plural(item.count, 'checkpoint')} of ${title}`, onclick: () => this.fold(item) }) : null;
    return [
      h('span.tl-title', fold, own && failing.sign(own),
        h('a', { href: place, title: `${triggerWords(link.trigger)}: ${title}` }, item.start ? `Before: ${title}` : title),
        prompt && h('span.muted.nowrap', `${number(item.count)} inside`),
        !own && failing.summary(outcomes),
        heading ? item.kind === 'head' && prompt?.current && badge('you are before this', 'good')
          : entry.current && badge('you are here', 'good')),
      h('span.tl-meta',
        !heading && [
          entry.pinned && badge('pinned', 'info'),
          tags.slice(0, 3).map((tag) => badge(tag, '', { title: `Tag ${tag}` })),
          tags.length > 3 && badge(`+${tags.length - 3}`),
          !entry.holds_files && h('span.muted.nowrap', 'agent state only')],
        entry.lineage && badge(`from ${entry.lineage.origin || 'elsewhere'}`, 'warn', { title: entry.lineage.origin }),
        session && !item.inner && h('span.muted.ellipsis', { title: session }, sessionName(session))),
      heading ? edits(item.edits) : changes(entry.changed),
      time(entry.created_at, { class: 'tl-time' }),
      h('span.tl-act', entry.trigger === 'manual' && !heading && linked('Restore this', href('restore', entry.id), { kind: 'small' }),
        this.before(item) && button('Back to before this', { kind: 'small', onclick: () => this.back(item) })),
    ];
  }

  // The checkpoint that the workspace goes on from.
  here() {
    const found = this.entries.find((one) => one.current)?.id;
    return found ?? (this.status && standsAt(this.status));
  }

  before(item) {
    const one = item.kind === 'entry' ? item.entry : item.heading ?? item.oldest;
    return isBefore(one.trigger) ? one.id : one.parent ?? null;
  }

  back(item) {
    const id = item.kind === 'now' ? this.here() : this.before(item);
    if (id) this.ctx.go('restore', id);
    else toast('This is the first checkpoint: there is nothing before it.');
  }

  fold(item) {
    if (!item?.group) return;
    const wasOpen = this.open.delete(item.group);
    if (!wasOpen) this.open.add(item.group);
    const selected = this.selected === item.key;
    this.layout();
    const now = this.items.find((one) => one.group === item.group);
    if (now && selected) this.selected = now.key;
    this.draw();
    const node = this.rows.get(now?.key)?.node;
    node?.querySelector('.tl-fold')?.focus({ preventScroll: true });
  }

  select(key, { focus = false, scroll = false } = {}) {
    this.rows.get(this.selected)?.node.removeAttribute('aria-current');
    if (!this.index.has(key)) key = this.reveal(key);
    this.selected = key;
    if (!key) return this.drawPanel();
    const at = this.index.get(key);
    const y = this.list.getBoundingClientRect().top + scrollY + at * this.rowHeight;
    const head = document.querySelector('.top').offsetHeight;
    if (scroll || y < scrollY + head + 8 || y + this.rowHeight > scrollY + innerHeight - 8) scrollTo(0, Math.max(0, y - innerHeight / 3));
    this.draw();
    const row = this.rows.get(key)?.node;
    row?.setAttribute('aria-current', 'true');
    if (focus) row?.querySelector('.tl-title a')?.focus({ preventScroll: true });
    this.keepQuery();
    return this.drawPanel();
  }

  reveal(id) {
    const entry = this.byId.get(id);
    const item = this.items.find((one) => one.run?.includes(entry));
    if (!item) return null;
    this.open.add(item.group);
    this.layout();
    return this.index.has(id) ? id : this.items.find((item) => item.id === id)?.key ?? null;
  }

  move(step) {
    const at = this.index.get(this.selected) ?? -1;
    const next = this.items[Math.min(this.items.length - 1, Math.max(0, at + step))];
    if (next) this.select(next.key, { focus: true });
  }

  get item() {
    return this.items[this.index.get(this.selected)] ?? null;
  }

  // Down the graph to the parent's row, or up: the same way back, else to the newest child.
  follow(up) {
    const { item } = this;
    if (up && this.trail.at(-1)?.[0] === this.selected) return this.select(this.trail.pop()[1], { focus: true });
    const nodes = this.items.filter((one) => one.id);
    const shown = new Set(nodes.map((one) => one.id));
    const next = item?.id && nodes.find((one) => (up ? ancestor(this, one, shown) === item.id : one.id === ancestor(this, item, shown)));
    if (next && !up) this.trail.push([next.key, item.key]);
    if (next) return this.select(next.key, { focus: true });
    return (up || !item?.id) && this.move(up ? -1 : 1);
  }

  drawPanel() {
    if (wide()) this.panel.draw(this.item);
  }

  keys() {
    const item = () => this.item;
    const checkpoint = () => (item()?.kind === 'now' ? null : (item()?.heading ?? item()?.entry)?.id ?? null);
    const fold = (open) => () => { const one = item(); if (one?.group && one.open !== open) this.fold(one); };
    this.ctx.keys({
      'To the parent': { ArrowDown: () => this.follow(false) },
      'Back the same way, or to the newest child': { ArrowUp: () => this.follow(true) },
      'Next row': { j: () => this.move(1) },
      'Row before': { k: () => this.move(-1) },
      'Unfold': { ArrowRight: fold(true) },
      'Fold': { ArrowLeft: fold(false) },
      'Open the checkpoint': { Enter: () => checkpoint() && this.ctx.go('checkpoint', checkpoint()) },
      'Back to before this': { b: () => item() && this.back(item()) },
      'Mark for comparing': { m: () => this.mark(checkpoint()) },
      'Compare with the marked one, or with now': { c: () => checkpoint() && this.compare(checkpoint()) },
      'Filter': { '/': () => this.text.focus() },
    });
  }

  mark(id) {
    this.marked = id;
    this.markNote?.remove();
    if (id) this.markNote = toast('Marked. Select another one and press c to compare.');
  }

  compare(id) {
    const order = this.entries.map((one) => one.id);
    const [from, to = 'now'] = [...new Set([this.marked ?? id, id])].sort((a, b) => order.indexOf(b) - order.indexOf(a));
    this.ctx.navigate(comparison(from, to));
  }

  async save() {
    const message = await ask('Save a checkpoint', 'What is this moment? (may stay empty)', '', { ok: 'Save' });
    if (message == null) return;
    const made = await attempt(() => api.post('/api/checkpoints', message.trim() ? { message: message.trim() } : {}));
    if (made) toast(`Saved as ${made.id}.`);
  }
}

function changes(changed) {
  const words = changed && `Files: ${number(changed.added)} new, ${number(changed.modified)} changed, ${number(changed.deleted)} deleted`;
  const part = (count, sign, kind) => (count && h('span', { class: kind }, `${sign}${number(count)}`));
  return h('span.tl-changes', { title: words },
    changed && [part(changed.added, '+', 'good'), part(changed.modified, '~', 'info'), part(changed.deleted, '−', 'bad')]);
}

// A group knows how often files changed, not how many did.
const edits = (count) => h('span.tl-changes.muted', { title: 'Changes of files, added up over the checkpoints inside' }, count && plural(count, 'edit'));

const pick = (object, names) => Object.fromEntries(names.filter((name) => object[name] != null).map((name) => [name, object[name]]));
const wide = () => matchMedia('(min-width: 1100px)').matches;

// The checkpoint that a status says the workspace goes on from.
const standsAt = ({ based_on: restored, latest }) => restored ?? latest;

// Does it when nothing was asked for `ms` milliseconds.
function later(ms, fn) {
  let timer = null;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => fn(...args), ms); };
}

// Does it once for all that is asked within `ms` milliseconds, however often that is.
function once(ms, fn) {
  let timer = null;
  return () => { timer ??= setTimeout(() => { timer = null; fn(); }, ms); };
}
