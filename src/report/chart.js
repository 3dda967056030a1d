// Charts: which parts of ECharts are used, and what all charts of the page have in common: one window of time, the theme,
// the keyboard, print. A chart is made when it comes into view.
import { CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { DataZoomInsideComponent, DataZoomSliderComponent, GridComponent, TooltipComponent } from "echarts/components";
import * as core from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { clock, day, h, span } from "./format.js";
import { colours, onTheme, printTheme } from "./theme.js";

core.use([CustomChart, LineChart, ScatterChart, DataZoomInsideComponent, DataZoomSliderComponent, GridComponent,
  TooltipComponent, CanvasRenderer]);

export const NARROW = 620;
const PRINT_WIDTH = 1000;
const charts = [];
let shown = null; // the window of time of all charts: [from, to], or null for all of it
const windowListeners = [];

export function onWindow(listener) {
  windowListeners.push(listener);
}

export function isWindowed() {
  return shown !== null;
}

// Those that are drawn are about to be replaced.
export function clearCharts() {
  for (const chart of charts) {
    observer.unobserve(chart.box);
    resizes.unobserve(chart.box);
    chart.made?.dispose();
  }
  charts.length = 0;
}

let passingOn = false; // a chart that is told of the window says that it changed

export function setWindow(range, source) {
  if (passingOn) return;
  passingOn = true;
  shown = range;
  for (const chart of charts) if (chart.made && chart !== source) showWindow(chart);
  passingOn = false;
  for (const listener of windowListeners) listener(shown);
}

// What is out of view follows when it comes into view.
function showWindow(chart) {
  if (chart.inView) applyWindow(chart);
  else chart.stale = true;
}

function applyWindow(chart) {
  chart.stale = false;
  const [startValue, endValue] = shown ?? chart.range;
  chart.made.dispatchAction({ type: "dataZoom", startValue, endValue });
}

// A time under an axis: no finer than what lies between two of them.
function timeLabel(range) {
  return (value) => {
    const [from, to] = shown ?? range;
    const long = to - from;
    return long > 36 * 3600e3 ? `${day(value).slice(5)} ${clock(value).slice(0, 5)}`
      : long > 1800e3 ? clock(value).slice(0, 5) : long > 4e3 ? clock(value) : clock(value, 3).slice(6);
  };
}

// What all time axes have; `labelled`: the lowest one.
export function timeAxis(palette, range, gridIndex, labelled, narrow) {
  return {
    type: "time", gridIndex, min: range[0], max: range[1],
    axisLine: { lineStyle: { color: palette.line } },
    axisTick: { show: labelled, lineStyle: { color: palette.line } },
    splitLine: { show: true, lineStyle: { color: palette.grid } },
    splitNumber: narrow ? 3 : 8,
    axisLabel: { show: labelled, color: palette.quiet, hideOverlap: true, fontSize: 12, formatter: timeLabel(range) },
    axisPointer: { snap: false, label: { show: labelled, formatter: ({ value }) => clock(value, 3) } },
  };
}

// `top`: null on paper, where nothing is moved.
export function zoomParts(palette, axes, top, left, right, labels) {
  if (top === null) return [{ type: "inside", xAxisIndex: axes, filterMode: "none" }];
  return [
    { type: "inside", xAxisIndex: axes, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false,
      preventDefaultMouseMove: false },
    { type: "slider", xAxisIndex: axes, filterMode: "none", top, left, right, height: 18, showDataShadow: false,
      brushSelect: false, borderColor: palette.line, fillerColor: palette.shade, backgroundColor: "transparent",
      handleStyle: { color: palette.background, borderColor: palette.quiet },
      moveHandleStyle: { color: palette.quiet, opacity: 0.5 }, moveHandleSize: 5,
      textStyle: { color: palette.quiet, fontSize: 11 }, showDetail: labels, labelFormatter: (value) => clock(value) },
  ];
}

export function tooltipParts(palette) {
  return {
    confine: true, backgroundColor: palette.background, borderColor: palette.line, padding: [6, 10],
    textStyle: { color: palette.ink, fontSize: 13 }, extraCssText: "max-width:min(340px,80vw);white-space:normal",
  };
}

// Lines of text as an element: nothing that came from outside is read as markup.
export function lines(...texts) {
  return h("div", {}, texts.filter(Boolean).map((text, i) => (i === 0 ? h("strong", {}, text) : h("div", {}, text))));
}

// A state's shape says it too, not its colour alone: open is high, closed is low.
const HEIGHTS = { closed: 0.3, open: 1, "half-open": 0.65, unknown: 0.12 };

export function stateSeries(palette, base, rows, height, axis = 0) {
  const states = rows.flatMap((row) => row.states);
  return {
    type: "custom", name: "states", xAxisIndex: axis, yAxisIndex: axis, clip: true, silent: false,
    encode: { x: [0, 1], y: 2 },
    data: rows.flatMap(({ row, states: own }) => own.map((state) => ({
      value: [base + state.from, base + state.to, row], state,
    }))),
    renderItem(params, api) {
      const item = states[params.dataIndex];
      const from = api.coord([api.value(0), api.value(2)]);
      const to = api.coord([api.value(1), api.value(2)]);
      const high = height * HEIGHTS[item.state];
      const area = params.coordSys;
      const left = Math.max(from[0], area.x);
      const right = Math.min(Math.max(to[0], from[0] + 2), area.x + area.width);
      if (right <= left) return null;
      const shape = { x: left, y: from[1] + height / 2 - high, width: right - left, height: high };
      const style = { fill: palette[item.state] };
      const parts = [{ type: "rect", shape, style }];
      if (item.forced) parts.push(hatch(shape, palette));
      const word = item.forced ? `forced ${item.state}` : item.state;
      if (shape.width > 70 && item.state !== "closed" && item.state !== "unknown" && high > 11) {
        parts.push({ type: "text", silent: true, style: { text: word, x: shape.x + 6, y: shape.y + high / 2,
          fill: palette.background, fontSize: 11, fontWeight: 600, verticalAlign: "middle", width: shape.width - 8,
          overflow: "truncate" } });
      }
      return { type: "group", children: parts };
    },
  };
}

// Stripes over what an operator forced.
function hatch(shape, palette) {
  const children = [];
  for (let x = shape.x - shape.height; x < shape.x + shape.width; x += 7) {
    children.push({ type: "line", silent: true, style: { stroke: palette.background, lineWidth: 1.5, opacity: 0.6 },
      shape: { x1: x, y1: shape.y + shape.height, x2: x + shape.height, y2: shape.y } });
  }
  return { type: "group", children, clipPath: { type: "rect", shape }, silent: true };
}

export function stateTip({ state }, base, extra) {
  return lines(state.forced ? `forced ${state.state}` : state.state, extra,
    `${clock(base + state.from, 3)} – ${clock(base + state.to, 3)}`, span(state.to - state.from));
}

// --- one chart ------------------------------------------------------------------------------------------------------

const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const chart = charts.find((one) => one.box === entry.target);
    if (!chart) continue; // it was replaced meanwhile
    chart.inView = entry.isIntersecting;
    if (!chart.inView) continue;
    if (!chart.made) make(chart);
    else if (chart.stale) {
      passingOn = true;
      applyWindow(chart);
      passingOn = false;
    }
  }
}, { rootMargin: "300px" });

