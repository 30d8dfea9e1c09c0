// Elements of the pages.

import { query } from "/api.js";

/** An element with attributes, properties of events (`on…`) and children. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element[key] = value;
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

export function notice(text) {
  return make("p", { class: "notice", role: "alert" }, text);
}

export function table(caption, headings, rows) {
  const cells = headings.map(([text, kind]) => make("th", { scope: "col", class: kind }, text));
  const body = make("tbody", {}, ...rows);
  const head = make("thead", {}, make("tr", {}, ...cells));
  return make("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", {}, caption), head, body));
}

/** Runs a change; its error is shown beside `form`. */
export async function change(form, text, variables, after) {
  form.parentElement.querySelector(".notice")?.remove();
  try {
    await query(text, variables);
    await after();
  } catch (error) {
    form.after(notice(error.message));
  }
}

/** A labelled input. */
export function field(label, attributes, wide) {
  return make("label", { class: wide ? "wide" : undefined }, label, make("input", attributes));
}

/** The name of a counter or table as words. */
export function words(name) {
  return name.replaceAll("_", " ");
}

/** The time of day of a moment, in UTC with milliseconds. */
export function time(unixMs) {
  return new Date(unixMs).toISOString().slice(11, 23);
}

/** Has the browser save parts of a file. */
export function save(parts, name) {
  const url = URL.createObjectURL(new Blob(parts));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
