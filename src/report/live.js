// The live page: the document is fetched again and again from where the page was had, and the journal flows.
import { clearCharts, isWindowed } from "./chart.js";
import { circuitKey, journalText } from "./journal.js";
import { clock, count, h, visible } from "./format.js";
import { badge } from "./overview.js";
import { read } from "./model.js";

const EVERY_MS = 2000; // a new document; sooner when something happens, but never twice in half of that
const SPARK_MS = 180000; // a spark line shows so long
const JOURNAL_MAX = 200;
const WIDTH = 132;
const HEIGHT = 26;

const histories = new Map(); // by circuit: what it counted, look by look
const svg = "http://www.w3.org/2000/svg";

// --- what is in view stays as the reader left it ---------------------------------------------------------------------

function placesOf(main) {
  return [...main.querySelectorAll("details")].map((details, i) => [details.id || `${details.className} ${i}`, details.open]);
}

function keep(main, change) {
  const open = new Map(placesOf(main));
  const focus = document.activeElement?.id;
  const top = scrollY;
  change();
  [...main.querySelectorAll("details")].forEach((details, i) => {
    const was = open.get(details.id || `${details.className} ${i}`);
    if (was !== undefined) details.open = was;
  });
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  scrollTo({ top, behavior: "instant" });
}

// --- spark lines ------------------------------------------------------------------------------------------------------

// By the time at which it was told: a document may be a second old, or be had twice.
function note(report) {
  const at = Date.parse(report.made);
  for (const circuit of report.circuits) {
    if (!circuit.now) continue;
    const key = circuitKey(circuit);
    const { admitted, refused, failed } = circuit.now.counters;
    const history = histories.get(key) ?? { last: null, points: [] };
    if (history.last?.at >= at) continue;
    if (history.last) {
      const seconds = (at - history.last.at) / 1000;
      const rate = (now, before) => Math.max(now - before, 0) / seconds;
      history.points.push({ at, calls: rate(admitted + refused, history.last.admitted + history.last.refused),
        bad: rate(failed + refused, history.last.failed + history.last.refused) });
      history.points = history.points.filter((point) => at - point.at < SPARK_MS);
    }
    history.last = { at, admitted, refused, failed };
    histories.set(key, history);
  }
}

function path(points, name, most) {
  const now = points[points.length - 1].at;
  const place = ({ at, [name]: value }) => `${(WIDTH * (1 - (now - at) / SPARK_MS)).toFixed(1)},${(HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1)}`;
  const line = document.createElementNS(svg, "polyline");
  line.setAttribute("class", name);
  line.setAttribute("points", points.map(place).join(" "));
  return line;
}

function spark(points) {
  const picture = document.createElementNS(svg, "svg");
  const most = Math.max(1, ...points.map((point) => point.calls));
  picture.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  picture.setAttribute("class", "spark");
  picture.setAttribute("aria-hidden", "true");
  picture.append(path(points, "calls", most), path(points, "bad", most));
  return picture;
}

function perSecond(value) {
  return value >= 100 ? count(Math.round(value)) : value.toFixed(1);
}

export function sparks(report) {
  const rows = report.circuits.filter((circuit) => circuit.now).map((circuit) => {
    const points = histories.get(circuitKey(circuit))?.points ?? [];
    const last = points[points.length - 1];
    return h("tr", {}, h("th", { scope: "row", class: "name" }, h("a", { href: `#${circuit.id}` }, circuit.name)),
      h("td", {}, badge(circuit)),
      h("td", { class: "sparks" }, points.length > 1 ? spark(points) : ""),
      h("td", { class: "number" }, last ? perSecond(last.calls) : ""),
      h("td", { class: "number" }, last ? perSecond(last.bad) : ""),
      h("td", { class: "number" }, count(circuit.now.in_flight)));
  });
  return h("section", { class: "card", "aria-labelledby": "live-circuits" },
    h("div", { class: "head" }, h("h2", { id: "live-circuits" }, "Now"),
      h("ul", { class: "legend", "aria-hidden": "true" }, h("li", {}, h("i", { class: "key line" }), "calls"),
        h("li", {}, h("i", { class: "key line bad" }), "failed or refused"))),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Circuits now" },
      h("table", { class: "live numbers" },
        h("thead", {}, h("tr", {}, ["Circuit", "State", "Last 3 min", "Calls/s", "Failed/s", "In flight"]
          .map((title, i) => h("th", { scope: "col", class: i === 0 ? "name" : null }, title)))),
        h("tbody", {}, rows))));
}

// --- the journal ------------------------------------------------------------------------------------------------------

const list = h("ol", { class: "journal", "aria-live": "polite", "aria-label": "The journal, latest first" });
const empty = h("p", { class: "quiet" }, "Nothing has happened since this page was opened.");

export function journal() {
  return h("section", { class: "card", "aria-labelledby": "journal" }, h("h2", { id: "journal" }, "Journal"), empty, list);
}

function flow(message, at) {
  empty.hidden = true;
  list.prepend(h("li", {}, h("time", {}, clock(at, 3)), h("span", {}, message)));
  while (list.childElementCount > JOURNAL_MAX) list.lastElementChild.remove();
}

// --- the connection ---------------------------------------------------------------------------------------------------

const state = h("p", { class: "live-state", role: "status" });

function say(text, isWell) {
  state.textContent = text;
  state.classList.toggle("lost", !isWell);
}

export function connection() {
  return state;
}

export function follow(draw) {
  const main = document.getElementById("main");
  let asked = 0; // when the last document was asked for
  let seen = null;
  let timer = null;
  async function look() {
    asked = Date.now();
    try {
      const answer = await fetch("report.json", { cache: "no-store" });
      if (!answer.ok) throw new Error(await answer.text());
      const report = read(await answer.text());
      seen = Date.now();
      note(report);
      if (!isWindowed() && !main.matches(":active")) keep(main, () => {
        clearCharts();
        draw(report);
      });
      say(`Live: as of ${clock(seen)}${isWindowed() ? ", held while a part of the time is shown" : ""}`, true);
    } catch (error) {
      say(seen === null ? `The agent does not answer: ${visible(String(error.message))}`
        : `Not live: the agent does not answer since ${clock(seen)}. What follows is as it was then.`, false);
    }
    plan(EVERY_MS);
  }
  function plan(after) {
    clearTimeout(timer);
    timer = document.hidden ? null : setTimeout(look, after);
  }
  const stream = new EventSource("events");
  stream.onmessage = ({ data }) => {
    const event = JSON.parse(data, (key, value) => (typeof value === "string" ? visible(value) : value));
    flow(journalText(event), Date.parse(event.time));
    plan(Math.max(0, EVERY_MS / 2 - (Date.now() - asked)));
  };
  stream.addEventListener("missed", ({ data }) => flow(`${count(JSON.parse(data).missed)} events came too fast to be shown`, Date.now()));
  stream.addEventListener("restarted", () => flow("the agent was started anew", Date.now()));
  document.addEventListener("visibilitychange", () => plan(0));
  look();
}
