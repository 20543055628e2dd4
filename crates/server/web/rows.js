// Which rows the timeline has: prompts as headings with what followed folded below them.
//
// A row is {key, kind, id, entry, place}. Kinds: `now`; `entry`; `head`, a folded group, drawn as its
// prompt or its newest checkpoint; `title`, the heading of an open group, which has no node. The rows
// of a group also have {group, run, heading, from, to}: its checkpoints, its prompt, what to compare.

import * as api from './api.js';
import * as failing from './failing.js';
import { Lanes } from './lanes.js';
import { hasWords, kindOf, ownTags, titleOf } from './words.js';

const FOLDABLE = new Set(['work', 'mind', 'before', 'session', 'house']);
// So many automatic checkpoints without a prompt are folded.
const RUN_MIN = 3;
// At so many ends of sessions their prompts are asked for.
const ENDS_MAX = 8;

// The rows of a model {entries, byId, open, house, next, said}, newest first, and the number of columns.
// With `matches`, only those entries, without groups.
export function rows(model, matches = null) {
  const children = countChildren(model.entries);
  const items = matches
    ? model.entries.filter(matches).map((entry) => row(entry))
    : [now(model), ...grouped(model, children)];
  const shown = new Set(items.map((item) => item.id));
  const columns = new Lanes();
  let lanes = 1;
  for (const item of items) {
    item.place = item.kind === 'title' ? columns.pass() : columns.place(item.id, ancestor(model, item, shown));
    lanes = Math.max(lanes, columns.width);
  }
  return { items, lanes };
}

const row = (entry, more = {}) => ({ key: entry.id, kind: 'entry', id: entry.id, entry, ...more });

function now({ entries }) {
  return { key: 'now', kind: 'now', id: 'now', parent: entries.find((one) => one.current)?.id ?? null };
}

function countChildren(entries) {
  const counts = new Map();
  for (const { parent } of entries) if (parent) counts.set(parent, (counts.get(parent) ?? 0) + 1);
  return counts;
}

// The nearest ancestor that has a row. One that is not loaded yet counts: its line goes on.
export function ancestor({ byId, next }, item, shown) {
  let id = item.kind === 'now' ? item.parent : byId.get(item.id)?.parent ?? null;
  while (id) {
    if (shown.has(id)) return id;
    if (!byId.has(id)) return next ? id : null;
    id = byId.get(id).parent;
  }
  return null;
}

// `held`: id -> the outcomes that a checkpoint was the first to hold; `during`: those of a prompt's work.
function marksOf(entries, outcomes) {
  const [held, during] = [new Map(), new Map()];
  // A check is often told of twice: as a verification, and as the command that ran it.
  const add = (map, id, one) => {
    const list = map.get(id) ?? [];
    if (!list.some((other) => other.text === one.text && other.passed === one.passed)) map.set(id, [...list, one]);
  };
  const prompts = Map.groupBy(entries.filter((one) => one.trigger === 'prompt'), (one) => one.session_id);
  const known = new Map(entries.map((one) => [one.id, one]));
  for (const one of outcomes) {
    const prompt = prompts.get(one.session)?.find((entry) => entry.created_at <= one.at);
    if (prompt) add(during, prompt.id, one);
    const holder = known.get(one.checkpoint);
    // The checkpoint of the next prompt holds it only because nothing was saved before.
    const early = holder?.trigger === 'prompt' && prompt;
    const other = holder?.trigger === 'verification-complete' && one.kind !== 'verification';
    if (holder && !early && !other) add(held, holder.id, one);
  }
  return { held, during };
}

// What is known of checkpoints beyond themselves: their outcomes, and so their names.
export class Names {
  constructor(entries = [], outcomes = []) {
    Object.assign(this, marksOf(entries, outcomes));
    this.byId = new Map(entries.map((one) => [one.id, one]));
    this.restores = restoresOf(entries);
  }

  // The outcomes that belong to a checkpoint; those of its whole work to a prompt.
  outcomes({ id }) {
    return this.during.get(id) ?? this.held.get(id) ?? [];
  }

  check({ id, trigger }) {
    return trigger === 'verification-complete' ? this.held.get(id)?.[0] ?? null : null;
  }

  of(entry) {
    const { id, trigger, description } = entry;
    const target = this.byId.get(this.restores.get(id));
    const known = { prompt: this.during.get(id)?.[0].prompt, 'verification-complete': this.check(entry)?.text };
    if (target) known['pre-restore'] = `Before going back to “${titleOf(target)}”`;
    return (!hasWords(description) && known[trigger]) || titleOf(entry);
  }
}

export async function loadNames(ctx, list) {
  const named = (one) => one?.trigger !== 'verification-complete' && (!['prompt', 'pre-restore'].includes(one?.trigger) || hasWords(one.description));
  if (list.every(named)) return new Names();
  const [page, told] = await Promise.all([api.get('/api/timeline', { limit: 1000, all: true }, ctx), failing.load(ctx)]);
  return new Names(page.checkpoints, told.outcomes);
}

