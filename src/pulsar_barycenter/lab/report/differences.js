// Two runs side by side: which settings differ, which figures, and where their balance parts.
report.differences = (() => {
  const { data, element, figure, moment, percent } = report, { LEFT, TOP, add, vertical } = draw;
  const APART = 50;

  const cells = (a, b, better) => [element("dd", { class: better < 0 ? "better" : "" }, a), element("dd", { class: better > 0 ? "better" : "" }, b)];
  const line = (title, a, b, better = 0) => element("div", {}, element("dt", {}, title), ...cells(a, b, better));

  function show(host, a, b, one, other) {
    if (!b) return host.replaceChildren();
    const keysA = { ...data.base, ...data.rows[a.row].keys }, keysB = { ...data.base, ...data.rows[b.row].keys };
    const keys = [...new Set([...Object.keys(keysA), ...Object.keys(keysB)])].filter(key => keysA[key] !== keysB[key]).sort();
    const settings = keys.map(key => line(key, keysA[key] || "by default", keysB[key] || "by default"));
    if (a.seed !== b.seed) settings.push(line("seed", String(a.seed), String(b.seed)));
    if (String(a.period) !== String(b.period)) settings.push(line("period", `from ${moment(a, 0)}`, `from ${moment(b, 0)}`));
    const figures = data.figures.filter(([name]) => a.figures[name] !== b.figures[name])
      .map(([name, heading]) => line(heading, figure(a.figures[name]), figure(b.figures[name]), a.figures[name] - b.figures[name]));
    const chart = element("div", { class: "chart" });
    host.replaceChildren(
      element("h3", {}, "What differs"),
      element("dl", { class: "settings differ" }, element("div", {}, element("dt", {}, "run"), ...cells(report.runName(a), report.runName(b), 0)), ...settings, ...figures),
      element("p", {}, words(a, b, one, other)),
      element("p", { class: "note" }, "The fullest broker of each; coloured where they are more than 5 % of a broker apart."), chart);
    const named = run => a.row === b.row ? report.runName(run).split(", ").slice(1).join(", ") : `${run.row + 1} ${data.rows[run.row].label}`;
    const short = run => `${run.row + 1}`;
    const told = t => `${moment(a, t)}: fullest of ${short(a)} ${percent(report.pictures.at(one.max, one.step, t))}, of ${short(b)} ${percent(report.pictures.at(other.max, other.step, t))}`;
    report.pictures.time.view(chart, "The fullest broker of both runs", 210, frame => {
      const top = report.pictures.topOf([one, other]), y = vertical(frame, top, value => `${value} %`), x = frame.x;
      for (let k = 0; k < Math.min(one.max.length, other.max.length); k++) {
        const low = Math.min(one.max[k], other.max[k]), high = Math.max(one.max[k], other.max[k]);
        if (high - low > APART) add(frame.body, "rect", { x: x(k * one.step), width: Math.max(1, x((k + 1) * one.step) - x(k * one.step)), y: y(high / 10), height: y(low / 10) - y(high / 10), class: "parted" });
      }
      [[a, one, "b1"], [b, other, "b0 second"]].forEach(([run, detail, kind]) => add(frame.body, "path", { d: report.pictures.path(detail.max, detail.step, x, y), class: `curve ${kind}` }));
      const last = detail => detail.max[Math.max(0, Math.min(detail.max.length - 1, Math.ceil(report.pictures.time.until / detail.step) - 1))];
      const labels = [{ y: y(last(one) / 10), text: a, kind: "b1" }, { y: y(last(other) / 10), text: b, kind: "b0" }];
      draw.apart(labels, 15, TOP, frame.bottom);
      for (const label of labels) add(frame.svg, "text", { x: frame.right + 5, y: label.y + 4, class: `halo named ${label.kind}` }, frame.wide ? report.cut(named(label.text), 17) : String(label.text.row + 1));
    }, { run: a, detail: null, told });
    return undefined;
  }

  // Says when the fullest brokers are first apart for three points, and where they are furthest.
  function words(a, b, one, other) {
    const apart = one.max.slice(0, other.max.length).map((value, k) => value - other.max[k]);
    const first = apart.findIndex((_, k) => k + 2 < apart.length && [0, 1, 2].every(i => Math.abs(apart[k + i]) > APART));
    const far = apart.reduce((best, value, k) => Math.abs(value) > Math.abs(apart[best]) ? k : best, 0);
    if (first < 0) return "The fullest brokers of the two are never more than 5 % of a broker apart for long.";
    const fuller = k => apart[k] > 0 ? a.row + 1 : b.row + 1;
    return `Balance parts at ${moment(a, first * one.step)}, when the fullest broker of ${fuller(first)} is ${percent(Math.abs(apart[first]))} of a broker fuller; they are furthest apart at ${moment(a, far * one.step)}, with ${percent(Math.abs(apart[far]))} more in ${fuller(far)}.`;
  }

  return { show };
})();
