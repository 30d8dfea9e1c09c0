// The status pages: overview, faces and routes.

import { ApiError, Subscription, keepToken, query, token } from "/api.js";
import { Chart, Samples, short } from "/chart.js";

const main = document.querySelector("main");
const connection = document.querySelector("#connection");

/** An element with attributes, properties of events (`on…`) and children. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element[key] = value;
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

function notice(text) {
  return make("p", { class: "notice", role: "alert" }, text);
}

function table(caption, headings, rows) {
  const cells = headings.map(([text, kind]) => make("th", { scope: "col", class: kind }, text));
  const body = make("tbody", {}, ...rows);
  const head = make("thead", {}, make("tr", {}, ...cells));
  return make("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", {}, caption), head, body));
}

/** Runs a change; its error is shown beside `form`. */
async function change(form, text, variables, after) {
  form.parentElement.querySelector(".notice")?.remove();
  try {
    await query(text, variables);
    await after();
  } catch (error) {
    form.after(notice(error.message));
  }
}

// ---- Overview

const SAMPLE = `subscription { counters(intervalMs: 1000) { unixMs lost workers {
  inInterests inData outInterests outData csHits csMisses dropped pitEntries csEntries waitedNs receivedBytes sentBytes } } }`;

class Overview {
  constructor() {
    this.packets = new Samples();
    this.bytes = new Samples();
    this.isPaused = false;
  }

  show() {
    this.tiles = make("dl", { class: "tiles" });
    this.charts = [
      new Chart("Data sent and received", ["sent", "received"], "/s"),
      new Chart("Bits sent and received", ["sent", "received"], "bit/s"),
    ];
    const button = make("button", { type: "button", "aria-pressed": String(this.isPaused), onclick: () => {
      this.isPaused = !this.isPaused;
      button.setAttribute("aria-pressed", String(this.isPaused));
      button.textContent = this.isPaused ? "Resume" : "Pause";
    } }, this.isPaused ? "Resume" : "Pause");
    main.replaceChildren(make("h2", {}, "Overview"), make("div", { class: "bar" }, button), this.tiles,
      ...this.charts.map((chart) => chart.element));
    this.follow = new Subscription(SAMPLE, {
      onData: ({ counters }) => this.add(counters),
      onState: showConnection,
    });
    this.draw();
    this.resize = () => this.draw();
    addEventListener("resize", this.resize);
  }

  hide() {
    this.follow.stop();
    this.last = undefined;
    removeEventListener("resize", this.resize);
  }

  add(sample) {
    const sums = {};
    for (const worker of sample.workers) {
      for (const [name, value] of Object.entries(worker)) sums[name] = (sums[name] ?? 0) + value;
    }
    const { last } = this;
    this.last = { time: sample.unixMs, sums };
    if (!last) return;
    const seconds = (sample.unixMs - last.time) / 1000;
    const rate = (name) => Math.max(0, (sums[name] - last.sums[name]) / seconds);
    this.packets.add(sample.unixMs, [rate("outData"), rate("inData")]);
    this.bytes.add(sample.unixMs, [rate("sentBytes") * 8, rate("receivedBytes") * 8]);
    const lookups = rate("csHits") + rate("csMisses");
    const busy = 1 - rate("waitedNs") / 1e9 / sample.workers.length;
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
        `${Math.max(0, 100 * busy).toFixed(0)} %`],
    ];
    if (sample.lost > 0) this.figures.push(["Samples lost", short(sample.lost)]);
    if (!this.isPaused && !document.hidden) this.draw();
  }

  draw() {
    const tiles = (this.figures ?? []).map(([name, value]) =>
      make("div", { class: "tile" }, make("dt", {}, name), make("dd", {}, value)));
    this.tiles.replaceChildren(...tiles);
    this.charts[0].draw(this.packets);
    this.charts[1].draw(this.bytes);
  }
}

// ---- Lists

/** A list that is read in parts and again every few seconds while it is shown. */
class List {
  show() {
    this.body = make("div");
    this.form = this.makeForm();
    main.replaceChildren(make("h2", {}, this.title), this.form, this.body);
    connection.textContent = "";
    this.refresh();
    this.timer = setInterval(() => document.hidden || this.refresh(), 3000);
  }

  hide() {
    clearInterval(this.timer);
  }

  async refresh() {
    try {
      const rows = await this.read();
      // Rows are not replaced under the focus of the keyboard.
      if (this.body.contains(document.activeElement)) return;
      this.body.replaceChildren(...rows);
    } catch (error) {
      if (error instanceof ApiError && error.code === "UNAUTHENTICATED") return askForToken(error.message);
      this.body.replaceChildren(notice(error.message));
    }
  }
}

function field(label, attributes, wide) {
  return make("label", { class: wide ? "wide" : undefined }, label, make("input", attributes));
}

