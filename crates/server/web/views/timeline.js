// Timeline: the checkpoints as a graph, newest first. The first row is now.
//
// All entries are loaded page by page; only the rows in sight are in the document. rows.js decides
// which rows there are, and computes the lanes for just these, so a folded graph is whole.

import * as api from '../api.js';
import { filesOf } from '../diff.js';
import { graph, graphWidth, legend } from '../lanes.js';
import { href } from '../route.js';
import { ancestor, promptsOf, rows } from '../rows.js';
import { isBefore, ownTags, sessionName, titleOf, triggerWords } from '../words.js';
import { ask, attempt, badge, button, copyText, empty, facts, fill, h, number, plural, prose, time, toast } from '../ui.js';

const PAGE = 1000;
const FIRST = 120;

export default {
  title: () => 'Timeline',
  css: true,
  async load(ctx) {
    return new Timeline(ctx, await api.get('/api/timeline', { limit: FIRST, all: true }, ctx)).node;
  },
};

class Timeline {
  constructor(ctx, first) {
    Object.assign(this, { ctx, status: null, sessions: [], entries: [], byId: new Map(), total: first.total, next: first.next, unreadable: first.unreadable });
    this.filter = { session: '', tag: '', trigger: '', text: '', ...pick(ctx.query, ['session', 'tag', 'trigger', 'text']) };
    this.house = ctx.query.house === '1';
    this.open = new Set();
    this.items = [];
    this.rows = new Map(); // key -> {node, item}
    this.selected = ctx.query.at || null;
    this.trail = []; // where the arrow keys came from
    this.marked = null;
    this.found = null;
    this.take(first.checkpoints);
    this.build();
    this.layout();
    this.measure();
    this.drawCount();
    this.live();
    this.keys();
    if (this.next) this.loadRest();
    this.refreshStatus().catch(() => {});
    api.get('/api/sessions', {}, ctx).then(({ sessions }) => { this.sessions = sessions; this.drawChoices(); }, () => {});
    ctx.onShow(() => { this.draw(); if (this.selected) this.select(this.selected); else this.drawPanel(); });
  }

  // ---- Data

  take(list) {
    for (const entry of list) {
      if (!this.byId.has(entry.id)) this.entries.push(entry);
      else Object.assign(this.byId.get(entry.id), entry);
      this.byId.set(entry.id, this.byId.get(entry.id) ?? entry);
    }
  }

  async loadRest() {
    try {
      while (this.next && !this.ctx.signal.aborted) {
        const page = await api.get('/api/timeline', { limit: PAGE, all: true, after: this.next }, this.ctx);
        this.take(page.checkpoints);
        this.next = page.next;
        this.layout();
        this.draw();
      }
      this.drawChoices();
      this.drawCount();
    } catch (error) {
      if (error.name !== 'AbortError') toast('Older checkpoints could not be loaded. Reload the page.', { kind: 'bad' });
    }
  }

  /** Takes in what is new at the top. */
  async refresh() {
    const page = await api.get('/api/timeline', { limit: 100, all: true }, this.ctx);
    const fresh = page.checkpoints.filter((one) => !this.byId.has(one.id));
    for (const one of this.entries) one.current = false;
    for (const one of page.checkpoints) {
      if (this.byId.has(one.id)) Object.assign(this.byId.get(one.id), one);
      else this.byId.set(one.id, one);
    }
    if (fresh.length === page.checkpoints.length && page.next) return this.ctx.reload();
    // A page is in order, so what is new goes where the page has it.
    const known = new Set(page.checkpoints.map((one) => one.id));
    const rest = this.entries.filter((one) => !known.has(one.id));
    this.entries = [...page.checkpoints.map((one) => this.byId.get(one.id)), ...rest];
    this.total = page.total;
    const before = this.items.length;
    const away = scrollY > this.list.offsetTop + this.rowHeight;
    this.layout();
    if (away) scrollBy(0, (this.items.length - before) * this.rowHeight);
    this.draw(new Set(fresh.map((one) => one.id)));
    this.drawChoices();
    this.drawCount();
    return undefined;
  }

  async refreshStatus() {
    this.status = await api.get('/api/status', {}, this.ctx);
    const told = JSON.stringify(pick(this.status, ['unsaved', 'unsaved_git', 'unsaved_databases', 'sessions', 'crashed_sessions', 'latest', 'state', 'reasons']));
    if (told === this.statusTurn) return;
    this.statusTurn = told;
    this.draw();
    if (!this.selected) this.drawPanel();
  }

