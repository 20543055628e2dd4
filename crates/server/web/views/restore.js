// Restore: the plan first, then the restore, then the way back.
//
// The plan's hash is sent with the restore, so the server does exactly what was shown. If the
// workspace changed meanwhile, it refuses and the page shows the new plan.

import * as api from '../api.js';
import { comparison, href } from '../route.js';
import { loadNames } from '../rows.js';
import { leftAlone, nextUndo, undo, undoBar } from '../undo.js';
import { FACETS, facetWords, placeOf, triggerWords } from '../words.js';
import {
  attempt, badge, button, duration, failure, fill, fillWith, h, head, HIDDEN, linked, muted, newest,
  number, plural, progress, prose, section, tick, time, toast,
} from '../ui.js';

const DELETIONS_MAX = 20;
const PATHS_SHOWN = 500;
const ADDRESS_MAX = 4000;
const ACTION = { create: ['+', 'good', 'Create'], overwrite: ['~', 'info', 'Overwrite'], delete: ['−', 'bad', 'Delete'], skip: ['·', 'muted', 'Leave'] };
const CHOICES = {
  'terminate-connections': ['terminate_connections', 'Disconnect others from databases that they hold'],
  'terminate-sessions': ['terminate_sessions', 'End other agent sessions that are running'],
  'allow-stale': ['allow_stale', 'Also restore databases whose dump is older than the checkpoint'],
  'trust-dump': ['trust_dump', 'Load dumps that came from elsewhere'],
};

export default {
  still: true,
  async load(ctx) {
    const { checkpoint } = await api.get(api.checkpoint(ctx.id), {}, ctx);
    const facets = FACETS.filter((facet) => checkpoint.facets[facet] === 'captured' && facet !== 'process' && facet !== 'knowledge');
    const names = await loadNames(ctx, [checkpoint]);
    const page = new Restore(ctx, checkpoint, facets, placeOf(checkpoint, names.of(checkpoint)));
    await page.plan();
    return page.node;
  },
};

class Restore {
  constructor(ctx, checkpoint, facets, place) {
    Object.assign(this, { ctx, checkpoint, facets, report: null, all: null });
    this.address = api.checkpoint(checkpoint.id, '/restore');
    this.asking = newest(ctx);
    const asked = (ctx.query.only ?? '').split(',').filter(Boolean);
    this.chosen = new Set(asked.length ? facets.filter((facet) => asked.includes(facet)) : facets);
    this.unticked = new Set(listed(ctx.query.except)); // files that stay as they are
    this.options = {};
    this.advised = new Map();
    this.state = 'planned'; // planned, running, done, undoing, undone
    this.body = h('div.stack.rs');
    this.title = `${place.startsWith('before') ? 'Back to' : 'Restore'} ${place}`;
    this.heading = h('span', this.title);
    this.node = h('div.view',
      head(this.heading, [triggerWords(checkpoint.trigger), ' · ', time(checkpoint.created_at), ' · ', h('a.mono', { href: href('checkpoint', checkpoint.id) }, checkpoint.id)]),
      this.body);
    ctx.keys({
      'Back to the timeline, nothing is changed': { Escape: () => {
        if (['running', 'undoing'].includes(this.state)) return;
        ctx.go('timeline', null, { at: checkpoint.id });
      } },
    });
    ctx.on('checkpoint restore.undone restore.redone restore.done reset', () => {
      if (this.state === 'done') this.checkUndo();
      this.drawBar?.();
    });
  }

  request() {
    const body = { ...this.options };
    if (this.chosen.size < this.facets.length) body.only = [...this.chosen];
    if (this.picks) body.paths = this.ticked;
    else if (this.unticked.size && this.chosen.has('files')) body.except = [...this.unticked];
    return body;
  }

  get ticked() {
    return (this.all ?? []).map((one) => one.path).filter((path) => !this.unticked.has(path));
  }

  // Whether only a few files are picked. Then nothing but these is restored.
  get picks() {
    return this.chosen.has('files') && this.all != null && this.unticked.size > this.ticked.length;
  }

