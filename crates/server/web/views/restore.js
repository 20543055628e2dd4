// Restore: the plan first, then the restore, then the way back.
//
// The plan's hash is sent with the restore, so the server does exactly what was shown. If the
// workspace changed meanwhile, it refuses and the page shows the new plan.

import * as api from '../api.js';
import { href } from '../route.js';
import { FACETS, facetWords, isBefore, titleOf, triggerWords } from '../words.js';
import { attempt, badge, button, command, duration, failure, fill, h, head, linked, number, plural, prose, section, tick, time, toast } from '../ui.js';

const DELETIONS_MAX = 20;
const PATHS_SHOWN = 500;
const ACTION = { create: ['+', 'good', 'Create'], overwrite: ['~', 'info', 'Overwrite'], delete: ['−', 'bad', 'Delete'], skip: ['·', 'muted', 'Leave'] };
const PHASE = {
  starting: 'Starting', looking: 'Looking at the workspace', planning: 'Planning', 'saving-present': 'Saving what is there now',
  'loading-databases': 'Loading databases', staging: 'Preparing files', swapping: 'Putting files in place', verifying: 'Checking every byte',
  'committing-databases': 'Finishing databases', recording: 'Recording', 'rolling-back': 'Taking it back',
  'reading-files': 'Reading files', 'reading-databases': 'Reading databases', committing: 'Committing',
};
/** What a conflict or warning may advise, as choices of this page. */
const CHOICES = {
  'terminate-connections': ['terminate_connections', 'Disconnect others from databases that they hold'],
  'terminate-sessions': ['terminate_sessions', 'End other agent sessions that are running'],
  'allow-stale': ['allow_stale', 'Also restore databases whose dump is older than the checkpoint'],
  'trust-dump': ['trust_dump', 'Load dumps that came from elsewhere'],
};

export default {
  title: () => 'Restore',
  css: true,
  async load(ctx) {
    const { checkpoint } = await api.get(api.checkpoint(ctx.params.id), {}, ctx);
    const facets = FACETS.filter((facet) => checkpoint.facets[facet] === 'captured' && facet !== 'process' && facet !== 'knowledge');
    const page = new Restore(ctx, checkpoint, facets);
    await page.plan();
    return page.node;
  },
};

class Restore {
  constructor(ctx, checkpoint, facets) {
    Object.assign(this, { ctx, checkpoint, facets, report: null, all: null });
    this.address = api.checkpoint(checkpoint.id, '/restore');
    const asked = (ctx.query.only ?? '').split(',').filter(Boolean);
    this.chosen = new Set(asked.length ? facets.filter((facet) => asked.includes(facet)) : facets);
    this.paths = ctx.query.path ? new Set([ctx.query.path]) : null; // null is every path
    this.options = {};
    this.advised = new Map();
    this.state = 'planned'; // planned, running, done, undoing, undone
    this.body = h('div.stack.rs');
    this.node = h('div.view',
      head(`${isBefore(checkpoint.trigger) ? 'Back to before' : 'Restore'} “${titleOf(checkpoint)}”`, [triggerWords(checkpoint.trigger), ' · ', time(checkpoint.created_at), ' · ', h('a.mono', { href: href('checkpoint', checkpoint.id) }, checkpoint.id)]),
      this.body);
    ctx.keys({
      Escape: { does: 'Back to the timeline, nothing is changed',
        run: () => !['running', 'undoing'].includes(this.state) && ctx.navigate(href('timeline', null, { at: checkpoint.id })) },
    });
    for (const name of ['checkpoint', 'restore.undone', 'restore.redone', 'restore.done']) ctx.on(name, () => { if (this.state === 'done') this.checkUndo(); });
  }

  request() {
    const body = { ...this.options };
    if (this.chosen.size < this.facets.length) body.only = [...this.chosen];
    if (this.paths) body.paths = [...this.paths];
    return body;
  }

  async plan() {
    this.error = null;
    if (!this.chosen.size || this.paths?.size === 0) { this.report = null; this.draw(); return; }
    try {
      this.report = await api.post(this.address, this.request(), { signal: this.ctx.signal });
      if (!this.paths) this.all = filesOf(this.report);
      this.advise([...(this.report.advice ?? []), ...this.report.conflicts.flatMap((one) => one.advice ?? [])]);
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      this.error = error;
      this.report = null;
      this.advise(error.advice ?? []);
    }
    this.draw();
  }

