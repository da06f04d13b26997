// Chooses the page to show by the part of the address after #, so that each page can be linked to.

import { forgetToken, hasToken, known, pause, poll, whenChanged } from "./cluster.js";
import { byId, h, say } from "./dom.js";
import { brokerPage, bundlePage, namespacePage, topicPage } from "./entity_pages.js";
import { overviewPage } from "./overview.js";
import { settingsPage } from "./settings_page.js";
import { ago } from "./words.js";

const PAGES = { "": overviewPage, broker: brokerPage, bundle: bundlePage, topic: topicPage, namespace: namespacePage, settings: settingsPage };

let leave = () => {};
function show(isFirst) {
  if (location.hash && !location.hash.startsWith("#/")) return;
  const [kind, ...rest] = location.hash.slice(2).split("/");
  let name = "";
  try { name = decodeURIComponent(rest.join("/")); } catch { name = rest.join("/"); }
  const page = PAGES[kind];
  if (byId("action").open) byId("action").close();  // it is about the page that is left
  leave();
  const main = byId("main");
  const shown = page ? page(name) : { title: "No such page", node: h("div", {}, h("h1", {}, "No such page"), h("p", {}, "The cluster is shown on the ", h("a", { href: "#/" }, "overview"), ".")) };
  leave = shown.leave || (() => {});
  document.title = shown.title ? `${shown.title} · Barycenter` : "Barycenter";
  main.replaceChildren(shown.node);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${kind}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!isFirst) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

function head() {
  const { overview, failure, paused, at } = known;
  if (overview) say(byId("cluster"), overview.cluster);
  say(byId("trouble"), failure ? `${failure}${overview ? ` What is shown is ${ago(Date.now() - at)} old.` : ""}` : "");
  const isRecording = overview?.watched?.isRecording;
  document.body.classList.toggle("watched", Boolean(overview?.watched));
  say(byId("live"), paused ? "paused" : failure ? "no answer" : isRecording ? "a recording" : overview ? "live" : "asking…");
  byId("forget").hidden = !hasToken() && !known.asksWho;
  say(byId("forget"), hasToken() ? "Forget token" : "Give a token");
  const button = byId("pause");
  say(button, paused ? "Go on" : "Pause");
  button.setAttribute("aria-pressed", String(paused));
}

byId("forget").addEventListener("click", forgetToken);
byId("pause").addEventListener("click", () => pause(!known.paused));
addEventListener("hashchange", () => show(false));
whenChanged(head);
show(true);
poll();
