// One session at any moment: what it knew, what it did, and when. The scrubber moves all of it.

import { get, session as sessionAt } from '../api.js';
import { colour, lines, mark } from '../chart.js';
import { graph } from '../graph.js';
import { href } from '../route.js';
import {
  attempt, badge, button, copy, duration, empty, facts, fill, h, head, HIDDEN, linked, moment, ms,
  muted, newest, number, percent, plural, search, seconds, section, segmented, short, sign, slider,
  tick, time,
} from '../ui.js';
import { output, passed } from '../failing.js';
import { checkpointLink, MARKS } from '../words.js';

// A tree with more entries than this begins folded.
const MANY = 200;

const SIGNALS = { 2: 'INT', 6: 'ABRT', 9: 'KILL', 11: 'SEGV', 13: 'PIPE', 15: 'TERM' };

// How a session stands or ended: {word, text, kind, mark, at, live}.
export function verdict(session, last = null) {
  const { exit = {}, status, end_reason: reason } = session;
  const { signal, code } = exit;
  const at = session.ended_at ?? last;
  const ended = (word, text, kind = 'bad', mark = '✗') => ({ word, text, kind, mark, at });
  const stands = (...how) => ({ ...ended(...how), live: true });
  if (exit.oom_kills > 0) return ended('out of memory', 'It ran out of memory: the system stopped it');
  if (session.process_gone) return ended('crashed', 'It crashed: its process is gone');
  if (signal) {
    const name = SIGNALS[signal] ? ` (${SIGNALS[signal]})` : '';
    return ended('crashed', `It crashed: signal ${signal}${name} stopped it`);
  }
  if (status === 'failed') {
    const why = code ? ` with exit code ${code}` : reason ? `: ${reason}` : '';
    return ended('failed', `It failed${why}`);
  }
  if (status === 'completed') {
    return ended('finished', `It finished${code === 0 ? ' with exit code 0' : ''}`, 'good', '✓');
  }
  if (session.set_back_to) return stands('set back', 'A restore set it back. It waits to be resumed', '', '↺');
  if (status === 'paused') return stands('paused', 'It waits to be resumed', 'warn', '‖');
  return stands('running', 'It is running', 'info', '▶');
}

export function verdictBadge(session) {
  const found = verdict(session);
  return badge(`${found.mark} ${found.word}`, found.kind);
}

export const continues = ({ parent, assistant_session_id: own }, sessions) =>
  own != null && sessions.some((one) => one.id === parent && one.assistant_session_id === own);
export const nameOf = (session) => session.task || session.id;
export const agentOf = (session) => session.provider ?? (session.exit || session.process ? 'command' : 'agent');
export const total = (tokens) => tokens.input + tokens.output + tokens.cache_read + tokens.cache_write;

export function said(value) {
  if (value == null) return '';
  if (typeof value !== 'object') return String(value);
  for (const key of ['command', 'file_path', 'pattern', 'path', 'query', 'url', 'description', 'prompt']) if (typeof value[key] === 'string') return value[key];
  return JSON.stringify(value);
}
const whole = (value) => (value == null ? '' : typeof value === 'string' ? value : JSON.stringify(value, null, 2));

// Everything that a state tells of, in the order of time: what the tree, the bars and the log show.
function activity(state, end) {
  const all = [];
  const add = (kind, from, title, more = {}) => all.push({ kind, from: ms(from), to: ms(more.end ?? from), title, ...more });
  for (const one of state.prompts) add('prompt', one.created_at, one.text, { id: one.id });
  for (const one of state.thought_chain) add('thought', one.created_at, one.content,
    { id: one.id, detail: one.confidence == null ? '' : `${percent(one.confidence)} sure` });
  for (const one of state.tool_state.calls) {
    const running = !one.completed_at;
    add('tool', one.started_at, `${one.tool}  ${said(one.arguments)}`, {
      id: one.id, shell: one.arguments?.command, end: one.completed_at ?? new Date(end).toISOString(), running, failed: one.success === false,
      detail: [whole(one.arguments), whole(one.result), one.error].filter(Boolean).join('\n\n'),
    });
  }
  for (const one of state.command_history) {
    // A shell call that a hook told of stands there as a tool call already.
    const call = all.find((tool) => tool.kind === 'tool' && tool.shell === one.command && ms(one.timestamp) >= tool.from && ms(one.timestamp) <= tool.to + 1000);
    if (call) {
      const more = [one.stdout_preview, one.stderr_preview].filter((text) => text && !call.detail.includes(text.trim()));
      if (one.exit_code) Object.assign(call, { failed: true, detail: [call.detail, ...more, `exit code ${one.exit_code}`].join('\n\n') });
      continue;
    }
    add('command', one.timestamp, one.command,
      { id: one.id, failed: Boolean(one.exit_code),
      detail: [one.exit_code == null ? '' : `exit code ${one.exit_code}`, one.stdout_preview, one.stderr_preview].filter(Boolean).join('\n') });
  }
  for (const one of state.verification_results) add('check', one.created_at, one.text, { id: one.id, failed: !one.passed, detail: one.output ?? '' });
  for (const one of state.notes) add('note', one.created_at, one.text, { id: one.id });
  return all.sort((a, b) => a.from - b.from);
}

