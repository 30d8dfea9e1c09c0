// Benchmarks of a history, and two of them compared, for the benchmark page and the page of tasks.

import { short } from "/chart.js";
import { make, table } from "/parts.js";

export const bits = (rate) => short(rate, "bit/s");
export const date = (unixMs) => new Date(unixMs).toISOString().slice(0, 19).replace("T", " ");
export const spread = ({ mean, interval }, show) => (interval === null ? show(mean) : `${show(mean)} ± ${show(interval)}`);
export const number = (text) => make("td", { class: "number" }, text);
/** The words of the inputs that differ from the default, for a list. */
const inputs = (plan, defaults) => Object.entries(plan)
  .filter(([name, value]) => value !== defaults[name] || name === "transport" || name === "traffic")
  .map(([name, value]) => `${name} ${value}`.replaceAll("_", " ")).join(", ");

/** A form with benchmarks, of which two can be compared. `link` and `action` make elements from a number: for it, and beside it. */
export function historyForm(runs, defaults, compare, link = String, action = undefined) {
  const form = make("form", { onsubmit: (event) => {
    event.preventDefault();
    const chosen = new FormData(form).getAll("run").map(Number).sort((a, b) => a - b);
    compare(form, chosen);
  } });
  const rows = runs.map(({ id, unix_ms: unixMs, plan, state, trials, summary }) => make("tr", {},
    make("td", {}, make("input", { type: "checkbox", name: "run", value: String(id), "aria-label": `Compare benchmark ${id}` })),
    number(link(id)), number(date(unixMs)), make("td", {}, state), number(String(trials)),
    number(summary ? short(summary.data_per_s.mean) : "–"), number(summary ? bits(summary.goodput_bit_per_s.mean) : "–"),
    make("td", { class: "name" }, inputs(plan, defaults)), action && make("td", {}, action(id, form))));
  const headings = [["Compare"], ["Number", "number"], ["Start (UTC)", "number"], ["State"], ["Trials", "number"], ["Data/s", "number"],
    ["Goodput", "number"], ["Inputs"], ...(action ? [[""]] : [])];
  form.append(table("Benchmarks, the latest first", headings, rows), make("button", { class: "main" }, "Compare two"));
  return form;
}

/** Tables of two benchmarks side by side. */
export function comparisonTables({ a, b, comparison }) {
  const row = (name, show, key) => {
    const { ratio, difference, interval } = comparison[key];
    const differs = interval === null ? "unknown: one has a single trial" : Math.abs(difference) > interval ? "yes" : "no";
    return make("tr", {}, make("td", {}, name), number(spread(a.summary[key], show)), number(spread(b.summary[key], show)),
      number(ratio.toFixed(3)), number(interval === null ? show(difference) : `${show(difference)} ± ${show(interval)}`), make("td", {}, differs));
  };
  const headings = [["Figure"], [`Benchmark ${a.id}`, "number"], [`Benchmark ${b.id}`, "number"], ["Ratio", "number"],
    ["Difference", "number"], ["Differs (95 %, Welch)"]];
  const figures = table("Comparison", headings, [row("Data packets", (value) => short(value, "/s"), "data_per_s"), row("Goodput", bits, "goodput_bit_per_s")]);
  const different = Object.keys(a.plan).filter((name) => a.plan[name] !== b.plan[name]);
  const plans = different.length === 0 ? make("p", {}, "All inputs are the same.")
    : table("Inputs that differ", [["Input"], [`Benchmark ${a.id}`], [`Benchmark ${b.id}`]], different.map((name) =>
      make("tr", {}, make("td", {}, name.replaceAll("_", " ")), make("td", {}, String(a.plan[name])), make("td", {}, String(b.plan[name])))));
  return [figures, plans];
}
