// The actions of a page: each opens a dialog that shows the effect, as the cluster computes it, and asks for a confirmation.

import { ask, get, known, pollAll } from "./cluster.js";
import { byId, h, table } from "./dom.js";
import { brokerLink, bundleLink, count, counted, LOAD, namespaceOf, percent, prose, rangeOf, rate, throughput } from "./words.js";

const SEEN_MS = 30000, LOOKS_MS = 700, WAIT_MS = 250, EACH_MS = 1000, TURNS = 3, LISTED = 50;
const ALGORITHMS = ["range_equally_divide", "topic_count_equally_divide", "flow_or_qps_equally_divide"];

// A dialog with `fields`. `preview()` returns the effect, or null if nothing can be done. `act()` does it and returns the
// result; it gets a function that shows the progress, and one that returns whether the dialog is still open.
function open(title, verb, fields, preview, act, whenDone = () => {}) {
  const dialog = byId("action"), shown = h("div", { class: "preview", role: "status", tabindex: 0, "aria-label": "What this would do" }), outcome = h("p", { class: "outcome", role: "status" });
  const button = h("button", { class: "act", disabled: true }, verb), cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  let asked = 0, done = false;
  async function look() {
    const number = ++asked;
    button.disabled = true;
    shown.setAttribute("aria-busy", "true");
    let what = null;
    try {
      what = await preview();
      if (number === asked) shown.replaceChildren(...[what.words].flat(Infinity).filter(Boolean));
    } catch (error) {
      if (number === asked) shown.replaceChildren(h("p", { class: "failure" }, prose(error.message)));
    }
    if (number !== asked) return;
    shown.removeAttribute("aria-busy");
    button.disabled = done || !what || what.isNothing === true;
  }
  let timer = 0;
  const form = h("form", { onsubmit: async event => {
    event.preventDefault();
    if (button.disabled || done) return;
    done = button.disabled = true;
    outcome.textContent = "Under way…";
    try {
      outcome.textContent = await act(text => { outcome.textContent = text; }, () => form.isConnected);
    } catch (error) {
      outcome.textContent = error.message;
      outcome.classList.add("failure");
    }
    cancel.textContent = "Close";
    if (dialog.open) cancel.focus();
    pollAll();
    whenDone();
  }, oninput: () => { if (done) return; button.disabled = true; clearTimeout(timer); timer = setTimeout(look, WAIT_MS); } },
  h("h2", { id: "action-title" }, prose(title)), fields, h("h3", {}, "What this would do"), shown, h("p", { class: "choices" }, button, cancel), outcome);
  const before = document.activeElement;
  dialog.replaceChildren(form);
  dialog.addEventListener("close", () => { asked++; clearTimeout(timer); dialog.replaceChildren(); if (before && before.isConnected) before.focus(); }, { once: true });
  dialog.addEventListener("click", event => { if (event.target.closest("a")) dialog.close(); });
  dialog.showModal();
  look();
}

function field(label, control) {
  control.id = `field-${label.split(" ")[0]}`;
  return h("p", {}, h("label", { for: control.id }, label), " ", control);
}
// The loads of brokers before and after; a value that does not change is shown once.
const sidesTable = sides => [table(["broker", "usage#", "load, messages#", "load, throughput#", "bundles#"], sides.map(side => [brokerLink(side.broker),
  changed(percent, side.usage), changed(rate, side.msgRate), changed(throughput, side.msgThroughput), changed(count, side.bundles)]), { class: "cards sides" }),
h("p", { class: "note" }, `${LOAD} The usage after it is an estimate.`)];
const changed = (words, [before, after]) => before === after ? words(before) : `${words(before)} → ${words(after)}`;

export function unloadAction(bundle, owner, whenDone) {
  const others = (known.overview?.brokers || []).map(one => one.broker).filter(one => one !== owner);
  const choice = h("select", {}, h("option", { value: "" }, "the broker that the leader chooses"), others.map(one => h("option", { value: one }, one)));
  async function preview() {
    const found = await get("/barycenter/v1/explanation", { bundle, destination: choice.value });
    if (!found.owner) return { isNothing: true, words: h("p", {}, "Nobody owns it: there is nothing to unload.") };
    const clients = h("p", {}, bundleLink(bundle), " closes on ", brokerLink(found.owner), "; its clients look it up again, and continue",
      choice.value ? [" on ", brokerLink(choice.value)] : found.placed?.destination ? [", if they did so now on ", brokerLink(found.placed.destination)] : "", ".");
    if (!choice.value) return { words: [clients, found.placed ? h("p", { class: "note" }, prose(found.placed.sentence)) : null] };
    return { words: [clients, found.move.objection ? h("p", { class: "failure" }, found.move.objection, " The next round may take it away again.") : null,
      sidesTable(found.move.sides)] };
  }
  async function act(tell) {
    const query = choice.value ? `?${new URLSearchParams({ destinationBroker: choice.value })}` : "";
    await ask(`/admin/v2/namespaces/${bundle}/unload${query}`, { method: "PUT" });
    tell("Unloaded. Waiting until it is served again…");
    return servedBy(bundle, choice.value);
  }
  open(`Unload ${bundle}`, "Unload", field("to", choice), preview, act, whenDone);
}

