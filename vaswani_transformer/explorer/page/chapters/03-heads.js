import { latestRequest } from "../lib/requests.js";
import { bars } from "../lib/charts.js";
import { headColour } from "../lib/colours.js";
import { asSetting, attentionPicker, button } from "../lib/controls.js";
import { count, el, number, percent, prose } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { heatmap } from "../lib/heatmap.js";
import { ATTENTIONS, headName, isSameHead, longHeadName, maskOf, roleOf, weightsOf } from "../lib/heads.js";
import { findingsSection } from "../lib/findings-section.js";
import { Tensor } from "../lib/tensors.js";
import { thumbnail } from "../lib/thumbnails.js";
import { markDifferences } from "./03-difference.js";

export default { id: "heads", number: 3, title: "Multi-head attention", paper: "section 3.2.2", render };

const TEXT = String.raw`
<p>A single attention gives each token one set of weights, which sum to one. A word that needs both its verb <em>and</em> the
  noun before it would have to blend the two. So a layer contains several attentions side by side, its <em>heads</em>. Each head has
  three matrices of its own, which reduce a token's \(d_{\mathrm{model}}\) components to \(d_k\) for queries and keys and to \(d_v\)
  for values. The heads attend independently; their outputs are concatenated and mixed by \(W^O\).</p>
\[\begin{aligned}\mathrm{MultiHead}(\q{Q}, \k{K}, \v{V}) &= \mathrm{Concat}(\mathrm{head}_1, \ldots, \mathrm{head}_h)\,W^O \\
  \mathrm{head}_i &= \mathrm{Attention}(\q{Q W_i^Q},\, \k{K W_i^K},\, \v{V W_i^V})\end{aligned}\]
<p>The model uses multi-head attention in three places. In the encoder every source token sees every other. In the decoder a token sees
  itself and the tokens before it. Between the two, cross-attention lets the translation look at the source. Nobody tells a head what to
  do, but some heads learn a task that has a name. Switch a head off (zeros replace its output before \(W^O\)), and the model translates
  the sentence again without it.</p>`;

const ROLES = String.raw`
<p>What does a head do? You can sum its weights by where they fall: on the previous token, on the token itself, on punctuation. If one
  of these receives at least half of the weight, the head is named after it. Many heads follow no such simple rule: they depend on the
  words themselves, not only on their positions.</p>`;

const RANKING = String.raw`
<p>Which heads matter? Switch off each head in turn, and let the rest of the model score the translation above. A head without an
  effect is not necessarily useless: another head may do the same, or this sentence may not need it.</p>`;

function render(root, state) {
  root.append(prose(TEXT));
  const settings = { off: [], now: null, each: null }; // now: the run without these heads; each: the effect of every head
  const without = latestRequest({ message: "Translating without them …" });
  const each = latestRequest({ delay: 0 });
  state.on("run", () => {
    Object.assign(settings, { off: [], now: null, each: null });
    without.cancel();
    each.cancel();
  });
  const change = (off) => {
    const use = (now) => {
      settings.now = now;
      all.redraw();
    };
    settings.off = off;
    if (off.length) without.send(() => state.source.run({ ...plainRequest(state), off }), use, () => use(null));
    else {
      without.cancel();
      settings.now = null;
    }
    all.redraw();
  };
  const all = figure(root, state, {
    on: ["run", "select"],
    wide: true,
    draw: (body) => drawAll(body, state, settings, without, change),
    caption:
      "All heads of one layer: rows are queries, columns are keys, and a stronger colour means more weight. Choose a head to enlarge it " +
      "below; its switch removes it from the model.",
  });
  root.append(el("h3", {}, "What a head does"), prose(ROLES));
  figure(root, state, {
    on: ["run", "select"],
    wide: true,
    draw: (body) => drawOne(body, state),
    caption:
      "The map shows the weights of the chosen head, the bars the mean share of its weight on each kind of token in this sentence. " +
      "Rare words: the quarter of the sentence's words that come last in the vocabulary, which starts with frequent words.",
  });
  root.append(el("h3", {}, "Which heads matter for this sentence"), prose(RANKING));
  const ranking = figure(root, state, {
    on: ["run", "select"],
    wide: true,
    draw: (body) => drawRanking(body, state, settings, each, () => ranking.redraw()),
    caption:
      "The change of log P of the translation when one head is off. Blue: log P falls. Orange: log P rises, so the model finds the " +
      "translation more likely without the head.",
  });
  findingsSection(root, "heads", "alignment");
}

