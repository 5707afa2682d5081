// Correction of a prediction: the photo becomes an example of the class that the person chooses.

import { loadClasses } from "./classes.js";
import { answerAll } from "./photos.js";
import { askJson, counted, made, readable, say, state } from "./shared.js";

let number = 0; // for ids of form controls

export function showCorrection(photo) {
  photo.correction.hidden = !state.takesExamples || !photo.features;
  if (photo.correction.hidden) return;
  if (photo.example) return photo.correction.replaceChildren(made("p", { textContent: `Used as an example of “${readable(photo.example)}”.` }));
  if (!photo.choice) build(photo);
  const chosen = photo.choice.value, names = state.classes.map((one) => one.name);
  photo.choice.replaceChildren(photo.choice.options[0], ...names.map((name) => made("option", { value: name, textContent: readable(name) })));
  photo.choice.value = names.includes(chosen) ? chosen : "";
}

function build(photo) {
  photo.choice = made("select", { id: `correction-${number++}` }, made("option", { value: "", textContent: "choose" }));
  const label = made("label", { textContent: "Not right? Choose the class, and the photo becomes an example of it." }), use = made("button", { type: "button", textContent: "Use as example" });
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
    const { examples } = await askJson("examples", { name, features: [photo.features] });
    photo.example = name;
    await loadClasses();
    say(`“${readable(name)}” now has ${counted(examples)}.`);
    await answerAll();
    showCorrection(photo);
    photo.correction.focus({ preventScroll: true });
  } catch (error) {
    use.disabled = false;
    say(error.message, true);
  }
}
