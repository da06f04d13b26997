// The load of a broker or bundle over time, as lines.

import { joined, known, now, recent, RECENT_MS, SAMPLE_EVERY_MS, whenChanged } from "./cluster.js";
import { h, say } from "./dom.js";
import { loadLines } from "./load_lines.js";
import { loadSpan } from "./load_span.js";
import { MEASURES } from "./measures.js";
import { timeAxis, timesOf } from "./time_axis.js";
import { LOAD } from "./words.js";

const LEFT = 84, AGAIN_MS = 30000;

// `load(sample)` is the row of a sample, which is a step or a moment; `samples()` are those of the last half hour, and
// `why()` is the reason if there are none.
function section(of, measures, samples, load, why, lacking = () => "") {
  const pictures = measures.map(name => [MEASURES[name], loadLines(MEASURES[name].title, [MEASURES[name].title])]);
  const about = h("p", { class: "note" });
  let span = null, shown = "";
  span = loadSpan(of, draw);
  const node = h("section", { "aria-labelledby": "load-title" },
    h("div", { class: "heading" }, h("h2", { id: "load-title" }, "Load over time"), span.choice), span.told, about, h("div", { class: "pictures" }, pictures.map(([, one]) => one.node)));
  function draw() {
    if (!span) return;
    const all = span.samples || samples(), reason = span.samples ? span.why : why(), key = `${all.length} ${all[0]?.at} ${all[all.length - 1]?.at} ${span.step} ${reason}`;
    say(about, `${LOAD}${span.samples ? " A step is the mean of its time." : ` ${lacking()}`}`.trim());
    if (key === shown) return;
    shown = key;
    const rows = all.map(load), times = timesOf(all, span.step), axisOf = width => times && timeAxis(...times, LEFT, width);
    for (const [measure, picture] of pictures) picture.draw(all, [rows.map(one => one ? measure.of(one) ?? null : null)], measure, axisOf, reason);
  }
  draw();
  return { node, draw, leave: span.leave };
}

const NONE = "No load was reported in the last half hour.";

export function brokerLoad(name) {
  const made = section({ broker: name }, ["rate", "throughput", "usage"], () => known.samples, sample => sample.brokers.get(name), () => `${NONE} ${known.note}`.trim());
  const stop = whenChanged(made.draw);
  return { node: made.node, leave: () => { stop(); made.leave(); } };
}

// The values of a bundle are in a picture of the cluster only if it is among the heaviest. While the bundle's page is open,
// each new picture is searched once for it. Older values, and those of other bundles, are from the pipeline's tables.
export function bundleLoad(name) {
  let seen = [], before = [], note = "", askedAt = 0, gone = false;
  function look() {
    const last = seen[seen.length - 1], at = now();
    if (!known.overview || (last && at - last.at < SAMPLE_EVERY_MS)) return;
    for (const { broker, top, reportedAt } of known.overview.brokers) {
      const share = top.find(([bundle]) => bundle === name);
      // the first value is valid since it was reported
      if (share) seen.push({ at: last ? at : Math.min(at, Math.max(reportedAt, at - RECENT_MS)), until: at + SAMPLE_EVERY_MS, brokers: new Map([[broker, { msgRate: share[1], msgThroughput: share[2] }]]) });
    }
    seen = seen.filter(one => one.until > at - RECENT_MS);
  }
  async function ask() {
    if (gone || !known.overview || (askedAt && (seen.length || now() - askedAt < AGAIN_MS))) return;
    askedAt = now();
    try {
      ({ samples: before, note } = await recent({ bundle: name }));
    } catch (error) {
      note = error.message;
    }
    made.draw();
  }
  look();
  const made = section({ bundle: name }, ["rate", "throughput"], () => joined(before, seen), sample => sample.brokers.values().next().value,
    () => `${NONE} ${note}`.trim(), () => seen.length || known.overview?.watched ? "" : "It is not among the heaviest bundles of its broker, so this is what the pipeline's tables have.");
  ask();
  const stop = whenChanged(() => { look(); ask(); made.draw(); });
  return { node: made.node, leave: () => { gone = true; stop(); made.leave(); } };
}
