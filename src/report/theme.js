// Light, dark, or as the system has it. The colours stand in page.css alone; charts ask for them here.

const root = document.documentElement;
const KEY = "sockfuse-report-theme";
const listeners = [];
let printing = false;

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // a page from disk may have no storage
  }
}

function apply(choice) {
  if (choice === "auto") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", choice);
}

function changed() {
  for (const listener of listeners) listener();
}

export function onTheme(listener) {
  listeners.push(listener);
}

// Paper is white, whatever the screen is.
export function printTheme(on) {
  printing = on;
  root.toggleAttribute("data-print", on);
}

export function colours() {
  const style = getComputedStyle(root);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    background: of("surface"), ink: of("ink"), quiet: of("quiet"), line: of("line"), grid: of("grid"), accent: of("accent"),
    closed: of("closed"), open: of("open"), "half-open": of("half-open"), unknown: of("unknown"),
    failure: of("open"), success: of("closed-strong"), neutral: of("quiet"), business: of("accent"),
    waiting: of("accent"), refused: of("refused"), shade: of("shade"),
  };
}

export function startTheme() {
  const choices = [...document.querySelectorAll("input[name=theme]")];
  const first = ["light", "dark"].includes(stored()) ? stored() : "auto";
  for (const choice of choices) {
    choice.checked = choice.value === first;
    choice.addEventListener("change", () => {
      apply(choice.value);
      try {
        localStorage.setItem(KEY, choice.value);
      } catch {
        // then it holds until the page is closed
      }
      changed();
    });
  }
  apply(first);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => printing || changed());
}
