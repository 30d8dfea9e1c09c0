// Tasks: traffic generators, fetches, file servers and benchmarks that the API runs.

import { query } from "/api.js";
import { short } from "/chart.js";
import { List } from "/frame.js";
import { change, field, make, notice, table, time } from "/parts.js";

/** The kinds of tasks: title, mutation, and inputs with label, type and attributes. */
const KINDS = {
  trafficProducer: ["Traffic producer", "trafficProducerStart", [
    ["prefixes", "Prefixes, separated by spaces", "names", { required: true }], ["payload", "Content bytes", "number", { min: 0, max: 8000 }],
    ["digest", "Signature", "flag", ["none", "SHA-256 digest"]]]],
  trafficConsumer: ["Traffic consumer", "trafficConsumerStart", [
    ["prefixes", "Prefixes, separated by spaces", "names", { required: true }], ["window", "Interests in flight", "number", { min: 1 }],
    ["rate", "or Interests per second", "number", { min: 1 }], ["durationS", "Duration (s)", "number", { min: 1 }]]],
  fetch: ["Fetch", "fetchStart", [
    ["name", "Name of the object", "text", { required: true }], ["file", "File on the forwarder's host", "text", { required: true }]]],
  fileServer: ["File server", "fileServerStart", [
    ["prefix", "Prefix", "text", { required: true }], ["directory", "Directory on the forwarder's host", "text", { required: true }]]],
  benchmark: ["Benchmark A–F–B", "benchmarkStart", [
    ["transport", "Transport", "word", ["unix", "udp", "tcp", "memif", "veth"]], ["traffic", "Content", "word", ["a-to-b", "b-to-a", "both"]],
    ["producer", "Producer", "word", ["generator", "files"]], ["peers", "Beside it", "word", ["none", "nfd", "ndnd", "all"]],
    ["payload", "Content bytes", "number", { min: 1, max: 8000 }], ["workers", "Workers", "number", { min: 1, max: 16 }],
    ["verify", "Digests", "flag", ["not verified", "verified"]],
    ["durationS", "Duration (s)", "number", { min: 1, max: 600 }], ["trials", "Trials", "number", { min: 1, max: 100 }]]],
};
const TYPES = { names: "[String!]!", number: "UInt64", flag: "Boolean", word: "String", text: "String!" };
const TASKS = "{ tasks { id kind state arguments principal unixMs } }";
const DETAILS = "query($id: UInt64!) { tasks(id: $id) { id kind state status messages result metrics { key value } } }";

const select = (label, name, choices) => make("label", {}, label, make("select", { name }, ...choices.map(([value, text]) =>
  make("option", { value }, text))));

function inputOf([name, label, type, more]) {
  if (type === "flag") return select(label, name, [["", more[0]], ["1", more[1]]]);
  if (type === "word") return select(label, name, more.map((word) => [word, word]));
  const isNumber = type === "number";
  return field(label, { name, type: isNumber ? "number" : "text", autocomplete: "off", ...more }, !isNumber);
}

/** The name of a metric as words, with the values of its labels. */
const titleOf = (key) => {
  const [name, labels] = key.replace(/^namewire_[a-z]+_/, "").replace("_total", "").split("{");
  const values = [...(labels ?? "").matchAll(/="([^"]*)"/g)].map(([, value]) => `: ${value}`).join("");
  return (name + values).replaceAll("_", " ");
};

/** The statistics of a benchmark, from its JSON. */
function benchmarkOf(text) {
  const { summary, peers } = JSON.parse(text);
  const programs = [{ program: "namewire", summary }, ...peers].filter((one) => one.summary);
  const spread = ({ mean, interval }, unit) => `${short(mean, unit)}${interval === null ? "" : ` ± ${short(interval, unit)}`}`;
  const rows = programs.map(({ program, summary: own }) => make("tr", {}, make("td", {}, program),
    make("td", { class: "number" }, spread(own.data_per_s, "/s")), make("td", { class: "number" }, spread(own.goodput_bit_per_s, "bit/s"))));
  const missing = peers.filter(({ reason }) => reason).map(({ program, reason }) => notice(`${program}: ${reason}`));
  return [table("Mean and 95 % interval of the trials", [["Program"], ["Data", "number"], ["Goodput", "number"]], rows), ...missing];
}

