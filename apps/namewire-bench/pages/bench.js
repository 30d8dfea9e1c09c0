// The benchmark page: inputs and live figures of a benchmark, the history, one benchmark, and two compared.

import { keepToken, token } from "/api.js";
import { bits, comparisonTables, date, historyForm, number, spread } from "/benchmarks.js";
import { Chart, Samples, short } from "/chart.js";
import { field, make, notice, save, table } from "/parts.js";

const main = document.querySelector("main");
const connection = document.querySelector("#connection");
/** The latest message of each kind about the benchmark that runs. */
const state = { running: null, trials: [], live: null, summary: null, peers: [], ended: null };
let rates = new Samples();
let latencies = new Samples();
let page = { update() {} };

// ---- Requests

class Refused extends Error {
  constructor(status, text) {
    super(text.trim() || `status ${status}`);
    this.status = status;
  }
}

async function request(path, options = {}) {
  const headers = { Authorization: `Bearer ${token()}` };
  if (options.body) headers["Content-Type"] = "application/json";
  const response = await fetch(path, { ...options, headers });
  if (!response.ok) throw new Refused(response.status, await response.text());
  return response;
}

async function read(path, options) {
  return (await request(path, options)).json();
}

/** Shows the error of an action beside an element; a refused token leads to the question for one. */
function fail(place, error) {
  if (error.status === 401) return askForToken(error.message);
  place.parentElement?.querySelector(".notice")?.remove();
  place.after(notice(error.message));
}

/** Follows the events of the server, again after a pause when the connection is lost. */
async function follow() {
  for (;;) {
    try {
      const reader = (await request("/api/events")).body.pipeThrough(new TextDecoderStream()).getReader();
      connection.textContent = "live";
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) receive(JSON.parse(line));
      }
    } catch (error) {
      if (error.status === 401) {
        connection.textContent = "refused";
        return;
      }
    }
    connection.textContent = "connection lost, trying again";
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

function receive(message) {
  switch (message.event) {
    case "hello":
    case "started":
      Object.assign(state, { running: message.run ?? message.running, trials: [], live: null, summary: null, peers: [],
        trial: undefined, program: undefined });
      if (message.event === "started") state.ended = null;
      [rates, latencies] = [new Samples(), new Samples()];
      break;
    case "trial":
      Object.assign(state, { trial: message.trial, program: message.program });
      break;
    case "live": {
      const { directions } = message;
      const now = message.unix_ms;
      state.live = message;
      const goodput = (producer) => directions.find((one) => one.producer === producer)?.goodput_bit_per_s ?? 0;
      rates.add(now, [goodput("A"), goodput("B")]);
      const worst = (name) => Math.max(...directions.map(({ latency }) => latency[name])) / 1e3;
      latencies.add(now, [worst("p50_us"), worst("p99_us")]);
      break;
    }
    case "ended":
      state.trials.push({ program: message.program, trial: message.trial, figures: message.figures });
      Object.assign(state, { summary: message.summary, peers: message.peers });
      break;
    case "missing":
      state.peers = message.peers;
      break;
    case "finished":
      Object.assign(state, { running: null, ended: message });
      break;
  }
  if (!document.hidden) page.update(message);
}

// ---- Units

const percent = (part) => `${(100 * part).toFixed(3)} %`;
const milliseconds = (us) => (us / 1000).toFixed(us < 10_000 ? 2 : 0);
/** The percentiles of the latency of a direction, which `namewire get` does not measure. */
const percentiles = ({ p50_us: p50, p99_us: p99, max_us: max }) => (max > 0 ? `${milliseconds(p50)}, ${milliseconds(p99)} ms` : "–");

const OWN = "namewire";

/** The trials of all programs of a benchmark. */
const trialsOf = ({ trials, peers }) => [{ program: OWN, trials }, ...peers].flatMap(({ program, trials: own }) =>
  own.map((figures, at) => ({ program, trial: at + 1, figures })));

function trialsTable(trials) {
  const several = trials.some(({ program }) => program !== OWN);
  const rows = trials.flatMap(({ program, trial: at, figures: trial }) => trial.directions.map((one) => make("tr", {},
    several ? make("td", {}, program) : undefined, number(String(at)), number(date(trial.unix_ms).slice(11)), number(trial.seconds.toFixed(1)),
    make("td", {}, `${one.producer} → ${one.consumer}`), number(short(one.data_per_s)), number(bits(one.goodput_bit_per_s)),
    number(percent(one.loss)), ...["p50_us", "p99_us", "p999_us"].map((name) => number(one.latency.max_us > 0 ? String(one.latency[name]) : "–")),
    number([trial.cpu_per_data.a_us, trial.cpu_per_data.f_us, trial.cpu_per_data.b_us].map((us) => us.toFixed(1)).join(", ")))));
  const headings = [...(several ? [["Program"]] : []), ["Trial", "number"], ["Time (UTC)", "number"], ["Seconds", "number"], ["Content"], ["Data/s", "number"],
    ["Goodput", "number"], ["Loss", "number"], ["p50 µs", "number"], ["p99 µs", "number"], ["p99.9 µs", "number"],
    ["CPU A, F, B (µs)", "number"]];
  return table("Trials", headings, rows);
}

