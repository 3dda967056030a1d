// How long the calls of a circuit took since it was made: a histogram for connecting, and one for the first byte.
import { calls, count, h } from "./format.js";

const HEIGHT_LEAST = 1.5; // percent: a single call among a million is seen

const NARROW = "\u202f";

// From nanoseconds, with two digits: buckets are no finer.
export function duration(ns) {
  const [size, unit] = ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const value = ns / size;
  return `${value < 10 ? value.toFixed(1).replace(/\.0$/, "") : String(Math.round(value))}${NARROW}${unit}`;
}

// Two or more numbers that are round.
function evenTicks(low, high) {
  const rough = (high - low) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

// 1, 2 and 5 of each power of ten where there is room for them, else powers of ten; even parts of what lies between two.
function ticks(low, high) {
  const steps = Math.log10(high / low) > 2.6 ? [1] : [1, 2, 5];
  const found = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const step of steps) if (step * power >= low && step * power <= high) found.push(step * power);
  }
  return found.length > 1 ? found : evenTicks(low, high);
}

function histogram(title, name, { from_ns: from, to_ns: to, calls: numbers }, { p50_us, p95_us, p99_us, count: total }) {
  const low = Math.max(from[0], 256);
  const high = to[to.length - 1];
  const most = Math.max(...numbers.map((number, i) => number / Math.log(to[i] / Math.max(from[i], 256))));
  const at = (ns) => (100 * Math.log(Math.max(ns, low) / low)) / Math.log(high / low);
  const place = (element, left, more) => Object.assign(element.style, { left: `${left}%`, ...more });
  const plot = h("div", { class: "plot" });
  numbers.forEach((number, i) => {
    const bar = h("i", { title: `${duration(from[i])} – ${duration(to[i])}: ${calls(number)}` });
    // By area: the parts of an octave are not equally wide on this scale.
    const height = (100 * number) / Math.log(to[i] / Math.max(from[i], 256)) / most;
    place(bar, at(from[i]), { width: `${Math.max(at(to[i]) - at(from[i]), 0.4)}%`, height: `${Math.max(height, HEIGHT_LEAST)}%` });
    plot.append(bar);
  });
  const axis = h("div", { class: "ticks" });
  for (const ns of ticks(low, high)) {
    const tick = h("span", {}, duration(ns));
    place(tick, at(ns));
    axis.append(tick);
  }
  const figures = [["P50", p50_us], ["P95", p95_us], ["P99", p99_us]].map(([word, us]) => `${word} ${duration(us * 1000)}`).join(" · ");
  return h("figure", { class: "histogram", "data-histogram": name },
    h("figcaption", {}, h("strong", {}, title), h("span", { class: "quiet" }, ` ${calls(total)} · ${figures}`)),
    h("div", { role: "img", "aria-label": `${title}, how many calls took how long: ${count(total)} in all, ${figures}` }, plot, axis));
}

// As `status --json` has them, over the circuit's whole life.
export function histograms(circuit) {
  if (!circuit.latencies || !circuit.now) return null;
  const parts = [["Connecting", "connect"], ["First byte of the answer", "first_byte"]]
    .filter(([, name]) => circuit.latencies[name].calls.length > 0 && circuit.now.latency[name].count > 0)
    .map(([title, name]) => histogram(title, name, circuit.latencies[name], circuit.now.latency[name]));
  return parts.length > 0 ? h("div", { class: "histograms" }, parts) : null;
}
