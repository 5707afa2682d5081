// Why the best class is ahead of the second-best one: contributions as bars from a zero line.

import { guesses } from "./photos.js";
import { made, readable, short, signed } from "./shared.js";

const NARROW = matchMedia("(max-width: 40rem)");

export function reasons(answer, wasOpen) {
  const named = [...answer.speaks_for, ...answer.speaks_against.toReversed()];
  if (!named.length) return [];
  const best = readable(guesses(answer)[0].name), second = readable(answer.runner_up);
  const widest = Math.max(...[...named.map((one) => one.contribution), answer.others, answer.beyond, answer.total].map(Math.abs));
  const rows = named.map((one) => row(one.phrase, one.contribution, widest, where(one)));
  rows.push(row("everything else", answer.others, widest));
  if (Math.abs(answer.beyond) > widest / 200) rows.push(row("seen-class bias", answer.beyond, widest, "holds back classes with training photos"));
  rows.push(row("lead in score", answer.total, widest));
  rows.at(-1).classList.add("total");
  const summary = made("summary", { textContent: `Why “${best}” and not “${second}”?` });
  const legend = made("p", { className: "legend", textContent: `+ speaks for ${best}, − for ${second}.${named.some((one) => one.usual !== null) ? " Values of the attribute are in the same order." : ""}` });
  return [made("details", { className: "why", open: wasOpen ?? !NARROW.matches }, summary, made("ul", { className: "reasons" }, ...rows), legend)];
}

// Values of an attribute for both classes, or the description that has the words.
function where(one) {
  if (one.usual !== null) return `${short(one.value)} vs. ${short(one.other)}`;
  return one.value && one.other ? "in both descriptions" : one.value ? "in its description" : "in the other description";
}

function row(text, contribution, widest, note = "") {
  const bar = made("span", { className: "share" }), size = 50 * Math.abs(contribution) / (widest || 1);
  bar.style.width = `${size}%`;
  bar.style.left = `${contribution < 0 ? 50 - size : 50}%`;
  const name = made("span", { className: "what" }, made("span", { className: "phrase", textContent: text, title: text }), made("span", { className: "values", textContent: note }));
  const digits = widest > 0 ? Math.min(Math.max(2 - Math.floor(Math.log10(widest)), 0), 9) : 0; // same number of decimals, so that the numbers add up
  const number = made("span", { className: "number", textContent: signed(contribution, digits) });
  return made("li", { className: contribution < 0 ? "against" : "for" }, name, made("span", { className: "scale" }, bar), number);
}
