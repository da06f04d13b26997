// The load of brokers over time, a row a broker. Drawn on a canvas, as there may be a hundred brokers at four hundred
// moments; arrow keys go from cell to cell and a line below tells of the one pointed at.

import { h, say } from "./dom.js";
import { byName, moment, time } from "./words.js";

const STEPS = 24, GAP_MS = 60000, LABEL = 100;

export function heatMap() {
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "Load of each broker over time" });
  const readout = h("output", { class: "readout" }, "Point at a moment, or go there with the arrow keys.");
  const scale = h("p", { class: "scale note" });
  const node = h("div", { class: "heat" }, canvas, readout, scale);
  let cells = null, at = [0, 0], shown = "";

  canvas.addEventListener("pointermove", event => {
    if (!cells) return;
    const box = canvas.getBoundingClientRect();
    at = [Math.floor((event.clientX - box.left - cells.left) / cells.width), Math.floor((event.clientY - box.top) / cells.height)];
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

  // `step` is how far samples are apart, 0 if they just came so.
  function draw(samples, measure, step = 0) {
    const last = samples[samples.length - 1], drawn = [samples.length, samples[0]?.at, last?.at, step, measure.title, node.clientWidth, devicePixelRatio, getComputedStyle(node).color].join(" ");
    if (drawn === shown) return;
    shown = drawn;
    const names = [...new Set(samples.flatMap(one => [...one.brokers.keys()]))].sort(byName);
    const space = node.clientWidth || 680, height = Math.max(5, Math.min(20, Math.floor(700 / Math.max(1, names.length))));
    const style = getComputedStyle(node), named = height >= 11, left = named ? Math.min(150, space * 0.34) : 0;
    const width = step ? (space - left) / samples.length : Math.min(36, (space - left) / Math.max(samples.length, 24));
    const most = measure.most || Math.max(0, ...samples.flatMap(one => [...one.brokers.values()].map(measure.of).filter(isKnown)));
    const ratio = devicePixelRatio || 1, tall = names.length * height + 18;
    const size = [Math.round(space * ratio), Math.round(tall * ratio)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) {
      [canvas.width, canvas.height] = size;
      canvas.style.height = `${tall}px`;
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, space, tall);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    names.forEach((name, row) => {
      const y = row * height;
      if (named) {
        pen.fillStyle = style.getPropertyValue("--ink");
        pen.fillText(cut(pen, name, left - 8), 0, y + height / 2);
      }
      samples.forEach((one, column) => {
        const broker = one.brokers.get(name);
        if (!broker || !isKnown(measure.of(broker))) return;
        pen.globalAlpha = 0.06 + 0.94 * Math.round(STEPS * Math.min(1, most > 0 ? measure.of(broker) / most : 0)) / STEPS;
        pen.fillStyle = style.getPropertyValue("--heat");
        pen.fillRect(left + column * width, y, width + 0.3, height - 1);
        pen.globalAlpha = 1;
      });
    });
    pen.fillStyle = style.getPropertyValue("--soft");
    samples.forEach((one, column) => {
      if (column && !step && one.at - samples[column - 1].at > GAP_MS) pen.fillRect(left + column * width - 0.5, 0, 1, names.length * height);
    });
    const marks = Math.max(1, Math.ceil(LABEL / width)), length = last ? last.at - samples[0].at : 0;
    samples.forEach((one, column) => {
      if (column % marks === 0 && left + column * width + LABEL - 12 < space) pen.fillText(moment(one.at, length), left + column * width, tall - 8);
    });
    cells = { samples, names, measure, left, width, height };
    say(scale, `Full colour: ${measure.words(most)}.`);
    if (last) canvas.setAttribute("aria-label", `Load of each broker over time. ${step ? "At the end" : "Now"}: ${names.slice(0, 12).map(name => `${name} ${last.brokers.has(name) ? told(measure, last.brokers.get(name)) : "gone"}`).join(", ")}`);
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