  /** Offers what would help as options. */
  advise(advice) {
    for (const { kind } of advice) if (CHOICES[kind]) this.advised.set(...CHOICES[kind]);
  }

  /** Plans again, and shows that it does. */
  async again() {
    this.body.classList.add('busy');
    await this.plan();
    this.body.classList.remove('busy');
  }

  draw() {
    const { report } = this;
    if (this.state !== 'planned') return;
    const focus = document.activeElement?.dataset?.focus;
    const place = this.body.querySelector('.rs-files')?.scrollTop ?? 0;
    if (this.error) { fill(this.body, this.choices(), failure(this.error, () => this.again())); return; }
    if (!report) { fill(this.body, this.choices(), this.files(), h('p.note', 'Nothing is chosen. Tick at least one part or file.')); this.settle(focus, place); return; }
    const nothing = !report.actions.length && !report.details?.length && !report.sessions?.length && !report.tables?.length;
    fill(this.body,
      this.ctx.query.before && h('p.note', 'This is the state before ', h('code', this.ctx.query.before), ' failed.'),
      h('p.rs-safe', 'Nothing has changed yet. Rappel saves what is there now before it restores, so you can undo it.'),
      report.conflicts.map((one) => h('div.note.bad', { role: 'alert' }, h('strong', `Conflict: ${one.path}`), h('p', prose(one.reason)))),
      [...report.warnings].map((text) => h('p.note.warn', prose(typeof text === 'string' ? text : text.text))),
      this.choices(),
      nothing ? h('p.note.good', 'The workspace is already like this checkpoint. There is nothing to do.') : this.summary(),
      this.files(),
      this.others(),
      nothing ? null : this.confirm());
    this.settle(focus, place);
  }

  /** Puts the focus and the list back where they were before a new plan was drawn. */
  settle(focus, place) {
    const list = this.body.querySelector('.rs-files');
    if (list) list.scrollTop = place;
    if (focus) this.body.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  }

  choices() {
    const part = (facet) => {
      const off = this.paths && facet !== 'files';
      const change = (on) => { if (on) this.chosen.add(facet); else this.chosen.delete(facet); this.again(); };
      return tick(facetWords[facet], this.chosen.has(facet) && !off, change, { disabled: off, dataset: { focus: `facet ${facet}` } });
    };
    const option = ([name, words]) => {
      const change = (on) => { if (on) this.options[name] = true; else delete this.options[name]; this.again(); };
      return tick(words, Boolean(this.options[name]), change, { dataset: { focus: `option ${name}` } });
    };
    return section('What to restore',
      h('div.row.rs-ticks', { role: 'group', 'aria-label': 'Parts' }, this.facets.map(part)),
      this.paths && h('p.muted', 'With single files chosen, only files are restored. ',
        button('Choose all files again', { kind: 'small', onclick: () => { this.paths = null; this.again(); } })),
      this.advised.size > 0 && h('div.stack.rs-options', { role: 'group', 'aria-label': 'Options' }, [...this.advised].map(option)));
  }

  summary() {
    const { files, git, databases, agents, worktrees } = this.report.summary;
    const cell = (words, kind) => h('li', badge(words, kind));
    return section('The plan', h('ul.row',
      files.create > 0 && cell(`create ${plural(files.create, 'file')}`, 'good'),
      files.overwrite > 0 && cell(`overwrite ${plural(files.overwrite, 'file')}`, 'info'),
      files.delete > 0 && cell(`delete ${plural(files.delete, 'file')}`, 'bad'),
      files.skip > 0 && cell(`leave ${plural(files.skip, 'file')}`),
      git && cell(`git: ${git}`, 'warn'), databases && cell(`databases: ${databases}`, 'warn'),
      agents && cell(`agents: ${agents}`, 'info'), worktrees && cell(`work trees: ${worktrees}`, 'warn')));
  }

