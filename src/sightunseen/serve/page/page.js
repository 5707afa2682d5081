// Entry point of the page: event listeners and initial loading.

import { clearForm, showAttributes, startFrom } from "./attributes.js";
import { addClass, loadClasses, showClasses } from "./classes.js";
import { addExamples } from "./examples.js";
import { fail, settle } from "./messages.js";
import { addPhotos, changed, later } from "./photos.js";
import { $, state } from "./shared.js";

function listen() {
  for (const [id, use] of [["files", addPhotos], ["example-files", addExamples]]) {
    $(id).addEventListener("change", () => { use([...$(id).files]); $(id).value = ""; });
  }
  addEventListener("dragover", (event) => { event.preventDefault(); $("drop").classList.add("over"); });
  addEventListener("dragleave", () => $("drop").classList.remove("over"));
  addEventListener("drop", (event) => { event.preventDefault(); $("drop").classList.remove("over"); if (!$("drop").hidden) addPhotos(event.dataTransfer.files); });
  addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (files.length && !$("drop").hidden) { event.preventDefault(); addPhotos(files); }
  });
  for (const radio of document.querySelectorAll("input[name=which]")) radio.addEventListener("change", () => { $("some").hidden = radio.value !== "some"; later(); });
  $("find-class").addEventListener("input", showClasses);
  $("choose-shown").addEventListener("click", () => { for (const one of showClasses()) state.chosen.add(one.name); showClasses(); later(); });
  $("choose-none").addEventListener("click", () => { state.chosen.clear(); showClasses(); later(); });
  $("find-attribute").addEventListener("input", showAttributes);
  $("like").addEventListener("change", () => startFrom().then(() => settle("like"), (error) => fail("like", error.message)));
  $("description").addEventListener("input", changed);
  $("name").addEventListener("input", changed);
  $("new").addEventListener("submit", addClass);
  $("clear").addEventListener("click", () => { clearForm(); changed(); settle("classes"); });
  $("access").addEventListener("submit", (event) => event.preventDefault()); // Enter is a change of the field
  $("token").addEventListener("change", () => { if (!state.classes.length) load(); });
  $("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

function theme(name) { document.documentElement.dataset.theme = name; }

// If all requests need the token, the first attempt fails, and the next one follows when a token is entered.
async function load() {
  try {
    await loadClasses();
    showAttributes();
    settle("load");
  } catch (error) {
    fail("load", error.status === 401 ? "This server needs a token. Enter it in the field “Token”." : error.message);
    if (error.status === 401) $("token").focus();
  }
}

async function start() {
  theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  listen();
  await load();
  document.body.dataset.ready = "yes";
}

start();
