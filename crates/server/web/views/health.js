// Health and space: is the work safe, what does it cost, and upkeep.

import { advice } from '../advice.js';
import { get, job, post } from '../api.js';
import { columns } from '../chart.js';
import { href } from '../route.js';
import {
  attempt, badge, button, bytes, capital, command, confirm, day, empty, facts, fill, h, head,
  HIDDEN, more, muted, number, plural, progress, prose, section, table, time,
} from '../ui.js';
import { atWork, checkpointLink, loadSessions, watchSessions } from '../words.js';
import { nameOf } from './session.js';

const STATES = {
  protected: ['✓', 'Protected', 'good', 'Everything that was saved can be restored.'],
  degraded: ['!', 'Degraded', 'warn', 'Your saves work, but something needs a look.'],
  unprotected: ['✗', 'Unprotected', 'bad', 'Nothing could be restored.'],
};

function advised(one) {
  const { text, typed, place } = advice(one) ?? {};
  return text && h('li.row', place ? h('a', { href: place }, text) : h('span', prose(text)),
    typed && command(typed));
}

function verdict(status, sessions) {
  const [sign, word, kind, text] = STATES[status.state];
  const todo = status.advice.map(advised).filter(Boolean);
  return h('section', { class: `card verdict ${kind}`, 'aria-label': 'Status' },
    h('p.verdict-text', h('span', { class: `big ${kind}`, ...HIDDEN }, sign), h('span', h('strong', word), '. ', text)),
    status.reasons.length && h('ul.items',
      status.reasons.map((reason) => h('li', h('span', { class: kind, ...HIDDEN }, `${sign} `), prose(capital(reason))))),
    todo.length && h('div.stack', h('h3', 'What to do'), h('ul.stack', todo)),
    facts([
      ['Last checkpoint', status.latest ? checkpointLink(status.latest, time(status.latest_at)) : 'none'],
      ['Unsaved', [plural(status.unsaved, 'file'), status.unsaved_git && 'git', ...status.unsaved_databases].filter(Boolean).join(', ')],
      ['Checkpoints', number(status.checkpoints)],
      ['Agents at work', plural(atWork(sessions), 'session')],
      ['Unfinished restores', number(status.restores)],
      ['Free on the disk', bytes(status.free_bytes)],
      ['Scheduled saves', status.watch ? h('span', `on since `, time(status.watch.since)) : 'off'],
      ['Folder', h('span.mono', status.root)],
    ]));
}

function integrations(status) {
  const KINDS = {
    working: ['✓ working', 'good'],
    installed: ['○ installed, not heard of yet', 'info'],
    silent: ['✗ silent', 'bad'],
    missing: ['✗ its program is missing', 'bad'],
    gone: ['✗ removed from its file', 'bad'],
    'missing-hooks': ['✗ some hooks are missing', 'bad'],
    'switched-off': ['✗ switched off', 'bad'],
    incomplete: ['! incomplete', 'warn'],
    unconfirmed: ['! waits for you to confirm it', 'warn'],
    changed: ['! changed: confirm it again', 'warn'],
    'untrusted-folder': ['! this folder is not trusted', 'warn'],
  };
  const state = (one) => [badge(...(KINDS[one.state] ?? [one.state, ''])),
    one.missing && h('div.muted', `No hooks for ${one.missing.join(', ')}`),
    one.switched_off && h('div.muted', 'By ', h('code', one.switched_off.setting), ' in ',
      h('code', one.switched_off.file))];
  return section('Agents and integrations', status.integrations.length
    ? table([
      { name: 'Agent', cell: (one) => one.agent },
      { name: 'State', cell: state },
      { name: 'Last heard of', cell: (one) => time(one.last_event) },
      { name: 'File', class: 'mono', cell: (one) => one.place },
    ], status.integrations, { caption: 'Integrations' })
    : empty('No agent is connected. Connect one, and each of its prompts makes a checkpoint:', 'rappel integrate claude'));
}