// All heads of a layer, and the translation without the heads that are off ---------------------------------------------------------------

function drawAll(body, state, settings, without, change) {
  const { stack, kind, layer } = state.selection;
  const { heads } = state.size(stack);
  const largest = state.tensor("weights").data.reduce((a, x) => Math.max(a, x), 0);
  const cards = Array.from({ length: heads }, (_, head) => headCard(state, { stack, kind, layer, head }, settings.off, change, largest));
  const grid = el("div", { class: `head-cards ${heads > 8 ? "many" : ""}` }, cards);
  grid.style.setProperty("--heads", heads);
  asSetting(grid, "off", () => settings.off.map((head) => head.join(".")).join(" "), (text) => change(text.split(" ").map(headOf).filter((head) => isHead(state, head))));
  const note = el("p", { class: "note" }, `${sizes(state, heads)} The strongest colour means a weight of ${number(largest)}.`);
  body.append(attentionPicker(state, { heads: false }), grid, note, outcome(state, settings, without, change));
}

function sizes(state, heads) {
  const [d_k, d_v] = ["query", "value"].map((name) => state.tensor(name).shape[2]);
  return `Here h = ${heads}, d_model = ${count(state.model.config.d_model)}, d_k = ${d_k} and d_v = ${d_v}.`;
}

/** The settings of the run, for another run with changes. */
const plainRequest = ({ run: { request } }) => ({
  checkpoint: request.checkpoint,
  text: request.text,
  beams: request.beams,
  alpha: request.alpha,
});
const asList = ({ stack, kind, layer, head }) => [stack, kind, layer, head];
const isHead = (state, [stack, kind, layer, head]) => ATTENTIONS.some((a) => a.stack === stack && a.kind === kind)
  && layer < state.size(stack).layers && head < state.size(stack).heads;
const headOf = (text) => text.split(".").map((part, i) => (i < 2 ? part : Number(part)));
const asPlace = ([stack, kind, layer, head]) => ({ stack, kind, layer, head });

/** A button that shows a head's weights and chooses it, and the switch of the head. */
function headCard(state, place, off, change, largest) {
  const { head } = place;
  const isOff = off.some((head) => isSameHead(asPlace(head), place));
  const toggle = () => change(isOff ? off.filter((head) => !isSameHead(asPlace(head), place)) : [...off, asList(place)]);
  const names = {
    class: "switch",
    role: "switch",
    "aria-checked": String(!isOff),
    "aria-label": `Head ${head + 1}: ${isOff ? "off" : "on"}`,
    "data-key": `switch ${head}`,
  };
  const card = el(
    "div",
    { class: `head-card ${isOff ? "off" : ""}` },
    lookButton(state, place, largest),
    button(isOff ? "off" : "on", toggle, names),
  );
  card.style.setProperty("--mark", headColour(head));
  return card;
}

function lookButton(state, place, largest) {
  const { head } = place;
  const { label } = roleOf(state.run, place);
  const look = button("", () => state.select({ head }), {
    class: "look",
    "aria-pressed": String(head === state.selection.head),
    "aria-label": `Show head ${head + 1}${label ? `, ${label}` : ""}`,
    "data-key": `look ${head}`,
  });
  const picture = thumbnail(weightsOf(state, place), { masked: maskOf(state, place), largest });
  look.replaceChildren(picture, el("span", { class: "name" }, `head ${head + 1}`, label ? el("small", {}, label) : null));
  return look;
}

/** The translation with all heads, and without the heads that are off. */
function outcome(state, { off, now }, without, change) {
  const words = without.isBusy ? "" : verdict(state, off, now);
  const note = el("p", { class: "note", "aria-live": "polite", id: "heads-verdict" }, words);
  const table = el("div", { class: "scroller" }, comparison(state, now));
  return el("div", { class: "outcome", id: "heads-outcome" }, off.length ? chipsOf(off, change) : null, table, without.status, note);
}

