// The whole cluster: the load of each broker, now and over time, and the decisions.

import { known, whenChanged } from "./cluster.js";
import { h, say } from "./dom.js";
import { brokersPicture } from "./brokers_picture.js";
import { condition } from "./condition.js";
import { findBox } from "./find_box.js";
import { heatMap } from "./heat_map.js";
import { loadLines } from "./load_lines.js";
import { loadSpan } from "./load_span.js";
import { timeLine } from "./time_line.js";
import { MEASURES, total } from "./measures.js";
import { timeAxis, timesOf } from "./time_axis.js";
import { ago, counted, LOAD, rate, throughput, time } from "./words.js";

const GUTTER = 150;
const BASIS = "Moves were seen in load reports. A reason marked recomputed is what the cluster's own strategy decides on the recorded load; its leader may have known other load.";

let measure = "throughput";

export function overviewPage() {
  const summary = h("p", { class: "note summary" });
  const choice = h("select", { id: "measure", onchange: () => { measure = choice.value; draw(); } },
    Object.entries(MEASURES).map(([name, one]) => h("option", { value: name, selected: name === measure }, one.title)));
  const picture = brokersPicture(), heat = heatMap(), state = condition(), line = timeLine(() => true), lines = loadLines("Brokers compared", ["the highest", "the mean", "the lowest"]);
  let span = null, compared = "";
  span = loadSpan({}, () => drawLoads());
  const about = h("p", { class: "note" }), title = h("h2", { id: "line-title" }, "What was decided, and why"), basis = h("p", { class: "note told" });
  const node = h("div", {},
    h("h1", {}, "Overview"), summary, state.node, findBox(),
    h("section", { "aria-labelledby": "brokers-title" },
      h("div", { class: "heading" }, h("h2", { id: "brokers-title" }, "Brokers and their bundles"), h("span", {}, h("label", { for: "measure" }, "by"), " ", choice)), h("p", { class: "note" }, LOAD), picture.node),
    h("section", { "aria-labelledby": "heat-title" },
      h("div", { class: "heading" }, h("h2", { id: "heat-title" }, "Load over time"), span.choice), about, span.told, heat.node, lines.node),
    h("section", { "aria-labelledby": "line-title" }, title, basis, line.node));

  function draw() {
    const { overview } = known;
    if (!overview) return;
    const sum = total(overview.brokers);
    say(summary, `${counted(overview.brokers.length, "broker")}, ${counted(sum.bundles, "bundle")}, ${rate(sum.msgRate)}, `
      + `${throughput(sum.msgThroughput)}. ${overview.watched ? watchedWords(overview) : `${overview.leader} leads (term ${overview.epoch}), with the ${overview.manager} load manager and ${overview.strategy}.${pipelineWords(overview.pipeline)}`}`);
    say(title, overview.watched ? "What moved, and why" : "What was decided, and why");
    say(basis, overview.watched ? BASIS : "");
    state.draw();
    picture.draw(overview.brokers, MEASURES[measure], overview.leader, new Set(overview.drained));
    drawLoads();
    line.draw();
  }
  function drawLoads() {
    if (!span) return;
    const samples = span.samples || known.samples, kind = MEASURES[measure], why = span.samples ? span.why : `No load was reported yet. ${known.note}`.trim();
    const width = heat.node.clientWidth || 680, left = Math.min(GUTTER, Math.round(width * 0.34));
    const times = timesOf(samples, span.step), axisOf = wide => times && timeAxis(...times, left, wide);
    say(about, `Each row is a broker, fuller colour is more${span.samples ? `; a step is ${ago(span.step)}, and the colour its mean` : ""}. ${span.samples ? "" : known.note}`.trim());
    heat.draw(samples, kind, axisOf(width), why);
    const key = `${samples.length} ${samples[0]?.at} ${samples[samples.length - 1]?.at} ${span.step} ${measure} ${left} ${why}`;
    if (key === compared) return;
    compared = key;
    const figures = samples.map(one => [...one.brokers.values()].map(kind.of).filter(value => value !== null && value !== undefined));
    const each = reckon => figures.map(values => values.length ? reckon(values) : null);
    lines.draw(samples, [each(values => Math.max(...values)), each(values => values.reduce((a, b) => a + b, 0) / values.length), each(values => Math.min(...values))], kind, axisOf, why);
  }
  function watchedWords({ leader, manager, strategy, watched }) {
    return `${leader ? `${leader} leads, with` : "It runs"} the ${manager} load manager and ${strategy}. `
      + `Seen from outside, by ${watched.source}${watched.isRecording ? `, as of ${time(watched.asOf)}` : ""}.`
      + (watched.settingsRecorded ? "" : " Its settings are not recorded: Pulsar's defaults are assumed.");
  }
  function pipelineWords(pipeline) {
    if (!pipeline) return "";
    if (pipeline.silentS) return ` The pipeline has not looked for load reports for ${ago(1000 * pipeline.silentS)}: it was stopped, was killed or hangs.`
      + (pipeline.inUse ? " The leader decides by the windows it published last, as no newer report waits." : ` A report waits for ${ago(1000 * pipeline.lagS)}, so the leader decides by windows of its own.`);
    return pipeline.inUse ? ` It decides by the pipeline's windows, whose slowest report waits for ${ago(1000 * pipeline.lagS)}.`
      : ` No pipeline keeps up: a report waits for ${ago(1000 * pipeline.lagS)}, so the leader decides by windows of its own.`;
  }
  const stop = whenChanged(draw);
  addEventListener("resize", drawLoads);
  draw();
  return { title: "", node, leave: () => { stop(); span.leave(); state.leave(); removeEventListener("resize", drawLoads); } };
}
