// Examples: a corrected photo, or photos that are chosen for a class. The model uses them at once, without training.

import { loadClasses } from "./classes.js";
import { fail, say, settle } from "./messages.js";
import { answerAll } from "./photos.js";
import { $, ask, askJson, counted, listClasses, made, readable, state } from "./shared.js";

let number = 0; // for ids of form controls

export function showExamples() {
  $("teach").hidden = !state.takesExamples;
  $("no-examples").hidden = state.takesExamples;
  listClasses($("example-class"));
  const taught = state.classes.filter((one) => one.examples);
  $("taught").replaceChildren(...taught.map((one) => made("li", { textContent: `${readable(one.name)}: ${counted(one.examples)}` })));
}

export async function addExamples(files) {
  const name = $("example-class").value, photos = [...files];
  if (!name) { fail("examples", "Choose the class that the example photos show."); return $("example-class").focus(); }
  if (!photos.length) return;
  say(`Adding ${counted(photos.length)} of “${readable(name)}” …`);
  let added = 0;
  try {
    for (const photo of photos) {
      const form = new FormData();
      form.append("name", name);
      form.append("photo", photo, photo.name);
      await ask("examples", { method: "POST", body: form });
      added++;
    }
    settle("examples");
  } catch (error) { fail("examples", error.message); }
  if (added) await taught(name);
  else say("");
}

export function showCorrection(photo) {
  photo.correction.hidden = !state.takesExamples || !photo.features;
  if (photo.correction.hidden) return;
  if (photo.example) return photo.correction.replaceChildren(made("p", { textContent: `Used as an example of “${readable(photo.example)}”.` }));
  if (!photo.choice) build(photo);
  listClasses(photo.choice);
}

function build(photo) {
  photo.choice = made("select", { id: `correction-${number++}` }, made("option", { value: "", textContent: "choose the class" }));
  const label = made("label", { textContent: "Not right? Say what it is; the model learns from the photo at once." });
  const use = made("button", { type: "button", textContent: "Use as example" });
  label.htmlFor = photo.choice.id;
  use.disabled = true;
  photo.choice.addEventListener("change", () => { use.disabled = photo.choice.value === ""; });
  use.addEventListener("click", () => correct(photo, use));
  photo.correction.replaceChildren(label, photo.choice, use);
}

async function correct(photo, use) {
  const name = photo.choice.value;
  use.disabled = true; // a photo counts once
  try {
    await askJson("examples", { name, features: [photo.features] });
    settle("examples");
    photo.example = name;
    await taught(name);
    showCorrection(photo);
    photo.correction.focus({ preventScroll: true });
  } catch (error) {
    use.disabled = false;
    fail("examples", error.message);
  }
}

async function taught(name) {
  await loadClasses();
  const { examples } = state.classes.find((one) => one.name === name);
  say(`“${readable(name)}” now has ${counted(examples)}.`);
  await answerAll();
}
