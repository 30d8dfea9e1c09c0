// The status pages: overview, faces, routes, packets, workers and limits. Others have a module of their own.

import { Subscription, query } from "/api.js";
import { Applications } from "/applications.js";
import { Capture } from "/capture.js";
import { Chart, Samples, short } from "/chart.js";
import { FaceRates, List, Live, PAGE, main, showConnection, showError, start, withNextFrame } from "/frame.js";
import { Log } from "/log.js";
import { Names } from "/names.js";
import { change, field, make, notice, table, time, words } from "/parts.js";
import { Tasks } from "/tasks.js";

// ---- Overview

const SAMPLE = `subscription { counters(intervalMs: 1000) { unixMs lost workers {
  inInterests inData outInterests outData csHits csMisses dropped drops { key value } packets pitEntries csEntries waitedNs
  receivedBytes sentBytes } } }`;

/** The reasons for which packets were dropped between two samples of workers: reason, number since the start, rate. */
function dropsBetween(past, now, seconds) {
  const total = (workers) => {
    const sums = new Map();
    for (const { key, value } of workers.flatMap(({ drops }) => drops)) sums.set(key, (sums.get(key) ?? 0) + value);
    return sums;
  };
  const before = total(past);
  return [...total(now)].sort((one, other) => other[1] - one[1])
    .map(([reason, count]) => [reason, count, (count - (before.get(reason) ?? 0)) / seconds]);
}

function dropsTable(drops) {
  if (drops.length === 0) return make("p", {}, "No packet was dropped since the start.");
  const number = (text) => make("td", { class: "number" }, text);
  const rows = drops.map(([reason, count, rate]) =>
    make("tr", {}, make("td", {}, words(reason)), number(short(rate, "/s")), number(short(count))));
  return table("Dropped packets", [["Reason"], ["Rate", "number"], ["Since the start", "number"]], rows);
}

class Overview extends Live {
  title = "Overview";
  subscription = SAMPLE;
  packets = new Samples();
  bytes = new Samples();

  parts() {
    this.tiles = make("dl", { class: "tiles" });
    this.charts = [
      new Chart("Data sent and received", ["sent", "received"], "/s"),
      new Chart("Bits sent and received", ["sent", "received"], "bit/s"),
    ];
    this.dropped = make("div");
    return [this.tiles, ...this.charts.map((chart) => chart.element), this.dropped];
  }

  add(sample) {
    const sums = {};
    for (const { drops, ...worker } of sample.workers) {
      for (const [name, value] of Object.entries(worker)) sums[name] = (sums[name] ?? 0) + value;
    }
    const { last } = this;
    this.last = { time: sample.unixMs, sums, workers: sample.workers };
    if (!last) return;
    const seconds = (sample.unixMs - last.time) / 1000;
    const rate = (name) => Math.max(0, (sums[name] - last.sums[name]) / seconds);
    this.packets.add(sample.unixMs, [rate("outData"), rate("inData")]);
    this.bytes.add(sample.unixMs, [rate("sentBytes") * 8, rate("receivedBytes") * 8]);
    const lookups = rate("csHits") + rate("csMisses");
    const busy = Math.max(0, 1 - rate("waitedNs") / 1e9 / sample.workers.length);
    const packets = rate("packets");
    this.drops = dropsBetween(last.workers, sample.workers, seconds);
    this.figures = [
      ["Interests in", short(rate("inInterests"), "/s")],
      ["Data out", short(rate("outData"), "/s")],
      ["Received", short(rate("receivedBytes") * 8, "bit/s")],
      ["Sent", short(rate("sentBytes") * 8, "bit/s")],
      ["Content Store hits", lookups > 0 ? `${((100 * rate("csHits")) / lookups).toFixed(1)} %` : "–"],
      ["Dropped", short(rate("dropped"), "/s")],
      ["PIT entries", short(sums.pitEntries)],
      ["Packets in the CS", short(sums.csEntries)],
      [`Load of ${sample.workers.length === 1 ? "the worker" : `${sample.workers.length} workers`}`,
        `${(100 * busy).toFixed(0)} %`],
      ["CPU per packet", packets > 0 ? `${((1e6 * busy * sample.workers.length) / packets).toFixed(2)} µs` : "–"],
    ];
    if (sample.lost > 0) this.figures.push(["Samples lost", short(sample.lost)]);
  }