// Look it up as a client does until it has an owner; return the owner, and whether it is the requested one.
async function seenAt(bundle, wanted) {
  const [topic] = await get(`/admin/v2/persistent/${namespaceOf(bundle)}`, { bundle: rangeOf(bundle) }).catch(() => []) || [];
  const until = Date.now() + SEEN_MS;
  while (Date.now() < until) {
    if (topic) await get(`/lookup/v2/topic/persistent/${namespaceOf(bundle)}/${encodeURIComponent(topic.split("/").slice(4).join("/"))}`).catch(() => null);
    const { owner } = await get("/barycenter/v1/explanation", { bundle });
    if (owner ? !wanted || owner === wanted : !topic) return { owner, isDone: true };
    await pause(LOOKS_MS);
  }
  return { owner: "", isDone: false };
}
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

async function servedBy(bundle, wanted) {
  const { owner, isDone } = await seenAt(bundle, wanted);
  if (isDone) return owner ? `Done: ${owner} serves it.` : "Done: it has no owner now; it is assigned when a client uses it.";
  return wanted ? `It was unloaded, but ${wanted} does not serve it yet.` : "It was unloaded, and has no owner yet.";
}

const drainPreview = broker => get("/barycenter/v1/drain-preview", { broker });
// Whether the leader, which places the bundles that leave, uses the new setting within the time of a few attempts.
async function leaderKnows(broker, isDrained) {
  for (const until = Date.now() + SEEN_MS; (await drainPreview(broker)).isDrained !== isDrained; await pause(LOOKS_MS))
    if (Date.now() > until) return false;
  return true;
}
// Another user may drain brokers at the same time, so the list is only changed if it is still the one that was read.
async function setDrained(broker, isDrained) {
  for (const until = Date.now() + SEEN_MS; ; await pause(LOOKS_MS)) {
    const found = await drainPreview(broker);
    if (found.isDrained === isDrained) return;
    const text = encodeURIComponent(isDrained ? found.value : found.without), query = new URLSearchParams({ expected: found.stored });
    try {
      await ask(`/admin/v2/brokers/configuration/${found.key}/${text}?${query}`, { method: "POST" });
      return;
    } catch (error) {
      if (error.status !== 409 || Date.now() > until) throw error;
    }
  }
}

// The bundles that go to one broker for one reason; the compared values of each are in the unfolded part.
function leavingGroup({ destination, why, bundles }) {
  const number = counted(bundles.length, "bundle"), title = destination ? [h("b", {}, `${number} → `), brokerLink(destination)] : h("b", {}, `${number} cannot leave`);
  return h("section", { class: "leaving" }, h("h4", {}, title), h("p", { class: "why" }, `${why.charAt(0).toUpperCase()}${why.slice(1)}.`),
    h("details", {}, h("summary", {}, `Which, and what was compared`), h("ul", { class: "events" }, bundles.slice(0, LISTED).map(one => h("li", {}, h("p", { class: "what" }, bundleLink(one.bundle)), h("p", { class: "why" }, prose(one.sentence))))),
      bundles.length > LISTED ? h("p", { class: "note" }, `… and ${count(bundles.length - LISTED)} more.`) : null));
}

// First the setting keeps new bundles away from the broker, then this page unloads its bundles one after the other. Bundles
// that it gets in between are unloaded in another pass.
export function drainAction(broker, whenDone) {
  async function preview() {
    const found = await drainPreview(broker), placed = found.groups.reduce((all, one) => all + one.bundles.length, 0);
    return { words: [h("p", {}, brokerLink(broker), found.isDrained ? " is drained already: it gets no bundles." : " gets no more bundles while another broker may serve them, until it is undrained.",
      found.count ? ` Its ${counted(found.count, "bundle")} ${found.count === 1 ? "leaves" : "leave one after the other, at most one a second"}; clients look them up again, and continue.` : " It reports no bundle that would have to leave."),
    found.count ? h("p", { class: "note" }, "Keep this dialog open: it moves the bundles. Closed, it stops after the bundle that is under way; Drain… continues with the rest.") : null,
    found.count ? [h("h4", {}, "Each broker before and after"), sidesTable(found.sides)] : null,
    found.groups.map(leavingGroup), found.count > placed ? h("p", { class: "note" }, `… and ${count(found.count - placed)} more, which the leader places when they leave.`) : null] };
  }
  async function act(tell, isLookedAt) {
    const { cluster } = known.overview;
    await setDrained(broker, true);
    if (!await leaderKnows(broker, true)) return `${broker} was set to be drained, but the leader does not know it yet. Try again.`;
    let moved = 0;
    const stay = new Set();
    const served = async () => Object.entries(await get(`/admin/v2/brokers/${cluster}/${broker}/ownedNamespaces`))
      .filter(([bundle, one]) => one.is_active && !namespaceOf(bundle).endsWith(`/${broker}`)).map(([bundle]) => bundle);
    let left = await served();
    for (let turn = 0; turn < TURNS && left.some(one => !stay.has(one)); turn++, left = await served()) {
      for (const [i, bundle] of left.entries()) {
        if (!isLookedAt()) return "";
        tell(`${counted(moved, "bundle")} moved, ${count(left.length - i)} to go. Under way: ${bundle}`);
        const began = Date.now(), { owner, placed } = await get("/barycenter/v1/explanation", { bundle });
        if (owner !== broker) continue;
        if (!placed?.destination || placed.destination === broker) { stay.add(bundle); continue; }
        await ask(`/admin/v2/namespaces/${bundle}/unload?${new URLSearchParams({ destinationBroker: placed.destination })}`, { method: "PUT" });
        if (!(await seenAt(bundle, placed.destination)).isDone) return `${counted(moved, "bundle")} moved; ${bundle} was unloaded, but ${placed.destination} does not serve it yet. Try again later.`;
        moved++;
        await pause(Math.max(0, EACH_MS - Date.now() + began));
      }
    }
    return left.length ? `${counted(moved, "bundle")} moved; ${broker} still serves ${counted(left.length, "bundle")}.` : `Done: ${counted(moved, "bundle")} moved. ${broker} serves none, and gets none until it is undrained.`;
  }
  open(`Drain ${broker}`, "Drain", [], preview, act, whenDone);
}