  /** The files of the whole plan, with a tick each. */
  files() {
    const list = this.all ?? filesOf(this.report);
    if (!list.length || !this.chosen.has('files')) return null;
    const every = list.map((one) => one.path);
    const row = (one) => {
      const [sign, kind, says] = ACTION[one.action] ?? ACTION.skip;
      const change = (on) => {
        const now = new Set(this.paths ?? every);
        if (on) now.add(one.path); else now.delete(one.path);
        this.paths = now.size === every.length ? null : now;
        this.again();
      };
      const words = [h('span.rs-sign', { class: kind, 'aria-hidden': 'true' }, sign), h('span.mono', one.path)];
      return h('li', tick(words, !this.paths || this.paths.has(one.path), change, { dataset: { focus: `path ${one.path}` } }), h('span.muted', `${says}: ${one.reason}`));
    };
    return section(`Files (${number(this.paths ? this.paths.size : list.length)} of ${number(list.length)})`,
      h('div.row',
        button('All', { kind: 'small', onclick: () => { this.paths = null; this.again(); } }),
        button('None', { kind: 'small', onclick: () => { this.paths = new Set(); this.again(); } }),
        linked('See the lines', href('compare', null, { from: this.checkpoint.id, to: 'now' }), { kind: 'small' })),
      h('ul.rs-files', list.slice(0, PATHS_SHOWN).map(row)),
      list.length > PATHS_SHOWN && h('p.muted', `and ${plural(list.length - PATHS_SHOWN, 'more file')}. Their ticks follow “All” and “None”.`));
  }

  others() {
    const part = (title, lines) => lines?.length > 0 && section(title, h('ul.stack', lines.map((line) => h('li', prose(line)))));
    return h('div.grid', part('Git', this.report.details), part('Database tables', this.report.tables), part('Agent sessions', this.report.sessions));
  }

  /** Databases, refs and many deletions ask for the workspace's name. */
  confirm() {
    const { files, git, databases } = this.report.summary;
    const { name } = this.checkpoint.workspace;
    const changes = [databases && 'databases', git && 'git refs'].filter(Boolean).join(' and ');
    const why = [changes && `changes ${changes}`, files.delete > DELETIONS_MAX && `deletes ${plural(files.delete, 'file')}`].filter(Boolean);
    const blocked = this.report.conflicts.length > 0;
    const go = button('Restore', { kind: 'primary', disabled: blocked || why.length > 0, dataset: { focus: 'go' }, onclick: () => this.restore() });
    const field = h('input', { id: 'rs-name', autocomplete: 'off', autocapitalize: 'off',
      spellcheck: 'false', 'aria-describedby': 'rs-why', dataset: { focus: 'name' } });
    field.addEventListener('input', () => { go.disabled = blocked || field.value.trim() !== name; });
    field.addEventListener('keydown', (event) => { if (event.key === 'Enter' && !go.disabled) this.restore(); });
    return h('div.card.rs-go',
      blocked && h('p', 'Something is in the way. End it and look again, or leave out the part or file that it names.'),
      !blocked && why.length > 0 && h('div.stack',
        h('p', { id: 'rs-why' }, `This ${why.join(' and ')}.`), h('label', { for: 'rs-name' }, 'Type the workspace’s name ', h('strong', name), ' to go on'), field),
      h('div.row', go, blocked && button('Look again', { onclick: () => this.again() }), linked('Cancel', href('timeline', null, { at: this.checkpoint.id }))));
  }

  async restore() {
    this.state = 'running';
    const bar = h('progress', { 'aria-label': 'Progress' });
    const words = h('p', { role: 'status' }, 'Starting …');
    let id = null;
    const stop = button('Cancel the restore',
      { onclick: async () => { stop.disabled = true; const done = id && await attempt(() => api.del(`/api/jobs/${id}`)); if (!done) stop.disabled = false; } });
    fill(this.body, section('Restoring', words, bar, h('div.row.rs-stop', stop)));
    const began = Date.now();
    try {
      const done = await api.job(this.address, { ...this.request(), plan: this.report.plan }, (job) => {
        id = job.id;
        const { phase, done: count = 0, total } = job.progress ?? {};
        words.textContent = `${PHASE[phase] ?? phase ?? 'Finishing'} … ${total ? `${number(count)} of ${number(total)}` : ''}`;
        if (total) { bar.max = total; bar.value = count; } else bar.removeAttribute('value');
      });
      this.state = 'done';
      await this.finished(done, Date.now() - began);
    } catch (error) {
      this.state = 'planned';
      this.advise(error.advice ?? []);
      const changed = error.kind === 'conflict' && /plan/i.test(`${error.message} ${error.hint ?? ''}`);
      await this.plan();
      this.body.prepend(changed ? h('p.note.warn', { role: 'alert' },
        'The workspace changed since the plan was made, so nothing was done. This is the new plan.') : failure(error));
      scrollTo(0, 0);
    }
  }