/** A ratio and its 95 % interval. */
const ratioOf = (ratio) => spread(ratio, (value) => value.toFixed(3));

/** Statistics of this program and of others beside it. */
function summaryTable(summary, peers) {
  const row = (program, name, { mean, standard_deviation: deviation, interval }, show) => make("tr", {},
    peers.length > 0 ? make("td", {}, program) : undefined, make("td", {}, name), number(show(mean)),
    number(deviation === null ? "–" : show(deviation)), number(interval === null ? "–" : `± ${show(interval)}`));
  const headings = [...(peers.length > 0 ? [["Program"]] : []), ["Figure"], ["Mean", "number"], ["Standard deviation", "number"],
    ["95 % interval", "number"]];
  const all = [{ program: OWN, summary }, ...peers].filter((one) => one.summary);
  const missing = peers.filter(({ reason }) => reason).map(({ program, reason }) => notice(`${program}: ${reason}`));
  return make("div", {}, table("Statistics of the trials", headings, all.flatMap(({ program, summary: own }) => [
    row(program, "Data packets", own.data_per_s, (value) => short(value, "/s")), row(program, "Goodput", own.goodput_bit_per_s, bits)])),
  ...missing);
}

function publishedTable(figures) {
  const rows = figures.map(({ program, figure, machine, source }) => make("tr", {}, ...[program, figure, machine, source].map((text, at) =>
    make("td", { class: at === 0 ? undefined : "name" }, text))));
  return table("Published elsewhere, on other machines: not comparable", [["Program"], ["Figure"], ["Machine"], ["Source"]], rows);
}

// ---- Inputs and live figures

/** Name, label, and choices or [minimum, maximum, step] of each input. */
const INPUTS = [
  ["workers", "Workers of F", [1, 16, 1]],
  ["transport", "Transport", [["unix", "Unix"], ["udp", "UDP"], ["tcp", "TCP"], ["memif", "memif"],
    ["veth", "UDP over veth (root)"]]],
  ["traffic", "Content", [["a_to_b", "A → B"], ["b_to_a", "B → A"], ["both", "both"]]],
  ["flows", "Fetches each way", [1, 64, 1]],
  ["components", "Name components", [5, 15, 1]],
  ["payload", "Content bytes of a Data", [1, 8000, 1]],
  ["prefix_match", "Data names", [["", "as the Interest"], ["1", "one component more"]]],
  ["interests", "Interests", [["distinct", "distinct"], ["repeated", "every second repeated"]]],
  ["verify", "Digests of Data", [["", "not verified"], ["1", "verified"]]],
  ["congestion", "Congestion control", [["cubic", "CUBIC"], ["delay", "delay-based"], ["fixed", "fixed window"]]],
  ["window", "Fixed window", [1, 16384, 1]],
  ["producer", "Producer", [["generator", "packet generator"], ["files", "file server"]]],
  ["consumer", "Consumer", [["fetcher", "fetcher"], ["get", "namewire get"], ["get_file", "namewire get, to files"]]],
  ["file_mib", "Size of a file (MiB)", [16, 4096, 1]],
  ["file_count", "Files of a fetch", [1, 1024, 1]],
  ["delay_ms", "Delay of the link B–F (ms)", [0, 1000, "any"]],
  ["rate_mbit", "Rate of the link (Mbit/s, 0: any)", [0, 1000000, 1]],
  ["loss", "Loss of the link (share)", [0, 0.5, "any"]],
  ["peers", "Beside it", [["none", "no other program"], ["nfd", "NFD"], ["ndnd", "ndnd"], ["all", "NFD and ndnd"],
    ["transfer", "whole transfers (file server)"]]],
  ["duration_s", "Duration (s)", [1, 600, 1]],
  ["trials", "Trials", [1, 100, 1]],
];

class Run {
  title = "Run";

