// The document that the command put into the page, with what the page adds to it.
import { visible } from "./format.js";

export function load() {
  return read(document.getElementById("report-data").textContent);
}

export function read(text) {
  const report = JSON.parse(text, (key, value) => (typeof value === "string" ? visible(value) : value));
  if (!report.circuits) return report; // of a live page, which has nothing yet
  for (const circuit of report.circuits) {
    circuit.now = present(report, circuit);
    circuit.latencies = report.latencies?.find((one) => isOf(one, circuit));
    circuit.waits = (report.in_flight ?? []).filter((call) => isOf(call, circuit));
    circuit.sums = sums(report, circuit);
    circuit.name = circuit.target === circuit.destination || circuit.target === "" ? circuit.destination : circuit.target;
  }
  report.circuits.sort(worseFirst);
  report.circuits.forEach((circuit, number) => {
    circuit.id = `circuit-${number + 1}`;
  });
  return report;
}

function isOf(one, circuit) {
  return one.target === circuit.target && one.destination === circuit.destination && one.policy === circuit.policy && one.owner === circuit.owner;
}

// The circuit as `status --json` has it; undefined where only files were told of.
function present(report, circuit) {
  const policy = report.status?.find((one) => one.policy === circuit.policy && one.user === circuit.owner);
  return policy?.circuits.find((one) => one.target === circuit.target && one.destination === circuit.destination);
}

function sums(report, circuit) {
  const { calls, states, incidents } = circuit;
  const sum = { failures: 0, kinds: new Map(), open: 0, going: false, refused: 0, waited: 0, took: [] };
  calls.end.forEach((end, i) => {
    const outcome = report.outcomes[calls.outcome[i]];
    if (outcome.verdict === "failure") {
      sum.failures += 1;
      sum.kinds.set(outcome.name, (sum.kinds.get(outcome.name) ?? 0) + 1);
    }
    if (outcome.verdict === "success" || outcome.verdict === "business") sum.took.push(calls.took[i]);
  });
  sum.took.sort((a, b) => a - b);
  sum.kinds = new Map([...sum.kinds].sort((a, b) => b[1] - a[1]));
  for (const state of states) if (state.state === "open" || state.state === "half-open") sum.open += state.to - state.from;
  for (const incident of incidents) {
    sum.refused += incident.refused ?? 0;
    sum.waited += incident.waited_ms;
  }
  const last = incidents[incidents.length - 1];
  sum.going = last !== undefined && last.ended === null;
  return sum;
}

function worseFirst(a, b) {
  return b.sums.going - a.sums.going || b.incidents.length - a.incidents.length || b.sums.open - a.sums.open ||
    b.sums.failures - a.sums.failures || a.name.localeCompare(b.name);
}

// The value below which so much of them lies, by nearest rank; of no value there is none.
export function quantile(sorted, part) {
  return sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)];
}

// Calls waiting at once, as steps: [when, how many]. One in flight that was charged is among the calls until then.
export function waitingSteps({ calls, waits }, from_ms) {
  const changes = waits.map((call) => [Date.parse(call.since) - from_ms + (call.charged ? call.limit_ms ?? 0 : 0), 1]);
  calls.end.forEach((end, i) => {
    if (calls.took[i] > 0) changes.push([end - calls.took[i], 1], [end, -1]);
  });
  changes.sort((a, b) => a[0] - b[0]);
  const steps = [];
  let waiting = 0;
  for (const [at, change] of changes) {
    waiting += change;
    if (steps.length > 0 && steps[steps.length - 1][0] === at) steps[steps.length - 1][1] = waiting;
    else steps.push([at, waiting]);
  }
  return steps;
}
