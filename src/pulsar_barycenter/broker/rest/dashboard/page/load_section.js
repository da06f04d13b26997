// The load of one broker or bundle over time, as lines.

import { known, MOST_SAMPLES, now, SAMPLE_EVERY_MS, whenChanged } from "./cluster.js";
import { h, say } from "./dom.js";
import { loadLines } from "./load_lines.js";
import { loadSpan } from "./load_span.js";
import { MEASURES } from "./measures.js";

// `load(sample)` is the row of a sample, of a step as of a moment; `samples()` are those of the last minutes.
function section(of, measures, samples, load, lacking = () => "") {
  const pictures = measures.map(name => [MEASURES[name], loadLines(MEASURES[name].title, [MEASURES[name].title])]);
  const why = h("p", { class: "note" });
  let span = null, shown = "";
  span = loadSpan(of, draw);
  const node = h("section", { "aria-labelledby": "load-title" },
    h("div", { class: "heading" }, h("h2", { id: "load-title" }, "Load over time"), span.choice), span.told, why, h("div", { class: "pictures" }, pictures.map(([, one]) => one.node)));
  function draw() {
    if (!span) return;
    const all = span.samples || samples(), times = all.map(one => one.at), key = `${times.length} ${times[0]} ${times[times.length - 1]} ${span.step}`;
    say(why, span.samples ? "" : lacking());
    if (key === shown) return;
    shown = key;
    const rows = all.map(load);
    for (const [measure, picture] of pictures) picture.draw(times, [rows.map(one => one ? measure.of(one) ?? null : null)], measure.words, span.step);
  }
  draw();
  return { node, draw, leave: span.leave };
}

export function brokerLoad(name) {
  const made = section({ broker: name }, ["rate", "throughput", "usage"], () => known.samples, sample => sample.brokers.get(name));
  const stop = whenChanged(made.draw);
  return { node: made.node, leave: () => { stop(); made.leave(); } };
}

// The figures of one bundle are in a picture of the cluster only if it is among the heaviest: each picture is looked
// through once, for this bundle alone, while its page is open.
export function bundleLoad(name) {
  const seen = [];
  function look() {
    const last = seen[seen.length - 1];
    if (!known.overview || (last && now() - last.at < SAMPLE_EVERY_MS)) return;
    for (const { broker, top } of known.overview.brokers) {
      const share = top.find(([bundle]) => bundle === name);
      if (share) seen.push({ at: now(), brokers: new Map([[broker, { msgRate: share[1], msgThroughput: share[2] }]]) });
    }
    seen.splice(0, seen.length - MOST_SAMPLES);
  }
  look();
  const made = section({ bundle: name }, ["rate", "throughput"], () => seen, sample => sample.brokers.values().next().value,
    () => seen.length ? "As this page has seen it; an hour and more are from the pipeline's tables." : "It is not among the heaviest bundles of its broker, of which alone this page hears every few seconds; an hour and more are from the pipeline's tables.");
  const stop = whenChanged(() => { look(); made.draw(); });
  return { node: made.node, leave: () => { stop(); made.leave(); } };
}