/** A table of the run, and of the run `now` if there is one. */
function comparison(state, now) {
  const { run, model } = state;
  const [before, after] = now ? markDifferences(run.target.text, now.target.text) : [[run.target.text], []];
  const names = ["translation", "score", "log P"].map((name, i) => el("th", { scope: "col", class: i ? "number" : null }, name));
  const row = (name, text, { score, log_prob }) => {
    const numbers = [score, log_prob].map((x) => el("td", { class: "number" }, number(x)));
    const words = text.some((part) => part !== "") ? text : ["(empty)"];
    return el("tr", {}, el("th", { scope: "row" }, name), el("td", { lang: model.target_language }, words), numbers);
  };
  const rows = [row("all heads", before, run), now && row(`${now.request.off.length} ${now.request.off.length === 1 ? "head" : "heads"} off`, after, now)];
  return el("table", {}, el("thead", {}, el("tr", {}, el("td"), names)), el("tbody", {}, rows));
}

function chipsOf(off, change) {
  const chips = off.map((head, i) =>
    button(`${headName(asPlace(head))} ×`, () => change(off.filter((_, j) => j !== i)), {
      class: "token",
      "aria-label": `Switch on ${longHeadName(asPlace(head))}`,
      "data-key": `chip ${head.join(" ")}`,
    }),
  );
  const all = button("switch all on", () => change([]), { "data-key": "all on", class: "token" });
  return el("div", { class: "tokens", role: "group", "aria-label": "Heads that are off" }, el("span", {}, "off:"), chips, all);
}

function verdict(state, off, now) {
  if (!off.length) return "All heads are on.";
  if (!now) return ""; // the status shows the problem
  const difference = now.log_prob - state.run.log_prob;
  const change = `log P ${difference < 0 ? "falls" : "rises"} by ${number(Math.abs(difference))}`;
  return now.target.text === state.run.target.text
    ? `The translation stays the same; its ${change}.`
    : `The translation changes; its ${change} compared with the first one. Differing words are marked.`;
}

// One head large, and its measures -------------------------------------------------------------------------------------

const MEASURES = [
  ["previous", "previous token"],
  ["same", "same token"],
  ["next", "next token"],
  ["first", "first token"],
  ["end", "end token"],
  ["punctuation", "punctuation"],
  ["rare", "rare words"],
  ["peak", "largest weight"],
];
const PLURAL = new Set(["punctuation", "rare"]);
const CROSS = { previous: "position before", same: "same position", next: "position after" };

function drawOne(body, state) {
  const { rows, columns } = state.tokens();
  const place = state.selection;
  const [left, right] = [el("div", { class: "large" }), el("div", { class: "measures", id: "heads-measures" })];
  body.append(attentionPicker(state), el("div", { class: "side-by-side" }, left, right));
  const names = { rows, columns, rowName: "query", columnName: "key", label: `Weights of ${longHeadName(place)}` };
  const largest = state.tensor("weights").data.reduce((a, x) => Math.max(a, x), 0);
  heatmap(left, weightsOf(state, place), { ...names, masked: maskOf(state, place), largest });
  drawMeasures(right, place, roleOf(state.run, place), columns.length);
}

/** A head's measures in this run, as bars and in words. */
function drawMeasures(root, place, { label, measures }, keys) {
  root.append(el("h4", {}, label ? `${longHeadName(place)}: ${label}` : longHeadName(place)));
  const known = MEASURES.filter(([name]) => Number.isFinite(measures[name]));
  const items = known.map(([name, words]) => ({
    name: (place.kind === "cross_attn" && CROSS[name]) || words,
    value: measures[name],
    text: percent(measures[name]),
    colour: measures[name] >= 0.5 ? "accent" : "soft",
  }));
  bars(root, items, { largest: 1, label: "share of the weight" });
  root.append(el("p", { class: "note" }, spread(measures, keys)), el("p", {}, described(label, known, measures)));
}

const spread = ({ entropy, reach }, keys) =>
  `Entropy ${number(entropy)} bits (equal weights on all ${keys} keys: ${number(Math.log2(keys))}); ` +
  `mean distance between query and key ${number(reach)} tokens.`;

