// Each broker as a bar of its bundles: the length is its load, and each part is that of a bundle. Parts are links; arrow
// keys move between bundles and brokers, and a line below describes the part that has the pointer or the focus.

import { h, keyed, say } from "./dom.js";
import { address, brokerLink, colour, counted, namespaceLink, namespaceOf, rangeOf, rate, throughput } from "./words.js";
import { worstResource } from "./measures.js";

const NAMED = 8;

export function brokersPicture() {
  const rows = h("div", { class: "bars", role: "group", "aria-label": "Brokers and their bundles. Arrow keys go from bundle to bundle, Enter opens one." });
  const keys = h("ul", { class: "keys", "aria-label": "Namespaces by colour, the heaviest first" });
  const readout = h("output", { class: "readout" }, "Point at a bundle, or go there with the arrow keys.");
  const none = h("p", { class: "note empty" });
  rows.addEventListener("pointerover", event => tell(event.target));
  rows.addEventListener("focusin", event => { tell(event.target); roam(event.target); });
  rows.addEventListener("keydown", onKey);

  function tell(target) {
    const part = target.closest(".part");
    if (part && part.words) say(readout, part.words);
  }
  function roam(target) {
    if (!target.classList.contains("part")) return;
    rows.querySelectorAll(".part[tabindex='0']").forEach(one => { one.tabIndex = -1; });
    target.tabIndex = 0;
  }
  function onKey(event) {
    const part = event.target.closest(".part");
    if (!part || event.ctrlKey || event.metaKey || event.altKey) return;
    const bar = part.parentElement, row = bar.parentElement, place = [...bar.children].indexOf(part);
    const next = { ArrowRight: () => part.nextElementSibling, ArrowLeft: () => part.previousElementSibling,
      Home: () => bar.firstElementChild, End: () => bar.lastElementChild,
      ArrowDown: () => nearest(row, "nextElementSibling", place), ArrowUp: () => nearest(row, "previousElementSibling", place) }[event.key];
    if (!next) return;
    event.preventDefault();
    const there = next();
    if (there) there.focus();
  }
  function nearest(row, way, place) {
    for (let other = row[way]; other; other = other[way]) {
      const parts = other.querySelectorAll(".part");
      if (parts.length) return parts[Math.min(place, parts.length - 1)];
    }
    return null;
  }

  function draw(brokers, measure, leader, drained) {
    const most = measure.most || Math.max(...brokers.map(measure.of), 0);
    keyed(rows, brokers, one => one.broker, made, (row, one) => update(row, one, measure, most, leader, drained.has(one.broker)));
    say(none, brokers.some(one => measure.of(one) > 0) ? "" : measure.nothing);
    drawKeys(brokers, measure);
    if (!rows.querySelector(".part[tabindex='0']")) {
      const first = rows.querySelector(".part");
      if (first) first.tabIndex = 0;
    }
  }

  // The colours stand for namespaces: the legend has the heaviest ones.
  function drawKeys(brokers, measure) {
    const weights = new Map();
    for (const one of brokers) for (const bundle of one.top) {
      const name = namespaceOf(bundle[0]);
      weights.set(name, (weights.get(name) || 0) + measure.ofBundle(bundle));
    }
    const heaviest = [...weights].filter(([, weight]) => weight > 0).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, NAMED);
    keyed(keys, heaviest, ([name]) => name, ([name]) => h("li", {}, h("i", { class: colour(name), "aria-hidden": "true" }), " ", namespaceLink(name)));
  }

  function made(one) {
    return h("div", { class: "broker" }, h("span", { class: "who" }, brokerLink(one.broker), h("span", { class: "badge" })), h("div", { class: "bar" }), h("span", { class: "figure" }));
  }

  function update(row, one, measure, most, leader, isDrained) {
    const [, bar, figure] = row.children, value = measure.of(one);
    row.firstChild.classList.toggle("leads", one.broker === leader);
    say(row.firstChild.lastChild, isDrained ? "drained" : "");
    say(figure, one.reportedAt ? `${measure.words(value)}${measure.most ? ` ${worstResource(one).split(" ").slice(0, -2).join(" ")}` : ""}` : "no report yet");
    bar.style.width = `${most > 0 ? 100 * value / most : 0}%`;
    const parts = one.top.map(bundle => ({ key: bundle[0], weight: measure.ofBundle(bundle), bundle }));
    parts.sort((a, b) => a.key < b.key ? -1 : 1);
    if (one.others + one.unknown) parts.push({ key: "", weight: measure.others(one), bundle: null });
    const sum = parts.reduce((all, part) => all + part.weight, 0);
    const shown = sum > 0 ? parts.filter(part => part.weight > 0) : [];
    keyed(bar, shown, part => part.key, part => madePart(part, one), (node, part) => {
      node.style.flexGrow = String(part.weight);
      node.words = part.bundle
        ? `${part.key} on ${one.broker}: ${throughput(part.bundle[2])} (${(100 * part.weight / sum).toFixed(1)} % of the bar), ${rate(part.bundle[1])}, ${counted(part.bundle[3], "topic")}`
        : `${counted(one.others + one.unknown, "other bundle")} on ${one.broker}: ${throughput(one.othersThroughput)}, ${rate(one.othersRate)}`;
      if (node.getAttribute("aria-label") !== node.words) node.setAttribute("aria-label", node.words);
    });
  }

  function madePart(part, one) {
    return part.bundle
      ? h("a", { class: `part ${colour(namespaceOf(part.key))}`, href: address("bundle", part.key), tabindex: -1 }, h("span", {}, rangeOf(part.key).slice(2, 6)))
      : h("a", { class: "part rest", href: address("broker", one.broker), tabindex: -1 });
  }

  return { node: h("div", {}, keys, rows, none, readout), draw };
}
