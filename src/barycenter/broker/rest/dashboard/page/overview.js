// The whole cluster: what each broker carries, now and over time, and what was decided.

import { known, whenChanged } from "./cluster.js";
import { h, say } from "./dom.js";
import { brokersPicture } from "./brokers_picture.js";
import { findBox } from "./find_box.js";
import { heatMap } from "./heat_map.js";
import { timeLine } from "./time_line.js";
import { MEASURES, total } from "./measures.js";
import { ago, counted, rate, throughput } from "./words.js";

let measure = "throughput";

export function overviewPage() {
  const summary = h("p", { class: "note summary" });
  const choice = h("select", { id: "measure", onchange: () => { measure = choice.value; draw(); } },
    Object.entries(MEASURES).map(([name, one]) => h("option", { value: name, selected: name === measure }, one.title)));
  const picture = brokersPicture(), heat = heatMap(), line = timeLine(() => true);
  const node = h("div", {},
    h("h1", {}, "Overview"), summary, findBox(),
    h("section", { "aria-labelledby": "brokers-title" },
      h("div", { class: "heading" }, h("h2", { id: "brokers-title" }, "Brokers and their bundles"), h("span", {}, h("label", { for: "measure" }, "by"), " ", choice)), picture.node),
    h("section", { "aria-labelledby": "heat-title" },
      h("h2", { id: "heat-title" }, "Load over time"),
      h("p", { class: "note" }, "Each row is a broker, fuller colour is more. Kept while a page is open, here or elsewhere; a line stands where none was."), heat.node),
    h("section", { "aria-labelledby": "line-title" }, h("h2", { id: "line-title" }, "What was decided, and why"), line.node));

  function draw() {
    const { overview } = known;
    if (!overview) return;
    const sum = total(overview.brokers);
    say(summary, `${counted(overview.brokers.length, "broker")}, ${counted(sum.bundles, "bundle")}, ${rate(sum.msgRate)}, `
      + `${throughput(sum.msgThroughput)}. ${overview.leader} leads (term ${overview.epoch}), with the ${overview.manager} load manager and ${overview.strategy}.${pipelineWords(overview.pipeline)}`);
    picture.draw(overview.brokers, MEASURES[measure], overview.leader);
    heat.draw(known.samples, MEASURES[measure]);
    line.draw();
  }
  function pipelineWords(pipeline) {
    if (!pipeline) return "";
    return pipeline.inUse ? ` It decides by the pipeline's windows, whose slowest report waits for ${ago(1000 * pipeline.lagS)}.`
      : ` No pipeline keeps up: a report waits for ${ago(1000 * pipeline.lagS)}, so the leader decides by windows of its own.`;
  }
  draw();
  return { title: "", node, leave: whenChanged(draw) };
}
