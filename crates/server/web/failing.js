// What fails now, since when, and the ways back: the first thing to see after a bad night.

import * as api from './api.js';
import { comparison, href } from './route.js';
import {
  ago, badge, exact, failure, h, linked, moment, muted, number, plural, sign as mark, time,
} from './ui.js';
import { loadSessions, sessionLink } from './words.js';

// So many are shown at once; the rest is folded.
const SHOWN = 3;
// A check and the command that ran it are told of within so many events.
const NEAR = 3;

// The outcomes of checks and tool calls: {failing, outcomes}. A check that was told of twice, as a
// verification and as the command that ran it, counts once. Without them (`error` says why) the
// page still works.
export async function load(ctx) {
  try {
    const [told] = await Promise.all([api.get('/api/outcomes', { limit: 1000 }, ctx), loadSessions(ctx)]);
    return merge(told);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return { failing: [], outcomes: [], error };
  }
}

const near = (a, b) => a.session === b.session && a.prompt_at === b.prompt_at && Math.abs(a.event - b.event) <= NEAR;
const alike = (a, b) => a.text.includes(b.text) || b.text.includes(a.text) || (a.bad === b.bad && a.good === b.good && a.times === b.times);
const cut = (text) => (text.length > 140 ? `${text.slice(0, 139)}…` : text);
const isCheck = (one) => one.kind === 'verification';

function merge({ failing, outcomes }) {
  const ran = new Map(); // a check -> the command that ran it
  for (const one of failing.filter(isCheck)) {
    const run = failing.find((other) => !isCheck(other) && near(one, other) && alike(one, other));
    if (run) ran.set(one, run);
  }
  const commands = [...ran.values()];
  const named = (one) => {
    const [text, also] = [one.text, ran.get(one)?.text ?? one.text].sort((a, b) => a.length - b.length);
    return { ...one, text, also: also === text ? null : also };
  };
  const twice = (one) => commands.some((run) => run.session === one.session && run.text === one.text)
    && outcomes.some((other) => isCheck(other) && near(one, other));
  return { failing: failing.filter((one) => !commands.includes(one)).map(named), outcomes: outcomes.filter((one) => isCheck(one) || !twice(one)) };
}

// Its program is missing: that tells nothing about the work.
const isMissing = (one) => one.exit_code === 127 || /command not found/.test(one.error ?? '');

// The checks that fail now; those of one session, if it is given.
export const checks = ({ failing }, session = null) => failing.filter((one) => one.is_check && !one.taken_back
  && !isMissing(one) && (!session || one.session === session));

export const sign = (one) => h('span.sign', {
  class: one.passed ? 'good' : 'bad', role: 'img', 'aria-label': one.passed ? 'passed' : 'failed',
}, one.passed ? '✓' : '✗');

export const passed = (yes) => badge(yes ? '✓ passed' : '✗ failed', yes ? 'good' : 'bad');

// What a list of outcomes comes to: `✗ 2 failed`, `✓ passed`. Only checks count as passed.
export function summary(outcomes = []) {
  const failed = outcomes.filter((one) => !one.passed);
  if (!outcomes.length) return null;
  const names = (failed.length ? failed : outcomes).map((one) => one.text).slice(0, 5);
  return badge(failed.length ? `✗ ${number(failed.length)} failed` : '✓ passed',
    failed.length ? 'bad' : 'good', { title: names.join('\n') });
}

// What a check wrote, without rules of dashes and empty lines. Its end is shown.
export function output(text) {
  const said = (text ?? '').split('\n').filter((line) => !/^\s*[-=_*]*…?\s*$/.test(line)).join('\n');
  return said ? h('pre.output.end', { tabindex: '0' }, said) : null;
}

// A card with what fails now; null if nothing does. With `brief`, a line for each.
export function card(told, { brief = false } = {}) {
  if (told.error) return failure(told.error);
  const failing = checks(told);
  const others = told.failing.filter((one) => !one.taken_back && !failing.includes(one));
  const missing = others.filter((one) => one.is_check);
  const list = [...failing, ...missing];
  if (!list.length) return null;
  const rest = [...list.slice(SHOWN), ...others.filter((one) => !one.is_check)];
  const rows = (some) => h('ul.items', some.map((one) => row(one, brief)));
  return h('section.card.verdict.bad.failing', { 'aria-labelledby': 'failing' },
    h('h2', { id: 'failing' }, failing.length ? `✗ ${plural(failing, 'check fails', 'checks fail')} now`
      : `✗ ${plural(missing, 'check')} could not run`),
    rows(list.slice(0, SHOWN)),
    rest.length && h('details', h('summary', `${number(rest.length)} more that failed`), rows(rest)));
}

function row(one, brief) {
  const { before, good, bad, since, passed_at: passed, since_prompt: prompt } = one;
  const from = good ?? before;
  const missing = isMissing(one);
  const links = [
    from && bad && from !== bad && linked(good ? 'What changed since it passed' : 'What changed', comparison(from, bad), { kind: 'small' }),
    before && linked('Back to before it failed', href('restore', before, { before: one.text }),
      { kind: missing ? 'small' : 'small primary', title: prompt && `To before the prompt “${cut(prompt)}”` }),
    good && good !== before && linked('Back to when it passed', href('restore', good, { passed: one.text }), { kind: 'small', title: `To the newest checkpoint of ${exact(passed)}` })];
  const name = [mark('✗', 'bad'), ' ', h('code.strong', one.text), missing && h('span.muted', ' its program is missing')];
  // Where the words of both times are the same, the clock tells them apart.
  const when = (at) => [time(at), passed && ago(since) === ago(passed) && [' (', moment(at), ')']];
  const about = muted(one.also && [h('code', one.also), '. '], 'Fails since ', when(since), one.times > 1 && ` (${number(one.times)} times)`,
    passed ? [', last passed ', when(passed)] : ', never passed before',
    prompt && ['. Prompt: ', h('q', cut(prompt))], ' ', sessionLink(one.session, { failures: 'yes' }));
  return brief
    ? h('li.row', h('details.grow', h('summary', name, h('span.muted', ' since ', time(since))), about, output(one.error)), links)
    : h('li', h('div.row', h('span.grow', name), links), about, output(one.error));
}
