// The log while it is written, and its levels.

import { Subscription, query } from "/api.js";
import { main, showConnection, showError, withNextFrame } from "/frame.js";
import { change, field, make, table, time } from "/parts.js";

const LOG = `subscription($level: String, $module: String) { log(level: $level, module: $module) {
  lost messages { unixMs level module message } } }`;
const MESSAGES_MAX = 1000;
const LEVELS = ["error", "warn", "info", "debug", "trace"];

export class Log {
  title = "Log";
  level = "info";
  module = "";
  rows = [];
  isPaused = false;
  drawSoon = withNextFrame(() => this.draw());

  show() {
    const levels = LEVELS.map((level) => make("option", { value: level, selected: level === this.level },
      level === "error" ? level : `${level} and above`));
    this.filter = make("input", { placeholder: "face", oninput: () => this.draw() });
    const module = field("Module", { name: "module", value: this.module, placeholder: "ndn_dataplane" });
    const select = make("select", { name: "level", onchange: () => form.requestSubmit() }, ...levels);
    const form = make("form", { onsubmit: (event) => {
      event.preventDefault();
      Object.assign(this, Object.fromEntries(new FormData(form)));
      this.start();
    } }, make("label", {}, "Level", select), module, make("button", {}, "Show"),
    make("label", { class: "wide" }, "Show only lines that contain", this.filter));
    this.pause = make("button", { type: "button", onclick: () => {
      this.isPaused = !this.isPaused;
      this.draw();
    } });
    const set = make("form", { onsubmit: (event) => {
      event.preventDefault();
      const { directives } = Object.fromEntries(new FormData(set));
      change(set, "mutation($directives: String!) { logSet(directives: $directives) { directives } }", { directives },
        () => (set.reset(), this.readLevels()));
    } }, field("Change the levels in force", { name: "directives", required: true, placeholder: "ndn_dataplane=debug" }, true),
    make("button", {}, "Change"));
    this.levels = make("p");
    this.lost = make("p", { role: "status" });
    this.body = make("div");
    main.replaceChildren(make("h2", {}, this.title), this.levels, make("div", {}, set), form,
      make("div", { class: "bar" }, this.pause), this.lost, this.body);
    this.readLevels().catch(showError);
    this.start();
  }

  hide() {
    this.follow?.stop();
    Object.assign(this, { rows: [], isPaused: false });
  }

  async readLevels() {
    const { directives } = (await query("{ logLevels { directives } }")).logLevels;
    this.levels.textContent = `Levels in force: ${directives.replaceAll(",", ", ")}. Other messages are not logged.`;
  }

  start() {
    this.follow?.stop();
    const { level, module } = this;
    this.rows = [];
    this.lost.textContent = "";
    this.follow = new Subscription(LOG, {
      variables: { level, module: module.trim() || null },
      onData: ({ log }) => this.add(log),
      onState: (state) => {
        // The latest messages are sent again after each connection.
        if (state === "live") this.rows = [];
        showConnection(state);
      },
      onError: showError,
    });
    this.draw();
  }

  add({ lost, messages }) {
    if (lost > 0) this.lost.textContent = `${lost} messages were lost because there were too many.`;
    this.rows = [...messages.reverse(), ...this.rows].slice(0, MESSAGES_MAX);
    if (!this.isPaused) this.drawSoon();
  }

  draw() {
    this.pause.textContent = this.isPaused ? "Resume" : "Pause";
    this.pause.setAttribute("aria-pressed", String(this.isPaused));
    const requested = this.filter.value.toLowerCase();
    const rows = this.rows.filter(({ module, message }) => `${module} ${message}`.toLowerCase().includes(requested))
      .map(({ unixMs, level, module, message }) => make("tr", {}, make("td", { class: "number" }, time(unixMs)),
        make("td", {}, make("span", { class: `level ${level}` }, level)),
        make("td", { class: "name message" }, message), make("td", { class: "module" }, module)));
    const headings = [["Time (UTC)", "number"], ["Level"], ["Message"], ["Module"]];
    this.body.replaceChildren(rows.length > 0 ? table("Messages, the latest first", headings, rows)
      : make("p", {}, "No message of this level, module and text."));
  }
}
