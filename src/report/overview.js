// All circuits on one time line, and in one table.
import { chartBox, NARROW, stateSeries, stateTip, timeAxis, tooltipParts, zoomParts } from "./chart.js";
import { calls, count, h, latency, span } from "./format.js";
import { duration } from "./histogram.js";
import { quantile } from "./model.js";

const ROW = 26;
const ROWS_MAX = 60;

function tile(title, value, note) {
  return h("div", { class: "tile" }, h("dt", {}, title), h("dd", {}, h("strong", {}, value), h("span", {}, note ?? "")));
}

function all(report) {
  return report.circuits.flatMap((circuit) => circuit.incidents);
}

function sumOf(values) {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? known.reduce((a, b) => a + b, 0) : null;
}

export function tiles(report) {
  const incidents = all(report);
  const going = incidents.filter((one) => one.ended === null).length;
  const longest = report.circuits.flatMap((circuit) => circuit.incidents.map((one) => ({
    name: `${circuit.name}${one.ended === null ? ", not over" : ""}`, ms: one.lasted_ms })))
    .filter(({ ms }) => ms !== null).sort((a, b) => b.ms - a.ms)[0];
  const detect = incidents.map((one) => one.detect_ms).filter((value) => value !== null).sort((a, b) => a - b);
  const refused = sumOf(incidents.map((one) => one.refused));
  const without = sumOf(incidents.map((one) => one.without_ms));
  const waited = incidents.reduce((sum, one) => sum + one.waited_ms, 0);
  const leaked = incidents.reduce((sum, one) => sum + one.leaked, 0);
  const hanging = incidents.some((one) => one.hanging > 0);
  const several = incidents.length > 1;
  return h("dl", { class: "tiles" },
    tile("Incidents", count(incidents.length), going > 0 ? `${going} not over` : incidents.length > 0 ? "all over" : "no circuit opened"),
    longest ? tile(several ? "Longest outage" : "Outage", span(longest.ms), longest.name) : null,
    detect.length > 0 ? tile("Time to detect", span(quantile(detect, 0.5)), several ? `median; at worst ${span(detect[detect.length - 1])}` : "from the first failing call") : null,
    refused !== null ? tile("Refused at once", count(refused), refused === 1 ? "call" : "calls") : null,
    incidents.length > 0 ? tile("Leaked", count(leaked), "failed after the opening") : null,
    incidents.length > 0 ? tile("Waited", `${hanging ? "≥ " : ""}${span(waited)}`, without !== null ? `without the circuit about ${span(without)}` : "by calls that failed") : null);
}

function timeLine(report) {
  const rows = report.circuits.slice(0, ROWS_MAX);
  const base = report.from_ms;
  const range = [base, Math.max(report.to_ms, base + 1)];
  const build = (palette, width, onPaper) => {
    const narrow = width < NARROW;
    const left = narrow ? 104 : 190;
    const height = rows.length * ROW;
    return {
      height: height + (onPaper ? 36 : 76),
      option: {
        grid: { left, right: 14, top: 8, height },
        xAxis: timeAxis(palette, range, 0, true, narrow),
        yAxis: {
          type: "category", inverse: true, data: rows.map((circuit) => circuit.name), axisTick: { show: false },
          axisLine: { show: false },
          axisLabel: { color: palette.ink, fontSize: 12, width: left - 14, overflow: "truncate", interval: 0 },
        },
        tooltip: { ...tooltipParts(palette), formatter: ({ data }) => stateTip(data, base, rows[data.value[2]].name) },
        dataZoom: zoomParts(palette, [0], onPaper ? null : height + 44, left, 14, !narrow),
        series: [stateSeries(palette, base, rows.map((circuit, row) => ({ row, states: circuit.states })), ROW - 8)],
      },
    };
  };
  const open = report.circuits.filter((circuit) => circuit.incidents.length > 0);
  return chartBox({
    label: "States of all circuits over time", range, height: rows.length * ROW + 76, build,
    summary: open.length === 0 ? "No circuit opened."
      : open.map((circuit) => `${circuit.name}: ${calls(circuit.incidents.length, "incident", "incidents")}, not closed for ${span(circuit.sums.open)}.`).join(" "),
    click: ({ data }) => {
      location.hash = rows[data.value[2]].id;
    },
  });
}

// Columns that nobody has a figure for are left out.
function columns(report) {
  const known = report.circuits.some((circuit) => circuit.now);
  const took = report.circuits.some((circuit) => circuit.sums.took.length > 0);
  const lives = !took && report.circuits.some((circuit) => circuit.now?.latency.first_byte.count > 0);
  const at = (part) => (circuit) => {
    const value = quantile(circuit.sums.took, part);
    return value === null ? "" : latency(value);
  };
  // Of a circuit's whole life, where the events have no calls that succeeded.
  const lived = (name) => (circuit) => (circuit.now?.latency.first_byte.count > 0 ? duration(circuit.now.latency.first_byte[name] * 1000) : "");
  return [
    { title: "Circuit", cell: (circuit) => h("a", { href: `#${circuit.id}` }, circuit.name), name: true },
    known ? { title: "Now", cell: (circuit) => (circuit.now ? badge(circuit) : "") } : null,
    { title: "Incidents", cell: (circuit) => count(circuit.incidents.length) },
    { title: "Not closed", cell: (circuit) => (circuit.sums.open > 0 ? span(circuit.sums.open) : "–") },
    { title: "Failures", cell: (circuit) => count(circuit.sums.failures) },
    { title: "Refused", cell: (circuit) => count(circuit.sums.refused) },
    { title: "Waited", cell: (circuit) => (circuit.sums.waited > 0 ? span(circuit.sums.waited) : "–") },
    took ? { title: "Answer P50", cell: at(0.5) } : null,
    took ? { title: "P95", cell: at(0.95) } : null,
    took ? { title: "Max", cell: at(1) } : null,
    lives ? { title: "Answer P50", cell: lived("p50_us") } : null,
    lives ? { title: "P95", cell: lived("p95_us") } : null,
    lives ? { title: "P99", cell: lived("p99_us") } : null,
  ].filter(Boolean);
}

export function badge(circuit) {
  const { state, probe_due, forced, ended } = circuit.now;
  const word = `${state}${probe_due ? ", probe due" : ""}${forced ? " (forced)" : ""}${ended ? " (ended)" : ""}`;
  return h("span", { class: `badge ${state}` }, word);
}

function table(report) {
  const shown = columns(report);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Circuits" },
    h("table", { class: "numbers" },
      h("thead", {}, h("tr", {}, shown.map(({ title, name }) => h("th", { scope: "col", class: name ? "name" : null }, title)))),
      h("tbody", {}, report.circuits.map((circuit) => h("tr", {}, shown.map(({ cell, name }) =>
        (name ? h("th", { scope: "row", class: "name" }, cell(circuit)) : h("td", {}, cell(circuit)))))))));
}

export function legend(...words) {
  return h("ul", { class: "legend", "aria-hidden": "true" },
    words.map((word) => h("li", {}, h("i", { class: `key ${word.replace(" ", "-")}` }), word)));
}

export function overview(report) {
  const more = report.circuits.length - ROWS_MAX;
  return h("section", { class: "card", "aria-labelledby": "overview" },
    h("div", { class: "head" }, h("h2", { id: "overview" }, "All circuits"), legend("closed", "half-open", "open")),
    timeLine(report),
    more > 0 ? h("p", { class: "quiet" }, `The ${ROWS_MAX} worst are drawn; the table has all.`) : null,
    table(report));
}