const signOf = (one) => (one.failed ? '✗' : one.running ? '▶' : MARKS[one.kind]);
const outcome = (one) => (one.failed ? 'failed' : one.running ? 'not finished' : one.kind === 'check' ? 'passed' : '');

function hypotheses(now, course, range, goTo) {
  const series = new Map();
  for (const point of course.points) {
    for (const one of point.hypotheses) {
      const list = series.get(one.id) ?? series.set(one.id, []).get(one.id);
      const x = ms(one.updated_at);
      if (list.at(-1)?.x !== x || list.at(-1)?.y !== one.confidence) list.push({ x, y: one.confidence, event: point.event });
    }
  }
  const ids = [...series.keys()];
  const chart = ids.length ? lines({
    series: ids.map((id) => ({ name: now.hypotheses.find((one) => one.id === id)?.text ?? id, points: series.get(id).sort((a, b) => a.x - b.x), step: true })),
    x: range, y: [0, 1], format: percent, label: 'Confidence in each hypothesis over time', height: 190, at: range[1], pick: goTo,
  }) : null;
  const list = h('ul.items');
  const body = section('Hypotheses', h('p.sub', 'How sure the agent was over time. Click the chart to go to that moment.'), chart, list);
  const KINDS = { confirmed: ['✓ confirmed', 'good'], rejected: ['✗ ruled out', 'bad'], testing: ['◐ being tested', 'info'], open: ['○ open', ''] };
  const draw = (state, at) => {
    chart?.at(at);
    fill(list, state.hypotheses.map((one) => {
      const place = Math.max(0, ids.indexOf(one.id));
      const evidence = state.evidence.filter((e) => e.for === one.id);
      return h('li',
        h('div.row', h('span', { style: { color: colour(place) }, ...HIDDEN }, mark(place)), h('strong.grow', one.text), badge(...KINDS[one.status]), h('span.number', percent(one.confidence))),
        one.reason && h('p.sub', `Why: ${one.reason}`),
        evidence.length && h('ul.evidence', evidence.map((e) => h('li', badge(e.supports ? '+ for' : '− against', e.supports ? 'good' : 'bad'), ' ', e.text, h('span.muted', ` · weight ${percent(e.weight)}`)))));
    }), ids.length && !state.hypotheses.length && none());
  };
  return { body, draw };
}

const none = () => h('li.muted', 'None yet at this moment.');

function beliefs() {
  const body = h('div.stack');
  const draw = (state) => {
    const against = new Set(state.contradictions.flatMap((one) => [one.first, one.second]));
    const names = new Map([...state.beliefs, ...state.hypotheses].map((one) => [one.id, one.text]));
    fill(body, state.beliefs.length
      ? [state.contradictions.map((one) => h('p.note.bad',
        `✗ These cannot both hold: “${names.get(one.first) ?? one.first}” and “${names.get(one.second) ?? one.second}”.`)),
        h('p.sub', 'A belief stands below those that it depends on.'), graph(state.beliefs, state.belief_dependencies, against)]
      : h('ul', none()));
  };
  return { body: section('Beliefs', body), draw };
}

function listed(title, items) {
  const list = h('ul.items');
  const body = section(title, list);
  const draw = (state) => {
    const found = items(state);
    fill(list, found.length ? found : none());
  };
  return { body, draw };
}

