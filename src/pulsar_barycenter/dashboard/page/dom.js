// Makes the elements of a page. Text becomes text nodes and attributes, never markup: clients choose the names in a cluster.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== ""));
  return node;
}

export const h = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const s = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

export const byId = id => document.getElementById(id);

// Set the text of a node; if it is the same already, do nothing, so that screen readers do not read it again.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Give `host` one child for each item, in order, made by `make(item)` and identified by `keyOf(item)`. A child that stays
// keeps its focus and its unfolded parts; `update(child, item)` updates it.
export function keyed(host, items, keyOf, make, update = () => {}) {
  const before = host.children_by_key || new Map(), now = new Map();
  let place = host.firstChild;
  for (const item of items) {
    const key = keyOf(item), child = before.get(key) || make(item);
    update(child, item);
    now.set(key, child);
    if (child === place) place = place.nextSibling;
    else host.insertBefore(child, place);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
  host.children_by_key = now;
}

// A table. A title that ends in # is that of a column of numbers, which is aligned to the right with its title.
export function table(titles, rows, attributes = {}) {
  const columns = titles.map(title => ({ title: title.replace(/#$/, ""), of: title.endsWith("#") ? "n" : null }));
  return h("table", { class: "cards", ...attributes },
    h("thead", {}, h("tr", {}, columns.map(({ title, of }) => h("th", { scope: "col", class: of }, title)))),
    h("tbody", {}, rows.map(cells => h("tr", {}, cells.map((cell, i) => h("td", { "data-label": columns[i].title, class: columns[i].of }, cell))))));
}

export const facts = pairs => h("dl", {}, pairs.filter(Boolean).map(([name, ...what]) => h("div", {}, h("dt", {}, name), h("dd", {}, what))));
