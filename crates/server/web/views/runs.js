// Runs: how each run ended, what it changed, and the way back. The start page after a crash.

import { get } from '../api.js';
import { lines } from '../chart.js';
import { href } from '../route.js';
import { badge, bytes, command, copy, duration, empty, facts, h, head, number, plural, section, short, time } from '../ui.js';
import { agentOf, continues, moment, nameOf, total, verdict, verdictBadge } from './session.js';

const ms = (when) => new Date(when).getTime();
const at = (id, rest) => `/api/sessions/${encodeURIComponent(id)}${rest}`;
const FILES_SHOWN = 40;

/** The runs: sessions that no other session sent, the ones that need a look first. */
function runsOf(sessions) {
  const known = new Set(sessions.map((one) => one.id));
  return sessions.filter((one) => !known.has(one.parent) || one.parent === one.id || continues(one, sessions));
}

/** The command that takes a run up again. */
function resumeOf(session, crashed, course) {
  if (crashed?.resume) return crashed.supervised ? `rappel run --session ${session.id} -- ${crashed.resume}` : crashed.resume;
  if (course.resume) return course.resume;
  if (session.exit && session.task) return `rappel run -- ${session.task}`;
  return `rappel recall --session ${session.id}`;
}

/** Files as lines: + new, ~ changed, − deleted, → renamed. */
function filesOf(files, name = 'Files modified') {
  const list = [
    ...files.added.map((path) => ['+', 'new', path]),
    ...files.modified.map((path) => ['~', 'changed', path]),
    ...(files.renamed ?? []).map((one) => ['→', 'renamed', `${one.from ?? one[0]} → ${one.to ?? one[1]}`]),
    ...files.deleted.map((path) => ['−', 'deleted', path]),
  ];
  if (!list.length) return null;
  const row = ([mark, word, path]) => h('li', {}, h('span', { class: 'file-mark', title: word }, mark), h('span', { class: 'visually-hidden' }, `${word}: `), path);
  return h('ul', { class: 'files mono', 'aria-label': name }, list.slice(0, FILES_SHOWN).map(row), list.length > FILES_SHOWN && h('li', { class: 'muted' }, `… and ${number(list.length - FILES_SHOWN)} more`));
}

const countOf = (files) => files.added.length + files.modified.length + files.deleted.length + (files.renamed?.length ?? 0);

function changedOf(changed) {
  if (!changed) return null;
  const { files, git, databases } = changed;
  const count = countOf(files);
  const said = [];
  if (count) said.push(`${plural(count, 'file')}${changed.lines_added == null ? '' : ` (+${number(changed.lines_added)} −${number(changed.lines_removed)} lines)`}`);
  const commit = git?.commit ?? git?.root?.commit;
  if (commit) said.push(`git moved to ${String(commit.to ?? 'no commit').slice(0, 8)}`);
  else if (git) said.push('git changed');
  for (const one of databases) said.push(`database ${one.name} ${one.change}`);
  return said.length ? said.join(', ') : 'nothing';
}

function failed(call) {
  const why = [call.exit_code == null ? null : `exit code ${call.exit_code}`, call.interrupted ? 'never finished' : null].filter(Boolean).join(', ');
  return h('li', {}, h('div', { class: 'row' }, h('span', { class: 'bad', 'aria-hidden': 'true' }, '✗'), h('strong', {}, call.tool ?? 'Command'), h('code', { class: 'grow' }, call.text), why && h('span', { class: 'bad' }, why), moment(call.at)), call.error && h('pre', { class: 'output' }, call.error));
}

