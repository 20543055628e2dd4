// What things are called, and how they look: triggers, facets.

import * as api from './api.js';
import { href } from './route.js';
import { clock, h, inWords, short } from './ui.js';

// The kind of what made a checkpoint, which decides shape and colour; its words, where its name is none.
const TRIGGERS = {
  manual: ['hand', 'Saved by hand'],
  prompt: ['prompt'],
  'pr-merged': ['milestone', 'Pull request merged'],
  'end-of-day': ['house'],
  'pre-operation': ['before', 'Before a risky command'],
  'pre-restore': ['house', 'Saved before a restore'],
  scheduled: ['house'],
  'session-start': ['session', 'Session started'],
  'session-end': ['session', 'Session ended'],
  'task-completed': ['work'],
  imported: ['milestone'],
  'hypothesis-status-change': ['mind', 'Hypothesis changed'],
  'contradiction-detected': ['mind', 'Contradiction found'],
  'verification-complete': ['mind', 'Verification done'],
  'branch-switch': ['mind', 'Approach switched'],
  'branch-merged': ['mind', 'Approach merged'],
  'gap-filled': ['mind'],
  'code-modified': ['work', 'Files changed'],
  'time-passed': ['house'],
  'context-compaction': ['session', 'Context compacted'],
  'thought-completed': ['mind', 'Thought'],
  'tool-executed': ['work', 'Tool call'],
  paused: ['session'],
  'execution-completed': ['session', 'Run completed'],
};

// Kinds: what the legend says, the colour, and the shape (drawn around 0,0).
export const KINDS = {
  hand: { says: 'Saved by hand', colour: 'var(--c1)', shape: 'M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0' },
  prompt: { says: 'Prompt', colour: 'var(--c2)', shape: 'M0-6.5 6.5 0 0 6.5-6.5 0z' },
  work: { says: 'Agent changed something', colour: 'var(--c7)', shape: 'M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0' },
  before: { says: 'Before a risky command', colour: 'var(--c3)', shape: 'M0-6 6 5H-6z' },
  session: { says: 'Session or run', colour: 'var(--c4)', shape: 'M-4.5-4.5h9v9h-9z' },
  mind: { says: 'Reasoning', colour: 'var(--c8)', shape: 'M-3-5.5h6l3 5.5-3 5.5h-6l-3-5.5z' },
  milestone: { says: 'Merge or import', colour: 'var(--c6)', shape: 'M0-7 1.8-2.3 6.7-2.2 2.9 1 4.1 5.7 0 3-4.1 5.7-2.9 1-6.7-2.2-1.8-2.3z' },
  house: { says: 'Housekeeping', colour: 'var(--muted)', hollow: true, shape: 'M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0' },
};

export const triggerWords = (trigger) => TRIGGERS[trigger]?.[1] ?? inWords(trigger);
export const kindOf = (trigger) => TRIGGERS[trigger]?.[0] ?? 'house';

// Tags that hooks and triggers add themselves.
const own = new Set(['auto', 'NewContradictionDetected', 'SignificantTimePassed', 'ContextCompactionWarning',
  'hypothesis_confirmed', 'hypothesis_rejected', 'contradiction_detected', 'branch_merged',
    ...Object.keys(TRIGGERS).map((name) => name.replace(/(^|-)([a-z])/g, (_, _dash, c) => c.toUpperCase()))]);
export const ownTags = (tags) => tags.filter((tag) => !own.has(tag));

const OWN_WORDS = /^(Auto: \w+$|Auto-checkpoint \(|Pre-restore auto-save$|Imported checkpoint$)/;

export const hasWords = (text) => Boolean(text?.trim()) && !OWN_WORDS.test(text.trim());

// The title of a checkpoint: its own words, or what made it. A prompt without words has its time.
export function titleOf({ description, trigger, created_at: at }) {
  if (hasWords(description)) return description.trim();
  return trigger === 'prompt' ? `Prompt at ${clock(at)}` : triggerWords(trigger);
}

export const facetWords = {
  files: 'Files', git: 'Git', databases: 'Databases', agents: 'Agent sessions', knowledge: 'Knowledge',
  process: 'Process',
};
export const FACETS = Object.keys(facetWords);
export const facetStates = {
  captured: ['Captured', 'good'],
  absent: ['There was none', ''],
  failed: ['Could not be read', 'bad'],
};

export const MARKS = { prompt: '›', thought: '…', tool: '⚙', 'tool-started': '⚙', 'tool-finished': '⚙',
  command: '$', files: '✎', checkpoint: '◆', hypothesis: '?', 'hypothesis-updated': '?',
  evidence: '±', belief: '=', verification: '✓', check: '✓', note: '✎', gap: '?', progress: '»' };

// Where `Back to before this` leads: a checkpoint made before its action is itself the answer.
export const isBefore = (trigger) => ['prompt', 'pre-operation', 'pre-restore', 'session-start'].includes(trigger);
export const placeOf = ({ trigger }, name) => `${isBefore(trigger) && trigger !== 'pre-restore' ? 'before ' : ''}“${name}”`;

const tasks = new Map(); // id of a session -> what it is for

// The sessions of the workspace. From then on they are called by their tasks.
export async function loadSessions(ctx) {
  const { sessions } = await api.get('/api/sessions', {}, ctx);
  for (const { id, task } of sessions) if (task) tasks.set(id, task);
  return sessions;
}

export const isFailed = (one) => one.process_gone || one.status === 'failed';
// Loads the view again when a session ended without an event: a killed process tells nobody.
export function watchSessions(ctx, sessions) {
  const standing = (list) => list.map((one) => [one.status, one.process_gone]);
  ctx.watch(standing(sessions), async () => standing(await loadSessions(ctx)));
}
export const atWork = (sessions) =>
  sessions.filter((one) => one.status === 'running' && !one.process_gone).map((one) => one.id);

export const sessionName = (id) => tasks.get(id) ?? shortSession(id);

// `claude 8f7c1d2e`, `session k7f3`: a session's id, short enough for a line.
export function shortSession(id) {
  const own = /^ses_\d{8}_\d{6}_(\w+)$/.exec(id);
  if (own) return `session ${own[1]}`;
  const [provider, rest] = id.includes(':') ? id.split(/:(.*)/s) : [null, id];
  const part = rest.length > 12 ? rest.slice(0, 8) : rest;
  return provider ? `${provider} ${part}` : part;
}

// A link to a session, or to its run; the whole id is on hover.
export const sessionLink = (id, query = {}, view = 'session') => h('a',
  { href: view === 'runs' ? href(view, null, { session: id }) : href(view, id, query), title: id }, sessionName(id));
export const checkpointLink = (id, words = short(id)) => h('a', { href: href('checkpoint', id), title: id }, words);
