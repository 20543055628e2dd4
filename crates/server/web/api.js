// The server's API. Every call adds `?workspace=` and, if there is one, the token.

import { sentences } from './advice.js';
import { token, workspace } from './route.js';
import { capital } from './ui.js';

/** Why a call failed: kind, message, hint, advice (as data), status. Status 0: no server answered. */
export class ApiError extends Error {
  constructor({ kind = 'failed', message = 'The call failed', hint = null, advice = [], status = 0 }) {
    super(message);
    Object.assign(this, { kind, hint, advice, status });
  }
}

/** The address of a call: url('/api/diff', {from, to}). Empty values are left out. */
export function url(path, query = {}) {
  const values = { workspace: workspace(), ...query };
  const given = Object.entries(values).filter(([, v]) => v != null && v !== '' && v !== false);
  const search = new URLSearchParams(given).toString();
  return search ? `${path}${path.includes('?') ? '&' : '?'}${search}` : path;
}

/** The address of a checkpoint or a session, with what follows it. */
export const checkpoint = (id, rest = '') => `/api/checkpoints/${encodeURIComponent(id)}${rest}`;
export const session = (id, rest = '') => `/api/sessions/${encodeURIComponent(id)}${rest}`;

/** A path inside a checkpoint, for an address: every part is encoded. */
export const inPath = (path) => path.split('/').map(encodeURIComponent).join('/');

function headers(more = {}) {
  const secret = token();
  return secret ? { ...more, Authorization: `Bearer ${secret}` } : more;
}

async function send(method, address, { body, signal } = {}) {
  const more = body === undefined ? {} : { 'Content-Type': 'application/json' };
  const text = body === undefined ? undefined : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(address, { method, headers: headers(more), body: text, signal });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError({
      kind: 'offline',
      message: 'The server does not answer.',
      hint: 'Start it again with `rappel serve`. This page then continues by itself.',
    });
  }
  if (answer.ok) return answer;
  throw await problem(answer);
}

async function problem(answer) {
  let told = {};
  try { told = (await answer.json()).error ?? {}; } catch { /* not ours: the status has to do */ }
  const { kind, message = `The server answered ${answer.status}.` } = told;
  const hint = answer.status === 401
    ? 'Open the address that `rappel serve` printed: it ends in #token=….'
    : advise(told);
  return new ApiError({ kind, message: capital(message), hint, advice: told.advice, status: answer.status });
}

/** Advice in this page's words; else the server's, unless they name routes. */
function advise({ advice = [], hint = null }) {
  return sentences(advice) ?? (hint && !/\/api\/|POST |GET |send \{/.test(hint) ? hint : null);
}

/** get('/api/status', {query}, {signal}) answers the JSON. */
export async function get(path, query = {}, { signal } = {}) {
  return (await send('GET', url(path, query), { signal })).json();
}

export const post = async (path, body = {}, { signal } = {}) => (await send('POST', url(path), { body, signal })).json();
export const patch = async (path, body) => (await send('PATCH', url(path), { body })).json();
export const del = async (path) => (await send('DELETE', url(path))).json();
/** The text of a file in a checkpoint. */
export const text = async (path) => (await send('GET', url(path))).text();

/** Saves an answer as a file. A link would not do: it cannot carry the token. */
export async function download(path, query = {}, name = '') {
  const answer = await send('GET', url(path, query));
  const told = /filename="([^"]+)"/.exec(answer.headers.get('content-disposition') ?? '');
  const place = URL.createObjectURL(await answer.blob());
  const link = document.createElement('a');
  link.href = place;
  link.download = told?.[1] || name || 'download';
  link.click();
  setTimeout(() => URL.revokeObjectURL(place), 60_000);
}

/**
 * Starts a job and follows it to its end: job('/api/gc', {}, onProgress) answers its result.
 * `onProgress` gets the job each time. An answer that is no job is answered as it is.
 */
export async function job(path, body = {}, onProgress = () => {}) {
  const answer = await send('POST', url(path), { body });
  let now = await answer.json();
  if (answer.status !== 202) return now;
  while (now.state === 'running' || now.state === 'cancelling') {
    onProgress(now);
    await new Promise((done) => setTimeout(done, 200));
    now = await get(`/api/jobs/${encodeURIComponent(now.id)}`);
  }
  onProgress(now);
  if (now.state === 'done') return now.result;
  const told = now.error ?? {};
  const message = told.message ?? (now.state === 'cancelled' ? 'It was cancelled. Nothing changed.' : 'It failed.');
  throw new ApiError({ kind: told.kind, message: capital(message), hint: advise(told), advice: told.advice, status: 409 });
}

/**
 * Follows the events of the home: onEvent(name, data), onState('live' | 'waiting'). It reconnects
 * and misses nothing. (EventSource cannot send a token, hence fetch.)
 */
export async function events(onEvent, onState) {
  let last = null;
  let wait = 500;
  let known = false; // whether there was a connection before this one
  let now = null; // ends the present connection
  // A browser opens six connections to a server, for all its tabs: a hidden page takes none.
  document.addEventListener('visibilitychange', () => { if (document.hidden) now?.abort(); });
  const visible = () => new Promise((done) => {
    if (document.hidden) document.addEventListener('visibilitychange', done, { once: true });
    else done();
  });
  const once = async () => {
    now = new AbortController();
    const more = last ? { 'Last-Event-ID': last, Accept: 'text/event-stream' } : {};
    const answer = await fetch('/api/events', { headers: headers(more), signal: now.signal });
    if (!answer.ok) throw await problem(answer);
    onState('live');
    // Before the first event there is no place to go on from.
    if (known && !last) onEvent('reset', {});
    known = true;
    wait = 500;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split('\n\n');
      rest = parts.pop();
      for (const part of parts) last = tell(part, onEvent) ?? last;
    }
  };
  for (;;) {
    await visible();
    try { await once(); } catch { /* the next attempt tells */ }
    if (document.hidden) continue;
    onState('waiting');
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 10_000);
  }
}

function tell(block, onEvent) {
  let [name, data, id] = ['message', '', null];
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) name = line.slice(6).trim();
    else if (line.startsWith('data:')) data += line.slice(5).trim();
    else if (line.startsWith('id:')) id = line.slice(3).trim();
  }
  if (data) {
    let value = null;
    try { value = JSON.parse(data); } catch { return id; }
    onEvent(name, value);
  }
  return id;
}