function prompt(one, place) {
  const numbers = [
    one.started_at && h('span', {}, moment(one.started_at)),
    h('span', {}, duration(one.duration_ms)),
    one.tool_calls > 0 && h('span', {}, plural(one.tool_calls, 'tool call')),
    one.failed.length > 0 && badge(`✗ ${one.failed.length} failed`, 'bad'),
    total(one.tokens) > 0 && h('span', {}, `${number(total(one.tokens))} tokens`),
    one.peak_rss && h('span', {}, `${bytes(one.peak_rss)} of memory at most`),
    one.compactions > 0 && h('span', {}, `context cut ${one.compactions === 1 ? 'once' : `${one.compactions} times`}`),
  ];
  const { changed } = one;
  const files = changed && filesOf(changed.files, 'Files of this prompt');
  return h('li', { class: 'prompt-card' },
    h('div', { class: 'row spread' }, h('h3', { class: 'grow' }, one.prompt ? [h('span', { class: 'muted', 'aria-hidden': 'true' }, `${place}. `), one.prompt] : 'Before the first prompt'),
      changed?.from && h('a', { class: 'button small', href: href('restore', changed.from), title: `Look at a restore of ${changed.from}` }, 'Back to before this')),
    h('p', { class: 'numbers' }, numbers),
    changed && h('p', {}, 'Changed: ', changedOf(changed), ' ', countOf(changed.files) > 0 && h('a', { href: href('compare', null, { from: changed.from, to: changed.to }) }, 'Compare')),
    files && h('details', {}, h('summary', {}, plural(countOf(changed.files), 'file')), files),
    one.failed.length > 0 && h('ul', { class: 'items' }, one.failed.map(failed)),
    one.verifications.length > 0 && h('ul', { class: 'items' }, one.verifications.map((v) => h('li', {}, badge(v.passed ? '✓ passed' : '✗ failed', v.passed ? 'good' : 'bad'), ' ', v.text))),
    one.ruled_out.length > 0 && h('ul', { class: 'items' }, one.ruled_out.map((r) => h('li', {}, badge('✗ ruled out', ''), ' ', r.text, r.reason && h('span', { class: 'muted' }, ` (${r.reason})`)))),
    one.restored_to.map((id) => h('p', {}, 'Set back to ', h('a', { href: href('checkpoint', id), title: id }, short(id)))),
    one.agents.map((below) => h('details', { class: 'below' }, h('summary', {}, '↳ ', nameOf(below.session), ' ', verdictBadge(below.session), h('span', { class: 'muted' }, ` ${plural(below.totals.tool_calls, 'tool call')}, ${duration(below.duration_ms)}`)), prompts(below))));
}

const says = (one) => one.prompt || one.tool_calls || one.failed.length || one.agents.length;

function prompts(report) {
  let place = 0;
  return h('ol', { class: 'prompts' }, report.prompts.filter(says).map((one) => prompt(one, one.prompt ? place += 1 : 0)));
}

function charts(session, course, checkpoints) {
  const times = [...course.points.map((one) => ms(one.at)), ...checkpoints.map((one) => ms(one.created_at))].filter(Boolean);
  if (!times.length) return null;
  const range = [Math.min(ms(session.started_at) || Infinity, ...times), Math.max(ms(session.ended_at) || 0, ...times)];
  const chart = (title, points, format, base, last) => {
    const high = Math.max(...points.map((p) => p.y), 0);
    return h('figure', {}, h('figcaption', { class: 'row spread' }, h('span', {}, title), h('strong', { class: 'number' }, high ? last : '–')),
      high ? lines({ series: [{ name: title, points, step: base === 10, until: range[1] }], x: range, y: [0, high * 1.08], format, label: `${title} over time, ${last}`, height: 110, base, area: true })
        : h('p', { class: 'chart none muted', style: { height: '110px' } }, title === 'Memory' ? 'Not watched: only rappel run watches memory.' : 'None was recorded.'));
  };
  const memory = checkpoints.filter((one) => one.process?.rss).map((one) => ({ x: ms(one.created_at), y: one.process.rss }));
  const peak = session.exit?.peak_rss ?? Math.max(0, ...memory.map((p) => p.y));
  const step = course.points.filter((one) => one.step_number);
  const tokens = course.points.filter((one) => one.at).map((one) => ({ x: ms(one.at), y: one.tokens }));
  return h('div', { class: 'charts' },
    chart('Memory', memory, bytes, 2, `${bytes(peak)} at most`),
    chart('Tokens', tokens, short10, 10, `${number(course.points.at(-1)?.tokens ?? 0)} tokens`),
    chart('Progress', step.map((one) => ({ x: ms(one.at), y: one.step_number })), (v) => (Number.isInteger(v) ? `step ${v}` : ''), 10, step.length ? `step ${step.at(-1).step_number}${step.at(-1).step ? `: ${step.at(-1).step}` : ''}` : '–'));
}

