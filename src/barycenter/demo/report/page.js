"use strict";
// Draws the pictures of a report from the JSON in its page. All share one span of time, so one gesture zooms all.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const LEAST_S = 0.5, LEFT = 46, AXIS = 22, TOP = 32;
  let from = 0, until = data.end;
  const views = [];
  const range = name => name.slice(name.lastIndexOf("/") + 1);
  const counted = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;
  const byId = id => document.getElementById(id);

  function add(parent, tag, attributes = {}, text = "") {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text) node.textContent = text;
    parent.append(node);
    return node;
  }

  // Shapes, not colours, say what happened. Each is drawn round 0, 0.
  const SIGNS = {
    "assigned": ["M0 5L-5 -4H5Z", "mark"], "unloaded": ["M5 0L-4 -5V5Z", "mark full"], "split": ["M0 -6L6 0L0 6L-6 0Z", "mark"],
    "failed over": ["M-2 -5H2V-2H5V2H2V5H-2V2H-5V-2H-2Z", "mark full"], "broker started": ["M0 -5V5M-5 0H5", "mark"],
    "broker killed": ["M-4 -4L4 4M4 -4L-4 4", "mark"], "back": ["M4 5H-1A4 4 0 0 1 -1 -3H4M1 -6L4 -3L1 0", "mark"],
  };
  function sign(parent, what) {
    const [path, kind] = SIGNS[what] || ["M-4 -4H4V4H-4Z", "mark"];
    return add(parent, "path", { d: path, class: kind });
  }
  document.querySelectorAll("svg.sign").forEach(svg => sign(svg, svg.dataset.sign));

  function steps(low, high, most) {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(k => k * power).find(k => k >= rough);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  // A picture: `paint(frame)` draws into frame.body, which is clipped to the time shown, and frame.svg, which is not.
  function view(host, label, height, paint) {
    host.tabIndex = 0;
    host.setAttribute("role", "group");
    host.setAttribute("aria-label", `${label}. Arrow keys move, plus and minus zoom, 0 shows the whole run.`);
    host.addEventListener("keydown", onKey);
    views.push({ host, label, height, paint });
  }

  function draw(one, index) {
    const width = Math.max(280, one.host.clientWidth || 680), wide = width > 640;
    const right = width - (wide ? 156 : 34), height = one.height;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    add(svg, "title", {}, one.label);
    const bottom = height - AXIS;
    const x = t => LEFT + (t - from) / (until - from) * (right - LEFT);
    const defs = add(svg, "defs");
    add(add(defs, "clipPath", { id: `clip${index}` }), "rect", { x: LEFT, y: 0, width: right - LEFT, height: bottom + 1 });
    const hatch = add(defs, "pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse" });
    add(hatch, "path", { d: "M0 5L5 0", class: "wait" });
    for (const t of steps(from, until, wide ? 10 : 4)) {
      add(svg, "line", { x1: x(t), x2: x(t), y1: TOP, y2: bottom, class: "grid" });
      if (x(t) < right - 8) add(svg, "text", { x: x(t), y: height - 6, "text-anchor": "middle", class: "soft" }, `${t} s`);
    }
    const body = add(svg, "g", { "clip-path": `url(#clip${index})` });
    one.paint({ svg, body, x, right, bottom, width, wide });
    paintMoments({ svg, body, x, right, bottom });
    one.cross = add(body, "line", { y1: TOP, y2: bottom, x1: -9, x2: -9, class: "cross" });
    one.select = add(body, "rect", { y: TOP, height: bottom - TOP, x: 0, width: 0, class: "select" });
    one.x = x;
    one.timeAt = event => {
      const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) * width / box.width;
      return from + Math.min(1, Math.max(0, (at - LEFT) / (right - LEFT))) * (until - from);
    };
    svg.addEventListener("pointerdown", event => onDown(event, one, svg));
    svg.addEventListener("pointermove", event => onMove(event, one));
    svg.addEventListener("pointerup", event => onUp(event, one));
    svg.addEventListener("pointercancel", () => { dragged = null; shade(0, 0); });
    svg.addEventListener("dblclick", () => show(0, data.end));
    one.host.replaceChildren(svg);
  }

  // Starts and ends of brokers, across every picture. Those at one place share a label; labels stand in two rows.
  function paintMoments(frame) {
    const places = [];
    for (const [what, t, number, letter] of data.moments) {
      if (t < from || t > until) continue;
      const at = frame.x(t), last = places[places.length - 1];
      add(frame.body, "line", { x1: at, x2: at, y1: TOP - 4, y2: frame.bottom, class: "moment" });
      if (last && last.what === what && at - last.at < 12) last.letters.push(letter);
      else places.push({ what, at, number, letters: [letter] });
    }
    const free = [-Infinity, -Infinity];
    for (const { what, at, number, letters } of places) {
      const shown = letters.length > 3 ? `${letters[0]}–${letters[letters.length - 1]}` : letters.join(", ");
      const text = `${shown} ${what.replace("broker ", "")}`, long = text.length * 7.2;
      const start = Math.min(at, frame.right + 30 - long), row = free.findIndex(end => end < start);
      if (row < 0) continue;
      free[row] = start + long + 4;
      add(add(frame.svg, "a", { href: `#e${number}`, tabindex: -1 }), "text", { x: start, y: 11 + 14 * row }, text);
    }
  }

  function vertical(frame, top, unit) {
    const y = value => frame.bottom - value / top * (frame.bottom - TOP - 8);
    for (const value of steps(0, top, 4)) {
      add(frame.svg, "line", { x1: LEFT, x2: frame.right, y1: y(value), y2: y(value), class: "grid" });
      add(frame.svg, "text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end", class: "soft" }, value.toLocaleString("en"));
    }
    return y;
  }

  // A line is broken where nothing was seen for longer than usual.
  function curve(points, x, y, column) {
    const usual = points.length > 1 ? (points[points.length - 1][0] - points[0][0]) / (points.length - 1) : 1;
    return points.map((p, i) => {
      const far = i === 0 || p[0] - points[i - 1][0] > Math.max(4, 4 * usual);
      return `${far ? "M" : "L"}${x(p[0]).toFixed(1)} ${y(p[column]).toFixed(1)}`;
    }).join("");
  }
  const lastShown = points => points.filter(p => p[0] >= from && p[0] <= until).pop();

  function paintLoad(frame) {
    const highest = Math.max(1, ...data.load.flat().map(p => p[1]));
    const y = vertical(frame, highest);
    const labels = [];
    data.load.forEach((points, i) => {
      add(frame.body, "path", { d: curve(points, frame.x, y, 1), class: `curve b${i % 8}${i >= 8 ? " second" : ""}` });
      const last = lastShown(points);
      if (!last) return;
      const { letter, name } = data.brokers[i], ended = frame.x(last[0]) < frame.right - 40;
      labels.push({ i, y: y(last[1]), x: ended ? frame.x(last[0]) : frame.right, text: frame.wide && !ended ? `${letter} ${name.length > 17 ? `…${name.slice(-16)}` : name}` : letter });
    });
    apart(labels.filter(one => one.x === frame.right), 15, TOP + 4, frame.bottom);
    for (const one of labels) add(frame.svg, "text", { x: one.x + 5, y: one.y + 4, class: `halo named b${one.i % 8}` }, one.text);
  }

  // Push labels apart that would lie on each other, and keep them inside.
  function apart(labels, least, top, bottom) {
    labels.sort((a, b) => a.y - b.y);
    labels.forEach((one, i) => { one.y = Math.max(one.y, i ? labels[i - 1].y + least : top); });
    for (let i = labels.length - 1; i >= 0; i--) labels[i].y = Math.min(labels[i].y, i < labels.length - 1 ? labels[i + 1].y - least : bottom);
  }

  function paintImbalance(frame) {
    const y = vertical(frame, Math.max(1.5, ...data.imbalance.map(p => p[1])));
    add(frame.svg, "line", { x1: LEFT, x2: frame.right, y1: y(1), y2: y(1), class: "even" });
    add(frame.body, "path", { d: curve(data.imbalance, frame.x, y, 1), class: "curve" });
    const last = lastShown(data.imbalance), labels = [{ y: y(1), text: "even" }];
    if (last) labels.push({ y: y(last[1]), text: last[1].toFixed(2) });
    apart(labels, 15, TOP, frame.bottom);
    for (const one of labels) add(frame.svg, "text", { x: frame.right + 5, y: one.y + 4 }, one.text);
  }

  const LANE = 50;
  function paintLanes(lanes, frame) {
    lanes.forEach((lane, row) => {
      const top = TOP + 6 + row * LANE, bar = top + 16;
      add(frame.svg, "text", { x: LEFT, y: top + 11, class: "soft clear" }, range(lane.name));
      for (const [owner, start, end] of lane.spans) {
        const left = Math.max(frame.x(start), LEFT), width = Math.min(frame.x(end), frame.right) - left;
        if (width <= 0) continue;
        const rect = add(frame.body, "rect", { x: left, y: bar, width: Math.max(1, width), height: 16, class: owner < 0 ? "none" : `span b${owner % 8}` });
        add(rect, "title", {}, `${owner < 0 ? "no owner" : data.brokers[owner].name}, ${start}–${end} s`);
        if (owner >= 0 && width > 26) add(frame.body, "text", { x: left + width / 2, y: bar + 12.5, "text-anchor": "middle", class: "in" }, data.brokers[owner].letter);
      }
      for (const [what, t, number, back] of lane.marks) {
        if (t < from || t > until) continue;
        const link = add(frame.svg, "a", { href: `#e${number}`, tabindex: -1, "aria-label": `${what} at ${t} s` });
        const place = what === "unloaded" ? bar : what === "split" ? bar + 8 : bar + 16;
        add(sign(add(link, "g", { transform: `translate(${frame.x(t).toFixed(1)} ${place})` }), what), "title", {}, `${what} at ${t} s`);
        if (back) add(sign(add(link, "g", { transform: `translate(${frame.x(t).toFixed(1)} ${bar + 26})` }), "back"), "title", {}, "moved back or again");
      }
    });
  }

  function paintGaps(frame) {
    data.gaps.forEach((topic, row) => {
      const top = TOP + 4 + row * 28;
      const room = Math.floor((frame.right - LEFT) / 7) - 12;
      const name = topic.name.length > room ? `${topic.name.slice(0, room - 1)}…` : topic.name;
      add(frame.svg, "text", { x: LEFT, y: top + 11, class: "soft clear" }, `${name}: ${topic.longest.toFixed(2)} s`);
      add(frame.svg, "line", { x1: LEFT, x2: frame.right, y1: top + 21, y2: top + 21, class: "grid" });
      for (const [start, end] of topic.spans)
        add(frame.body, "rect", { x: frame.x(start), y: top + 16, width: Math.max(2, frame.x(end) - frame.x(start)), height: 10, class: "gap" });
    });
  }

  // What is done with the span of time that is shown.
  function show(start, end) {
    const length = Math.min(data.end, Math.max(LEAST_S, end - start));
    from = Math.min(Math.max(0, start), data.end - length);
    until = from + length;
    redraw();
  }
  const move = part => show(from + part * (until - from), until + part * (until - from));
  function zoom(factor) {
    const middle = (from + until) / 2, half = (until - from) / 2 * factor;
    show(middle - half, middle + half);
  }
  const actions = { in: () => zoom(0.5), out: () => zoom(2), back: () => move(-0.25), on: () => move(0.25), all: () => show(0, data.end) };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "back", ArrowRight: "on", 0: "all", Escape: "all" };
  function onKey(event) {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[action]();
  }
  let dragged = null;
  function onDown(event, one, svg) {
    if (event.button !== 0 || event.target.closest("a")) return;
    svg.setPointerCapture(event.pointerId);
    dragged = one.timeAt(event);
  }
  function onMove(event, one) {
    const t = one.timeAt(event);
    if (dragged !== null) shade(dragged, t);
    views.forEach(other => { if (other.cross) for (const end of ["x1", "x2"]) other.cross.setAttribute(end, other.x(t)); });
    const seen = data.load.flatMap((points, i) => {
      const p = points.filter(q => Math.abs(q[0] - t) <= 2).sort((a, b) => Math.abs(a[0] - t) - Math.abs(b[0] - t))[0];
      return p ? [`${data.brokers[i].letter} ${p[1].toFixed(0)} msg/s (${counted(p[2], "bundle")}, ${p[3].toFixed(0)} % used)`] : [];
    });
    byId("readout").textContent = `At ${t.toFixed(1)} s: ${seen.join(" · ") || "nothing seen"}`;
  }
  function onUp(event, one) {
    if (dragged === null) return;
    const start = dragged, end = one.timeAt(event);
    dragged = null;
    shade(0, 0);
    if (Math.abs(one.x(end) - one.x(start)) > 5) show(Math.min(start, end), Math.max(start, end));
  }
  function shade(start, end) {
    for (const one of views) {
      if (!one.select) continue;
      const [low, high] = [one.x(Math.min(start, end)), one.x(Math.max(start, end))];
      one.select.setAttribute("x", low);
      one.select.setAttribute("width", high - low);
    }
  }
  function redraw() {
    views.forEach(draw);
    const whole = from === 0 && until === data.end, digits = until - from < 20 ? 1 : 0;
    byId("shown").textContent = `${from.toFixed(digits)}–${until.toFixed(digits)} s of ${data.end.toFixed(0)} s`;
    document.querySelectorAll("[data-do=all],[data-do=out]").forEach(button => { button.disabled = whole; });
    document.querySelector("[data-do=back]").disabled = from === 0;
    document.querySelector("[data-do=on]").disabled = until === data.end;
  }

  // Rows of bundles stand in groups, one for each bundle that they were split from; many begin folded.
  const MANY = 24;
  function groups() {
    const roots = [...new Set(data.lanes.map(lane => lane.root))];
    const parted = roots.length < data.lanes.length || data.lanes.length > MANY;
    for (const root of parted ? roots : [null]) {
      const lanes = data.lanes.filter(lane => root === null || lane.root === root);
      let host = byId("lanes");
      if (root !== null) {
        const fold = document.createElement("details"), head = document.createElement("summary");
        const moved = lanes.some(lane => lane.spans.length > 1);
        const went = lanes.flatMap(lane => lane.marks).filter(mark => mark[3]).length;
        fold.open = data.lanes.length <= MANY || moved;
        head.textContent = `${range(root)}: ${counted(lanes.length, "row")}${went ? `, moved back or again ${counted(went, "time")}` : ""}`;
        fold.append(head);
        fold.addEventListener("toggle", redraw);
        host.append(fold);
        host = fold;
      }
      const chart = document.createElement("div");
      chart.className = "chart";
      host.append(chart);
      view(chart, "Owners of bundles", TOP + 6 + lanes.length * LANE + AXIS, frame => paintLanes(lanes, frame));
    }
  }

  view(byId("load"), "Load of each broker", 260, paintLoad);
  view(byId("imbalance"), "Imbalance", 170, paintImbalance);
  if (data.lanes.length) groups();
  if (data.gaps.length) view(byId("gaps"), "What clients noticed", TOP + 4 + data.gaps.length * 28 + AXIS, paintGaps);
  document.querySelectorAll("details.fold").forEach(fold => { fold.open = false; });
  byId("time").hidden = false;
  document.querySelectorAll("[data-do]").forEach(button => button.addEventListener("click", () => actions[button.dataset.do]()));
  byId("time").addEventListener("keydown", onKey);
  // Paper cannot be unfolded: reasons are open on it; tables that repeat a picture are not.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open]):not(.fold)")];
    opened.forEach(fold => { fold.open = true; });
    redraw();
  });
  addEventListener("afterprint", () => { opened.forEach(fold => { fold.open = false; }); redraw(); });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
  redraw();
})();
