// Shared by the modules of the page: state, text formatting, elements and requests.
// Class names, file names and error messages are inserted as text, never as HTML.

export const SHOWN = 5; // classes per photo
export const $ = (id) => document.getElementById(id);
export const state = { classes: [], attributes: [], takesExamples: false, photos: [], chosen: new Set(), values: new Map(), asked: 0 };

export function made(tag, properties = {}, ...inside) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inside);
  return element;
}

export const readable = (name) => name.replace(/^\d+\.(?=\D)/, "").replace(/[-_+.\s]+/g, " ").trim() || name;
export const attribute = (name) => name.replace(/^has_(?=.)/, "").replace(/::/, ": ").replace(/_/g, " ");
export const short = (number) => (Math.abs(number) >= 100 ? number.toFixed(0) : Number(number.toPrecision(2)).toString());
export const signed = (number, digits) => (number < 0 ? "−" : "+") + Math.abs(number).toFixed(digits);
export const counted = (examples) => (examples === 1 ? "1 example" : `${examples} examples`);
export const kind = ({ seen, examples }) => [seen ? "" : "unseen", examples ? counted(examples) : ""].filter(Boolean).join(", ");
export const percent = (share) => (share >= 0.995 ? Math.floor(share * 100) : share < 0.0995 ? (share * 100).toFixed(1) : Math.round(share * 100)) + " %";

// Fill a select with all classes; the first option and, if it is still there, the choice stay.
export function listClasses(select) {
  const chosen = select.value, names = state.classes.map((one) => one.name);
  select.replaceChildren(select.options[0], ...names.map((name) => made("option", { value: name, textContent: readable(name) })));
  select.value = names.includes(chosen) ? chosen : "";
}

export async function ask(address, options = {}, tries = 6) {
  const headers = { ...options.headers, ...($("token").value ? { Authorization: `Bearer ${$("token").value}` } : {}) };
  let reply;
  try {
    reply = await fetch(address, { ...options, headers });
  } catch {
    throw new Error("no response from the server. Is it still running?");
  }
  if (reply.status === 429 && tries > 1) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return ask(address, options, tries - 1);
  }
  const answer = await reply.json().catch(() => ({ error: `the server returned status ${reply.status}` }));
  if (reply.status === 401) $("authentication").hidden = false;
  if (!reply.ok) throw Object.assign(new Error(answer.error), { status: reply.status });
  return answer;
}

export const askJson = (address, content, method = "POST", signal = undefined) => {
  const headers = { "Content-Type": "application/json" };
  return ask(address, { method, headers, signal, body: content === undefined ? undefined : JSON.stringify(content) });
};

export function options() {
  const which = document.querySelector("input[name=which]:checked").value;
  const preview = described();
  const also = preview ? [preview] : [];
  const candidates = which === "some" ? [...state.chosen, ...also.map((one) => one.name)] : which;
  return { candidates, also, top: preview ? state.classes.length + 1 : SHOWN }; // all classes, so that the described class is shown at any rank
}

// The class described in the form, or null if the description is incomplete or the name is taken.
export function described() {
  const name = $("name").value.trim() || "your description";
  if (state.classes.some((one) => one.name === name)) return null;
  const attributes = Object.fromEntries(state.values), description = $("description").value.trim();
  const text = !$("by-text").hidden, numbers = !$("by-attributes").hidden;
  if ((text && !description && !(numbers && state.values.size)) || (!text && !state.values.size)) return null;
  return { name, ...(text && description ? { description } : {}), ...(numbers && state.values.size ? { attributes } : {}) };
}
