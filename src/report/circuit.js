// One circuit: its states with the failures on them, waiting calls, refusals and latency over time; its figures.
import { chartBox, lines, NARROW, stateSeries, stateTip, timeAxis, tooltipParts, zoomParts } from "./chart.js";
import { calls, clock, count, h, latency, process, reason, span } from "./format.js";
import { givingUp } from "./giving_up.js";
import { duration, histograms } from "./histogram.js";
import { incidentCard } from "./incident.js";
import { waitingSteps } from "./model.js";
import { badge, legend } from "./overview.js";

const STATE_ROW = 30;
const ROW = 22;
const GAP = 34;
const EVENTS_MAX = 500;
const INCIDENTS_MAX = 8;
const INCIDENTS_SHOWN = 5;

// --- the chart ------------------------------------------------------------------------------------------------------

// What stands below each other, with its height; what there are no figures of is left out.
function panels(report, circuit) {
  const waiting = report.calls_drawn === report.calls_told ? waitingSteps(circuit, report.from_ms) : [];
  const kinds = [...circuit.sums.kinds.keys()];
  const rows = ["state", ...(circuit.probes.length > 0 ? ["probes"] : []), ...kinds];
  const list = [{ kind: "rows", rows, height: STATE_ROW + (rows.length - 1) * ROW }];
  if (waiting.length > 0) list.push({ kind: "waiting", waiting, height: 84, title: "Calls waiting at once" });
  if (circuit.refusals.length > 0) list.push({ kind: "refused", height: 60, title: "Refused, calls a second" });
  if (circuit.calls.took.some((took) => took > 0)) list.push({ kind: "latency", height: 110, title: "Latency" });
  let top = 8;
  for (const panel of list) {
    panel.top = top + (panel.title ? 14 : 0);
    top = panel.top + panel.height + (panel === list[list.length - 1] ? 0 : panel.title ? GAP - 14 : 20);
  }
  return { list, bottom: top };
}

function callTip(report, circuit, i) {
  const outcome = report.outcomes[circuit.calls.outcome[i]];
  const late = circuit.calls.late[i] ? "too late to count" : "";
  const hangs = circuit.calls.hangs[i] ? "still hung then" : "";
  return lines(outcome.name === outcome.verdict ? outcome.name : `${outcome.name} (${outcome.verdict})`,
    process(report.processes[circuit.calls.process[i]]),
    `after ${latency(circuit.calls.took[i])}, at ${clock(report.from_ms + circuit.calls.end[i], 3)}`,
    [late, hangs].filter(Boolean).join(", "));
}

function rowSeries(report, circuit, panel, palette) {
  const { calls: all } = circuit;
  const series = [stateSeries(palette, report.from_ms, [{ row: 0, states: circuit.states }], STATE_ROW - 8)];
  panel.rows.forEach((name, row) => {
    if (name === "state" || name === "probes") return;
    const data = [];
    all.outcome.forEach((outcome, i) => {
      const { name: kind, verdict } = report.outcomes[outcome];
      if (verdict === "failure" && kind === name) data.push({ value: [report.from_ms + all.end[i], row], call: i });
    });
    series.push({ type: "scatter", name, data, symbol: "circle", symbolSize: 7, clip: true, large: true,
      largeThreshold: 500,
      itemStyle: { color: palette.failure, opacity: data.length > 400 ? 0.45 : 0.8 } });
  });
  if (circuit.probes.length > 0) {
    series.push({ type: "scatter", name: "probes", symbol: "triangle", symbolSize: 11, clip: true,
      data: circuit.probes.map((probe) => ({ value: [report.from_ms + probe.at, 1], probe,
        symbolRotate: probe.result === "failure" ? 180 : 0,
        itemStyle: { color: probe.result === "success" ? palette.success : probe.result === "failure" ? palette.failure : palette.quiet } })) });
  }
  return series;
}

function lineSeries(name, points, palette, colour, axis) {
  return { type: "line", name, step: "end", data: points, xAxisIndex: axis, yAxisIndex: axis, showSymbol: false,
    symbol: "none", lineStyle: { color: colour, width: 1.5 }, itemStyle: { color: colour },
    areaStyle: { color: colour, opacity: 0.18 }, clip: true };
}

