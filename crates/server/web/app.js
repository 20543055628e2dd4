// The shell: routing, the header, keys, live events.
//
// A view is a file views/NAME.js. It exports {title(params, query), async load(ctx), css}: the words
// of the tab, the whole view with its <h1>, and whether there is a views/NAME.css. In ctx are
//
//   params, query     what follows the name in the route ({id}) and the `?`
//   signal            ends when the view is left; pass it to api calls
//   navigate(route)   goes elsewhere; make routes with href() of route.js
//   setQuery(query)   changes the address, not the view
//   reload()          loads the view again in place
//   reloadSoon(ms)    the same a little later, once for many events
//   on(names, fn(data, name))         live events, with spaces; '*' is every event
//   keys({key: {does, run(event)}})   keys, and what `?` says of them
//   keys(does, {key: run, …})         several keys that `?` shows in one line
//   onShow(fn), onLeave(fn)
//
// While a view loads, the one before stays. An error that `load` throws is shown with what to do.

import * as api from './api.js';
import { current, href, navigate, setQuery, takeToken } from './route.js';
import { dialog, failure, fill, h } from './ui.js';
import { loadSessions } from './words.js';

/** Route name -> its tab in the header, the key after `g`; `file` if it is called otherwise. */
const VIEWS = {
  runs: { tab: 'Runs', key: 'r' },
  timeline: { tab: 'Timeline', key: 't' },
  sessions: { tab: 'Sessions', key: 's' },
  health: { tab: 'Health', key: 'h' },
  checkpoint: { under: 'timeline', name: 'Checkpoint' },
  compare: { under: 'timeline', name: 'Compare' },
  restore: { under: 'timeline', name: 'Restore' },
  session: { file: 'sessions', under: 'sessions', name: 'Session' },
  replay: { under: 'sessions', name: 'Session' },
};

const main = document.getElementById('main');
const bar = document.getElementById('bar');
let shown = null; // {route, leave, keys, listeners, scope}
let turn = 0;
const places = new Map(); // route text -> scroll position

async function show({ keepPlace = false } = {}) {
  const route = current();
  if (!VIEWS[route.name]) return navigate(await start(), { replace: true });
  const mine = ++turn;
  const slow = setTimeout(() => { bar.hidden = false; }, 150);
  const ending = new AbortController();
  const next = { route, keys: {}, listeners: [], showing: [], leaving: [], ending };
  const ctx = {
    params: { id: route.id },
    query: route.query,
    signal: ending.signal,
    navigate,
    setQuery: (query) => {
      if (current().text !== next.route.text) return; // the user is on the way elsewhere
      setQuery(query);
      next.route = current();
    },
    reload: () => (shown === next ? show({ keepPlace: true }) : undefined),
    reloadSoon: (ms) => { next.soon ??= setTimeout(ctx.reload, ms); },
    on: (names, fn) => names.split(' ').forEach((name) => next.listeners.push([name, fn])),
    keys: (more, keys = {}) => Object.assign(next.keys, typeof more === 'object' ? more : shared(more, keys)),
    onShow: (fn) => next.showing.push(fn),
    onLeave: (fn) => next.leaving.push(fn),
  };
  let view = null;
  let node;
  try {
    const { file = route.name } = VIEWS[route.name];
    view = (await import(`./views/${file}.js`)).default;
    const styled = view.css ? style(file) : null;
    node = await view.load(ctx);
    await styled;
  } catch (error) {
    if (error.name === 'AbortError' || mine !== turn) return leave(next);
    if (!(error instanceof api.ApiError)) console.error(error);
    node = h('div.view', h('h1', VIEWS[route.name].tab ?? VIEWS[route.name].name), failure(error, () => show()));
  } finally {
    clearTimeout(slow);
  }
  if (mine !== turn) return leave(next);
  bar.hidden = true;
  const place = keepPlace ? scrollY : places.get(route.text) ?? 0;
  const first = !shown;
  if (shown) {
    if (!keepPlace) places.set(shown.route.text, scrollY);
    leave(shown);
  }
  shown = next;
  main.replaceChildren(node);
  main.dataset.view = route.name;
  document.title = `${view?.title?.(ctx.params, ctx.query) ?? 'Rappel'} · Rappel`;
  scrollTo(0, place);
  if (!first && !keepPlace && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
  drawNav();
  for (const fn of next.showing) fn();
}

/** Keys that are told of in one line. */
const shared = (does, keys) => Object.fromEntries(Object.entries(keys).map(([key, run]) => [key, { does, run }]));

/** Loads a view's own styles once, before the view is shown. */
function style(file) {
  const address = `/web/views/${file}.css`;
  if (document.querySelector(`link[href="${address}"]`)) return null;
  const link = h('link', { rel: 'stylesheet', href: address });
  document.head.append(link);
  return new Promise((done) => { link.onload = done; link.onerror = done; });
}

function leave(view) {
  view.ending.abort();
  clearTimeout(view.soon);
  for (const fn of view.leaving) fn();
}

/** Runs when a session crashed, or ended under 24 hours ago; else Timeline. */
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
  const tabs = Object.entries(VIEWS).filter(([, view]) => view.tab);
  fill(document.getElementById('nav'), tabs.map(([key, view]) =>
    h('a', { href: href(key), 'aria-current': key === here ? 'page' : null, title: `${view.tab} (g ${view.key})` }, view.tab)));
  document.querySelector('.brand').setAttribute('href', href(''));
}

