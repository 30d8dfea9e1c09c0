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

/** A page of charts that follow a subscription to counters, with a button that pauses them. */
export class Live {
  isPaused = false;

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
        if (!this.isPaused && !document.hidden) this.draw();
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

/** A list that is read in parts and again every few seconds while it is shown. */
export class List {
  show() {
    this.body = make("div");
    this.form = this.makeForm();
    main.replaceChildren(make("h2", {}, this.title), this.form, this.body);
    showConnection();
    this.refresh();
    this.timer = setInterval(() => document.hidden || this.refresh(), 3000);
    // The list is read at once when a face changes; its rates only from time to time.
    if (this.followsFaces) this.follow = new Subscription("subscription { faceEvents { lost } }", {
      onData: () => document.hidden || this.refresh(),
      onState: showConnection,
      onError: showError,
    });
  }

  hide() {
    clearInterval(this.timer);
    this.follow?.stop();
    this.follow = undefined;
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