// A block for each time between two changes of state: how many there were is known of that time as a whole.
function refusedSeries(report, circuit, palette, axis) {
  return { type: "custom", name: "refused", xAxisIndex: axis, yAxisIndex: axis, clip: true, encode: { x: [0, 1], y: 2 },
    data: blocks(report, circuit.refusals).map((refusal) => ({ refusal, value: [report.from_ms + refusal.from, report.from_ms + refusal.to,
      rateOf(refusal)] })),
    renderItem(params, api) {
      const [x, y] = api.coord([api.value(0), api.value(2)]);
      const [end, bottom] = api.coord([api.value(1), 0]);
      return { type: "rect", shape: { x, y, width: Math.max(end - x, 1.5), height: Math.max(bottom - y, 1) },
        style: { fill: palette.refused, opacity: 0.7 } };
    } };
}

// What lasted for a moment only, as a probe, has no rate of its own: it goes with what was just before it.
function blocks(report, refusals) {
  const shortest = Math.max(1000, (report.to_ms - report.from_ms) / 200);
  const merged = [];
  for (const refusal of refusals) {
    const last = merged[merged.length - 1];
    const isShort = (one) => one.to - one.from < shortest;
    if (last && last.to === refusal.from && (isShort(refusal) || isShort(last))) {
      merged[merged.length - 1] = { from: last.from, to: refusal.to, calls: last.calls + refusal.calls };
    } else merged.push(refusal);
  }
  return merged;
}

function rateOf({ from, to, calls: number }) {
  return number / Math.max((to - from) / 1000, 0.001);
}

// By verdict, so that failures lie above the many others.
function latencySeries(report, circuit, palette, axis) {
  const verdicts = [["success", "circle"], ["business", "diamond"], ["neutral", "rect"], ["failure", "circle"]];
  return verdicts.map(([verdict, symbol]) => {
    const data = [];
    circuit.calls.outcome.forEach((outcome, i) => {
      if (report.outcomes[outcome].verdict !== verdict) return;
      data.push({ value: [report.from_ms + circuit.calls.end[i], Math.max(circuit.calls.took[i], 0.5)], call: i });
    });
    return { type: "scatter", name: verdict, symbol, symbolSize: verdict === "failure" ? 6 : verdict === "neutral" ? 4 : 5, data, xAxisIndex: axis,
      yAxisIndex: axis, clip: true, large: true, largeThreshold: 500, itemStyle: { color: palette[verdict], opacity: data.length > 500 ? 0.35 : 0.7 } };
  }).filter((series) => series.data.length > 0);
}

function valueAxis(palette, panel, gridIndex, more) {
  return { type: "value", gridIndex, name: panel.title, nameLocation: "end", nameGap: 7, min: 0, splitNumber: 2,
    nameTextStyle: { align: "left", color: palette.quiet, fontSize: 12, padding: [0, 0, 0, -4] },
    axisLabel: { color: palette.quiet, fontSize: 11, showMaxLabel: true }, splitLine: { lineStyle: { color: palette.grid } }, ...more };
}

function yAxis(palette, panel, gridIndex, left) {
  if (panel.kind === "rows") {
    return { type: "category", gridIndex, inverse: true, data: panel.rows, axisTick: { show: false },
      axisLine: { show: false }, splitArea: { show: false },
      axisLabel: { color: palette.ink, fontSize: left < 130 ? 11 : 12, interval: 0, width: left - 10, overflow: "truncate" } };
  }
  if (panel.kind === "latency") {
    return valueAxis(palette, panel, gridIndex, { type: "log", min: 0.3, splitNumber: 3,
      axisLabel: { color: palette.quiet, fontSize: 11, formatter: (value) => (value < 1 ? "" : span(value)) } });
  }
  return valueAxis(palette, panel, gridIndex, panel.kind === "waiting" ? { minInterval: 1 } : {});
}

function seriesOf(report, circuit, panel, palette, axis) {
  if (panel.kind === "rows") return rowSeries(report, circuit, panel, palette);
  if (panel.kind === "latency") return latencySeries(report, circuit, palette, axis);
  if (panel.kind === "refused") return [refusedSeries(report, circuit, palette, axis)];
  const points = [[report.from_ms, 0], ...panel.waiting.map(([at, number]) => [report.from_ms + at, number])];
  points.push([report.to_ms, points[points.length - 1][1]]);
  return [lineSeries("waiting", points, palette, palette.waiting, axis)];
}

