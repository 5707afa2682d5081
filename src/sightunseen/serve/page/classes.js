// Candidate classes, and adding and removing classes.

import { clearForm } from "./attributes.js";
import { answerAll, later, stopAnswering } from "./photos.js";
import { $, ask, askJson, described, kind, made, readable, say, state } from "./shared.js";

export async function loadClasses() {
  const found = await ask("classes");
  Object.assign(state, { classes: found.classes, attributes: found.attributes, semantics: found.semantics, takesExamples: found.takes_examples });
  const names = new Set(found.classes.map((one) => one.name));
  state.chosen = new Set([...state.chosen].filter((name) => names.has(name)));
  const seen = found.classes.filter((one) => one.seen).length, unseen = found.classes.length - seen;
  $("subtitle").textContent = `The model has ${found.classes.length} classes: ${seen} seen in training, ${unseen} unseen (described only).`;
  for (const [which, count] of Object.entries({ all: found.classes.length, seen, unseen })) {
    document.querySelector(`[data-count=${which}]`).textContent = `(${count})`;
    document.querySelector(`input[value=${which}]`).disabled = count === 0;
  }
  $("by-text").hidden = !/^(text|names|both)\b/.test(found.semantics);
  $("by-attributes").hidden = found.attributes.length === 0;
  $("authentication").hidden = !found.guarded;
  $("drop").hidden = !found.photos;
  if (!found.photos) say("The backbone of this model is unknown: it accepts features over HTTP, but no photos.");
  const start = $("like").value;
  $("like").replaceChildren($("like").options[0], ...found.classes.map((one) => made("option", { value: one.name, textContent: readable(one.name) })));
  $("like").value = names.has(start) ? start : "";
  $("added").hidden = !found.classes.some((one) => one.added);
  $("added-list").replaceChildren(...found.classes.filter((one) => one.added).map((one) => {
    const remove = made("button", { type: "button", className: "small", textContent: "remove" });
    remove.setAttribute("aria-label", `remove ${one.name}`);
    remove.addEventListener("click", () => removeClass(one.name));
    return made("li", {}, made("span", { textContent: one.name }), remove);
  }));
  showClasses();
}

export function showClasses() {
  const wanted = $("find-class").value.trim().toLowerCase();
  const shown = state.classes.filter((one) => readable(one.name).toLowerCase().includes(wanted));
  $("class-list").replaceChildren(...shown.map((one) => {
    const box = made("input", { type: "checkbox", checked: state.chosen.has(one.name) });
    box.addEventListener("change", () => { state.chosen[box.checked ? "add" : "delete"](one.name); countChosen(); later(); });
    return made("label", {}, box, " ", readable(one.name), made("span", { className: "soft", textContent: ` ${kind(one)}` }));
  }));
  if (!shown.length) $("class-list").append(made("p", { textContent: "no class matches" }));
  countChosen();
  return shown;
}

const countChosen = () => { document.querySelector("[data-count=some]").textContent = state.chosen.size ? `(${state.chosen.size})` : ""; };

export async function addClass(event) {
  event.preventDefault();
  const name = $("name").value.trim(), preview = described();
  if (!name) { say("Give the new class a name.", true); return $("name").focus(); }
  if (!preview && state.classes.some((one) => one.name === name)) return say(`Class “${name}” already exists. Choose another name.`, true);
  if (!preview) return say($("by-attributes").hidden ? "Describe the class in a sentence." : "Move at least one slider.", true);
  stopAnswering();
  try {
    await askJson("classes", { ...preview, name });
    if (document.querySelector("input[name=which]:checked").value === "some") state.chosen.add(name);
    clearForm();
    await loadClasses();
    say(`Added “${name}”. It is now one of the classes.`);
    await answerAll();
  } catch (error) { later(); say(error.message, true); }
}

async function removeClass(name) {
  stopAnswering();
  try {
    await askJson(`classes/${encodeURIComponent(name)}`, undefined, "DELETE");
    await loadClasses();
    say(`Removed “${name}”.`);
    $("name").focus({ preventScroll: true });
    await answerAll();
  } catch (error) { later(); say(error.message, true); }
}
