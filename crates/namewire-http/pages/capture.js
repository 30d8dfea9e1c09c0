// A capture viewed live: packets as they are on the links, their dissection, and the file for Wireshark.

import { Subscription, query } from "/api.js";
import { short } from "/chart.js";
import { main, showConnection, withNextFrame } from "/frame.js";
import { field, make, notice, save, table, time } from "/parts.js";

const CAPTURE = `subscription($faceId: UInt64, $name: String, $types: [String!], $sample: UInt64) {
  capture(faceId: $faceId, name: $name, types: $types, sample: $sample) {
    lost pcapng packets { unixMs faceId peer direction packet name details bytes wire } } }`;
const DISSECT = "query($packet: String!) { dissect(packet: $packet) { text error } }";
/** Packets shown, and bytes of the file. */
const PACKETS_MAX = 300;
const FILE_MAX = 32 << 20;
const TYPES = ["Interest", "Data", "Nack", "NDNLPv2", "other"];

export class Capture {
  title = "Capture";
  requested = { name: "", type: "", faceId: "", sample: "1" };
  rows = [];
  file = [];
  isPaused = false;
  drawSoon = withNextFrame(() => this.draw());

  show() {
    const types = TYPES.map((type) => make("option", { selected: type === this.requested.type }, type));
    const form = make("form", { onsubmit: (event) => {
      event.preventDefault();
      if (this.follow) this.stop();
      else this.start(form);
    } },
    field("Names under", { name: "name", value: this.requested.name, placeholder: "/" }, true),
    make("label", {}, "Type", make("select", { name: "type" }, make("option", { value: "" }, "all"), ...types)),
    field("Face (empty: all)", { name: "faceId", type: "number", min: "1", value: this.requested.faceId }),
    field("Sample: one packet of", { name: "sample", type: "number", min: "1", value: this.requested.sample, required: true }),
    this.button = make("button", { class: "main" }, "Start capture"));
    this.pause = make("button", { type: "button", "aria-pressed": String(this.isPaused), onclick: () => {
      this.isPaused = !this.isPaused;
      this.draw();
    } });
    this.save = make("button", { type: "button", onclick: () => save(this.file, "capture.pcapng") }, "Save as pcapng");
    this.filter = make("input", { placeholder: "congestion mark", oninput: () => this.draw() });
    const filter = make("form", { onsubmit: (event) => event.preventDefault() },
      make("label", { class: "wide" }, "Show only lines that contain", this.filter));
    this.counts = make("span");
    this.lost = make("p", { role: "status" });
    this.body = make("div");
    this.dissection = make("div", { "aria-live": "polite" });
    main.replaceChildren(make("h2", {}, this.title),
      make("p", {}, "Packets as faces receive and send them. A capture ends when this page is left."),
      form, filter, make("div", { class: "bar" }, this.pause, this.save, this.counts), this.lost, this.dissection, this.body);
    showConnection();
    this.draw();
  }

  hide() {
    this.stop();
    Object.assign(this, { rows: [], file: [], isPaused: false });
  }

  start(form) {
    form.parentElement.querySelector(".notice")?.remove();
    const { name, type, faceId, sample } = Object.fromEntries(new FormData(form));
    Object.assign(this, { requested: { name, type, faceId, sample }, rows: [], file: [], packets: 0, bytes: 0, fileBytes: 0, isPaused: false });
    this.dissection.replaceChildren();
    this.lost.textContent = "";
    this.follow = new Subscription(CAPTURE, {
      variables: { name: name || null, types: type ? [type] : null, faceId: faceId ? Number(faceId) : null, sample: Number(sample) },
      onData: ({ capture }) => this.add(capture),
      onState: showConnection,
      onError: (error) => {
        this.stop();
        form.after(notice(error.message));
      },
    });
    this.button.textContent = "Stop capture";
    this.draw();
  }

  stop() {
    this.follow?.stop();
    this.follow = undefined;
    this.button.textContent = "Start capture";
    showConnection();
  }

  add({ lost, pcapng, packets }) {
    this.packets += packets.length;
    this.bytes += packets.reduce((sum, { bytes }) => sum + bytes, 0);
    const part = Uint8Array.from(atob(pcapng), (character) => character.charCodeAt(0));
    if (this.fileBytes + part.length <= FILE_MAX) {
      this.file.push(part);
      this.fileBytes += part.length;
    } else {
      // Later parts have no beginning without this one.
      this.fileBytes = FILE_MAX;
    }
    if (lost > 0) this.lost.textContent = `${lost} packets were lost because there were too many.`;
    if (!this.isPaused) this.rows = [...packets.reverse(), ...this.rows].slice(0, PACKETS_MAX);
    this.drawSoon();
  }

  async dissect({ wire, peer, packet, faceId }) {
    try {
      const { text, error } = (await query(DISSECT, { packet: wire })).dissect;
      const close = make("button", { type: "button", onclick: () => this.dissection.replaceChildren() }, "Close");
      this.dissection.replaceChildren(make("section", { class: "dissection", "aria-label": "Dissection" },
        make("div", { class: "bar" }, make("b", {}, `${packet}, face ${faceId}, ${peer}`), close),
        ...(error ? [make("p", { class: "down" }, error)] : []),
        make("pre", { tabindex: "0" }, text)));
      this.dissection.scrollIntoView({ block: "nearest" });
    } catch (error) {
      this.dissection.replaceChildren(notice(error.message));
    }
  }

  draw() {
    this.pause.textContent = this.isPaused ? "Resume list" : "Pause list";
    this.pause.setAttribute("aria-pressed", String(this.isPaused));
    this.save.disabled = this.file.length === 0;
    const full = this.fileBytes >= FILE_MAX ? `; the file has its first ${FILE_MAX >> 20} MiB` : "";
    this.counts.textContent = this.packets > 0 ? `${short(this.packets)} packets, ${short(this.bytes, "B")}${full}` : "";
    // Rows are not replaced under the focus of the keyboard.
    if (this.body.contains(document.activeElement)) return;
    const requested = this.filter.value.toLowerCase();
    const rows = this.rows.map((one) => ({ ...one, text: one.details.join(", ") }))
      .filter(({ packet, name, peer, text }) => `${packet} ${name ?? ""} ${peer} ${text}`.toLowerCase().includes(requested))
      .map((one) => make("tr", {}, make("td", { class: "number" }, time(one.unixMs)),
        make("td", {}, make("button", { type: "button", class: "link", "aria-label": `Dissect the ${one.packet} ${one.name ?? ""}`,
          onclick: () => this.dissect(one) }, one.packet)),
        make("td", { class: "name" }, one.name ?? ""), make("td", {}, one.direction === "received" ? "from" : "to"),
        make("td", { class: "number" }, String(one.faceId)),
        make("td", { class: "name peer" }, one.peer), make("td", { class: "number" }, String(one.bytes)),
        make("td", { class: "name details" }, one.text)));
    const headings = [["Time (UTC)", "number"], ["Packet"], ["Name"], [""], ["Face", "number"], ["Peer"], ["Bytes", "number"], ["Details"]];
    const empty = this.follow ? "No packet yet." : "No capture is running.";
    this.body.replaceChildren(this.rows.length > 0 ? table("Captured packets, the latest first", headings, rows) : make("p", {}, empty));
  }
}
