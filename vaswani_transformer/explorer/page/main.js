// The page: the form with the sentence, the chapters below it, and the code that connects them.
import "./vendor/d3.min.js"; // window.d3
import "./vendor/katex/katex.min.js"; // window.katex
import { connect, Problem } from "./lib/data.js";
import { addressOf, land, readAddress } from "./lib/address.js";
import { button } from "./lib/controls.js";
import { uncertainWords } from "./lib/confidence.js";
import { count, el, number, percent } from "./lib/dom.js";
import { drawArchitecture } from "./lib/architecture.js";
import { clearestLink } from "./lib/heads.js";
import { loading } from "./lib/loading.js";
import { guidedPlay } from "./lib/play.js";
import { State } from "./lib/state.js";
import { chapters } from "./chapters/chapters.js";
import { steps } from "./chapters/play-steps.js";

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
find("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

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

/** Opens a checkpoint with this sentence, by default its example. */
async function openModel(name, sentence) {
  await state.openModel(name);
  const { example, source_language, target_language } = state.model;
  text.lang = source_language ?? "";
  find("translation").lang = target_language ?? "";
  if (find("checkpoint")) find("checkpoint").value = name;
  text.value = sentence ?? example;
  try {
    await state.translate(text.value);
    if (text.value === example) selectClearest();
  } catch (error) {
    if (sentence === undefined) throw error;
    text.value = example;
    await state.translate(example);
    throw error; // a link to a sentence that cannot be translated, such as one that is too long
  }
}

/** Selects the head and the word that the guided play shows, so that the chapters open at something to see. */
function selectClearest() {
  const clearest = clearestLink(state);
  if (clearest) state.select({ ...clearest.place, token: clearest.row });
}

// The address ---------------------------------------------------------------------------------------------------------

const OURS = { isOurs: true }; // the state of entries of the history that this page wrote completely

/** Shows what an address holds, and goes to its target. */
async function openAddress(address, isNew) {
  const name = checkpoints.some(({ name }) => name === address.checkpoint) ? address.checkpoint : (state.model?.name ?? current);
  state.pending = address; // its figure restores its settings when it is drawn
  if (name !== state.model?.name) await openModel(name, address.text);
  else if (address.text !== undefined && address.text !== state.run?.request.text) await state.translate((text.value = address.text));
  if (address.selection) state.select(address.selection);
  state.emit("address");
  if (isNew) land(address.target);
}

/** Writes the present state into the address; as a new entry of the history after a change that “back” should undo. */
function writeAddress(target = state.target, isNew = false) {
  state.target = target;
  if (isNew) history.pushState(OURS, "", addressOf(state, target));
  else history.replaceState(OURS, "", addressOf(state, target));
}

/** Keeps the address up to date, and shows the address to which the reader goes back or forward. */
function listenToAddress() {
  let timer = null;
  const later = (target) => {
    clearTimeout(timer);
    timer = setTimeout(() => writeAddress(target), 250); // browsers limit the number of changes
  };
  state.on("select", () => state.run && later(state.target));
  state.on("chapter", () => later(state.target));
  for (const event of ["input", "change", "click"])
    find("chapters").addEventListener(event, ({ target }) => {
      const figure = target.closest("figure");
      if (figure && !target.closest(".tools")) later(figure.id);
    });
  addEventListener("popstate", (event) => {
    clearTimeout(timer);
    const address = readAddress();
    state.target = address.target;
    // The browser itself restores the place of an entry that it has seen.
    attempt(() => openAddress(address, !event.state?.isOurs)).then(() => event.state?.isOurs || writeAddress(address.target));
  });
}

/** Translates what the reader wrote or chose, as a new entry of the history. */
const submit = (work) => attempt(async () => {
  state.pending = null;
  await work();
  writeAddress(state.target, true);
});

// The form ------------------------------------------------------------------------------------------------------------

function showTranslation() {
  const { target, score, log_prob } = state.run;
  const words = uncertainWords(state.run, state.model.confidence);
  const named = words.map(({ word, confidence }) => `${word} (${percent(confidence)})`).join(", ");
  find("translation").replaceChildren(el("span", {}, target.text ? underlined(target.text, words) : "(empty)"),
    el("small", { title: "score: log P divided by the length penalty" }, `score ${number(score)} · log P ${number(log_prob)}`),
    ...(named ? [el("small", { class: "uncertain" }, `Check the underlined words; they may be wrong: ${named}.`)] : []));
}

/** A text whose uncertain words are underlined. */
function underlined(text, words) {
  const ends = [0, ...words.map(({ end }) => end)];
  const mark = ({ word, confidence }) => el("u", { title: `${percent(confidence)} likely to be right` }, word);
  return [...words.flatMap((word, i) => [text.slice(ends[i], word.begin), mark(word)]), text.slice(ends.at(-1))];
}

/** Sentences to try, as buttons. */
function showExamples() {
  const tryIt = (example) => {
    text.value = example;
    form.requestSubmit();
  };
  find("examples").replaceChildren(el("p", {}, "Write a sentence of your own above, or try one of these:"),
    ...state.model.examples.map((example) => button(example.text, () => tryIt(example.text), { class: "token", lang: state.model.source_language })));
}

async function buildForm() {
  const languages = new Intl.DisplayNames(["en"], { type: "language" });
  const language = (code) => (code ? languages.of(code) : "?");
  const options = checkpoints.map(({ name, source_language, target_language }) => el("option", { value: name, selected: name === current },
    source_language ? `${language(source_language)} → ${language(target_language)} · ${name}` : name));
  const select = el("select", { id: "checkpoint", "aria-label": "Checkpoint", change: () => submit(() => openModel(select.value)) }, options);
  find("languages").replaceChildren(options.length > 1 ? select : options[0].textContent);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(() => state.translate(text.value));
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    form.requestSubmit();
  });
  find("translation").after(loading(state));
}

