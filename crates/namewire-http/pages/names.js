// The tree of names: next hops, routes and strategies, level by level.

import { query } from "/api.js";
import { main, showConnection, showError } from "/frame.js";
import { field, make } from "/parts.js";

const NODES = `query($under: String, $skip: UInt64) { names(under: $under, skip: $skip) { total nodes {
  name component strategy fibEntriesBelow strategiesBelow nextHops { faceId cost } routes { faceId origin } } } }`;
/** Next hops shown of a name. */
const HOPS_MAX = 8;

export class Names {
  title = "Names";
  /** Names whose children are shown. */
  open = new Set(["/"]);

  show() {
    const form = make("form", { onsubmit: (event) => {
      event.preventDefault();
      this.under = new FormData(form).get("under").trim() || undefined;
      if (this.under) this.open.add(this.under);
      this.read();
    } }, field("Names under", { name: "under", placeholder: "/", value: this.under ?? "" }, true),
    make("button", { class: "main" }, "Show"));
    const again = make("button", { type: "button", onclick: () => this.read() }, "Read again");
    this.body = make("div");
    main.replaceChildren(make("h2", {}, this.title),
      make("p", {}, "Names that have next hops, routes or a strategy. Open a name to see the longer ones below it."),
      form, make("div", { class: "bar" }, again), this.body);
    showConnection();
    this.read();
  }

  hide() {}

  async read() {
    try {
      const list = make("ul", { class: "tree", "aria-label": "Names" });
      if (this.under) await this.fill(list, this.under);
      else {
        const { names } = await query(NODES, {});
        list.append(...names.nodes.map((node) => this.node(node)));
      }
      if (list.childElementCount === 0) list.append(make("li", {}, `There is no name under ${this.under ?? "/"}.`));
      this.body.replaceChildren(list);
    } catch (error) {
      this.body.replaceChildren();
      showError(error);
    }
  }

  /** Appends the next children of a name to a list. */
  async fill(list, under) {
    const { names } = await query(NODES, { under, skip: list.childElementCount });
    list.append(...names.nodes.map((node) => this.node(node)));
    const left = names.total - list.childElementCount;
    if (left <= 0 || names.nodes.length === 0) return;
    const more = make("button", { type: "button", onclick: async () => {
      const item = more.parentElement;
      item.remove();
      await this.fill(list, under).catch(showError);
      list.children[names.total - left]?.querySelector("summary, .leaf")?.focus();
    } }, `${left} further names`);
    list.append(make("li", {}, more));
  }

  node(node) {
    const { name, strategy, nextHops, routes, fibEntriesBelow, strategiesBelow } = node;
    const origins = new Map(routes.map(({ faceId, origin }) => [faceId, origin]));
    const hops = nextHops.slice(0, HOPS_MAX).map(({ faceId, cost }) => {
      const origin = origins.has(faceId) ? `, ${origins.get(faceId)}` : "";
      return make("span", { class: "tag" }, `face ${faceId} (cost ${cost}${origin})`);
    });
    if (nextHops.length > HOPS_MAX) hops.push(make("span", { class: "tag" }, `${nextHops.length - HOPS_MAX} more`));
    const waiting = routes.filter(({ faceId }) => !nextHops.some((hop) => hop.faceId === faceId))
      .map(({ faceId, origin }) => make("span", { class: "tag down" }, `face ${faceId} (${origin}, not in use)`));
    const set = strategy ? [make("span", { class: "tag strategy" }, strategy.replace("/localhost/nfd/strategy/", ""))] : [];
    const counts = [[fibEntriesBelow, "FIB entry", "FIB entries"], [strategiesBelow, "strategy", "strategies"]]
      .filter(([count]) => count > 0).map(([count, one, many]) => `${count} ${count === 1 ? one : many}`);
    const isRoot = name === "/";
    const label = [make("b", {}, isRoot ? "/" : node.component), ...hops, ...waiting, ...set];
    if (counts.length === 0) return make("li", {}, make("span", { class: "leaf", tabindex: "-1", title: name }, ...label));
    const children = make("ul");
    const read = () => this.fill(children, name).catch(showError);
    const below = make("details", { ontoggle: () => {
      if (below.open) this.open.add(name);
      else this.open.delete(name);
      if (below.open && children.childElementCount === 0) read();
    } }, make("summary", { title: name }, ...label, make("span", { class: "below" }, `${counts.join(", ")} below`)), children);
    // The event of an element that is open from the beginning comes, too.
    below.open = this.open.has(name);
    return make("li", {}, below);
  }
}