  live() {
    const { ctx } = this;
    const soon = later(250, () => Promise.all([this.refresh(), this.refreshStatus()]).catch(() => {}));
    const status = later(2000, () => this.refreshStatus().catch(() => {}));
    for (const name of ['checkpoint', 'checkpoint.undeleted', 'restore.done', 'restore.undone', 'restore.redone']) ctx.on(name, soon);
    for (const name of ['session.started', 'session.ended', 'session.paused', 'session.resumed', 'tool.finished']) ctx.on(name, status);
    ctx.on('checkpoint.deleted', ({ checkpoint }) => {
      const gone = this.byId.get(checkpoint);
      for (const one of this.entries) if (one.parent === checkpoint) one.parent = gone?.parent ?? null;
      this.byId.delete(checkpoint);
      this.entries = this.entries.filter((one) => one.id !== checkpoint);
      soon();
    });
    ctx.on('checkpoint.labelled', async ({ checkpoint }) => {
      const known = this.byId.get(checkpoint);
      const fresh = known && await api.get(`/api/checkpoints/${encodeURIComponent(checkpoint)}`, {}, ctx).catch(() => null);
      if (!fresh) return;
      Object.assign(known, pick(fresh.checkpoint, ['tags', 'description', 'pinned']));
      this.layout();
      this.draw();
    });
    ctx.on('reset', () => ctx.reload());
    const poll = setInterval(() => { if (!document.hidden) status(); }, 15_000);
    const scroll = () => { this.pending ??= requestAnimationFrame(() => { this.pending = null; this.draw(); }); };
    const resize = () => { this.measure(); this.layout(); this.rows.clear(); this.list.replaceChildren(); this.draw(); };
    addEventListener('scroll', scroll, { passive: true });
    addEventListener('resize', resize);
    ctx.onLeave(() => { clearInterval(poll); removeEventListener('scroll', scroll); removeEventListener('resize', resize); });
  }

  // ---- Which rows there are

  get filtering() {
    return Object.values(this.filter).some(Boolean);
  }

  matches(entry) {
    const { session, tag, trigger, text } = this.filter;
    if (session && entry.session_id !== session) return false;
    if (trigger && entry.trigger !== trigger) return false;
    if (tag && !entry.tags.includes(tag)) return false;
    if (!text) return true;
    if (this.found?.has(entry.id)) return true;
    const words = [titleOf(entry), entry.id, entry.branch, entry.session_id, triggerWords(entry.trigger), ...entry.tags];
    return words.some((one) => one?.toLowerCase().includes(text.toLowerCase()));
  }

  /** Decides which rows are shown, and where their lines go. */
  layout() {
    Object.assign(this, rows(this, this.filtering ? (entry) => this.matches(entry) : null));
    this.index = new Map(this.items.map((item, at) => [item.key, at]));
    this.list.style.setProperty('--graph', `${graphWidth(this.lanes)}px`);
    this.list.style.height = `${this.items.length * (this.rowHeight ?? 36)}px`;
  }

  // ---- The page