const gaps = () => listed('Gaps', (state) => state.gaps.map((one) => h('li',
  h('div.row', badge(one.filled ? '✓ answered' : '? open', one.filled ? 'good' : 'warn'), h('span.grow', one.text)), one.filled && h('p.sub', `Answer: ${one.answer}`))));

const checks = () => listed('Verifications', (state) => [...state.verification_results].reverse().sort((a, b) => a.passed - b.passed).map((one, at) => h('li',
  h('div.row', passed(one.passed),
    h('span.grow', one.text), moment(one.created_at)),
  one.output && h('details', { open: at === 0, 'data-key': one.id }, h('summary.muted', 'Output'), output(one.output)))));

const notes = () => listed('Notes', (state) => [...state.notes].reverse().map((one) => h('li', h('div.row', h('span.grow', one.text), moment(one.created_at)))));

function work(ctx, range) {
  const chosen = { how: ctx.query.show === 'log' ? 'log' : 'tree', failures: ctx.query.failures === 'yes', text: ctx.query.find ?? '' };
  const place = h('div.work');
  const { open, toggled } = ctx.kept.work ??= { open: new Set(), toggled: new Set() };
  let items = [];
  let omitted = 0;
  const keep = () => ctx.keep({ show: chosen.how === 'log' ? 'log' : null, failures: chosen.failures ? 'yes' : null, find: chosen.text || null });
  const ways = segmented('How to show it', [['tree', 'Tree and bars'], ['log', 'Log']], chosen.how,
    (how) => { chosen.how = how; keep(); draw(); });
  const find = search('Search in what happened', (text) => { chosen.text = text; keep(); draw(); }, { value: chosen.text });
  const failing = tick('Only failures', chosen.failures, (on) => { chosen.failures = on; keep(); draw(); });
  const count = h('span.muted', { role: 'status' });

  const wanted = () => {
    const text = chosen.text.toLowerCase();
    return items.filter((one) => (!chosen.failures || one.failed) && (!text || `${one.kind} ${one.title} ${one.detail ?? ''}`.toLowerCase().includes(text)));
  };
  const [from, to] = range;
  const bar = (one) => {
    const span = to - from || 1;
    const left = Math.max(0, Math.min(99.2, ((one.from - from) / span) * 100));
    const wide = one.to > one.from ? Math.max(0.4, ((Math.min(one.to, to) - one.from) / span) * 100) : 0;
    return h('span',
      { class: `bar-of of-${one.kind} ${one.failed ? 'failed' : ''} ${one.running ? 'open' : ''}`, style: { left: `${left}%`, width: wide ? `${wide}%` : '4px' } });
  };
  const row = (one) => {
    const key = `${one.kind}${one.id}`;
    const took = one.kind === 'tool' && !one.running && one.to > one.from ? duration(one.to - one.from) : outcome(one);
    const detail = h('pre.output', { hidden: !open.has(key) }, [one.title, one.detail].filter(Boolean).join('\n\n'));
    const name = button([sign(signOf(one), one.failed ? 'bad' : 'muted'), h('span.ellipsis', one.title)], {
      kind: 'line', 'aria-expanded': String(open.has(key)), 'aria-label': `${one.kind}${outcome(one) ? `, ${outcome(one)}` : ''}: ${one.title.slice(0, 200)}`,
      onclick: () => { if (!open.delete(key)) open.add(key); detail.hidden = !open.has(key); name.setAttribute('aria-expanded', String(open.has(key))); },
    });
    const told = `${seconds(one.from)}${took ? ` · ${took}` : ''}`;
    return h('li', { class: one.failed && 'failed' },
      h('div.bar-row', name, h('span.track', { title: told }, bar(one)),
      h('span', { class: `took ${one.failed ? 'bad' : 'muted'}` }, one.failed ? `✗ ${one.kind === 'tool' ? took : 'failed'}` : took)), detail);
  };
  const tree = (list) => {
    const wanted = new Set(list);
    let groups = [{ prompt: null, rest: [] }];
    for (const one of items) {
      if (one.kind === 'prompt') groups.push({ prompt: one, rest: [] });
      else if (wanted.has(one)) groups.at(-1).rest.push(one);
    }
    // A filtered tree keeps the prompts that its entries belong to.
    groups = groups.filter(({ prompt, rest }) => rest.length || wanted.has(prompt));
    return [h('p.sub',
      'All bars share one scale: the time of the whole session. A grey bar is a prompt at work.'),
      h('ul.tree', h('li.bar-row.axis-row', HIDDEN, h('span'),
      h('span.track', h('span', seconds(range[0])), h('span', seconds(range[1]))), h('span.took')),
      groups.map(({ prompt, rest }, place) => {
        const key = prompt?.id ?? '';
        const shown = !prompt || toggled.has(key) !== (list.length <= MANY || place === groups.length - 1);
        const last = Math.max(prompt?.from ?? 0, ...rest.map((one) => one.to));
        const below = h('ul', shown && rest.slice(0, 1000).map(row));
        const failed = rest.filter((one) => one.failed).length;
        if (!prompt) return h('li', below);
        const name = button([sign(shown ? '▾' : '▸', ''), h('span.ellipsis', prompt.title)], {
          kind: 'line heading', id: `prompt-${key}`, 'aria-expanded': String(shown), title: prompt.title,
          onclick: () => { if (!toggled.delete(key)) toggled.add(key); draw(); document.getElementById(`prompt-${key}`)?.focus(); },
        });
        return h('li', h('div.bar-row', name, h('span.track', bar({ ...prompt, to: last })),
          h('span', { class: `took ${failed ? 'bad' : 'muted'}` }, failed ? `✗ ${failed} failed` : duration(last - prompt.from))), below);
      }))];
  };
  const log = (list) => h('pre.output.log', { tabindex: '0', 'aria-label': 'What happened, as text' }, list.map((one) => {
    const begin = `${seconds(one.from)} ${signOf(one)} ${one.kind.padEnd(8)}`;
    const text = [one.title, one.detail].filter(Boolean).join('\n').replaceAll('\n', `\n${' '.repeat(begin.length)}`);
    return h('span', { class: one.failed ? 'bad' : one.kind === 'prompt' ? 'strong' : null }, `${begin}${one.failed ? 'FAILED ' : ''}${text}\n`);
  }));
  const draw = () => {
    const list = wanted();
    fill(count, `${plural(list, 'entry', 'entries')}${omitted ? `; ${number(omitted)} older ones are not shown` : ''}`);
    const nothing = chosen.failures ? 'Nothing failed.' : chosen.text ? 'Nothing says that.' : 'Nothing happened yet.';
    fill(place, !list.length ? muted(nothing) : chosen.how === 'log' ? log(list) : tree(list));
  };
  const body = section('What happened', h('div.row', ways, find, failing, count), place);
  return {
    body,
    focus: () => find.focus(),
    failures: () => failing.click(),
    log: () => ways.press(chosen.how === 'log' ? 'tree' : 'log'),
    draw: (state, at) => { items = activity(state, at); omitted = Object.values(state.omitted).reduce((a, b) => a + b, 0); draw(); },
  };
}

