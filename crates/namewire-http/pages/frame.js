// What all pages share: the place where a page is shown, the state of its connection, and the question for a token.

import { ApiError, Subscription, keepToken, token } from "/api.js";
import { field, make, notice } from "/parts.js";

export const main = document.querySelector("main");
const connection = document.querySelector("#connection");
let pages = {};
let shown;

/** Shows the state of a connection: `live`, `lost`, `refused`, or nothing. */
export function showConnection(state) {
  const texts = { live: "live", lost: "connection lost, trying again", refused: "refused" };
  connection.textContent = texts[state] ?? "";
  if (state === "refused") askForToken("the token is missing, wrong or has expired");
}

export function showError(error) {
  if (error.code === "UNAUTHENTICATED" || error.code === "FORBIDDEN") askForToken(error.message);
  else main.append(notice(error.message));
}

export function askForToken(reason) {
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
  const asked = /^#\/(\w+)/.exec(location.hash)?.[1];
  const name = Object.hasOwn(pages, asked ?? "") ? asked : "overview";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  shown = pages[name];
  document.title = `${shown.title} – Namewire`;
  shown.show();
}

/** Shows the page that the address names, now and whenever it changes. */
export function start(all) {
  pages = all;
  addEventListener("hashchange", show);
  show();
}

/** A function that has `draw` called in the next animation frame, once for all calls until then; a hidden page has none. */
export function withNextFrame(draw) {
  let frame;
  return () => {
    frame ??= requestAnimationFrame(() => {
      frame = undefined;
      draw();
    });
  };
}

/** A page of charts that follow a subscription to counters, with a button that pauses them. */
export class Live {
  isPaused = false;
  drawSoon = withNextFrame(() => this.draw());

  show() {
    const button = make("button", { type: "button", "aria-pressed": String(this.isPaused), onclick: () => {
      this.isPaused = !this.isPaused;
      button.setAttribute("aria-pressed", String(this.isPaused));
      button.textContent = this.isPaused ? "Resume" : "Pause";
    } }, this.isPaused ? "Resume" : "Pause");
    main.replaceChildren(make("h2", {}, this.title), make("div", { class: "bar" }, button), ...this.parts());
    this.follow = new Subscription(this.subscription, {
      onData: ({ counters }) => {
        this.add(counters);
        if (!this.isPaused) this.drawSoon();
      },
      onState: showConnection,
      onError: showError,
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
}

/** Items of a list on a page. */
export const PAGE = 100;
/** Shortest time between two readings of a list because of events, in milliseconds. */
const PAUSE = 1000;

/** A list that is read in parts while it is shown: again after events of some kinds. */
export class List {
  /** Kinds of events after which it is read. */
  events = [];

  show() {
    this.body = make("div");
    this.data = undefined;
    this.form = this.makeForm();
    main.replaceChildren(make("h2", {}, this.title), this.form, this.body);
    showConnection();
    this.refresh();
    this.appear = () => this.refreshSoon();
    document.addEventListener("visibilitychange", this.appear);
    this.connect();
  }

  /** Follows the events. */
  connect() {
    this.follow = new Subscription(this.events.map((kind) => `subscription { ${kind} { lost } }`), {
      onData: () => this.refreshSoon(),
      onState: (state) => {
        showConnection(state);
        // What happened before the connection has no event.
        if (state === "live") this.refreshSoon();
      },
      onError: showError,
    });
  }

  hide() {
    clearTimeout(this.soon);
    this.soon = undefined;
    document.removeEventListener("visibilitychange", this.appear);
    this.follow?.stop();
    this.follow = undefined;
  }

  /** Reads the list, soon after the last time. A hidden page is read when it appears. */
  refreshSoon() {
    if (document.hidden || this.soon !== undefined) return;
    const wait = Math.max(0, (this.readAt ?? 0) + PAUSE - performance.now());
    this.soon = setTimeout(() => {
      this.soon = undefined;
      this.refresh();
    }, wait);
  }

  async refresh() {
    const { body } = this;
    this.readAt = performance.now();
    try {
      const data = await this.read();
      // Another page may have been shown meanwhile.
      if (body !== this.body || !body.isConnected) return;
      this.data = data;
      this.draw();
    } catch (error) {
      if (error instanceof ApiError && error.code === "UNAUTHENTICATED") return askForToken(error.message);
      body.replaceChildren(notice(error.message));
    }
  }

  /** Shows what was read. */
  draw() {
    // Rows are not replaced under the focus of the keyboard.
    if (this.data === undefined || this.body.contains(document.activeElement)) return;
    this.body.replaceChildren(...this.view(this.data));
  }

  /** The elements that show what `read` returned: these elements themselves. */
  view(elements) {
    return elements;
  }

  /** Buttons that turn the pages of a list of `count` items, the last of which is `last`; `after` has where pages begin. */
  pager(of, after, count, last) {
    const button = (text, turn) => make("button", { type: "button", "aria-label": `${text} ${of}`, onclick: () => {
      turn();
      document.activeElement?.blur();
      this.refresh();
    } }, text);
    return make("div", { class: "bar" },
      after.length > 0 ? button("Previous", () => after.pop()) : undefined,
      count === PAGE ? button("Next", () => after.push(last)) : undefined);
  }
}

const FACES = `subscription($faceIds: [UInt64!]) { counters(intervalMs: 2000, faceIds: $faceIds) { unixMs faces {
  key value { inInterests inData outData inBytes outBytes } } } }`;

/** Counters of faces and their rates, which the forwarder sends. */
export class FaceRates {
  samples = [];

  /** Has `draw` called after samples. */
  constructor(draw) {
    this.drawSoon = withNextFrame(draw);
  }

  /** Follows these faces. */
  follow(faceIds) {
    const key = faceIds.join();
    if (key === this.key) return;
    // Samples stay: faces that are followed again keep their rates.
    this.subscription?.stop();
    this.subscription = undefined;
    this.key = key;
    if (faceIds.length === 0) return;
    this.subscription = new Subscription(FACES, {
      variables: { faceIds },
      onData: ({ counters }) => {
        const faces = new Map(counters.faces.map(({ key: faceId, value }) => [Number(faceId), value]));
        this.samples = [...this.samples.slice(-1), { at: counters.unixMs, faces }];
        this.drawSoon();
      },
      onState: showConnection,
      onError: showError,
    });
  }

  stop() {
    this.subscription?.stop();
    this.subscription = undefined;
    this.key = undefined;
    this.samples = [];
  }

  /** The latest counter of a face, if there is one. */
  total(faceId, name) {
    return this.samples.at(-1)?.faces.get(faceId)?.[name];
  }

  /** Its growth in a second, from the second sample on. */
  rate(faceId, name) {
    const [before, now] = this.samples;
    const [past, latest] = [before?.faces.get(faceId), now?.faces.get(faceId)];
    return past && latest ? Math.max(0, ((latest[name] - past[name]) * 1000) / (now.at - before.at)) : undefined;
  }
}
