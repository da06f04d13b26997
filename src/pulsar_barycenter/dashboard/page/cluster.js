// Sends requests to the broker that served this page, and stores the answers. That broker follows redirects, because a page
// may only send requests to its own origin: the header Barycenter-Follow asks for this.

import { byId } from "./dom.js";
import { byName } from "./words.js";

const EVERY_MS = 3000, ALL_EVERY_MS = 10000, EACH_MS = 300, LATE_MS = 60000, PATIENCE_MS = 30000, KEPT = 1000;
export const SAMPLE_EVERY_MS = 5000, RECENT_MS = 1800e3;
const TOKEN = "barycenter-token";

export class RequestError extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

// What is known of the cluster. `samples` are the loads of the last RECENT_MS, oldest first, and `note` describes them;
// `decisions` are the last ones, oldest first; `clock` is how many ms the broker's clock is ahead of this one.
export const known = { overview: null, at: 0, samples: [], note: "", decisions: [], elections: [], failure: "", asksWho: false, paused: false, clock: 0 };
export const now = () => Date.now() + known.clock;

// Whether the page shows a cluster from outside, by barycenter watch: then it changes nothing, and only that is known which
// load reports say.
export async function isWatched() {
  if (!known.overview) await poll();
  return Boolean(known.overview?.watched);
}

