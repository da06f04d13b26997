"use strict";
// Draws the pictures of two runs of a demo on one time line, from the JSON in the page.
(() => {
  const { byId } = draw;
  const data = JSON.parse(byId("data").textContent);
  const time = draw.timeline({
    end: data.end, least: 0.5, readout: seenAt, label: t => `${t} s`,
    over: (frame, one) => { if (one.run) runs.paintMoments(one.run, time, frame, () => "#figures"); },
    span: (from, until) => {
      const digits = until - from < 20 ? 1 : 0;
      return `${from.toFixed(digits)}–${until.toFixed(digits)} s of ${data.end.toFixed(0)} s`;
    },
  });

  function seenAt(t) {
    const seen = data.runs.map(run => {
      const near = run.imbalance.filter(p => Math.abs(p[0] - t) <= 2).sort((a, b) => Math.abs(a[0] - t) - Math.abs(b[0] - t))[0];
      return near ? near[1].toFixed(2) : "–";
    });
    return `At ${t.toFixed(1)} s: busiest/mean ${seen.join(" and ")}`;
  }

  const highest = Math.max(1, ...data.runs.flatMap(run => run.load.flat().map(p => p[1])));
  const longest = Math.max(0.5, ...data.runs.flatMap(run => run.gaps.map(([from, until]) => until - from)));
  const lines = data.runs.map((run, i) => [run.imbalance, i ? "theirs" : "ours"]);
  if (data.runs.some(run => run.imbalance.length)) time.view(byId("imbalance"), "Imbalance of both runs", 190, frame => runs.paintImbalance(lines, time, frame));
  else runs.empty(byId("imbalance"), "No broker reported a message in either run.");
  data.runs.forEach((run, i) => {
    if (run.load.some(points => points.length)) time.view(byId(`load${i}`), "Load of each broker", 240, frame => runs.paintLoad(run, time, frame, highest), { run });
    else runs.empty(byId(`load${i}`), "No broker sent a load report in this run.");
    if (run.gaps.length) time.view(byId(`gaps${i}`), "What clients noticed", 190, frame => runs.paintGaps(run, time, frame, longest), { run });
    else runs.empty(byId(`gaps${i}`), "Nothing: no topic waited for a receipt for a quarter of a second or longer.");
  });
  draw.printed(time.redraw);
  time.redraw();
})();