// A line's tooltip is of the place under the pointer, for there is no point to meet: what held there since the last step.
function lineTip(report, { waiting }, [point]) {
  if (!point) return "";
  const at = point.axisValue - report.from_ms;
  let now = 0;
  for (const [when, number] of waiting) {
    if (when > at) break;
    now = number;
  }
  return lines(calls(now, "call waits", "calls wait"), `at ${clock(point.axisValue, 3)}`);
}

function tip(report, circuit, { state, probe, refusal, call }) {
  const base = report.from_ms;
  if (state) return stateTip({ state }, base, state.reason ? reason(state.reason) : "");
  if (probe) return lines(`probe: ${probe.result ?? "not over"}`, process(report.processes[probe.process]), clock(base + probe.at, 3));
  if (refusal) {
    return lines(`${calls(refusal.calls)} refused at once`, `${clock(base + refusal.from, 3)} – ${clock(base + refusal.to, 3)}`,
      `${rateOf(refusal).toFixed(1)} a second on average`);
  }
  return callTip(report, circuit, call);
}

function chart(report, circuit) {
  const base = report.from_ms;
  const range = [base, Math.max(report.to_ms, base + 1)];
  const { list, bottom } = panels(report, circuit);
  const axes = list.map((panel, i) => i);
  const build = (palette, width, onPaper) => {
    const narrow = width < NARROW;
    const left = narrow ? 120 : 132;
    return {
      height: bottom + (onPaper ? 30 : 70),
      option: {
        grid: list.map((panel) => ({ left, right: 14, top: panel.top, height: panel.height,
          tooltip: { trigger: panel.kind === "waiting" ? "axis" : "item" } })),
        xAxis: list.map((panel, i) => timeAxis(palette, range, i, i === list.length - 1, narrow)),
        yAxis: list.map((panel, i) => yAxis(palette, panel, i, left)),
        axisPointer: { link: [{ xAxisIndex: "all" }], lineStyle: { color: palette.quiet } },
        tooltip: { ...tooltipParts(palette), trigger: "item", formatter: (under) => (Array.isArray(under)
          ? lineTip(report, list.find((panel) => panel.kind === "waiting"), under) : tip(report, circuit, under.data)) },
        dataZoom: zoomParts(palette, axes, onPaper ? null : bottom + 38, left, 14, !narrow),
        series: list.flatMap((panel, i) => seriesOf(report, circuit, panel, palette, i)),
      },
    };
  };
  return chartBox({ label: `${circuit.name} over time`, range, height: bottom + 70, build, summary: summary(circuit) });
}

function summary(circuit) {
  const times = new Map();
  for (const { state, from, to } of circuit.states) times.set(state, (times.get(state) ?? 0) + to - from);
  const states = [...times].filter(([state]) => state !== "unknown").map(([state, ms]) => `${state} for ${span(ms)}`).join(", ");
  const kinds = [...circuit.sums.kinds].map(([kind, number]) => `${count(number)} ${kind}`).join(", ");
  return `${states ? `It was ${states}. ` : ""}${kinds ? `Failures: ${kinds}.` : "No failures."}`;
}

// --- figures --------------------------------------------------------------------------------------------------------

const COUNTERS = [["admitted", "Admitted"], ["succeeded", "Succeeded"], ["failed", "Failed"], ["refused", "Refused"],
  ["late", "Late"], ["neutral", "Neutral"], ["business", "Business"], ["slow", "Slow"], ["opened", "Opened"],
  ["probes_succeeded", "Probes succeeded"], ["probes_failed", "Probes failed"]];

// As `sockfuse status --json` has them: over the circuit's whole life, not the report's span.
function figures(circuit) {
  if (!circuit.now) return null;
  const { counters, in_flight, consecutive_failures, failure_threshold, retry_in_ms, most_waiting, latency: waits } = circuit.now;
  const always = new Set(["admitted", "succeeded", "failed", "refused"]);
  return h("div", {},
    h("h4", {}, "Since the circuit was first used"),
    h("dl", { class: "figures" },
      COUNTERS.filter(([name]) => counters[name] > 0 || always.has(name))
        .map(([name, title]) => h("div", {}, h("dt", {}, title), h("dd", { "data-counter": name }, count(counters[name])))),
      h("div", {}, h("dt", {}, "In flight"), h("dd", { "data-figure": "in_flight" }, count(in_flight))),
      h("div", {}, h("dt", {}, "Failures in a row"), h("dd", { "data-figure": "consecutive_failures" },
        failure_threshold === null ? count(consecutive_failures) : `${consecutive_failures} of ${failure_threshold}`)),
      retry_in_ms === null ? null : h("div", {}, h("dt", {}, "Next probe in"), h("dd", {}, span(retry_in_ms))),
      h("div", {}, h("dt", {}, "Waited in all"), h("dd", { "data-figure": "waited_ms" }, span(waits.waited_ms))),
      h("div", {}, h("dt", {}, "Longest wait"), h("dd", { "data-figure": "max_us" }, duration(waits.max_us * 1000))),
      h("div", {}, h("dt", {}, "Most at once"), h("dd", { "data-figure": "most_waiting" }, count(most_waiting)))),
    histograms(circuit),
    givingUp(circuit));
}

