// An event of the journal (`sockfuse events --json`) as a line of text.
import { latency, process, reason } from "./format.js";

export function circuitKey({ policy, owner, target, destination }) {
  return JSON.stringify([policy, owner, target, destination]);
}

// What happened, in the words of the event's own members; a type that is not known here is shown by its name.
const WHAT = {
  failure: ({ kind, elapsed_ms: ms, late }) => `${kind} after ${latency(ms)}${late ? ", too late to count" : ""}`,
  outcome: ({ verdict, kind, reason: why, elapsed_ms: ms }) => `${verdict}${kind ? `, ${kind}` : why ? `, ${why}` : ""} after ${latency(ms)}`,
  open: ({ reason: why }) => `opened: ${reason(why)}`,
  close: ({ reason: why }) => `closed: ${reason(why)}`,
  "half-open": ({ reason: why }) => `half-open: ${reason(why)}`,
  forced: ({ state, user }) => `forced ${state ?? ""}${user ? ` by ${user}` : ""}`,
};

export function journalText(event) {
  const what = WHAT[event.event]?.(event) ?? [event.event, event.kind ?? event.reason, event.result].filter(Boolean).join(", ");
  const name = event.destination ? (event.target && event.target !== event.destination ? `${event.target} (${event.destination})` : event.destination) : "";
  const who = event.program ? ` – ${process({ program: event.program, pid: event.pid ?? 0 })}` : "";
  return `${name ? `${name}: ` : ""}${what}${who}`;
}
