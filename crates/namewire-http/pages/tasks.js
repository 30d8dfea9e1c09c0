// Tasks: traffic generators, fetches, file servers and benchmarks that the API runs.

import { Subscription, query } from "/api.js";
import { comparisonTables, historyForm } from "/benchmarks.js";
import { Chart, Samples, short } from "/chart.js";
import { List, showConnection, showError } from "/frame.js";
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
  benchmarkFetch: ["Fetches of a benchmark", "benchmarkFetchStart", [
    ["names", "Names, separated by spaces", "names", { required: true }], ["transport", "Forwarder", "text", { required: true, placeholder: "udp://router:6363" }],
    ["durationS", "Duration (s)", "number", { required: true, min: 1 }], ["verify", "Digests", "flag", ["not verified", "verified"]]]],
  benchmark: ["Benchmark A–F–B", "benchmarkStart", [
    ["transport", "Transport", "word", ["unix", "udp", "tcp", "memif", "veth"]], ["traffic", "Content", "word", ["a-to-b", "b-to-a", "both"]],
    ["producer", "Producer", "word", ["generator", "files"]], ["peers", "Beside it", "word", ["none", "nfd", "ndnd", "all", "transfer"]],
    ["payload", "Content bytes", "number", { min: 1, max: 8000 }], ["components", "Name components", "number", { min: 5, max: 15 }],
    ["consumer", "Consumer", "word", ["fetcher", "get", "get-file"]],
    ["fileMib", "File size (MiB)", "number", { min: 16, max: 4096 }], ["fileCount", "Files of a fetch", "number", { min: 1, max: 1024 }], ["workers", "Workers", "number", { min: 1, max: 16 }],
    ["congestion", "Congestion control", "word", ["cubic", "delay", "fixed"]], ["window", "Fixed window (Interests)", "number", { min: 1, max: 16384 }],
    ["delayMs", "Delay (ms, over UDP)", "decimal", { min: 0, max: 1000 }], ["rateMbit", "Rate (Mbit/s, over UDP)", "number", { min: 0 }],
    ["loss", "Loss (share, over UDP)", "decimal", { min: 0, max: 0.5 }],
    ["verify", "Digests", "flag", ["not verified", "verified"]],
    ["durationS", "Duration (s)", "number", { min: 1, max: 600 }], ["trials", "Trials", "number", { min: 1, max: 100 }]]],
};
const TYPES = { names: "[String!]!", number: "UInt64", decimal: "Float", flag: "Boolean", word: "String", text: "String!" };
const typeOf = ([, , type, more]) => (type === "number" && more.required ? "UInt64!" : TYPES[type]);
const TASKS = "subscription { tasks { id kind state arguments principal unixMs } }";
const HISTORY = "query($first: UInt64, $second: UInt64) { benchmarkHistory(first: $first, second: $second) }";
const DETAILS = "subscription($id: UInt64!) { tasks(id: $id) { id kind state status messages metrics { key value } } }";
const RESULT = "query($id: UInt64!) { tasks(id: $id) { result } }";

const select = (label, name, choices) => make("label", {}, label, make("select", { name }, ...choices.map(([value, text]) =>
  make("option", { value }, text))));

function inputOf([name, label, type, more]) {
  if (type === "flag") return select(label, name, [["", more[0]], ["1", more[1]]]);
  if (type === "word") return select(label, name, more.map((word) => [word, word]));
  const isNumber = type === "number" || type === "decimal";
  const step = type === "decimal" ? "any" : undefined;
  return field(label, { name, type: isNumber ? "number" : "text", step, autocomplete: "off", ...more }, !isNumber);
}

/** The name of a metric as words, with the values of its labels. */
const titleOf = (key) => {
  const [name, labels] = key.replace(/^namewire_[a-z]+_/, "").replace("_total", "").split("{");
  const values = [...(labels ?? "").matchAll(/="([^"]*)"/g)].map(([, value]) => `: ${value}`).join("");
  return (name + values).replaceAll("_", " ");
};

/** What a line of the messages of a benchmark tells of its progress; nothing if it is another or incomplete line. */
function eventOf(line) {
  try {
    const message = JSON.parse(line);
    return message.event ? message : undefined;
  } catch {
    return undefined;
  }
}

/** A percentile of the latency, which `namewire get` does not measure. */
const latency = (of, name) => (of.max_us > 0 ? `${(of[name] / 1000).toFixed(1)} ms` : "–");

