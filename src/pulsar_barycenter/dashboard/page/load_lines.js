// Loads as lines over time: each picture has one axis and a few lines with different strokes. Arrow keys move between
// moments, and a line below describes the one with the pointer. The number of drawn values does not depend on bundles.

import { h, s, say } from "./dom.js";
import { GAP_MS, labelled } from "./time_axis.js";
import { valueAxis } from "./value_axis.js";
import { time } from "./words.js";

const TOP = 8, BOTTOM = 24, HEIGHT = 130;

// `lines` names the lines, the strongest first. `draw(samples, values, measure, axisOf, why)` gets for each line a value or
// null for each sample, oldest first. `axisOf(width)` is the time axis of a picture with this width, null if no value is
// known; `why` is the reason.
export function loadLines(title, lines) {
  const svg = s("svg", { tabindex: 0, role: "img" }), readout = h("p", { class: "readout", "aria-live": "off" }), none = h("p", { class: "note empty" });
  const keys = lines.length > 1 ? h("ul", { class: "keys", "aria-hidden": "true" }, lines.map((name, i) =>
    h("li", {}, s("svg", { class: "stroke", viewBox: "0 0 28 8" }, s("path", { class: `line line${i}`, d: "M0 4H28" })), " ", name))) : null;
  const node = h("figure", { class: "lines" }, h("figcaption", {}, title), keys, svg, none, readout);
  let now = null, at = -1, cross = null;
  new ResizeObserver(() => paint()).observe(node);

  // screen readers only read what the user moves to, not periodic changes
  for (const [event, live] of [["focus", "polite"], ["blur", "off"]]) svg.addEventListener(event, () => readout.setAttribute("aria-live", live));
  svg.addEventListener("pointermove", event => {
    if (!now) return;
    const box = svg.getBoundingClientRect(), wanted = now.timeAt((event.clientX - box.left) * now.width / box.width);
    at = now.times.reduce((best, one, i) => Math.abs(one - wanted) < Math.abs(now.times[best] - wanted) ? i : best, 0);
    tell();
  });
  svg.addEventListener("keydown", event => {
    const last = now ? now.times.length - 1 : -1, from = at < 0 ? last : at;
    const next = { ArrowLeft: from - (at < 0 ? 0 : 1), ArrowRight: from + 1, Home: 0, End: last }[event.key];
    if (next === undefined || last < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    at = Math.min(last, Math.max(0, next));
    tell();
  });
  const valuesAt = i => lines.map((name, line) => [name, now.values[line][i]]).filter(([, value]) => value !== null)
    .map(([name, value]) => lines.length > 1 ? `${name} ${now.words(value)}` : now.words(value)).join(", ") || "not known";
  function tell() {
    if (!now || !(at in now.times)) return;
    say(readout, `${time(now.times[at])}: ${valuesAt(at)}`);
    if (cross) for (const end of ["x1", "x2"]) cross.setAttribute(end, now.x(now.times[at]));
  }

  function draw(samples, values, measure, axisOf, why) {
    const held = now && at in now.times ? now.times[at] : null, times = samples.map(one => one.at);
    now = { times, ends: samples.map(one => one.until), values, measure, words: measure.words, axisOf, why };
    at = held === null ? -1 : times.indexOf(held);
    paint();
  }

  function paint() {
    const width = node.clientWidth;
    if (!now || !width) return;
    const { times, ends, values, measure, why } = now, all = values.flat().filter(value => value !== null), axis = now.axisOf(width);
    if (!all.length || !axis) {
      svg.setAttribute("aria-label", `${title}: ${why}`);
      svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
      svg.replaceChildren();
      say(none, why);
      svg.toggleAttribute("hidden", true);
      say(readout, "");
      now.x = () => -9;
      now.timeAt = () => 0;
      now.width = width;
      return;
    }
    svg.toggleAttribute("hidden", false);
    say(none, "");
    const scale = valueAxis(Math.max(...all), measure), bottom = HEIGHT - BOTTOM;
    Object.assign(now, { x: axis.x, timeAt: axis.timeAt, width });
    const y = value => bottom - value / scale.top * (bottom - TOP);
    const parts = axis.ticks.map(one => s("line", { class: "grid", x1: one.x, x2: one.x, y1: TOP, y2: bottom + 4 }));
    for (const mark of scale.marks) {
      parts.push(s("line", { class: "grid", x1: axis.left, x2: axis.right, y1: y(mark.value), y2: y(mark.value) }));
      parts.push(s("text", { class: "soft mark-label", x: axis.left - 6, y: y(mark.value) + 4, "text-anchor": "end" }, mark.label));
    }
    for (const one of labelled(axis)) parts.push(s("text", { class: "soft tick", x: one.x, y: HEIGHT - 6, "text-anchor": "middle" }, one.label));
    for (const [line, row] of [...values.entries()].reverse()) parts.push(s("path", { class: `line line${line}`, d: pathOf(times, ends, row, now.x, y) }));
    const newest = times.length - 1 - [...times.keys()].reverse().findIndex(i => values.some(row => row[i] !== null));
    for (const [line, row] of values.entries()) if (row[newest] !== null) parts.push(s("circle", { class: `end end${line}`, cx: now.x(times[newest]), cy: y(row[newest]), r: 3 }));
    cross = s("line", { class: "cross", x1: -9, x2: -9, y1: TOP, y2: bottom });
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    svg.replaceChildren(...parts, cross);
    svg.setAttribute("aria-label", `${title}. At ${time(times[newest])}: ${valuesAt(newest)}. Arrow keys go from moment to moment.`);
    if (at < 0) say(readout, `${time(times[newest])}: ${valuesAt(newest)}`);
    else tell();
  }
  return { node, draw };
}

// A line has a gap where no value is known for GAP_MS or more; a single moment is a dot.
function pathOf(times, ends, row, x, y) {
  let path = "", before = null;
  row.forEach((value, i) => {
    if (value === null) return;
    const place = `${x(times[i]).toFixed(1)} ${y(value).toFixed(1)}`;
    path += before !== null && times[i] - ends[before] < GAP_MS ? `L${place}` : `M${place}h.1`;
    before = i;
  });
  return path;
}
