// What fails now, since when, and the ways back: the first thing to see after a bad night.

import * as api from './api.js';
import { href } from './route.js';
import { badge, h, linked, number, plural, sign as mark, time } from './ui.js';
import { sessionLink } from './words.js';

/** So many are shown at once; the rest is folded. */
const SHOWN = 3;

/** The outcomes of checks and tool calls: {failing, outcomes}. Without them the page still works. */
export const load = (ctx) => api.get('/api/outcomes', { limit: 1000 }, ctx).catch((error) => {
  if (error.name === 'AbortError') throw error;
  return { failing: [], outcomes: [] };
});

/** The sign of an outcome. */
export const sign = (one) => h('span.sign', {
  class: one.passed ? 'good' : 'bad', role: 'img', 'aria-label': one.passed ? 'passed' : 'failed',
}, one.passed ? '✓' : '✗');

/** What a list of outcomes comes to: `✗ 2 failed`, `✓ passed`. Only checks count as passed. */
export function summary(outcomes = []) {
  const failed = outcomes.filter((one) => !one.passed);
  if (!outcomes.length) return null;
  const names = (failed.length ? failed : outcomes).map((one) => one.text).slice(0, 5);
  return badge(failed.length ? `✗ ${number(failed.length)} failed` : '✓ passed',
    failed.length ? 'bad' : 'good', { title: names.join('\n') });
}

/** A card with what fails now; null if nothing does. */
export function card({ failing }) {
  const now = failing.filter((one) => !one.taken_back);
  const checks = now.filter((one) => one.is_check);
  if (!checks.length) return null;
  const others = now.filter((one) => !one.is_check);
  const [first, rest] = [checks.slice(0, SHOWN), [...checks.slice(SHOWN), ...others]];
  return h('section.card.verdict.bad.failing', { 'aria-labelledby': 'failing' },
    h('h2', { id: 'failing' }, `✗ ${plural(checks.length, 'check fails', 'checks fail')} now`),
    h('ul.items', first.map(row)),
    rest.length > 0 && h('details',
      h('summary', `${number(rest.length)} more that failed`), h('ul.items', rest.map(row))));
}

function row(one) {
  const { before, good, bad } = one;
  const from = good ?? before;
  return h('li',
    h('div.row', mark('✗', 'bad'), h('code.grow.strong', one.text),
      from && bad && from !== bad && linked(good ? 'What changed since it passed' : 'What changed',
        href('compare', null, { from, to: bad }), { kind: 'small' }),
      before && linked('Back to before it failed', href('restore', before, { before: one.text }), { kind: 'small primary' }),
      good && good !== before && linked('Back to when it passed', href('restore', good), { kind: 'small' })),
    h('p.muted', 'Fails since ', time(one.since), one.times > 1 && ` (${number(one.times)} times)`,
      one.passed_at ? [', last passed ', time(one.passed_at)] : ', never passed before',
      one.since_prompt && ['. Prompt: ', h('q', one.since_prompt.slice(0, 140))], ' ',
      sessionLink(one.session, { failures: 'yes' })),
    one.error && h('pre.output', one.error));
}
