// The decisions, newest first, each with its reason as text; similar ones within seconds are one entry that unfolds.

import { get, known, merged, place } from "./cluster.js";
import { h, keyed, s, say } from "./dom.js";
import { breakable, brokerLink, bundleLink, count, counted, personWords, prose, shortReason, time } from "./words.js";

const SHOWN = 150, ALIKE = 5, WITHIN_MS = 15000, SAME_MS = 60000, PAGE = 200, HELD = 2000;
const KINDS = { assign: "assigned", unload: "unloaded", split: "split", refuse: "refused", shed: "round", elect: "elected", drain: "drained", undrain: "no longer drained" };
const NONE = "No decision is on record: the first client that uses a bundle has it assigned.";
const SEEN = new Set(["unload", "shed"]);  // what can be told of a cluster from outside
const NONE_SEEN = "No move was seen.";
const SIGNS = {
  assign: ["M0 5L-5 -4H5Z", "mark"], unload: ["M5 0L-4 -5V5Z", "mark full"], split: ["M0 -6L6 0L0 6L-6 0Z", "mark"],
  refuse: ["M-4 -4L4 4M4 -4L-4 4", "mark"], shed: ["M-5 -2H5M-5 2H5", "mark"], elect: ["M0 -6L2 -1H6L3 2L4 6L0 4L-4 6L-3 2L-6 -1H-2Z", "mark full"],
  drain: ["M-5 -5H5L0 5Z", "mark full"], undrain: ["M-5 5H5L0 -5Z", "mark"], other: ["M-4 -4H4V4H-4Z", "mark"],
};
const OF_BROKERS = new Set(["drain", "undrain"]);
const sign = (kind, [path, look] = SIGNS[kind] || SIGNS.other) => s("svg", { class: "sign", viewBox: "-8 -8 16 16", "aria-hidden": "true" }, s("path", { d: path, class: look }));
const kindWords = one => one.basis && one.kind === "unload" ? "moved" : one.kind === "refuse" ? `${one.refused || "action"} refused` : KINDS[one.kind] || one.kind;
// The operator who requested a decision; a load manager takes all others.
// What the reason of a move is based on that was seen from outside, and whether a recomputed round would have made it.
const basis = one => [one.basis && one.basis !== "seen" ? h("span", { class: "badge" }, one.basis === "journal" ? "by barycenter balance" : one.basis) : null,
  one.agrees === false ? h("span", { class: "badge doubt" }, "does not agree") : null];
const person = one => one.principal ? h("span", { class: "badge" }, `by ${personWords(one.principal)}`) : null;

// Elections are decisions of their own. Logs of older releases have none: there an election shows where the next decision
// is of another broker, or where this page noticed it.
function elections(decisions) {
  const told = (at, by, words) => ({ at, kind: "elect", by, number: 0, sentence: words, short: words });
  const recorded = decisions.find(one => one.kind === "elect"), until = recorded ? recorded.at : Infinity;
  const found = known.elections.map(one => told(one.at, one.leader, `${one.leader} leads; before it ${one.before} did`));
  let before = null;
  for (const one of decisions.filter(each => each.kind !== "unload" && each.kind !== "elect" && !each.principal)) {  // brokers that do not lead keep what people ask for
    if (before && before !== one.by) {
      const seen = found.find(other => other.by === one.by && Math.abs(other.at - one.at) < SAME_MS);
      if (seen) seen.at = Math.min(seen.at, one.at - 1);
      else found.push(told(one.at - 1, one.by, `${one.by} leads by now; before it ${before} decided`));
    }
    before = one.by;
  }
  // this page may have noticed a recorded election a little earlier
  return found.filter(one => one.at < until - SAME_MS);
}

function grouped(events) {
  const groups = [];
  for (const one of events) {
    const group = groups[groups.length - 1];
    const alike = group && group[0].kind === one.kind && group[0].refused === one.refused && group[0].principal === one.principal && group[0].agrees === one.agrees && Math.abs(group[group.length - 1].at - one.at) < WITHIN_MS;
    if (alike) group.push(one);
    else groups.push([one]);
  }
  return groups.flatMap(group => group.length > ALIKE ? [group] : group.map(one => [one]));
}

