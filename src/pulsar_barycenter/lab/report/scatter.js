// Cost against balance: a point for each strategy with its settings, and the front of those that nothing beats.
report.scatter = choose => {
  const { data, figure, explain } = report, { byId, add, steps, apart } = draw;
  const HEIGHT = 380, LEFT = 56, TOP = 18, BOTTOM = HEIGHT - 44;
  let cost = data.costs[0];

  // Linear, unless few points are far to the right of all others.
  function scale(values, left, right) {
    const most = Math.max(...values, 1), positive = values.filter(v => v > 0).sort((a, b) => a - b);
    const logarithmic = positive.length > 1 && most / positive[Math.floor((positive.length - 1) / 2)] > 12;
    const of = logarithmic ? v => Math.log10(1 + v) : v => v;
    const marks = logarithmic ? [0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8].filter(v => v <= most) : steps(0, most, right - left > 500 ? 8 : 4).filter(v => Number.isInteger(v) || !values.every(Number.isInteger));  // half an unload is none
    return { x: v => left + of(v) / of(most) * (right - left), marks, logarithmic };
  }

  function paint() {
    const [name, heading, , front] = cost, host = byId("scatter");
    const width = Math.max(280, host.clientWidth || 680), wide = width > 640, right = width - 24;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    add(svg, "title", {}, `Regret against ${heading}`);
    const points = data.rows.map((row, i) => ({ i, cost: row.figures[name], regret: row.figures.regret }));
    const singles = data.runs.filter(run => data.runs.filter(other => other.row === run.row).length > 1);
    const { x, marks, logarithmic } = scale([...points.map(p => p.cost), ...singles.map(run => run.figures[name])], LEFT + 12, right - 12);
    const most = Math.max(...points.map(p => p.regret), ...singles.map(run => run.figures.regret), 0.1) * 1.05;
    const y = v => BOTTOM - 8 - v / most * (BOTTOM - 8 - TOP);
    for (const v of marks) {
      add(svg, "line", { x1: x(v), x2: x(v), y1: TOP, y2: BOTTOM, class: "grid" });
      add(svg, "text", { x: x(v), y: BOTTOM + 16, "text-anchor": "middle", class: "soft" }, v.toLocaleString("en"));
    }
    for (const v of steps(0, most, 5)) {
      add(svg, "line", { x1: LEFT, x2: right, y1: y(v), y2: y(v), class: "grid" });
      add(svg, "text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end", class: "soft" }, `${v.toLocaleString("en")} %`);
    }
    add(svg, "text", { x: right, y: HEIGHT - 6, "text-anchor": "end" }, `${heading}${logarithmic ? " (logarithmic)" : ""} →`);
    add(svg, "text", { x: 2, y: 11 }, "regret ↑");
    for (const run of singles) add(svg, "circle", { cx: x(run.figures[name]), cy: y(run.figures.regret), r: 2.2, class: "single" });
    const line = front.map((i, k) => k ? `H${x(points[i].cost).toFixed(1)}V${y(points[i].regret).toFixed(1)}` : `M${x(points[i].cost).toFixed(1)} ${TOP}V${y(points[i].regret).toFixed(1)}`);
    add(svg, "path", { d: `${line.join("")}H${right}`, class: "frontier" });
    const named = new Set(front), labels = [];
    for (const p of [...points].reverse()) {
      const row = data.rows[p.i], at = [x(p.cost), y(p.regret)];
      const dot = add(svg, "g", { role: "button", tabindex: 0, "aria-label": `${p.i + 1} ${row.title}: regret ${figure(p.regret)} %, ${heading} ${figure(p.cost)}` });
      add(dot, "circle", { cx: at[0], cy: at[1], r: 12, class: "hit" });
      add(dot, "circle", { cx: at[0], cy: at[1], r: named.has(p.i) ? 6 : 4, class: `dot${named.has(p.i) ? " best" : ""}` });
      explain(dot, `${p.i + 1} ${row.title}\nregret ${figure(p.regret)} %, ${heading} ${figure(p.cost)}${named.has(p.i) ? "\non the front: none has less of both" : ""}${data.runs.some(run => run.row === p.i) ? "" : "\nthis page has no pictures of its runs"}`);
      const act = () => choose(p.i);
      dot.addEventListener("click", act);
      dot.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } });
      labels.push({ p, at });
    }
    place(svg, labels, named, wide, right);
    host.replaceChildren(svg);
    document.querySelectorAll(".frontline").forEach(one => { one.hidden = one.dataset.cost !== name; });
  }

  // Names stand beside their points where nothing else does: those on the front first, the others by number.
  function place(svg, labels, named, wide, right) {
    const taken = labels.map(({ at }) => [at[0] - 6, at[1] - 6, at[0] + 6, at[1] + 6]);
    labels.sort((a, b) => named.has(b.p.i) - named.has(a.p.i) || a.p.i - b.p.i);
    for (const { p, at } of labels) {
      const label = data.rows[p.i].label, full = named.has(p.i) && wide;
      const texts = full ? [`${p.i + 1} ${report.cut(label, 44)}`, `${p.i + 1}`] : [`${p.i + 1}`];
      search: for (const text of texts) {
        const long = text.length * 7.5 + 4;
        for (const [dx, dy] of [[9, -7], [9, 18], [-9 - long, -7], [-9 - long, 18], [10, 4], [-10 - long, 4], [-long / 2, -12], [-long / 2, 22]]) {
          const box = [at[0] + dx, at[1] + dy - 11, at[0] + dx + long, at[1] + dy + 3];
          if (box[0] < LEFT || box[2] > right + 22 || box[1] < 14 || box[3] > BOTTOM) continue;
          if (taken.some(o => box[0] < o[2] && o[0] < box[2] && box[1] < o[3] && o[1] < box[3])) continue;
          taken.push(box);
          add(svg, "text", { x: at[0] + dx, y: at[1] + dy, class: named.has(p.i) ? "halo" : "soft clear" }, text);
          break search;
        }
      }
    }
  }

  report.choices(byId("costs"), data.costs.map(each => [each, each[1], each[2]]), cost, chosen => { cost = chosen; paint(); });
  draw.whenResized(paint);
  addEventListener("beforeprint", paint);
  addEventListener("afterprint", paint);
  paint();
};