  // Keeps what is chosen in the address, if it is not too long for one.
  keep() {
    const { only = [], paths = [], except = [] } = this.request();
    const text = [paths, except].map((list) => list.join('\n')).map((all) => (all.length < ADDRESS_MAX ? all : ''));
    this.ctx.setQuery({ ...this.ctx.query, only: only.join(), path: text[0], except: text[1] });
  }

  async plan() {
    const ask = (body) => api.post(this.address, body, { signal: this.ctx.signal });
    this.error = null;
    try {
      const { path, except } = this.ctx.query;
      if (!this.all && this.chosen.has('files') && (path || except)) {
        this.all = filesOf(await ask({ ...this.options, only: ['files'] }));
        const wanted = listed(path);
        if (wanted.length) this.unticked = new Set(this.all.map((one) => one.path).filter((one) => !wanted.includes(one)));
      }
      const any = this.chosen.size > 0 && !(this.picks && !this.ticked.length);
      this.report = any ? await ask(this.request()) : null;
      if (!any) { this.draw(); return; }
      if (!this.unticked.size && this.chosen.has('files')) this.all = filesOf(this.report);
      this.advise([...(this.report.advice ?? []), ...this.report.conflicts.flatMap((one) => one.advice ?? [])]);
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      this.error = error;
      this.report = null;
      this.advise(error.advice ?? []);
    }
    this.draw();
  }

  advise(advice) {
    for (const { kind } of advice) if (CHOICES[kind]) this.advised.set(...CHOICES[kind]);
  }

  async again() {
    this.body.classList.add('busy');
    this.keep();
    await this.plan();
    this.body.classList.remove('busy');
  }

  draw() {
    const { report, ctx: { query: { before, passed } } } = this;
    if (this.state !== 'planned') return;
    const focus = document.activeElement?.dataset?.focus;
    const place = this.body.querySelector('.rs-files')?.scrollTop ?? 0;
    if (this.error) { fill(this.body, this.choices(), failure(this.error, () => this.again())); return; }
    const nothing = report && !report.actions.length && !report.details?.length && !report.sessions?.length && !report.tables?.length;
    const bar = h('div');
    this.drawBar = nothing ? async () => fill(bar, await undoBar(this.ctx)) : null;
    this.drawBar?.();
    fill(this.body,
      before && h('p.note', 'This is the state before ', h('code', before), ' failed.'),
      passed && h('p.note', 'This is the state in which ', h('code', passed), ' passed.'),
      muted('Nothing has changed yet. Rappel saves what is there now before it restores, so you can undo it.'),
      report?.conflicts.map((one) => h('div.note.bad', { role: 'alert' }, h('strong', `Conflict: ${one.path}`), h('p', prose(one.reason)))),
      report && warnings(report),
      nothing && bar,
      this.choices(),
      nothing ? h('p.note.good', 'The workspace is already like this checkpoint. There is nothing to do. ', h('a', { href: href('timeline') }, 'To the timeline'))
        : this.summary(),
      this.files(),
      report && this.others(),
      nothing ? null : this.confirm());
    this.settle(focus, place);
  }

  // Puts the focus and the list back where they were before a new plan was drawn.
  settle(focus, place) {
    const list = this.body.querySelector('.rs-files');
    if (list) list.scrollTop = place;
    if (focus) this.body.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  }

  choices() {
    const part = (facet) => {
      const off = this.picks && facet !== 'files';
      const change = (on) => { if (on) this.chosen.add(facet); else this.chosen.delete(facet); this.again(); };
      return tick(facetWords[facet], this.chosen.has(facet) && !off, change, { disabled: off, dataset: { focus: `facet ${facet}` } });
    };
    const option = ([name, words]) => {
      const change = (on) => { if (on) this.options[name] = true; else delete this.options[name]; this.again(); };
      return tick(words, Boolean(this.options[name]), change, { dataset: { focus: `option ${name}` } });
    };
    return section('What to restore',
      h('div.row.rs-ticks', { role: 'group', 'aria-label': 'Parts' }, this.facets.map(part)),
      this.picks && muted('With a few files chosen, only these files are restored.'),
      this.advised.size && h('div.stack.rs-options', { role: 'group', 'aria-label': 'Options' }, [...this.advised].map(option)));
  }

