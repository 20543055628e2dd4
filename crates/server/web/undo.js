// The last restore, and the way to take it back. The server tells whether it is still possible.

import * as api from './api.js';
import { loadNames } from './rows.js';
import { attempt, button, confirm, fill, h, plural, time, toast } from './ui.js';
import { checkpointLink, placeOf } from './words.js';

// The step that takes back a restore; null if the last thing was something else.
export async function nextUndo(ctx) {
  const { step } = await api.get('/api/undo', {}, ctx);
  return step?.restored ? step : null;
}

// Takes the restore back. Paths that were edited since stay, unless `overwrite` is asked for.
export async function undo(overwrite = false) {
  const answer = await api.job('/api/undo', { overwrite });
  // The server asks first: the last thing was no restore. To go further back is another wish.
  if (answer.dry_run) {
    throw new api.ApiError({ message: 'There is no restore to take back any more.' });
  }
  return answer;
}

export const leftAlone = (conflicts = []) => conflicts.map((one) =>
  h('p.note.warn', `Left as it is: ${one.path}: ${one.reason}`));

let underWay = null; // the bar of an undo that runs

// “You went back to X, 3 min ago · Undo”; null if there is nothing to take back.
export async function undoBar(ctx) {
  if (underWay) return underWay;
  const step = await nextUndo(ctx).catch(() => null);
  const found = step && await api.get(api.checkpoint(step.restored), {}, ctx).catch(() => null);
  if (!found) return null;
  const names = await loadNames(ctx, [found.checkpoint]);
  const take = async (overwrite) => {
    underWay = fill(bar, h('span', { role: 'status' }, 'Undoing …'));
    const done = await attempt(() => undo(overwrite));
    underWay = null;
    const left = done?.conflicts ?? [];
    const more = left.length && await confirm('Undone in part',
      [leftAlone(left), h('p', 'Rappel saves the edits before it overwrites them.')],
      `Undo ${plural(left, 'edited path')} too`, { kind: 'primary' });
    if (more) return take(true);
    if (done) toast(left.length ? 'The restore was undone in part.' : 'The restore was undone.');
    else draw();
    return ctx.reload();
  };
  const place = placeOf(found.checkpoint, names.of(found.checkpoint));
  const bar = h('p.note.row.undo-bar');
  const draw = () => fill(bar,
    h('span', 'You went back to ', checkpointLink(step.restored, place), ', ', time(step.moment)),
    button('Undo', { kind: 'small', onclick: () => take(false) }));
  return draw();
}
