// Photos: features are extracted once; predictions are requested again when candidates or the described class change.

import { showPreview } from "./attributes.js";
import { showCorrection } from "./examples.js";
import { fail, say, settle } from "./messages.js";
import { reasons } from "./reasons.js";
import { $, SHOWN, ask, askJson, described, kind, made, options, percent, readable, state } from "./shared.js";

const TOGETHER = 64; // photos per request

export async function addPhotos(files) {
  const photos = [...files].map((file) => ({ file, url: URL.createObjectURL(file), name: file.name || "pasted photo" }));
  if (!photos.length) return;
  state.photos.unshift(...photos);
  showPhotos();
  const waiting = [...photos];
  const next = async () => {
    for (let photo = waiting.shift(); photo; photo = waiting.shift()) await embed(photo);
  };
  say(photos.length === 1 ? "Analysing the photo …" : `Analysing ${photos.length} photos …`);
  await Promise.all([next(), next(), next(), next()]);
  const failed = photos.filter((photo) => photo.error).length;
  say("");
  if (failed) fail("photos", `${failed} of ${photos.length} photos could not be read. The reason is below each photo.`);
  else settle("photos");
  showPreview();
}

// An upload names no class that may be added or removed before the server reads it; other candidates follow from its features.
async function embed(photo) {
  const form = new FormData(), { candidates, also } = options(), final = typeof candidates === "string" && !also.length;
  form.append("photo", photo.file, photo.name);
  form.append("with_features", "true");
  form.append("candidates", final ? candidates : "all");
  form.append("top", SHOWN);
  const asked = state.asked;
  try {
    const found = (await ask("predict", { method: "POST", body: form })).answers[0];
    photo.features = found.features;
    if (final && asked === state.asked) photo.answer = found;
    else later();
  } catch (error) { photo.error = error.message; }
  showPhoto(photo);
}

let timer, request = new AbortController();
export function later() { state.asked++; clearTimeout(timer); timer = setTimeout(answerAll, 120); }
export function changed() { showPreview(); later(); }

// Before classes change: a prediction of the described class would conflict with the class of that name.
export function stopAnswering() { state.asked++; clearTimeout(timer); request.abort(); }

export async function answerAll() {
  stopAnswering();
  request = new AbortController();
  const asked = state.asked, { signal } = request, wanted = options();
  const photos = state.photos.filter((photo) => photo.features), nothing = wanted.candidates.length === 0;
  $("some-hint").hidden = !nothing;
  if (nothing) return photos.forEach((photo) => { photo.answer = null; showPhoto(photo); });
  if (!photos.length) return;
  try {
    for (let start = 0; start < photos.length; start += TOGETHER) {
      const part = photos.slice(start, start + TOGETHER);
      const found = await askJson("predict", { ...wanted, features: part.map((photo) => photo.features) }, "POST", signal);
      if (asked !== state.asked) return;
      part.forEach((photo, index) => { photo.answer = found.answers[index]; showPhoto(photo); });
    }
    settle("predict");
    showPreview();
  } catch (error) { if (asked === state.asked) fail("predict", error.message); }
}

function showPhotos() {
  $("photos").replaceChildren(...state.photos.map((photo) => {
    if (!photo.card) {
      const away = made("button", { type: "button", className: "drop-photo", textContent: "✕", title: "remove" });
      away.setAttribute("aria-label", `remove ${photo.name}`);
      away.addEventListener("click", () => { state.photos = state.photos.filter((one) => one !== photo); URL.revokeObjectURL(photo.url); showPhotos(); $("files").focus(); });
      photo.picture = made("img", { src: photo.url, alt: photo.name });
      photo.picture.addEventListener("error", () => { photo.picture.hidden = true; });
      photo.content = made("div", { className: "content" });
      photo.correction = made("div", { className: "correction", tabIndex: -1 });
      photo.card = made("article", { className: "photo" }, photo.picture, away, photo.content, photo.correction);
      showPhoto(photo);
    }
    return photo.card;
  }));
}

function showPhoto(photo) {
  const open = photo.content.querySelector("details")?.open;
  const inside = [made("p", { className: "file", textContent: photo.name })];
  if (photo.error) inside.push(made("p", { className: "failed", textContent: photo.error.replace(`${photo.name}: `, "") }));
  else if (photo.answer) inside.push(ranks(photo.answer), ...reasons(photo.answer, open));
  else inside.push(made("p", { className: "hint", textContent: photo.features ? "Select at least one class to get an answer." : "…" }));
  photo.content.replaceChildren(...inside);
  showCorrection(photo);
}

// For a rejected image (open-set rejection) the first entry is "none of these".
export const guesses = (answer) => (answer.none ? answer.classes.slice(1) : answer.classes);

function ranks(answer) {
  const classes = guesses(answer), most = answer.none ? SHOWN - 1 : SHOWN;
  const preview = described(), position = preview ? classes.findIndex((one) => one.name === preview.name) : -1;
  const shown = classes.slice(0, most).map((one) => rank(one, position >= 0 && one.name === preview.name));
  if (answer.none) shown.unshift(made("li", {}, made("span", { className: "name", textContent: "None of these" })));
  const list = made("ol", { className: answer.none ? "ranks unsure" : "ranks" }, ...shown);
  if (position >= most) {
    const last = rank(classes[position], true, ` (rank ${position + 1})`);
    last.classList.add("rest");
    list.append(last);
  }
  return list;
}

function rank(one, isPreview, where = "") {
  const bar = made("span", { className: "bar" });
  bar.style.width = `${100 * one.confidence}%`;
  const known = state.classes.find((other) => other.name === one.name), isNew = isPreview || (known && known.added);
  const note = made("span", { className: "kind", textContent: ` ${kind(known || one)}${where}` });
  const name = made("span", { className: "name" }, readable(one.name), note);
  return made("li", { className: isNew ? "new" : "" }, bar, name, made("span", { className: "percent", textContent: percent(one.confidence) }));
}
