// By what brokers and bundles are compared.

import { count, percent, rate, throughput } from "./words.js";

const worst = broker => broker.usage === null ? null : Math.max(0, ...Object.values(broker.usage));

// `of(broker)` and `ofBundle(bundle)` are figures, `others(broker)` that of the bundles which are not listed; `most`, if
// given, is the end of the scale.
export const MEASURES = {
  throughput: { title: "throughput", words: throughput, of: one => one.msgThroughput, ofBundle: bundle => bundle[2], others: one => one.othersThroughput },
  rate: { title: "messages", words: rate, of: one => one.msgRate, ofBundle: bundle => bundle[1], others: one => one.othersRate },
  usage: { title: "worst resource", words: percent, of: worst, ofBundle: bundle => bundle[2], others: one => one.othersThroughput, most: 100 },
  bundles: { title: "number of bundles", words: count, of: one => one.bundles, ofBundle: () => 1, others: one => one.others + one.unknown },
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
