// Asks the broker that this page came from, and keeps what it answered. Redirects are followed there, as a page may ask
// its own origin only: that is what the header Barycenter-Follow asks for.

import { byId } from "./dom.js";
import { byName } from "./words.js";

const EVERY_MS = 3000, PATIENCE_MS = 30000, KEPT = 1000;
export const MOST_SAMPLES = 400, SAMPLE_EVERY_MS = 5000;
const TOKEN = "barycenter-token";

export class RequestError extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

// What is known of the cluster. `samples` are loads over time, oldest first; `decisions` the last ones, oldest first;
// `clock` is how much the broker's clock is ahead of this one, in ms.
export const known = { overview: null, at: 0, samples: [], decisions: [], elections: [], failure: "", asksWho: false, paused: false, clock: 0 };
export const now = () => Date.now() + known.clock;

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

// A moment of the leader's as a sample; a figure that is not known is null.
export const remembered = moment => ({ at: moment.at, brokers: new Map(moment.brokers.map(([broker, usage, msgRate, msgThroughput, bundles]) =>
  [broker, { broker, usage: usage === null ? null : { worst: usage }, msgRate, msgThroughput, bundles }])) });

// What was sampled before this page was opened: other pages asked, and the leader kept it.
async function earlier() {
  const told = await get("/barycenter/v1/load-history").catch(() => null), found = (told?.moments || []).map(remembered);
  known.samples = [...found.filter(one => !known.samples.length || one.at < known.samples[0].at - SAMPLE_EVERY_MS / 2), ...known.samples].slice(-MOST_SAMPLES);
}

// The leader counts its own decisions. What people ask for is kept by the broker that does it, so all are asked now and then.
const PEOPLE_MS = 10000, LATE_MS = 60000;
let tag = "", told = "", askedAll = 0;
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
  const { leader, decisions } = known.overview, newest = `${leader} ${decisions}`;
  const isDue = Date.now() - askedAll >= PEOPLE_MS;
  if (newest === told && !isDue) return;
  const last = known.decisions[known.decisions.length - 1];
  const other = !last || !told.startsWith(`${leader} `);
  const since = last && Math.max(0, isDue ? last.at - LATE_MS : last.at);
  const found = await get("/barycenter/v1/timeline", other ? { of: "cluster", limit: 500 } : { of: isDue ? "cluster" : "leader", since, limit: 500 });
  if (other || isDue) askedAll = Date.now();
  known.decisions = merged(known.decisions, found);
  told = newest;
}

export const place = one => `${one.at} ${one.by} ${one.number}`;
export function merged(before, more, most = KEPT) {
  const all = new Map([...before, ...more].map(one => [place(one), one]));
  return [...all.values()].sort((a, b) => a.at - b.at || a.number - b.number).slice(-most);
}

function sample() {
  const last = known.samples[known.samples.length - 1];
  if (last && now() - last.at < SAMPLE_EVERY_MS) return;
  // without their bundles, of which there may be thousands
  known.samples.push({ at: now(), brokers: new Map(known.overview.brokers.map(({ broker, usage, msgRate, msgThroughput, bundles }) => [broker, { broker, usage, msgRate, msgThroughput, bundles }])) });
  known.samples.splice(0, known.samples.length - MOST_SAMPLES);
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