/** On a narrow screen only the translation stays in view, with a button that brings the form back; on a wide one the whole form does. */
function keepFormShort() {
  let isOpen = false;
  const edit = find("edit");
  const place = () => {
    const isNarrow = form.offsetHeight > innerHeight * 0.13;
    const above = isNarrow && !isOpen ? find("translation").offsetTop - 6 : 0;
    form.classList.toggle("narrow", isNarrow);
    form.style.top = `${-above}px`;
    edit.textContent = isOpen ? "Hide" : "Edit";
    edit.setAttribute("aria-expanded", String(isOpen));
    document.documentElement.style.setProperty("--bar", `${form.offsetHeight - above}px`);
  };
  const open = (isWanted) => {
    isOpen = isWanted;
    place();
    if (isOpen) text.focus({ preventScroll: true });
    else text.blur(); // its outline would stay in view
  };
  edit.addEventListener("click", () => open(!isOpen));
  form.addEventListener("submit", () => isOpen && open(false));
  new ResizeObserver(place).observe(form);
  new IntersectionObserver(([{ isIntersecting }]) => form.classList.toggle("stuck", !isIntersecting)).observe(find("top"));
}

// The chapters --------------------------------------------------------------------------------------------------------

async function buildChapters() {
  find("play-place").append(guidedPlay(state, steps).button);
  state.on("model", showExamples);
  state.on("model", () => find("figure-1").replaceChildren(drawArchitecture(state.model)));
  const list = find("contents").querySelector("ol");
  const links = new Map();
  for (const chapter of chapters) {
    await new Promise((resolve) => setTimeout(resolve)); // a task for each, so that the page stays responsive
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
    if (seen.target.contains(find(state.target))) return; // a figure of this chapter, or the chapter
    state.target = seen.target.id;
    if (state.run) state.emit("chapter");
  }, { rootMargin: "-20% 0px -70% 0px" });
  links.forEach((_, section) => mark.observe(section));
  const none = ([{ isIntersecting }]) => isIntersecting && links.forEach((link) => link.removeAttribute("aria-current"));
  new IntersectionObserver(none).observe(find("top"));
}

function showAbout() {
  const { name, parameters } = state.model;
  find("about").textContent = `${name}, ${count(parameters.count)} parameters. Text and code of this page: vaswani-transformer (Apache-2.0), `
    + "with D3 (ISC) and KaTeX (MIT). "
    + state.source.privacy;
}

let [checkpoints, current] = [[], null];
await attempt(async () => {
  state = new State(connect());
  const address = readAddress();
  state.target = address.target || "top";
  state.on("run", showTranslation);
  state.on("model", showAbout);
  keepFormShort();
  const answer = state.source.checkpoints();
  await buildChapters();
  ({ checkpoints, current } = await answer);
  await buildForm();
  try {
    await openAddress(address, true);
  } finally {
    listenToAddress();
  }
});
document.documentElement.dataset.ready = "true"; // also if there is a problem, which is shown