// `of` is the name for requests of older pages of the logs; at most HELD decisions are kept.
export function timeLine(wanted, source = () => known.decisions, hasElections = true, of = () => ({})) {
  const list = h("ol", { class: "events", tabindex: 0, "aria-label": "Decisions, the newest first" });
  const none = h("p", { class: "note" }, NONE);
  const kinds = new Set(Object.keys(KINDS));
  const choice = h("fieldset", { class: "kinds" }, h("legend", {}, "Show"), Object.entries(KINDS).filter(([kind]) => hasElections || kind !== "elect").map(([kind, word]) =>
    h("label", { class: SEEN.has(kind) ? "seen" : null }, h("input", { type: "checkbox", checked: true, onchange: event => { event.target.checked ? kinds.add(kind) : kinds.delete(kind); draw(); } }), sign(kind), h("span", {}, word))));

  const older = h("button", { type: "button", onclick: goBack }, "Older…"), told = h("span", { class: "note", role: "status" });
  let held = [], next = null, isAsking = false, most = SHOWN, shown = "";

  // After the user went back, decisions that newer ones push out of the page's memory are kept here.
  function all() {
    if (next !== null) held = merged(held, source(), HELD);
    return next === null ? source() : held;
  }
  async function goBack() {
    if (isAsking) return;
    isAsking = true;
    say(told, "Asking…");
    const [first] = all();
    try {
      const page = await get("/barycenter/v1/decision-log", { of: "cluster", limit: PAGE, before: next || (first ? `${first.at}:${first.number}:${first.by}` : ""), ...of() });
      held = merged(all(), page.decisions.map(one => ({ ...one, reason: null, short: shortReason(one.sentence) })), HELD);
      next = page.next;
      most = HELD;
      const isFull = held.length >= HELD, silent = page.silent.length ? ` ${counted(page.silent.length, "broker")} did not answer.` : "";
      older.hidden = next === "" || isFull;
      say(told, (isFull ? `${count(HELD)} decisions are the most that a page keeps; barycenter history decisions shows older ones.`
        : next === "" ? (page.decisions.length ? "These are all that the logs keep." : "The logs keep none that are older.") : `${counted(page.decisions.length, "older decision")}${held.length ? `, back to ${time(held[0].at)}` : ""}.`) + silent);
      if (older.hidden) list.focus();
    } catch (error) {
      say(told, error.message);
    } finally {
      isAsking = false;
    }
    draw();
  }

  function draw() {
    const decisions = all(), newest = decisions[decisions.length - 1];
    const drawn = `${decisions.length} ${decisions.length ? place(decisions[0]) + place(newest) : ""} ${[...kinds]} ${known.elections.length} ${most}`;
    if (drawn === shown) return;
    shown = drawn;
    if (known.overview?.watched) say(choice.querySelector(".seen span"), kindWords({ kind: "unload", basis: "seen" }));
    const events = [...decisions.filter(wanted), ...(hasElections ? elections(decisions) : []).filter(wanted)].filter(one => kinds.has(one.kind) || !(one.kind in KINDS)).sort((a, b) => b.at - a.at || b.number - a.number);
    const groups = grouped(events).slice(0, most);
    none.hidden = groups.length > 0;
    list.hidden = groups.length === 0;
    say(none, decisions.length ? "There are decisions, but none of the kinds that are chosen above." : known.overview?.watched ? NONE_SEEN : NONE);
    keyed(list, groups, group => { const first = group[group.length - 1]; return `${first.kind} ${first.at} ${first.by} ${first.number} ${group.length > 1}`; }, made, update);
  }
  return { node: h("div", {}, choice, none, list, h("p", { class: "older" }, older, " ", told)), draw };
}

function made(group) {
  return group.length > 1 ? h("li", {}, h("details", {}, h("summary", {}), h("ol", { class: "events inner" }))) : event(group[0]);
}

function update(node, group) {
  if (group.length < 2) return;
  const [summary, inner] = node.firstElementChild.children, first = group[group.length - 1], last = group[0];
  if (summary.childElementCount === 0) summary.append(sign(first.kind), " ", h("span", {}));
  say(summary.lastChild, `${time(first.at)}–${time(last.at)}  ${counted(group.length, one(first.kind))} ${kindWords(first)}${first.principal ? ` by ${personWords(first.principal)}` : ""}${first.kind === "assign" ? `: ${spread(group)}` : ""}. Last: ${last.short}`);
  keyed(inner, group, one => `${one.at} ${one.by} ${one.number}`, event);
}

const one = kind => kind === "shed" || kind === "elect" ? "time" : OF_BROKERS.has(kind) ? "broker" : "bundle";

function spread(group) {
  const counts = new Map();
  for (const one of group) counts.set(one.destination, (counts.get(one.destination) || 0) + 1);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  return sorted.slice(0, 4).map(([broker, number]) => `${number} to ${broker}`).join(", ") + (sorted.length > 4 ? ` and ${sorted.length - 4} more brokers` : "");
}

function event(one) {
  const where = [one.source, one.destination].filter(Boolean).flatMap((broker, i) => [i ? " → " : "", brokerLink(broker)]);
  const whole = one.sentence !== one.short || one.request;
  return h("li", { class: "event" },
    h("p", { class: "what" }, h("time", { datetime: new Date(one.at).toISOString() }, time(one.at)), sign(one.kind), h("b", {}, kindWords(one)), person(one), basis(one), one.bundle ? bundleLink(one.bundle) : null, where.length ? h("span", {}, where) : null),
    whole ? h("details", {}, h("summary", {}, prose(one.short)), h("p", { class: "whole" }, prose(one.sentence)), one.request ? h("p", { class: "whole" }, "Request: ", h("code", {}, breakable(one.request))) : null) : h("p", { class: "why" }, prose(one.short)));
}
