// The calls that were in flight when the report was made: who waits for whom, since when.
import { calls, count, h, process, span } from "./format.js";

const ROWS_MAX = 50;

const PHASES = { connect: "to be connected", greeting: "for a greeting", answer: "for an answer" };

function row(report, call) {
  const circuit = report.circuits.find((one) => one.waits.includes(call));
  return h("tr", {},
    h("th", { scope: "row" }, process(call), call.probe ? h("span", { class: "quiet" }, " (probe)") : null),
    h("td", {}, circuit ? h("a", { href: `#${circuit.id}` }, call.destination) : call.destination),
    h("td", {}, PHASES[call.phase] ?? call.phase),
    h("td", { class: "number" }, span(call.waited_ms)),
    h("td", { class: "number" }, call.limit_ms === null ? "none" : span(call.limit_ms)),
    h("td", {}, call.overdue ? h("span", { class: "badge open" }, "overdue") : ""));
}

export function waitingNow(report) {
  const waits = report.in_flight ?? [];
  if (waits.length === 0) return null;
  const overdue = waits.filter((call) => call.overdue).length;
  const left = waits.length - ROWS_MAX;
  return h("section", { class: "card", "aria-labelledby": "waiting" },
    h("h2", { id: "waiting" }, "In flight when this was made"),
    h("p", {}, `${calls(waits.length)}${overdue > 0 ? `, ${count(overdue)} overdue` : ""}, the oldest for ${span(waits[0].waited_ms)}.`),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Calls in flight" },
      h("table", {},
        h("thead", {}, h("tr", {}, ["Who", "For whom", "Waits"].map((title) => h("th", { scope: "col" }, title)),
          ["Since", "Limit"].map((title) => h("th", { scope: "col", class: "number" }, title)), h("th", { scope: "col" }, h("span", { class: "hidden" }, "Overdue")))),
        h("tbody", {}, waits.slice(0, ROWS_MAX).map((call) => row(report, call))))),
    left > 0 ? h("p", { class: "quiet" }, `The ${ROWS_MAX} longest; ${count(left)} more.`) : null);
}