async function drawPicker() {
  const picker = document.getElementById('workspace');
  try {
    const [all, server] = await Promise.all([api.get('/api/workspaces', { workspace: '' }), api.get('/api/server', { workspace: '' })]);
    const here = server.workspace ?? null;
    const chosen = current().query.workspace || here;
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
  const typing = event.target.closest?.('input:not([type=checkbox]):not([type=radio]):not([type=range]), textarea, select, [contenteditable]');
  if (typing) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  if (afterG > Date.now()) {
    afterG = 0;
    const found = Object.entries(VIEWS).find(([, view]) => view.key === event.key);
    if (found) { event.preventDefault(); navigate(href(found[0])); return; }
  }
  if (event.key === 'g') { afterG = Date.now() + 1200; return; }
  const bound = shown?.keys[event.key] ?? GLOBAL[event.key];
  // Enter and Space belong to the button or link that has the focus.
  if (!bound || ([' ', 'Enter'].includes(event.key) && event.target.closest?.('a, button, summary, input'))) return;
  event.preventDefault();
  bound.run(event);
}

const KEY_NAMES = { ArrowUp: '↑', ArrowDown: '↓', ArrowLeft: '←', ArrowRight: '→', ' ': 'Space', Escape: 'Esc' };

function help() {
  const rows = (list) => h('dl.keys', list.map(([keys, does]) => h('div', h('dt', keys.map((key) => h('kbd', KEY_NAMES[key] ?? key))), h('dd', does))));
  const own = Object.entries(shown?.keys ?? {}).filter(([, bound]) => bound.does);
  const merged = new Map();
  for (const [key, { does }] of own) merged.set(does, [...(merged.get(does) ?? []), key]);
  const tabs = Object.values(VIEWS).filter((view) => view.tab).map((view) => [['g', view.key], `Go to ${view.tab}`]);
  dialog('Keys', (body) => {
    if (merged.size) body.append(h('h3', 'In this view'), rows([...merged].map(([does, keys]) => [keys, does])));
    body.append(h('h3', 'Everywhere'), rows([...tabs, ...Object.entries(GLOBAL).map(([key, { does }]) => [[key], does]), [['Escape'], 'Close a dialog, leave a field']]));
  });
}

function onEvent(name, data) {
  if (name === 'workspace') drawPicker();
  for (const [wanted, fn] of shown?.listeners ?? []) if (wanted === name || wanted === '*') fn(data, name);
}

function onState(state) {
  const node = document.getElementById('live');
  if (node.dataset.state === state) return;
  const back = node.dataset.state === 'waiting';
  node.dataset.state = state;
  node.title = state === 'live' ? 'Connected: this page updates by itself' : 'The server does not answer; trying again';
  node.querySelector('.live-text').textContent = state === 'live' ? 'Live' : 'Reconnecting';
  if (state === 'live' && back) { drawPicker(); if (main.querySelector('.failure')) show(); }
}

takeToken();
document.getElementById('theme').onclick = setTheme;
document.getElementById('help').onclick = help;
document.querySelector('.skip').addEventListener('click', (event) => { event.preventDefault(); main.focus(); });
addEventListener('keydown', onKey);
addEventListener('hashchange', () => {
  if (/^#token=/.test(location.hash)) { takeToken(); location.reload(); return; }
  const changed = (current().query.workspace || null) !== (shown?.route.query.workspace || null);
  show();
  if (changed) drawPicker();
});
history.scrollRestoration = 'manual';
drawNav();
drawPicker();
show();
api.events(onEvent, onState);
