// Building blocks. Everything that is shown goes through `h` and becomes a text node or an
// attribute: nothing that an agent wrote is ever read as markup.

const SVG = 'http://www.w3.org/2000/svg';

// An element: h('p.note.warn', {title: 'more'}, 'text', child, [children], null). What is null, false
// or 0 is left out: numbers are shown by number(); `onclick` and the like take a function, `style` and `dataset` an
// object. Addresses must be our own: `#…` or `/…`. Data must come as text, never as a bare object.
export function h(name, ...parts) {
  const [tag, ...classes] = name.split('.');
  return build(document.createElement(tag), classes, parts);
}

// The same in SVG.
export function svg(name, ...parts) {
  const [tag, ...classes] = name.split('.');
  return build(document.createElementNS(SVG, tag), classes, parts);
}

function build(node, classes, parts) {
  const attrs = parts[0]?.constructor === Object ? parts.shift() : {};
  const named = [...classes, attrs.class].filter(Boolean).join(' ');
  if (named) node.setAttribute('class', named);
  for (const [name, value] of Object.entries(attrs)) {
    if (value == null || value === false || /^(class|src.*|.*action)$/.test(name)) continue;
    if (name.startsWith('on')) {
      if (typeof value === 'function') node.addEventListener(name.slice(2), value);
    } else if (name === 'style') for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else if (name === 'dataset') Object.assign(node.dataset, value);
    else if (name === 'href' && !/^(#|\/(?![/\\]))/.test(value)) continue;
    else {
      const shown = name === 'title' || name === 'aria-label';
      node.setAttribute(name, value === true ? '' : shown ? plain(value) : String(value));
    }
  }
  add(node, parts);
  return node;
}

function add(node, children) {
  for (const child of children) {
    if (child == null || child === false || child === 0) continue;
    if (Array.isArray(child)) add(node, child);
    else if (child instanceof Node) node.append(child);
    else node.append(plain(child));
  }
}

const CONTROLS =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// Text with control characters made visible, so that terminal escapes and turned-around text show.
export function plain(text) {
  return String(text).replace(CONTROLS, (c) => {
    const code = c.codePointAt(0).toString(16);
    return code.length < 3 ? `\\x${code.padStart(2, '0')}` : `\\u${code.padStart(4, '0')}`;
  });
}

export function fill(node, ...children) {
  node.replaceChildren();
  add(node, children);
  return node;
}

const format = (parts) => {
  const made = new Intl.DateTimeFormat(undefined, parts);
  return (when) => made.format(new Date(when));
};
export const exact = format({ dateStyle: 'full', timeStyle: 'long' });
export const clock = format({ hour: '2-digit', minute: '2-digit' });
export const seconds = format({ hour: '2-digit', minute: '2-digit', second: '2-digit' });
export const day = format({ month: 'short', day: 'numeric' });
const year = format({ year: 'numeric', month: 'short', day: 'numeric' });

export function ago(when, now = new Date()) {
  const at = new Date(when);
  const passed = Math.round((now - at) / 1000);
  if (Math.abs(passed) < 10) return 'just now';
  if (passed < 0) return `in ${duration(-passed * 1000)}`;
  if (passed < 60) return `${passed} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  if (at >= midnight || passed < 6 * 3600) return `${Math.floor(passed / 3600)} h ago`;
  if (at >= midnight - 86_400_000) return `yesterday ${clock(at)}`;
  return at.getFullYear() === now.getFullYear() ? `${day(at)} ${clock(at)}` : year(at);
}

export function time(when, attrs = {}) {
  if (!when) return h('span', attrs, '–');
  return h('time', { datetime: when, title: exact(when), ...attrs }, ago(when));
}

export const moment = (when) =>
  h('time.mono.nowrap', { datetime: when, title: exact(when), 'data-fixed': true }, seconds(when));

setInterval(() => {
  for (const node of document.querySelectorAll('main time[datetime]:not([data-fixed])')) {
    const words = ago(node.dateTime);
    if (node.textContent !== words) node.textContent = words;
  }
}, 10_000);

export function bytes(count) {
  if (count == null) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [value, unit] = [count, 0];
  while (Math.abs(value) >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

// `1 min 20 s`, from milliseconds.
export function duration(ms) {
  if (ms == null) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  const [unit, name, part, small] = s < 3600 ? [60, 'min', 1, 's'] : s < 86_400 ? [3600, 'h', 60, 'min'] : [86_400, 'd', 3600, 'h'];
  const rest = Math.floor((s % unit) / part);
  return `${Math.floor(s / unit)} ${name}${rest ? ` ${rest} ${small}` : ''}`;
}

export const percent = (value) => `${Math.round(value * 100)} %`;

export const ms = (when) => new Date(when).getTime();

export const number = (value) => (value == null ? '–' : Number(value).toLocaleString());

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
// `End of day`, from `end-of-day`.
export const inWords = (name) => capital(name.replaceAll('-', ' '));

// `1 file`, `3 files`, `2 entries`, of a number or a list.
export function plural(counted, one, many = `${one}s`) {
  const count = counted?.length ?? counted;
  return `${number(count)} ${count === 1 ? one : many}`;
}

export const muted = (...words) => h('p.muted', words);

// The last line of a list that was cut: `… and 12 more`.
export const more = (count, shown) =>
  count > shown && h('li.muted', `… and ${number(count - shown)} more`);

// The short form of an id, for reading; the whole one belongs in `title`.
export const short = (id) => (/^(chk|checkpoint)[_-]/.test(id) && id.length > 16 ? `${id.slice(0, 12)}…` : id);

// For what only repeats in a sign or a shape what words beside it say.
export const HIDDEN = { 'aria-hidden': 'true' };

// button('Restore', {onclick, kind: 'primary' | 'danger' | 'plain', key, disabled, title}).
export const button = (label, { kind = '', key = null, ...attrs } = {}) => h('button',
  { type: 'button', class: kind, 'aria-keyshortcuts': key, ...attrs }, label, key && h('kbd', HIDDEN, key));

export const linked = (label, to, { kind = '', key = null, ...attrs } = {}) => h('a.button',
  { class: kind, href: to, 'aria-keyshortcuts': key, ...attrs }, label, key && h('kbd', HIDDEN, key));

export function tick(words, checked, change, more = {}, title = null) {
  const box = h('input', { type: 'checkbox', onchange: () => change(box.checked), ...more });
  box.checked = checked;
  return h('label.tick', { title }, box, words);
}

// Buttons of which one is pressed: segmented(label, [[value, words]], value, (value) => …).
export function segmented(label, choices, value, change) {
  const box = h('div.segmented', { role: 'group', 'aria-label': label });
  const draw = () => fill(box, choices.map(([one, words]) => button(words, {
    kind: 'small', 'aria-pressed': String(one === value), onclick: () => box.press(one),
  })));
  box.press = (one) => {
    value = one;
    draw();
    box.querySelector('[aria-pressed="true"]').focus();
    change(one);
  };
  draw();
  return box;
}

// A sign that says nothing to a screen reader: words beside it do.
export const sign = (text, kind = 'muted') => h('span.sign', { class: kind, ...HIDDEN }, text);

export const copy = (label, text) => button(label, { title: text, onclick: () => copyText(text) });

export const idButton = (id) => button(id, {
  kind: 'id plain small mono', title: 'Copy the id', 'aria-label': `Copy ${id}`, onclick: () => copyText(id),
});

// Copies a text as one line: it may go into a shell, which would run each line.
export async function copyText(what) {
  const text = plain(what).replace(/[\t\n]/g, ' ');
  try {
    await navigator.clipboard.writeText(text);
    toast('Copied.');
  } catch {
    dialog('Copy this', (body) => {
      const field = h('input', { value: text, readonly: true, 'aria-label': 'Text to copy' });
      body.append(field);
      setTimeout(() => field.select());
    });
  }
}

export function command(text) {
  return h('span.command', h('code', text), button('Copy', { kind: 'plain small', 'aria-label': `Copy ${text}`, onclick: () => copyText(text) }));
}

export function empty(text, first = null) {
  return h('div.empty', h('p', text), first && command(first));
}

// An error and what to do. `retry` is a function for a button.
export function failure(error, retry = null) {
  return h('div.failure', { role: 'alert' },
    h('p', h('strong', error.message || 'Something went wrong.')),
    error.hint && h('p', prose(error.hint)),
    retry && button('Try again', { onclick: retry }));
}

export function prose(text) {
  return String(text).split(/`([^`\n]+)`/).map((part, at) => (at % 2 ? h('code', part) : part));
}

// A label of one word: badge('crashed', 'bad'). Kinds: good, warn, bad, info, none.
export const badge = (text, kind = '', attrs = {}) => h('span', { class: `badge ${kind}`, ...attrs }, text);

// A table: table([{name, cell: row => …, class, number: true}], rows, {caption, empty}).
export function table(columns, rows, { caption = null } = {}) {
  const cell = (column, row) => h('td', { class: [column.class, column.number && 'number'].filter(Boolean).join(' ') || null }, column.cell(row));
  return h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': caption ?? 'Table' }, h('table',
    caption && h('caption.visually-hidden', caption),
    h('thead', h('tr', columns.map((c) => h('th', { scope: 'col', class: c.number && 'number' }, c.name)))),
    h('tbody', rows.map((row) => h('tr', columns.map((c) => cell(c, row)))))));
}

// Names and values: facts([['Branch', 'main'], …]). Pairs without a value are left out.
export function facts(pairs) {
  return h('dl.facts', pairs.filter((p) => p?.[1]).map(([name, value]) => h('div', h('dt', name), h('dd', value))));
}

export function section(title, ...children) {
  const id = `s-${Math.random().toString(36).slice(2, 8)}`;
  return h('section.card', { 'aria-labelledby': id }, h('h2', { id }, title), children);
}

// The head of a view: its title, a line below it, and actions.
export function head(title, sub = null, ...actions) {
  return h('div.head', h('div', h('h1', title), sub && h('p.sub', sub)), actions.length ? h('div.actions', actions) : null);
}

// How far a job is: {node, show(job)}.
export function progress(title) {
  const bar = h('progress', { 'aria-label': title });
  const words = h('p', { role: 'status' }, 'Starting …');
  const show = (job) => {
    const { phase, done = 0, total } = job.progress ?? {};
    fill(words, `${inWords(phase ?? 'at work')} … ${total ? `${number(done)} of ${number(total)}` : ''}`);
    if (total) { bar.max = total; bar.value = done; } else bar.removeAttribute('value');
  };
  return { node: h('div.stack', h('strong', title), words, bar), show };
}

export const search = (label, change, more = {}) => h('input',
  { type: 'search', placeholder: label, 'aria-label': label, oninput: (event) => change(event.target.value.trim()), ...more });

export function dialog(title, make, actions = () => []) {
  const body = h('div.dialog-body');
  const box = h('dialog', { 'aria-label': title });
  const close = () => box.close();
  make(body, close);
  const made = actions(close);
  box.append(
    h('div.dialog-head', h('h2', title), button('✕', { kind: 'plain', 'aria-label': 'Close', onclick: close })),
    body,
    made.length ? h('div.dialog-foot', made) : '',
  );
  box.addEventListener('close', () => box.remove());
  box.addEventListener('click', (event) => { if (event.target === box) close(); });
  document.body.append(box);
  box.showModal();
  return close;
}

export function ask(title, label, value = '', { ok = 'Save', long = false } = {}) {
  return new Promise((answer) => {
    let said = null;
    const field = h(long ? 'textarea' : 'input', { id: 'ask-field', rows: long ? '4' : null, value: long ? null : value }, long ? value : null);
    dialog(title, (body, close) => {
      const done = (event) => { event.preventDefault(); said = field.value; close(); };
      body.append(h('form', { id: 'ask-form', onsubmit: done }, h('label', { for: 'ask-field' }, label), field));
    }, (close) => [button('Cancel', { onclick: () => close() }), h('button.primary', { type: 'submit', form: 'ask-form' }, ok)]);
    field.closest('dialog').addEventListener('close', () => answer(said));
    field.focus();
  });
}

export function confirm(title, content, ok, { kind = 'danger', disabled = false } = {}) {
  return new Promise((answer) => {
    let said = false;
    const node = h('div.stack', content);
    dialog(title, (body) => body.append(node), (close) => [
      button('Cancel', { onclick: close }),
      button(ok, { kind, disabled, onclick: () => { said = true; close(); } }),
    ]);
    node.closest('dialog').addEventListener('close', () => answer(said));
  });
}

// A short note at the edge: toast('Saved.', {kind: 'bad', action: ['Undo', fn]}).
export function toast(text, { kind = '', action = null } = {}) {
  const note = h('div', { class: `toast ${kind}` }, h('span', text));
  if (action) note.append(button(action[0], { kind: 'small', onclick: () => { note.remove(); action[1](); } }));
  note.append(button('✕', { kind: 'plain small', 'aria-label': 'Dismiss', onclick: () => note.remove() }));
  document.getElementById('toasts').append(note);
  setTimeout(() => note.remove(), kind === 'bad' ? 12_000 : 6_000);
  return note;
}

// Runs an action and shows why it failed. Answers undefined then.
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name === 'AbortError') return undefined;
    toast([error.message, error.hint].filter(Boolean).join(' '), { kind: 'bad' });
    return undefined;
  }
}

// Fills a box with what `work` answers, or with why it failed and a button to try again.
export async function fillWith(box, work) {
  try {
    fill(box, await work());
  } catch (error) {
    if (error.name !== 'AbortError') fill(box, failure(error, () => fillWith(box, work)));
  }
}

// Makes signals for calls of which only the newest counts: each ends the one before.
export function newest(ctx) {
  let now = null;
  const end = () => now?.abort();
  ctx.onLeave(end);
  return () => {
    end();
    now = new AbortController();
    return now.signal;
  };
}

// A slider from 1 to `last`: slider('Step', 9, 1, (value) => …).
export const slider = (label, last, value, move) => h('input', { type: 'range', min: 1, max: last, value,
  'aria-label': label, oninput: (event) => move(Number(event.target.value)) });