export function undrainAction(broker, whenDone) {
  open(`Undrain ${broker}`, "Undrain", [], async () => (await drainPreview(broker)).isDrained
    ? { words: h("p", {}, brokerLink(broker), " may have bundles again: look-ups and the next rounds of the leader bring them. Nothing moves at once; ", h("code", {}, `barycenter undrain ${broker} --bring-back --yes`), " also brings back what people moved away since.") }
    : { isNothing: true, words: h("p", {}, "It is not drained.") },
  async () => {
    await setDrained(broker, false);
    if (!await leaderKnows(broker, false)) return `${broker} was set to be undrained, but the leader does not know it yet.`;
    return `Done: ${broker} may have bundles again.`;
  }, whenDone);
}

export function splitAction(bundle, whenDone) {
  const algorithm = h("select", {}, h("option", { value: "" }, "the default algorithm"), ALGORITHMS.map(one => h("option", { value: one }, one)));
  const unload = h("input", { type: "checkbox" });
  const namespace = namespaceOf(bundle);
  async function preview() {
    const found = await get("/barycenter/v1/split-preview", { bundle, splitAlgorithmName: algorithm.value });
    if (!found.parts.length) return { isNothing: true, words: h("p", {}, `${found.algorithm} finds no place to split it at.`) };
    return { words: [h("p", {}, `By ${found.algorithm} these bundles take its place${unload.checked ? ", and are unloaded, so that each may go elsewhere" : ", on the same broker"}:`),
      table(["bundle", "topics#"], found.parts.map(part => [bundleLink(`${namespace}/${part.range}`), count(part.topics)]))] };
  }
  async function act() {
    const query = new URLSearchParams({ unload: String(unload.checked), ...(algorithm.value ? { splitAlgorithmName: algorithm.value } : {}) });
    await ask(`/admin/v2/namespaces/${bundle}/split?${query}`, { method: "PUT" });
    return "Done. This bundle is no more; its parts are on the page of the namespace.";
  }
  open(`Split ${bundle}`, "Split", [field("by", algorithm), field("unload the parts afterwards", unload)], preview, act, whenDone);
}

export function settingAction(setting, whenDone) {
  const text = h("input", { value: setting.value, maxlength: 2000, spellcheck: "false", autocomplete: "off" });
  async function preview() {
    const found = await get(`/barycenter/v1/settings/${setting.key}`, { value: text.value });
    const changes = Object.entries(found.changes);
    if (!changes.length && setting.override === text.value) return { isNothing: true, words: h("p", {}, "Nothing: this value is set already.") };
    return { words: [changes.length ? h("p", {}, `On all brokers, at once and after each restart: ${found.before || "(blank)"} → ${found.after || "(blank)"}.`) : h("p", {}, "The value stays; that of broker.conf would not count any more."),
      h("p", { class: "note" }, prose(setting.effect))] };
  }
  async function act() {
    // the path that sets a value cannot have a blank one
    await ask(`/admin/v2/brokers/configuration/${setting.key}/${encodeURIComponent(text.value)}`, { method: "POST" });
    return "Done: brokers use it within seconds.";
  }
  open(`Change ${setting.key}`, "Set", field(`value (${setting.allowed}${setting.unit ? `, in ${setting.unit}` : ""})`, text), preview, act, whenDone);
}

export function removeOverride(setting, whenDone) {
  open(`Remove the override of ${setting.key}`, "Remove", [], async () => ({ words: h("p", {}, `${setting.value || "(blank)"} stays in force until a broker restarts, as in Pulsar; then its broker.conf counts again, or the default, ${setting.default || "(blank)"}.`) }), async () => {
    await ask(`/admin/v2/brokers/configuration/${setting.key}`, { method: "DELETE" });
    return "Done.";
  }, whenDone);
}