class Faces extends List {
  title = "Faces";
  after = [];
  past = new Map();

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
    const text = `query($after: UInt64) { facesLimit { faces facesMax } faces(first: 100, after: $after) {
      faceId remoteUri persistency scope link { inInterests inData outInterests outData inBytes outBytes down { reason } } } }`;
    const after = this.after.at(-1);
    const { faces, facesLimit } = await query(text, after === undefined ? {} : { after });
    const now = performance.now();
    const rows = faces.map((face) => {
      const past = this.past.get(face.faceId);
      // Counters have a rate from the second reading on.
      const rate = (name, unit, factor = 1) => (past?.link && face.link
        ? short(Math.max(0, ((face.link[name] - past.link[name]) * 1000 * factor) / (now - past.now)), unit) : "–");
      const state = face.link?.down ? make("span", { class: "down" }, `down: ${face.link.down.reason}`)
        : make("span", { class: "up" }, "up");
      const destroy = make("button", { type: "button", "aria-label": `Destroy face ${face.faceId}`, onclick: () => {
        if (confirm(`Destroy face ${face.faceId} to ${face.remoteUri}?`)) {
          destroy.blur();
          const text = "mutation($faceId: UInt64!) { facesDestroy(faceId: $faceId) { faceId } }";
          change(this.form, text, { faceId: face.faceId }, () => this.refresh());
        }
      } }, "Destroy");
      const number = (...of) => make("td", { class: "number" }, rate(...of));
      return make("tr", {}, make("td", { class: "number" }, String(face.faceId)),
        make("td", { class: "name" }, face.remoteUri), make("td", {}, state), make("td", {}, face.persistency),
        number("inInterests", "/s"), number("outData", "/s"), number("inBytes", "bit/s", 8), number("outBytes", "bit/s", 8),
        make("td", {}, face.faceId > 255 ? destroy : undefined));
    });
    this.past = new Map(faces.map((face) => [face.faceId, { link: face.link, now }]));
    const headings = [["Face", "number"], ["Remote URI"], ["State"], ["Persistency"], ["Interests in", "number"],
      ["Data out", "number"], ["In", "number"], ["Out", "number"], [""]];
    const caption = `Faces; ${facesLimit.faces} count towards the limit of ${facesLimit.facesMax}`;
    const pages = make("div", { class: "bar" },
      this.after.length > 0 ? make("button", { type: "button", onclick: () => (this.after.pop(), this.turn()) }, "Previous") : undefined,
      faces.length === 100 ? make("button", { type: "button", onclick: () => {
        this.after.push(faces.at(-1).faceId);
        this.turn();
      } }, "Next") : undefined);
    return [table(caption, headings, rows), pages];
  }

  turn() {
    document.activeElement?.blur();
    this.refresh();
  }
}

class Routes extends List {
  title = "Routes";
  prefix = "/";
  skip = 0;

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
      this.skip = 0;
      this.refresh();
    } }, field("Show names under", { name: "prefix", value: this.prefix }, true), make("button", {}, "Filter"));
    return make("div", {}, form, filter);
  }

  async read() {
    const text = `query($prefix: String, $skip: UInt64) {
      rib(first: 100, prefix: $prefix, skip: $skip) { name routes { faceId origin cost childInherit capture expirationPeriodMs } }
      strategies(first: 1000) { name strategy } }`;
    const { rib, strategies } = await query(text, { prefix: this.prefix, skip: this.skip });
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
      const left = route.expirationPeriodMs === null ? "never" : `in ${Math.round(route.expirationPeriodMs / 1000)} s`;
      return make("tr", {}, make("td", { class: "name" }, name), make("td", { class: "number" }, String(route.faceId)),
        make("td", { class: "number" }, String(route.cost)), make("td", {}, route.origin), make("td", {}, flags),
        make("td", {}, left), make("td", {}, remove));
    }));
    const choices = strategies.map(({ name, strategy }) =>
      make("tr", {}, make("td", { class: "name" }, name), make("td", { class: "name" }, strategy)));
    const pages = make("div", { class: "bar" },
      this.skip > 0 ? make("button", { type: "button", onclick: () => this.turn(-100) }, "Previous") : undefined,
      rib.length === 100 ? make("button", { type: "button", onclick: () => this.turn(100) }, "Next") : undefined);
    const headings = [["Prefix"], ["Face", "number"], ["Cost", "number"], ["Origin"], ["Flags"], ["Expires"], [""]];
    return [table("Routes by prefix", headings, rows), pages,
      table("Strategies", [["Prefix"], ["Strategy"]], choices)];
  }

  turn(by) {
    this.skip += by;
    document.activeElement?.blur();
    this.refresh();
  }
}

// ---- Frame

const pages = { overview: new Overview(), faces: new Faces(), routes: new Routes() };
let shown;

function showConnection(state) {
  const texts = { live: "live", lost: "connection lost, trying again", refused: "refused" };
  connection.textContent = texts[state];
  if (state === "refused") askForToken("the token is missing, wrong or has expired");
}

function askForToken(reason) {
  shown?.hide();
  shown = undefined;
  const form = make("form", { onsubmit: (event) => {
    event.preventDefault();
    keepToken(new FormData(form).get("token").trim());
    show();
  } }, field("Token (namewire control token)", { name: "token", type: "password", required: true, autocomplete: "off" }, true),
  make("button", { class: "main" }, "Use token"));
  main.replaceChildren(make("h2", {}, "Token needed"), ...(reason ? [notice(reason)] : []), form);
}

function show() {
  shown?.hide();
  shown = undefined;
  if (!token()) return askForToken();
  const name = /^#\/(\w+)/.exec(location.hash)?.[1] ?? "overview";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  shown = pages[name] ?? pages.overview;
  document.title = `${name[0].toUpperCase()}${name.slice(1)} – Namewire`;
  shown.show();
}

addEventListener("hashchange", show);
show();
