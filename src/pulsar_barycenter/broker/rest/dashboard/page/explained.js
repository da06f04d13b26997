// The words of an explanation: where it is, why there, and what would make it move.

import { h, table } from "./dom.js";
import { brokerLink, bundleLink, count, counted, percent, rate, throughput } from "./words.js";

const sentence = whole => h("p", { class: "why" }, whole);

// What the leader would do now; `subject` is the name that all of it is about.
export function nowSection(found, subject) {
  const of = kind => found.lines.filter(line => line.kind === kind);
  const moves = of("unload"), splits = of("split"), refused = of("refuse"), verdicts = of("verdict"), rounds = of("shed");
  const parts = [];
  for (const line of moves) parts.push(h("li", {}, h("p", { class: "what" }, h("b", {}, "would be unloaded"), bundleLink(line.bundle), h("span", {}, brokerLink(line.source), " → ", brokerLink(line.destination))), sentence(line.sentence), line.placement ? h("p", { class: "whole" }, `There because: ${line.placement}`) : null));
  for (const line of splits) parts.push(h("li", {}, h("p", { class: "what" }, h("b", {}, "would be split"), bundleLink(line.bundle)), sentence(line.sentence)));
  for (const line of refused) parts.push(h("li", {}, h("p", { class: "what" }, h("b", {}, `${line.refused} considered, and not done`), bundleLink(line.bundle)), sentence(line.sentence)));
  for (const line of verdicts) parts.push(h("li", {}, h("p", { class: "what" }, h("b", {}, line.unloads ? `sheds ${counted(line.unloads, "bundle")}` : "keeps all it has"), brokerLink(line.broker)), sentence(line.sentence)));
  if (!moves.length && !verdicts.length)
    for (const line of rounds) parts.push(h("li", {}, h("p", { class: "what" }, h("b", {}, "the round")), sentence(line.sentence)));
  return h("section", { "aria-labelledby": "now-title" }, h("h2", { id: "now-title" }, "What the leader would do now"),
    parts.length ? h("ul", { class: "events" }, parts) : h("p", { class: "note" }, `Nothing that concerns ${subject}.`));
}

// Why a bundle is where it is: the last decision that put it there, and where it would be put today.
export function whySection(found, decisions) {
  const placed = [...decisions].reverse().find(one => (one.kind === "assign" || one.kind === "unload") && (!one.destination || one.destination === found.owner));
  return h("section", { "aria-labelledby": "why-title" }, h("h2", { id: "why-title" }, "Why there"),
    found.owner
      ? placed
        ? [h("p", {}, placed.kind === "assign" ? "It was assigned to " : "It was sent to ", brokerLink(placed.destination || found.owner), `, by ${placed.by}:`), sentence(placed.sentence)]
        : h("p", {}, "No log that the brokers keep has the decision that put it there.")
      : h("p", {}, "Nobody owns it. The first client that asks for it has it assigned."),
    found.placed ? [
      h("h3", {}, found.owner ? "Where it would go if it were placed now" : "Where it would go"),
      found.placed.destination ? h("p", {}, brokerLink(found.placed.destination), found.placed.destination === found.owner ? ", where it is" : "") : null,
      sentence(found.placed.sentence)] : null);
}

export function stateFacts(found) {
  return found.states.flatMap(state => [
    ["carries", `${throughput(state.figures.msgThroughput)}, ${rate(state.figures.msgRate)} (short window), ${counted(state.topics, "topic")}`],
    ["may be shed", state.held ? `no: ${state.held}` : "yes"],
  ]);
}

// `isOfOne` broker leaves its name out.
export function bundleTable(list, isOfOne = false) {
  const share = list.bundles.reduce((all, one) => all + (one.msgThroughput || 0), 0);
  const columns = [
    ["bundle", one => bundleLink(one.bundle)], isOfOne ? null : ["broker", one => brokerLink(one.broker)],
    ["throughput", one => one.msgThroughput === null ? "not told" : throughput(one.msgThroughput)],
    ["share", one => share && one.msgThroughput !== null ? percent(100 * one.msgThroughput / share) : ""],
    ["messages", one => one.msgRate === null ? "" : rate(one.msgRate)], ["topics", one => one.topics === null ? "" : count(one.topics)]].filter(Boolean);
  return [
    table(columns.map(([title]) => title), list.bundles.map(one => columns.map(([, cell]) => cell(one)))),
    list.count > list.bundles.length ? h("p", { class: "note" }, `… and ${count(list.count - list.bundles.length)} lighter ones.`) : null];
}
