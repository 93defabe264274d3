// A chapter's last section: a table of results from the repository's experiments.
import { el } from "./dom.js";
import { FACTS } from "./findings.js";

/** Adds the results of these experiments; experiments without results are left out. */
export function findingsSection(root, ...experiments) {
  const facts = experiments.flatMap((name) => FACTS[name] ?? []);
  if (!facts.length) return;
  const rows = facts.map(([question, answer]) => el("tr", {}, el("th", { scope: "row" }, question), el("td", {}, answer)));
  root.append(el("h3", {}, "Measurements"),
    el("p", { class: "prose" }, "This project's experiments test the paper's claims with small models. Ranges in brackets are 95% intervals."),
    el("table", { class: "measured" }, el("tbody", {}, rows)),
    el("p", { class: "paper" }, "Methods, all results and commands: experiments/README.md in the repository."));
}