const resizes = new ResizeObserver((entries) => {
  for (const entry of entries) {
    const chart = charts.find((one) => one.box === entry.target);
    const width = Math.round(entry.contentRect.width);
    if (!chart?.made || width === 0 || width === chart.width) continue;
    draw(chart);
  }
});

function draw(chart) {
  chart.width = chart.box.clientWidth;
  const { option, height } = chart.build(colours(), chart.width);
  chart.box.style.height = `${height}px`;
  chart.made.resize({ height });
  chart.made.setOption({ animation: false, ...option }, { notMerge: true });
  if (shown) applyWindow(chart);
}

function make(chart) {
  if (chart.box.clientWidth === 0) return;
  chart.made = core.init(chart.box, null, { renderer: "canvas" });
  draw(chart);
  chart.made.on("datazoom", () => {
    const zoom = chart.made.getOption().dataZoom[0];
    const whole = zoom.startValue <= chart.range[0] && zoom.endValue >= chart.range[1];
    setWindow(whole ? null : [zoom.startValue, zoom.endValue], chart);
  });
  if (chart.click) chart.made.on("click", chart.click);
  chart.box.dataset.drawn = "true";
}

function key(event, chart) {
  const [from, to] = shown ?? chart.range;
  const [first, last] = chart.range;
  const middle = (from + to) / 2;
  const size = to - from;
  const moved = (start, length) => {
    const long = Math.min(Math.max(length, 20), last - first);
    const at = Math.min(Math.max(start, first), last - long);
    setWindow(long >= last - first ? null : [at, at + long]);
  };
  const acts = {
    ArrowLeft: () => moved(from - size / 5, size), ArrowRight: () => moved(from + size / 5, size),
    "+": () => moved(middle - size / 4, size / 2), "=": () => moved(middle - size / 4, size / 2),
    "-": () => moved(middle - size, size * 2), Home: () => setWindow(null), 0: () => setWindow(null),
  };
  if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  acts[event.key]();
}

// `build(palette, width, onPaper)` answers { option, height }. `summary` says in words what is to be seen.
export function chartBox({ label, summary, range, height, build, click }) {
  const box = h("div", { class: "chart", tabindex: 0, role: "img", "aria-roledescription": "chart",
    "aria-label": `${label}. ${summary}`, "aria-keyshortcuts": "ArrowLeft ArrowRight + - Home" });
  box.style.height = `${height}px`;
  const picture = h("img", { class: "print", alt: "" });
  const chart = { box, picture, range, build, click, made: null, width: 0, inView: false, stale: false };
  box.addEventListener("keydown", (event) => key(event, chart));
  charts.push(chart);
  observer.observe(box);
  resizes.observe(box);
  return h("div", { class: "chart-frame" }, box, picture,
    h("p", { class: "keys", "aria-hidden": "true" }, "← → move   + − zoom   Home all"));
}

// --- theme and print ------------------------------------------------------------------------------------------------

onTheme(() => {
  for (const chart of charts) if (chart.made) draw(chart);
});

function pictureOf(chart) {
  const place = document.createElement("div");
  const { option, height } = chart.build(colours(), PRINT_WIDTH, true);
  const made = core.init(place, null, { renderer: "canvas", width: PRINT_WIDTH, height });
  made.setOption({ animation: false, ...option });
  const [startValue, endValue] = shown ?? chart.range;
  made.dispatchAction({ type: "dataZoom", startValue, endValue });
  const url = made.getDataURL({ pixelRatio: 2, backgroundColor: colours().background });
  made.dispose();
  return url;
}

addEventListener("beforeprint", () => {
  printTheme(true);
  for (const chart of charts) if (chart.box.closest("details:not([open])") === null) chart.picture.src = pictureOf(chart);
});
addEventListener("afterprint", () => {
  printTheme(false);
  for (const chart of charts) chart.picture.removeAttribute("src");
});
