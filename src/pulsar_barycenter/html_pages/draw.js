"use strict";
// What the pictures of a page are drawn with: SVG, signs, labels that keep apart, and pictures over one span of time.
const draw = (() => {
  const LEFT = 46, AXIS = 22, TOP = 32;
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

  // An axis of values from 0 to `top`; returns where a value stands.
  function vertical(frame, top, label = value => value.toLocaleString("en")) {
    const y = value => frame.bottom - value / top * (frame.bottom - TOP - 8);
    for (const value of steps(0, top, 4)) {
      add(frame.svg, "line", { x1: LEFT, x2: frame.right, y1: y(value), y2: y(value), class: "grid" });
      add(frame.svg, "text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end", class: "soft" }, label(value));
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

  // Push labels apart that would lie on each other, and keep them inside.
  function apart(labels, least, top, bottom) {
    labels.sort((a, b) => a.y - b.y);
    labels.forEach((one, i) => { one.y = Math.max(one.y, i ? labels[i - 1].y + least : top); });
    for (let i = labels.length - 1; i >= 0; i--) labels[i].y = Math.min(labels[i].y, i < labels.length - 1 ? labels[i + 1].y - least : bottom);
  }

  function whenResized(act) {
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; act(); } });
  }

  // Pictures over one span of time, from 0 to `end` seconds, of which `least` are shown at least: one gesture zooms all.
  // `ticks(from, until, most)` are the marked times, `label(t, one)` their words on a picture, `span(from, until)` the
  // words for what is shown, `readout(t, one, place)` those for what is pointed at, `over(frame)` is drawn on each.
  function timeline({ end, least, ticks = steps, label, span, readout, over = () => {} }) {
    let from = 0, until = end, views = [], made = 0, dragged = null;

    // A picture: `paint(frame)` draws into frame.body, which is clipped to the time shown, and frame.svg, which is not.
    // `more` is kept with it. It is forgotten once its host is gone from the page.
    function view(host, name, height, paint, more = {}) {
      host.tabIndex = 0;
      host.setAttribute("role", "group");
      host.setAttribute("aria-label", `${name}. Arrow keys move, plus and minus zoom, 0 shows the whole run.`);
      host.addEventListener("keydown", onKey);
      const one = { host, name, height, paint, number: made++, ...more };
      views.push(one);
      return one;
    }

    function paintView(one) {
      const width = Math.max(280, one.host.clientWidth || 680), wide = width > 640;
      const right = width - (wide ? 156 : 34), height = one.height;
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      add(svg, "title", {}, one.name);
      const bottom = height - AXIS;
      const x = t => LEFT + (t - from) / (until - from) * (right - LEFT);
      const defs = add(svg, "defs");
      add(add(defs, "clipPath", { id: `clip${one.number}` }), "rect", { x: LEFT, y: 0, width: right - LEFT, height: bottom + 1 });
      const hatch = add(defs, "pattern", { id: `hatch${one.number}`, width: 5, height: 5, patternUnits: "userSpaceOnUse" });
      add(hatch, "path", { d: "M0 5L5 0", class: "wait" });
      for (const t of ticks(from, until, wide ? 10 : 4)) {
        add(svg, "line", { x1: x(t), x2: x(t), y1: TOP, y2: bottom, class: "grid" });
        if (x(t) < right - 8) add(svg, "text", { x: x(t), y: height - 6, "text-anchor": "middle", class: "soft" }, label(t, one));
      }
      const body = add(svg, "g", { "clip-path": `url(#clip${one.number})` });
      const frame = { svg, body, x, right, bottom, width, wide, hatch: `url(#hatch${one.number})` };
      one.paint(frame);
      over(frame, one);
      one.cross = add(body, "line", { y1: TOP, y2: bottom, x1: -9, x2: -9, class: "cross" });
      one.select = add(body, "rect", { y: TOP, height: bottom - TOP, x: 0, width: 0, class: "select" });
      one.x = x;
      one.placeOf = event => {
        const box = svg.getBoundingClientRect(), scale = width / box.width;
        return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
      };
      one.timeAt = event => from + Math.min(1, Math.max(0, (one.placeOf(event)[0] - LEFT) / (right - LEFT))) * (until - from);
      svg.addEventListener("pointerdown", event => onDown(event, one, svg));
      svg.addEventListener("pointermove", event => onMove(event, one));
      svg.addEventListener("pointerup", event => onUp(event, one));
      svg.addEventListener("pointercancel", () => { dragged = null; shade(0, 0); });
      svg.addEventListener("dblclick", () => show(0, end));
      one.host.replaceChildren(svg);
    }

    function show(start, stop) {
      const length = Math.min(end, Math.max(least, stop - start));
      from = Math.min(Math.max(0, start), end - length);
      until = from + length;
      redraw();
    }
    const move = part => show(from + part * (until - from), until + part * (until - from));
    function zoom(factor) {
      const middle = (from + until) / 2, half = (until - from) / 2 * factor;
      show(middle - half, middle + half);
    }
    const actions = { in: () => zoom(0.5), out: () => zoom(2), back: () => move(-0.25), on: () => move(0.25), all: () => show(0, end) };
    const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "back", ArrowRight: "on", 0: "all", Escape: "all" };
    function onKey(event) {
      const action = keys[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      actions[action]();
    }
    function onDown(event, one, svg) {
      if (event.button !== 0 || event.target.closest("a")) return;
      svg.setPointerCapture(event.pointerId);
      dragged = one.timeAt(event);
    }
    function onMove(event, one) {
      const t = one.timeAt(event);
      if (dragged !== null) shade(dragged, t);
      views.forEach(other => { if (other.cross) for (const side of ["x1", "x2"]) other.cross.setAttribute(side, other.x(t)); });
      byId("readout").textContent = readout(t, one, one.placeOf(event));
    }
    function onUp(event, one) {
      if (dragged === null) return;
      const start = dragged, stop = one.timeAt(event);
      dragged = null;
      shade(0, 0);
      if (Math.abs(one.x(stop) - one.x(start)) > 5) show(Math.min(start, stop), Math.max(start, stop));
    }
    function shade(start, stop) {
      for (const one of views) {
        if (!one.select) continue;
        const [low, high] = [one.x(Math.min(start, stop)), one.x(Math.max(start, stop))];
        one.select.setAttribute("x", low);
        one.select.setAttribute("width", high - low);
      }
    }
    function redraw() {
      views = views.filter(one => one.host.isConnected);
      views.forEach(paintView);
      const whole = from === 0 && until === end;
      byId("shown").textContent = span(from, until);
      document.querySelectorAll("[data-do=all],[data-do=out]").forEach(button => { button.disabled = whole; });
      document.querySelector("[data-do=back]").disabled = from === 0;
      document.querySelector("[data-do=on]").disabled = until === end;
    }

    byId("time").hidden = false;
    document.querySelectorAll("[data-do]").forEach(button => button.addEventListener("click", () => actions[button.dataset.do]()));
    byId("time").addEventListener("keydown", onKey);
    whenResized(redraw);
    return { view, show, redraw, get from() { return from; }, get until() { return until; } };
  }

  // Paper cannot be unfolded: reasons are open on it; tables that repeat a picture are not.
  function printed(redraw) {
    let opened = [];
    addEventListener("beforeprint", () => {
      opened = [...document.querySelectorAll("details:not([open]):not(.fold)")];
      opened.forEach(fold => { fold.open = true; });
      redraw();
    });
    addEventListener("afterprint", () => { opened.forEach(fold => { fold.open = false; }); redraw(); });
  }

  return { LEFT, AXIS, TOP, counted, byId, add, sign, steps, vertical, curve, apart, whenResized, timeline, printed };
})();
