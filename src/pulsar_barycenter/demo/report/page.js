"use strict";
// Draws the pictures of a demo's report from the JSON in its page.
(() => {
  const { LEFT, AXIS, TOP, counted, byId, add, sign, vertical, curve, apart } = draw;
  const data = JSON.parse(byId("data").textContent);
  const range = name => name.slice(name.lastIndexOf("/") + 1);
  const time = draw.timeline({
    end: data.end, least: 0.5, readout: seenAt, over: paintMoments,
    label: t => `${t} s`,
    span: (from, until) => {
      const digits = until - from < 20 ? 1 : 0;
      return `${from.toFixed(digits)}–${until.toFixed(digits)} s of ${data.end.toFixed(0)} s`;
    },
  });

  // Starts and ends of brokers, across every picture. Those at one place share a label; labels stand in two rows.
  function paintMoments(frame) {
    const places = [];
    for (const [what, t, number, letter] of data.moments) {
      if (t < time.from || t > time.until) continue;
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

  const lastShown = points => points.filter(p => p[0] >= time.from && p[0] <= time.until).pop();

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
        const rect = add(frame.body, "rect", { x: left, y: bar, width: Math.max(1, width), height: 16, ...(owner < 0 ? { fill: frame.hatch } : {}), class: owner < 0 ? "none" : `span b${owner % 8}` });
        add(rect, "title", {}, `${owner < 0 ? "no owner" : data.brokers[owner].name}, ${start}–${end} s`);
        if (owner >= 0 && width > 26) add(frame.body, "text", { x: left + width / 2, y: bar + 12.5, "text-anchor": "middle", class: "in" }, data.brokers[owner].letter);
      }
      for (const [what, t, number, back] of lane.marks) {
        if (t < time.from || t > time.until) continue;
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

  function seenAt(t) {
    const seen = data.load.flatMap((points, i) => {
      const p = points.filter(q => Math.abs(q[0] - t) <= 2).sort((a, b) => Math.abs(a[0] - t) - Math.abs(b[0] - t))[0];
      return p ? [`${data.brokers[i].letter} ${p[1].toFixed(0)} msg/s (${counted(p[2], "bundle")}, ${p[3].toFixed(0)} % used)`] : [];
    });
    return `At ${t.toFixed(1)} s: ${seen.join(" · ") || "nothing seen"}`;
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
        fold.addEventListener("toggle", time.redraw);
        host.append(fold);
        host = fold;
      }
      const chart = document.createElement("div");
      chart.className = "chart";
      host.append(chart);
      time.view(chart, "Owners of bundles", TOP + 6 + lanes.length * LANE + AXIS, frame => paintLanes(lanes, frame));
    }
  }

  time.view(byId("load"), "Load of each broker", 260, paintLoad);
  time.view(byId("imbalance"), "Imbalance", 170, paintImbalance);
  if (data.lanes.length) groups();
  if (data.gaps.length) time.view(byId("gaps"), "What clients noticed", TOP + 4 + data.gaps.length * 28 + AXIS, paintGaps);
  document.querySelectorAll("details.fold").forEach(fold => { fold.open = false; });
  draw.printed(time.redraw);
  time.redraw();
})();
