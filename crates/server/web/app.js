// The shell: routing, the header, keys, live events.
//
// A view is a file views/NAME.js. It exports {load(ctx), title(id), still}: the whole view with its
// <h1>, the words of the browser's tab if not its name, and whether it takes care itself when events
// were missed (`reset`); other views are loaded again. In ctx are
//
//   id, query         what follows the name in the route, and the `?`
//   signal            ends when the view is left; pass it to api calls
//   navigate(route)   goes elsewhere; go(…) makes the route by href() of route.js
//   setQuery(query)   changes the address, not the view
//   reload()          loads the view again in place; reloadSoon(ms) once for many events
//   kept              an object that outlives a reload
//   on(names, fn(data, name))   live events; '*' is every one, and `poll` comes every 15 seconds
//   watch(known, look)          looks then, and loads again if the answer is not as known
//   keys({does: {key: run()}})  keys, and what `?` says of them; buttons have theirs as `key`
//   onShow(fn), onLeave(fn)
//
// While a view loads, the one before stays. An error of `load` is shown with what to do.

import * as api from './api.js';
import { remember } from './keep.js';
import { current, href, navigate, setQuery, takeToken, workspace } from './route.js';
import { capital, dialog, failure, fill, h, plain } from './ui.js';
import { loadSessions } from './words.js';

// Route name -> the key after `g` of a tab in the header, or the tab that it is under.
const VIEWS = {
  runs: { key: 'r' },
  timeline: { key: 't' },
  sessions: { key: 's' },
  health: { key: 'h' },
  checkpoint: { under: 'timeline' },
  compare: { under: 'timeline' },
  restore: { under: 'timeline' },
  session: { under: 'sessions' },
  replay: { under: 'sessions' },
};
const TABS = Object.keys(VIEWS).filter((name) => VIEWS[name].key);

const byId = (id) => document.getElementById(id);
const main = byId('main');
const bar = byId('bar');
let shown = null; // the view: {route, keys, listeners, reload, …}
let missed = null; // the events since a view began to load
let turn = 0;
const places = new Map(); // route text -> scroll position

