"use strict";
// Draws the pictures of a demo's report from the JSON in its page.
(() => {
  const { LEFT, AXIS, TOP, counted, byId, add, sign } = draw;
  const data = JSON.parse(byId("data").textContent);
  const range = name => name.slice(name.lastIndexOf("/") + 1);
  const time = draw.timeline({
    end: data.end, least: 0.5, readout: seenAt, over: frame => runs.paintMoments(data, time, frame, number => `#e${number}`),
    label: t => `${t} s`,
    span: (from, until) => {
      const digits = until - from < 20 ? 1 : 0;
      return `${from.toFixed(digits)}–${until.toFixed(digits)} s of ${data.end.toFixed(0)} s`;
    },
  });

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

  const show = (id, name, height, paint, why) => why ? runs.empty(byId(id), why) : time.view(byId(id), name, height, paint);
  show("load", "Load of each broker", 260, frame => runs.paintLoad(data, time, frame),
    data.load.some(points => points.length) ? "" : "No broker sent a load report in this run.");
  show("imbalance", "Imbalance", 170, frame => runs.paintImbalance([[data.imbalance, ""]], time, frame),
    data.imbalance.length ? "" : "No broker reported a message, and without load there is no imbalance.");
  if (data.lanes.length) groups();
  else runs.empty(byId("lanes"), "No bundle was assigned, unloaded or split in this run.");
  if (byId("gaps")) time.view(byId("gaps"), "What clients noticed", 190, frame => runs.paintGaps(data, time, frame));
  document.querySelectorAll("details.fold").forEach(fold => { fold.open = false; });
  draw.printed(time.redraw);
  time.redraw();
})();