function space(stats) {
  const days = Object.entries(stats.days).sort();
  let sum = 0;
  const name = (date) => day(`${date}T12:00:00`);
  return section('Space',
    h('p', 'Rappel takes ', h('strong', bytes(stats.stored_bytes)), ' on the disk. ', stats.ratio >= 1
      && `A copy for each checkpoint would take ${bytes(stats.logical_bytes)}, ${stats.ratio.toFixed(1)} times as much.`),
    days.length ? h('figure', h('figcaption.row.spread',
      'Growth: content of checkpoints, without the index and the journals',
      h('strong.number', `${bytes(days.at(-1)[1].new_bytes)} on ${name(days.at(-1)[0])}`)),
      columns(days.map(([date, one]) => ({ name: name(date), value: sum += one.new_bytes,
        title: `${name(date)}: ${bytes(sum)} in all, ${bytes(one.new_bytes)} new, `
          + plural(one.checkpoints, 'checkpoint') })).slice(-60), { format: bytes, label: 'What is stored, day by day' }))
      : empty('Nothing is stored yet.', 'rappel save'));
}

const LISTED = 200;
const WHY = { 'too-old': 'older than its rule keeps it', 'too-many': 'its rule keeps fewer',
  'same-hour': 'a newer one of the same hour stays', 'same-day': 'a newer one of the same day stays' };

function retention(status) {
  const next = status.retention?.next;
  return section('What is deleted next',
    h('p', next ? [`${plural(next.count, 'checkpoint')} ${next.count === 1 ? 'goes' : 'go'} `,
      time(next.at), '. '] : 'The rules delete nothing soon. ',
    `Deleted so far: ${number(status.retention?.deleted ?? 0)}.`),
    status.retention?.full && h('p.note.warn', `The home takes `,
      `${bytes(status.retention.full.bytes)}, more than it may, and everything left is protected.`),
    muted('“Delete old checkpoints …” above shows what would go now.'));
}

function memory(sessions) {
  const rows = sessions.filter((one) => one.exit?.peak_rss).slice(0, 20);
  return section('Memory of supervised processes', rows.length ? table([
    { name: 'Run', cell: (one) => h('a', { href: href('runs', null, { session: one.id }) }, nameOf(one)) },
    { name: 'At most', number: true, cell: (one) => bytes(one.exit.peak_rss) },
    { name: 'Out of memory', number: true, cell: (one) => plural(one.exit.oom_kills, 'time') },
  ], rows, { caption: 'Memory' }) : empty('A watched run tells its memory:', 'rappel run -- YOUR COMMAND'));
}

function setUp(checks) {
  const bad = checks.filter((one) => !one.ok);
  const row = (one) => h('li',
    h('div.row', badge(one.ok ? '✓ fine' : '✗ look', one.ok ? 'good' : 'bad'), h('strong', one.name), h('span.grow.muted', prose(one.found ?? ''))),
    !one.ok && h('ul', (one.advice ?? []).map(advised)));
  return section('Set-up', h('details', { open: bad.length > 0 },
    h('summary', bad.length ? `✗ ${plural(bad, 'check')} found something.` : `✓ All ${checks.length} checks are fine.`),
    h('ul.items', [...bad, ...checks.filter((one) => one.ok)].map(row))));
}