/** Explains the label of a head, or why it has none. */
function described(label, names, measures) {
  if (label === "alignment")
    return `On average each query gives ${percent(measures.peak)} of its weight to a single source word: the head aligns the two sentences.`;
  if (label) return `At least half of its weight falls on one kind of token, so it is labelled “${label}”.`;
  const [[name, words]] = names.filter(([name]) => name !== "peak").sort(([a], [b]) => measures[b] - measures[a]);
  const where = PLURAL.has(name) ? words : `the ${words}`;
  return `No kind of token receives half of its weight. The largest share, ${percent(measures[name])}, falls on ${where}.`;
}

// Each head off in turn ---------------------------------------------------------------------------------------------

const MAX_RANKED = 8;

function drawRanking(body, state, settings, each, redraw) {
  const ask = () => {
    if (each.isBusy) return;
    each.send(() => state.source.heads(state.run), (response) => {
      settings.each = response;
      redraw();
    });
  };
  const ablations = settings.each;
  const result = el("span", { class: "note", "aria-live": "polite", id: "heads-ranking" }, ablations ? summary(state, ablations) : "");
  const start = button("Switch off each head in turn", ask, { id: "heads-rank", "data-key": "rank" });
  body.append(el("div", { class: "controls" }, start, each.status, result));
  if (!ablations) return;
  const drops = ablations.map((head) => ({ ...head, drop: state.run.log_prob - head.log_prob_of_original }));
  const largest = Math.max(...drops.map(({ drop }) => Math.abs(drop)));
  const grids = ATTENTIONS.map(() => el("div"));
  body.append(el("div", { class: "side-by-side rankings" }, grids), el("h4", {}, "The most important heads for this translation"));
  ATTENTIONS.forEach(({ stack, kind, name }, i) => drawGrid(grids[i], state, drops, { stack, kind }, name, largest));
  drawNeeded(body, state, drops, largest);
  body.append(el("p", { class: "note" }, "* Without this head the translation changes. For speed these searches use one beam, with and without the head."));
}

/** The heads without which log P falls most, as buttons that choose them. */
function drawNeeded(body, state, drops, largest) {
  const ranked = [...drops].sort((a, b) => b.drop - a.drop).slice(0, MAX_RANKED);
  const items = ranked.map((head) => ({
    name: headName(head),
    value: head.drop,
    colour: head.stack,
    text: `${number(head.drop)}${head.changed ? " *" : ""}`,
  }));
  bars(body, items, { largest, label: "fall of log P", onSelect: (i) => state.select({ ...place(ranked[i]), token: null }) });
}

const place = ({ stack, kind, layer, head }) => ({ stack, kind, layer, head });

function drawGrid(root, state, drops, { stack, kind }, name, largest) {
  const { layers, heads } = state.size(stack);
  const data = new Float32Array(layers * heads);
  for (const drop of drops) if (drop.stack === stack && drop.kind === kind) data[drop.layer * heads + drop.head] = drop.drop;
  const named = (n, word) => Array.from({ length: n }, (_, i) => ({ text: `${word}${i + 1}` }));
  root.append(el("h4", {}, name));
  heatmap(root, new Tensor([layers, heads], data), {
    rows: named(layers, "layer "),
    columns: named(heads, ""),
    scale: "signed",
    largest,
    size: 34,
    label: `Fall of log P without a head: ${name}`,
    rowName: "",
    columnName: "head",
    read: (layer, head, drop) => `${headName({ stack, kind, layer, head })}: ${number(drop)}`,
    onSelect: (layer, head) => state.select({ stack, kind, layer, head, token: null }),
  });
}

function summary(state, ablations) {
  const changed = ablations.filter(({ changed }) => changed).length;
  const worst = ablations.reduce((a, b) => (b.log_prob_of_original < a.log_prob_of_original ? b : a));
  return (
    `Log P falls most without ${headName(worst)}, from ${number(state.run.log_prob)} to ${number(worst.log_prob_of_original)}. ` +
    `Without ${changed} of the ${ablations.length} heads, the translation with one beam changes.`
  );
}