// The prompts that made no checkpoints: session -> [{id, text, created_at}], newest first.
export async function loadPrompts(ctx, entries) {
  const parents = new Map(entries.map((one) => [one.parent, one.session_id]));
  const saved = new Set(entries.filter((one) => one.trigger === 'prompt').map((one) => one.session_id));
  // A session that a restore set back knows its later prompts only at the ends of its ways.
  const ends = entries.filter(({ id, session_id: session }) => session && !saved.has(session) && parents.get(id) !== session).slice(0, ENDS_MAX);
  const found = await Promise.all(ends.map(({ session_id: session, created_at: when }) => api.get('/api/at', { session, when }, ctx).catch(() => null)));
  const all = found.flatMap((one, at) => (one?.state?.prompts ?? []).map((prompt) => ({ ...prompt, session: ends[at].session_id })));
  return Map.groupBy(all.sort((one, other) => (one.created_at < other.created_at ? 1 : -1)), (one) => one.session);
}

// Where each save before a restore led. The next newer checkpoint, or the workspace, goes on from there.
function restoresOf(entries) {
  const found = new Map();
  let led = entries.find((one) => one.current)?.id ?? null;
  for (const one of entries) {
    if (one.lineage) continue;
    if (one.trigger === 'pre-restore' && led && led !== one.id) found.set(one.id, led);
    led = one.parent;
  }
  return found;
}

function promptsOf(entries) {
  const found = new Map();
  const known = new Map(); // id -> the prompts before it, newest first: {session, id, before}
  for (let at = entries.length - 1; at >= 0; at -= 1) {
    const { id, parent, session_id: session, trigger } = entries[at];
    let list = known.get(parent) ?? null;
    if (trigger === 'prompt' && session) list = { session, id, before: list };
    known.set(id, list);
    let one = list;
    for (let steps = 0; one && one.session !== session && steps < 50; steps += 1) one = one.before;
    if (session && one?.session === session) found.set(id, one.id);
  }
  return found;
}

// Entries that follow each other in one group become one heading.
function grouped(model, children) {
  const prompts = promptsOf(model.entries);
  const entries = model.house ? model.entries : model.entries.filter((entry) => !isHousekeeping(entry, children));
  const spoken = new Map(); // group -> a prompt that made no checkpoint
  const groupOf = (entry) => {
    const said = model.said.get(entry.session_id)?.find((one) => one.created_at <= entry.created_at);
    const group = said && `said ${entry.session_id} ${said.id}`;
    if (said) spoken.set(group, said);
    return prompts.get(entry.id) ?? group ?? (FOLDABLE.has(kindOf(entry.trigger)) ? `auto ${entry.session_id ?? ''}` : null);
  };
  const items = [];
  for (let at = 0; at < entries.length;) {
    const group = groupOf(entries[at]);
    let end = at + 1;
    while (group && end < entries.length && groupOf(entries[end]) === group) end += 1;
    items.push(...fold(model, entries.slice(at, end), group, children, spoken.get(group)));
    at = end;
  }
  return items;
}

function fold({ open, byId }, run, group, children, said) {
  const last = run.at(-1);
  const prompt = last.trigger === 'prompt' ? last : null;
  const hidden = new Set(run.filter((one) => one !== prompt && isFoldable(one, children)));
  if (!hidden.size || (!prompt && !said && hidden.size < RUN_MIN)) return run.map((one) => row(one));
  const key = `${group}@${last.id}`;
  const before = prompt?.id ?? holder(byId, last.parent);
  // A prompt that made no checkpoint stands for the one before its work.
  const words = said && { ...last, id: before ?? last.id, trigger: 'prompt', description: said.text, tags: [], current: false, spoken: true };
  const heading = prompt ?? byId.get(group) ?? words ?? null;
  const about = { group: key, run, count: hidden.size, open: open.has(key), heading, oldest: last, session: last.session_id,
    edits: sum(run), from: before, to: run.find((one) => one.holds_files)?.id ?? before };
  const stays = run.filter((one) => !hidden.has(one));
  const inner = (one) => row(one, { inner: true, start: one === prompt });
  const title = { key: `t ${key}`, kind: 'title', id: null, entry: heading ?? run[0], ...about };
  if (about.open) return [title, ...run.map(inner)];
  if (stays.some((one) => one !== prompt)) return [title, ...stays.map(inner)];
  return [prompt ? { ...row(prompt), kind: 'head', ...about } : { ...row(run[0]), key: `h ${key}`, kind: 'head', ...about }];
}

const isPlain = (entry) => !entry.current && !entry.pinned && !ownTags(entry.tags).length;
const isFoldable = (entry, children) => FOLDABLE.has(kindOf(entry.trigger)) && isPlain(entry) && (children.get(entry.id) ?? 0) < 2;
// A save before a restore at which no line forks.
const isHousekeeping = (entry, children) => entry.trigger === 'pre-restore' && isPlain(entry) && (children.get(entry.id) ?? 0) < 2;

function holder(byId, id) {
  while (byId.get(id)?.holds_files === false) id = byId.get(id).parent;
  return id ?? null;
}

const sum = (run) => run.filter((one) => one.changed && one.trigger !== 'prompt')
  .reduce((total, { changed }) => total + changed.added + changed.modified + changed.deleted, 0);
