// A bundle's own story: who had it when, what it carried, and each of its moves and splits with the reason.
report.story = (() => {
  const { element, moment, range, figure } = report, { LEFT, AXIS, TOP, add, sign, vertical } = draw;

  // Its owners as [from, until, broker]; before the first decision on it, that of its first move's source.
  function tenures(run, detail, bundle, all) {
    const born = all.find(one => one.kind === "split" && one.parts.includes(bundle));
    const died = all.find(one => one.kind === "split" && one.bundle === bundle);
    const moves = all.filter(one => one.kind !== "split" && one.bundle === bundle);
    const end = died ? died.t : run.end, found = [];
    let from = born ? born.t : 0;
    let owner = born ? born.source : detail.first[detail.bundles.indexOf(bundle)] || (moves[0] && moves[0].source) || (died && died.source);
    for (const move of moves) {
      if (move.t > from) found.push([from, move.t, owner]);
      [from, owner] = [move.t, move.destination];
    }
    found.push([from, end, owner]);
    return { spans: found, moves, born, died };
  }

  function show(host, run, detail, bundle, ask) {
    const all = report.panel.decisionsOf(run, detail), place = detail.bundles.indexOf(bundle);
    const heading = element("h3", {}, report.runName(run));
    if (place < 0) return host.replaceChildren(heading, element("p", {}, `${bundle} neither moved nor was split in this run${detail.moves.length < detail.moved ? ", or is not among the moves that this page has" : ""}.`));
    const { spans, moves, born, died } = tenures(run, detail, bundle, all);
    const colourOf = owner => Math.max(0, (detail.allNames.length ? detail.allNames : detail.names).indexOf(owner)) % 8;
    const chart = element("div", { class: "chart" });
    const link = name => { const button = element("button", { type: "button", class: "name" }, range(name)); button.addEventListener("click", () => ask(name)); return button; };
    const family = [];
    if (born) family.push(element("p", {}, `Split off at ${moment(run, born.t)} from `, link(born.bundle), `, on ${born.source}.`));
    if (died) family.push(element("p", {}, `Divided at ${moment(run, died.t)} on ${died.source} into `, ...died.parts.flatMap((part, k) => k ? [", ", link(part)] : [link(part)]), `: ${died.short || died.why}`));
    const items = moves.map(one => element("li", {}, `${moment(run, one.t)} `, report.panel.sign(one.kind), ` ${one.kind}: ${one.source} → ${one.destination}, ${one.cost}`, one.wrong ? element("strong", { class: "back" }, " (wrong)") : null, element("br"), ...report.panel.why(one)));
    const times = element("ul", {}, ...spans.map(([from, until, owner]) => element("li", {}, `${moment(run, from)} – ${moment(run, until)}: ${owner || "nobody"}`)));
    host.replaceChildren(heading, element("p", {}, element("strong", {}, bundle), ` · ${draw.counted(moves.length, "move")}`),
      chart, ...family, items.length ? element("ol", { class: "tale" }, ...items) : element("p", {}, "It did not move."),
      element("details", {}, element("summary", {}, "Where it was, in words"), times));
    const rates = detail.rates[place] || [], points = rates.map((rate, k) => [detail.ratedAt[k], rate]).filter(([, rate]) => rate !== null);
    const most = Math.max(1, ...points.map(([, rate]) => rate)) * 1.05;
    if (!points.length) chart.after(element("p", { class: "note" }, "What it carried is not in this page."));
    const told = t => {
      const span = spans.find(([from, until]) => t >= from && t < until), near = points.reduce((best, p) => !best || Math.abs(p[0] - t) < Math.abs(best[0] - t) ? p : best, null);
      return `${moment(run, t)}: ${span ? `on ${span[2] || "nobody"}` : "there is no such bundle"}${near && span ? `, about ${figure(near[1])} msg/s` : ""}`;
    };
    report.pictures.time.view(chart, `Load and owners of ${range(bundle)}`, 220, frame => {
      const lane = frame.bottom - 24, upper = { ...frame, bottom: lane - 12 };
      const y = vertical(upper, most, value => value >= 1e6 ? `${value / 1e6}M` : value >= 1e3 ? `${value / 1e3}k` : String(value));
      add(frame.svg, "text", { x: 2, y: 12, class: "soft" }, "msg/s in + out");
      add(frame.body, "path", { d: points.map(([t, rate], k) => `${k ? "L" : "M"}${frame.x(t).toFixed(1)} ${y(rate).toFixed(1)}`).join(""), class: "curve" });
      for (const [from, until, owner] of spans) {
        const left = Math.max(frame.x(from), LEFT), width = Math.min(frame.x(until), frame.right) - left, number = colourOf(owner);
        if (width <= 0) continue;
        report.explain(add(frame.body, "rect", { x: left, y: lane, width: Math.max(1, width), height: 20, class: `span b${number}` }), `${owner || "nobody"}, ${moment(run, from)} – ${moment(run, until)}`);
        const name = (owner || "nobody").replace(/:\d+$/, ""), room = Math.floor((width - 6) / 7.4);
        if (room >= 6) add(frame.body, "text", { x: left + width / 2, y: lane + 14.5, "text-anchor": "middle", class: "in" }, name.length <= room ? name : `…${name.slice(1 - room)}`);
      }
      for (const one of [...moves, ...(died ? [died] : []), ...(born ? [born] : [])]) {
        if (one.t < report.pictures.time.from || one.t > report.pictures.time.until) continue;
        const mark = add(frame.svg, "g", { transform: `translate(${frame.x(one.t).toFixed(1)} ${lane - 2})` });
        sign(mark, report.pictures.SIGN[one.kind]);
        report.explain(mark, `${moment(run, one.t)} ${one.kind}: ${one.words}`);
      }
    }, { run, detail: null, told });
    return undefined;
  }

  return { show };
})();