  async show() {
    const defaults = await read("/api/defaults");
    // Kept while the page is open, so that the next benchmark differs in one input.
    const kept = this.kept ?? defaults;
    this.form = make("form", { class: "many", onsubmit: (event) => {
      event.preventDefault();
      this.start();
    } }, ...INPUTS.map(([name, label, values]) => {
      if (typeof values[0] === "number") {
        const [min, max, step] = values;
        return field(label, { name, type: "number", min, max, step, required: true, value: String(kept[name]) });
      }
      const value = typeof kept[name] === "boolean" ? (kept[name] ? "1" : "") : kept[name];
      return make("label", {}, label, make("select", { name }, ...values.map(([own, text]) =>
        make("option", { value: own, selected: own === value }, text))));
    }),
    this.startButton = make("button", { class: "main" }, "Start"),
    this.stopButton = make("button", { type: "button", onclick: () =>
      request("/api/stop", { method: "POST" }).catch((error) => fail(this.form, error)) }, "Stop"));
    this.status = make("p", { role: "status" });
    this.tiles = make("dl", { class: "tiles" });
    this.rates = new Chart("Goodput", ["A → B", "B → A"], "bit/s");
    this.latencies = new Chart("Latency of the slower direction", ["median", "99th percentile"], "ms");
    this.trials = make("div");
    main.replaceChildren(make("h2", {}, "A–F–B"),
      make("p", {}, "F is a forwarder; A and B produce and fetch content through it. They are started anew for each trial."),
      this.form, this.status, this.tiles, this.rates.element, this.latencies.element, this.trials);
    this.update();
  }

  async start() {
    this.form.parentElement.querySelector(".notice")?.remove();
    const plan = {};
    for (const [name, value] of new FormData(this.form)) {
      plan[name] = ["prefix_match", "verify"].includes(name) ? value === "1"
        : typeof INPUTS.find(([own]) => own === name)[2][0] === "number" ? Number(value) : value;
    }
    this.kept = plan;
    try {
      await read("/api/runs", { method: "POST", body: JSON.stringify(plan) });
    } catch (error) {
      fail(this.form, error);
    }
  }

  update(message) {
    const { running, live, trials, summary, ended } = state;
    this.startButton.disabled = running !== null;
    this.stopButton.disabled = running === null;
    if (running !== null) {
      const program = (state.program ?? OWN) === OWN ? "" : ` of ${state.program}`;
      this.status.textContent = `Benchmark ${running}, trial ${state.trial ?? 1}${program}: ${live ? `${live.elapsed_s.toFixed(1)} s` : "starting"}`;
    } else if (ended) {
      const reason = ended.reason ? `: ${ended.reason}` : "";
      this.status.replaceChildren(`Benchmark ${ended.run} is ${ended.state}${reason}. `,
        make("a", { href: `#/run/${ended.run}` }, "Show it"));
    } else {
      this.status.textContent = "No benchmark is running.";
    }
    const directions = live?.directions ?? [];
    const cpu = live?.cpu_per_data;
    const figures = directions.flatMap((one) => {
      const way = one.producer === "A" ? "A → B" : "B → A";
      return [[`Goodput ${way}`, bits(one.goodput_bit_per_s)], [`Data ${way}`, short(one.data_per_s, "/s")],
        [`Latency ${way}: p50, p99`, percentiles(one.latency)],
        [`Loss ${way}`, percent(one.loss)], [`Window ${way}`, short(one.window)]];
    });
    if (cpu) figures.push(["CPU of A, F, B (µs/Data)", [cpu.a_us, cpu.f_us, cpu.b_us].map((us) => us.toFixed(1)).join(", ")]);
    this.tiles.replaceChildren(...figures.map(([name, value]) =>
      make("div", { class: "tile" }, make("dt", {}, name), make("dd", {}, value))));
    this.rates.draw(rates);
    this.latencies.element.hidden = directions.length > 0 && directions.every(({ latency }) => latency.max_us === 0);
    this.latencies.draw(latencies);
    // Rows are not replaced under the focus of the keyboard.
    if (message?.event !== "live" && !this.trials.contains(document.activeElement)) {
      this.trials.replaceChildren(...(summary ? [summaryTable(summary, state.peers)] : []), ...(trials.length > 0 ? [trialsTable(trials)] : []));
    }
  }
}

// ---- History

class History {
  title = "History";
  before = [];

  async show() {
    this.body = make("div");
    main.replaceChildren(make("h2", {}, "History"), this.body);
    await this.refresh();
  }

