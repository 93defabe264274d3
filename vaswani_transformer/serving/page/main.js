// The page's script: translates typed text and documents, with requests that any client can send.

const WAIT = 400; // milliseconds after the last key before a text is sent
const ALTERNATIVES = 2;
const UNCERTAIN = 0.35; // below it, a word is underlined (docs/guide/confidence.md)
const SHORT = 200; // characters; longer texts get no alternatives

const at = (id) => document.getElementById(id);
const names = new Intl.DisplayNames([navigator.language, "en"], { type: "language" });
let settings, languages, asking, timer;

async function asked(address, options = {}) {
  const response = await fetch(address, options);
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error ?? `The server answered ${response.status}.`);
  return answer;
}

function option(code, text = names.of(code)) {
  return new Option(text, code);
}

function offerTargets() {
  const chosen = at("target").value;
  const source = languages.find(({ code }) => code === at("source").value);
  const targets = [...new Set((source ? [source] : languages).flatMap(({ targets }) => targets))];
  at("target").replaceChildren(...targets.map((code) => option(code)));
  if (targets.includes(chosen)) at("target").value = chosen;
}

function show(problem) {
  at("problem").textContent = problem ?? "";
  at("problem").hidden = !problem;
}

function items(id, texts) {
  at(id).replaceChildren(...texts.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
}

async function translate() {
  asking?.abort(); // the server then cancels the translation
  const text = at("text").value;
  at("length").textContent = text ? `${text.length.toLocaleString()} of ${settings.charLimit.toLocaleString()} characters` : "";
  if (!text.trim()) return answer({ translatedText: "" });
  const mine = (asking = new AbortController());
  at("translation").ariaBusy = "true";
  const began = performance.now();
  try {
    const body = JSON.stringify({
      q: text, source: at("source").value, target: at("target").value, 
      alternatives: text.length <= SHORT ? ALTERNATIVES : 0, confidence: true, api_key: at("key").value,
    });
    const headers = { "Content-Type": "application/json" };
    const said = await asked("translate", { method: "POST", headers, body, signal: mine.signal });
    answer(said, `${((performance.now() - began) / 1000).toFixed(1)} s`);
  } catch (error) {
    if (error.name === "AbortError") return;
    answer({ translatedText: "" });
    show(error.message);
  }
}

const percent = (value) => value.toLocaleString([], { style: "percent" });

// Uncertain words are underlined; a sentence below names them, for all who do not see lines or hover over words.
function showConfidence(text, confidence) {
  const pieces = [], uncertain = [];
  let shown = 0, end = 0; // of the text, and of the last word
  for (const { word, confidence: value } of confidence?.words ?? []) {
    const begin = text.indexOf(word, end);
    if (begin < 0) continue; // the text was changed after its translation, such as its capitals
    end = begin + word.length;
    if (value >= UNCERTAIN || !/[\p{L}\p{N}]/u.test(word)) continue;
    const mark = Object.assign(document.createElement("u"), { textContent: word, title: `${percent(value)} likely to be right` });
    pieces.push(text.slice(shown, begin), mark);
    uncertain.push(`${word} (${percent(value)})`);
    shown = end;
  }
  at("translation").replaceChildren(...pieces, text.slice(shown));
  at("uncertain").textContent = uncertain.length ? `Check the underlined words; they may be wrong: ${uncertain.join(", ")}.` : "";
}

function answer({ translatedText, alternatives = [], warnings = [], detectedLanguage, confidence }, time = "") {
  show();
  showConfidence(translatedText, confidence);
  at("translation").ariaBusy = "false";
  at("translation").lang = at("target").value;
  at("state").textContent = [time, confidence && `${percent(confidence.mean)} of the words are likely to be right`].filter(Boolean).join(" · ");
  at("copy").hidden = !translatedText;
  at("detected").textContent = detectedLanguage ? `${names.of(detectedLanguage.language)}, ${Math.round(detectedLanguage.confidence)}% sure` : "";
  items("alternatives", alternatives);
  items("warnings", warnings);
}

async function translateDocument(event) {
  event.preventDefault();
  const button = event.submitter ?? at("document").querySelector("button");
  const form = new FormData();
  form.append("file", at("file").files[0]);
  for (const name of ["source", "target"]) form.append(name, at(name).value);
  form.append("api_key", at("key").value);
  button.disabled = true;
  at("done").textContent = "Translating …";
  items("warnings", []);
  show();
  try {
    const { translatedFileUrl, warnings = [] } = await asked("translate_file", { method: "POST", body: form });
    const link = Object.assign(document.createElement("a"), { href: translatedFileUrl, download: "" });
    link.textContent = decodeURIComponent(translatedFileUrl.split("/").pop());
    at("done").replaceChildren(link);
    items("warnings", warnings);
  } catch (error) {
    at("done").textContent = "";
    show(error.message);
  }
  button.disabled = false;
}

function swap() {
  const [source, target] = [at("source").value, at("target").value];
  if (!languages.some(({ code }) => code === target)) return show(`Nothing here translates from ${names.of(target)}.`);
  at("source").value = target;
  offerTargets();
  if ([...at("target").options].some(({ value }) => value === source)) at("target").value = source;
  at("text").value = at("translation").textContent || at("text").value;
  translate();
}

try {
  [settings, languages] = await Promise.all([asked("frontend/settings"), asked("languages")]);
  at("source").append(option("auto", "any language"), ...languages.map(({ code }) => option(code)));
  at("key-label").hidden = !settings.keyRequired;
  at("file").accept = settings.supportedFilesFormat.join();
  at("formats").textContent = settings.supportedFilesFormat.join("  ");
  offerTargets();
  at("text").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(translate, WAIT); });
  at("source").addEventListener("change", () => { offerTargets(); translate(); });
  at("target").addEventListener("change", translate);
  at("key").addEventListener("change", translate);
  at("swap").addEventListener("click", swap);
  at("copy").addEventListener("click", () => navigator.clipboard.writeText(at("translation").textContent));
  at("document").addEventListener("submit", translateDocument);
} catch (error) {
  show(error.message);
}
