// What things are called, and how they look: triggers, facets.

import * as api from './api.js';
import { href } from './route.js';
import { clock, h, short } from './ui.js';

/** What made a checkpoint, in words, and its kind. The kind decides shape and colour. */
const TRIGGERS = {
  manual: ['Saved by hand', 'hand'],
  prompt: ['Prompt', 'prompt'],
  'pr-merged': ['Pull request merged', 'milestone'],
  'end-of-day': ['End of the day', 'house'],
  'pre-operation': ['Before a risky command', 'before'],
  'pre-restore': ['Saved before a restore', 'house'],
  scheduled: ['Scheduled', 'house'],
  'session-start': ['Session started', 'session'],
  'session-end': ['Session ended', 'session'],
  'task-completed': ['Task completed', 'work'],
  imported: ['Imported', 'milestone'],
  'hypothesis-status-change': ['Hypothesis changed', 'mind'],
  'contradiction-detected': ['Contradiction found', 'mind'],
  'verification-complete': ['Verification done', 'mind'],
  'branch-switch': ['Approach switched', 'mind'],
  'branch-merged': ['Approach merged', 'mind'],
  'gap-filled': ['Gap filled', 'mind'],
  'code-modified': ['Files changed', 'work'],
  'time-passed': ['Time passed', 'house'],
  'context-compaction': ['Context compacted', 'session'],
  'thought-completed': ['Thought', 'mind'],
  'tool-executed': ['Tool call', 'work'],
  paused: ['Paused', 'session'],
  'execution-completed': ['Run completed', 'session'],
};

/** Kinds: what the legend says, the colour, and the shape (drawn around 0,0). */
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

export const triggerWords = (trigger) => TRIGGERS[trigger]?.[0] ?? trigger;
export const kindOf = (trigger) => TRIGGERS[trigger]?.[1] ?? 'house';

/** Tags that hooks and triggers add themselves. */
const own = new Set(['auto', 'NewContradictionDetected', 'SignificantTimePassed', 'ContextCompactionWarning',
  'hypothesis_confirmed', 'hypothesis_rejected', 'contradiction_detected', 'branch_merged',
    ...Object.keys(TRIGGERS).map((name) => name.replace(/(^|-)([a-z])/g, (_, _dash, c) => c.toUpperCase()))]);
export const ownTags = (tags) => tags.filter((tag) => !own.has(tag));

const OWN_WORDS = /^(Auto: \w+$|Auto-checkpoint \(|Pre-restore auto-save$|Imported checkpoint$)/;

/** Whether a description says more than the trigger does. */
export const hasWords = (text) => Boolean(text?.trim()) && !OWN_WORDS.test(text.trim());

/** The title of a checkpoint: its own words, or what made it. A prompt without words has its time. */
export function titleOf({ description, trigger, created_at: at }) {
  if (hasWords(description)) return description.trim();
  return trigger === 'prompt' ? `Prompt at ${clock(at)}` : triggerWords(trigger);
}

export const FACETS = ['files', 'git', 'databases', 'agents', 'knowledge', 'process'];
export const facetWords = { files: 'Files', git: 'Git', databases: 'Databases', agents: 'Agent sessions', knowledge: 'Knowledge', process: 'Process' };
/** What the state of a facet means: [words, kind of badge]. */
export const facetStates = {
  captured: ['Captured', 'good'],
  absent: ['There was none', ''],
  failed: ['Could not be read', 'bad'],
};

/** The signs of what a session did. */
export const MARKS = { prompt: '›', thought: '…', tool: '⚙', 'tool-started': '⚙', 'tool-finished': '⚙',
  command: '$', files: '✎', checkpoint: '◆', hypothesis: '?', 'hypothesis-updated': '?',
  evidence: '±', belief: '=', verification: '✓', check: '✓', note: '✎', gap: '?', progress: '»' };

/** Where `Back to before this` leads: a checkpoint made before its action is itself the answer. */
export const isBefore = (trigger) => ['prompt', 'pre-operation', 'pre-restore', 'session-start'].includes(trigger);
/** Where a restore of a checkpoint leads: `before “Rename it”`, `“first”`. */
export const placeOf = ({ trigger }, name) => `${isBefore(trigger) && trigger !== 'pre-restore' ? 'before ' : ''}“${name}”`;

const tasks = new Map(); // id of a session -> what it is for

/** The sessions of the workspace. From then on they are called by their tasks. */
export async function loadSessions(ctx) {
  const { sessions } = await api.get('/api/sessions', {}, ctx);
  for (const { id, task } of sessions) if (task) tasks.set(id, task);
  return sessions;
}

export const sessionName = (id) => tasks.get(id) ?? shortSession(id);

/** `claude 8f7c1d2e`, `session k7f3`: a session's id, short enough for a line. */
export function shortSession(id) {
  const own = /^ses_\d{8}_\d{6}_(\w+)$/.exec(id);
  if (own) return `session ${own[1]}`;
  const [provider, rest] = id.includes(':') ? id.split(/:(.*)/s) : [null, id];
  const part = rest.length > 12 ? rest.slice(0, 8) : rest;
  return provider ? `${provider} ${part}` : part;
}

/** A link to a session, or to its run; the whole id is on hover. */
export const sessionLink = (id, query = {}, view = 'session') => h('a',
  { href: view === 'runs' ? href(view, null, { session: id }) : href(view, id, query), title: id }, sessionName(id));
/** A link to a checkpoint. */
export const checkpointLink = (id, words = short(id)) => h('a', { href: href('checkpoint', id), title: id }, words);
