// Applications of this host: what they serve, and what they receive and send.

import { query } from "/api.js";
import { short } from "/chart.js";
import { List } from "/frame.js";
import { make, table } from "/parts.js";

const FACES_MAX = 1000;
/** Names shown of an application. */
const NAMES_MAX = 5;
const APPLICATIONS = `{ faces(first: 1000, scope: "local") { faceId remoteUri link {
    inInterests outInterests inData outData inBytes outBytes } }
  rib(first: 1000) { name routes { faceId } } }`;

export class Applications extends List {
  title = "Applications";
  past = new Map();

  makeForm() {
    return make("p", {}, "Programs of this host that are connected: those that serve names, such as namewire serve, and those that "
      + "fetch, such as namewire get. The forwarder knows their packets, and not which file they belong to.");
  }

  async read() {
    const { faces, rib } = await query(APPLICATIONS);
    const now = performance.now();
    const names = new Map();
    for (const { name, routes } of rib) {
      for (const { faceId } of routes) names.set(faceId, [...(names.get(faceId) ?? []), name]);
    }
    const applications = faces.filter(({ faceId, link }) => faceId > 255 && link).map(({ faceId, remoteUri, link }) => {
      const past = this.past.get(faceId);
      const rate = (name) => (past ? Math.max(0, ((link[name] - past.link[name]) * 1000) / (now - past.now)) : undefined);
      return { faceId, remoteUri, link, rate, names: names.get(faceId) ?? [], busy: (rate("inBytes") ?? 0) + (rate("outBytes") ?? 0) };
    });
    this.past = new Map(applications.map(({ faceId, link }) => [faceId, { link, now }]));
    applications.sort((one, other) => other.busy - one.busy || one.faceId - other.faceId);
    const number = (text) => make("td", { class: "number" }, text);
    const rows = applications.map(({ faceId, remoteUri, link, rate, names: own }) => {
      const shown = (name, unit, factor = 1) => (rate(name) === undefined ? "–" : short(rate(name) * factor, unit));
      const more = own.length > NAMES_MAX ? `, ${own.length - NAMES_MAX} more` : "";
      return make("tr", {}, number(String(faceId)), make("td", {}, remoteUri),
        make("td", { class: "name" }, own.slice(0, NAMES_MAX).join(", ") + more),
        number(shown("outData", "/s")), number(shown("outBytes", "bit/s", 8)), number(short(link.outBytes, "B")),
        number(shown("inData", "/s")), number(shown("inBytes", "bit/s", 8)), number(short(link.inBytes, "B")));
    });
    const headings = [["Face", "number"], ["Connection"], ["Serves"], ["Data to it", "number"], ["Bits to it", "number"],
      ["In total", "number"], ["Data from it", "number"], ["Bits from it", "number"], ["In total", "number"]];
    const limit = faces.length === FACES_MAX ? `; the first ${FACES_MAX} faces` : "";
    return [rows.length > 0 ? table(`Applications, the busiest first${limit}`, headings, rows)
      : make("p", {}, "No application is connected.")];
  }
}
