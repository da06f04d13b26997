// "Where is this topic, and why there": leads from a typed name to the page about it.

import { known } from "./cluster.js";
import { h } from "./dom.js";
import { address } from "./words.js";

// The meaning of a text: a broker id, a bundle, a namespace, or a topic, short or complete, as Pulsar's clients accept them.
export function meant(text) {
  const name = text.trim();
  if (known.overview?.brokers.some(one => one.broker === name)) return ["broker", name];
  if (name.includes("://")) return ["topic", name];
  const parts = name.split("/");
  if (parts.length === 3 && /^0x[0-9a-f]{8}_0x[0-9a-f]{8}$/i.test(parts[2])) return ["bundle", name];
  if (parts.length === 2) return ["namespace", name];
  return parts.length === 1 ? ["topic", `persistent://public/default/${name}`] : ["topic", `persistent://${name}`];
}

export function findBox() {
  const text = h("input", { id: "find", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "persistent://tenant/namespace/topic", maxlength: 2000, required: true });
  const form = h("form", { class: "find", role: "search", onsubmit: event => {
    event.preventDefault();
    if (text.value.trim()) location.hash = address(...meant(text.value));
  } }, h("label", { for: "find" }, "Where is this topic, and why there?"), h("div", {}, text, h("button", {}, "Find")),
  h("p", { class: "note" }, "A bundle, a namespace or a broker will do as well."));
  return form;
}
