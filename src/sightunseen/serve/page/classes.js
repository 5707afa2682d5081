// Candidate classes, and adding and removing classes.

import { clearForm } from "./attributes.js";
import { showExamples } from "./examples.js";
import { fail, say, settle } from "./messages.js";
import { answerAll, later, stopAnswering } from "./photos.js";
import { $, ask, askJson, described, kind, listClasses, made, readable, state } from "./shared.js";

export async function loadClasses() {
  const found = await ask("classes");
  Object.assign(state, { classes: found.classes, attributes: found.attributes, takesExamples: found.takes_examples });
  const names = new Set(found.classes.map((one) => one.name));
  state.chosen = new Set([...state.chosen].filter((name) => names.has(name)));
  const seen = found.classes.filter((one) => one.seen).length, unseen = found.classes.length - seen;
  $("subtitle").textContent = `The model knows ${found.classes.length} classes: ${seen} seen in training, ${unseen} unseen (described only).`;
  const [first, ...others] = found.verdict;
  $("verdict").replaceChildren(made("summary", { textContent: first ? `When tested: ${first}` : "" }), ...others.map((text) => made("p", { textContent: text })));
  $("verdict").hidden = !found.verdict.length;
  $("no-reasons").textContent = `Predictions come without reasons: ${found.no_reasons}.`;
  $("no-reasons").hidden = !found.no_reasons;
  for (const [which, count] of Object.entries({ all: found.classes.length, seen, unseen })) {
    document.querySelector(`[data-count=${which}]`).textContent = `(${count})`;
    document.querySelector(`input[value=${which}]`).disabled = count === 0;
  }
  $("by-text").hidden = !/^(text|names|both)\b/.test(found.semantics);
  $("by-attributes").hidden = found.attributes.length === 0;
  $("authentication").hidden = !found.guarded;
  $("drop").hidden = $("example-drop").hidden = !found.photos;
  $("no-photos").hidden = found.photos;
  listClasses($("like"));
  showExamples();
  $("added").hidden = !found.classes.some((one) => one.added);
  $("added-list").replaceChildren(...found.classes.filter((one) => one.added).map((one) => {
    const remove = made("button", { type: "button", textContent: "remove" });
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
    return made("label", {}, box, made("span", {}, readable(one.name), made("span", { className: "soft", textContent: ` ${kind(one)}` })));
  }));
  if (!shown.length) $("class-list").append(made("p", { textContent: "no class matches" }));
  countChosen();
  return shown;
}

const countChosen = () => { document.querySelector("[data-count=some]").textContent = state.chosen.size ? `(${state.chosen.size})` : ""; };

export async function addClass(event) {
  event.preventDefault();
  const name = $("name").value.trim(), preview = described();
  if (!name) { fail("classes", "Give the new class a name."); return $("name").focus(); }
  if (!preview && state.classes.some((one) => one.name === name)) return fail("classes", `Class “${name}” already exists. Choose another name.`);
  if (!preview) return fail("classes", $("by-attributes").hidden ? "Describe the class in a sentence." : "Move at least one slider.");
  stopAnswering();
  try {
    await askJson("classes", { ...preview, name });
    if (document.querySelector("input[name=which]:checked").value === "some") state.chosen.add(name);
    clearForm();
    await loadClasses();
    settle("classes");
    say(`Added “${name}”. It is now one of the classes.`);
    await answerAll();
  } catch (error) { later(); fail("classes", error.message); }
}

async function removeClass(name) {
  stopAnswering();
  try {
    await askJson(`classes/${encodeURIComponent(name)}`, undefined, "DELETE");
    await loadClasses();
    settle("classes");
    say(`Removed “${name}”.`);
    $("name").focus({ preventScroll: true });
    await answerAll();
  } catch (error) { later(); fail("classes", error.message); }
}