  async refresh() {
    const last = this.before.at(-1);
    const [{ runs }, defaults] = await Promise.all([read(`/api/runs${last ? `?before=${last}` : ""}`), read("/api/defaults")]);
    const compare = (place, chosen) => {
      if (chosen.length === 2) location.hash = `#/compare/${chosen.join("/")}`;
      else fail(place, new Error("Choose two benchmarks to compare."));
    };
    const remove = (id, place) => make("button", { type: "button", "aria-label": `Delete benchmark ${id}`, onclick: async () => {
      if (!confirm(`Delete benchmark ${id}?`)) return;
      try {
        await request(`/api/runs/${id}`, { method: "DELETE" });
        await this.refresh();
      } catch (error) {
        fail(place, error);
      }
    } }, "Delete");
    const form = historyForm(runs, defaults, compare, (id) => make("a", { href: `#/run/${id}` }, String(id)), remove);
    const turn = (change) => () => {
      change();
      this.refresh().catch((error) => fail(form, error));
    };
    const pages = make("div", { class: "bar" },
      this.before.length > 0 ? make("button", { type: "button", onclick: turn(() => this.before.pop()) }, "Later") : undefined,
      runs.length === 50 ? make("button", { type: "button", onclick: turn(() => this.before.push(runs.at(-1).id)) }, "Earlier") : undefined);
    this.body.replaceChildren(...(runs.length > 0 ? [form, pages] : [make("p", {}, "There are no benchmarks yet.")]));
  }

  update(message) {
    if (message?.event === "finished" && !this.body.contains(document.activeElement)) this.refresh().catch(() => {});
  }
}

/** One benchmark with its exports. */
class One {
  title = "Benchmark";

  constructor(id) {
    this.id = id;
  }

  async show() {
    const { id } = this;
    const [record, picture] = await Promise.all([read(`/api/runs/${id}`), request(`/api/runs/${id}.svg`)]);
    const svg = new DOMParser().parseFromString(await picture.text(), "image/svg+xml").documentElement;
    const exports = make("div", { class: "bar" }, ...["csv", "json", "svg", "html"].map((ending) =>
      make("button", { type: "button", onclick: async () => {
        try {
          save([await (await request(`/api/runs/${id}.${ending}`)).blob()], `namewire-bench-${id}.${ending}`);
        } catch (error) {
          fail(exports, error);
        }
      } }, `Save as ${ending.toUpperCase()}`)));
    const pairs = [...Object.entries(record.plan), ...Object.entries(record.machine).map(([name, value]) => [`machine: ${name}`, value])];
    const plan = table("Inputs", [["Input"], ["Value"]], pairs.map(([name, value]) =>
      make("tr", {}, make("td", {}, name.replaceAll("_", " ")), make("td", { class: "name" }, String(value)))));
    const { reason } = record;
    main.replaceChildren(make("h2", {}, `Benchmark ${id}`), make("p", {}, `${date(record.unix_ms)} UTC, ${record.state}, Namewire ${record.version}`),
      ...(reason ? [notice(reason)] : []), exports, ...(record.summary ? [summaryTable(record.summary, record.peers)] : []),
      ...record.ratios_to_transfers.map(({ over, ratio }) => make("p", {}, `Goodput over that of ${over}: ${ratioOf(ratio)}.`)),
      make("figure", { class: "chart picture" }, svg), trialsTable(trialsOf(record)), publishedTable(record.published_elsewhere), plan);
  }

  update() {}
}

/** Two benchmarks side by side. */
class Compared {
  title = "Comparison";

  constructor(a, b) {
    Object.assign(this, { a, b });
  }

  async show() {
    const compared = await read(`/api/compare?a=${this.a}&b=${this.b}`);
    const { a, b } = compared;
    main.replaceChildren(make("h2", {}, `Benchmarks ${a.id} and ${b.id}`), ...comparisonTables(compared),
      make("p", {}, make("a", { href: `#/run/${a.id}` }, `Benchmark ${a.id}`), ", ", make("a", { href: `#/run/${b.id}` }, `benchmark ${b.id}`)));
  }

  update() {}
}

// ---- Pages

const run = new Run();
const history = new History();

function askForToken(reason) {
  page = { update() {} };
  const form = make("form", { onsubmit: (event) => {
    event.preventDefault();
    keepToken(new FormData(form).get("token").trim());
    location.reload();
  } }, field("Token (namewire bench page prints it)", { name: "token", type: "password", required: true, autocomplete: "off" }, true),
  make("button", { class: "main" }, "Use token"));
  main.replaceChildren(make("h2", {}, "Token needed"), ...(reason ? [notice(reason)] : []), form);
}

async function show() {
  if (!token()) return askForToken();
  const [, name, a, b] = location.hash.split("/");
  page = name === "history" ? history : name === "compare" ? new Compared(a, b) : name === "run" && a ? new One(a) : run;
  const link = page === run ? "#/run" : "#/history";
  for (const one of document.querySelectorAll("nav a")) {
    if (one.hash === link) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  document.title = `${page.title} – Namewire benchmark`;
  const own = page;
  try {
    await own.show();
  } catch (error) {
    if (error.status === 401) askForToken(error.message);
    else main.replaceChildren(make("h2", {}, own.title), notice(error.message));
  }
}

addEventListener("hashchange", show);
addEventListener("resize", () => page.update());
await show();
if (token()) follow();
