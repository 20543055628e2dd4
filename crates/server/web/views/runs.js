// Runs: how each run ended, what it changed, and the way back. The start page after a crash.

import { get, session as sessionAt } from '../api.js';
import { lines } from '../chart.js';
import { names } from '../diff.js';
import * as failing from '../failing.js';
import { comparison, href } from '../route.js';
import {
  badge, bytes, command, copy, duration, empty, exact, facts, h, head, HIDDEN, linked, moment, more,
  ms, muted, number, plural, section, sign, time,
} from '../ui.js';
import { undoBar } from '../undo.js';
import { checkpointLink, isFailed, loadSessions, titleOf, watchSessions } from '../words.js';
import { agentOf, continues, nameOf, total, verdict, verdictBadge } from './session.js';

const FAILED_SHOWN = 8;
const RUNS = 100;

// The runs: sessions that no other session sent, newest first.
function runsOf(sessions) {
  const known = new Set(sessions.map((one) => one.id));
  return sessions.filter((one) => !known.has(one.parent) || one.parent === one.id || continues(one, sessions));
}

function resumeOf(session, crashed, course) {
  if (crashed?.resume) return crashed.supervised ? `rappel run --session ${session.id} -- ${crashed.resume}` : crashed.resume;
  if (course.resume) return course.resume;
  if (session.exit && session.task) return `rappel run -- ${session.task}`;
  return `rappel recall --session ${session.id}`;
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

function failed({ tool, text, exit_code: code, at, error, interrupted }, ...more) {
  const why = [code != null && `exit code ${code}`, interrupted && 'never finished'].filter(Boolean).join(', ');
  return h('li', h('div.row', sign('✗', 'bad'), h('span', tool ?? 'Command'), h('code.grow.strong', text),
    why && h('span.bad', why), moment(at), more), failing.output(error));
}

function prompt(one, place) {
  const numbers = [
    one.started_at && h('span', moment(one.started_at)),
    h('span', duration(one.duration_ms)),
    one.tool_calls && h('span', plural(one.tool_calls, 'tool call')),
    one.failed.length && badge(`✗ ${one.failed.length} failed`, 'bad'),
    total(one.tokens) && h('span', `${number(total(one.tokens))} tokens`),
    one.peak_rss && h('span', `${bytes(one.peak_rss)} of memory at most`),
    one.compactions && h('span', `context cut ${one.compactions === 1 ? 'once' : `${one.compactions} times`}`),
  ];
  const { changed } = one;
  const count = changed ? countOf(changed.files) : 0;
  return h('li.prompt-card', { 'data-key': one.started_at },
    h('div.row.spread', h('h3.grow', one.prompt
      ? [h('span.muted', HIDDEN, `${place}. `), one.prompt]
      : 'Before the first prompt'),
      changed?.from && linked('Back to before this', href('restore', changed.from), { kind: 'small' })),
    h('p.numbers', numbers),
    changed && h('p', 'Changed: ', changedOf(changed), ' ', count && h('a', { href: comparison(changed.from, changed.to) }, 'Compare')),
    count && h('details', h('summary', plural(count, 'file')), names(changed.files, { label: 'Files of this prompt' })),
    one.failed.length && h('ul.items', one.failed.map((call) => failed(call))),
    one.verifications.length && h('ul.items',
      one.verifications.map((v) => h('li', failing.passed(v.passed), ' ', v.text))),
    one.ruled_out.length && h('ul.items', one.ruled_out.map((r) => h('li', badge('✗ ruled out', ''), ' ', r.text, r.reason && h('span.muted', ` (${r.reason})`)))),
    one.restored_to.map((id) => h('p', 'Set back to ', checkpointLink(id))),
    one.agents.map((below) => h('details.below', { 'data-key': below.session.id },
      h('summary', '↳ ', nameOf(below.session), ' ', verdictBadge(below.session),
      h('span.muted', ` ${plural(below.totals.tool_calls, 'tool call')}, ${duration(below.duration_ms)}`)), prompts(below))));
}

function whatFailed(report, outcomes) {
  const known = outcomes.filter((one) => !one.passed).map((one) => ({ ...one, tool: one.kind === 'verification' ? 'Check' : one.tool,
    one: report.prompts.findLast((prompt) => prompt.started_at <= one.at) ?? report.prompts[0] }));
  // A check is often recorded beside the command that ran it.
  const rows = known.filter((a) => a.tool === 'Check' || !known.some((b) => b.tool === 'Check' && b.one === a.one && b.text === a.text));
  if (!rows.length) return null;
  const row = (call) => failed(call, call.one?.changed?.from && linked('Back to before this prompt',
    href('restore', call.one.changed.from, { before: call.text }), { kind: 'small', title: call.prompt }));
  return section(`✗ What failed (${number(rows.length)})`, h('ul.items.failing', rows.slice(0, FAILED_SHOWN).map(row)),
    rows.length > FAILED_SHOWN && muted(`… and ${number(rows.length - FAILED_SHOWN)} more, prompt by prompt below.`));
}

const says = (one) => one.prompt || one.tool_calls || one.failed.length || one.agents.length;

function prompts(report) {
  let place = 0;
  return h('ol.prompts', report.prompts.filter(says).map((one) => prompt(one, one.prompt ? place += 1 : 0)));
}

function charts(session, course, checkpoints) {
  const times = [...course.points.map((one) => ms(one.at)), ...checkpoints.map((one) => ms(one.created_at))].filter(Boolean);
  if (!times.length) return null;
  const range = [Math.min(ms(session.started_at) || Infinity, ...times), session.ended_at ? ms(session.ended_at) : Math.max(...times)];
  const chart = (title, points, format, base, last) => {
    const high = Math.max(...points.map((p) => p.y), 0);
    const series = [{ name: title, points, step: base === 10, until: range[1] }];
    return high && h('figure', h('figcaption.row.spread', h('span', title), h('strong.number', last)),
      lines({ series, x: range, y: [0, high * 1.08], format, label: `${title} over time, ${last}`, height: 110, base, area: true }));
  };
  const memory = checkpoints.filter((one) => one.process?.rss).map((one) => ({ x: ms(one.created_at), y: one.process.rss }));
  const peak = session.exit?.peak_rss ?? Math.max(0, ...memory.map((p) => p.y));
  const step = course.points.filter((one) => one.step_number);
  const tokens = course.points.filter((one) => one.at).map((one) => ({ x: ms(one.at), y: one.tokens }));
  const found = [
    chart('Memory', memory, bytes, 2, `${bytes(peak)} at most`),
    chart('Tokens', tokens, short10, 10, `${number(course.points.at(-1)?.tokens ?? 0)} tokens`),
    chart('Progress', step.map((one) => ({ x: ms(one.at), y: one.step_number })),
      (v) => (Number.isInteger(v) ? `step ${v}` : ''), 10, step.length ? `step ${step.at(-1).step_number}${step.at(-1).step ? `: ${step.at(-1).step}` : ''}` : '–'),
  ].filter(Boolean);
  return found.length && section('Over time', h('div.grid.charts', found));
}

const short10 = (v) => (v >= 1e6 ? `${v / 1e6} M` : v >= 1000 ? `${v / 1000} k` : String(v));

async function detail(ctx, session, status, told, fails) {
  const { id } = session;
  const [report, course, brief, made] = await Promise.all([
    get(sessionAt(id, '/report'), {}, ctx), get(sessionAt(id, '/course'), {}, ctx), get(sessionAt(id, '/recall'), {}, ctx),
    get('/api/checkpoints', { session: id, limit: 200 }, ctx),
  ]);
  const checkpoints = made.map((one) => one.checkpoint).filter(Boolean).reverse();
  const crashed = status.crashed_sessions.find((one) => one.id === id);
  const found = verdict(session, brief.latest_at);
  const last = brief.last_checkpoint;
  const resume = resumeOf(session, crashed, course);
  const again = resume.startsWith('rappel recall') ? 'recall' : 'resume';
  const { changed, unfinished, totals } = report;
  const from = changed?.from;
  const to = changed?.to ?? last?.id;
  return h('div.stack.run',
    h('section', { class: `card verdict ${found.kind}`, 'aria-label': 'How it ended' },
      h('div.row.spread.top-row',
        h('div.grow', h('h2', nameOf(session)),
          h('p.verdict-text', h('span.big', { class: found.kind, ...HIDDEN }, found.mark), h('span', h('strong', found.text), found.at && [found.live ? '; last heard of ' : ' ', time(found.at)], '.'), fails)),
        h('div.actions',
          from && to && linked('Compare with start', comparison(from, to), { key: 'c' }),
          from && linked('Back to before this run', href('restore', from), { key: 'b', title: 'To the state before its first change' }),
          last?.restorable && linked('Restore its last state', href('restore', last.id), { key: 'r', title: `To its last checkpoint, ${exact(last.created_at)}` }),
          copy(`Copy ${again} command`, resume))),
      crashed?.still_running && h('p.note.warn', `Its command still runs (process ${crashed.still_running}), but nobody saves its work.`),
      unfinished.length && h('div.note', { class: found.live ? '' : 'bad' },
        h('strong', `${plural(unfinished, 'tool call')} ${found.live ? 'at work' : 'did not finish'}:`),
        unfinished.map((call) => h('div.row', h('span', call.tool ?? 'Command'), h('code.grow', call.text), h('span', 'since ', moment(call.at))))),
      facts([
        ['Last checkpoint', last ? h('span', checkpointLink(last.id, titleOf(checkpoints.find((one) => one.id === last.id) ?? last)), ' ', time(last.created_at, { class: 'muted' })) : 'none'],
        ['Agent', agentOf(session)],
        ['Began', time(session.started_at)],
        ['Duration', duration(report.duration_ms)],
        ['Tool calls', `${number(totals.tool_calls)}${totals.failed ? `, ✗ ${number(totals.failed)} failed` : ''}`],
        ['Tokens', total(totals.tokens) && number(total(totals.tokens))],
        ['Checks', totals.verifications_passed + totals.verifications_failed && `✓ ${totals.verifications_passed} passed, ✗ ${totals.verifications_failed} failed`],
        ['Files modified', changed && plural(countOf(changed.files), 'file')],
        ['Session', h('a.mono', { href: href('session', id) }, id)],
        ['Replay', h('a', { href: href('replay', id) }, 'step by step')],
      ]),
      h('div.row', h('span.muted', again === 'resume' ? 'Resume with' : 'What it knew'), command(resume))),
    report.warnings.map((text) => h('p.note.warn', text)),
    report.continued_by.map((next) => h('p.note', 'Taken up again by ', h('a', { href: href('runs', null, { session: next }) }, next))),
    whatFailed(report, told.outcomes.filter((one) => one.session === id)),
    charts(session, course, checkpoints),
    session.exit?.output?.length && section('Last lines that it wrote', h('pre.output.end', { tabindex: '0' }, session.exit.output.join('\n'))),
    changed && countOf(changed.files) && section('Files modified',
      h('p.sub', `${changedOf(changed)}, from the first checkpoint of the run to the last, whoever changed them.`), names(changed.files, { label: 'Files modified' })),
    section('Prompt by prompt',
      report.prompts.some(says) ? prompts(report) : empty('No prompt was recorded in this run.', 'rappel record prompt "what the user asked"')));
}

async function load(ctx) {
  const [sessions, status, told] = await Promise.all([loadSessions(ctx), get('/api/status', {}, ctx), failing.load(ctx)]);
  const runs = runsOf(sessions);
  if (!runs.length) {
    return h('div.view', head('Runs', 'How each run ended, and the way back.'),
      empty('No run yet. Start any command with checkpoints from its first second to its end:', 'rappel run -- YOUR COMMAND'));
  }
  const chosen = sessions.find((one) => one.id === ctx.query.session) ?? runs.find((one) => one.process_gone) ?? runs[0];
  const row = (one) => h('li', h('a', { href: href('runs', null, { session: one.id }), 'aria-current': one.id === chosen.id && 'true' },
    h('span.name', nameOf(one)), h('span.row', verdictBadge(one), fails(one), h('span.muted', agentOf(one)), time(one.ended_at ?? one.started_at, { class: 'muted' }))));
  const fails = ({ id }) => {
    const found = failing.checks(told, id);
    return found.length && badge(`✗ ${plural(found, 'check fails', 'checks fail')}`, 'bad', { title: found.map((one) => one.text).join('\n') });
  };
  const step = (by) => {
    const next = runs[runs.indexOf(chosen) + by];
    if (next) ctx.go('runs', null, { session: next.id });
  };
  ctx.keys({ 'Next or previous run': { j: () => step(1), k: () => step(-1) } });
  ctx.on('*', (data, name) => {
    if (/^(session\.(started|ended)|restore\..*)$/.test(name) || data?.session === chosen.id) ctx.reloadSoon(2000);
  });
  watchSessions(ctx, sessions);
  const bad = runs.filter(isFailed).length;
  return h('div.view',
    head('Runs', `${plural(runs, 'run')}${bad ? `, ✗ ${bad} failed or crashed` : ''}.`),
    status.latest && await undoBar(ctx), failing.card(told),
    h('div.sides', h('aside.run-list.card.flush', { 'aria-label': 'All runs' }, h('ul', runs.slice(0, RUNS).map(row), more(runs.length, RUNS))), await detail(ctx, chosen, status, told, fails(chosen))));
}

export default { load };
