// The value axis: from 0 to a round top, marked at round values, all in the unit of the top.

const MOST_STEPS = 4;

// `measure` has `words`, `base`, the ratio of its units (0: there is one unit), and `isWhole` for whole numbers. The marks
// go from 0 to `top`, each with its value and its label.
export function valueAxis(most, { words, base = 0, isWhole = false }) {
  const unit = base && most >= base ? base ** Math.floor(Math.log(most) / Math.log(base) + 1e-12) : 1;
  const value = most > 0 ? most / unit : 1, power = 10 ** Math.floor(Math.log10(value / MOST_STEPS));
  const step = Math.max(isWhole ? 1 : 0, [1, 2, 5, 10].map(one => one * power).find(one => value / one <= MOST_STEPS + 1e-9));
  const count = Math.max(1, Math.ceil(value / step - 1e-9)), named = words(unit);
  const marks = Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(12)))
    .map(number => ({ value: number * unit, label: number ? named.replace(/^[\d.,]+/, number.toLocaleString("en")) : "0" }));
  return { top: marks[count].value, marks };
}
