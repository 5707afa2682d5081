// Entry point of the page: event listeners and initial loading.

import { clearForm, showAttributes, startFrom } from "./attributes.js";
import { addClass, loadClasses, showClasses } from "./classes.js";
import { addPhotos, changed, later } from "./photos.js";
import { $, say, state } from "./shared.js";

function listen() {
  $("files").addEventListener("change", () => { addPhotos($("files").files); $("files").value = ""; });
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
  $("like").addEventListener("change", () => startFrom().catch((error) => say(error.message, true)));
  $("description").addEventListener("input", changed);
  $("name").addEventListener("input", changed);
  $("new").addEventListener("submit", addClass);
  $("clear").addEventListener("click", () => { clearForm(); changed(); });
  $("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

function theme(name) { document.documentElement.dataset.theme = name; }

async function start() {
  theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  listen();
  try {
    await loadClasses();
    showAttributes();
  } catch (error) { say(error.message, true); }
  document.body.dataset.ready = "yes";
}

start();
