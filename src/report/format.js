// How times, spans and names are written, and elements made. Nothing here is markup: texts become text nodes.

// Controls, and marks that change the order of reading, are shown by their numbers: names come from anywhere.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text) {
  return text.replace(HIDDEN, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const pad = (number, digits = 2) => String(number).padStart(digits, "0");
const NARROW = "\u202f";

// "850 ms", "7.3 s", "2 min 05 s": two units at the most.
export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)}${NARROW}ms`;
  if (ms < 60000) return `${(Math.floor(ms / 100) / 10).toFixed(1)}${NARROW}s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}${NARROW}min ${pad(seconds % 60)}${NARROW}s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}${NARROW}h ${pad(Math.floor(seconds / 60) % 60)}${NARROW}min`;
  return `${Math.floor(seconds / 86400)}${NARROW}d ${pad(Math.floor(seconds / 3600) % 24)}${NARROW}h`;
}

// Of a call: events have whole milliseconds.
export function latency(ms) {
  return ms < 1 ? `<${NARROW}1${NARROW}ms` : span(ms);
}

export function count(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, NARROW);
}

export function calls(number, one = "call", many = "calls") {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function day(ms) {
  const date = new Date(ms);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

export function clock(ms, digits = 0) {
  const date = new Date(ms);
  const whole = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return digits > 0 ? `${whole}.${pad(date.getMilliseconds(), 3)}` : whole;
}

// The zone of the reader, as an offset.
export function zone(ms) {
  const minutes = -new Date(ms).getTimezoneOffset();
  const size = Math.abs(minutes);
  return minutes === 0 ? "UTC" : `UTC${minutes < 0 ? "−" : "+"}${pad(Math.floor(size / 60))}:${pad(size % 60)}`;
}

export function process({ program, pid }) {
  return program === "" && pid === 0 ? "unknown process" : `${program || "?"}[${pid || "?"}]`;
}

const REASONS = {
  "failure-threshold": "failures in a row",
  "failure-rate": "failure rate",
  "slow-call-rate": "slow-call rate",
  "pause-over": "the pause was over",
  "probe-failed": "the probe failed",
  "probe-timeout": "the probe had no answer in time",
  "probe-succeeded": "the probe succeeded",
  "forced": "forced by an operator",
  "force-ended": "the operator's word ended",
  "fleet": "another host's probe succeeded",
  "fleet-open": "open in the fleet",
  "fleet-probe": "this host probes for the fleet",
  "fleet-closed": "not open in the fleet any more",
  "ran-out": "the agent did not say it again",
  "given-up": "the agent has no more to say",
};

export function reason(name) {
  return REASONS[name] ?? name ?? "";
}
