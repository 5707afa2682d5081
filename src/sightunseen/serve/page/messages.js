// Messages: errors stay until they are dismissed or their cause is gone; the status line shows what was done last.

import { $, made } from "./shared.js";

const MOST = 20; // errors shown; the oldest goes first
const errors = new Map(); // elements by topic

// Show what was done, or nothing. Errors of other topics stay.
export function say(text) { $("status").textContent = text; }

// Show an error. A later one about the same topic replaces it.
export function fail(topic, text) {
  settle(topic);
  const dismiss = made("button", { type: "button", textContent: "✕", title: "dismiss" });
  dismiss.setAttribute("aria-label", `dismiss: ${text}`);
  dismiss.addEventListener("click", () => settle(topic));
  const message = made("div", {}, made("span", { textContent: text }), dismiss);
  errors.set(topic, message);
  $("errors").append(message);
  if (errors.size > MOST) settle(errors.keys().next().value);
}

// Remove the error about a topic, because it was dismissed or because a later attempt succeeded.
export function settle(topic) {
  errors.get(topic)?.remove();
  errors.delete(topic);
}