const short10 = (v) => (v >= 1e6 ? `${v / 1e6} M` : v >= 1000 ? `${v / 1000} k` : String(v));

async function detail(ctx, session, status) {
  const options = { signal: ctx.signal };
  const { id } = session;
  const [report, course, brief, made] = await Promise.all([
    get(at(id, '/report'), {}, options), get(at(id, '/course'), {}, options), get(at(id, '/recall'), {}, options),
    get('/api/checkpoints', { session: id, limit: 200 }, options),
  ]);
  const checkpoints = made.map((one) => one.checkpoint).filter(Boolean).reverse();
  const crashed = status.crashed_sessions.find((one) => one.id === id);
  const found = verdict(session, brief.latest_at);
  const last = brief.last_checkpoint;
  const resume = resumeOf(session, crashed, course);
  const changed = report.changed;
  const files = changed && filesOf(changed.files);
  const unfinished = report.unfinished;
  const { totals } = report;
  const from = changed?.from;
  const to = changed?.to ?? last?.id;
  ctx.keys({
    c: { does: 'Compare with the start', run: () => from && ctx.navigate(href('compare', null, { from, to })) },
    r: { does: 'Restore the last checkpoint', run: () => last && ctx.navigate(href('restore', last.id)) },
    o: { does: 'Open the session', run: () => ctx.navigate(href('session', id)) },
    p: { does: 'Replay', run: () => ctx.navigate(href('replay', id)) },
  });
  return h('div', { class: 'stack run' },
    h('section', { class: `card verdict ${found.kind}`, 'aria-label': 'How it ended' },
      h('div', { class: 'row spread top-row' },
        h('div', { class: 'grow' }, h('h2', {}, nameOf(session)), h('p', { class: 'verdict-text' }, h('span', { class: `big ${found.kind}`, 'aria-hidden': 'true' }, found.mark), h('span', {}, h('strong', {}, found.text), found.at && [found.live ? '; last heard of ' : ' ', time(found.at)], '.'))),
        h('div', { class: 'actions' },
          from && to && h('a', { class: 'button', href: href('compare', null, { from, to }) }, 'Compare with start', h('kbd', { 'aria-hidden': 'true' }, 'c')),
          from && h('a', { class: 'button', href: href('restore', from) }, 'Back to its start'),
          last && h('a', { class: 'button primary', href: href('restore', last.id), title: 'To the last checkpoint of this run' }, 'Restore', h('kbd', { 'aria-hidden': 'true' }, 'r')),
          copy('Copy resume command', resume))),
      crashed?.still_running && h('p', { class: 'note warn' }, `Its command still runs (process ${crashed.still_running}), but nobody saves its work.`),
      unfinished.length > 0 && h('div', { class: `note ${found.live ? '' : 'bad'}` }, h('strong', {}, found.live ? `${plural(unfinished.length, 'tool call')} at work:` : `${plural(unfinished.length, 'tool call')} did not finish:`), unfinished.map((call) => h('div', { class: 'row' }, h('span', {}, call.tool ?? 'Command'), h('code', { class: 'grow' }, call.text), h('span', {}, 'since ', moment(call.at))))),
      facts([
        ['Last checkpoint', last ? h('span', {}, h('a', { href: href('checkpoint', last.id), title: last.id }, last.description || short(last.id)), ' ', time(last.created_at, { class: 'muted' })) : 'none'],
        ['Agent', agentOf(session)],
        ['Began', time(session.started_at)],
        ['Duration', duration(report.duration_ms)],
        ['Tool calls', `${number(totals.tool_calls)}${totals.failed ? `, ✗ ${number(totals.failed)} failed` : ''}`],
        ['Tokens', `${number(total(totals.tokens))} tokens`],
        ['Checks', totals.verifications_passed + totals.verifications_failed ? `✓ ${totals.verifications_passed} passed, ✗ ${totals.verifications_failed} failed` : null],
        ['Files modified', changed ? plural(countOf(changed.files), 'file') : null],
        ['Session', h('a', { href: href('session', id), class: 'mono' }, id)],
        ['Replay', h('a', { href: href('replay', id) }, 'step by step')],
      ]),
      h('div', { class: 'row' }, h('span', { class: 'muted' }, 'Resume with'), command(resume))),
    report.warnings.map((text) => h('p', { class: 'note warn' }, text)),
    report.continued_by.map((next) => h('p', { class: 'note' }, 'Taken up again by ', h('a', { href: href('runs', null, { session: next }) }, next))),
    section('Over time', charts(session, course, checkpoints) ?? h('p', { class: 'muted' }, 'Nothing was recorded.')),
    session.exit?.output?.length > 0 && section('Last lines that it wrote', h('pre', { class: 'output tail', tabindex: '0' }, session.exit.output.join('\n'))),
    files && section('Files modified', h('p', { class: 'sub' }, `${changedOf(changed)}, from the first checkpoint of the run to the last, whoever changed them.`), files),
    section('Prompt by prompt', report.prompts.some(says) ? prompts(report) : empty('No prompt was recorded in this run.', 'rappel record prompt "what the user asked"')));
}

