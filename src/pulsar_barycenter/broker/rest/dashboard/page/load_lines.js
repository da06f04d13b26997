// Loads as lines over time: each picture has one axis, and few lines that differ by their strokes. Arrow keys go from
// moment to moment and a line below tells of the one pointed at. What is drawn are moments, never bundles.

import { h, s, say } from "./dom.js";
import { moment, throughput, time } from "./words.js";

const LEFT = 78, RIGHT = 12, TOP = 8, BOTTOM = 24, HEIGHT = 130, GAP_MS = 60000, LEAST_MS = 60000;

// `lines` name the lines, the first the strongest. `draw(times, values, words, step)` takes for each line a value or null
// for each time, epoch ms, oldest first; `words` tell a value, `step` is how far times are apart, 0 if they just came so.
export function loadLines(title, lines) {
  const svg = s("svg", { tabindex: 0, role: "img" }), readout = h("p", { class: "readout", "aria-live": "off" });
  const keys = lines.length > 1 ? h("ul", { class: "keys", "aria-hidden": "true" }, lines.map((name, i) =>
    h("li", {}, s("svg", { class: "stroke", viewBox: "0 0 28 8" }, s("path", { class: `line line${i}`, d: "M0 4H28" })), " ", name))) : null;
  const node = h("figure", { class: "lines" }, h("figcaption", {}, title), keys, svg, readout);
  let now = null, at = -1, cross = null;
  new ResizeObserver(() => paint()).observe(svg);

  // what changes by itself is not read aloud, only what somebody goes to
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

  function draw(times, values, words, step = 0) {
    const held = now && at in now.times ? now.times[at] : null;
    now = { times, values, words, step };
    at = held === null ? -1 : times.indexOf(held);
    paint();
  }

  function paint() {
    const width = svg.clientWidth;
    if (!now || !width) return;
    const { times, values, words, step } = now, all = values.flat().filter(value => value !== null);
    if (!all.length) {
      svg.setAttribute("aria-label", `${title}: nothing is known`);
      svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
      svg.replaceChildren(s("text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle", class: "soft" }, "nothing is known of this time yet"));
      say(readout, "");
      now.x = () => -9;
      now.timeAt = () => 0;
      now.width = width;
      return;
    }
    const last = times[times.length - 1], first = Math.min(times[0], last - LEAST_MS), top = roundTop(Math.max(...all), words === throughput ? 1024 : 1000);
    const right = width - RIGHT, bottom = HEIGHT - BOTTOM;
    now.x = t => LEFT + (t - first) / (last - first) * (right - LEFT);
    now.timeAt = place => first + (place - LEFT) / (right - LEFT) * (last - first);
    now.width = width;
    const y = value => bottom - value / top * (bottom - TOP);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      parts.push(s("line", { class: "grid", x1: LEFT, x2: right, y1: y(share * top), y2: y(share * top) }));
      parts.push(s("text", { class: "soft", x: LEFT - 6, y: y(share * top) + 4, "text-anchor": "end" }, words(share * top)));
    }
    const most = Math.max(1, Math.floor((right - LEFT) / 110));
    for (let i = 0; i <= most; i++) {
      const t = first + (last - first) * i / most;
      parts.push(s("text", { class: "soft", x: now.x(t), y: HEIGHT - 6, "text-anchor": i === most ? "end" : i ? "middle" : "start" }, moment(t, last - first)));
    }
    for (const [line, row] of [...values.entries()].reverse()) parts.push(s("path", { class: `line line${line}`, d: pathOf(times, row, now.x, y, step ? 1.5 * step : GAP_MS) }));
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

// The end of an axis: what is as much or a little more, and half of it, are short to tell in steps of `base`.
function roundTop(most, base) {
  if (!(most > 0)) return 1;
  const unit = base ** Math.floor(Math.log(most) / Math.log(base)), value = most / unit, power = 10 ** Math.floor(Math.log10(value));
  return unit * power * [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].find(one => one * power >= value - 1e-9);
}

// A line is broken where nothing is known; a moment that stands alone is a dot.
function pathOf(times, row, x, y, gap) {
  let path = "", before = null;
  row.forEach((value, i) => {
    if (value === null) return;
    const place = `${x(times[i]).toFixed(1)} ${y(value).toFixed(1)}`;
    path += before !== null && times[i] - times[before] <= gap ? `L${place}` : `M${place}h.1`;
    before = i;
  });
  return path;
}
