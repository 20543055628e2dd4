// The last restore, and the way to take it back. The server tells whether it is still possible.

import * as api from './api.js';
import { href } from './route.js';
import { loadNames } from './rows.js';
import { attempt, button, confirm, fill, h, plural, time, toast } from './ui.js';
import { placeOf } from './words.js';

/** The step that takes back a restore; null if the last thing was something else. */
export const nextUndo = (ctx) => api.get('/api/undo', {}, ctx).then(({ step }) => (step.restored ? step : null), () => null);

/** Takes the restore back. Paths that were edited since stay, unless `overwrite` is asked for. */
export async function undo(overwrite = false) {
  const answer = await api.job('/api/undo', { overwrite });
  return answer.dry_run ? api.job('/api/undo', { overwrite, plan: answer.plan }) : answer;
}

/** What a restore or an undo left alone. */
export const leftAlone = (conflicts = []) => conflicts.map((one) => h('p.note.warn', `Left as it is: ${one.path}: ${one.reason}`));

/** “You went back to X, 3 min ago · Undo”; null if there is nothing to take back. */
export async function undoBar(ctx) {
  const step = await nextUndo(ctx);
  const found = step && await api.get(api.checkpoint(step.restored), {}, ctx).catch(() => null);
  if (!found) return null;
  const names = await loadNames(ctx, [found.checkpoint]);
  const take = async (overwrite) => {
    fill(bar, h('span', { role: 'status' }, 'Undoing …'));
    const done = await attempt(() => undo(overwrite));
    const left = done?.conflicts ?? [];
    const more = left.length > 0 && await confirm('Undone in part', [leftAlone(left), h('p', 'Rappel saves the edits before it overwrites them.')],
      `Undo ${plural(left.length, 'edited path')} too`, { kind: 'primary' });
    if (more) return take(true);
    if (done) toast(left.length ? 'The restore was undone in part.' : 'The restore was undone.');
    return ctx.reload();
  };
  const bar = h('p.note.row.undo-bar', h('span', 'You went back to ',
    h('a', { href: href('checkpoint', step.restored) }, placeOf(found.checkpoint, names.of(found.checkpoint))), ', ', time(step.moment)),
    button('Undo', { kind: 'small', onclick: () => take(false) }));
  return bar;
}
