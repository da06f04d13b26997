// Brings the sections of the page together: which runs are seen, and which bundle.
(() => {
  const { data, element, detail, runName } = report, { byId, add, vertical, apart } = draw, { time } = report.pictures;
  const MOST_LINES = 8;
  const panels = { a: data.runs[0], b: null };
  let bundle = "";

  // ---- one run, or two side by side ----

  async function showRuns() {
    const { a, b } = panels, one = await detail(a), other = b ? await detail(b) : null;
    if (panels.a !== a || panels.b !== b) return;  // another one was chosen meanwhile
    const top = report.pictures.topOf(b ? [one, other] : [one]);
    byId("panel-a").parentNode.classList.toggle("two", Boolean(b));
    report.differences.show(byId("differences"), a, b, one, other);
    report.panel.show(byId("panel-a"), a, one, top, ask);
    if (b) report.panel.show(byId("panel-b"), b, other, top, ask); else byId("panel-b").replaceChildren();
    const names = [...new Set([...one.bundles, ...(other ? other.bundles : [])])].sort();
    byId("bundles").replaceChildren(...names.map(name => element("option", { value: name })));
    byId("run-a").value = String(data.runs.indexOf(a));
    byId("run-b").value = b ? String(data.runs.indexOf(b)) : "";
    if (!bundle || !names.includes(bundle)) bundle = liveliest(one) || names[0] || "";
    byId("bundle").value = bundle;
    await showStory();
  }
  // The bundle that moved most, or was split.
  function liveliest(one) {
    const count = new Map();
    for (const move of one.moves) count.set(move[2], (count.get(move[2]) || 0) + 1);
    const [place] = [...count].sort((x, y) => y[1] - x[1] || x[0] - y[0])[0] || [];
    return place === undefined ? "" : one.bundles[place];
  }
  async function showStory() {
    const { a, b } = panels, shown = bundle;
    for (const [host, run] of [["story-a", a], ["story-b", b]]) {
      const node = byId(host), found = run && await detail(run);
      if (shown !== bundle) return;
      if (!run || !shown) node.replaceChildren(run && !shown && host === "story-a" ? element("p", { class: "note" }, "No bundle moved or was split in this run.") : "");
      else report.story.show(node, run, found, shown, ask);
    }
    byId("story-a").parentNode.classList.toggle("two", Boolean(b));
    time.redraw();
  }
  function ask(name) {
    bundle = name;
    byId("bundle").value = name;
    byId("story").scrollIntoView({ block: "start" });
    showStory();
  }
  function typed() {
    const text = byId("bundle").value.trim().toLowerCase(), names = [...byId("bundles").options].map(option => option.value);
    const found = names.find(name => name.toLowerCase() === text) || (text.length > 3 && names.find(name => name.toLowerCase().includes(text)));
    if (!text || found === bundle) return;
    bundle = found || byId("bundle").value.trim();
    showStory();
  }

  function selects() {
    const options = () => data.runs.map((run, i) => element("option", { value: String(i) }, runName(run)));
    byId("run-a").replaceChildren(...options());
    byId("run-b").replaceChildren(element("option", { value: "" }, "none"), ...options());
    byId("run-a").addEventListener("change", event => { panels.a = data.runs[Number(event.target.value)]; showRuns(); });
    byId("run-b").addEventListener("change", event => { panels.b = event.target.value === "" ? null : data.runs[Number(event.target.value)]; showRuns(); });
    byId("run-b").parentNode.hidden = data.runs.length < 2;
    byId("bundle").addEventListener("change", typed);
    byId("bundle").addEventListener("input", event => { if (!event.inputType || event.inputType === "insertReplacementText") typed(); });
    byId("chosen").hidden = byId("asked").hidden = false;
  }
  function choose(row) {
    const run = data.runs.find(each => each.row === row);
    if (!run) return;
    panels.a = run;
    byId("brokers").scrollIntoView({ block: "start" });
    showRuns();
  }

  // ---- several runs in one picture ----

  const MEASURES = {
    above: ["fullest above the floor", "By how much the fullest broker is fuller than it had to be, in % of a broker; 0 is the best there is.", value => value / 10, "%"],
    ratio: ["fullest over the mean", "Usage of the fullest broker over the mean of all; 1 is even.", value => value / 1000, ""],
  };
  let measure = "above", picked = [];
  const chips = new Map();
  const slots = new Map();  // a run keeps its colour while it is picked
  function pick(run, on) {
    picked = picked.filter(each => each !== run);
    slots.delete(run);
    if (on) {
      slots.set(run, [...Array(MOST_LINES).keys()].find(slot => ![...slots.values()].includes(slot)));
      picked.push(run);
    }
    for (const [each, chip] of chips) chip.className = slots.has(each) ? `chip b${slots.get(each)}` : "num";
    byId("picked").querySelectorAll("input").forEach(box => { box.disabled = picked.length >= MOST_LINES && !box.checked; });
  }
  function lines() {
    const same = (run, other) => other.row === run.row || String(other.above) === String(run.above);  // or nothing differs
    const firsts = data.runs.filter((run, i) => data.runs.findIndex(other => same(run, other)) === i).slice(0, 5);
    const boxes = data.runs.map(run => {
      const box = element("input", { type: "checkbox" });
      box.checked = firsts.includes(run);
      box.addEventListener("change", () => { pick(run, box.checked); time.redraw(); });
      chips.set(run, element("span", {}, String(run.row + 1)));
      return element("label", {}, box, " ", chips.get(run), runName(run).replace(/^\d+/, ""));
    });
    byId("picked").append(...boxes);
    firsts.forEach(run => pick(run, true));
    byId("picked").hidden = data.runs.length < 2;
    report.choices(byId("measure"), Object.entries(MEASURES).map(([name, [title, about]]) => [name, title, about]), measure, name => { measure = name; time.redraw(); });
    const pointed = (run, t) => run[measure][Math.min(run[measure].length - 1, Math.floor(t / run.point))];
    const told = t => `${report.moment(data.runs[0], t)}: ${picked.map(run => `${runName(run)} ${report.figure(MEASURES[measure][2](pointed(run, t)))} ${MEASURES[measure][3]}`).join(" · ")}`;
    time.view(byId("lines"), "Imbalance of several runs", 300, frame => {
      const [, , of, unit] = MEASURES[measure];
      const top = Math.max(measure === "ratio" ? 1.2 : 1, ...picked.flatMap(run => run[measure].map(of))) * 1.04;
      const y = vertical(frame, top, value => `${value}${unit && " "}${unit}`), labels = [];
      if (measure === "ratio") add(frame.svg, "line", { x1: draw.LEFT, x2: frame.right, y1: y(1), y2: y(1), class: "even" });
      for (const run of picked) {
        const slot = slots.get(run), values = run[measure].map(value => of(value) * 10);
        add(frame.body, "path", { d: report.pictures.path(values, run.point, frame.x, y), class: `curve b${slot}${slot % 2 ? " second" : ""}` });
        const last = of(pointed(run, Math.min(time.until, run.end) - run.point / 2));
        labels.push({ y: y(last), slot, text: frame.wide ? report.cut(`${run.row + 1} ${data.rows[run.row].label}`, 17) : String(run.row + 1) });
      }
      apart(labels, 15, draw.TOP, frame.bottom);
      for (const label of labels) add(frame.svg, "text", { x: frame.right + 5, y: label.y + 4, class: `halo named b${label.slot}` }, label.text);
    }, { run: data.runs[0], detail: null, told });
  }

  report.scatter(choose);
  lines();
  draw.printed(time.redraw);
  if (typeof DecompressionStream === "undefined") { byId("old").hidden = false; time.redraw(); return; }
  selects();
  showRuns();
})();
