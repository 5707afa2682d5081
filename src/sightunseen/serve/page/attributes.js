// The form of a new class: one slider per attribute, and a preview of the class in the predictions.

import { changed } from "./photos.js";
import { $, ask, attribute, described, made, short, state } from "./shared.js";

const MOST_SHOWN = 40; // attributes listed at a time

export function clearForm() {
  for (const id of ["name", "description", "find-attribute", "like"]) $(id).value = "";
  state.values.clear();
  showAttributes();
  showPreview();
}

export function showAttributes() {
  const wanted = $("find-attribute").value.trim().toLowerCase();
  const fitting = state.attributes.filter((one) => attribute(one.name).toLowerCase().includes(wanted));
  const like = $("like").value !== "";
  const order = like ? fitting : [...fitting.filter((one) => state.values.has(one.name)), ...fitting.filter((one) => !state.values.has(one.name))];
  $("attribute-list").replaceChildren(...order.slice(0, MOST_SHOWN).map(slider));
  const hidden = order.length - MOST_SHOWN;
  if (hidden > 0) $("attribute-list").append(made("p", { textContent: `and ${hidden} more: use the search field` }));
  if (!order.length) $("attribute-list").append(made("p", { textContent: "no attribute matches" }));
  countSet();
}

function countSet() {
  $("how-many").textContent = `(${state.attributes.length}; ${state.values.size ? `${state.values.size} set` : "unset attributes have their average value"})`;
}

function slider(one, index) {
  const id = `attribute-${index}`, { name, lowest, highest, mean } = one;
  const range = made("input", { type: "range", id, min: lowest, max: highest > lowest ? highest : lowest + 1, step: "any" });
  const shown = made("output"), reset = made("button", { type: "button", textContent: "↺", title: "reset to average" });
  reset.setAttribute("aria-label", `${attribute(name)}: reset to average`);
  const label = made("label", { textContent: attribute(name) });
  label.htmlFor = id;
  const box = made("div", { className: "attribute" }, label, made("div", { className: "row" }, range, shown, reset));
  const show = () => {
    const set = state.values.has(name);
    range.value = set ? state.values.get(name) : mean;
    box.classList.toggle("set", set);
    shown.textContent = set ? short(state.values.get(name)) : `average ${short(mean)}`;
    reset.hidden = !set;
  };
  range.addEventListener("input", () => { state.values.set(name, Number(range.value)); show(); countSet(); changed(); });
  reset.addEventListener("click", () => { state.values.delete(name); show(); range.focus(); countSet(); changed(); });
  // Arrow keys move the slider by a twentieth of its range.
  range.addEventListener("keydown", (event) => {
    const turn = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!turn) return;
    event.preventDefault();
    range.value = Number(range.value) + (turn * (range.max - range.min)) / 20;
    range.dispatchEvent(new Event("input"));
  });
  show();
  return box;
}

export async function startFrom() {
  state.values.clear();
  const name = $("like").value;
  if (name) {
    const found = (await ask("classes?vectors=true")).classes.find((known) => known.name === name);
    state.attributes.forEach((one, index) => state.values.set(one.name, found.vector[index]));
  }
  showAttributes();
  changed();
}

export function showPreview() {
  const preview = described();
  $("preview").textContent = !preview ? "" : state.photos.length
    ? `The predictions include “${preview.name}”. Add it to keep it.` : `Choose a photo to test “${preview.name}”.`;
}
