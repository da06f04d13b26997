// The state of a cluster in short: healthy, balanced, drained; each with its reason as text.

import { get, known } from "./cluster.js";
import { h, keyed, s, say } from "./dom.js";
import { brokerLink, counted, personWords, prose, time } from "./words.js";

const AGAIN_MS = 15000;
const SIGNS = { good: "M-5 0L-1.5 4L5 -4", look: "M0 -5V1M0 4V4.5", bad: "M-4 -4L4 4M4 -4L-4 4", none: "M-4 0H4" };
const STATES = { "balanced": ["good", "Balanced"], "as even as bundles allow": ["look", "As even as its bundles allow"], "uneven": ["look", "Uneven"], "unknown": ["none", "Unknown"] };

export function condition() {
  const rows = h("dl", { class: "condition", "aria-label": "Condition of the cluster" }), lines = {};
  for (const name of ["health", "balance", "drained"]) {
    const sign = s("path", { class: "mark" }), word = h("b", {}), body = h("div", {});
    lines[name] = { sign, word, body };
    rows.append(h("div", { class: name }, h("dt", {}, name), h("dd", {}, h("p", {}, s("svg", { class: "sign", viewBox: "-8 -8 16 16", "aria-hidden": "true" }, sign), " ", word), body)));
  }
  let askedAt = 0, gone = false, balance = null;

  function tell(name, kind, word, ...body) {
    const line = lines[name];
    line.sign.setAttribute("d", SIGNS[kind]);
    say(line.word, word);
    const items = body.flat().filter(Boolean);
    keyed(line.body, items, item => item.key || item, item => h("p", {}, item.node || prose(item)));
  }

  async function ask() {
    if (gone || Date.now() - askedAt < AGAIN_MS) return;
    askedAt = Date.now();
    try {
      balance = await get("/barycenter/v1/balance");
    } catch (error) {
      balance = { failure: error.message };
    }
    drawBalance();
  }
  function drawBalance() {
    if (!balance || !known.overview) return tell("balance", "none", "Asking…");
    if (balance.failure) return tell("balance", "none", "Unknown", balance.failure);
    const [kind, word] = STATES[balance.balance.state], { strategy } = known.overview, rest = balance.balance.sentence.replace(/^[^:]+: /, "");
    if (balance.balance.state === "unknown") return tell("balance", kind, word, balance.balance.sentence);
    tell("balance", kind, word, rest.charAt(0).toUpperCase() + rest.slice(1),
      balance.unloads ? `${strategy} would unload ${counted(balance.unloads, "bundle")} now: ${balance.short}.` : `${strategy} moves nothing now: ${balance.short}.`,
      "Balance is judged by usage, the fullest resource of each broker, and not by traffic.");
  }

  function draw() {
    const { overview } = known;
    if (!overview) return;
    const count = overview.brokers.length, complaints = overview.complaints || [];
    if (complaints.length) tell("health", "bad", counted(complaints.length, "problem"), complaints);
    else tell("health", "good", "Healthy", `${count === 1 ? "The broker reports its load" : `${count} of ${count} brokers report their load`}${overview.pipeline ? ", and the pipeline keeps up" : ""}.`);
    const { drained = [] } = overview;
    if (drained.length) tell("drained", "look", counted(drained.length, "broker"), drained.map(one => ({ key: `${one} ${drainedWords(one)}`, node: h("span", {}, brokerLink(one), `: ${drainedWords(one)}`) })),
      ...(overview.watched ? [] : ["Undrain… on the page of a broker lets it have bundles again."]));
    else tell("drained", "none", "None");
    drawBalance();
    ask();
  }
  return { node: rows, draw, leave: () => { gone = true; } };
}

// Who drained a broker, when and why, if this was recorded, and which bundles it still has.
export function drainedWords(broker) {
  const { drainChange: change, brokers } = known.overview, has = brokers.find(one => one.broker === broker)?.bundles || 0;
  const isEarlier = change && (change.before || "").split(",").some(one => one.trim() === broker);
  const drain = isEarlier ? change.earlier?.[broker] : change;
  const who = drain ? `drained by ${personWords(drain.by)} at ${time(drain.at)}${drain.why ? `: ${drain.why}` : ""}` : "drained by broker.conf, or by a change that was not recorded";
  return `${who}; it still has ${counted(has, "bundle")}, its own among them.`;
}