// --- the same as a table --------------------------------------------------------------------------------------------

function happenings(report, circuit) {
  const list = circuit.states.filter((state) => state.reason !== null).map((state) => [state.from, state.forced ? `forced ${state.state}` : state.state,
    `${reason(state.reason)}${state.user ? `, ${state.user}` : ""}`]);
  for (const probe of circuit.probes) list.push([probe.at, "probe", `${process(report.processes[probe.process])}, ${probe.result ?? "not over"}`]);
  circuit.calls.outcome.forEach((outcome, i) => {
    const { name, verdict } = report.outcomes[outcome];
    if (verdict === "failure") list.push([circuit.calls.end[i], name, `${process(report.processes[circuit.calls.process[i]])}, after ${latency(circuit.calls.took[i])}${circuit.calls.late[i] ? ", too late to count" : ""}`]);
  });
  for (const reload of report.reloads) {
    if (reload.policy === circuit.policy && reload.owner === circuit.owner) list.push([reload.at, "reload", `policy handed over by ${reload.user}`]);
  }
  return list.sort((a, b) => a[0] - b[0]);
}

function asTable(report, circuit) {
  const details = h("details", { class: "table" }, h("summary", {}, "Changes and failures as a table"));
  details.addEventListener("toggle", () => {
    if (details.childElementCount > 1) return;
    const list = happenings(report, circuit);
    const left = list.length - EVENTS_MAX;
    details.append(h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `What happened to ${circuit.name}` },
      h("table", {}, h("thead", {}, h("tr", {}, ["Time", "What", "Why, who"].map((title) => h("th", { scope: "col" }, title)))),
        h("tbody", {}, list.slice(-EVENTS_MAX).map(([at, what, why]) =>
          h("tr", {}, h("td", {}, clock(report.from_ms + at, 3)), h("td", {}, what), h("td", {}, why)))))),
    left > 0 ? h("p", { class: "quiet" }, `The latest ${EVENTS_MAX}; ${count(left)} earlier ones are in the chart alone.`) : null);
  });
  return details;
}

// Of many the latest stand open, for a page that nobody reads to its end says nothing.
function incidents(report, circuit) {
  const cards = circuit.incidents.map((incident, i) => incidentCard(report, circuit, incident, i));
  if (cards.length <= INCIDENTS_MAX) return cards;
  const earlier = cards.slice(0, -INCIDENTS_SHOWN);
  return [h("details", { class: "table" }, h("summary", {}, `${count(earlier.length)} earlier incidents`), earlier),
    ...cards.slice(-INCIDENTS_SHOWN)];
}

export function circuitSection(report, circuit, open) {
  const other = circuit.name === circuit.destination ? null : h("span", { class: "destination" }, circuit.destination);
  const parts = [circuit.policy && h("span", {}, circuit.policy), circuit.owner && h("span", {}, `user ${circuit.owner}`)].filter(Boolean);
  return h("details", { class: "card circuit", id: circuit.id, open },
    h("summary", {}, h("h3", {}, circuit.name), other, circuit.now ? badge(circuit) : null,
      h("span", { class: "quiet" }, circuit.incidents.length > 0 ? calls(circuit.incidents.length, "incident", "incidents") : "no incident")),
    parts.length > 0 ? h("p", { class: "quiet where" }, parts) : null,
    legend("closed", "half-open", "open", "failure", ...(circuit.probes.length > 0 ? ["probe"] : [])),
    chart(report, circuit),
    incidents(report, circuit),
    figures(circuit),
    asTable(report, circuit));
}
