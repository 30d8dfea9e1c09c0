// Applications of this host: what they serve, and what they receive and send.

import { query } from "/api.js";
import { short } from "/chart.js";
import { FaceRates, List } from "/frame.js";
import { make, table } from "/parts.js";

const FACES_MAX = 1000;
/** Names shown of an application. */
const NAMES_MAX = 5;
const APPLICATIONS = `{ faces(first: ${FACES_MAX}, scope: "local") { faceId remoteUri }
  rib(first: 1000) { name routes { faceId } } }`;

export class Applications extends List {
  title = "Applications";
  events = ["faceEvents", "routingEvents"];
  rates = new FaceRates(() => this.draw());

  hide() {
    super.hide();
    this.rates.stop();
  }

  makeForm() {
    return make("p", {}, "Programs of this host that are connected: those that serve names, such as namewire serve, and those that "
      + "fetch, such as namewire get. The forwarder knows their packets, and not which file they belong to.");
  }

  async read() {
    const { faces, rib } = await query(APPLICATIONS);
    const names = new Map();
    for (const { name, routes } of rib) {
      for (const { faceId } of routes) names.set(faceId, [...(names.get(faceId) ?? []), name]);
    }
    const applications = faces.filter(({ faceId }) => faceId > 255);
    if (this.follow) this.rates.follow(applications.map(({ faceId }) => faceId));
    return { applications, names, isCut: faces.length === FACES_MAX };
  }

  view({ applications, names, isCut }) {
    const rate = (...of) => this.rates.rate(...of);
    const busy = ({ faceId }) => (rate(faceId, "inBytes") ?? 0) + (rate(faceId, "outBytes") ?? 0);
    const number = (text) => make("td", { class: "number" }, text);
    const shown = (value, unit, factor = 1) => number(value === undefined ? "–" : short(value * factor, unit));
    const sorted = applications.map((one) => [busy(one), one]).sort(([one, a], [other, b]) => other - one || a.faceId - b.faceId);
    const rows = sorted.map(([, { faceId, remoteUri }]) => {
      const own = names.get(faceId) ?? [];
      const more = own.length > NAMES_MAX ? `, ${own.length - NAMES_MAX} more` : "";
      const total = (name) => shown(this.rates.total(faceId, name), "B");
      return make("tr", {}, number(String(faceId)), make("td", {}, remoteUri),
        make("td", { class: "name" }, own.slice(0, NAMES_MAX).join(", ") + more),
        shown(rate(faceId, "outData"), "/s"), shown(rate(faceId, "outBytes"), "bit/s", 8), total("outBytes"),
        shown(rate(faceId, "inData"), "/s"), shown(rate(faceId, "inBytes"), "bit/s", 8), total("inBytes"));
    });
    const headings = [["Face", "number"], ["Connection"], ["Serves"], ["Data to it", "number"], ["Bits to it", "number"],
      ["In total", "number"], ["Data from it", "number"], ["Bits from it", "number"], ["In total", "number"]];
    const limit = isCut ? `; the first ${FACES_MAX} faces` : "";
    return [rows.length > 0 ? table(`Applications, the busiest first${limit}`, headings, rows)
      : make("p", {}, "No application is connected.")];
  }
}
