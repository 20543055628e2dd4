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
import { isBefore, loadSessions, ownTags, sessionName, shortSession, triggerWords } from '../words.js';
import { ask, attempt, badge, button, empty, fill, h, linked, number, plural, prose, search, tick, time, toast } from '../ui.js';

const PAGE = 1000;
const FIRST = 120;
/** The first rows wait so long for what stands above them and for prompts, in milliseconds. */
const PATIENCE = 300;
const NO_FILTER = { session: '', tag: '', trigger: '', text: '', failed: '' };

export default {
  title: () => 'Timeline',
  css: true,
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

  /** Takes in what is new at the top. */
  async refresh() {
    const page = await api.get('/api/timeline', { limit: 100, all: true }, this.ctx);
    const fresh = page.checkpoints.filter((one) => !this.byId.has(one.id));
    for (const one of this.entries) one.current = false;
    this.take(page.checkpoints);
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

  /** How checks and calls ended: the signs of the rows, and what fails now. */
  async refreshOutcomes(told = failing.load(this.ctx)) {
    [this.told, this.said] = await Promise.all([told, loadPrompts(this.ctx, this.entries)]);
    const alarm = JSON.stringify(this.told.failing);
    if (alarm !== this.alarmed) fill(this.alarm, failing.card(this.told, { brief: true }));
    this.alarmed = alarm;
    this.redraw();
  }

  /** Offers to take back the last restore, while that is possible. */
  async refreshUndo() {
    const went = this.entries.some((one) => one.trigger === 'pre-restore');
    fill(this.undo, went && await undoBar(this.ctx));
  }

  /** Draws everything anew from what is known. */
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
    const told = JSON.stringify([this.atWork(), pick(status, ['unsaved', 'unsaved_git', 'unsaved_databases', 'crashed_sessions', 'latest', 'state', 'reasons'])]);
    if (told === this.statusTurn) return;
    this.statusTurn = told;
    this.draw();
    if (!this.selected) this.drawPanel();
  }

  live() {
    const { ctx } = this;
    const soon = later(250, () => Promise.all([this.refresh(), this.refreshStatus(), this.refreshUndo()]).catch(() => {}));
    const status = later(2000, () => this.refreshStatus().catch(() => {}));
    const outcomes = later(1000, () => this.refreshOutcomes().catch(() => {}));
    ctx.on('checkpoint journal tool.finished restore.done restore.undone', outcomes);
    ctx.on('checkpoint checkpoint.undeleted restore.done restore.undone restore.redone', soon);
    ctx.on('session.started session.ended session.paused session.resumed tool.finished', status);
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
    ctx.on('reset', () => ctx.reload());
    const poll = setInterval(() => { if (!document.hidden) status(); }, 15_000);
    const scroll = () => { this.pending ??= requestAnimationFrame(() => { this.pending = null; this.draw(); }); };
    const resize = () => { this.measure(); this.rows.clear(); this.list.replaceChildren(); this.redraw(); };
    addEventListener('scroll', scroll, { passive: true, signal: ctx.signal });
    addEventListener('resize', resize, { signal: ctx.signal });
    ctx.onLeave(() => { this.markNote?.remove(); clearInterval(poll); });
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

  /** The outcomes that a row tells of: those of its checkpoint, or of all that its group folds. */
  outcomesOf({ entry, heading, run }) {
    if (!run || (heading && !heading.spoken)) return this.names.outcomes(heading ?? entry);
    const all = run.flatMap((one) => this.names.held.get(one.id) ?? []);
    return all.filter((one, at) => all.findIndex((other) => other.text === one.text && other.passed === one.passed) === at);
  }

  titleOf({ entry, heading, run, count }) {
    return run && !heading ? plural(count, 'automatic checkpoint') : this.names.of(heading ?? entry);
  }

  /** Decides which rows are shown, and where their lines go. */
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
        h('div.actions', button('Save now', { kind: 'primary', onclick: () => this.save() }))),
      this.unreadable.length > 0 && h('p.note.warn', `${plural(this.unreadable.length, 'checkpoint')} cannot be read. `, prose('`rappel verify` tells why.')),
      this.undo, this.alarm, this.bar,
      h('div.tl-body', h('div.stack.tl-list', this.list, this.note), this.panel.node));
    this.text = search('Filter by text', later(150, (text) => this.setFilter({ text })), { value: this.filter.text });
    this.selects = h('div.row');
    this.bar.append(this.text, this.selects);
    if (this.filter.text) this.search();
  }

  drawChoices() {
    const tags = [...new Set(this.entries.flatMap((one) => one.tags))];
    tags.sort((a, b) => ownTags([b]).length - ownTags([a]).length || a.localeCompare(b));
    const triggers = [...new Set(this.entries.map((one) => one.trigger))].sort();
    const known = new Set(this.sessions.map((one) => one.id));
    const others = [...new Set(this.entries.map((one) => one.session_id))].filter((id) => id && !known.has(id));
    const choice = (name, label, options) => {
      const values = options.map(([value]) => value);
      if (this.filter[name] && !values.includes(this.filter[name])) options.push([this.filter[name], this.filter[name]]);
      const node = h('select', { 'aria-label': label, 'data-filter': name },
        h('option', { value: '' }, label), options.map(([value, words]) => h('option', { value }, words)));
      node.value = this.filter[name];
      node.addEventListener('change', () => this.setFilter({ [name]: node.value }));
      return node;
    };
    const sessions = [...this.sessions.map((one) => [one.id,
      `${one.task ? `${one.task.slice(0, 40)} · ` : ''}${shortSession(one.id)}`]), ...others.map((id) => [id, shortSession(id)])];
    const house = (on) => { this.house = on; this.keepQuery(); this.redraw(); };
    if (this.selects.contains(document.activeElement)) return;
    fill(this.selects,
      choice('session', 'Any session', sessions),
      choice('trigger', 'Any trigger', triggers.map((one) => [one, triggerWords(one)])),
      choice('tag', 'Any tag', tags.map((one) => [one, one])),
      tick('Only failures', Boolean(this.filter.failed), (on) => this.setFilter({ failed: on ? 'yes' : '' }), {},
        'Prompts and checkpoints in which a check, a command or a tool call failed'),
      this.filtering ? button('Clear', { kind: 'plain', onclick: () => { this.text.value = ''; this.setFilter(NO_FILTER); } })
        : tick('Saves before restores', this.house, house, {}, 'Saves that Rappel made before a restore'));
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
    this.keep ??= later(100, () => { if (!this.ctx.signal.aborted) this.ctx.setQuery({ ...this.filter, house: this.house ? '1' : '', at: this.selected }); });
    this.keep();
  }

  /** Looks for the text in what agents did, too. */
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

  /** Puts the rows in sight into the document. */
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
      style: { top: `${at * this.rowHeight}px` }, 'aria-current': item.key === this.selected ? 'true' : null, dataset: { key: item.key } });
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

  /** The sessions that run, without those whose process is gone. */
  atWork() {
    return this.sessions.filter((one) => one.status === 'running' && !one.process_gone).map((one) => one.id);
  }

  nowCells() {
    if (!this.status) return [h('span.tl-title', h('a', { href: href('timeline') }, 'Now'), h('span.muted', 'looking …'))];
    const { unsaved, unsaved_databases: databases, unsaved_git: git, latest_at: at } = this.status;
    const sessions = this.atWork();
    const last = this.current()?.id ?? 'latest';
    const parts = [unsaved > 0 && plural(unsaved, 'file'), git && 'git', databases.length > 0 && plural(databases.length, 'database')].filter(Boolean);
    const words = parts.length ? `${parts.join(', ')} changed since the last checkpoint` : at ? 'everything is saved' : 'nothing is saved yet';
    return [
      h('span.tl-title', h('a', { href: parts.length ? comparison(last) : href('timeline') }, 'Now'),
        h('span', { class: parts.length ? 'warn' : 'muted' }, words)),
      h('span.tl-meta', sessions.slice(0, 2).map((id) => h('a.badge.info', { href: href('session', id), title: id }, `at work: ${sessionName(id)}`)),
        sessions.length > 2 && badge(`${sessions.length - 2} more`)),
      h('span.tl-changes'),
      time(at, { class: 'tl-time' }),
      h('span.tl-act', parts.length > 0 && button('Discard these changes…',
        { kind: 'small', title: 'See what going back to the last checkpoint would do', onclick: () => this.ctx.navigate(href('restore', last)) })),
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

  current() {
    return this.entries.find((one) => one.current) ?? null;
  }

  /** The checkpoint before what a row tells. */
  before(item) {
    const one = item.kind === 'entry' ? item.entry : item.heading ?? item.oldest;
    return isBefore(one.trigger) ? one.id : one.parent ?? null;
  }

  back(item) {
    const id = item.kind === 'now' ? this.current()?.id : this.before(item);
    if (id) this.ctx.navigate(href('restore', id));
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

  /** Unfolds what hides a checkpoint. */
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

  /** The selected row. */
  get item() {
    return this.items[this.index.get(this.selected)] ?? null;
  }

  /** Down the graph to the parent's row, or up: the same way back, else to the newest child. */
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
      ArrowDown: { does: 'To the parent', run: () => this.follow(false) },
      ArrowUp: { does: 'Back the same way, or to the newest child', run: () => this.follow(true) },
      j: { does: 'Next row', run: () => this.move(1) },
      k: { does: 'Row before', run: () => this.move(-1) },
      ArrowRight: { does: 'Unfold', run: fold(true) },
      ArrowLeft: { does: 'Fold', run: fold(false) },
      Enter: { does: 'Open the checkpoint', run: () => checkpoint() && this.ctx.navigate(href('checkpoint', checkpoint())) },
      b: { does: 'Back to before this', run: () => item() && this.back(item()) },
      m: { does: 'Mark for comparing', run: () => this.mark(checkpoint()) },
      c: { does: 'Compare with the marked one, or with now', run: () => checkpoint() && this.compare(checkpoint()) },
      s: { does: 'Save now', run: () => this.save() },
      '/': { does: 'Filter', run: () => this.text.focus() },
    });
  }

  mark(id) {
    this.marked = id;
    this.markNote?.remove();
    if (id) this.markNote = toast('Marked. Select another one and press c to compare.');
  }

  /** Always from the older one to the newer one. */
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
  const part = (count, sign, kind) => (count ? h('span', { class: kind }, `${sign}${number(count)}`) : null);
  return h('span.tl-changes', { title: words },
    changed && [part(changed.added, '+', 'good'), part(changed.modified, '~', 'info'), part(changed.deleted, '−', 'bad')]);
}

/** A group knows how often files changed, not how many did. */
const edits = (count) => h('span.tl-changes.muted', { title: 'Changes of files, added up over the checkpoints inside' }, count > 0 && plural(count, 'edit'));

const pick = (object, names) => Object.fromEntries(names.filter((name) => object[name] != null).map((name) => [name, object[name]]));
const wide = () => matchMedia('(min-width: 1100px)').matches;

function later(ms, fn) {
  let timer = null;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => fn(...args), ms); };
}
