// Values, times and names as text for users, and the address of each page.

import { h } from "./dom.js";

function quantity(value, unit, base, steps) {
  let step = 0;
  while (Math.abs(value) >= base - 0.5 && step < steps.length - 1) { value /= base; step++; }
  const text = value >= 100 || Number.isInteger(value) ? Math.round(value).toString() : value.toPrecision(value < 0.01 ? 1 : 2 + (value >= 10));
  return `${Number(text).toLocaleString("en")} ${steps[step]}${unit}`.trim();
}
export const throughput = value => quantity(value, "/s", 1024, ["bytes", "KiB", "MiB", "GiB", "TiB"]);
export const rate = value => quantity(value, "msg/s", 1000, ["", "k ", "M ", "G "]);
export const percent = value => `${value.toFixed(value < 9.95 ? 1 : 0)} %`;
export const count = value => value.toLocaleString("en");
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

export function ago(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

const pad = value => String(value).padStart(2, "0");
export function time(ms) {
  const at = new Date(ms), clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(":");
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return Date.now() - ms > 18 * 3600e3 ? `${day} ${clock}` : clock;
}

// The short form of a reason, as in `html_pages/reasons.py`: the cause, and its first comparison.
const LONGEST = 160;
export function shortReason(reason) {
  const cause = reason.slice(reason.lastIndexOf("; because ") + 1).replace(/^ because /, "").split("; ")[0].split(" [")[0];
  const [head, ...rest] = cause.split(" ("), short = rest.length ? `${head} (${rest.join(" (").split(")")[0].split(", ")[0]})` : head;
  return short.length <= LONGEST ? short : `${short.slice(0, LONGEST - 1)}…`;
}

// Brokers in natural order: 10.0.0.2 before 10.0.0.10.
export const byName = new Intl.Collator("en", { numeric: true }).compare;

// The load of a bundle, the same on all pages; see docs/measures.md.
export const LOAD = "Load is in + out, by the newest report of the broker.";

// The name of a principal; without authentication there is none.
export const personWords = principal => principal === "anonymous" || principal === "nobody" ? "an unknown user (no authentication)" : principal;

// A name that breaks only between its words: loadBalancer|Enabled, org.apache.|pulsar.
const PLACES = /(?<=[/:._,=-])(?=[^/:._,=-])|(?<=[a-z0-9])(?=[A-Z])/, LONG = 12;
export const breakable = name => String(name).split(PLACES).flatMap((word, i) => i ? [h("wbr"), word] : [word]);
// A sentence in which long names move to the next line as a whole, and break only if they are longer than a line.
export const prose = text => String(text).split(/(\s+)/).map(token => token.length > LONG && PLACES.test(token) ? h("span", { class: "token" }, breakable(token)) : token);

export const namespaceOf = bundle => bundle.slice(0, bundle.lastIndexOf("/"));
export const rangeOf = bundle => bundle.slice(bundle.lastIndexOf("/") + 1);

export const address = (kind, name) => `#/${kind}/${encodeURIComponent(name)}`;
const link = kind => (name, text = name) => name ? h("a", { href: address(kind, name) }, breakable(text)) : "";
export const brokerLink = link("broker");
export const bundleLink = link("bundle");
export const namespaceLink = link("namespace");
export const topicLink = link("topic");

// One of eight distinct colours; a name has the same colour on every page.
export function colour(name) {
  let sum = 7;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) % 8191;
  return `b${sum % 8}`;
}
