// What the sections of a replay's report share: the data, words for times and figures, tips, unpacking a run.
const report = (() => {
  const { byId } = draw;
  const data = JSON.parse(byId("data").textContent);

  function element(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") node.className = value; else if (value !== false && value !== null) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter(child => child !== null && child !== undefined));
    return node;
  }

  // Times are seconds since a run began; people read UTC.
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const two = n => String(n).padStart(2, "0");
  const day = at => `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
  function clock(run, t, seconds = false) {
    const at = new Date(run.start + t * 1000);
    return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${seconds ? `:${two(at.getUTCSeconds())}` : ""}`;
  }
  function moment(run, t) {
    const at = new Date(run.start + t * 1000), seconds = run.point % 60 !== 0;
    return run.end > 86400 ? `${day(at)} ${clock(run, t, seconds)}` : clock(run, t, seconds);
  }
  const stamp = (run, t) => `${day(new Date(run.start + t * 1000))} ${clock(run, t)}`;
  const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600];
  let apart = 1;  // seconds between the ticks of the picture that is being drawn
  function ticks(from, until, most) {
    const span = apart = SPANS.find(each => (until - from) / each <= most) || SPANS[SPANS.length - 1], offset = data.runs[0].start / 1000 % span, found = [];
    for (let t = Math.ceil((from + offset) / span) * span - offset; t <= until; t += span) found.push(t);
    return found;
  }
  function tick(run, t) {
    const at = new Date(run.start + t * 1000);
    return apart >= 86400 || ((run.start + t * 1000) % 86400000 === 0 && run.end > 43200) ? day(at) : clock(run, t, at.getUTCSeconds() !== 0);
  }
  function span(seconds) {
    if (seconds < 120) return `${Number(seconds.toPrecision(3))} s`;
    return seconds < 7200 ? `${Number((seconds / 60).toPrecision(3))} min` : `${Number((seconds / 3600).toPrecision(3))} h`;
  }
  const figure = value => value === null || value === undefined ? "–" : Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 });
  const percent = thousandths => thousandths === null || thousandths === undefined ? "–" : `${(thousandths / 10).toFixed(1)} %`;
  const cut = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
  const range = name => name.slice(name.lastIndexOf("/") + 1);

  function runName(run) {
    const row = data.rows[run.row];
    const parted = data.runs.some(other => String(other.period) !== String(run.period)), seeded = data.runs.some(other => other.seed !== run.seed);
    return `${run.row + 1} ${row.label}${seeded ? `, seed ${run.seed}` : ""}${parted ? `, from ${day(new Date(run.start))} ${clock(run, 0)}` : ""}`;
  }

  // A run's pictures and lists are packed until somebody looks at them.
  const unpacked = new Map();
  async function detail(run) {
    if (!unpacked.has(run)) {
      const bytes = Uint8Array.from(atob(run.detail), c => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      unpacked.set(run, JSON.parse(await new Response(stream).text()));
    }
    return unpacked.get(run);
  }

  // Tips: what stands in data-tip, or what `explain` was given for a node; by pointer, focus or tap.
  const texts = new WeakMap(), tip = byId("tip");
  const explain = (node, text) => { texts.set(node, text); return node; };
  function textOf(start) {
    for (let node = start; node && node.nodeType === 1; node = node.parentNode) {
      const text = texts.get(node) || (node.dataset && node.dataset.tip);
      if (text) return [node, typeof text === "function" ? text() : text];
    }
    return [null, ""];
  }
  let told = null;
  function hide() { tip.hidden = true; told = null; }
  function tell(start) {
    const [node, text] = textOf(start);
    if (!text) return hide();
    told = node;
    tip.textContent = text;
    tip.hidden = false;
    place();
    return undefined;
  }
  function place() {
    const at = told.getBoundingClientRect(), own = tip.getBoundingClientRect();
    if (at.bottom < 0 || at.top > innerHeight) return hide();
    tip.style.left = `${Math.max(8, Math.min(at.left, innerWidth - own.width - 8))}px`;
    tip.style.top = `${at.bottom + own.height + 10 < innerHeight ? at.bottom + 6 : Math.max(8, at.top - own.height - 6)}px`;
    return undefined;
  }
  let pointer = "";
  function hasMoved(event) {
    const before = pointer;
    pointer = `${event.screenX} ${event.screenY}`;
    return pointer !== before;
  }
  const isOfFocus = () => told && document.activeElement.matches(":focus-visible") && told.contains(document.activeElement);
  document.addEventListener("pointermove", hasMoved, { passive: true });
  document.addEventListener("pointerover", event => {  // also of a pointer that rests while the page scrolls to the focus
    const isUnmoved = !hasMoved(event);
    if (event.pointerType !== "touch" && !(isUnmoved && isOfFocus())) tell(event.target);
  });
  document.addEventListener("focusin", event => { if (event.target.matches(":focus-visible")) tell(event.target); });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
  let touched = false;
  document.addEventListener("pointerdown", event => { touched = event.pointerType === "touch"; }, true);
  document.addEventListener("click", event => {
    if (!touched) return;
    const [node] = textOf(event.target);
    if (node && node !== told && node.tagName === "A") event.preventDefault();  // the first tap explains, the second follows
    tell(node === told ? null : event.target);
  }, true);
  addEventListener("scroll", () => { if (told) place(); }, { passive: true });

  function choices(host, options, chosen, act) {
    const buttons = options.map(([value, text, about]) => {
      const button = element("button", { type: "button", "aria-pressed": String(value === chosen) }, text);
      if (about) button.dataset.tip = about;
      button.addEventListener("click", () => {
        buttons.forEach(other => other.setAttribute("aria-pressed", String(other === button)));
        act(value);
      });
      return button;
    });
    host.replaceChildren(...buttons);
  }

  return { data, element, moment, stamp, ticks, tick, span, figure, percent, cut, range, runName, detail, explain, hide, choices };
})();
