// What an incident was, in a sentence and in figures, and who waited.
import { setWindow } from "./chart.js";
import { calls, clock, count, h, process, reason, span } from "./format.js";

const PROCESSES_MAX = 12;

function cause(incident) {
  if (incident.opened === null) return "It had begun before these events do.";
  const kinds = incident.kinds.map(({ name, calls: number }) => `${count(number)} × ${name}`).join(", ");
  const rate = incident.window && incident.reason !== "failure-threshold"
    ? ` (${count(incident.reason === "slow-call-rate" ? incident.window.slow : incident.window.failed)} of ${calls(incident.window.calls)})` : "";
  const why = incident.reason === "failure-threshold" ? calls(incident.counted, "failure", "failures in a row") : `the ${reason(incident.reason)}${rate}`;
  return `Opened by ${why}${kinds ? `; failed in all: ${kinds}` : ""}${incident.injected ? "; faults of a rehearsal" : ""}.`;
}

function figure(name, title, value, note) {
  return h("div", {}, h("dt", {}, title), h("dd", { "data-figure": name }, h("strong", {}, value), note ? h("span", {}, note) : null));
}

function bar(value, most, kind) {
  const line = h("i", { class: `bar ${kind}` });
  line.style.width = `${most > 0 ? Math.max((100 * value) / most, value > 0 ? 1 : 0) : 0}%`;
  return h("span", { class: "track", "aria-hidden": "true" }, line);
}

function row(title, subtitle, waited, without, most) {
  return h("tr", {}, h("th", { scope: "row" }, title), h("td", { class: "number" }, subtitle),
    h("td", {}, bar(waited, most, "with"), h("span", { class: "value" }, span(waited))),
    without === undefined ? null : h("td", {}, without === null ? "" : [bar(without, most, "without"), h("span", { class: "value" }, `about ${span(without)}`)]));
}

// One scale for all, so that bars compare.
function waiting(incident) {
  if (incident.processes.length === 0) return null;
  const known = incident.without_ms !== null;
  const shown = incident.processes.slice(0, PROCESSES_MAX);
  const rest = incident.processes.slice(PROCESSES_MAX);
  const most = Math.max(...shown.map((one) => Math.max(one.waited_ms, one.without_ms ?? 0)), 1);
  const sum = (name) => rest.reduce((all, one) => all + (one[name] ?? 0), 0);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Waiting time by process" },
    h("table", { class: "waiting" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Process"), h("th", { scope: "col", class: "number" }, "Failed calls"),
        h("th", { scope: "col" }, "Waited"), known ? h("th", { scope: "col" }, "Without the circuit") : null)),
      h("tbody", {}, shown.map((one) => row(process(one), count(one.calls), one.waited_ms, known ? one.without_ms : undefined, most)),
        rest.length > 0 ? h("tr", {}, h("th", { scope: "row" }, `${count(rest.length)} more`), h("td", { class: "number" }, count(sum("calls"))),
          h("td", {}, span(sum("waited_ms"))), known ? h("td", {}, `about ${span(sum("without_ms"))}`) : null) : null)));
}

export function incidentCard(report, circuit, incident, number) {
  const base = report.from_ms;
  const from = incident.opened ?? incident.from;
  const until = incident.ended === null ? (report.status && incident === circuit.incidents[circuit.incidents.length - 1] ? "now" : "the end of these events")
    : clock(base + incident.ended);
  const edge = Math.max((incident.to - incident.from) * 0.15, 200);
  const hanging = incident.hanging > 0 ? "≥ " : "";
  return h("article", { class: "incident", "aria-label": `Incident ${number + 1} of ${circuit.name}` },
    h("div", { class: "head" },
      h("h4", {}, `Incident ${number + 1}`, h("span", { class: "quiet" }, ` ${incident.opened === null ? "until" : `${clock(base + from)} –`} ${until}`)),
      h("button", { type: "button", class: "screen", onclick: (event) => {
        setWindow([Math.max(base + incident.from - edge, base), Math.min(base + incident.to + edge, report.to_ms)]);
        event.target.closest(".circuit").querySelector(".chart").focus();
      } }, "Show in the chart")),
    h("p", {}, cause(incident)),
    h("dl", { class: "figures" },
      incident.lasted_ms === null ? null : figure("lasted", incident.ended === null ? "Lasts so far" : "Lasted", span(incident.lasted_ms)),
      incident.detect_ms === null ? null : figure("detect", "Time to detect", span(incident.detect_ms)),
      figure("leaked", "Leaked after opening", calls(incident.leaked), incident.leaked > 0 ? `${span(incident.leaked_ms)} of waiting` : null),
      figure("probes", "Probes", count(incident.probes), incident.probes_failed > 0 ? `${count(incident.probes_failed)} failed` : null),
      incident.refused === null ? null : figure("refused", "Refused at once", `${incident.ended === null && !circuit.now ? "≥ " : ""}${calls(incident.refused)}`),
      figure("waited", "Waited", `${hanging}${span(incident.waited_ms)}`),
      incident.without_ms === null ? null : figure("without", "Without the circuit", `about ${span(incident.without_ms)}`,
        incident.at_most_ms > incident.without_ms ? `${span(incident.at_most_ms)} had all that was refused waited` : null)),
    waiting(incident));
}
