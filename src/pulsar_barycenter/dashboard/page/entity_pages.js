// The pages of a broker, bundle, topic or namespace: where it is, why, the decisions about it, and what would move it.

import { drainAction, splitAction, undrainAction, unloadAction } from "./actions.js";
import { get, isWatched, known, merged, now, whenChanged } from "./cluster.js";
import { drainedWords } from "./condition.js";
import { facts, h, say, table } from "./dom.js";
import { bundleTable, nowSection, stateFacts, whySection } from "./explained.js";
import { brokerLoad, bundleLoad } from "./load_section.js";
import { timeLine } from "./time_line.js";
import { ago, breakable, brokerLink, bundleLink, count, counted, namespaceLink, namespaceOf, percent, rangeOf, rate, throughput, time, topicLink } from "./words.js";

const REFRESH_MS = 15000;

// A page that polls and shows the answer, unless a user is reading in it with the keyboard or a selection: text must not
// change while it is read. `head` stays above the part that changes; with `hurry` the text is always changed.
function asking(kind, name, load, draw, ...head) {
  const body = h("div", { "aria-busy": "true" }, h("p", { class: "note" }, "Asking…"));
  const node = h("div", {}, h("p", { class: "kind" }, kind), h("h1", {}, breakable(name)), head, body);
  let gone = false, timer = 0, shown = "";
  async function again(hurry = false) {
    clearTimeout(timer);
    try {
      const found = await load();
      const text = JSON.stringify({ ...found, takenAt: 0 });
      if (gone) return;
      const isRead = body.contains(document.activeElement) || String(getSelection()) !== "";
      if (text !== shown && !(shown && isRead && hurry !== true)) {
        shown = text;
        body.replaceChildren(...draw(found).flat(Infinity).filter(Boolean));
      }
    } catch (error) {
      if (!gone && !shown) body.replaceChildren(h("p", { class: "failure" }, error.message), h("p", {}, h("button", { type: "button", onclick: again }, "Ask again")));
    } finally {
      body.removeAttribute("aria-busy");
      if (!gone) timer = setTimeout(() => known.paused || document.hidden ? null : again(), REFRESH_MS);
    }
  }
  again();
  isWatched().then(watched => {  // some words are others then
    if (!watched || !shown || gone) return;
    shown = "";
    again(true);
  });
  return { title: name, node, again: () => again(true), leave: () => { gone = true; clearTimeout(timer); } };
}

// The time line of a page: it stays while the rest of the page changes, with its unfolded entries and older pages.
function history(of, title = "What was decided about it") {
  let decisions = [];
  const line = timeLine(() => true, () => decisions, false, of);
  const node = h("section", { "aria-labelledby": "history-title" }, h("h2", { id: "history-title" }, title), line.node);
  return found => {
    decisions = found;
    line.draw();
    return node;
  };
}

const explanation = query => get("/barycenter/v1/explanation", query);
const decided = query => get("/barycenter/v1/timeline", { of: "cluster", limit: 200, ...query });
const sum = (one, other) => (one || 0) + (other || 0);
const softly = request => request.catch(() => null);  // what is only added is left out where it cannot be had

export function bundlePage(name) {
  const load = async () => {
    const [found, decisions, topics] = await Promise.all([
      explanation({ bundle: name }), softly(decided({ bundle: name })),
      softly(get(`/admin/v2/persistent/${namespaceOf(name)}`, { bundle: rangeOf(name) }))]);
    return { found, decisions: decisions || [], topics };
  };
  let owner = "";
  const past = history(() => ({ bundle: name })), loads = bundleLoad(name);
  const unload = h("button", { type: "button", onclick: () => unloadAction(name, owner, page.again) }, "Unload…");
  const split = h("button", { type: "button", class: "split", onclick: () => splitAction(name, page.again) }, "Split…");
  const page = asking("Bundle", name, load, ({ found, decisions, topics }) => [
    owned(found),
    facts([["broker", found.owner ? brokerLink(found.owner) : "no owner"], ["namespace", namespaceLink(namespaceOf(name))], ...stateFacts(found),
      topics ? ["topics", topics.length ? h("details", {}, h("summary", {}, counted(topics.length, "persistent topic")), h("ul", { class: "names" }, topics.slice(0, 500).map(topic => h("li", {}, topicLink(topic))))) : "no persistent ones"] : null]),
    loads.node, whySection(found, decisions), nowSection(found, "this bundle"), past(decisions)], h("p", { class: "choices acting" }, unload, split));
  function owned(found) {
    owner = found.owner;
    return null;
  }
  return { ...page, leave: () => { loads.leave(); page.leave(); } };
}