const listeners = new Set();
export function whenChanged(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
const tell = () => listeners.forEach(listener => listener());

let asked = null;
function askToken(reason) {
  if (asked) return asked;
  const dialog = byId("token");
  byId("token-why").textContent = reason;
  asked = new Promise(resolve => {
    dialog.addEventListener("close", () => {
      asked = null;
      const text = byId("token-text").value.trim();
      byId("token-text").value = "";
      if (dialog.returnValue !== "use" || !text) return resolve(false);
      sessionStorage.setItem(TOKEN, text);
      resolve(true);
    }, { once: true });
    dialog.returnValue = "";
    dialog.showModal();
  });
  return asked;
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;
export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
  refused = false;
  tag = told = "";
  poll();
}

let refused = false;  // somebody was asked for a token and gave none: not again until something is done by hand
export async function ask(path, { method = "GET", tag = "", byHand = method !== "GET" } = {}) {
  for (;;) {
    const headers = { "Barycenter-Follow": "redirects" }, token = sessionStorage.getItem(TOKEN);
    if (token) headers.Authorization = `Bearer ${token}`;
    if (tag) headers["If-None-Match"] = tag;
    let answer;
    try {
      answer = await fetch(path, { method, headers, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(PATIENCE_MS) });
    } catch (error) {
      throw new RequestError(0, error.name === "TimeoutError" ? "The broker does not answer in time." : "The broker cannot be reached.");
    }
    const date = Date.parse(answer.headers.get("Date") || "");
    if (Math.abs(date + 500 - Date.now() - known.clock) > 1500) known.clock = date + 500 - Date.now();
    if (answer.status === 304) return { tag };
    const text = await answer.text();
    let body = null;
    try { body = text ? JSON.parse(text) : null; } catch { body = text; }
    if (answer.ok) return { tag: answer.headers.get("ETag") || "", body };
    const reason = (body && body.reason) || `The broker answers ${answer.status}.`;
    if (answer.status !== 401 || (refused && !byHand)) throw new RequestError(answer.status, reason);
    sessionStorage.removeItem(TOKEN);
    refused = !await askToken(reason);
    if (refused) throw new RequestError(401, reason);
  }
}
export const get = async (path, query = {}) => {
  const pairs = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  return (await ask(pairs.size ? `${path}?${pairs}` : path)).body;
};

// A moment of the leader's history as a sample that is valid for `length` ms; a value that is not known is null.
export const remembered = (moment, length) => ({ at: moment.at, until: moment.at + length, brokers: new Map(moment.brokers.map(([broker, usage, msgRate, msgThroughput, bundles]) =>
  [broker, { broker, usage: usage === null ? null : { worst: usage }, msgRate, msgThroughput, bundles }])) });

// The last RECENT_MS of all brokers, or of the broker or bundle `of`, from the leader's memory and the pipeline's tables;
// `note` is the answer's remark about them.
export async function recent(of = {}) {
  const until = Math.round(now()), found = await get("/barycenter/v1/load-history", { ...of, since: until - RECENT_MS, until });
  return { samples: (found.moments || []).map(one => remembered(one, found.step)), note: found.note };
}

// Samples from before this page was opened precede its own. The steps of tables end where the page's own samples begin.
export const joined = (before, seen) => trimmed([...before.filter(one => !seen.length || one.until <= seen[0].at + SAMPLE_EVERY_MS), ...seen]);
const trimmed = samples => samples.filter(one => one.until > now() - RECENT_MS);

async function earlier() {
  const found = await recent().catch(error => ({ samples: [], note: error.message }));
  known.note = found.note;
  known.samples = joined(found.samples, known.samples);
}

let tag = "", told = "";
async function refresh() {
  const answer = await ask("/barycenter/v1/overview", { tag });
  if (answer.body) {
    const before = known.overview;
    known.overview = answer.body;
    known.overview.brokers.sort((a, b) => byName(a.broker, b.broker));
    tag = answer.tag;
    if (before && before.leader !== known.overview.leader) known.elections.push({ at: now(), leader: known.overview.leader, before: before.leader });
  }
  known.at = Date.now();
  const isFirst = known.samples.length === 0;
  sample();
  if (isFirst) await earlier();
  await refreshDecisions();
}

// The leader publishes how many decisions it made. Decisions of operators are on the broker that carried them out, so all
// brokers are asked periodically, less often in larger clusters, and at once after an action of this page or a drain.
let askedAllAt = 0, toldOfDrained = "";
async function refreshDecisions() {
  const { leader, decisions, drained, drainChange } = known.overview, newest = `${leader} ${decisions}`;
  const ofDrained = JSON.stringify([drained, drainChange]), at = now();
  const isOther = !known.decisions.length || !told.startsWith(`${leader} `), isDue = at - askedAllAt > Math.max(ALL_EVERY_MS, EACH_MS * known.overview.brokers.length) || ofDrained !== toldOfDrained;
  if (newest === told && !isDue) return;
  const last = known.decisions[known.decisions.length - 1];
  const query = isOther ? { of: "cluster" } : isDue ? { of: "cluster", since: Math.max(0, Math.round(Math.min(last.at, askedAllAt) - LATE_MS)) } : { of: "leader", since: last.at };
  known.decisions = merged(known.decisions, await get("/barycenter/v1/timeline", { ...query, limit: 500 }));
  told = newest;
  if (query.of === "cluster") [askedAllAt, toldOfDrained] = [at, ofDrained];
}
export function pollAll() {
  askedAllAt = 0;
  return poll();
}

export const place = one => `${one.at} ${one.by} ${one.number}`;
export function merged(before, more, most = KEPT) {
  const all = new Map([...before, ...more].map(one => [place(one), one]));
  return [...all.values()].sort((a, b) => a.at - b.at || a.number - b.number).slice(-most);
}

function sample() {
  const last = known.samples[known.samples.length - 1], at = now();
  if (last && at - last.at < SAMPLE_EVERY_MS) return;
  if (last) last.until = Math.max(last.until, Math.min(at, last.until + SAMPLE_EVERY_MS));
  // without their bundles, which may be thousands
  known.samples.push({ at, until: at + SAMPLE_EVERY_MS, brokers: new Map(known.overview.brokers.map(({ broker, usage, msgRate, msgThroughput, bundles }) => [broker, { broker, usage, msgRate, msgThroughput, bundles }])) });
  known.samples = trimmed(known.samples);
}

let timer = 0, busy = null;
export function poll() {
  clearTimeout(timer);
  if (busy) return busy;
  busy = refresh().then(() => { known.failure = ""; known.asksWho = false; }, error => { known.failure = error.message; known.asksWho = error.status === 401; }).finally(() => {
    busy = null;
    tell();
    if (!known.paused && !document.hidden) timer = setTimeout(poll, EVERY_MS);
  });
  return busy;
}
export function pause(paused) {
  known.paused = paused;
  if (paused) clearTimeout(timer);
  else poll();
  tell();
}
document.addEventListener("visibilitychange", () => { if (!document.hidden && !known.paused) poll(); });
