// The time axis that pictures below each other share: the same position for the same time, with marks at round times.

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 15, 30].map(n => n * SECOND).concat([1, 2, 5, 10, 15, 30].map(n => n * MINUTE), [1, 2, 3, 6, 12].map(n => n * HOUR), [1, 2, 3, 4, 7, 14].map(n => n * DAY));
const APART = { short: 64, long: 80 };  // pixels from label to label: 12:30, and 12:30:15
const RIGHT = 12, LEAST_MS = MINUTE;
export const GAP_MS = MINUTE;  // what is unknown for less is drawn as what was before it

const pad = value => String(value).padStart(2, "0");

// `left` is where the axis begins in a picture of `width`. `x(t)` is the position of an epoch ms, `timeAt(x)` the inverse,
// `ticks` are the marked times with their labels: round times in the user's time zone.
export function timeAxis(from, until, left, width) {
  const first = Math.min(from, until - LEAST_MS), right = width - RIGHT, scale = (right - left) / (until - first);
  const x = t => left + (t - first) * scale, timeAt = place => first + (place - left) / scale;
  const step = STEPS.find(one => one * scale >= (one < MINUTE ? APART.long : APART.short)) || STEPS[STEPS.length - 1];
  const ahead = -MINUTE * new Date(until).getTimezoneOffset(), ticks = [];
  for (let t = Math.ceil((first + ahead) / step) * step - ahead; t <= until; t += step) ticks.push({ t, x: x(t), label: label(t, step) });
  return { first, last: until, left, right, width, x, timeAt, ticks };
}

// Midnight is labelled with its day.
function label(t, step) {
  const at = new Date(t), day = `${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  if (step >= DAY || (at.getHours() === 0 && at.getMinutes() === 0 && at.getSeconds() === 0)) return day;
  const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  return step < MINUTE ? `${clock}:${pad(at.getSeconds())}` : clock;
}

// Labels that would exceed the picture are left out.
export const labelled = axis => axis.ticks.filter(one => one.x >= axis.left + 4 && one.x <= axis.width - 22);

// The axis of samples in `width` pixels: from the first sample with a known value to the last.
export function timesOf(samples, step = 0) {
  const known = step ? samples : samples.filter(one => one.brokers.size);
  if (!known.length) return null;
  return [known[0].at, known[known.length - 1].until];
}
