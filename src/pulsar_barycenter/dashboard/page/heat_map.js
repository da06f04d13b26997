// The load of brokers over time, one row for each broker. It is drawn on a canvas, because there may be a hundred brokers
// and four hundred moments. Arrow keys move between cells, and a line below describes the one with the pointer. It has the
// same time axis as the lines below it.

import { h, s, say } from "./dom.js";
import { GAP_MS, labelled } from "./time_axis.js";
import { byName, time } from "./words.js";

const STEPS = 24, BOTTOM = 20;

export function heatMap() {
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "Load of each broker over time" });
  const axisLine = s("svg", { class: "axis", "aria-hidden": "true" });
  const readout = h("output", { class: "readout" }, "Point at a moment, or go there with the arrow keys.");
  const scale = h("p", { class: "scale note" }), none = h("p", { class: "note empty" });
  const node = h("div", { class: "heat" }, none, canvas, axisLine, readout, scale);
  let cells = null, at = [0, 0], shown = "";

  canvas.addEventListener("pointermove", event => {
    if (!cells) return;
    const box = canvas.getBoundingClientRect(), wanted = cells.axis.timeAt(event.clientX - box.left);
    at = [cells.samples.findLastIndex(one => one.at <= wanted), Math.floor((event.clientY - box.top) / cells.height)];
    tell();
  });
  canvas.addEventListener("keydown", event => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step || !cells) return;
    event.preventDefault();
    at = [Math.min(cells.samples.length - 1, Math.max(0, at[0] + step[0])), Math.min(cells.names.length - 1, Math.max(0, at[1] + step[1]))];
    tell();
  });
  function tell() {
    const sample = cells.samples[at[0]], name = cells.names[at[1]];
    if (!sample || !name) return;
    const one = sample.brokers.get(name);
    say(readout, `${name} at ${time(sample.at)}: ${one ? told(cells.measure, one) : "not there"}`);
  }

  const told = (measure, one) => isKnown(measure.of(one)) ? measure.words(measure.of(one)) : "not known";

  // `axis` is the time axis; null, with the reason in `why`, if no value is known.
  function draw(samples, measure, axis, why) {
    const last = samples[samples.length - 1], drawn = [samples.length, samples[0]?.at, last?.at, axis?.first, axis?.width, why, measure.title, devicePixelRatio, getComputedStyle(node).color].join(" ");
    if (drawn === shown) return;
    shown = drawn;
    const figures = samples.flatMap(one => [...one.brokers.values()].map(measure.of).filter(isKnown)), isEmpty = !axis || !figures.length;
    say(none, isEmpty ? why : figures.some(value => value > 0) ? "" : measure.nothing);
    for (const each of [canvas, axisLine, readout, scale]) each.toggleAttribute("hidden", isEmpty);
    if (isEmpty) {
      cells = null;
      return;
    }
    const names = [...new Set(samples.flatMap(one => [...one.brokers.keys()]))].sort(byName);
    const height = Math.max(5, Math.min(20, Math.floor(700 / Math.max(1, names.length)))), tall = names.length * height;
    const style = getComputedStyle(node), most = measure.most || Math.max(...figures);
    const ratio = devicePixelRatio || 1, size = [Math.round(axis.width * ratio), Math.round(tall * ratio)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) {
      [canvas.width, canvas.height] = size;
      canvas.style.height = `${tall}px`;
    }
    const whole = place => Math.round(place * ratio) / ratio;  // cells neither overlap nor leave a gap
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, axis.width, tall);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    names.forEach((name, row) => {
      const y = row * height;
      if (height >= 11) {
        pen.fillStyle = style.getPropertyValue("--ink");
        pen.fillText(cut(pen, name, axis.left - 8), 0, y + height / 2);
      }
      pen.fillStyle = style.getPropertyValue("--heat");
      samples.forEach((one, column) => {
        const broker = one.brokers.get(name);
        if (!broker || !isKnown(measure.of(broker))) return;
        const from = whole(axis.x(one.at)), until = whole(axis.x(samples[column + 1]?.at - one.until < GAP_MS ? samples[column + 1].at : one.until));
        pen.globalAlpha = 0.06 + 0.94 * Math.round(STEPS * Math.min(1, most > 0 ? measure.of(broker) / most : 0)) / STEPS;
        pen.fillRect(from, y, Math.max(1 / ratio, until - from), height - 1);
        pen.globalAlpha = 1;
      });
    });
    axisLine.setAttribute("viewBox", `0 0 ${axis.width} ${BOTTOM}`);
    axisLine.replaceChildren(...axis.ticks.map(one => s("line", { class: "grid", x1: one.x, x2: one.x, y1: 0, y2: 4 })),
      ...labelled(axis).map(one => s("text", { class: "soft tick", x: one.x, y: 16, "text-anchor": "middle" }, one.label)));
    cells = { samples, names, measure, axis, height };
    say(scale, most > 0 ? `Full colour: ${measure.words(most)}.` : "");
    canvas.setAttribute("aria-label", `Load of each broker over time. At the end: ${names.slice(0, 12).map(name => `${name} ${last.brokers.has(name) ? told(measure, last.brokers.get(name)) : "gone"}`).join(", ")}`);
  }
  return { node, draw };
}

const isKnown = value => value !== null && value !== undefined;

function cut(pen, text, most) {
  if (pen.measureText(text).width <= most) return text;
  let shown = text;
  while (shown && pen.measureText(`…${shown}`).width > most) shown = shown.slice(1);
  return `…${shown}`;
}
