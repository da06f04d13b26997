// The text of an explanation: where it is, why it is there, and what would make it move.

import { known } from "./cluster.js";
import { h, table } from "./dom.js";
import { brokerLink, bundleLink, count, counted, LOAD, percent, personWords, prose, rate, throughput, time } from "./words.js";

const sentence = whole => h("p", { class: "why" }, prose(whole));

// What the leader would do now; `subject` is the name that the explanation is about.
export function nowSection(found, subject) {
  const of = kind => found.lines.filter(line => line.kind === kind);
  const moves = of("unload"), splits = of("split"), refused = of("refuse"), verdicts = of("verdict"), rounds = of("shed");
  const parts = [];
  for (const line of moves) parts.push(h("li", {}, h("p", { class: "what" }, h("b", {}, "would be unloaded"), bundleLink(line.bundle), h("span", {}, brokerLink(line.source), " → ", brokerLink(line.destination))), sentence(line.sentence), line.placement ? h("p", { class: "whole" }, "There because: ", prose(line.placement)) : null));
  for (const line of splits) parts.push(h("li", {}, h("p", { class: "what" }, h("b", {}, "would be split"), bundleLink(line.bundle)), sentence(line.sentence)));
  for (const line of refused) parts.push(h("li", {}, h("p", { class: "what" }, h("b", {}, `${line.refused} considered, and not done`), bundleLink(line.bundle)), sentence(line.sentence)));
  for (const line of verdicts) parts.push(h("li", {}, h("p", { class: "what" }, h("b", {}, line.unloads ? `sheds ${counted(line.unloads, "bundle")}` : "keeps all it has"), brokerLink(line.broker)), sentence(line.sentence)));
  if (!moves.length && !verdicts.length)
    for (const line of rounds) parts.push(h("li", {}, h("p", { class: "what" }, h("b", {}, "the round")), sentence(line.sentence)));
  return h("section", { "aria-labelledby": "now-title" }, h("h2", { id: "now-title" }, known.overview?.watched ? "What the cluster's strategy would do now, recomputed" : "What the leader would do now"),
    parts.length ? h("ul", { class: "events" }, parts) : h("p", { class: "note" }, `Nothing that concerns ${subject}.`));
}

// Why a bundle is where it is: the last decision that assigned it, and where it would be assigned today.
export function whySection(found, decisions) {
  const placed = [...decisions].reverse().find(one => (one.kind === "assign" || one.kind === "unload") && (!one.destination || one.destination === found.owner));
  return h("section", { "aria-labelledby": "why-title" }, h("h2", { id: "why-title" }, "Why there"),
    found.owner
      ? placed
        ? placed.basis ? [h("p", {}, "It was seen to move to ", brokerLink(placed.destination), ` at ${time(placed.at)}${placed.basis === "recomputed" ? "; recomputed" : ""}${placed.agrees === false ? ", which does not agree" : ""}:`), sentence(placed.sentence)]
        : [h("p", {}, placed.kind === "assign" ? "It was assigned to " : "It was sent to ", brokerLink(placed.destination || found.owner), `, by ${placed.principal ? personWords(placed.principal) : placed.by}, at ${time(placed.at)}:`), sentence(placed.sentence)]
        : h("p", {}, known.overview?.watched ? "No move of it was seen: it was there when the reading began." : "No log that the brokers keep has the decision that put it there.")
      : h("p", {}, "Nobody owns it. The first client that asks for it has it assigned."),
    found.placed ? [
      h("h3", {}, found.owner ? "Where it would go if it were placed now" : "Where it would go"),
      found.placed.destination ? h("p", {}, brokerLink(found.placed.destination), found.placed.destination === found.owner ? ", where it is" : "") : null,
      sentence(found.placed.sentence)] : null);
}

export function stateFacts(found) {
  const load = found.load ? [["load", `${rate(found.load.msgRate)}, ${throughput(found.load.msgThroughput)}, in + out, by the newest report`]] : [];
  return [...load, ...found.states.flatMap(state => [
    ["short window", `${rate(state.figures.msgRate)}, ${throughput(state.figures.msgThroughput)}, in + out: the mean of the last 10 reports, which the modular load manager's shedders compare`],
    ["serves", counted(state.topics, "topic")], ["may be shed", state.held ? `no: ${state.held}` : "yes"],
  ])];
}

// With `isOfOne`, the broker's name is left out.
export function bundleTable(list, isOfOne = false) {
  const share = list.bundles.reduce((all, one) => all + (one.msgThroughput || 0), 0);
  const columns = [
    ["bundle", one => bundleLink(one.bundle)], isOfOne ? null : ["broker", one => brokerLink(one.broker)],
    ["load, throughput#", one => one.msgThroughput === null ? "not reported" : throughput(one.msgThroughput)],
    ["share#", one => share && one.msgThroughput !== null ? percent(100 * one.msgThroughput / share) : ""],
    ["load, messages#", one => one.msgRate === null ? "" : rate(one.msgRate)], ["topics#", one => one.topics === null ? "" : count(one.topics)]].filter(Boolean);
  return [
    h("p", { class: "note" }, LOAD, " The share is that of the bundles in this table."),
    table(columns.map(([title]) => title), list.bundles.map(one => columns.map(([, cell]) => cell(one)))),
    list.count > list.bundles.length ? h("p", { class: "note" }, `… and ${count(list.count - list.bundles.length)} lighter ones.`) : null];
}