export function topicPage(name) {
  let bundle = "";
  const past = history(() => ({ bundle }), "What was decided about its bundle");
  const load = async () => {
    const found = await explanation({ topic: name });
    bundle = found.bundle;
    const [domain, rest] = found.topic.split("://"), [tenant, namespace] = rest.split("/"), local = rest.split("/").slice(2).join("/");
    const path = `/admin/v2/${domain}/${tenant}/${namespace}/${encodeURIComponent(local)}/${found.partitionCount ? "partitioned-stats?perPartition=false" : "stats"}`;
    const [decisions, stats] = await Promise.all([softly(decided({ bundle: found.bundle })), found.exists && (found.owner || found.partitionCount) ? softly(get(path)) : null]);
    return { found, decisions: decisions || [], stats };
  };
  return asking("Topic", name, load, ({ found, decisions, stats }) => [
    facts([
      ["topic", found.topic], found.exists === false ? ["exists", "not yet; were it used, this is where it would be"] : null,
      found.partitionCount ? ["partitions", count(found.partitionCount)] : ["broker", found.owner ? brokerLink(found.owner) : "its bundle has no owner"],
      ["bundle", bundleLink(found.bundle), `, as its hash is ${found.hash}`], ["namespace", namespaceLink(namespaceOf(found.bundle))],
      stats ? ["load", `${rate(sum(stats.msgRateIn, stats.msgRateOut))}, ${throughput(sum(stats.msgThroughputIn, stats.msgThroughputOut))}, in + out, by its broker's stats of now`] : null,
      stats ? ["in", `${rate(stats.msgRateIn || 0)}, ${throughput(stats.msgThroughputIn || 0)}`] : null,
      stats ? ["out", `${rate(stats.msgRateOut || 0)}, ${throughput(stats.msgThroughputOut || 0)}`] : null,
      stats ? ["clients", `${counted((stats.publishers || []).length, "producer")}, ${counted(Object.keys(stats.subscriptions || {}).length, "subscription")}`] : null]),
    found.partitionCount
      ? h("section", {}, h("h2", {}, "Where its partitions are"), table(["partition", "bundle", "broker"], found.partitions.map(part => [topicLink(part.topic), bundleLink(part.bundle), part.owner ? brokerLink(part.owner) : "no owner"])),
        found.partitionCount > found.partitions.length ? h("p", { class: "note" }, `… and ${count(found.partitionCount - found.partitions.length)} more.`) : null)
      : [h("p", { class: "note" }, "Topics move with their bundles: what follows is about the bundle."), whySection(found, decisions), nowSection(found, "this topic"), past(decisions)]]);
}

export function namespacePage(name) {
  const past = history(() => ({ namespace: name }));
  const load = async () => {
    const [found, list, decisions] = await Promise.all([explanation({ namespace: name }), get("/barycenter/v1/bundles", { namespace: name, limit: 500 }), softly(decided({ namespace: name }))]);
    return { found, list, decisions: decisions || [] };
  };
  return asking("Namespace", name, load, ({ found, list, decisions }) => {
    const owned = new Set(list.bundles.map(one => one.bundle)), unowned = found.bundles.filter(one => !owned.has(one));
    return [
      facts([["bundles", counted(found.bundleCount, "bundle")], ["reported", `${count(list.count)} by ${counted(new Set(list.bundles.map(one => one.broker)).size, "broker")}`]]),
      h("section", {}, h("h2", {}, "Its bundles"), list.bundles.length ? bundleTable(list) : h("p", { class: "note" }, "No broker reports one."),
        list.count <= list.bundles.length && unowned.length ? h("details", {}, h("summary", {}, `${counted(unowned.length, "bundle")} that no broker reports`), h("ul", { class: "names" }, unowned.slice(0, 300).map(one => h("li", {}, bundleLink(one))))) : null),
      nowSection(found, "this namespace"), past(decisions)];
  });
}

export function brokerPage(name) {
  const load = async () => {
    const [found, list, decisions] = await Promise.all([explanation({ broker: name }), get("/barycenter/v1/bundles", { broker: name, limit: 500 }), softly(decided({ broker: name }))]);
    return { found, list, decisions: decisions || [] };
  };
  const live = h("dl", {}), past = history(() => ({ broker: name })), loads = brokerLoad(name);
  const drain = h("button", { type: "button", class: "drain", onclick: () => drainAction(name, page.again) }, "Drain…");
  const undrain = h("button", { type: "button", class: "undrain", hidden: true, onclick: () => undrainAction(name, page.again) }, "Undrain…");
  function drawLive() {
    const one = known.overview?.brokers.find(each => each.broker === name);
    if (!one) return say(live, known.overview ? "Its load is not known: it is not registered, and no broker has a report of it." : "");
    const isDrained = (known.overview.drained || []).includes(name);
    undrain.hidden = !isDrained;
    live.replaceChildren(...facts([
      isDrained ? ["drained", h("p", {}, `Yes, ${drainedWords(name)}`), h("p", {}, "It gets no bundle while another broker may serve it. ", h("b", {}, "Undrain…"), " lets it have bundles again, from the next look-ups and rounds on; ", h("code", {}, `barycenter undrain ${name} --bring-back --yes`), " also brings back what people moved away since.")] : null,
      ["leads", known.overview.leader === name ? `yes${known.overview.watched ? "" : `, term ${known.overview.epoch}`}` : known.overview.leader ? "no" : "not known"],
      ...Object.entries(one.usage).map(([resource, value]) => [resource.replace("_", " "), percent(value)]),
      ["load", `${rate(one.msgRate)}, ${throughput(one.msgThroughput)}, in + out, by its newest report`],
      ["serves", `${counted(one.bundles, "bundle")}, ${counted(one.topics, "topic")}`],
      one.arriving ? ["on their way", counted(one.arriving, "bundle")] : null,
      ["reported", one.reportedAt ? `${ago(now() - one.reportedAt)} ago, at ${time(one.reportedAt)}` : "not yet"]]).children);
  }
  drawLive();
  const stop = whenChanged(drawLive);
  const page = asking("Broker", name, load, ({ found, list, decisions }) => [
    nowSection(found, "this broker"),
    h("section", {}, h("h2", {}, "What it serves"), list.bundles.length ? bundleTable(list, true) : h("p", { class: "note" }, "It reports no bundles.")),
    past(decisions)], h("p", { class: "choices acting" }, drain, undrain), live, loads.node);  // what loads later must not move a button that somebody presses
  return { ...page, leave: () => { stop(); loads.leave(); page.leave(); } };
}