  draw() {
    const tiles = (this.figures ?? []).map(([name, value]) =>
      make("div", { class: "tile" }, make("dt", {}, name), make("dd", {}, value)));
    this.tiles.replaceChildren(...tiles);
    this.charts[0].draw(this.packets);
    this.charts[1].draw(this.bytes);
    if (this.drops && !this.dropped.contains(document.activeElement)) this.dropped.replaceChildren(dropsTable(this.drops));
  }
}

// ---- Faces and routes

class Faces extends List {
  title = "Faces";
  events = ["faceEvents"];
  after = [];
  rates = new FaceRates(() => this.draw());

  hide() {
    super.hide();
    this.rates.stop();
  }

  makeForm() {
    const form = make("form", { onsubmit: (event) => {
      event.preventDefault();
      const { uri, persistency } = Object.fromEntries(new FormData(form));
      const text = `mutation($uri: String!, $persistency: String) {
        facesCreate(uri: $uri, persistency: $persistency) { faceId } }`;
      change(form, text, { uri, persistency }, () => (form.reset(), this.refresh()));
    } },
    field("Remote URI", { name: "uri", required: true, placeholder: "udp4://192.0.2.1:6363" }, true),
    make("label", {}, "Persistency", make("select", { name: "persistency" },
      make("option", {}, "persistent"), make("option", {}, "permanent"))),
    make("button", { class: "main" }, "Create face"));
    return form;
  }

  async read() {
    const text = `query($after: UInt64) { facesLimit { faces facesMax } faces(first: ${PAGE}, after: $after) {
      faceId remoteUri persistency link { down { reason } } } }`;
    const after = this.after.at(-1);
    const data = await query(text, after === undefined ? {} : { after });
    if (this.follow) this.rates.follow(data.faces.map(({ faceId }) => faceId));
    return data;
  }

  view({ faces, facesLimit }) {
    const rows = faces.map(({ faceId, remoteUri, persistency, link }) => {
      const number = (name, unit, factor = 1) => {
        const rate = this.rates.rate(faceId, name);
        return make("td", { class: "number" }, rate === undefined ? "–" : short(rate * factor, unit));
      };
      const state = link?.down ? make("span", { class: "down" }, `down: ${link.down.reason}`)
        : make("span", { class: "up" }, "up");
      const destroy = make("button", { type: "button", "aria-label": `Destroy face ${faceId}`, onclick: () => {
        if (confirm(`Destroy face ${faceId} to ${remoteUri}?`)) {
          destroy.blur();
          const text = "mutation($faceId: UInt64!) { facesDestroy(faceId: $faceId) { faceId } }";
          change(this.form, text, { faceId }, () => this.refresh());
        }
      } }, "Destroy");
      return make("tr", {}, make("td", { class: "number" }, String(faceId)),
        make("td", { class: "name" }, remoteUri), make("td", {}, state), make("td", {}, persistency),
        number("inInterests", "/s"), number("outData", "/s"), number("inBytes", "bit/s", 8), number("outBytes", "bit/s", 8),
        make("td", {}, faceId > 255 ? destroy : undefined));
    });
    const headings = [["Face", "number"], ["Remote URI"], ["State"], ["Persistency"], ["Interests in", "number"],
      ["Data out", "number"], ["In", "number"], ["Out", "number"], [""]];
    const caption = `Faces; ${facesLimit.faces} count towards the limit of ${facesLimit.facesMax}`;
    return [table(caption, headings, rows), this.pager("faces", this.after, faces.length, faces.at(-1)?.faceId)];
  }
}

class Routes extends List {
  title = "Routes";
  events = ["routingEvents"];
  prefix = "/";
  after = [];
  strategiesAfter = [];

  show() {
    super.show();
    // The time until routes expire.
    this.clock = setInterval(() => document.hidden || this.draw(), 1000);
  }

  hide() {
    super.hide();
    clearInterval(this.clock);
  }

  makeForm() {
    const form = make("form", { onsubmit: (event) => {
      event.preventDefault();
      const { name, faceId, cost } = Object.fromEntries(new FormData(form));
      const text = `mutation($name: String!, $faceId: UInt64, $cost: UInt64) {
        ribRegister(name: $name, faceId: $faceId, cost: $cost, origin: "static") { name } }`;
      change(form, text, { name, faceId: Number(faceId), cost: Number(cost) }, () => (form.reset(), this.refresh()));
    } },
    field("Prefix", { name: "name", required: true, placeholder: "/example" }, true),
    field("Face", { name: "faceId", required: true, type: "number", min: "1" }),
    field("Cost", { name: "cost", required: true, type: "number", min: "0", value: "0" }),
    make("button", { class: "main" }, "Add route"));
    const filter = make("form", { onsubmit: (event) => {
      event.preventDefault();
      this.prefix = new FormData(filter).get("prefix") || "/";
      [this.after, this.strategiesAfter] = [[], []];
      this.refresh();
    } }, field("Show names under", { name: "prefix", value: this.prefix }, true), make("button", {}, "Filter"));
    return make("div", {}, form, filter);
  }

