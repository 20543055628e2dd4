// Timeline: the checkpoints as a graph, newest first. The first row is now.
//
// All entries are loaded page by page; only the rows in sight are in the document. rows.js decides
// which rows there are, and computes the lanes for just these, so a folded graph is whole.

import * as api from '../api.js';
import * as failing from '../failing.js';
import { graph, graphWidth } from '../lanes.js';
import { Panel } from '../panel.js';
import { href } from '../route.js';
import { ancestor, marksOf, promptsOf, restoresOf, rows } from '../rows.js';
import { hasWords, isBefore, ownTags, sessionName, titleOf, triggerWords } from '../words.js';
import { ask, attempt, badge, button, empty, fill, h, number, plural, prose, tick, time, toast } from '../ui.js';

const PAGE = 1000;
const FIRST = 120;
/** The first rows wait so long for what fails, in milliseconds. */
const PATIENCE = 300;
const NO_FILTER = { session: '', tag: '', trigger: '', text: '', failed: '' };

export default {
  title: () => 'Timeline',
  css: true,
  async load(ctx) {
    const told = failing.load(ctx);
    const first = await api.get('/api/timeline', { limit: FIRST, all: true }, ctx);
    const page = new Timeline(ctx, first);
    // What fails stands above the rows: they would jump if it came later.
    const soon = await Promise.race([told, new Promise((done) => { setTimeout(done, PATIENCE); })]);
    if (soon) await page.refreshOutcomes(soon);
    else told.then((late) => page.refreshOutcomes(late), () => {});
    return page.node;
  },
};

class Timeline {
  constructor(ctx, first) {
    const { total, next, unreadable } = first;
    Object.assign(this, { ctx, status: null, sessions: [], entries: [], byId: new Map(), total, next, unreadable });
    this.told = { failing: [], outcomes: [] };
    this.marks = marksOf([], []);
    this.filter = { ...NO_FILTER, ...pick(ctx.query, Object.keys(NO_FILTER)) };
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
        this.setMarks();
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
    this.setMarks();
    this.layout();
    if (away) scrollBy(0, (this.items.length - before) * this.rowHeight);
    this.draw(new Set(fresh.map((one) => one.id)));
    this.drawChoices();
    this.drawCount();
    return undefined;
  }

  /** How checks and calls ended: the signs of the rows, and what fails now. */
  async refreshOutcomes(told = null) {
    this.told = told ?? await failing.load(this.ctx);
    this.setMarks();
    fill(this.alarm, failing.card(this.told));
    if (this.filter.failed) { this.layout(); this.drawCount(); }
    this.drawChoices();
    this.draw();
  }

  setMarks() {
    this.marks = marksOf(this.entries, this.told.outcomes);
    this.restores = restoresOf(this.entries);
  }

  async refreshStatus() {
    const [status, { sessions }] = await Promise.all(
      ['/api/status', '/api/sessions'].map((path) => api.get(path, {}, this.ctx)));
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
    const soon = later(250, () => Promise.all([this.refresh(), this.refreshStatus()]).catch(() => {}));
    const status = later(2000, () => this.refreshStatus().catch(() => {}));
    const outcomes = later(1000, () => this.refreshOutcomes().catch(() => {}));
    for (const name of ['checkpoint', 'journal', 'tool.finished', 'restore.done', 'restore.undone']) ctx.on(name, outcomes);
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
      const fresh = known && await api.get(api.checkpoint(checkpoint), {}, ctx).catch(() => null);
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
    const { session, tag, trigger, text, failed } = this.filter;
    if (failed && !this.outcomesOf(entry).some((one) => !one.passed)) return false;
    if (session && entry.session_id !== session) return false;
    if (trigger && entry.trigger !== trigger) return false;
    if (tag && !entry.tags.includes(tag)) return false;
    if (!text) return true;
    if (this.found?.has(entry.id)) return true;
    const words = [this.titleOf(entry), entry.id, entry.branch, entry.session_id, triggerWords(entry.trigger), ...entry.tags];
    return words.some((one) => one?.toLowerCase().includes(text.toLowerCase()));
  }

