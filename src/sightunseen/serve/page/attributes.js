// The form that describes a new class: sliders for its attributes, and what the answers make of it.

import { changed } from "./photos.js";
import { $, ask, attribute, described, made, short, state } from "./shared.js";

const MOST_SHOWN = 40; // attributes listed at a time

export function clearForm() {
  for (const id of ["name", "description", "find-attribute", "like"]) $(id).value = "";
  state.values.clear();
  showAttributes();
  showTrial();
}

export function showAttributes() {
  const wanted = $("find-attribute").value.trim().toLowerCase();
  const fitting = state.attributes.filter((one) => attribute(one.name).toLowerCase().includes(wanted));
  const like = $("like").value !== "";
  const order = like ? fitting : [...fitting.filter((one) => state.values.has(one.name)), ...fitting.filter((one) => !state.values.has(one.name))];
  $("attribute-list").replaceChildren(...order.slice(0, MOST_SHOWN).map(slider));
  const hidden = order.length - MOST_SHOWN;
  if (hidden > 0) $("attribute-list").append(made("p", { textContent: `and ${hidden} more: type above to find them` }));
  if (!order.length) $("attribute-list").append(made("p", { textContent: "no attribute has this in its name" }));
  countSet();
}

function countSet() {
  $("how-many").textContent = `(${state.attributes.length}; ${state.values.size ? `${state.values.size} set` : "move the sliders that matter, the rest stays average"})`;
}

function slider(one, place) {
  const id = `attribute-${place}`, { name, lowest, highest, mean } = one;
  const range = made("input", { type: "range", id, min: lowest, max: highest > lowest ? highest : lowest + 1, step: "any" });
  const shown = made("output"), reset = made("button", { type: "button", className: "small", textContent: "↺", title: "average again" });
  reset.setAttribute("aria-label", `${attribute(name)}: average again`);
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
  // Steps for the keyboard: twenty from one end to the other.
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
    state.attributes.forEach((one, place) => state.values.set(one.name, found.vector[place]));
  }
  showAttributes();
  changed();
}

export function showTrial() {
  const trial = described();
  $("trial").textContent = !trial ? "" : state.photos.length
    ? `The answers already count “${trial.name}” in. Add it to keep it.` : `Choose a photo to see how “${trial.name}” does.`;
}
