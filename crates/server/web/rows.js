// Which rows the timeline has: prompts as headings with what followed folded below them.
//
// A row is {key, kind, id, entry, place}. Kinds: `now`; `entry`; `head`, a folded group, drawn as its
// prompt or its newest checkpoint; `title`, the heading of an open group, which has no node.

import { Lanes } from './lanes.js';
import { kindOf, ownTags } from './words.js';

/** Kinds of checkpoints that a group may fold. */
const FOLDABLE = new Set(['work', 'mind', 'before', 'session', 'house']);
/** So many automatic checkpoints without a prompt are folded. */
const RUN_MIN = 3;

/**
 * The rows of a model {entries, byId, open, house, next}, newest first, and the number of columns.
 * With `matches`, only those entries, without groups.
 */
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

/** The nearest ancestor that has a row. One that is not loaded yet counts: its line goes on. */
export function ancestor({ byId, next }, item, shown) {
  let id = item.kind === 'now' ? item.parent : byId.get(item.id)?.parent ?? null;
  while (id) {
    if (shown.has(id)) return id;
    if (!byId.has(id)) return next ? id : null;
    id = byId.get(id).parent;
  }
  return null;
}

/**
 * What the outcomes of checks and calls say about checkpoints: `held`, id -> the outcomes that a
 * checkpoint was the first to hold; `during`, the id of a prompt -> the outcomes of its work.
 */
export function marksOf(entries, outcomes) {
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

/**
 * Where each save before a restore led: its id -> the checkpoint that was restored. The next newer
 * checkpoint of the workspace goes on from there, or the workspace itself does.
 */
export function restoresOf(entries) {
  const found = new Map();
  let led = entries.find((one) => one.current)?.id ?? null;
  for (const one of entries) {
    if (one.lineage) continue;
    if (one.trigger === 'pre-restore' && led && led !== one.id) found.set(one.id, led);
    led = one.parent;
  }
  return found;
}

/** The prompt that each entry followed, by its session: id -> the prompt's id. */
export function promptsOf(entries) {
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

/** Entries that follow each other in one group become one heading. */
function grouped(model, children) {
  const prompts = promptsOf(model.entries);
  const entries = model.house ? model.entries : model.entries.filter((entry) => !isHousekeeping(entry, children));
  const groupOf = (entry) => prompts.get(entry.id) ?? (FOLDABLE.has(kindOf(entry.trigger)) ? `auto ${entry.session_id ?? ''}` : null);
  const items = [];
  for (let at = 0; at < entries.length;) {
    const group = groupOf(entries[at]);
    let end = at + 1;
    while (group && end < entries.length && groupOf(entries[end]) === group) end += 1;
    items.push(...fold(model, entries.slice(at, end), group, children));
    at = end;
  }
  return items;
}

function fold({ open, byId }, run, group, children) {
  const last = run.at(-1);
  const prompt = last.trigger === 'prompt' ? last : null;
  const hidden = new Set(run.filter((one) => one !== prompt && isFoldable(one, children)));
  if (!hidden.size || (!prompt && hidden.size < RUN_MIN)) return run.map((one) => row(one));
  const key = `${group}@${last.id}`;
  const heading = prompt ?? byId.get(group) ?? null;
  const about = { group: key, count: hidden.size, open: open.has(key), heading, oldest: last, session: last.session_id, changed: sum(run) };
  const stays = run.filter((one) => !hidden.has(one));
  const inner = (one) => row(one, { inner: true, start: one === prompt });
  const title = { key: `t ${key}`, kind: 'title', id: null, entry: heading ?? run[0], ...about };
  if (about.open) return [title, ...run.map(inner)];
  if (stays.some((one) => one !== prompt)) return [title, ...stays.map(inner)];
  return [prompt ? { ...row(prompt), kind: 'head', ...about } : { ...row(run[0]), key: `h ${key}`, kind: 'head', ...about }];
}

const isPlain = (entry) => !entry.current && !entry.pinned && !ownTags(entry.tags).length;
const isFoldable = (entry, children) => FOLDABLE.has(kindOf(entry.trigger)) && isPlain(entry) && (children.get(entry.id) ?? 0) < 2;
/** A save before a restore at which no line forks. */
const isHousekeeping = (entry, children) => entry.trigger === 'pre-restore' && isPlain(entry) && (children.get(entry.id) ?? 0) < 2;

function sum(run) {
  const total = { added: 0, modified: 0, deleted: 0 };
  for (const { changed, trigger } of run) {
    if (changed && trigger !== 'prompt') for (const key of Object.keys(total)) total[key] += changed[key];
  }
  return total;
}
