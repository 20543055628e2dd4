// What the user opened in a view, and where the focus is: it outlives loading the view again.

const CONTROLS = 'a, button, input, select, summary, [tabindex]';

// The elements of a box by name: their `data-key`, where they lead or what they say.
function named(box, css) {
  const found = new Map();
  for (const node of box.querySelectorAll(css)) {
    const words = node.getAttribute('aria-label') ?? (node.querySelector('summary') ?? node).textContent;
    const name = [node.tagName, node.closest('[data-key]')?.dataset.key,
      node.getAttribute('href') ?? words.replace(/\d+/g, '')].join(' ');
    // Elements of one name are told apart by their order.
    let place = 0;
    while (found.has(name + place)) place += 1;
    found.set(name + place, node);
  }
  return found;
}

// Remembers a box, and answers a function that does the same to the one in its place.
export function remember(box) {
  const opened = [...named(box, 'details')].map(([name, { open }]) => [name, open]);
  const held = document.activeElement;
  const focus = box.contains(held) && [...named(box, CONTROLS)].find(([, node]) => node === held);
  const { selectionStart: start, selectionEnd: end } = held ?? {};
  return (now) => {
    const details = named(now, 'details');
    for (const [name, open] of opened) if (details.has(name)) details.get(name).open = open;
    const node = focus && named(now, CONTROLS).get(focus[0]);
    if (!node) return;
    node.focus({ preventScroll: true });
    if (start != null) node.setSelectionRange(start, end);
  };
}
