// The time for which loads are shown: the last half hour, which this page continues, or a longer span in steps. Values from
// before this page was opened are from the leader and the pipeline's tables. The choice applies to all pages.

import { get, known, now, poll, remembered } from "./cluster.js";
import { h, say } from "./dom.js";
import { time } from "./words.js";

const HOUR = 3600e3, LONGEST_MS = 31 * 24 * HOUR, LEAST_MS = 30000, WAIT_MS = 500;
const SPANS = { now: ["the last half hour", 0], hour: ["an hour", HOUR], day: ["a day", 24 * HOUR], week: ["a week", 168 * HOUR], own: ["from – to", 0] };
const chosen = { span: "now", from: "", to: "" };
let made = 0;

const local = ms => new Date(ms - 60000 * new Date(ms).getTimezoneOffset()).toISOString().slice(0, 16);

// `of` is the broker or bundle, `draw` is called when there are new values. `samples` is null while the last half hour is
// chosen, else it has one sample for each step, `step` ms apart; `why` is the reason if there are none.
export function loadSpan(of, draw) {
  const number = ++made, id = `span-${number}`;
  const choice = h("select", { id, onchange: () => { chosen.span = choice.value; choose(); } },
    Object.entries(SPANS).map(([name, [title]]) => h("option", { value: name, selected: name === chosen.span }, title)));
  const edge = name => h("input", { type: "datetime-local", id: `${id}-${name}`, value: chosen[name], oninput: event => { chosen[name] = event.target.value; clearTimeout(timer); timer = setTimeout(again, WAIT_MS); } });
  const from = edge("from"), to = edge("to");
  const own = h("span", { class: "own", hidden: true }, h("span", {}, h("label", { for: from.id }, "from"), " ", from), h("span", {}, h("label", { for: to.id }, "to"), " ", to));
  const told = h("p", { class: "note told", role: "status" });
  const span = { samples: null, step: 0, why: "", choice: h("p", { class: "span" }, h("label", { for: id }, "of"), " ", choice, own), told, leave: () => { asked++; clearTimeout(timer); } };
  let timer = 0, asked = 0;

  function choose() {
    if (chosen.span === "own" && !chosen.from) {
      chosen.from = from.value = local(now() - 3 * HOUR);
      chosen.to = to.value = local(now());
    }
    own.hidden = chosen.span !== "own";
    again();
  }

  async function again() {
    clearTimeout(timer);
    const turn = ++asked, name = chosen.span;
    if (name === "now") {
      Object.assign(span, { samples: null, step: 0 });
      say(told, "");
      return draw();
    }
    if (!known.overview) await poll();  // it tells the time of the cluster
    if (turn !== asked) return;
    const until = name === "own" ? Date.parse(chosen.to) : now(), since = name === "own" ? Date.parse(chosen.from) : until - SPANS[name][1];
    if (!(since < until)) return say(told, "Give a time, and a later one.");
    if (until - since > LONGEST_MS) return say(told, "Give at most 31 days.");
    if (!span.samples) say(told, "Asking…");
    try {
      const found = await get("/barycenter/v1/load-history", { ...of, since: Math.max(0, Math.round(since)), until: Math.round(until) });
      if (turn !== asked) return;
      if (!found.moments) throw new Error("The leader runs an earlier release, which keeps no history.");
      const isEmpty = !found.moments.length, why = `No load was recorded in this time. ${found.note}`.trim();
      Object.assign(span, { samples: stepped(found), step: found.step, why });
      say(told, isEmpty ? why : [found.note, found.wholeSince > found.since ? `Whole since ${time(found.wholeSince)}.` : ""].filter(Boolean).join(" "));
    } catch (error) {
      if (turn !== asked) return;
      say(told, error.message);
    }
    draw();
    if (name !== "own") timer = setTimeout(afterwards, Math.max(LEAST_MS, span.step));
  }
  function afterwards() {
    if (known.paused || document.hidden) timer = setTimeout(afterwards, LEAST_MS);
    else again();
  }
  choose();
  return span;
}

// Every step is included, also without values: it keeps its position in a picture.
function stepped(found) {
  const loads = new Map(found.moments.map(one => [one.at, remembered(one, found.step)])), samples = [];
  for (let at = found.since; at < found.until; at += found.step) samples.push(loads.get(at) || { at, until: at + found.step, brokers: new Map() });
  return samples;
}
