// The page: the form with the sentence, the chapters below it, and the code that connects them.
import { connect, Problem } from "./lib/data.js";
import { button } from "./lib/controls.js";
import { count, el, number } from "./lib/dom.js";
import { architecture } from "./lib/architecture.js";
import { loading } from "./lib/loading.js";
import { State } from "./lib/state.js";
import { chapters } from "./chapters/chapters.js";

const find = (id) => document.getElementById(id);
const form = find("sentence");
const text = find("text");

// The theme is the system's until the reader chooses one.
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  state?.emit("theme");
}
let state = null;
setTheme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));

/** Runs `work` with the form marked as busy; a problem appears below the sentence, and the figures stay. */
async function attempt(work) {
  form.setAttribute("aria-busy", "true");
  find("translate").disabled = true;
  find("problem").hidden = true;
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Problem)) console.error(error);
    find("problem").textContent = error instanceof Problem ? error.message : `Error in this page: ${error.message}`;
    find("problem").hidden = false;
  }
  form.setAttribute("aria-busy", "false");
  find("translate").disabled = false;
}

async function openModel(name) {
  await state.openModel(name);
  text.value = state.model.example;
  text.lang = state.model.source_language ?? "";
  find("translation").lang = state.model.target_language ?? "";
  await state.translate(text.value);
}

function showTranslation() {
  const { target, score, log_prob } = state.run;
  find("translation").replaceChildren(target.text || "(empty)",
    el("small", { title: "score: log P divided by the length penalty" }, `score ${number(score)} · log P ${number(log_prob)}`));
}

async function buildForm({ current, checkpoints }) {
  const languages = new Intl.DisplayNames(["en"], { type: "language" });
  const language = (code) => (code ? languages.of(code) : "?");
  const options = checkpoints.map(({ name, source_language, target_language }) => el("option", { value: name, selected: name === current },
    source_language ? `${language(source_language)} → ${language(target_language)} · ${name}` : name));
  const select = el("select", { id: "checkpoint", "aria-label": "Checkpoint", change: () => attempt(() => openModel(select.value)) }, options);
  find("languages").replaceChildren(options.length > 1 ? select : options[0].textContent);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(() => state.translate(text.value));
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    form.requestSubmit();
  });
  find("translation").after(loading(state));
}

function buildChapters() {
  architecture(find("chapters"), state);
  const list = find("contents").querySelector("ol");
  const links = new Map();
  for (const chapter of chapters) {
    const link = el("a", { href: `#${chapter.id}` }, el("span", { class: "number" }, String(chapter.number)), chapter.title);
    list.append(el("li", {}, link));
    const body = el("div");
    const section = el("section", { class: "chapter", id: chapter.id, "aria-labelledby": `${chapter.id}-title` },
      el("header", {}, el("p", { class: "paper" }, `Chapter ${chapter.number} · ${chapter.paper}`),
        el("h2", { id: `${chapter.id}-title` }, chapter.title)), body);
    find("chapters").append(section);
    links.set(section, link);
    chapter.render(body, state);
  }
  const mark = new IntersectionObserver((entries) => {
    const seen = entries.find((entry) => entry.isIntersecting);
    if (!seen) return;
    links.forEach((link, section) => section === seen.target ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"));
  }, { rootMargin: "-20% 0px -70% 0px" });
  links.forEach((_, section) => mark.observe(section));
  const theme = button("Light / dark", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  find("contents").append(theme);
}

function showAbout() {
  const { name, parameters } = state.model;
  find("about").textContent = `${name}, ${count(parameters.count)} parameters. Text and code of this page: vaswani-transformer (Apache-2.0), `
    + "with D3 (ISC) and KaTeX (MIT). "
    + state.source.privacy;
}

await attempt(async () => {
  state = new State(connect());
  state.on("run", showTranslation);
  state.on("model", showAbout);
  buildChapters();
  const checkpoints = await state.source.checkpoints();
  await buildForm(checkpoints);
  await openModel(checkpoints.current);
  if (location.hash) document.querySelector(location.hash)?.scrollIntoView();
});
document.documentElement.dataset.ready = "true"; // also if there is a problem, which is shown
