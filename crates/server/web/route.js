// Routes: `#/name/ID?key=value`. The workspace is part of each route, so a link means the same
// for everyone who opens it.

// The token of `/#token=…`: kept for this tab and taken out of the address.
export function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem('rappel.token', decodeURIComponent(found[1]));
    history.replaceState(null, '', location.pathname);
  }
}

export const token = () => sessionStorage.getItem('rappel.token');

export function current() {
  const text = location.hash.replace(/^#/, '');
  const [path, search = ''] = text.split(/\?(.*)/s);
  const [name = '', ...rest] = path.split('/').filter(Boolean).map(decode);
  return { name, id: rest.join('/'), query: Object.fromEntries(new URLSearchParams(search)), text };
}

function decode(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

// The workspace that the page shows; null is the one that the server was started in.
export const workspace = () => current().query.workspace || null;

// A path with the workspace and a query. Values that are null, undefined, false or '' are left out.
export function address(path, query = {}) {
  const given = Object.entries({ workspace: workspace(), ...query })
    .filter(([, value]) => value != null && value !== '' && value !== false);
  const search = new URLSearchParams(given).toString();
  return search ? `${path}?${search}` : path;
}

// The address of a route, for `href` and `navigate`: href('checkpoint', id).
export const href = (name, id = null, query = {}) =>
  address(id == null ? `#/${name}` : `#/${name}/${encodeURIComponent(id)}`, query);

export const comparison = (from, to = 'now', more = {}) => href('compare', null, { from, to, ...more });

// Goes to a route: a text as `href` makes it.
export function navigate(route, { replace = false } = {}) {
  const text = route.startsWith('#') ? route : `#${route}`;
  if (replace) location.replace(text);
  else location.hash = text;
}

// Changes the query of the address and leaves the view as it is.
export function setQuery(query) {
  const now = current();
  history.replaceState(history.state, '', href(now.name, now.id || null, query));
}
