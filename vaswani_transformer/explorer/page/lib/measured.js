// What the repository's experiments found, at the end of a chapter.
import { el } from "./dom.js";
import { FINDINGS } from "./findings.js";

/** The findings of these experiments, of those that have been run. */
export function measured(root, ...names) {
  const known = names.filter((name) => name in FINDINGS);
  if (!known.length) return;
  const paragraphs = known.map((name) => el("p", {}, FINDINGS[name]));
  const origin = el("p", { class: "note" }, "How, how sure, and with which command: experiments/README.md in the repository.");
  root.append(el("h3", {}, "Measured"), el("div", { class: "prose measured" }, paragraphs, origin));
}
