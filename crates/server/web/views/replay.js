// Replay: step through what a session did. It only reads; nothing in the workspace changes.

import { get, session as sessionAt } from '../api.js';
import { fileSign } from '../diff.js';
import { output } from '../failing.js';
import { href } from '../route.js';
import {
  badge, button, bytes, empty, fillWith, fill, h, head, linked, moment, more, muted, newest, number,
  plural, sign, slider,
} from '../ui.js';
import { checkpointLink, MARKS, triggerWords } from '../words.js';

const SHOWN = 60;
const FILES = 300;
// Of so many steps the lists of files are kept.
const SEEN = 8;
// So long a step is shown while it plays, in milliseconds.
const PACE = 900;
const FORK = / of fork \d+/;
const CALLS = new Set(['tool', 'tool-started', 'tool-finished', 'command']);
const failed = (step) => (/^\S+ failed/.test(step.title) && CALLS.has(step.kind)) || /^\[-?[1-9]\d*\]/.test(step.title) || step.title.startsWith('verification failed');
const signOf = (step) => (failed(step) ? '✗' : MARKS[step.kind] ?? '·');
// `[101] make` is a command and its exit code. The JSON of a result is in the detail.
const titled = (step) => step.title.replace(/^\[(-?\d+)\] (.*)$/s, (all, code, text) => (step.kind === 'command' ? `${text} (exit code ${code})` : all))
  .replace(/^(\S+ finished): [{[].*$/s, '$1').replace(FORK, '')
  .replace(/^checkpoint \(([a-z-]+)\) .*$/s, (_, trigger) => `checkpoint: ${triggerWords(trigger)}`);
const word = (kind) => kind.replaceAll('-', ' ');

function callsOf(steps) {
  const calls = new Map();
  for (const step of steps) {
    if (!CALLS.has(step.kind)) continue;
    // A shell call that a hook told of stands there as a tool call already.
    const text = `: ${step.title.replace(/^\[-?\d+\] /, '')}`;
    if (step.kind === 'command' && [...calls.values()].some((call) => call.title.endsWith(text))) continue;
    const known = step.kind === 'tool-finished' ? calls.get(step.id) : null;
    if (known) Object.assign(known, { state: failed(step) ? 'failed' : 'done', output: step.detail });
    else calls.set(step.id ?? step.number, { step, title: titled(step).replace(' started:', ':'),
      detail: step.detail, state: step.kind === 'tool-started' ? 'running' : failed(step) ? 'failed' : 'done' });
  }
  return [...calls.values()];
}
const STATES = { running: ['▶ running', 'info'], done: ['✓ done', 'good'], failed: ['✗ failed', 'bad'] };

const CHANGES = { '+': 'added', '~': 'modified', '-': 'deleted' };

function marksOf(step) {
  const found = new Map();
  for (const line of step?.detail.split('\n') ?? []) {
    const named = /^([+~-]) (.+)$/.exec(line);
    if (named) found.set(named[2], CHANGES[named[1]]);
  }
  return found;
}

async function load(ctx) {
  const { id } = ctx;
  if (!id) return h('div.view', head('Replay', 'Step through a session. Nothing changes.'),
    empty('Choose a session first: open Sessions, then Replay.', 'rappel replay latest'));
  const [all, session] = await Promise.all([get(sessionAt(id, '/replay'), { checkpoint: ctx.query.checkpoint }, ctx), get(sessionAt(id), {}, ctx)]);
  const { steps } = all;
  const first = steps[0]?.number ?? 1;
  if (!steps.length) return h('div.view', head('Replay', id), empty('Nothing was recorded in this session, and no file changed.', 'rappel record thought "…"'));
  let now = Math.min(steps.length, Math.max(1, (Number(ctx.query.step) || first) - first + 1));
  let playing = null;

  const scrubber = slider('Step', steps.length, now, (to) => { stop(); go(to); });
  const where = h('p.where', { role: 'status' });
  const play = button('▶ Play', { title: 'Play or pause (Space)', onclick: () => toggle() });
  const card = h('div.card.current-step');
  const list = h('ol.steps');
  const files = h('div.pane-body', { tabindex: '0' });
  const thoughts = h('div.pane-body', { tabindex: '0' });
  const calls = h('div.pane-body', { tabindex: '0' });

  const row = (step, place) => h('li',
    button([sign(signOf(step), failed(step) ? 'bad' : 'muted'),
    h('span.muted.number', String(step.number)), h('span.ellipsis', titled(step))], { kind: 'line', title: titled(step), onclick: () => go(place + 1) }));
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

  const seen = new Map(); // the newest lists of files
  let shownKey = null;
  const asking = newest(ctx);
  const drawFiles = () => {
    let key = -1;
    for (let i = now - 1; i >= 0; i -= 1) if (steps[i].kind === 'files' || steps[i].checkpoint) { key = i; break; }
    const changed = steps.slice(0, now).findLast((step) => step.kind === 'files');
    const whole = `${key}:${changed?.number}`;
    if (whole === shownKey) return;
    shownKey = whole;
    const show = (found) => {
      if (!found) return muted('No checkpoint holds the files of this moment.');
      const marks = marksOf(changed);
      const gone = [...marks].filter(([, mark]) => mark === 'deleted').map(([path]) => ({ kind: 'file', path }));
      const saved = found.entries.filter((one) => one.kind !== 'directory');
      const entries = [...saved, ...gone];
      entries.sort((a, b) => marks.has(b.path) - marks.has(a.path) || (a.path < b.path ? -1 : 1));
      return [h('p.sub', 'As saved in ', checkpointLink(found.checkpoint), `: ${plural(saved, 'file')}`),
        h('ul.files.mono', entries.slice(0, FILES).map(({ path, size }) => {
          const mark = marks.get(path);
          return h('li', { class: mark && 'strong' },
            mark ? fileSign(mark) : h('span.file-mark'),
            h('span', { class: mark === 'deleted' ? 'grow gone' : 'grow' }, path),
            h('span.muted.number', size == null ? '' : bytes(size)));
        }), more(entries.length, FILES))];
    };
    // An answer to an earlier step must not come after this one.
    const signal = asking();
    const address = sessionAt(id, `/replay/${steps[now - 1].number}`);
    const query = { files: true, checkpoint: ctx.query.checkpoint };
    fillWith(files, async () => {
      if (!seen.has(key)) seen.set(key, (await get(address, query, { signal })).files);
      if (seen.size > SEEN) seen.delete(seen.keys().next().value);
      return show(seen.get(key));
    });
  };

  const draw = () => {
    const step = steps[now - 1];
    scrubber.value = now;
    fill(where, 'Step ', h('strong', number(step.number)), ` of ${number(all.total)} · `, moment(step.at));
    fill(card, h('div.row', badge(`${signOf(step)} ${word(step.kind)}`, failed(step) ? 'bad' : ''),
      h('strong.grow', titled(step)), step.event && h('a', { href: href('session', id, { event: step.event }) }, 'What it knew then')), (failed(step) && output(step.detail)) || h('pre.output', step.detail.replace(FORK, '') || 'It says no more than that.'));
    const past = steps.slice(0, now);
    const thought = past.filter((one) => one.kind === 'thought' || one.kind === 'prompt').reverse();
    fill(thoughts, thought.length ? h('ul.items',
      thought.slice(0, SHOWN).map((one) => h('li', { class: one === step && 'now' },
      h('div.row', badge(`${signOf(one)} ${one.kind}`, one.kind === 'prompt' ? 'info' : ''), moment(one.at)), h('p', one.detail)))) : muted('No thought yet.'));
    const made = callsOf(past).reverse();
    fill(calls, made.length ? h('ul.items', made.slice(0, SHOWN).map((one) => h('li', h('div.row', badge(...STATES[one.state]), h('code.grow', one.title), moment(one.step.at)), one.state === 'failed' && output(one.output ?? one.detail)))) : muted('No tool call yet.'));
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
    playing = setTimeout(next, PACE);
  };
  const toggle = () => {
    if (playing) { stop(); return; }
    fill(play, '‖ Pause');
    if (now >= steps.length) now = 0;
    next();
  };
  const jump = (by) => { stop(); go(now + by); };
  const toFailure = (by) => {
    for (let i = now - 1 + by; i >= 0 && i < steps.length; i += by) if (failed(steps[i])) { stop(); go(i + 1); return; }
  };
  ctx.onLeave(stop);
  ctx.keys({
    'Play or pause': { ' ': toggle },
    'One step back or forward': { ArrowLeft: () => jump(-1), ArrowRight: () => jump(1) },
    'To the first or last step': { Home: () => jump(-steps.length), End: () => jump(steps.length) },
    'Next or previous failure': { n: () => toFailure(1), N: () => toFailure(-1) },
  });
  const move = (label, words, key, by) => button(label, { 'aria-label': words, title: `${words} (${key})`, onclick: () => jump(by) });
  const pane = (title, body) => h('section.card.pane', { 'aria-label': title }, h('h2', title), body);
  const node = h('div.view.replay-view',
    head(session.task || id, h('span.row', badge('◉ Replay: read-only, nothing changes', 'info'), h('span.mono', id)), linked('Session', href('session', id))),
    h('div.card.scrubber',
      h('div.row', move('|◀', 'First step', 'Home', -steps.length),
        move('◀', 'One step back', '←', -1), play, move('▶', 'One step forward', '→', 1),
        move('▶|', 'Last step', 'End', steps.length), button('✗ Next failure', { title: 'Next failure (n)', onclick: () => toFailure(1) })),
      h('div', scrubber), where),
    card,
    h('div.panes', pane('Steps', h('div.pane-body', { tabindex: '0' }, list)), pane('Files', files), pane('Thoughts', thoughts), pane('Tool calls', calls)));
  draw();
  ctx.onShow(drawList);
  return node;
}

export default { title: (id) => `Replay ${id}`, load };