  async read() {
    const text = `query($prefix: String, $after: String, $strategiesAfter: String) {
      rib(first: ${PAGE}, prefix: $prefix, after: $after) {
        name routes { faceId origin cost childInherit capture expirationPeriodMs } }
      strategies(first: ${PAGE}, prefix: $prefix, after: $strategiesAfter) { name strategy } }`;
    const { prefix, after, strategiesAfter } = this;
    return query(text, { prefix, after: after.at(-1) ?? null, strategiesAfter: strategiesAfter.at(-1) ?? null });
  }

  view({ rib, strategies }) {
    const age = performance.now() - this.readAt;
    const rows = rib.flatMap(({ name, routes }) => routes.map((route) => {
      const remove = make("button", { type: "button", "aria-label": `Remove the route ${name} by face ${route.faceId}`, onclick: () => {
        if (confirm(`Remove the route ${name} by face ${route.faceId}?`)) {
          remove.blur();
          const text = `mutation($name: String!, $faceId: UInt64, $origin: String) {
            ribUnregister(name: $name, faceId: $faceId, origin: $origin) { name } }`;
          change(this.form, text, { name, faceId: route.faceId, origin: route.origin }, () => this.refresh());
        }
      } }, "Remove");
      const flags = [route.childInherit && "inherited", route.capture && "capture"].filter(Boolean).join(", ");
      const left = route.expirationPeriodMs === null ? "never" : `in ${Math.max(0, Math.round((route.expirationPeriodMs - age) / 1000))} s`;
      return make("tr", {}, make("td", { class: "name" }, name), make("td", { class: "number" }, String(route.faceId)),
        make("td", { class: "number" }, String(route.cost)), make("td", {}, route.origin), make("td", {}, flags),
        make("td", {}, left), make("td", {}, remove));
    }));
    const choices = strategies.map(({ name, strategy }) =>
      make("tr", {}, make("td", { class: "name" }, name), make("td", { class: "name" }, strategy)));
    const headings = [["Prefix"], ["Face", "number"], ["Cost", "number"], ["Origin"], ["Flags"], ["Expires"], [""]];
    return [table("Routes by prefix", headings, rows), this.pager("routes", this.after, rib.length, rib.at(-1)?.name),
      table("Strategies", [["Prefix"], ["Strategy"]], choices),
      this.pager("strategies", this.strategiesAfter, strategies.length, strategies.at(-1)?.name)];
  }
}

// ---- Packets

const PACKETS = `subscription($name: String, $sample: UInt64) { packets(name: $name, sample: $sample) {
  lost packets { unixMs worker faceId packet name decisions } } }`;
const PACKETS_MAX = 300;

/** The decisions about packets while they are made. */
class Packets {
  title = "Packets";
  name = "/";
  sample = 1;
  rows = [];
  drawSoon = withNextFrame(() => this.draw());

  show() {
    const form = make("form", { onsubmit: (event) => {
      event.preventDefault();
      if (this.follow) this.stop();
      else this.start(form);
    } },
    field("Names under", { name: "name", value: this.name, required: true }, true),
    field("Sample: one packet of", { name: "sample", type: "number", min: "1", value: String(this.sample), required: true }),
    this.button = make("button", { class: "main" }, "Start trace"));
    this.filter = make("input", { placeholder: "dropped", oninput: () => this.draw() });
    const filter = make("form", { onsubmit: (event) => event.preventDefault() },
      make("label", { class: "wide" }, "Show only lines that contain", this.filter));
    this.lost = make("p", { role: "status" });
    this.body = make("div");
    main.replaceChildren(make("h2", {}, "Packets"),
      make("p", {}, "What the forwarder decides about packets. A trace ends when this page is left."),
      form, filter, this.lost, this.body);
    showConnection();
    this.draw();
  }

  hide() {
    this.stop();
  }