  build() {
    this.list = h('ol', { class: 'tl-rows', 'aria-label': 'Checkpoints, newest first' });
    this.panel = h('section', { class: 'tl-panel', 'aria-label': 'Details' });
    this.note = h('div', { hidden: true });
    this.count = h('p', { class: 'sub', role: 'status' });
    this.bar = h('div', { class: 'tl-filters', role: 'search' });
    this.node = h('div', { class: 'view tl' },
      h('div', { class: 'head' }, h('div', {}, h('h1', {}, 'Timeline'), this.count),
        h('div', { class: 'actions' }, button('Save now', { kind: 'primary', onclick: () => this.save() }))),
      this.unreadable.length > 0 && h('p', { class: 'note warn' }, `${plural(this.unreadable.length, 'checkpoint')} cannot be read. `, prose('`rappel verify` tells why.')),
      this.bar,
      h('div', { class: 'tl-body' }, h('div', { class: 'stack tl-list' }, this.list, this.note), this.panel));
    this.text = h('input', { type: 'search', placeholder: 'Filter by text', 'aria-label': 'Filter by text', value: this.filter.text });
    this.text.addEventListener('input', later(150, () => this.setFilter({ text: this.text.value.trim() })));
    this.selects = h('div', { class: 'row' });
    this.bar.append(this.text, this.selects);
    this.drawChoices();
    this.drawCount();
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
      const node = h('select', { 'aria-label': label, 'data-filter': name }, h('option', { value: '' }, label), options.map(([value, words]) => h('option', { value }, words)));
      node.value = this.filter[name];
      node.addEventListener('change', () => this.setFilter({ [name]: node.value }));
      return node;
    };
    const sessions = [...this.sessions.map((one) => [one.id, `${sessionName(one.id)}${one.task ? ` · ${one.task.slice(0, 40)}` : ''}`]), ...others.map((id) => [id, sessionName(id)])];
    const tick = h('input', { type: 'checkbox' });
    tick.checked = this.house;
    tick.addEventListener('change', () => { this.house = tick.checked; this.keepQuery(); this.layout(); this.draw(); this.drawCount(); });
    if (this.selects.contains(document.activeElement)) return;
    fill(this.selects,
      choice('session', 'Any session', sessions),
      choice('trigger', 'Any trigger', triggers.map((one) => [one, triggerWords(one)])),
      choice('tag', 'Any tag', tags.map((one) => [one, one])),
      this.filtering ? button('Clear', { kind: 'plain', onclick: () => { this.text.value = ''; this.setFilter({ session: '', tag: '', trigger: '', text: '' }); } })
        : h('label', { class: 'tick', title: 'Saves that Rappel made before a restore' }, tick, 'Saves before restores'));
  }

  drawCount() {
    const loading = this.next ? ` · ${number(this.entries.length)} loaded so far` : '';
    const shown = this.filtering ? `${number(this.items.length)} of ${plural(this.total, 'checkpoint')}` : plural(this.total, 'checkpoint');
    this.count.textContent = shown + loading;
    const unmatched = this.filtering && !this.items.length && !this.next;
    this.list.hidden = unmatched;
    this.note.hidden = this.entries.length > 0 && !unmatched;
    if (!this.note.hidden) fill(this.note, unmatched && this.entries.length ? empty('No checkpoint matches these filters.') : empty('No checkpoint yet. Make the first one here, or in the workspace:', 'rappel save "Before I begin"'));
  }

  setFilter(values) {
    Object.assign(this.filter, values);
    this.found = null;
    this.layout();
    if (!this.index.has(this.selected)) { this.selected = null; this.drawPanel(); }
    this.keepQuery();
    this.rows.clear();
    this.list.replaceChildren();
    scrollTo(0, 0);
    this.drawCount();
    this.draw();
    this.drawChoices();
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
    this.layout();
    this.drawCount();
    this.draw();
  }

  measure() {
    this.rowHeight = matchMedia('(max-width: 760px)').matches ? 62 : 36;
    this.list.style.height = `${this.items.length * this.rowHeight}px`;
  }

  /** Puts the rows in sight into the document. */
  draw(fresh = new Set()) {
    if (!this.rowHeight || !this.list.isConnected) return;
    const top = this.list.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / this.rowHeight) - 12);
    const last = Math.min(this.items.length, Math.ceil((innerHeight - top) / this.rowHeight) + 12);
    const wanted = new Set();
    // From the last row up, so that rows stand in the document as they do on the screen.
    let below = null;
    for (let at = last - 1; at >= first; at -= 1) {
      const item = this.items[at];
      wanted.add(item.key);
      const print = `${item.kind === 'now' ? this.statusTurn : ''} ${at} ${this.lanes} ${JSON.stringify(item.place)} ${item.kind} ${item.open} ${item.count} ${item.inner} ${item.entry ? JSON.stringify([item.entry.tags, item.entry.description, item.entry.pinned, item.entry.current]) : ''}`;
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
    const node = h('li', { class: `tl-row ${item.kind}${item.inner ? ' inner' : ''}`, style: { top: `${at * this.rowHeight}px` }, 'aria-current': item.key === this.selected ? 'true' : null, dataset: { key: item.key } });
    node.append(graph(item, this.lanes, this.rowHeight));
    node.append(...(item.kind === 'now' ? this.nowCells() : this.cells(item)));
    node.addEventListener('click', (event) => {
      if (event.target.closest('button')) return;
      const link = event.target.closest('a');
      if (link && (event.ctrlKey || event.metaKey || event.shiftKey)) return;
      if (link && !wide()) return;
      event.preventDefault();
      if (item.key === this.selected && link) this.ctx.navigate(link.getAttribute('href'));
      else if (wide()) this.select(item.key, { focus: true });
    });
    return node;
  }

  /** The sessions that run, without those whose process is gone. */
  atWork() {
    const gone = new Set(this.status.crashed_sessions.map((one) => one.id));
    return this.status.sessions.filter((id) => !gone.has(id));
  }

  nowCells() {
    if (!this.status) return [h('span', { class: 'tl-title' }, h('a', { href: href('timeline') }, 'Now'), h('span', { class: 'muted' }, 'looking …'))];
    const { unsaved, unsaved_databases: databases, unsaved_git: git, latest_at: at } = this.status;
    const sessions = this.atWork();
    const parts = [unsaved ? plural(unsaved, 'file') : null, git ? 'git' : null, databases.length ? plural(databases.length, 'database') : null].filter(Boolean);
    const words = parts.length ? `${parts.join(', ')} changed since the last checkpoint` : at ? 'everything is saved' : 'nothing is saved yet';
    return [
      h('span', { class: 'tl-title' }, h('a', { href: parts.length ? href('compare', null, { from: this.current()?.id ?? 'latest', to: 'now' }) : href('timeline') }, 'Now'), h('span', { class: parts.length ? 'warn' : 'muted' }, words)),
      h('span', { class: 'tl-meta' }, sessions.slice(0, 2).map((id) => h('a', { class: 'badge info', href: href('session', id), title: id }, `${sessionName(id)} at work`)), sessions.length > 2 && badge(`${sessions.length - 2} more`)),
      h('span', { class: 'tl-changes' }),
      time(at, { class: 'tl-time' }),
      h('span', { class: 'tl-act' }, parts.length ? button('Undo these', { kind: 'small', title: 'Go back to the last checkpoint', onclick: () => this.ctx.navigate(href('restore', this.current()?.id ?? 'latest')) }) : null),
    ];
  }

  cells(item) {
    const { entry, kind } = item;
    const tags = ownTags(entry.tags);
    const changed = kind === 'entry' ? entry.changed : item.changed;
    const heading = kind === 'head' || kind === 'title';
    const prompt = heading ? item.heading : null;
    const title = heading && !prompt ? plural(item.count, 'automatic checkpoint') : titleOf(prompt ?? entry);
    const link = prompt ?? entry;
    const fold = heading ? button(item.open ? '▾' : '▸', { kind: 'tl-fold plain', 'aria-expanded': String(item.open), 'aria-label': `${item.open ? 'Fold' : 'Unfold'} ${plural(item.count, 'checkpoint')} of ${title}`, onclick: () => this.fold(item) }) : null;
    return [
      h('span', { class: 'tl-title' }, fold,
        h('a', { href: href('checkpoint', link.id), title: `${triggerWords(link.trigger)}: ${title}` }, item.start ? `Before: ${title}` : title),
        heading && h('span', { class: 'muted nowrap' }, `${number(item.count)} inside`),
        !heading && entry.current && badge('you are here', 'good')),
      h('span', { class: 'tl-meta' },
        entry.pinned && !heading && badge('pinned', 'info'),
        !heading && tags.slice(0, 3).map((tag) => badge(tag, '', { title: `Tag ${tag}` })),
        !heading && tags.length > 3 && badge(`+${tags.length - 3}`),
        entry.lineage && badge(`from ${entry.lineage.origin || 'elsewhere'}`, 'warn', { title: entry.lineage.origin }),
        !heading && !entry.holds_files && h('span', { class: 'muted nowrap' }, 'agent state only'),
        (heading || !item.inner) && (item.session ?? entry.session_id) && h('span', { class: 'muted ellipsis', title: item.session ?? entry.session_id }, sessionName(item.session ?? entry.session_id))),
      changes(changed, heading),
      time(entry.created_at, { class: 'tl-time' }),
      h('span', { class: 'tl-act' }, button('Back to before this', { kind: 'small', onclick: () => this.back(item) })),
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

  // ---- Selecting

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
    if (!this.byId.has(id)) return null;
    const prompts = promptsOf(this.entries);
    const group = prompts.get(id);
    for (const item of this.items) if (item.group && (item.heading?.id === group || !item.heading)) this.open.add(item.group);
    this.layout();
    return this.index.has(id) ? id : this.items.find((item) => item.id === id)?.key ?? null;
  }

  move(step) {
    const at = this.index.get(this.selected) ?? -1;
    const next = this.items[Math.min(this.items.length - 1, Math.max(0, at + step))];
    if (next) { this.trail = []; this.select(next.key, { focus: true }); }
  }

  /** Down the graph: to the parent's row, remembering the way. */
  toParent() {
    const item = this.items[this.index.get(this.selected) ?? -1];
    if (!item) return this.move(1);
    if (item.kind === 'title') return this.move(1);
    const shown = new Map(this.items.filter((one) => one.id).map((one) => [one.id, one.key]));
    const parent = ancestor(this, item, new Set(shown.keys()));
    if (!parent || !shown.has(parent)) return undefined;
    this.trail.push([shown.get(parent), item.key]);
    return this.select(shown.get(parent), { focus: true });
  }

  /** Up again, the way that `toParent` came; else to the newest row that goes on from here. */
  toChild() {
    const [at, from] = this.trail.at(-1) ?? [];
    if (at === this.selected && this.index.has(from)) { this.trail.pop(); return this.select(from, { focus: true }); }
    this.trail = [];
    const item = this.items[this.index.get(this.selected) ?? -1];
    if (!item) return this.move(-1);
    const shown = new Set(this.items.filter((one) => one.id).map((one) => one.id));
    const child = this.items.find((one) => one.kind !== 'title' && one.id && one !== item && ancestor(this, one, shown) === item.id);
    return child ? this.select(child.key, { focus: true }) : this.move(-1);
  }

  keys() {
    const item = () => this.items[this.index.get(this.selected) ?? -1] ?? null;
    const checkpoint = () => (item()?.kind === 'now' ? null : (item()?.heading ?? item()?.entry)?.id ?? null);
    const fold = (open) => () => { const one = item(); if (one?.group && one.open !== open) this.fold(one); };
    this.ctx.keys({
      ArrowDown: { does: 'To the parent', run: () => this.toParent() },
      ArrowUp: { does: 'Back the same way, or to the child', run: () => this.toChild() },
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
      Home: { does: 'Newest', run: () => this.move(-Infinity) },
      End: { does: 'Oldest', run: () => this.move(Infinity) },
    });
  }

  mark(id) {
    this.marked = id;
    if (id) toast('Marked. Select another one and press c to compare.');
  }

  compare(id) {
    const from = this.marked && this.marked !== id ? this.marked : id;
    this.ctx.navigate(href('compare', null, { from, to: from === id ? 'now' : id }));
  }

  async save() {
    const message = await ask('Save a checkpoint', 'What is this moment? (may stay empty)', '', { ok: 'Save' });
    if (message == null) return;
    const made = await attempt(() => api.post('/api/checkpoints', message.trim() ? { message: message.trim() } : {}));
    if (made) toast(`Saved as ${made.id}.`);
  }

  // ---- The panel beside the list

  drawPanel() {
    this.looking?.abort();
    if (!wide()) return;
    const item = this.items[this.index.get(this.selected) ?? -1];
    if (!item || item.kind === 'now') { fill(this.panel, this.nowPanel(), legend()); return; }
    const entry = item.heading ?? item.entry;
    const files = h('div', { class: 'tl-files' }, h('p', { class: 'muted' }, 'Looking …'));
    const before = this.before(item);
    const newest = item.kind === 'entry' ? entry : item.entry;
    const from = item.kind === 'entry' ? entry.parent : item.heading ? item.heading.id : item.oldest.parent;
    const to = item.kind === 'entry' || !item.group ? entry.id : this.newestOf(item);
    fill(this.panel,
      h('h2', {}, titleOf(entry)),
      h('div', { class: 'row' },
        h('a', { class: 'button', href: href('checkpoint', entry.id) }, 'Open'),
        before && button('Back to before this', { onclick: () => this.back(item) }),
        before !== entry.id && h('a', { class: 'button', href: href('restore', entry.id) }, 'Restore this'),
        h('a', { class: 'button', href: href('compare', null, { from: entry.id, to: 'now' }) }, 'Compare with now')),
      facts([
        ['Made', time(newest.created_at)],
        ['Why', triggerWords(entry.trigger)],
        ['Branch', entry.branch],
        ['Number', `#${entry.sequence}`],
        ['Session', entry.session_id && h('a', { href: href('session', entry.session_id), title: entry.session_id }, sessionName(entry.session_id))],
        ['Tags', entry.tags.length ? entry.tags.join(', ') : null],
        ['Id', button(entry.id, { kind: 'tl-id plain small mono', title: 'Copy the id', 'aria-label': `Copy ${entry.id}`, onclick: () => copyText(entry.id) })],
      ]),
      h('h3', {}, item.kind === 'entry' ? 'Changed since its parent' : 'Changed inside'), files, legend());
    this.looking = new AbortController();
    const { signal } = this.looking;
    setTimeout(async () => {
      if (signal.aborted || this.ctx.signal.aborted) return;
      if (!from) { fill(files, h('p', { class: 'muted' }, 'The first checkpoint.')); return; }
      try {
        const diff = await api.get('/api/diff', { from, to }, { signal });
        fill(files, fileList(diff, from, to));
      } catch (error) {
        if (error.name !== 'AbortError') fill(files, h('p', { class: 'muted' }, error.message));
      }
    }, 120);
  }

  /** The newest checkpoint inside a group. */
  newestOf(item) {
    const prompts = promptsOf(this.entries);
    return this.entries.find((one) => prompts.get(one.id) === item.heading?.id)?.id ?? item.entry.id;
  }

  nowPanel() {
    if (!this.status) return [h('h2', {}, 'Now'), h('p', { class: 'muted' }, 'Looking …')];
    const box = h('div', { class: 'tl-files' });
    const from = this.current()?.id;
    const { unsaved, crashed_sessions: crashed, state, reasons } = this.status;
    const sessions = this.atWork();
    if (from && unsaved) {
      this.looking = new AbortController();
      const { signal } = this.looking;
      fill(box, h('p', { class: 'muted' }, 'Looking …'));
      api.get('/api/diff', { from }, { signal }).then((diff) => fill(box, fileList(diff, from, 'now')), () => fill(box));
    } else fill(box, h('p', { class: 'muted' }, from ? 'Everything is saved.' : 'Nothing is saved yet.'));
    return [
      h('h2', {}, 'Now'),
      h('p', {}, badge(state, { protected: 'good', degraded: 'warn' }[state] ?? 'bad'), ' ', reasons.slice(0, 2).join('; ')),
      h('h3', {}, 'Unsaved changes'), box,
      h('h3', {}, 'At work'),
      sessions.length || crashed.length ? h('ul', { class: 'stack' },
        sessions.map((id) => h('li', {}, h('a', { href: href('session', id), title: id }, sessionName(id)))),
        crashed.map((one) => h('li', {}, h('a', { href: href('runs') }, sessionName(one.id)), ' ', badge('crashed', 'bad')))) : h('p', { class: 'muted' }, 'No agent.'),
    ];
  }
}