const tile = (name, value) => make("div", { class: "tile" }, make("dt", {}, name), make("dd", {}, value));

/** Live figures of a benchmark that runs. */
class Progress {
  rates = new Samples();
  chart = new Chart("Goodput", ["A → B", "B → A"], "bit/s");
  seen = "";

  /** Elements that show the latest of these messages. */
  show(messages) {
    const all = messages.split("\n").map(eventOf).filter(Boolean);
    const live = all.filter(({ event }) => event === "live");
    // A message is known by its trial and time, which grow; programs take turns.
    const known = live.findLastIndex((one) => this.keyOf(one) === this.seen);
    for (const one of live.slice(known + 1)) {
      const goodput = (producer) => one.directions.find((way) => way.producer === producer)?.goodput_bit_per_s ?? 0;
      this.rates.add(one.unix_ms, [goodput("A"), goodput("B")]);
      this.seen = this.keyOf(one);
    }
    const last = all.at(-1);
    if (!last) return [make("p", {}, "The benchmark is starting.")];
    const now = live.at(-1);
    const tiles = [tile("Trial", `${last.trial} of ${last.trials}`), tile("Forwarder", last.program)];
    for (const way of now?.directions ?? []) {
      const arrow = way.producer === "A" ? "A → B" : "B → A";
      tiles.push(tile(`Goodput ${arrow}`, short(way.goodput_bit_per_s, "bit/s")), tile(`Data ${arrow}`, short(way.data_per_s, "/s")),
        tile(`Latency ${arrow}, median`, latency(way.latency, "p50_us")),
        tile(`Latency ${arrow}, 99th percentile`, latency(way.latency, "p99_us")));
    }
    if (now) {
      const { a_us: a, f_us: f, b_us: b } = now.cpu_per_data;
      tiles.push(tile("CPU of A, F, B (µs/Data)", [a, f, b].map((us) => us.toFixed(1)).join(", ")));
    }
    return [make("dl", { class: "tiles" }, ...tiles), this.chart.element, ...(last.summary ? summariesOf(last.summary, last.peers) : [])];
  }

  keyOf({ trial, program, elapsed_s: elapsed }) {
    return `${trial} ${program} ${elapsed}`;
  }

  draw() {
    this.chart.draw(this.rates);
  }
}

