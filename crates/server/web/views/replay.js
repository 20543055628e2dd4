// Replay: step through what a session did. It only reads; nothing in the workspace changes.

import { get } from '../api.js';
import { href } from '../route.js';
import { attempt, badge, button, bytes, empty, fill, h, head, number, plural, short } from '../ui.js';
import { triggerWords } from '../words.js';
import { moment } from './session.js';

const at = (id, rest) => `/api/sessions/${encodeURIComponent(id)}${rest}`;
const SHOWN = 60;
const MARKS = { prompt: '›', thought: '…', tool: '⚙', 'tool-started': '⚙', 'tool-finished': '⚙', command: '$', files: '✎', checkpoint: '◆', hypothesis: '?', 'hypothesis-updated': '?', evidence: '±', belief: '=', verification: '✓', note: '✎', gap: '?', progress: '»' };
const CALLS = new Set(['tool', 'tool-started', 'tool-finished', 'command']);
const failed = (step) => (/^\S+ failed/.test(step.title) && CALLS.has(step.kind)) || /^\[-?[1-9]\d*\]/.test(step.title) || step.title.startsWith('verification failed');
const sign = (step) => (failed(step) ? '✗' : MARKS[step.kind] ?? '·');
/** `[101] make` is a command and its exit code. The JSON of a result is in the detail. */
const titled = (step) => step.title.replace(/^\[(-?\d+)\] (.*)$/s, (all, code, text) => (step.kind === 'command' ? `${text} (exit code ${code})` : all))
  .replace(/^(\S+ finished): [{[].*$/s, '$1')
  .replace(/^checkpoint \(([a-z-]+)\) .*$/s, (_, trigger) => `checkpoint: ${triggerWords(trigger)}`);
const word = (kind) => kind.replaceAll('-', ' ');

/** The calls up to a step: one for each call, with how it ended by then. */
function callsOf(steps) {
  const calls = new Map();
  for (const step of steps) {
    if (!CALLS.has(step.kind)) continue;
    // A shell call that a hook told of stands there as a tool call already.
    const text = `: ${step.title.replace(/^\[-?\d+\] /, '')}`;
    if (step.kind === 'command' && [...calls.values()].some((call) => call.title.endsWith(text))) continue;
    const known = step.kind === 'tool-finished' ? calls.get(step.id) : null;
    if (known) Object.assign(known, { state: failed(step) ? 'failed' : 'done', output: step.detail });
    else calls.set(step.id ?? step.number, { step, title: titled(step).replace(' started:', ':'), detail: step.detail, state: step.kind === 'tool-started' ? 'running' : failed(step) ? 'failed' : 'done' });
  }
  return [...calls.values()];
}
const STATES = { running: ['▶ running', 'info'], done: ['✓ done', 'good'], failed: ['✗ failed', 'bad'] };

/** The paths that a step of files names: {path: mark}. */
function marksOf(step) {
  const found = new Map();
  for (const line of step?.detail.split('\n') ?? []) {
    const named = /^([+~-]) (.+)$/.exec(line);
    if (named) found.set(named[2], named[1] === '-' ? '−' : named[1]);
  }
  return found;
}
const WORDS = { '+': 'new', '~': 'changed', '−': 'deleted' };

async function load(ctx) {
  const { id } = ctx.params;
  const options = { signal: ctx.signal };
  if (!id) return h('div', { class: 'view' }, head('Replay', 'Step through a session. Nothing changes.'), empty('Choose a session first: open Sessions, then Replay.', 'rappel replay latest'));
  const [all, session] = await Promise.all([get(at(id, '/replay'), { checkpoint: ctx.query.checkpoint }, options), get(at(id, ''), {}, options)]);
  const { steps } = all;
  const first = steps[0]?.number ?? 1;
  if (!steps.length) return h('div', { class: 'view' }, head('Replay', id), empty('Nothing was recorded in this session, and no file changed.', 'rappel record thought "…"'));
  let now = Math.min(steps.length, Math.max(1, (Number(ctx.query.step) || first) - first + 1));
  let playing = null;

  const slider = h('input', { type: 'range', min: '1', max: String(steps.length), value: String(now), 'aria-label': 'Step' });
  const where = h('p', { class: 'where', role: 'status' });
  const play = button('▶ Play', { title: 'Play or pause (Space)', onclick: () => toggle() });
  const speed = h('select', { 'aria-label': 'Speed' }, [['2000', 'slow'], ['900', 'normal'], ['300', 'fast']].map(([value, name]) => h('option', { value, selected: value === '900' }, name)));
  const card = h('div', { class: 'card current-step' });
  const list = h('ol', { class: 'steps' });
  const files = h('div', { class: 'pane-body', tabindex: '0' });
  const thoughts = h('div', { class: 'pane-body', tabindex: '0' });
  const calls = h('div', { class: 'pane-body', tabindex: '0' });

  const row = (step, place) => h('li', {}, button([h('span', { class: `sign ${failed(step) ? 'bad' : 'muted'}`, 'aria-hidden': 'true' }, sign(step)), h('span', { class: 'muted number' }, String(step.number)), h('span', { class: 'ellipsis' }, titled(step))], { kind: 'line', title: titled(step), onclick: () => go(place + 1) }));
  // Of a long replay only the steps around the present one are in the page.
  let part = null;
  const drawList = () => {
    const from = Math.max(0, Math.min(now - 101, steps.length - 200));
    if (part == null || (from !== part && (now - 1 < part + 20 || now - 1 > part + 180))) {
      part = from;
      fill(list, steps.slice(from, from + 200).map((step, place) => row(step, from + place)));
    }
    list.querySelector('[aria-current]')?.removeAttribute('aria-current');
    const here = list.children[now - 1 - part];
    here.firstChild.setAttribute('aria-current', 'step');
    const box = list.parentElement;
    if (box) box.scrollTop = Math.max(0, here.offsetTop - box.clientHeight / 2);
  };

  const seen = new Map();
  let shownKey = null;
  let asking = null;
  const drawFiles = () => {
    let key = -1;
    for (let i = now - 1; i >= 0; i -= 1) if (steps[i].kind === 'files' || steps[i].checkpoint) { key = i; break; }
    const changed = steps.slice(0, now).findLast((step) => step.kind === 'files');
    const whole = `${key}:${changed?.number}`;
    if (whole === shownKey) return;
    shownKey = whole;
    const show = (found) => {
      if (!found) { fill(files, h('p', { class: 'muted' }, 'No checkpoint holds the files of this moment.')); return; }
      const marks = marksOf(changed);
      const gone = [...marks].filter(([, mark]) => mark === '−').map(([path]) => ({ kind: 'file', path }));
      const entries = [...found.entries.filter((one) => one.kind !== 'directory'), ...gone];
      entries.sort((a, b) => marks.has(b.path) - marks.has(a.path) || (a.path < b.path ? -1 : 1));
      fill(files, h('p', { class: 'sub' }, 'As saved in ', h('a', { href: href('checkpoint', found.checkpoint), title: found.checkpoint }, short(found.checkpoint)), `: ${plural(found.entries.filter((one) => one.kind !== 'directory').length, 'file')}`),
        h('ul', { class: 'files mono' }, entries.slice(0, 300).map((one) => {
          const mark = marks.get(one.path);
          return h('li', { class: mark ? 'strong' : null }, h('span', { class: 'file-mark', title: WORDS[mark] }, mark ?? ''), mark && h('span', { class: 'visually-hidden' }, `${WORDS[mark]}: `), h('span', { class: mark === '−' ? 'grow gone' : 'grow' }, one.path), h('span', { class: 'muted number' }, one.size == null ? '' : bytes(one.size)));
        }), entries.length > 300 && h('li', { class: 'muted' }, `… and ${number(entries.length - 300)} more`)));
    };
    if (seen.has(key)) { show(seen.get(key)); return; }
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    attempt(async () => {
      const found = await get(at(id, `/replay/${steps[now - 1].number}`), { files: true, checkpoint: ctx.query.checkpoint }, { signal });
      seen.set(key, found.files);
      show(found.files);
    });
  };

  const draw = () => {
    const step = steps[now - 1];
    slider.value = String(now);
    fill(where, 'Step ', h('strong', {}, number(step.number)), ` of ${number(all.total)} · `, moment(step.at));
    fill(card, h('div', { class: 'row' }, badge(`${sign(step)} ${word(step.kind)}`, failed(step) ? 'bad' : ''), h('strong', { class: 'grow' }, titled(step)), step.event > 0 && h('a', { href: href('session', id, { event: step.event }) }, 'What it knew then')), h('pre', { class: 'output' }, step.detail || 'It says no more than that.'));
    const past = steps.slice(0, now);
    const thought = past.filter((one) => one.kind === 'thought' || one.kind === 'prompt').reverse();
    fill(thoughts, thought.length ? h('ul', { class: 'items' }, thought.slice(0, SHOWN).map((one) => h('li', { class: one === step ? 'now' : null }, h('div', { class: 'row' }, badge(`${sign(one)} ${one.kind}`, one.kind === 'prompt' ? 'info' : ''), moment(one.at)), h('p', {}, one.detail)))) : h('p', { class: 'muted' }, 'No thought yet.'));
    const made = callsOf(past).reverse();
    fill(calls, made.length ? h('ul', { class: 'items' }, made.slice(0, SHOWN).map((one) => h('li', {}, h('div', { class: 'row' }, badge(...STATES[one.state]), h('code', { class: 'grow' }, one.title), moment(one.step.at)), one.state === 'failed' && h('pre', { class: 'output' }, one.output ?? one.detail)))) : h('p', { class: 'muted' }, 'No tool call yet.'));
    drawFiles();
    drawList();
  };
  const go = (to) => {
    now = Math.min(steps.length, Math.max(1, to));
    ctx.setQuery({ ...ctx.query, step: steps[now - 1].number });
    draw();
  };
  const stop = () => { clearTimeout(playing); playing = null; fill(play, '▶ Play'); };
  const next = () => {
    if (now >= steps.length) { stop(); return; }
    go(now + 1);
    playing = setTimeout(next, Number(speed.value));
  };
  const toggle = () => {
    if (playing) { stop(); return; }
    fill(play, '‖ Pause');
    if (now >= steps.length) now = 0;
    next();
  };
  const jump = (by) => { stop(); go(now + by); };
  const failure = (by) => {
    for (let i = now - 1 + by; i >= 0 && i < steps.length; i += by) if (failed(steps[i])) { stop(); go(i + 1); return; }
  };
  slider.addEventListener('input', () => { stop(); go(Number(slider.value)); });
  ctx.onLeave(stop);
  ctx.keys({
    ArrowLeft: { does: 'One step back or forward', run: () => jump(-1) },
    ArrowRight: { does: 'One step back or forward', run: () => jump(1) },
    ' ': { does: 'Play or pause', run: toggle },
    Home: { does: 'To the first or last step', run: () => jump(-steps.length) },
    End: { does: 'To the first or last step', run: () => jump(steps.length) },
    n: { does: 'Next or previous failure', run: () => failure(1) },
    N: { does: 'Next or previous failure', run: () => failure(-1) },
  });
  const move = (label, words, key, by) => button(label, { 'aria-label': words, title: `${words} (${key})`, onclick: () => jump(by) });
  const pane = (title, body) => h('section', { class: 'card pane', 'aria-label': title }, h('h2', {}, title), body);
  const node = h('div', { class: 'view replay-view' },
    head(session.task || id, h('span', { class: 'row' }, badge('◉ Replay: read-only, nothing changes', 'info'), h('span', { class: 'mono' }, id)), h('a', { class: 'button', href: href('session', id) }, 'Session')),
    h('div', { class: 'card scrubber' },
      h('div', { class: 'row' }, move('|◀', 'First step', 'Home', -steps.length), move('◀', 'One step back', '←', -1), play, move('▶', 'One step forward', '→', 1), move('▶|', 'Last step', 'End', steps.length), speed, button('✗ Next failure', { title: 'Next failure (n)', onclick: () => failure(1) })),
      h('div', {}, slider), where),
    card,
    h('div', { class: 'panes' }, pane('Steps', h('div', { class: 'pane-body', tabindex: '0' }, list)), pane('Files', files), pane('Thoughts', thoughts), pane('Tool calls', calls)));
  draw();
  ctx.onShow(drawList);
  return node;
}

export default { title: (params) => `Replay ${params.id}`, load };
