// A chapter's last section: the results of the repository's experiments.
import { el } from "./dom.js";
import { FINDINGS } from "./findings.js";

/** Adds the findings of these experiments; experiments without findings are left out. */
export function findingsSection(root, ...experiments) {
  const known = experiments.filter((name) => name in FINDINGS);
  if (!known.length) return;
  const paragraphs = known.map((name) => el("p", {}, FINDINGS[name]));
  const origin = el("p", { class: "note" }, "Methods, uncertainty and commands: experiments/README.md in the repository.");
  root.append(el("h3", {}, "Measurements"), el("div", { class: "prose measured" }, paragraphs, origin));
}