  start(form) {
    form.parentElement.querySelector(".notice")?.remove();
    const { name, sample } = Object.fromEntries(new FormData(form));
    Object.assign(this, { name, sample: Number(sample), rows: [] });
    this.follow = new Subscription(PACKETS, {
      variables: { name, sample: this.sample },
      onData: ({ packets }) => this.add(packets),
      onState: showConnection,
      onError: (error) => {
        this.stop();
        form.after(notice(error.message));
      },
    });
    this.button.textContent = "Stop trace";
    this.draw();
  }

  stop() {
    this.follow?.stop();
    this.follow = undefined;
    this.button.textContent = "Start trace";
    showConnection();
  }

  add({ lost, packets }) {
    this.rows = [...packets.reverse(), ...this.rows].slice(0, PACKETS_MAX);
    this.lost.textContent = lost > 0 ? `${lost} packets were not reported because there were too many.` : "";
    this.drawSoon();
  }

  draw() {
    const wanted = this.filter.value.toLowerCase();
    const rows = this.rows.map((one) => ({ ...one, text: one.decisions.join("; ") }))
      .filter(({ packet, name, text }) => `${packet} ${name} ${text}`.toLowerCase().includes(wanted))
      .map(({ unixMs, packet, name, faceId, worker, text }) => make("tr", { class: text.includes("dropped") ? "bad" : undefined },
        make("td", { class: "number" }, time(unixMs)), make("td", {}, packet),
        make("td", { class: "name" }, name), make("td", { class: "number" }, String(faceId)),
        make("td", { class: "number" }, String(worker)), make("td", { class: "name" }, text)));
    const empty = this.follow ? "No packet yet." : "No trace is running.";
    const headings = [["Time (UTC)", "number"], ["Packet"], ["Name"], ["Face", "number"], ["Worker", "number"], ["Decisions"]];
    this.body.replaceChildren(this.rows.length > 0 ? table("Packets, the latest first", headings, rows) : make("p", {}, empty));
  }
}

// ---- Workers

const WORKERS = `subscription { counters(intervalMs: 1000) { unixMs workers {
  waitedNs packets bursts inInterests outData dropped drops { key value } crossingsSent ringFull
  pitEntries csEntries packetBlocks packetBlocksCapacity sharedSocketDrops ownSocketDrops } } }`;
/** How names are dispatched, which changes slowly. */
const DISPATCH = `subscription { counters(intervalMs: 5000) { dispatch { depth entries { entry worker previous depth load } } } }`;

class Workers extends Live {
  title = "Workers";
  subscription = [WORKERS, DISPATCH];
  load = new Samples();

  parts() {
    this.chart = new Chart("Load", ["busiest worker", "mean"], "%");
    this.tables = make("div");
    return [this.chart.element, this.tables];
  }

  add(sample) {
    if (sample.dispatch !== undefined) {
      this.dispatch = sample.dispatch;
      return;
    }
    const { last } = this;
    this.last = sample;
    if (!last || last.workers.length !== sample.workers.length) return;
    const seconds = (sample.unixMs - last.unixMs) / 1000;
    this.rows = sample.workers.map((now, number) => {
      const past = last.workers[number];
      const count = (name) => Math.max(0, now[name] - past[name]);
      const load = Math.min(1, Math.max(0, 1 - count("waitedNs") / 1e9 / seconds));
      return { now, load, bursts: count("bursts"), rate: (name) => count(name) / seconds };
    });
    const loads = this.rows.map(({ load }) => 100 * load);
    this.load.add(sample.unixMs, [Math.max(...loads), loads.reduce((sum, load) => sum + load, 0) / loads.length]);
    this.drops = dropsBetween(last.workers, sample.workers, seconds);
  }

  draw() {
    this.chart.draw(this.load);
    if (!this.rows || this.tables.contains(document.activeElement)) return;
    const number = (text) => make("td", { class: "number" }, text);
    const workers = this.rows.map(({ now, load, bursts, rate }, index) => make("tr", {}, number(String(index)),
      number(`${(100 * load).toFixed(0)} %`), number(short(rate("packets"), "/s")),
      number(bursts > 0 ? (rate("packets") / rate("bursts")).toFixed(1) : "–"),
      number(short(rate("inInterests"), "/s")), number(short(rate("outData"), "/s")), number(short(rate("dropped"), "/s")),
      number(short(rate("crossingsSent"), "/s")), number(short(rate("ringFull"), "/s")),
      number(short(rate("sharedSocketDrops") + rate("ownSocketDrops"), "/s"))));
    const memory = this.rows.map(({ now }, index) => make("tr", {}, number(String(index)), number(short(now.pitEntries)),
      number(short(now.csEntries)), number(`${((100 * now.packetBlocks) / now.packetBlocksCapacity).toFixed(0)} %`)));
    const headings = (...texts) => texts.map((text) => [text, "number"]);
    const traffic = headings("Worker", "Load", "Packets", "Per burst", "Interests in", "Data out", "Dropped", "To other workers",
      "Ring full", "Socket drops");
    const tables = headings("Worker", "PIT entries", "Packets in the CS", "Packet memory in use");
    this.tables.replaceChildren(table("Workers", traffic, workers), dropsTable(this.drops),
      table("Tables and memory of workers", tables, memory), ...this.dispatchTable(number));
  }