async function show({ keepPlace = false } = {}) {
  const route = current();
  if (!VIEWS[route.name]) return navigate(await start(), { replace: true });
  const mine = ++turn;
  const slow = setTimeout(() => { bar.hidden = false; }, 150);
  const ending = new AbortController();
  const kept = keepPlace && shown ? shown.kept : {};
  const next = { route, keys: {}, listeners: [], showing: [], leaving: [], ending, kept };
  missed = [];
  const isHere = () => current().text === next.route.text; // else the user is on the way elsewhere
  const ctx = {
    id: route.id,
    query: route.query,
    signal: ending.signal,
    navigate,
    go: (...route) => navigate(href(...route)),
    kept,
    setQuery: (query) => {
      if (!isHere()) return;
      setQuery(query);
      next.route = current();
    },
    reload: () => (shown === next && isHere() ? show({ keepPlace: true }) : undefined),
    reloadSoon: (ms) => {
      next.soon ??= setTimeout(() => {
        next.soon = null;
        // A dialog is about what is shown now; a view that loads gets the events that it missed.
        if (missed || document.querySelector('dialog')) ctx.reloadSoon(1000);
        else ctx.reload();
      }, ms);
    },
    on: (names, fn) => names.split(' ').forEach((name) => next.listeners.push([name, fn])),
    watch: (known, look) => ctx.on('poll', async () => {
      const found = await look().catch(() => known);
      if (JSON.stringify(found) !== JSON.stringify(known)) ctx.reloadSoon(0);
    }),
    keys: (all) => {
      for (const [does, keys] of Object.entries(all)) {
        for (const [key, run] of Object.entries(keys)) next.keys[key] = { does, run };
      }
    },
    onShow: (fn) => next.showing.push(fn),
    onLeave: (fn) => next.leaving.push(fn),
  };
  let view = null;
  let node;
  try {
    view = (await import(`./views/${route.name}.js`)).default;
    node = await view.load(ctx);
  } catch (error) {
    if (error.name === 'AbortError' || mine !== turn) return leave(next);
    if (!(error instanceof api.ApiError)) console.error(error);
    node = h('div.view', h('h1', capital(route.name)), failure(error, () => show()));
  } finally {
    clearTimeout(slow);
  }
  if (mine !== turn) return leave(next);
  bar.hidden = true;
  const place = keepPlace ? scrollY : places.get(route.text) ?? 0;
  const first = !shown;
  const restore = keepPlace ? remember(main) : () => {};
  if (shown) {
    if (!keepPlace) places.set(shown.route.text, scrollY);
    leave(shown);
  }
  shown = Object.assign(next, { reload: ctx.reload, still: view?.still });
  main.replaceChildren(node);
  restore(main);
  main.dataset.view = route.name;
  document.title = plain(`${view?.title?.(route.id) ?? capital(route.name)} · Rappel`);
  scrollTo(0, place);
  if (!first && !keepPlace && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
  drawNav();
  for (const fn of next.showing) fn();
  const late = missed;
  missed = null;
  for (const [name, data] of late) tell(name, data);
}

function leave(view) {
  view.ending.abort();
  clearTimeout(view.soon);
  for (const fn of view.leaving) fn();
}

// Runs when a session crashed, or ended under 24 hours ago; else Timeline.
async function start() {
  try {
    const sessions = await loadSessions();
    const recent = sessions.some((one) => one.process_gone
      || (one.ended_at && Date.now() - new Date(one.ended_at) < 86_400_000));
    return href(recent ? 'runs' : 'timeline');
  } catch {
    return href('timeline');
  }
}

function drawNav() {
  const name = shown?.route.name ?? '';
  const here = VIEWS[name]?.under ?? name;
  fill(byId('nav'), TABS.map((tab) => h('a', {
    href: href(tab), 'aria-current': tab === here && 'page', title: `g ${VIEWS[tab].key}`,
  }, capital(tab))));
  document.querySelector('.brand').setAttribute('href', href(''));
}

let workspaces = [];
let here = null; // the workspace that the server was started in

async function drawPicker() {
  const picker = byId('workspace');
  try {
    const [all, server] = await Promise.all(
      ['workspaces', 'server'].map((what) => api.get(`/api/${what}`, { workspace: '' })));
    workspaces = all;
    here = server.workspace ?? null;
    const chosen = workspace() || here;
    const own = all.filter((one) => !one.lineage_of);
    const twice = new Set(own.map((one) => one.name).filter((name, at, names) => names.indexOf(name) !== at));
    const label = (one) => `${twice.has(one.name) ? one.root : one.name}${one.exists ? '' : ' (folder is gone)'}`;
    fill(picker, own.map((one) => h('option', { value: one.id, title: one.root }, label(one))));
    if (chosen && !own.some((one) => one.id === chosen)) picker.append(h('option', { value: chosen }, chosen));
    if (!here) picker.prepend(h('option', { value: '' }, String(server.root ?? 'Here').split('/').pop()));
    picker.value = chosen ?? '';
    picker.disabled = picker.options.length < 2;
    picker.title = picker.selectedOptions[0]?.title ?? '';
    picker.onchange = () => {
      const value = picker.value === here ? null : picker.value;
      const tab = VIEWS[shown?.route.name]?.under ?? shown?.route.name ?? '';
      navigate(href(tab, null, { workspace: value }));
    };
  } catch {
    fill(picker, h('option', 'No workspace'));
  }
}

function setTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  try { localStorage.setItem('rappel.theme', root.dataset.theme); } catch { /* it lasts for this page */ }
}

