// A line chart of the last samples on a canvas, with a table of its values for screen readers.

const SAMPLES_MAX = 300;

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

/** A figure with a chart: `series` are the names of the values of each sample. */
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
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.element.append(caption, this.canvas);
  }

  draw(samples) {
    const { canvas, series, unit } = this;
    const last = samples.values.at(-1) ?? series.map(() => 0);
    series.forEach((name, at) => {
      this.keys[at].textContent = `${name} ${short(last[at], unit)}`;
    });
    canvas.setAttribute(
      "aria-label",
      `${this.title}: ${series.map((name, at) => `${name} ${short(last[at], unit)}`).join(", ")}`,
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
    const top = Math.max(1, ...samples.values.flat()) * 1.1;
    const [left, bottom] = [56, height - 18];
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
    const end = samples.times.at(-1) ?? 0;
    // A minute at first, then all samples.
    const span = Math.max(60_000, end - (samples.times[0] ?? end));
    const x = (time) => left + (width - left) * (1 - (end - time) / span);
    context.fillText("now", width, height - 4);
    context.textAlign = "left";
    context.fillText(span < 120_000 ? `${Math.round(span / 1000)} s ago` : `${Math.round(span / 60_000)} min ago`, left, height - 4);
    series.forEach((_, at) => {
      context.strokeStyle = colour(at === 0 ? "--accent" : "--second");
      context.lineWidth = 2;
      context.beginPath();
      samples.times.forEach((time, index) => {
        const y = bottom - (bottom - 8) * (samples.values[index][at] / top);
        if (index === 0) context.moveTo(x(time), y);
        else context.lineTo(x(time), y);
      });
      context.stroke();
    });
  }
}