  dispatchTable(number) {
    // A single worker has all names.
    if (!this.dispatch) return [];
    const { depth, entries } = this.dispatch;
    if (entries.length === 0) return [];
    const rows = entries.slice(0, 20).map((entry) => make("tr", {}, number(String(entry.entry)),
      number(String(entry.worker)), number(entry.previous === null ? "" : String(entry.previous)),
      number(String(entry.depth ?? depth)), number(short(entry.load))));
    const headings = ["Entry", "Worker", "Previous worker", "Components", "Recent load"].map((text) => [text, "number"]);
    return [table("Dispatch of names to workers: the entries with the most load", headings, rows)];
  }
}

// ---- Limits

const LIMITS = `subscription { counters(intervalMs: 3000) { principals limits {
  tables { key value { capacity used usedByClass { key value } } } principals { principal class faces held { key value } } } } }`;
const PRINCIPALS_MAX = 50;

class Limits extends List {
  title = "Limits";

  makeForm() {
    return make("p", {}, "What each user, neighbour and remote address holds of what all share.");
  }

  connect() {
    this.follow = new Subscription(LIMITS, {
      onData: ({ counters }) => {
        const isFirst = this.sample === undefined;
        this.sample = counters;
        if (isFirst) this.refresh();
        else this.refreshSoon();
      },
      onState: showConnection,
      onError: showError,
    });
  }

  hide() {
    super.hide();
    this.sample = undefined;
  }

  /** The elements that show what the forwarder has sent. */
  read() {
    if (!this.sample) return [];
    const { limits: { tables, principals }, principals: count } = this.sample;
    const capacities = new Map(tables.map(({ key, value }) => [key, value.capacity]));
    const number = (text) => make("td", { class: "number" }, text);
    const rows = tables.map(({ key, value }) => {
      const classes = value.usedByClass.filter(({ value: used }) => used > 0)
        .map(({ key: name, value: used }) => `${name} ${short(used)}`).join(", ");
      const percent = (100 * value.used) / Math.max(1, value.capacity);
      const meter = make("meter", { min: "0", max: "100", high: "90", value: percent.toFixed(1), "aria-label": `Use of ${words(key)}` });
      return make("tr", {}, make("td", {}, words(key)), number(short(value.used)), number(short(value.capacity)),
        make("td", {}, meter, ` ${percent.toFixed(1)} %`), make("td", {}, classes));
    });
    // The largest part of a table that a principal holds.
    const part = ({ held }) => Math.max(0, ...held.map(({ key, value }) => value / Math.max(1, capacities.get(key) ?? 1)));
    const holders = principals.map((one) => [part(one), one]).sort((one, other) => other[0] - one[0]);
    const list = holders.slice(0, PRINCIPALS_MAX).map(([largest, { principal, class: kind, faces, held }]) => {
      const texts = held.filter(({ value }) => value > 0).map(({ key, value }) => `${words(key)} ${short(value)}`);
      return make("tr", {}, make("td", { class: "name" }, principal), make("td", {}, kind), number(String(faces)),
        number(`${(100 * largest).toFixed(1)} %`), make("td", { class: "name" }, texts.join(", ")));
    });
    const caption = count > PRINCIPALS_MAX
      ? `The ${PRINCIPALS_MAX} of ${count} principals that hold the largest parts` : "Principals";
    return [
      table("Shared tables and memory", [["Table"], ["Used", "number"], ["Capacity", "number"], ["Use"], ["By class"]], rows),
      table(caption, [["Principal"], ["Class"], ["Faces", "number"], ["Largest part", "number"], ["Holds"]], list)];
  }
}

start({
  overview: new Overview(), faces: new Faces(), routes: new Routes(), names: new Names(), applications: new Applications(),
  packets: new Packets(), capture: new Capture(), workers: new Workers(), limits: new Limits(), tasks: new Tasks(),
  log: new Log(),
});