const GLOBAL = {
  '?': { does: 'Show the keys', run: help },
  d: { does: 'Dark or light', run: setTheme },
};
let afterG = 0;

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  const typing = event.target.closest?.('input:not([type=checkbox]):not([type=range]), textarea, select, [contenteditable]');
  if (typing) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  if (afterG > Date.now()) {
    afterG = 0;
    const tab = TABS.find((name) => VIEWS[name].key === event.key);
    if (tab) { event.preventDefault(); navigate(href(tab)); return; }
  }
  if (event.key === 'g') { afterG = Date.now() + 1200; return; }
  const { key } = event;
  const bound = shown?.keys[key] ?? pressed().find((one) => one.key === key) ?? GLOBAL[key];
  // Enter and Space belong to the button or link that has the focus.
  if (!bound || ([' ', 'Enter'].includes(key) && event.target.closest?.('a, button, summary, input'))) return;
  event.preventDefault();
  bound.run();
}

// The buttons and links of the view that have a key.
const pressed = () => [...main.querySelectorAll('[aria-keyshortcuts]')].map((node) => ({
  key: node.getAttribute('aria-keyshortcuts'), does: node.firstChild.textContent, run: () => node.click(),
}));

const KEY_NAMES = { ArrowUp: '↑', ArrowDown: '↓', ArrowLeft: '←', ArrowRight: '→', ' ': 'Space', Escape: 'Esc' };

function help() {
  const rows = (list) => h('dl.keys', list.map(([keys, does]) => h('div', h('dt', keys.map((key) => h('kbd', KEY_NAMES[key] ?? key))), h('dd', does))));
  const own = Object.entries(shown?.keys ?? {}).map(([key, { does }]) => ({ key, does }));
  const merged = Map.groupBy([...own, ...pressed()], (one) => one.does);
  const tabs = TABS.map((tab) => [['g', VIEWS[tab].key], `Go to ${capital(tab)}`]);
  dialog('Keys', (body) => {
    if (merged.size) body.append(h('h3', 'In this view'), rows([...merged].map(([does, all]) => [all.map((one) => one.key), does])));
    body.append(h('h3', 'Everywhere'), rows([...tabs, ...Object.entries(GLOBAL).map(([key, { does }]) => [[key], does]), [['Escape'], 'Close a dialog, leave a field']]));
  });
}

// Whether an event is of another workspace, and not of a history that was imported into this one.
function isForeign({ workspace: id }) {
  const mine = workspace() || here;
  const found = (wanted) => workspaces.find((one) => one.id === wanted);
  return found(mine) && id !== mine && found(id) && found(id).lineage_of !== mine;
}

function onEvent(name, data) {
  if (name === 'workspace' || name === 'reset') drawPicker();
  if (isForeign(data)) return;
  missed?.push([name, data]);
  tell(name, data);
}

function tell(name, data) {
  if (!shown) return;
  for (const [wanted, fn] of shown.listeners) if (wanted === name || wanted === '*') fn(data, name);
  if (name === 'reset' && !shown.still) shown.reload();
}

function onState(state, goesOn) {
  // Without a place to go on from, nobody knows what happened before.
  const live = state === 'live';
  if (live && !goesOn && shown) onEvent('reset', {});
  const node = byId('live');
  if (node.dataset.state === state) return;
  const back = node.dataset.state === 'waiting';
  node.dataset.state = state;
  node.title = live ? 'Connected: this page updates by itself'
    : 'The server does not answer; trying again';
  node.querySelector('.live-text').textContent = live ? 'Live' : 'Reconnecting';
  if (live && back) { drawPicker(); if (main.querySelector('.failure')) show(); }
}

takeToken();
byId('theme').onclick = setTheme;
byId('help').onclick = help;
document.querySelector('.skip').addEventListener('click', (event) => { event.preventDefault(); main.focus(); });
addEventListener('keydown', onKey);
addEventListener('hashchange', () => {
  if (/^#token=/.test(location.hash)) { takeToken(); location.reload(); return; }
  for (const one of document.querySelectorAll('dialog')) one.close();
  const changed = workspace() !== (shown?.route.query.workspace || null);
  show();
  if (changed) drawPicker();
});
history.scrollRestoration = 'manual';
drawNav();
drawPicker();
show();
setInterval(() => { if (!document.hidden) onEvent('poll', {}); }, 15_000);
api.events(onEvent, onState);
