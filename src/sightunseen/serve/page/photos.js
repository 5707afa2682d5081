// The photos: their features, asked for once, and their answers, asked for again whenever the question changes.

import { showTrial } from "./attributes.js";
import { $, SHOWN, ask, askJson, attribute, described, made, options, percent, readable, say, short, signed, state } from "./shared.js";

const TOGETHER = 64; // photos answered in one request

export async function addPhotos(files) {
  const photos = [...files].map((file) => ({ file, url: URL.createObjectURL(file), name: file.name || "pasted photo" }));
  if (!photos.length) return;
  state.photos.unshift(...photos);
  showPhotos();
  const waiting = [...photos];
  const next = async () => {
    for (let photo = waiting.shift(); photo; photo = waiting.shift()) await embed(photo);
  };
  say(photos.length === 1 ? "Looking at the photo …" : `Looking at ${photos.length} photos …`);
  await Promise.all([next(), next(), next(), next()]);
  const failed = photos.filter((photo) => photo.error).length;
  say(failed ? `${failed} of ${photos.length} could not be used.` : "", failed > 0);
  showTrial();
}

async function embed(photo) {
  const form = new FormData(), { candidates, ...others } = options();
  form.append("photo", photo.file, photo.name);
  form.append("with_features", "true");
  form.append("candidates", typeof candidates === "string" ? candidates : JSON.stringify(candidates));
  for (const [name, value] of Object.entries(others)) form.append(name, JSON.stringify(value));
  const asked = state.asked;
  try {
    if (Array.isArray(candidates) && !candidates.length) form.set("candidates", "all");
    const found = (await ask("predict", { method: "POST", body: form })).answers[0];
    photo.features = found.features;
    photo.answer = found;
    if (asked !== state.asked) later(); // the question has changed meanwhile
  } catch (error) { photo.error = error.message; }
  showPhoto(photo);
}

let timer;
export function later() { state.asked++; clearTimeout(timer); timer = setTimeout(answerAll, 120); }
export function changed() { showTrial(); later(); }

export async function answerAll() {
  const asked = ++state.asked, question = options();
  const photos = state.photos.filter((photo) => photo.features);
  if (!photos.length) return;
  if (Array.isArray(question.candidates) && !question.candidates.length) return say("Choose at least one class.", true);
  try {
    for (let start = 0; start < photos.length; start += TOGETHER) {
      const part = photos.slice(start, start + TOGETHER);
      const found = await askJson("predict", { ...question, features: part.map((photo) => photo.features) });
      if (asked !== state.asked) return;
      part.forEach((photo, place) => { photo.answer = found.answers[place]; showPhoto(photo); });
    }
    if ($("message").classList.contains("wrong")) say("");
    showTrial();
  } catch (error) { if (asked === state.asked) say(error.message, true); }
}

function showPhotos() {
  $("photos").replaceChildren(...state.photos.map((photo) => {
    if (!photo.card) {
      const away = made("button", { type: "button", className: "small drop-photo", textContent: "✕", title: "take away" });
      away.setAttribute("aria-label", `take ${photo.name} away`);
      away.addEventListener("click", () => { state.photos = state.photos.filter((one) => one !== photo); URL.revokeObjectURL(photo.url); showPhotos(); $("files").focus(); });
      photo.picture = made("img", { src: photo.url, alt: photo.name });
      photo.picture.addEventListener("error", () => { photo.picture.hidden = true; });
      photo.content = made("div", { className: "content" });
      photo.card = made("article", { className: "photo" }, photo.picture, away, photo.content);
      showPhoto(photo);
    }
    return photo.card;
  }));
}

function showPhoto(photo) {
  const inside = [made("p", { className: "file", textContent: photo.name })];
  if (photo.error) inside.push(made("p", { className: "failed", textContent: photo.error.replace(`${photo.name}: `, "") }));
  else if (!photo.answer) inside.push(made("p", { className: "file", textContent: "…" }));
  else inside.push(ranks(photo.answer), ...reasons(photo.answer));
  photo.content.replaceChildren(...inside);
}

// Where the image fits no class, that comes first and the classes are guesses.
const guesses = (answer) => (answer.none ? answer.classes.slice(1) : answer.classes);

function ranks(answer) {
  const classes = guesses(answer), most = answer.none ? SHOWN - 1 : SHOWN;
  const trial = described(), place = trial ? classes.findIndex((one) => one.name === trial.name) : -1;
  const shown = classes.slice(0, most).map((one) => rank(one, place >= 0 && one.name === trial.name));
  if (answer.none) shown.unshift(made("li", {}, made("span", { className: "name", textContent: "None of these" })));
  const list = made("ol", { className: answer.none ? "ranks unsure" : "ranks" }, ...shown);
  if (place >= most) {
    const last = rank(classes[place], true, ` at place ${place + 1}`);
    last.classList.add("rest");
    list.append(last);
  }
  return list;
}

function rank(one, onTrial, where = "") {
  const bar = made("span", { className: "bar" });
  bar.style.width = `${100 * one.confidence}%`;
  const isNew = onTrial || state.classes.some((other) => other.name === one.name && other.added);
  const kind = made("span", { className: "kind", textContent: (one.seen ? "" : " unseen") + where });
  const name = made("span", { className: "name" }, readable(one.name), kind);
  return made("li", { className: isNew ? "new" : "" }, bar, name, made("span", { className: "percent", textContent: percent(one.confidence) }));
}

// Contributions with bars from a line in the middle; those shown, all others and their sum add up.
function reasons(answer) {
  const named = [...answer.speaks_for, ...answer.speaks_against.toReversed()];
  if (!named.length) return [];
  const others = state.semantics.startsWith("both") ? "all else" : "all other attributes";
  const widest = Math.max(...[...named.map((one) => one.contribution), answer.others, answer.total].map(Math.abs));
  const rows = named.map((one) => reason(attribute(one.attribute), one.contribution, widest, `${short(one.value)} (usually ${short(one.usual)})`));
  rows.push(reason(others, answer.others, widest), reason("over an average class", answer.total, widest));
  rows.at(-1).classList.add("total");
  const heading = `What speaks for and against “${readable(guesses(answer)[0].name)}”:`;
  return [made("p", { className: "why", textContent: heading }), made("ul", { className: "reasons" }, ...rows)];
}

function reason(text, contribution, widest, values = "") {
  const bar = made("span", { className: "share" }), size = 50 * Math.abs(contribution) / (widest || 1);
  bar.style.width = `${size}%`;
  bar.style.left = `${contribution < 0 ? 50 - size : 50}%`;
  const name = made("span", { className: "what" }, text, made("span", { className: "values", textContent: values && ` ${values}` }));
  const digits = widest > 0 ? Math.min(Math.max(2 - Math.floor(Math.log10(widest)), 0), 9) : 0; // all to one place, so that they visibly add up
  const number = made("span", { className: "number", textContent: signed(contribution, digits) });
  return made("li", { className: contribution < 0 ? "against" : "for" }, name, made("span", { className: "scale" }, bar), number);
}
