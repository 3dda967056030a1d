// Timeouts as they really are: after how long each program was seen to give up, and where a caller gives up before the
// program that it calls does, so that this one works for nobody.
import { calls, h, span } from "./format.js";

const WAITS = { connect: "to be connected", answer: "for an answer" };
const PLAIN_PART = 0.1; // a smaller difference is none

// The longest wait that was seen, whoever ended it.
function longest({ gave_up, waited_longer, kernel_gave_up, limit_enforced, waiting_ms }) {
  return Math.max(0, ...[gave_up, waited_longer, kernel_gave_up, limit_enforced].map((one) => one?.longest_ms ?? 0), waiting_ms ?? 0);
}

function given({ gave_up: seen }) {
  if (seen === null) return "never seen to";
  const range = seen.shortest_ms < seen.longest_ms ? ` (${span(seen.shortest_ms)} to ${span(seen.longest_ms)})` : "";
  return `after ${span(seen.median_ms)}${range}, ${calls(seen.count, "time", "times")}`;
}

export function givingUp(circuit) {
  const list = circuit.now?.timeouts ?? [];
  if (list.length === 0) return null;
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "After how long programs give up" },
    h("table", { "data-figure": "timeouts" },
      h("thead", {}, h("tr", {}, ["Program", "Waits", "Gives up"].map((title) => h("th", { scope: "col" }, title)),
        h("th", { scope: "col", class: "number" }, "Longest wait seen"))),
      h("tbody", {}, list.map((one) => h("tr", {}, h("th", { scope: "row" }, one.program), h("td", {}, WAITS[one.waits_for] ?? one.waits_for),
        h("td", {}, given(one)), h("td", { class: "number" }, span(longest(one))))))));
}

// How a program waits for the answers of a destination; undefined: that is not known.
function patience(report, group, place) {
  return report.circuits.filter((circuit) => circuit.destination === place.destination && place.targets.includes(circuit.target))
    .flatMap((circuit) => circuit.now?.timeouts ?? []).find((one) => one.program === group.program && one.waits_for === "answer");
}

function inversion(report, tree, wait, next) {
  const group = (id) => tree.groups.find((one) => one.id === id);
  const place = tree.places.find((one) => one.id === wait.place);
  const further = tree.places.find((one) => one.id === next.place);
  const [caller, server] = [group(wait.group), group(place.served_by)];
  const seen = patience(report, caller, place)?.gave_up;
  const behind = patience(report, server, further);
  if (!seen || !behind) return null;
  const waits = behind.gave_up ? behind.gave_up.median_ms : longest(behind);
  const idle = waits - seen.median_ms;
  if (idle < PLAIN_PART * seen.median_ms) return null;
  return `${caller.program} gives up on ${server.program} after ${span(seen.median_ms)}, ${server.program} ${behind.gave_up ? "waits" : "was seen to wait"} `
    + `${span(waits)} for ${further.destination}${behind.gave_up ? "" : " and was never seen to give up"}: ${span(idle)} of work for nobody`
    + `, ${calls(seen.count, "time", "times")}`;
}

// Along a chain, in words.
export function inversions(report, tree) {
  const found = tree.waits.flatMap((wait) => {
    const server = tree.places.find((one) => one.id === wait.place).served_by;
    return server === null ? [] : tree.waits.filter((next) => next.group === server).map((next) => inversion(report, tree, wait, next));
  }).filter(Boolean);
  return found.length > 0 ? h("ul", { class: "inversions" }, found.map((text) => h("li", {}, text))) : null;
}