async function load(ctx) {
  const { id } = ctx;
  const [session, latest, course, report] = await Promise.all([
    get(sessionAt(id), {}, ctx), get('/api/at', { session: id, when: 'now' }, ctx), get(sessionAt(id, '/course'), {}, ctx),
    get(sessionAt(id, '/report'), {}, ctx),
  ]);
  const failures = report.prompts.flatMap((one) => one.failed).map((one) => ms(one.at));
  const last = Math.max(1, latest.event);
  const begin = ms(session.started_at ?? latest.at ?? Date.now());
  const times = course.points.map((one) => ms(one.at)).filter(Boolean);
  const range = [Math.min(begin, ...times), session.ended_at ? ms(session.ended_at) : Math.max(ms(latest.at ?? Date.now()), ...times)];
  let event = Math.min(last, Math.max(1, Number(ctx.query.event) || last));
  const kept = { ...ctx.query };
  ctx.keep = (changes) => ctx.setQuery(Object.assign(kept, changes));

  const scrubber = slider('Moment in the session', last, event, (to) => move(to));
  const where = h('p.where', { role: 'status' });
  const numbers = h('div');
  const goTo = (at) => {
    let best = course.points[0];
    for (const point of course.points) if (ms(point.at) <= at) best = point;
    if (best) move(best.event);
  };
  const now = latest.state;
  const parts = [hypotheses(now, course, range, goTo), beliefs(), gaps(), checks(), notes()];
  const lists = [now.hypotheses, now.beliefs, now.gaps, now.verification_results, now.notes];
  const known = lists.map((list, place) => (list.length && parts[place].body));
  const beside = (name, nodes) => (nodes.some(Boolean) && h('div', { class: name }, nodes));
  const doing = work(ctx, range);
  parts.push(doing);

  const draw = (found) => {
    const at = found.event === last ? range[1] : Math.min(range[1], ms(found.at));
    const past = found.event < last;
    fill(where, h('span', past ? 'As it was ' : 'Now: ', 'after event ', h('strong', number(found.event)), ` of ${number(last)}, `, found.at ? moment(found.at) : ''),
      found.checkpoint && h('span', ' · last checkpoint before it: ',
        checkpointLink(found.checkpoint, found.sequence == null ? short(found.checkpoint) : `#${found.sequence}`)));
    const { progress, metrics } = found.state;
    const failed = failures.filter((one) => one <= at).length;
    fill(numbers, facts([
      ['Step', progress.step_number ? `${progress.step_number}${progress.text ? `: ${progress.text}` : ''}` : null],
      ['Tool calls', `${number(progress.total_tool_calls)}${failed ? `, ✗ ${number(failed)} failed` : ''}`],
      ['Thoughts', progress.total_thoughts || null],
      ['Tokens', total(progress.tokens) && number(total(progress.tokens))],
      ['Checkpoints', number(metrics.checkpoints_created)],
      ['Time at work', duration(metrics.time_in_debugging)],
      ['Approach', found.state.branches.length && found.state.current_branch],
      ['Files changed', found.state.files_touched.length && plural(found.state.files_touched, 'file')],
    ]));
    for (const part of parts) part.draw(found.state, at);
  };
  const asking = newest(ctx);
  const move = (to) => {
    event = Math.min(last, Math.max(1, to));
    scrubber.value = event;
    ctx.keep({ event: event === last ? null : event });
    const signal = asking();
    if (event === last) { draw(latest); return; }
    attempt(async () => {
      const found = await get('/api/at', { session: id, event }, { signal });
      if (!signal.aborted) draw(found);
    });
  };
  ctx.keys({
    'Only failures': { f: () => doing.failures() },
    'Log, or tree and bars': { l: () => doing.log() },
    Search: { '/': () => doing.focus() },
    'One event back or forward': { ArrowLeft: () => move(event - 1), ArrowRight: () => move(event + 1) },
    'To the beginning or to now': { Home: () => move(1), End: () => move(last) },
  });
  ctx.on('*', (data) => { if (data?.session === id && event === last) ctx.reloadSoon(1500); });

  const node = h('div.view.session-view',
    head(nameOf(session), h('span.row', verdictBadge(session), agentOf(session), h('span.mono', id),
      h('span', 'began ', time(session.started_at)), session.parent && h('a', { href: href('session', session.parent) }, 'the session it came from')),
      linked('Report', href('runs', null, { session: id })), linked('Replay', href('replay', id), { key: 'p' }), course.resume && copy('Copy resume command', course.resume)),
    h('div.card.scrubber',
      h('div.row', button('◀', { kind: 'small', 'aria-label': 'One event back (←)', onclick: () => move(event - 1) }), h('div.grow', scrubber),
        button('▶', { kind: 'small', 'aria-label': 'One event forward (→)', onclick: () => move(event + 1) }), button('Now', { kind: 'small', title: 'To the end (End)', onclick: () => move(last) })),
      where),
    h('div.card', numbers),
    beside('grid', known.slice(0, 2)), beside('grid thirds', known.slice(2)),
    doing.body,
    known.some(Boolean) ? null : section('What it knew',
      empty('The agent recorded no hypotheses, beliefs, gaps, checks or notes. An agent records them like this:', 'rappel record hypothesis "the index is stale" --confidence 0.6')));
  draw(latest);
  if (event !== last) draw(await get('/api/at', { session: id, event }, ctx));
  return node;
}

export default { title: (id) => `Session ${id}`, load };
