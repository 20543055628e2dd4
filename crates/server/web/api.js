// The server's API. Every call adds `?workspace=` and, if there is one, the token.

import { sentences } from './advice.js';
import { address, token } from './route.js';
import { capital } from './ui.js';

// Why a call failed: kind, message, hint, advice (as data), status. Status 0: no server answered.
export class ApiError extends Error {
  constructor({ message = 'The call failed', ...more }) {
    super(message);
    Object.assign(this, { kind: 'failed', hint: null, advice: [], status: 0 }, more);
  }
}

export const checkpoint = (id, rest = '') => `/api/checkpoints/${encodeURIComponent(id)}${rest}`;
export const session = (id, rest = '') => `/api/sessions/${encodeURIComponent(id)}${rest}`;

// A path inside a checkpoint, for an address: every part is encoded.
export const inPath = (path) => path.split('/').map(encodeURIComponent).join('/');

function headers(more) {
  const secret = token();
  return { ...more, ...secret && { Authorization: `Bearer ${secret}` } };
}

async function send(method, path, { query, body, signal } = {}) {
  const sent = headers(body && { 'Content-Type': 'application/json' });
  let answer;
  try {
    answer = await fetch(address(path, query),
      { method, headers: sent, body: JSON.stringify(body), signal });
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
  const { status } = answer;
  const { message = `The server answered ${status}.` } = told;
  const hint = status === 401
    ? 'Open the address that `rappel serve` printed: it ends in #token=….'
    : advise(told);
  return new ApiError({ ...told, message: capital(message), hint, status });
}

// Advice in this page's words; else the server's, unless they name routes.
function advise({ advice = [], hint = null }) {
  return sentences(advice) ?? (/\/api\/|POST |GET |send \{/.test(hint) ? null : hint);
}

// get('/api/status', {query}, {signal}) answers the JSON.
export const get = async (path, query = {}, { signal } = {}) =>
  (await send('GET', path, { query, signal })).json();

export const post = async (path, body = {}, { signal } = {}) =>
  (await send('POST', path, { body, signal })).json();
export const patch = async (path, body) => (await send('PATCH', path, { body })).json();
export const del = async (path) => (await send('DELETE', path)).json();
export const text = async (path) => (await send('GET', path)).text();

// Saves an answer as a file: true. A link would not do: it cannot carry the token.
export async function download(path, query = {}, name = '') {
  const answer = await send('GET', path, { query });
  const told = /filename="([^"]+)"/.exec(answer.headers.get('content-disposition') ?? '');
  const place = URL.createObjectURL(await answer.blob());
  const link = document.createElement('a');
  link.href = place;
  link.download = told?.[1] || name || 'download';
  link.click();
  setTimeout(() => URL.revokeObjectURL(place), 60_000);
  return true;
}

// Starts a job and follows it to its end: job('/api/gc', {}, onProgress) answers its result.
// `onProgress` gets the job each time. An answer that is no job is answered as it is.
export async function job(path, body = {}, onProgress = () => {}) {
  const answer = await send('POST', path, { body });
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
  const message = told.message
    ?? (now.state === 'cancelled' ? 'It was cancelled. Nothing changed.' : 'It failed.');
  throw new ApiError({ ...told, message: capital(message), hint: advise(told), status: 409 });
}

// Follows the events of the home: onEvent(name, data), onState('live' | 'waiting', goesOn). It
// reconnects and goes on after the last event, if there was one. (EventSource cannot send a token,
// hence fetch.)
export async function events(onEvent, onState) {
  let last = null;
  let wait = 500;
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
    onState('live', Boolean(last));
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
