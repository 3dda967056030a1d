// The page: what the document says, from the whole to the single circuit.
import { onWindow, setWindow } from "./chart.js";
import { cascade } from "./cascade.js";
import { circuitSection } from "./circuit.js";
import { calls, clock, count, day, h, span, zone } from "./format.js";
import { connection, follow, journal, sparks } from "./live.js";
import { load } from "./model.js";
import { overview, tiles } from "./overview.js";
import { waitingNow } from "./waiting.js";
import { startTheme } from "./theme.js";

const OPEN_MAX = 4; // more circuits are folded

function range(report) {
  const { from_ms: from, to_ms: to } = report;
  const same = day(from) === day(to);
  const source = report.files.length > 0 ? `from ${report.files.map((file) => (file === "-" ? "standard input" : file)).join(", ")}`
    : `of ${calls(report.status?.length ?? 0, "policy", "policies")} in use`;
  return [h("strong", {}, `${day(from)} ${clock(from)} – ${same ? "" : `${day(to)} `}${clock(to)}`),
    ` (${span(to - from)}, ${zone(from)}), ${source}; made ${day(Date.parse(report.made))} ${clock(Date.parse(report.made))} by sockfuse ${report.version}`];
}

function nothing() {
  return h("p", { class: "card" }, "Nothing is told here: no event, and no circuit in use.");
}

function windowBar() {
  const text = h("span", {});
  const bar = h("div", { class: "window screen", hidden: true, role: "status" }, text,
    h("button", { type: "button", onclick: () => setWindow(null) }, "Show all"));
  onWindow((shown) => {
    bar.hidden = shown === null;
    if (shown) text.textContent = `${clock(shown[0], 3)} – ${clock(shown[1], 3)} (${span(shown[1] - shown[0])})`;
  });
  return bar;
}

// What a link leads to is unfolded.
function unfold() {
  const target = document.getElementById(location.hash.slice(1));
  if (target?.matches("details.circuit")) {
    target.open = true;
    target.scrollIntoView();
  }
}

// `live`: what a live page has above all.
function parts(report, live) {
  if (report.circuits.length === 0) return [...live, nothing()];
  const affected = report.circuits.filter((circuit) => circuit.incidents.length > 0).length;
  const unfolded = Math.max(1, Math.min(affected, OPEN_MAX));
  return [
    ...live,
    tiles(report),
    waitingNow(report),
    overview(report),
    cascade(report),
    report.calls_drawn < report.calls_told ? h("p", { class: "note" },
      `Of ${count(report.calls_told)} calls ${count(report.calls_drawn)} are drawn, failures before others; figures of incidents are of all.`) : null,
    h("h2", { class: "parts" }, "Circuits, one by one"),
    ...report.circuits.map((circuit, i) => circuitSection(report, circuit, i < unfolded)),
    window_,
  ].filter(Boolean);
}

function draw(report, live = []) {
  if (report.circuits.length > 0) document.getElementById("range").replaceChildren(...range(report));
  document.getElementById("main").replaceChildren(...parts(report, live));
}

function startLive() {
  const flowing = journal();
  document.title = document.querySelector("h1").textContent = "sockfuse";
  document.getElementById("main").replaceChildren(connection(), flowing);
  follow((report) => draw(report, [connection(), sparks(report), flowing]));
}

function start() {
  const report = load();
  startTheme();
  if (report.live) startLive();
  else draw(report);
  addEventListener("hashchange", unfold);
  if (report.circuits?.length === 0) return;
  unfold();
  document.documentElement.dataset.ready = "true";
}

const window_ = windowBar();
start();