async function load(ctx) {
  const options = { signal: ctx.signal };
  const [{ sessions }, status] = await Promise.all([get('/api/sessions', {}, options), get('/api/status', {}, options)]);
  const runs = runsOf(sessions);
  if (!runs.length) {
    return h('div', { class: 'view' }, head('Runs', 'How each run ended, and the way back.'), empty('No run yet. Start any command with checkpoints from its first second to its end:', 'rappel run -- YOUR COMMAND'));
  }
  const chosen = sessions.find((one) => one.id === ctx.query.session) ?? runs.find((one) => one.process_gone) ?? runs[0];
  const row = (one) => h('li', {}, h('a', { href: href('runs', null, { session: one.id }), 'aria-current': one.id === chosen.id ? 'true' : null },
    h('span', { class: 'name' }, nameOf(one)), h('span', { class: 'row' }, verdictBadge(one), h('span', { class: 'muted' }, agentOf(one)), time(one.ended_at ?? one.started_at, { class: 'muted' }))));
  const step = (by) => {
    const next = runs[runs.indexOf(chosen) + by];
    if (next) ctx.navigate(href('runs', null, { session: next.id }));
  };
  ctx.keys({ j: { does: 'Next or previous run', run: () => step(1) }, k: { does: 'Next or previous run', run: () => step(-1) } });
  let soon = null;
  ctx.on('*', (data, name) => {
    if (name === 'session.started' || name === 'session.ended' || data?.session === chosen.id) soon ??= setTimeout(() => ctx.reload(), 2000);
  });
  ctx.onLeave(() => clearTimeout(soon));
  const failed = runs.filter((one) => one.process_gone || one.status === 'failed').length;
  return h('div', { class: 'view' },
    head('Runs', `${plural(runs.length, 'run')}${failed ? `, ✗ ${failed} failed or crashed` : ''}.`),
    h('div', { class: 'sides' }, h('aside', { class: 'run-list card flush', 'aria-label': 'All runs' }, h('ul', {}, runs.slice(0, 100).map(row))), await detail(ctx, chosen, status)));
}

export default { title: () => 'Runs', load };