  summary() {
    if (!this.report) return section('The plan', h('p', 'Nothing is chosen. Tick at least one part or file.'));
    const { files, git, databases, agents, worktrees } = this.report.summary;
    const cell = (words, kind) => h('li', badge(words, kind));
    return section('The plan', h('ul.row',
      files.create && cell(`create ${plural(files.create, 'file')}`, 'good'),
      files.overwrite && cell(`overwrite ${plural(files.overwrite, 'file')}`, 'info'),
      files.delete && cell(`delete ${plural(files.delete, 'file')}`, 'bad'),
      files.skip && cell(`leave ${plural(files.skip, 'file')}`),
      git && cell(`git: ${git === '1 ref moved' ? this.report.details[0] : git}`, 'warn'), databases && cell(`databases: ${databases}`, 'warn'),
      agents && cell(`agents: ${agents}`, 'info'), worktrees && cell(`work trees: ${worktrees}`, 'warn')));
  }

  files() {
    const list = this.all ?? filesOf(this.report);
    if (!list.length || !this.chosen.has('files')) return null;
    const set = (unticked) => () => { this.unticked = new Set(unticked); this.again(); };
    const row = (one) => {
      const [sign, kind, says] = ACTION[one.action] ?? ACTION.skip;
      const change = (on) => { if (on) this.unticked.delete(one.path); else this.unticked.add(one.path); this.again(); };
      const words = [h('span.rs-sign', { class: kind, ...HIDDEN }, sign), h('span.mono', one.path)];
      return h('li', tick(words, !this.unticked.has(one.path), change, { dataset: { focus: `path ${one.path}` } }), h('span.muted', `${says}: ${one.reason}`));
    };
    return section(`Files (${number(this.ticked.length)} of ${number(list.length)})`,
      h('div.row',
        button('All', { kind: 'small', onclick: set([]) }),
        button('None', { kind: 'small', onclick: set(list.map((one) => one.path)) }),
        linked('See the lines', comparison(this.checkpoint.id, 'now', { plan: 'yes' }),
          { kind: 'small', title: 'What changed since the checkpoint: the restore takes it back' })),
      h('ul.rs-files', list.slice(0, PATHS_SHOWN).map(row)),
      list.length > PATHS_SHOWN && muted(`and ${plural(list.length - PATHS_SHOWN, 'more file')}. Their ticks follow “All” and “None”.`));
  }

  others() {
    return h('div.grid', part('Git', this.report.details), part('Database tables', this.report.tables?.map((line) => line.replace(': deleted (', ': table dropped ('))), part('Agent sessions', this.report.sessions));
  }

  confirm() {
    const { files, git, databases } = this.report?.summary ?? { files: {} };
    const { name } = this.checkpoint.workspace;
    const changes = [databases && 'databases', git && 'git refs'].filter(Boolean).join(' and ');
    const why = [changes && `changes ${changes}`, files.delete > DELETIONS_MAX && `deletes ${plural(files.delete, 'file')}`].filter(Boolean);
    const blocked = this.report?.conflicts.length > 0;
    const go = button('Restore', { kind: 'primary', disabled: !this.report || blocked || why.length > 0, dataset: { focus: 'go' }, onclick: () => this.restore() });
    const field = h('input', {
      id: 'rs-name', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false',
      'aria-describedby': 'rs-why', dataset: { focus: 'name' },
      oninput: () => { go.disabled = field.value.trim() !== name; },
      onkeydown: (event) => { if (event.key === 'Enter') go.click(); },
    });
    return h('div.card.rs-go',
      blocked ? h('p', 'Something is in the way. End it and look again, ',
        'or leave out the part or file that it names.')
        : why.length && h('div.stack', h('p', { id: 'rs-why' }, `This ${why.join(' and ')}.`),
          h('label', { for: 'rs-name' }, 'Type the workspace’s name ', h('strong', name), ' to go on'),
          field),
      h('div.row', go, blocked && button('Look again', { onclick: () => this.again() }),
        linked('Cancel', href('timeline', null, { at: this.checkpoint.id }))));
  }

