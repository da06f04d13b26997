// The settings of the broker that served this page, with the source of each; dynamic ones can be changed.

import { get, isWatched } from "./cluster.js";
import { removeOverride, settingAction } from "./actions.js";
import { h, say } from "./dom.js";
import { breakable, counted, prose } from "./words.js";

// Who stored a value for all brokers, when and why, if this is known.
const changedBy = changed => changed ? h("p", { class: "note who" }, `by ${changed.by}, ${new Date(changed.at).toLocaleString()}`, changed.before ? `; before: ${changed.before}` : "", changed.why ? `; ${changed.why}` : "") : null;

export function settingsPage(wanted) {
  let settings = [];
  const words = h("input", { id: "words", type: "search", value: wanted, placeholder: "shedding", autocomplete: "off", oninput: draw });
  const changed = h("input", { type: "checkbox", onchange: draw });
  const rows = h("tbody", {}), told = h("p", { class: "note", role: "status" }, "Asking…");
  const about = h("p", { class: "note" }, `As they are in force on ${location.host}. Those marked dynamic can be changed while brokers run, for all of them at once.`);
  isWatched().then(watched => { if (watched) say(about, "By these keys the cluster is explained: the recorded ones that load balancing uses, and those that were set here. All others have their default."); });
  const node = h("div", {}, h("h1", {}, "Settings"), about,
    h("p", { class: "filters" }, h("label", { for: "words" }, "Find "), words, h("label", {}, changed, " only those that are not the default")),
    told, h("table", { class: "cards settings-table" }, h("thead", {}, h("tr", {}, ["key", "value", "from", "default", "effect", "change"].map(title => h("th", { scope: "col" }, title)))), rows));

  function draw() {
    const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = settings.filter(one => (!changed.checked || one.source !== "default") && asked.every(word => `${one.key} ${one.effect}`.toLowerCase().includes(word)));
    rows.replaceChildren(...found.map(row));
    say(told, `${counted(found.length, "key")} of ${settings.length}.`);
  }
  function row(one) {
    const differs = one.override !== null && one.override !== one.value;
    return h("tr", {},
      h("td", { "data-label": "key" }, h("b", {}, breakable(one.key)), one.isDynamic ? h("span", { class: "note" }, " dynamic") : null),
      h("td", { "data-label": "value" }, breakable(one.value || "(blank)"), one.unit && one.value ? ` ${one.unit}` : "", differs ? h("p", { class: "failure" }, `stored for all, not in force here: ${one.override}`) : null),
      h("td", { "data-label": "from", class: `from ${one.source === "default" ? "note" : ""}` }, one.source, changedBy(one.changed)),
      h("td", { "data-label": "default" }, breakable(one.default || "(blank)")),
      h("td", { "data-label": "effect" }, prose(one.effect)),
      h("td", {}, one.isDynamic ? h("button", { type: "button", "aria-label": `Change ${one.key}`, onclick: () => settingAction(one, load) }, "Change…") : null,
        one.override !== null ? h("button", { type: "button", "aria-label": `Remove the override of ${one.key}`, onclick: () => removeOverride(one, load) }, "Remove…") : null));
  }
  async function load() {
    try {
      settings = await get("/barycenter/v1/settings");
      draw();
    } catch (error) {
      say(told, error.message);
    }
  }
  load();
  return { title: "Settings", node };
}