  /** The outcomes that belong to a checkpoint; those of its whole work to a prompt. */
  outcomesOf({ id }) {
    return this.marks.during.get(id) ?? this.marks.held.get(id) ?? [];
  }

  /** A checkpoint of a check is called like the check; a save before a restore like its target. */
  titleOf(entry) {
    const { id, trigger, description } = entry;
    const { during, held } = this.marks;
    const target = this.byId.get(this.restores?.get(id));
    const known = { prompt: during.get(id)?.[0].prompt, 'verification-complete': held.get(id)?.[0].text };
    if (target) known['pre-restore'] = `Before going back to “${titleOf(target)}”`;
    return (!hasWords(description) && known[trigger]) || titleOf(entry);
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
    this.list = h('ol.tl-rows', { 'aria-label': 'Checkpoints, newest first' });
    this.panel = new Panel(this);
    this.note = h('div', { hidden: true });
    this.alarm = h('div.tl-alarm');
    this.count = h('p.sub', { role: 'status' });
    this.bar = h('div.tl-filters', { role: 'search' });
    this.node = h('div.view.tl',
      h('div.head', h('div', h('h1', 'Timeline'), this.count),
        h('div.actions', button('Save now', { kind: 'primary', onclick: () => this.save() }))),
      this.unreadable.length > 0 && h('p.note.warn', `${plural(this.unreadable.length, 'checkpoint')} cannot be read. `, prose('`rappel verify` tells why.')),
      this.alarm, this.bar,
      h('div.tl-body', h('div.stack.tl-list', this.list, this.note), this.panel.node));
    this.text = h('input', { type: 'search', placeholder: 'Filter by text', 'aria-label': 'Filter by text', value: this.filter.text });
    this.text.addEventListener('input', later(150, () => this.setFilter({ text: this.text.value.trim() })));
    this.selects = h('div.row');
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
      const node = h('select', { 'aria-label': label, 'data-filter': name },
        h('option', { value: '' }, label), options.map(([value, words]) => h('option', { value }, words)));
      node.value = this.filter[name];
      node.addEventListener('change', () => this.setFilter({ [name]: node.value }));
      return node;
    };
    const sessions = [...this.sessions.map((one) => [one.id,
      `${sessionName(one.id)}${one.task ? ` · ${one.task.slice(0, 40)}` : ''}`]), ...others.map((id) => [id, sessionName(id)])];
    const house = (on) => { this.house = on; this.keepQuery(); this.layout(); this.draw(); this.drawCount(); };
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
      const { kind, entry, place, open, count, inner } = item;
      const outcomes = entry && this.outcomesOf(item.heading ?? entry).map((one) => one.passed);
      const print = JSON.stringify([kind === 'now' && this.statusTurn, at, this.lanes, place, kind, open, count, inner,
        entry && [entry.tags, entry.description, entry.pinned, entry.current], outcomes]);
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
    const node = h('li', { class: `tl-row ${item.kind}${item.inner ? ' inner' : ''}`,
      style: { top: `${at * this.rowHeight}px` }, 'aria-current': item.key === this.selected ? 'true' : null, dataset: { key: item.key } });
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
    return this.sessions.filter((one) => one.status === 'running' && !one.process_gone).map((one) => one.id);
  }

  nowCells() {
    if (!this.status) return [h('span.tl-title', h('a', { href: href('timeline') }, 'Now'), h('span.muted', 'looking …'))];
    const { unsaved, unsaved_databases: databases, unsaved_git: git, latest_at: at } = this.status;
    const sessions = this.atWork();
    const parts = [unsaved ? plural(unsaved, 'file') : null, git ? 'git' : null, databases.length ? plural(databases.length, 'database') : null].filter(Boolean);
    const words = parts.length ? `${parts.join(', ')} changed since the last checkpoint` : at ? 'everything is saved' : 'nothing is saved yet';
    return [
      h('span.tl-title', h('a',
        { href: parts.length ? href('compare', null,
        { from: this.current()?.id ?? 'latest', to: 'now' }) : href('timeline') }, 'Now'), h('span', { class: parts.length ? 'warn' : 'muted' }, words)),
      h('span.tl-meta', sessions.slice(0,
        2).map((id) => h('a.badge.info', { href: href('session', id), title: id },
        `${sessionName(id)} at work`)), sessions.length > 2 && badge(`${sessions.length - 2} more`)),
      h('span.tl-changes'),
      time(at, { class: 'tl-time' }),
      h('span.tl-act', parts.length ? button('Undo these',
        { kind: 'small', title: 'Go back to the last checkpoint', onclick: () => this.ctx.navigate(href('restore', this.current()?.id ?? 'latest')) }) : null),
    ];
  }

  cells(item) {
    const { entry, kind } = item;
    const tags = ownTags(entry.tags);
    const changed = kind === 'entry' ? entry.changed : item.changed;
    const heading = kind === 'head' || kind === 'title';
    const prompt = heading ? item.heading : null;
    const title = heading && !prompt ? plural(item.count, 'automatic checkpoint') : this.titleOf(prompt ?? entry);
    const outcomes = item.start || (heading && !prompt) ? [] : this.outcomesOf(prompt ?? entry);
    const own = !heading && entry.trigger === 'verification-complete' ? outcomes[0] : null;
    const link = prompt ?? entry;
    const fold = heading ? button(item.open ? '▾' : '▸',
      { kind: 'tl-fold plain', 'aria-expanded': String(item.open),
      'aria-label': `${item.open ? 'Fold' : 'Unfold'} ${plural(item.count, 'checkpoint')} of ${title}`, onclick: () => this.fold(item) }) : null;
    return [
      h('span.tl-title', fold, own && failing.sign(own),
        h('a', { href: href('checkpoint', link.id), title: `${triggerWords(link.trigger)}: ${title}` }, item.start ? `Before: ${title}` : title),
        heading && h('span.muted.nowrap', `${number(item.count)} inside`),
        !own && failing.summary(outcomes),
        heading ? item.kind === 'head' && prompt?.current && badge('you are before this', 'good')
          : entry.current && badge('you are here', 'good')),
      h('span.tl-meta',
        entry.pinned && !heading && badge('pinned', 'info'),
        !heading && tags.slice(0, 3).map((tag) => badge(tag, '', { title: `Tag ${tag}` })),
        !heading && tags.length > 3 && badge(`+${tags.length - 3}`),
        entry.lineage && badge(`from ${entry.lineage.origin || 'elsewhere'}`, 'warn', { title: entry.lineage.origin }),
        !heading && !entry.holds_files && h('span.muted.nowrap', 'agent state only'),
        (heading || !item.inner) && (item.session ?? entry.session_id) && h('span.muted.ellipsis',
          { title: item.session ?? entry.session_id }, sessionName(item.session ?? entry.session_id))),
      changes(changed, heading),
      time(entry.created_at, { class: 'tl-time' }),
      h('span.tl-act', this.before(item) && button('Back to before this', { kind: 'small', onclick: () => this.back(item) })),
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

  drawPanel() {
    if (wide()) this.panel.draw(this.items[this.index.get(this.selected) ?? -1]);
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
}

// ---- Parts

function changes(changed, summed = false) {
  const words = changed ? `${number(changed.added)} added, ${number(changed.modified)} changed, ${number(changed.deleted)} deleted` : null;
  const part = (count, sign, kind) => (count ? h('span', { class: kind }, `${sign}${number(count)}`) : null);
  return h('span.tl-changes',
    { title: words && `Files: ${words}${summed ? ', summed over the checkpoints inside' : ''}` },
    changed && [part(changed.added, '+', 'good'), part(changed.modified, '~', 'info'), part(changed.deleted, '−', 'bad')]);
}

const pick = (object, names) => Object.fromEntries(names.filter((name) => object[name] != null).map((name) => [name, object[name]]));
const wide = () => matchMedia('(min-width: 1100px)').matches;

function later(ms, fn) {
  let timer = null;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => fn(...args), ms); };
}
