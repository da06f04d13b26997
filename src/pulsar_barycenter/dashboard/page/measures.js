// The measures by which brokers and bundles are compared.

import { count, percent, rate, throughput } from "./words.js";

const worst = broker => broker.usage === null ? null : Math.max(0, ...Object.values(broker.usage));

// `of(broker)` and `ofBundle(bundle)` are values, `others(broker)` is the value of the bundles that are not listed. `most`,
// if given, is the end of the scale. `nothing` is the reason why all values may be 0.
const NO_TRAFFIC = "By the newest reports no bundle has load: no client sends or receives messages, or brokers have not reported it yet.";
export const MEASURES = {
  throughput: { title: "load, throughput", words: throughput, base: 1024, of: one => one.msgThroughput, ofBundle: bundle => bundle[2], others: one => one.othersThroughput, nothing: NO_TRAFFIC },
  rate: { title: "load, messages", words: rate, base: 1000, of: one => one.msgRate, ofBundle: bundle => bundle[1], others: one => one.othersRate, nothing: NO_TRAFFIC },
  usage: { title: "usage, fullest resource", words: percent, of: worst, ofBundle: bundle => bundle[2], others: one => one.othersThroughput, most: 100, nothing: "No broker reports usage of a resource." },
  bundles: { title: "number of bundles", words: count, isWhole: true, of: one => one.bundles, ofBundle: () => 1, others: one => one.others + one.unknown, nothing: "No broker serves a bundle: clients have not asked for a topic yet." },
};

export function total(brokers) {
  const sum = { bundles: 0, msgRate: 0, msgThroughput: 0 };
  for (const one of brokers) for (const name of Object.keys(sum)) sum[name] += one[name];
  return sum;
}

export function worstResource(broker) {
  const [name, value] = Object.entries(broker.usage).sort((a, b) => b[1] - a[1])[0] || [];
  return name ? `${name.replace("_", " ")} ${percent(value)}` : "";
}
