// The pictures over time: load of a run's brokers as lines or as a heat map, its decisions, lines of several runs.
report.pictures = (() => {
  const { data, percent, moment, explain } = report, { LEFT, AXIS, TOP, add, sign, vertical, apart, counted } = draw;
  const SIGN = { "unloaded": "unloaded", "failed over": "failed over", "part placed": "assigned", "split": "split" };
  const end = Math.max(...data.runs.map(run => run.end));
  const point = Math.min(...data.runs.map(run => run.point));
  const time = draw.timeline({
    end, least: Math.min(end, 4 * point), ticks: report.ticks,
    label: (t, one) => report.tick(one.run, t),
    span: (from, until) => `${report.stamp(data.runs[0], from)} – ${report.stamp(data.runs[0], until)} UTC, ${report.span(until - from)} of ${report.span(end)}`,
    readout: (t, one, place) => one.told(t, place),
    over: (frame, one) => { if (one.detail) paintMoments(frame, one); },
  });

  const path = (values, step, x, y) => {
    let pen = "M", found = "";
    values.forEach((value, k) => {
      if (value === null) { pen = "M"; return; }
      found += `${pen}${x((k + 0.5) * step).toFixed(1)} ${y(value / 10).toFixed(1)}`;
      pen = "L";
    });
    return found;
  };
  const at = (values, step, t) => values[Math.min(values.length - 1, Math.max(0, Math.floor(t / step)))];

  // When brokers came and went. Those at one place share a label; a label that would lie on another is left out.
  function paintMoments(frame, one) {
    const places = [];
    for (const [t, what, name] of one.detail.moments) {
      if (t < time.from || t > time.until) continue;
      const px = frame.x(t), last = places[places.length - 1];
      if (last && last.what === what && px - last.px < 8) last.names.push(name);
      else places.push({ what, px, names: [name] });
    }
    const free = [-Infinity, -Infinity];
    for (const { what, px, names } of places) {
      add(frame.body, "line", { x1: px, x2: px, y1: TOP - 4, y2: frame.bottom, class: one.signs ? "even" : "moment" });
      if (one.signs) continue;
      const text = what === "event" ? "event" : `${names.length > 1 ? counted(names.length, "broker") : names[0].replace(/:\d+$/, "")} ${what}`;
      const long = text.length * 7.2, start = Math.max(LEFT, Math.min(px, frame.right + 30 - long)), row = free.findIndex(last => last < start);
      if (row < 0) continue;
      free[row] = start + long + 6;
      explain(add(frame.svg, "text", { x: start, y: 11 + 14 * row, class: "clear" }, text), names.length > 1 ? `${what}: ${names.join(", ")}` : text);
    }
  }

  // Fullest, mean, least possible and the limit of a run; between the fullest and the least loaded lies a band.
  function levels(frame, one, top, band) {
    const { detail } = one, y = vertical(frame, top, value => `${value} %`), x = frame.x;
    if (band) {
      const there = detail.max.map((value, k) => [k, value]).filter(([, value]) => value !== null);
      const upper = there.map(([k, value]) => `${x((k + 0.5) * detail.step).toFixed(1)} ${y(value / 10).toFixed(1)}`);
      const lower = there.map(([k]) => `${x((k + 0.5) * detail.step).toFixed(1)} ${y(detail.min[k] / 10).toFixed(1)}`).reverse();
      if (there.length) add(frame.body, "path", { d: `M${[...upper, ...lower].join("L")}Z`, class: "between" });
    }
    add(frame.body, "path", { d: path(detail.max, detail.step, x, y), class: band ? "most" : "envelope" });
    const limit = detail.limit / 10;
    if (limit <= top) add(frame.svg, "line", { x1: LEFT, x2: frame.right, y1: y(limit), y2: y(limit), class: "limit" });
    return y;
  }
  function references(frame, { detail }, y) {
    add(frame.body, "path", { d: path(detail.mean, detail.step, frame.x, y), class: "mean" });
    add(frame.body, "path", { d: path(detail.floor, detail.step, frame.x, y), class: "floor" });
  }
  const lastOf = (values, step) => { for (let k = Math.min(values.length - 1, Math.ceil(time.until / step) - 1); k >= 0; k--) if (values[k] !== null) return values[k]; return null; };

  function ends(frame, y, named, limit, top) {
    const labels = named.filter(([value]) => value !== null).map(([value, text, kind]) => ({ y: y(value / 10), text, kind: kind || "" }));
    const seen = limit / 10 <= top, text = frame.wide ? `limit ${limit / 10} %` : "lim";
    if (seen || frame.wide) labels.push({ y: seen ? y(limit / 10) : TOP, text: seen ? text : `${text} ↑`, kind: "limit-name" });
    apart(labels, 14, TOP + 2, frame.bottom);
    for (const label of labels) add(frame.svg, "text", { x: frame.right + 5, y: label.y + 4, class: `halo ${label.kind}` }, label.text);
  }

  // The top of the axis, in percent: the limit is in sight unless all is far below it.
  function topOf(details) {
    const most = Math.max(...details.flatMap(detail => detail.max), 1), limit = Math.max(...details.map(detail => detail.limit));
    return (most * 3 < limit ? most : Math.max(most, limit)) / 10 * 1.04;
  }
  const letter = i => String.fromCharCode(65 + i);
  const colour = i => `b${i % 8}${i >= 8 ? " second" : ""}`;

  function toldLevels({ run, detail }, t) {
    return `${moment(run, t)}: fullest ${percent(at(detail.max, detail.step, t))}, mean ${percent(at(detail.mean, detail.step, t))}, least ${percent(at(detail.min, detail.step, t))}, floor ${percent(at(detail.floor, detail.step, t))}`;
  }

  // Few brokers are lines, with a letter each; of many there is the band, and a heat map below.
  function load(host, run, detail, top) {
    const few = detail.lines;
    const told = t => toldLevels({ run, detail }, t) + (few ? ` · ${detail.names.map((_, i) => `${letter(i)} ${percent(at(detail.usage[i], detail.step, t))}`).join(" · ")}` : "");
    time.view(host, "Usage of brokers over time", 290, frame => {
      const one = { run, detail }, y = levels(frame, one, top, !few);
      if (few) detail.usage.forEach((values, i) => add(frame.body, "path", { d: path(values, detail.step, frame.x, y), class: `curve thin ${colour(i)}` }));
      references(frame, one, y);
      const named = few ? detail.usage.map((values, i) => [lastOf(values, detail.step), frame.wide ? `${letter(i)} ${report.cut(report.range(detail.names[i]).replace(/:\d+$/, ""), 16)}` : letter(i), `named b${i % 8}`]) : [];
      if (!few) for (const [values, name] of frame.wide ? [[detail.max, "fullest"], [detail.mean, "mean"], [detail.floor, "floor"]] : [[detail.max, "max"]]) named.push([lastOf(values, detail.step), name]);
      ends(frame, y, named, detail.limit, top);
    }, { run, detail, told });
  }

  const level = (value, limit) => value === null ? -1 : value > 1000 ? 11 : value > limit ? 10 : Math.max(0, Math.min(9, Math.floor(value / limit * 10)));

  function heat(host, run, detail, order) {
    const tall = Math.max(3, Math.min(16, Math.floor(640 / order.length)));
    const told = (t, [, py]) => {
      const i = order[Math.floor((py - TOP) / tall)];
      return `${i === undefined ? "" : `${detail.names[i]} ${percent(at(detail.usage[i], detail.step, t))} · `}${toldLevels({ run, detail }, t)}`;
    };
    time.view(host, "Usage of each broker as a heat map", TOP + order.length * tall + AXIS, frame => {
      const first = Math.max(0, Math.floor(time.from / detail.step)), last = Math.min(detail.max.length - 1, Math.ceil(time.until / detail.step));
      const group = Math.max(1, Math.ceil((last - first + 1) / ((frame.right - LEFT) / 1.5)));
      const parts = Array.from({ length: 12 }, () => []);
      order.forEach((i, row) => {
        let begun = null, was = -2;
        const close = k => { if (was >= 0) parts[was].push(`M${frame.x(begun * detail.step).toFixed(1)} ${TOP + row * tall}H${frame.x(k * detail.step).toFixed(1)}v${tall}H${frame.x(begun * detail.step).toFixed(1)}z`); };
        for (let k = first; k <= last; k += group) {
          const seen = detail.usage[i].slice(k, k + group).filter(value => value !== null);
          const now = seen.length ? level(Math.max(...seen), detail.limit) : -1;
          if (now !== was) { close(k); begun = k; was = now; }
        }
        close(last + 1);
      });
      parts.forEach((part, k) => { if (part.length) add(frame.body, "path", { d: part.join(""), class: `h${k}`, "shape-rendering": "crispEdges" }); });
      if (frame.wide) for (let row = 0, every = Math.ceil(14 / tall); row < order.length; row += every)
        add(frame.svg, "text", { x: frame.right + 5, y: TOP + row * tall + Math.min(tall, 14) / 2 + 4, class: "soft" }, report.cut(report.range(detail.names[order[row]]), 20));
    }, { run, detail: null, told });
  }

  // The shades of a heat map, as a key.
  function ramp() {
    const holder = document.createElement("span");
    holder.className = "ramp";
    const svg = add(holder, "svg", { viewBox: "0 0 220 14", "aria-hidden": true });
    for (let k = 0; k < 12; k++) add(svg, "rect", { x: k < 10 ? k * 15 : 154 + (k - 10) * 32, y: 0, width: k < 10 ? 15 : 30, height: 14, class: `h${k}` });
    return holder;
  }

  // Decisions: a row for each kind; those that fall together are one sign with their number.
  function decisions(host, run, detail, inSpan, filter) {
    const kinds = Object.keys(detail.counts).filter(kind => detail.counts[kind].some(count => count));
    const told = t => toldLevels({ run, detail }, t);
    time.view(host, "Moves and splits over time", TOP + Math.max(1, kinds.length) * 30 + AXIS, frame => {
      kinds.forEach((kind, row) => {
        const y = TOP + row * 30 + 17, bins = [];
        detail.counts[kind].forEach((count, k) => {
          const t = (k + 0.5) * detail.step;
          if (!count || t < time.from || t > time.until) return;
          const px = frame.x(t), last = bins[bins.length - 1];
          if (last && px - last.px < 22) { last.count += count; last.until = (k + 1) * detail.step; }
          else bins.push({ px, count, from: k * detail.step, until: (k + 1) * detail.step });
        });
        for (const bin of bins) {
          const link = add(frame.svg, "a", { href: "#", tabindex: -1, "aria-label": `${kind}, ${bin.count} at ${moment(run, bin.from)}` });
          const place = add(link, "g", { transform: `translate(${((bin.px)).toFixed(1)} ${y})` });
          add(place, "circle", { r: 11, class: "hit" });
          sign(place, SIGN[kind]);
          if (bin.count > 1) add(place, "text", { x: 0, y: -7, "text-anchor": "middle", class: "clear" }, String(bin.count));
          explain(link, () => {
            const found = inSpan(kind, bin.from, bin.until), head = `${counted(bin.count, "time")} ${kind}, ${moment(run, bin.from)}${bin.until - bin.from > detail.step ? ` to ${moment(run, bin.until)}` : ""}`;
            return [head, ...found.slice(0, 4).map(one => `• ${one.words}`), found.length > 4 ? "choose it to see all of them in the list" : ""].filter(Boolean).join("\n");
          });
          link.addEventListener("click", event => { event.preventDefault(); filter(kind, bin.from, bin.until); });
        }
      });
      if (!kinds.length) add(frame.svg, "text", { x: LEFT + 8, y: TOP + 20, class: "soft" }, "nothing moved, and nothing was split");
    }, { run, detail, told, signs: true });
  }

  return { time, load, heat, ramp, decisions, topOf, letter, colour, path, at, SIGN };
})();