// Checks and frees. It outlives a reload of the view: what a job does and found is not to vanish.
function upkeep(kept) {
  const place = h('div.upkeep-result', { role: 'status' });
  const busy = (on) => { for (const one of buttons) one.disabled = on; };
  const work = async (title, path, done) => {
    busy(true);
    const bar = progress(title);
    fill(place, bar.node);
    const told = await attempt(async () => done(await job(path, {}, bar.show)));
    fill(place, told);
    busy(false);
    kept.reload();
  };
  const verify = () => work('Checking all that is stored', '/api/verify', (found) => {
    const hurt = found.hurt?.length ?? 0;
    const clean = !hurt && !found.damage?.length;
    return h('div', { class: `note ${clean ? 'good' : 'bad'}` },
      h('p', clean ? '✓ Everything is as it was written: '
        : `✗ ${plural(hurt, 'checkpoint')} cannot be read whole: `,
      `${plural(found.checkpoints, 'checkpoint')}, ${plural(found.objects, 'object')}, `,
      `${bytes(found.bytes)} read.`),
      found.damage?.map((text) => h('p', text)), !clean && command('rappel verify --repair'));
  });
  const look = async (path) => {
    const plan = await attempt(() => post(path, { dry_run: true }));
    return place.isConnected && plan; // else the user is elsewhere
  };
  const gc = async () => {
    const plan = await look('/api/gc');
    const yes = plan && await confirm('Free space', [
      h('p', plan.freed_bytes ? `It frees ${bytes(plan.freed_bytes)}.` : 'There is nothing to free.'),
      plan.waiting_bytes && muted(`${bytes(plan.waiting_bytes)} more become free a day after their deletion.`),
      muted('No checkpoint is deleted. Only content that no checkpoint needs goes.'),
    ], 'Free space', { kind: 'primary', disabled: !plan.freed_bytes });
    const said = (found) => h('p.note.good', `✓ Freed ${bytes(found.freed_bytes)}.`);
    if (yes) work('Freeing space', '/api/gc', said);
  };
  const prune = async () => {
    const plan = await look('/api/prune');
    if (!plan) return;
    const going = plan.decisions.filter((one) => !one.keep);
    const count = plural(going, 'checkpoint');
    const why = ({ reason }) => WHY[reason] ?? reason.replaceAll('-', ' ');
    const yes = await confirm('Delete old checkpoints', [
      h('p', going.length
        ? `By your rules ${count} ${going.length === 1 ? 'goes' : 'go'}, ${number(plan.kept)} stay. `
          + `This frees ${bytes(plan.freed_bytes)} later. For a day you can bring them back.`
        : 'Your rules delete nothing now.'),
      h('ul.items.tall', going.slice(0, LISTED).map((one) =>
        h('li', h('span.mono', one.id), h('span.muted', ` ${why(one)}`))), more(going.length, LISTED)),
    ], going.length ? `Delete ${count}` : 'Delete', { disabled: !going.length });
    const said = (found) => h('p.note.good', `✓ Deleted ${plural(found.deleted, 'checkpoint')}. `,
      prose('`rappel undelete ID` brings one back for a day.'));
    if (yes) work('Deleting old checkpoints', '/api/prune', said);
  };
  const buttons = [
    button('Check everything', { key: 'v', onclick: verify }),
    button('Free space …', { key: 'f', onclick: gc }),
    button('Delete old checkpoints …', { key: 'x', onclick: prune })];
  return section('Upkeep', h('p.sub', 'Nothing is freed or deleted before you have seen what.'),
    h('div.actions', buttons), place);
}

async function load(ctx) {
  const [status, stats, sessions, checks] = await Promise.all([
    get('/api/status', {}, ctx), get('/api/stats', {}, ctx), loadSessions(ctx),
    get('/api/doctor', {}, ctx),
  ]);
  const { kept } = ctx;
  kept.reload = ctx.reload;
  kept.upkeep ??= upkeep(kept);
  ctx.on('checkpoint', () => ctx.reloadSoon(3000));
  ctx.watch(status.reasons, async () => (await get('/api/status', {}, ctx)).reasons);
  watchSessions(ctx, sessions);
  return h('div.view.health-view',
    head('Health and space', 'Is your work safe, and what does it cost?'),
    verdict(status, sessions),
    kept.upkeep,
    h('div.grid', space(stats), h('div.stack', retention(status), integrations(status))),
    h('div.grid', memory(sessions), setUp(checks)));
}

export default { load };