  async restore() {
    this.state = 'running';
    const bar = progress('Restoring');
    let id = null;
    const stop = button('Cancel the restore', { onclick: async () => {
      stop.disabled = true;
      stop.disabled = id && await attempt(() => api.del(`/api/jobs/${id}`));
    } });
    fill(this.body, h('div.card.stack', bar.node, h('div.row', stop)));
    const began = Date.now();
    try {
      const done = await api.job(this.address, { ...this.request(), plan: this.report.plan }, (job) => {
        id = job.id;
        bar.show(job);
      });
      this.state = 'done';
      if (this.ctx.signal.aborted) { toast(done.text); return; }
      await this.finished(done, Date.now() - began);
    } catch (error) {
      if (this.ctx.signal.aborted) { toast(error.message, { kind: 'bad' }); return; }
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
        muted(report.verified && 'Every written byte was read back and compared. ',
          `It took ${duration(report.duration_ms ?? took)}.`),
        report.safety_checkpoint && h('p', 'What was there before is safe in ',
          h('a.mono', { href: href('checkpoint', report.safety_checkpoint) }, report.safety_checkpoint), '.'),
        this.undoBox),
      leftAlone(report.conflicts),
      warnings(report),
      part('Agent sessions', report.sessions),
      report.kept?.length && section('Kept aside',
        h('ul', report.kept.map((one) => h('li', h('code', one.path), ' is now at ', h('code', one.at), `: ${one.reason}`)))));
    this.body.querySelector('.rs-done').focus();
    await this.checkUndo();
  }

  // Offers undo for as long as it would take this restore back.
  async checkUndo() {
    const signal = this.asking();
    await fillWith(this.undoBox, async () => {
      const step = await nextUndo({ signal });
      return [step?.restored === this.checkpoint.id
        ? button('Undo this restore', { kind: 'primary', onclick: () => this.undo() })
        : muted('It can no longer be undone here: something else happened since. ',
          'The save from before is still there.'),
      linked('To the timeline', href('timeline'))];
    });
  }

  async undo(overwrite = false) {
    // Whether it is possible is not to be asked while it runs, nor told.
    this.state = 'undoing';
    this.asking();
    fill(this.undoBox, h('p', { role: 'status' }, 'Undoing …'));
    const done = await attempt(() => undo(overwrite));
    if (!done) { this.state = 'done'; await this.checkUndo(); return; }
    fill(this.heading, `${this.title}: undone`);
    this.state = 'undone';
    const left = done.conflicts ?? [];
    fill(this.undoBox,
      left.length && button(`Undo ${plural(left, 'edited path')} too`, {
        title: 'Overwrites what was edited since the restore. Rappel saves the edits first.',
        onclick: () => this.undo(true),
      }),
      linked('To the timeline', href('timeline'), { kind: 'primary' }));
    fill(this.body, h('div.card.rs-done.ok', { role: 'status' }, h('h2', left.length ? 'Undone in part' : 'Undone'),
      h('p', done.text ?? 'The workspace is as it was before the restore.'),
      leftAlone(left), this.undoBox));
  }
}

const part = (title, lines) => lines?.length && section(title, h('ul.stack', lines.map((line) => h('li', prose(line)))));
const listed = (text) => (text ?? '').split('\n').filter(Boolean);
const warnings = (report) => [...report.warnings].map((text) => h('p.note.warn', prose(typeof text === 'string' ? text : text.text)));

function filesOf(report) {
  const list = (report?.actions ?? []).filter((one) => one.facet === 'files');
  const folders = new Set(list.flatMap(({ path }) => path.split('/').slice(0, -1).map((_, at, parts) => parts.slice(0, at + 1).join('/'))));
  return list.filter((one) => !folders.has(one.path));
}