export class Tasks extends List {
  title = "Tasks";
  kind = "trafficProducer";

  makeForm() {
    this.inputs = make("div", { class: "inputs" });
    const kinds = select("Kind", "kind", Object.entries(KINDS).map(([kind, [title]]) => [kind, title]));
    const chosen = kinds.querySelector("select");
    chosen.value = this.kind;
    const show = () => {
      this.kind = chosen.value;
      this.inputs.replaceChildren(...KINDS[this.kind][2].map(inputOf));
    };
    chosen.onchange = show;
    show();
    const form = make("form", { onsubmit: (event) => {
      event.preventDefault();
      this.start(form);
    } }, kinds, this.inputs, make("button", { class: "main" }, "Start"));
    return make("div", {}, make("p", {}, "Programs that the forwarder starts on its host and connects to itself. They end with it. "
      + "A benchmark starts forwarders of its own, and takes processor time from this one."), form);
  }

  start(form) {
    const [, mutation, inputs] = KINDS[this.kind];
    const given = new FormData(form);
    const variables = {};
    for (const [name, , type] of inputs) {
      const value = given.get(name).trim();
      if (value === "") continue;
      variables[name] = type === "names" ? value.split(/\s+/) : type === "number" ? Number(value) : type === "flag" ? true : value;
    }
    const used = inputs.filter(([name]) => name in variables);
    const declared = used.map(([name, , type]) => `$${name}: ${TYPES[type]}`).join(", ");
    const passed = used.map(([name]) => `${name}: $${name}`).join(", ");
    const text = `mutation${declared && `(${declared})`} { ${mutation}${passed && `(${passed})`} { id } }`;
    change(form, text, variables, () => this.refresh());
  }

  async read() {
    const { tasks } = await query(TASKS);
    const rows = tasks.map(({ id, kind, state, arguments: words, principal, unixMs }) => {
      const details = make("button", { type: "button", class: "link", "aria-pressed": String(this.shown === id),
        "aria-label": `${KINDS[kind][0]}, details of task ${id}`, onclick: (event) => {
          event.target.blur();
          this.shown = this.shown === id ? undefined : id;
          this.refresh();
        } }, KINDS[kind][0]);
      const colour = { failed: "down", running: "up" }[state];
      return make("tr", {}, make("td", { class: "number" }, String(id)), make("td", {}, details),
        make("td", {}, make("span", { class: colour }, state)), make("td", { class: "number" }, time(unixMs).slice(0, 8)),
        make("td", {}, principal),
        make("td", { class: "name" }, words.filter((word) => !word.startsWith("--metrics=") && word !== "--json").join(" ")));
    });
    const headings = [["Number", "number"], ["Kind"], ["State"], ["Start (UTC)", "number"], ["By"], ["Command"]];
    const list = rows.length > 0 ? table("Tasks, the latest first", headings, rows) : make("p", {}, "There are no tasks yet.");
    const details = this.shown === undefined ? [] : (await query(DETAILS, { id: this.shown })).tasks;
    return [list, ...details.map((task) => this.details(task))];
  }

  details({ id, kind, state, metrics, messages, result }) {
    const parts = [make("h3", {}, `Task ${id}: ${state}`)];
    if (state === "running") {
      parts.push(make("button", { type: "button", "aria-label": `Stop task ${id}`, onclick: (event) => {
        event.target.blur();
        change(this.form, "mutation($id: UInt64!) { taskStop(id: $id) { state } }", { id }, () => this.refresh());
      } }, "Stop"));
    }
    if (metrics.length > 0) {
      parts.push(make("dl", { class: "tiles" }, ...metrics.map(({ key, value }) => make("div", { class: "tile" },
        make("dt", {}, titleOf(key)), make("dd", {}, short(value))))));
    }
    if (kind === "benchmark" && state === "done") parts.push(...benchmarkOf(result));
    const block = (title, text) => text.trim() && parts.push(make("h4", {}, title), make("pre", { tabindex: "0" }, text.trim()));
    block("Messages", messages);
    block("Result", result);
    return make("section", { class: "dissection" }, ...parts);
  }
}
