// Advice of the engine in this page's words. The server's own words name routes, which help programs.

import { href } from './route.js';
import { capital } from './ui.js';

const RECOVER = ['Finish the unfinished restore, or take it back', 'rappel recover'];
const VERIFY = ['Check all that is stored', 'rappel verify'];
const LOOK = ['Look for it in the timeline', null, 'timeline'];
const SESSION = ['Look at the session', null, 'session'];

// What to do: a sentence, a command to type, a view of this page.
const ADVICE = {
  'save-first': ['Save the first checkpoint', 'rappel save'],
  save: ['Save the workspace', 'rappel save'],
  'plan-again': ['Look at the plan again'],
  'try-again': ['Try again in a moment'],
  'open-again': ['Try again in a moment'],
  recover: RECOVER,
  'show-unfinished': RECOVER,
  'finish-restore': RECOVER,
  trust: ['See what rappel.toml would run, and allow it', 'rappel trust'],
  'list-checkpoints': LOOK,
  'show-timeline': LOOK,
  'list-sessions': ['Look at the sessions', null, 'sessions'],
  'resume-sessions': ['Look at the runs that crashed', null, 'runs'],
  'say-how-it-ended': ['Say how the session ended', 'rappel session end'],
  'show-session': SESSION,
  'recall-session': SESSION,
  'show-checkpoint': ['Look at the checkpoint', null, 'checkpoint'],
  verify: VERIFY,
  'verify-all': VERIFY,
  doctor: ['See what is wrong with the set-up', 'rappel doctor'],
  'free-space': ['Free some space, or delete old checkpoints', 'rappel gc'],
  update: ['Update Rappel'],
  adopt: ['Take over the history of the moved folder', 'rappel adopt OLD-FOLDER'],
  'terminate-connections': ['Tick the option that disconnects others'],
  'terminate-sessions': ['Tick the option that ends other sessions'],
  'skip-databases': ['Leave databases out'],
  'list-workspaces': ['Choose another workspace in the header'],
  'show-latest': ['Look at the newest checkpoint', null, 'checkpoint', 'latest'],
  'plan-latest': ['Look at what going back to the newest checkpoint would do', null,
    'restore', 'latest'],
  'choose-home': ['Choose another folder for what Rappel stores, with `--home` or RAPPEL_HOME'],
  'make-home-writable': ['Make the folder in which Rappel stores writable again'],
};

// A piece of advice as {text, typed, place}; null where this page has no words for it.
export function advice(one) {
  const scope = ['shared', 'user'].includes(one.scope) ? ` --${one.scope}` : '';
  const integrate = `rappel integrate ${one.agent}${scope}`;
  const own = {
    plain: () => [capital(one.text.replace(/\.$/, ''))],
    'did-you-mean': () => [`Did you mean ${one.names.join(' or ')}?`],
    undelete: () => ['Bring it back', `rappel undelete ${one.id}`],
    unpin: () => ['Unpin it first', one.checkpoint && `rappel unpin ${one.checkpoint}`],
    integrate: () => [`Install the hooks of ${one.agent} again`, integrate],
    'forget-integration': () => ['If you took them out yourself', `${integrate} --remove`],
    'confirm-hooks': () => [`Start ${one.agent} and confirm Rappel’s hooks: \`/hooks\` lists them`],
    'trust-folder': () => [`Start ${one.agent} in this folder and say that you trust it`],
    'switch-hooks-on': () => [`Take \`${one.setting}\` out of ${one.file}`],
    'start-agent-again': () => [`End ${one.agent} and start it again: it reads its hooks then`],
    'restore-git': () => ['Look at what a restore of git would do', null, 'restore', 'latest'],
  };
  const [text, typed, view, place] = own[one.kind]?.() ?? ADVICE[one.kind] ?? [];
  const id = one.session ?? one.checkpoint ?? place;
  return text ? { text, typed, place: view && href(view, id) } : null;
}

// The advice of an error in sentences; null if there is none.
export function sentences(list) {
  const said = list.map(advice).filter(Boolean)
    .map(({ text, typed }) => `${text}${typed ? `: \`${typed}\`` : ''}`);
  return [...new Set(said)].map((text) => (/[.?]$/.test(text) ? text : `${text}.`)).join(' ') || null;
}
