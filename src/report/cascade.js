// The chain of a cascade with its root: who waits for whom now, and who called whom in vain during an outage. It is a
// tree of lists, so that it reads, wraps and prints as text does.
import { calls, clock, count, h, span } from "./format.js";
import { inversions } from "./giving_up.js";

const DEPTH_MAX = 12;

const VIEWS = {
  elsewhere: "on another host",
  "other-network": "in another network name space or container",
  unserved: "nobody listens there",
  hidden: "another user's program",
  unknown: "who listens there is not known",
};

// `say`: what is to be said of a destination, or of the root.
const PAST = { one: "call failed", many: "calls failed", wait: "longest wait", overdue: "hung" };
const GOING = { ...PAST, one: "call failed or waits", many: "calls failed or wait" };
const NOW = { one: "call waits", many: "calls wait", wait: "oldest", overdue: "overdue", isNow: true,
  say: (place, root) => (root ? silence(place) : null) };

function programOf(group) {
  return group.program || "?";
}

// How many of its processes; of an outage the processes of then may be gone.
function share(group, words) {
  if (!words.isNow || group.waiting === 0) return null;
  return group.workers > 1 && group.waiting <= group.workers ? `${count(group.waiting)} of ${count(group.workers)} workers wait`
    : calls(group.waiting, "process waits", "processes wait");
}

// Of an outage, how the calls to a destination failed, if all of them are drawn.
function kindsOf(report, { from, to }) {
  if (report.calls_drawn < report.calls_told) return () => null;
  return ({ destination }) => {
    const kinds = new Map();
    for (const { destination: other, calls: all } of report.circuits) {
      if (other !== destination) continue;
      all.end.forEach((end, i) => {
        const { name, verdict } = report.outcomes[all.outcome[i]];
        if (verdict === "failure" && end >= from && end - all.took[i] <= to) kinds.set(name, (kinds.get(name) ?? 0) + 1);
      });
    }
    return [...kinds].sort((a, b) => b[1] - a[1]).map(([name, number]) => `${count(number)} × ${name}`).join(", ");
  };
}

function silence({ calls: all, connect }) {
  if (connect === 0) return "connected and silent";
  return connect === all ? "no connection" : `${count(all - connect)} connected and silent, ${count(connect)} without a connection`;
}

// By which names policies call it, if they give it one.
const namesOf = (place) => place.targets.filter((name) => name !== place.destination).join(", ") || null;

// A box: the program, and the destination by which it is called, if it is called.
function box(tree, group, place, words) {
  const root = place && tree.root?.place === place.id;
  const name = group ? programOf(group) : namesOf(place);
  const notes = [place ? words.say(place, root) : null, group ? share(group, words) : VIEWS[place.seen],
    group && !group.guarded ? "its own calls are not seen" : null].filter(Boolean);
  return h("div", { class: root ? "node root" : "node" },
    root ? h("span", { class: "badge open" }, "root") : null,
    name ? h("strong", {}, name) : null,
    place ? h("span", { class: "destination" }, place.destination) : null,
    notes.length > 0 ? h("span", { class: "quiet" }, notes.join("; ")) : null);
}

function arrow(wait, words) {
  return h("div", { class: "arrow" },
    h("span", {}, calls(wait.calls, words.one, words.many)),
    h("span", { class: "quiet" }, `${words.wait} ${span(wait.oldest_ms)}`),
    wait.overdue > 0 ? h("span", { class: "late" }, `${count(wait.overdue)} ${words.overdue}`) : null);
}

// Whom a program waits for; one that stands above already is not drawn again.
function below(tree, group, words, above) {
  const waits = tree.waits.filter((wait) => wait.group === group.id);
  if (waits.length === 0) return null;
  if (above.has(group.id) || above.size > DEPTH_MAX) return h("p", { class: "quiet" }, "a circle: it stands above");
  const path = new Set(above).add(group.id);
  return h("ul", {}, waits.map((wait) => {
    const place = tree.places.find((one) => one.id === wait.place);
    const server = tree.groups.find((one) => one.id === place.served_by);
    return h("li", {}, arrow(wait, words), box(tree, server, place, words), server ? below(tree, server, words, path) : null);
  }));
}

// Those for whom nobody waits come first; in a circle there is none, so it begins anywhere.
function heads(tree) {
  const waiting = tree.groups.filter((group) => tree.waits.some((wait) => wait.group === group.id));
  const called = new Set(tree.places.map((place) => place.served_by));
  const first = waiting.filter((group) => !called.has(group.id));
  return first.length > 0 ? first : waiting.slice(0, 1);
}

function sentence(tree, words) {
  if (!tree.root) return tree.circle ? "No root: they wait for each other in a circle." : null;
  const place = tree.places.find((one) => one.id === tree.root.place);
  const server = tree.groups.find((one) => one.id === place.served_by);
  const name = server ? programOf(server) : namesOf(place);
  const { calls: number, programs, oldest_ms: oldest } = tree.root;
  const others = tree.places.filter((one) => !tree.waits.some((wait) => wait.group === one.served_by)).length - 1;
  const [noun, ...verb] = (number === 1 ? words.one : words.many).split(" ");
  return [h("strong", {}, `Root: ${place.destination}`), name ? ` (${name})` : "",
    others > 0 ? `, and ${calls(others, "other", "others")} for which fewer do` : "",
    `: ${count(number)} ${noun} of ${calls(programs, "program", "programs")} ${verb.join(" ")}, straight or through others; ${words.wait} ${span(oldest)}.`];
}

function picture(tree, words) {
  return h("div", { class: "scroll chain", tabindex: 0, role: "region", "aria-label": "Who waits for whom" },
    h("ul", {}, heads(tree).map((group) => h("li", {}, box(tree, group, null, words), below(tree, group, words, new Set())))));
}

function drawn(report, title, tree, words) {
  return h("article", {}, h("h3", { class: "line" }, title), h("p", {}, sentence(tree, words)), picture(tree, words), inversions(report, tree));
}

// One call to one destination of which no more is known is no chain.
function isChain({ cascade: tree }) {
  return tree.waits.length > 1 || tree.places.some((place) => place.served_by !== null || place.seen === "unserved");
}

export function cascade(report) {
  const past = (report.chains ?? []).filter(isChain).reverse();
  if (!report.cascade && past.length === 0) return null;
  const words = (chain) => ({ ...(chain.in_flight > 0 ? GOING : PAST), say: kindsOf(report, chain) });
  const title = ({ from, to }) => `Outage ${clock(report.from_ms + from)} – ${clock(report.from_ms + to)}`;
  return h("section", { class: "card", "aria-labelledby": "cascade" },
    h("h2", { id: "cascade" }, "Who waited for whom"),
    report.cascade ? drawn(report, "When this was made", report.cascade, NOW) : null,
    past.length > 0 ? drawn(report, title(past[0]), past[0].cascade, words(past[0])) : null,
    past.slice(1).map((chain) => h("details", { class: "table" }, h("summary", {}, title(chain)),
      h("p", {}, sentence(chain.cascade, words(chain))), picture(chain.cascade, words(chain)))));
}
