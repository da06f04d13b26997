// One run: its load, its decisions as signs, and their list, which can be filtered.
report.panel = (() => {
  const { element, figure, moment, range, span } = report, { counted } = draw;
  const MOST_SHOWN = innerWidth > 640 ? 50 : 10;

  // All decisions of a run in the order of time, with the words that a filter looks in.
  function decisionsOf(run, detail) {
    const moves = detail.moves.map(([t, kind, bundle, source, destination, rate, sessions, gap, wrong, short, why]) => ({
      t, kind, bundle: detail.bundles[bundle], source, destination, short, why, wrong,
      cost: `${figure(rate)} msg/s, ${counted(sessions, "session")}, ${span(gap)} without service`,
      words: `${range(detail.bundles[bundle])}: ${source} → ${destination}${short ? `: ${short}` : ""}`,
    }));
    const splits = detail.splits.map(([t, bundle, broker, parts, short, why]) => ({
      t, kind: "split", bundle: detail.bundles[bundle], source: broker, destination: "", short, why, wrong: false,
      parts: parts.map(part => detail.bundles[part]), cost: `into ${counted(parts.length, "part")}`,
      words: `${range(detail.bundles[bundle])} on ${broker}, into ${parts.length}${short ? `: ${short}` : ""}`,
    }));
    return [...moves, ...splits].sort((a, b) => a.t - b.t);
  }

  function why(one, kind = "") {
    if (!one.why || one.why === one.short) return [one.short || "no reason was told"];
    return [one.short, element("details", { class: kind }, element("summary", {}, "whole reason"), one.why)];
  }

  function sign(kind) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [name, value] of Object.entries({ class: "sign", viewBox: "-7 -7 14 14", "aria-hidden": "true" })) svg.setAttribute(name, value);
    draw.sign(svg, report.pictures.SIGN[kind]);
    return svg;
  }

  function rowOf(run, one, tell) {
    const name = element("button", { type: "button", class: "name", title: one.bundle }, range(one.bundle));
    name.addEventListener("click", () => tell(one.bundle));
    return element("tr", {},
      element("td", { class: "n" }, moment(run, one.t)),
      element("td", {}, sign(one.kind), ` ${one.kind}`, one.wrong ? element("strong", { class: "back", "data-tip": "after the moves of that step the destination was above the mean" }, " wrong") : null),
      element("td", {}, name),
      element("td", {}, one.destination === one.source ? `stays on ${one.source}` : one.destination ? `${one.source} → ${one.destination}` : one.source),
      element("td", {}, one.cost),
      element("td", {}, ...why(one, "fold")));
  }

  function list(run, detail, all, tell) {
    const kinds = [...new Set(all.map(one => one.kind))];
    const search = element("input", { type: "search", placeholder: "bundle, broker or words of a reason", "aria-label": "Filter the list" });
    const kind = element("select", { "aria-label": "Kind" }, element("option", { value: "" }, "all kinds"), ...kinds.map(each => element("option", { value: each }, each)));
    const within = element("button", { type: "button", hidden: true }), count = element("output", { class: "note" });
    const body = element("tbody"), more = element("button", { type: "button", class: "more" }, "Show more");
    let shown = MOST_SHOWN, from = 0, until = Infinity;
    function fill() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = all.filter(one => one.t >= from && one.t < until && (!kind.value || one.kind === kind.value)
        && words.every(word => `${one.bundle} ${one.source} ${one.destination} ${one.why} ${one.kind}`.toLowerCase().includes(word)));
      body.replaceChildren(...found.slice(0, shown).map(one => rowOf(run, one, tell)));
      count.textContent = `${Math.min(shown, found.length)} of ${found.length}${found.length < all.length ? ` (${all.length} in all)` : ""}`;
      more.hidden = found.length <= shown;
      within.hidden = until === Infinity;
      within.textContent = `${moment(run, from)} – ${moment(run, until)} ✕`;
    }
    const anew = () => { shown = MOST_SHOWN; fill(); };
    search.addEventListener("input", anew);
    kind.addEventListener("change", anew);
    within.addEventListener("click", () => { [from, until] = [0, Infinity]; anew(); });
    more.addEventListener("click", () => { shown += 4 * MOST_SHOWN; fill(); });
    fill();
    const left = [];
    if (detail.moves.length < detail.moved) left.push(`${detail.moves.length} of ${detail.moved} moves, of the bundles that moved the most traffic`);
    if (detail.splits.length < detail.divided) left.push(`the first ${detail.splits.length} of ${detail.divided} splits`);
    const node = element("div", {},
      element("div", { class: "choice" }, search, kind, within, count),
      left.length ? element("p", { class: "note" }, `This page has ${left.join(" and ")}; moves.parquet and splits.parquet have all.`) : null,
      element("div", { class: "list", tabindex: 0, role: "region", "aria-label": "Moves and splits" }, element("table", { class: "cards moves" },
        element("thead", {}, element("tr", {}, ...["time", "what", "bundle", "broker", "cost", "why"].map(title => element("th", title === "time" ? { class: "n" } : {}, title)))), body), more));
    return { node, filter: (what, start, stop) => { kind.value = what; search.value = ""; [from, until] = [start, stop]; anew(); node.scrollIntoView({ block: "center" }); } };
  }

  function key(detail, few) {
    const { letter, colour, ramp } = report.pictures;
    const lines = [["most", few ? "fullest" : "fullest; the band reaches to the least loaded"], ["mean", "mean"], ["floor", "floor: the least possible"], ["limit", `overload limit, ${detail.limit / 10} %`]].map(([kind, text]) => {
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("viewBox", "0 0 30 10"); svg.setAttribute("class", "stroke"); svg.setAttribute("width", "30"); svg.setAttribute("height", "10");
      draw.add(svg, "path", { d: "M0 5H30", class: few && kind === "most" ? "envelope" : kind });
      return element("span", {}, svg, ` ${text}`);
    });
    const names = few ? detail.names.map((name, i) => element("span", {}, element("span", { class: `chip b${i % 8}` }, letter(i)), ` ${name}`)) : [];
    const parts = [element("p", { class: "key" }, ...lines, ...names)];
    if (!few) parts.push(element("p", { class: "key" }, element("span", {}, "Below, a row for each broker: 0 % ", ramp(), ` to the limit; then above ${detail.limit / 10} %, above 100 %`)));
    return parts;
  }

  // Fills `host` with a run; `tell` is called with the bundle whose story is asked for.
  function show(host, run, detail, top, tell) {
    const pictures = report.pictures, few = detail.lines;
    const load = element("div", { class: "chart" }), heat = element("div", { class: "chart heat" }), signs = element("div", { class: "chart signs" });
    const all = decisionsOf(run, detail), told = list(run, detail, all, tell);
    const figures = ["regret", "overloaded_s", "unloads", "splits", "flaps", "sessions_disturbed"].map(name => {
      const heading = report.data.figures.find(([each]) => each === name)[1];
      return element("span", {}, `${heading} `, element("strong", {}, figure(run.figures[name])));
    });
    const notes = [];
    if (detail.size > 1) notes.push(`A point is the greatest of ${detail.size} steps; of mean and floor it is the mean.`);
    if (detail.allNames.length) notes.push(`${detail.names.length} of ${detail.allNames.length} brokers: the fullest, and the emptiest; brokers.parquet has all.`);
    host.replaceChildren(
      element("h3", {}, report.runName(run)),
      element("p", { class: "key" }, ...figures),
      ...key(detail, few), load);
    pictures.load(load, run, detail, top);
    if (!few) {
      const order = element("div", { class: "choice", role: "group", "aria-label": "Order of brokers" });
      host.append(order, heat);
      const names = detail.names.map((_, i) => i), mean = detail.usage.map(values => values.reduce((sum, value) => sum + (value || 0), 0));
      const orders = { name: names, full: [...names].sort((a, b) => mean[b] - mean[a] || a - b) };
      const rows = [...orders.name];
      pictures.heat(heat, run, detail, rows);
      report.choices(order, [["name", "by name"], ["full", "fullest first"]], "name", chosen => { rows.splice(0, rows.length, ...orders[chosen]); pictures.time.redraw(); });
    }
    if (notes.length) host.append(element("p", { class: "note" }, notes.join(" ")));
    const kinds = [...new Set(all.map(one => one.kind))].map(each => element("span", {}, sign(each), ` ${each}`));
    host.append(element("h4", {}, "Moves and splits"), element("p", { class: "key" }, ...kinds), signs);
    pictures.decisions(signs, run, detail, (kind, from, until) => all.filter(one => one.kind === kind && one.t >= from && one.t < until), told.filter);
    if (all.length) host.append(told.node);
  }

  return { show, decisionsOf, why, sign };
})();