  async finished(report, took) {
    this.undoBox = h('div.row');
    fill(this.body,
      h('div', { class: `card rs-done ${report.recovery_complete ? 'ok' : ''}`, role: 'status', tabindex: '-1' },
        h('h2', report.recovery_complete ? 'Restored' : 'Restored in part'),
        h('p', report.text),
        h('p.muted', [report.verified && 'Every written byte was read back and compared.', `It took ${duration(report.duration_ms ?? took)}.`].filter(Boolean).join(' ')),
        report.safety_checkpoint && h('p', 'What was there before is safe in ',
          h('a.mono', { href: href('checkpoint', report.safety_checkpoint) }, report.safety_checkpoint), '.'),
        this.undoBox),
      report.conflicts.map((one) => h('p.note.warn', `Left as it is: ${one.path}: ${one.reason}`)),
      [...report.warnings].map((text) => h('p.note.warn', prose(typeof text === 'string' ? text : text.text))),
      (report.sessions ?? []).length > 0 && section('Agent sessions', h('ul.stack', report.sessions.map((line) => h('li', prose(line), resume(line))))),
      report.kept?.length > 0 && section('Kept aside',
        h('ul', report.kept.map((one) => h('li', h('code', one.path), ' is now at ', h('code', one.at), `: ${one.reason}`)))));
    this.body.querySelector('.rs-done').focus();
    await this.checkUndo();
  }

  /** Offers undo for as long as it would take this restore back. */
  async checkUndo() {
    const links = [linked('To the timeline', href('timeline'))];
    const step = await api.get('/api/undo').then((answer) => answer.step, () => null);
    const valid = step?.restored === this.checkpoint.id;
    fill(this.undoBox,
      valid && button('Undo this restore', { kind: 'primary', onclick: () => this.undo() }),
      !valid && h('p.muted', 'It can no longer be undone with one click: something else happened since. The save from before is still there.'), links);
  }

  /** Takes the restore back. Paths that were edited since stay, unless `overwrite` is asked for. */
  async undo(overwrite = false) {
    this.state = 'undoing'; // Events of the undo itself must not ask whether it is possible.
    fill(this.undoBox, h('p', { role: 'status' }, 'Undoing …'));
    const done = await attempt(async () => {
      const answer = await api.job('/api/undo', { overwrite });
      return answer.dry_run ? api.job('/api/undo', { overwrite, plan: answer.plan }) : answer;
    });
    if (!done) { this.state = 'done'; await this.checkUndo(); return; }
    this.state = 'undone';
    const left = done.conflicts ?? [];
    fill(this.undoBox,
      left.length > 0 && button(`Undo ${plural(left.length, 'edited path')} too`, {
        title: 'Overwrites what was edited since the restore. Rappel saves the edits first.',
        onclick: () => this.undo(true),
      }),
      linked('To the timeline', href('timeline'), { kind: 'primary' }),
      button('Plan it again', { onclick: () => { this.state = 'planned'; this.again(); } }));
    fill(this.body, h('div.card.rs-done.ok', { role: 'status' }, h('h2', left.length ? 'Undone in part' : 'Undone'),
      h('p', done.text ?? 'The workspace is as it was before the restore.'),
      left.map((one) => h('p.note.warn', `Left as it is: ${one.path}: ${one.reason}`)), this.undoBox));
    toast(left.length ? 'The restore was undone in part.' : 'The restore was undone.');
  }
}

/** The files of a plan. A folder of which files are listed goes with them. */
function filesOf(report) {
  const list = (report?.actions ?? []).filter((one) => one.facet === 'files');
  const folders = new Set(list.flatMap(({ path }) => path.split('/').slice(0, -1).map((_, at, parts) => parts.slice(0, at + 1).join('/'))));
  return list.filter((one) => !folders.has(one.path));
}

/** The command in a line such as “… resume it with `claude --resume ID`”. */
function resume(line) {
  const found = /resume it with `([^`]+)`/.exec(line);
  return found ? h('div', command(found[1])) : null;
}