/** The statistics of a benchmark. */
function summariesOf(summary, peers) {
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
    form.className = "many";
    const history = make("section");
    const opener = make("button", { type: "button", onclick: () => this.showHistory(history) }, "History of benchmarks");
    return make("div", {}, make("p", {}, "Programs that the forwarder starts on its host and connects to itself. They end with it. "
      + "A benchmark starts forwarders of its own, and takes processor time from this one."), form, make("div", { class: "bar" }, opener), history);
  }

  /** Shows the history of benchmarks, and two of them compared. */
  async showHistory(place) {
    try {
      const { runs, defaults } = await this.readHistory({});
      const compared = make("div");
      const compare = async (form, [first, second, ...more]) => {
        try {
          if (second === undefined || more.length > 0) throw new Error("Choose two benchmarks to compare.");
          compared.replaceChildren(...comparisonTables(await this.readHistory({ first, second })));
        } catch (error) {
          compared.replaceChildren(notice(error.message));
        }
      };
      place.replaceChildren(make("h3", {}, "History of benchmarks"),
        runs.length > 0 ? historyForm(runs, defaults, compare) : make("p", {}, "There are no benchmarks yet."), compared);
    } catch (error) {
      place.replaceChildren(notice(error.message));
    }
  }

  /** The latest benchmarks, or two compared. */
  async readHistory(variables) {
    return JSON.parse((await query(HISTORY, variables)).benchmarkHistory);
  }

  /** Follows a task, which the forwarder forgets after many others. Its result, which may be long, is read once at its end. */
  followTask(id, onTask) {
    let reading;
    const onData = async ({ tasks: [task] }) => {
      const isRunning = ["running", "stopping"].includes(task?.state);
      if (task && !isRunning) reading ??= query(RESULT, { id });
      let read;
      try {
        read = await reading;
      } catch (error) {
        if (follow.stopped) return;
        follow.stop();
        showError(error);
        return;
      }
      // The forwarder may have forgotten it meanwhile.
      const found = read ? read.tasks[0] : { result: "" };
      if (!follow.stopped) onTask(task && found && { ...task, ...found });
    };
    const follow = new Subscription(DETAILS, { variables: { id }, onData, onState: showConnection, onError: showError });
    return follow;
  }

  connect() {
    this.follow = new Subscription(TASKS, {
      onData: ({ tasks }) => {
        this.tasks = tasks;
        this.refreshSoon();
      },
      onState: showConnection,
      onError: showError,
    });
    this.choose(this.shown);
  }

  hide() {
    super.hide();
    this.details?.stop();
  }

  /** Shows the details of a task, or of none. */
  choose(id) {
    this.details?.stop();
    Object.assign(this, { shown: id, task: undefined, details: undefined });
    if (id !== undefined) {
      this.details = this.followTask(id, (task) => {
        this.task = task;
        this.refreshSoon();
      });
    }
  }

  start(form) {
    const [, mutation, inputs] = KINDS[this.kind];
    const given = new FormData(form);
    const variables = {};
    for (const [name, , type] of inputs) {
      const value = given.get(name).trim();
      if (value === "") continue;
      variables[name] = type === "names" ? value.split(/\s+/) : ["number", "decimal"].includes(type) ? Number(value) : type === "flag" ? true : value;
    }
    const used = inputs.filter(([name]) => name in variables);
    const declared = used.map((input) => `$${input[0]}: ${typeOf(input)}`).join(", ");
    const passed = used.map(([name]) => `${name}: $${name}`).join(", ");
    const text = `mutation${declared && `(${declared})`} { ${mutation}${passed && `(${passed})`} { id } }`;
    change(form, text, variables, () => this.refresh());
  }

  draw() {
    super.draw();
    // Its size is known once it is shown.
    this.progress?.draw();
  }

  /** The elements that show what the forwarder has sent. */
  read() {
    const { tasks, task } = this;
    if (tasks === undefined) return [];
    const rows = tasks.map(({ id, kind, state, arguments: words, principal, unixMs }) => {
      const details = make("button", { type: "button", class: "link", "aria-pressed": String(this.shown === id),
        "aria-label": `${KINDS[kind][0]}, details of task ${id}`, onclick: (event) => {
          event.target.blur();
          this.choose(this.shown === id ? undefined : id);
          this.refresh();
        } }, KINDS[kind][0]);
      const colour = { failed: "down", running: "up" }[state];
      return make("tr", {}, make("td", { class: "number" }, String(id)), make("td", {}, details),
        make("td", {}, make("span", { class: colour }, state)), make("td", { class: "number" }, time(unixMs).slice(0, 8)),
        make("td", {}, principal),
        make("td", { class: "name command" }, ...words.filter((word) => !/^--(metrics=|history=|json$|progress$)/.test(word))
          .flatMap((word) => [make("span", { class: "word" }, word), " "])));
    });
    const headings = [["Number", "number"], ["Kind"], ["State"], ["Start (UTC)", "number"], ["By"], ["Command"]];
    const list = rows.length > 0 ? table("Tasks, the latest first", headings, rows) : make("p", {}, "There are no tasks yet.");
    return task ? [list, this.detailsOf(task)] : [list];
  }

  detailsOf({ id, kind, state, metrics, messages, result }) {
    const parts = [make("h3", {}, `Task ${id}: ${state}`)];
    if (state === "running") {
      parts.push(make("button", { type: "button", "aria-label": `Stop task ${id}`, onclick: (event) => {
        event.target.blur();
        change(this.form, "mutation($id: UInt64!) { taskStop(id: $id) { state } }", { id }, () => this.refresh());
      } }, "Stop"));
    }
    if (metrics.length > 0) {
      parts.push(make("dl", { class: "tiles" }, ...metrics.map(({ key, value }) => tile(titleOf(key), short(value)))));
    }
    if (kind === "benchmark" && state === "running") {
      if (this.progress?.id !== id) this.progress = Object.assign(new Progress(), { id });
      parts.push(...this.progress.show(messages));
    }
    if (kind === "benchmark" && state === "done") {
      const { summary, peers } = JSON.parse(result);
      parts.push(...summariesOf(summary, peers));
    }
    const block = (title, text) => text.trim() && parts.push(make("h4", {}, title), make("pre", { tabindex: "0" }, text.trim()));
    const shown = kind === "benchmark" ? messages.split("\n").filter((line) => !line.startsWith("{")).join("\n") : messages;
    block("Messages", shown);
    block("Result", result);
    return make("section", { class: "dissection" }, ...parts);
  }
}
