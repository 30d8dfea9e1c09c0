// A line chart of the last samples on a canvas, whose label has the latest values for screen readers.

const SAMPLES_MAX = 300;
/** Width of the scale left of the lines, in pixels. */
const LEFT = 56;
/** Shortest time that a chart shows, and shows of all samples, in milliseconds. */
const SPAN_MIN = 2000;
const ALL_MIN = 10_000;
/** Shortest drag that chooses a time, in pixels; others are clicks. */
const DRAG_MIN = 5;

/** A number with a unit prefix: 1234567 is "1.23 M". */
export function short(value, unit = "") {
  const prefixes = ["", "k", "M", "G", "T"];
  let at = 0;
  while (Math.abs(value) >= 1000 && at < prefixes.length - 1) {
    value /= 1000;
    at += 1;
  }
  const digits = at === 0 && Number.isInteger(value) ? 0 : value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${prefixes[at]}${unit}`.trim();
}

/** Samples of some series, of which the oldest are dropped. */
export class Samples {
  constructor() {
    this.times = [];
    this.values = [];
  }

  add(time, values) {
    this.times.push(time);
    this.values.push(values);
    if (this.times.length > SAMPLES_MAX) {
      this.times.shift();
      this.values.shift();
    }
  }
}

/**
 * A figure with a chart: `series` are the names of the values of each sample. It follows the samples until a time of them is
 * chosen, by dragging over it or with the keys + and −; arrow keys move it.
 */
export class Chart {
  constructor(title, series, unit) {
    Object.assign(this, { title, series, unit });
    this.element = document.createElement("figure");
    this.element.className = "chart";
    const caption = document.createElement("figcaption");
    const heading = document.createElement("b");
    heading.textContent = title;
    caption.append(heading);
    this.keys = series.map((name, at) => {
      const key = document.createElement("span");
      key.className = at === 0 ? "key" : "key second";
      caption.append(key);
      return key;
    });
    this.whole = document.createElement("button");
    Object.assign(this.whole, { type: "button", hidden: true, textContent: "Show all", onclick: () => this.choose() });
    caption.append(this.whole);
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.tabIndex = 0;
    this.element.append(caption, this.canvas);
    this.listen();
  }

  listen() {
    const { canvas } = this;
    const place = (event) => event.clientX - canvas.getBoundingClientRect().left;
    canvas.onpointerdown = (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.drag = [place(event), place(event)];
    };
    canvas.onpointermove = (event) => {
      if (!this.drag) return;
      this.drag[1] = place(event);
      this.draw();
    };
    canvas.onpointerup = () => {
      const [from, to] = (this.drag ?? [0, 0]).sort((one, other) => one - other);
      this.drag = undefined;
      if (to - from >= DRAG_MIN) this.choose(this.timeAt(from), this.timeAt(to));
      else this.draw();
    };
    canvas.onpointercancel = () => {
      this.drag = undefined;
      this.draw();
    };
    canvas.ondblclick = () => this.choose();
    canvas.onkeydown = (event) => {
      const [from, to] = this.shown();
      const part = (to - from) / 4;
      const [start, end] = { "+": [part, -part], "=": [part, -part], "-": [-2 * part, 2 * part], ArrowLeft: [-part, -part],
        ArrowRight: [part, part], Escape: [-Infinity, Infinity] }[event.key] ?? [];
      if (start === undefined) return;
      event.preventDefault();
      this.choose(from + start, to + end);
    };
  }

  /** The times of all samples, or a few seconds before the first ones. */
  all() {
    const times = this.samples?.times ?? [];
    const end = times.at(-1) ?? 0;
    return [Math.min(times[0] ?? end, end - ALL_MIN), end];
  }

  /** The times that are shown: those that were chosen, while there are samples of them. */
  shown() {
    const all = this.all();
    if (this.chosen && this.chosen[1] <= all[0]) this.chosen = undefined;
    return this.chosen ?? all;
  }

  timeAt(x) {
    const [from, to] = this.shown();
    return from + ((x - LEFT) / (this.canvas.clientWidth - LEFT)) * (to - from);
  }

  /** Shows the time between two others, or all. */
  choose(from = -Infinity, to = Infinity) {
    const [first, last] = this.all();
    const span = Math.max(to - from, SPAN_MIN);
    const start = Math.max(first, Math.min(from, last - span));
    const end = Math.min(last, start + span);
    this.chosen = start <= first && end >= last ? undefined : [start, end];
    this.draw();
  }

  /** Draws these samples, or those of the last time again. */
  draw(samples = this.samples) {
    if (!samples) return;
    this.samples = samples;
    const { canvas, series, unit } = this;
    const [from, to] = this.shown();
    this.whole.hidden = !this.chosen;
    const last = samples.values.at(-1) ?? series.map(() => 0);
    series.forEach((name, at) => {
      this.keys[at].textContent = `${name} ${short(last[at], unit)}`;
    });
    canvas.setAttribute(
      "aria-label",
      `${this.title}: ${series.map((name, at) => `${name} ${short(last[at], unit)}`).join(", ")}; + and − zoom, arrow keys move`,
    );
    const scale = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (width === 0) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const visible = samples.values.filter((_, at) => samples.times[at] >= from && samples.times[at] <= to);
    const top = Math.max(1, ...visible.flat()) * 1.1;
    const [left, bottom] = [LEFT, height - 18];
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "right";
    for (let step = 0; step <= 4; step += 1) {
      const y = bottom - (bottom - 8) * (step / 4);
      context.strokeStyle = colour("--line");
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(width, y);
      context.stroke();
      context.fillStyle = colour("--dim");
      context.fillText(short((top * step) / 4), left - 6, y + 4);
    }
    const x = (time) => left + ((width - left) * (time - from)) / (to - from);
    const clock = (time) => `${new Date(time).toISOString().slice(11, 19)} UTC`;
    const span = to - from;
    const ago = span < 120_000 ? `${Math.round(span / 1000)} s ago` : `${Math.round(span / 60_000)} min ago`;
    context.fillText(this.chosen ? clock(to) : "now", width, height - 4);
    context.textAlign = "left";
    context.fillText(this.chosen ? clock(from) : ago, left, height - 4);
    context.beginPath();
    context.rect(left, 0, width - left, height);
    context.clip();
    if (this.drag) {
      context.fillStyle = colour("--line");
      context.fillRect(this.drag[0], 8, this.drag[1] - this.drag[0], bottom - 8);
    }
    series.forEach((_, at) => {
      context.strokeStyle = colour(at === 0 ? "--accent" : "--second");
      context.lineWidth = 2;
      // Lines of the same values are both seen.
      context.setLineDash(at === 0 ? [] : [6, 4]);
      context.beginPath();
      samples.times.forEach((time, index) => {
        const y = bottom - (bottom - 8) * (samples.values[index][at] / top);
        if (index === 0) context.moveTo(x(time), y);
        else context.lineTo(x(time), y);
      });
      context.stroke();
      // A single sample has no line.
      const [time, value] = [samples.times.at(-1), samples.values.at(-1)?.[at]];
      if (value === undefined) return;
      context.fillStyle = context.strokeStyle;
      context.beginPath();
      context.arc(x(time) - 3, bottom - (bottom - 8) * (value / top), 3, 0, 2 * Math.PI);
      context.fill();
    });
  }
}
