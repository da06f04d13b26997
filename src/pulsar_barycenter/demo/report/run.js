"use strict";
// Pictures of one run of a demo, on a time line of `draw`; `run` is what `ReportData.pictures` made.
const runs = (() => {
  const { LEFT, TOP, add, vertical, curve, apart } = draw;
  const lastShown = (points, time) => points.filter(p => p[0] >= time.from && p[0] <= time.until).pop();

  // Instead of a picture of which there is nothing: why.
  function empty(host, why) {
    const note = document.createElement("p");
    note.className = "empty";
    note.textContent = why;
    host.replaceChildren(note);
  }

  // Starts and ends of brokers, across a picture. Those at one place share a label; labels stand in two rows.
  function paintMoments(run, time, frame, href) {
    const places = [];
    for (const [what, t, number, letter] of run.moments) {
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
      add(add(frame.svg, "a", { href: href(number), tabindex: -1 }), "text", { x: start, y: 11 + 14 * row }, text);
    }
  }

  function paintLoad(run, time, frame, highest = Math.max(1, ...run.load.flat().map(p => p[1]))) {
    const y = vertical(frame, highest);
    const labels = [];
    run.load.forEach((points, i) => {
      add(frame.body, "path", { d: curve(points, frame.x, y, 1), class: `curve b${i % 8}${i >= 8 ? " second" : ""}` });
      const last = lastShown(points, time);
      if (!last) return;
      const { letter, name } = run.brokers[i], ended = frame.x(last[0]) < frame.right - 40;
      labels.push({ i, y: y(last[1]), x: ended ? frame.x(last[0]) : frame.right, text: frame.wide && !ended ? `${letter} ${name.length > 17 ? `…${name.slice(-16)}` : name}` : letter });
    });
    apart(labels.filter(one => one.x === frame.right), 15, TOP + 4, frame.bottom);
    for (const one of labels) add(frame.svg, "text", { x: one.x + 5, y: one.y + 4, class: `halo named b${one.i % 8}` }, one.text);
  }

  // `lines` are pairs of points and the class of their line.
  function paintImbalance(lines, time, frame) {
    const y = vertical(frame, Math.max(1.5, ...lines.flatMap(([points]) => points.map(p => p[1]))));
    add(frame.svg, "line", { x1: LEFT, x2: frame.right, y1: y(1), y2: y(1), class: "even" });
    const labels = [{ y: y(1), text: "even" }];
    for (const [points, kind] of lines) {
      add(frame.body, "path", { d: curve(points, frame.x, y, 1), class: `curve ${kind}` });
      const last = lastShown(points, time);
      if (last) labels.push({ y: y(last[1]), text: last[1].toFixed(2), kind });
    }
    apart(labels, 15, TOP, frame.bottom);
    for (const one of labels) add(frame.svg, "text", { x: frame.right + 5, y: one.y + 4, class: `named ${one.kind || ""}` }, one.text);
  }

  // A mark for each interruption, from its begin to its end and as high as it lasted; the longest have their seconds.
  function paintGaps(run, time, frame, longest = Math.max(0.5, ...run.gaps.map(([from, until]) => until - from))) {
    const y = vertical(frame, longest * 1.3, value => `${value} s`);
    const taken = [];
    run.gaps.forEach(([from, until, topics], i) => {
      if (until < time.from || from > time.until) return;
      const left = frame.x(from), width = Math.max(3, frame.x(until) - left), top = y(until - from);
      const bar = add(frame.body, "rect", { x: left, y: top, width, height: frame.bottom - top, class: "gap" });
      const said = `${(until - from).toFixed(2)} s, ${draw.counted(topics, "topic")}`;
      add(bar, "title", {}, `${from.toFixed(1)} s: ${said}`);
      const long = said.length * 6.4, start = Math.max(LEFT, Math.min(left, frame.right - long));
      if (i >= (frame.wide ? 6 : 2) || left < LEFT || taken.some(([a, b, at]) => start < b + 8 && a < start + long + 8 && Math.abs(at - top) < 16)) return;
      taken.push([start, start + long, top]);
      add(frame.svg, "text", { x: start, y: top - 4, class: "clear" }, said);
    });
  }

  return { empty, paintMoments, paintLoad, paintImbalance, paintGaps };
})();