// ---- Parts

function changes(changed, summed = false) {
  const words = changed ? `${number(changed.added)} added, ${number(changed.modified)} changed, ${number(changed.deleted)} deleted` : null;
  const part = (count, sign, kind) => (count ? h('span', { class: kind }, `${sign}${number(count)}`) : null);
  return h('span', { class: 'tl-changes', title: words && `Files: ${words}${summed ? ', summed over the checkpoints inside' : ''}` }, changed && [part(changed.added, '+', 'good'), part(changed.modified, '~', 'info'), part(changed.deleted, '−', 'bad')]);
}

function fileList(diff, from, to) {
  const SIGNS = { modified: ['~', 'info'], added: ['+', 'good'], deleted: ['−', 'bad'], renamed: ['→', 'info'] };
  const rows = filesOf(diff).map(({ path, change }) => [SIGNS[change][0], path, SIGNS[change][1], change]);
  const more = rows.length - 20;
  const others = [...diff.databases.map((one) => `database ${one.name}`), diff.git && 'git'].filter(Boolean);
  if (!rows.length && !others.length) return h('p', { class: 'muted' }, diff.agents?.sessions?.[0]?.summary ? `No files. Agents: ${diff.agents.sessions[0].summary}.` : 'Nothing changed.');
  return [
    h('ul', {}, rows.slice(0, 20).map(([sign, path, kind, words]) => h('li', { class: 'mono' }, h('span', { class: kind, title: words, 'aria-label': words, role: 'img' }, sign), h('a', { href: href('compare', null, { from, to, path }) }, path)))),
    more > 0 && h('p', { class: 'muted' }, `and ${plural(more, 'more file')}`),
    others.length > 0 && h('p', {}, `Also: ${others.join(', ')}`),
    h('a', { href: href('compare', null, { from, to }) }, 'See the lines'),
  ];
}

const pick = (object, names) => Object.fromEntries(names.filter((name) => object[name] != null).map((name) => [name, object[name]]));
const wide = () => matchMedia('(min-width: 1100px)').matches;

function later(ms, fn) {
  let timer = null;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => fn(...args), ms); };
}
