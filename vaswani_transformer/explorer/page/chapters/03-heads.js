import { asked } from "../lib/asked.js";
import { bars } from "../lib/charts.js";
import { headColour } from "../lib/colours.js";
import { attentionPicker, button } from "../lib/controls.js";
import { count, el, number, percent, prose } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { heatmap } from "../lib/heatmap.js";
import { ATTENTIONS, headName, isSameHead, longHeadName, maskOf, roleOf, weightsOf } from "../lib/heads.js";
import { measured } from "../lib/measured.js";
import { Tensor } from "../lib/tensors.js";
import { thumbnail } from "../lib/thumbnails.js";
import { marked } from "./03-difference.js";

export default { id: "heads", number: 3, title: "Multi-head attention", paper: "section 3.2.2", render };

const TEXT = String.raw`
<p>One attention asks one question of every token, and a softmax has only one unit of weight to give away. A word that needs its verb
  <em>and</em> the noun before it would have to blend them. So a layer holds several attentions side by side, its <em>heads</em>. Each
  has three matrices of its own, which bring a token's \(d_{\mathrm{model}}\) numbers down to \(d_k\) for queries and keys and to
  \(d_v\) for values; each looks where it likes, and what they bring home is laid end to end and mixed by \(W^O\).</p>
\[\begin{aligned}\mathrm{MultiHead}(Q, K, V) &= \mathrm{Concat}(\mathrm{head}_1, \ldots, \mathrm{head}_h)\,W^O \\
  \mathrm{head}_i &= \mathrm{Attention}(Q W_i^Q,\, K W_i^K,\, V W_i^V)\end{aligned}\]
<p>The same part stands in three places. In the encoder every source token sees every other; in the decoder a token sees itself and
  those before it; and in between, cross-attention lets the translation look back at the source. Nobody tells a head what to do, and
  some turn out to do something that has a name. Switch one off (zeros take the place of its output before \(W^O\)), and the model
  translates the sentence again without it.</p>`;

const ROLES = String.raw`
<p>What is this head for? Its weights can be added up by where they fall: on the token before, on the token itself, on punctuation.
  Where one place takes at least half of the weight, the head is called by it. Many have no such simple rule:
  they go by what the words are, not by where they stand.</p>`;

const RANKING = String.raw`
<p>And which heads matter? Take each one away by itself and ask the rest how likely the translation above still is. A head whose
  absence costs nothing is not useless: another may do the same, or this sentence has no need of it.</p>`;

function render(root, state) {
  root.append(prose(TEXT));
  const settings = { off: [], now: null, each: null }; // now: the run without those that are off; each: the answer on every head
  const without = asked({ words: "Translating without them …" });
  const each = asked({ delay: 0 });
  state.on("run", () => {
    Object.assign(settings, { off: [], now: null, each: null });
    without.drop();
    each.drop();
  });
  const change = (off) => {
    const use = (now) => {
      settings.now = now;
      all.redraw();
    };
    settings.off = off;
    if (off.length) without.ask(() => state.source.run({ ...plainRequest(state), off }), use, () => use(null));
    else {
      without.drop();
      settings.now = null;
    }
    all.redraw();
  };
  const all = figure(root, state, {
    on: ["run", "select"],
    wide: true,
    draw: (body) => drawAll(body, state, settings, without, change),
    caption:
      "All heads of one layer: rows are queries, columns are keys, strong colour is much weight. Choose a head to see it large below; " +
      "its switch takes it out of the model.",
  });
  root.append(el("h3", {}, "What a head does"), prose(ROLES));
  figure(root, state, {
    on: ["run", "select"],
    wide: true,
    draw: (body) => drawOne(body, state),
    caption:
      "Left: the weights of the chosen head. Right: the mean share of its weight that falls on each kind of place, in this sentence. " +
      "Rare words: the quarter of the sentence's words that come last in the vocabulary, which begins with the frequent ones.",
  });
  root.append(el("h3", {}, "Which heads matter for this sentence"), prose(RANKING));
  const ranking = figure(root, state, {
    on: ["run", "select"],
    wide: true,
    draw: (body) => drawRanking(body, state, settings, each, () => ranking.redraw()),
    caption:
      "How far log P of the translation falls when one head is off. Blue is a fall; orange is a rise: the model finds the " +
      "translation more likely without the head.",
  });
  measured(root, "heads", "alignment");
}

// All heads of a layer, and the translation without some ---------------------------------------------------------------

function drawAll(body, state, settings, without, change) {
  const { stack, kind, layer } = state.selection;
  const { heads } = state.size(stack);
  const largest = state.tensor("weights").data.reduce((a, x) => Math.max(a, x), 0);
  const cards = Array.from({ length: heads }, (_, head) => headCard(state, { stack, kind, layer, head }, settings.off, change, largest));
  const grid = el("div", { class: `head-cards ${heads > 8 ? "many" : ""}` }, cards);
  grid.style.setProperty("--heads", heads);
  const note = el("p", { class: "note" }, `${sizes(state, heads)} The strongest colour is a weight of ${number(largest)}.`);
  body.append(attentionPicker(state, { heads: false }), grid, note, outcome(state, settings, without, change));
}

function sizes(state, heads) {
  const [d_k, d_v] = ["query", "value"].map((name) => state.tensor(name).shape[2]);
  return `Here h = ${heads}, d_model = ${count(state.model.config.d_model)}, d_k = ${d_k} and d_v = ${d_v}.`;
}

/** The run's own settings, for the same translation with something changed. */
const plainRequest = ({ run: { request } }) => ({
  checkpoint: request.checkpoint,
  text: request.text,
  beams: request.beams,
  alpha: request.alpha,
});
const asList = ({ stack, kind, layer, head }) => [stack, kind, layer, head];
const asPlace = ([stack, kind, layer, head]) => ({ stack, kind, layer, head });

/** A head's weights as a button that chooses it, and its switch. */
function headCard(state, place, off, change, largest) {
  const { head } = place;
  const isOff = off.some((one) => isSameHead(asPlace(one), place));
  const toggle = () => change(isOff ? off.filter((one) => !isSameHead(asPlace(one), place)) : [...off, asList(place)]);
  const names = {
    class: "switch",
    role: "switch",
    "aria-checked": String(!isOff),
    "aria-label": `Head ${head + 1} at work`,
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
    "aria-label": `Look at head ${head + 1}${label ? `, ${label}` : ""}`,
    "data-key": `look ${head}`,
  });
  const picture = thumbnail(weightsOf(state, place), { masked: maskOf(state, place), largest });
  look.replaceChildren(picture, el("span", { class: "name" }, `head ${head + 1}`, label ? el("small", {}, label) : null));
  return look;
}

/** The translation with all heads, and without those that are off. */
function outcome(state, { off, now }, without, change) {
  const words = without.isBusy ? "" : verdict(state, off, now);
  const note = el("p", { class: "note", "aria-live": "polite", id: "heads-verdict" }, words);
  const table = el("div", { class: "scroller" }, comparison(state, now));
  return el("div", { class: "outcome", id: "heads-outcome" }, off.length ? chipsOf(off, change) : null, table, without.status, note);
}

/** A table of the run, and of the run `now` where there is one. */
function comparison(state, now) {
  const { run, model } = state;
  const [before, after] = now ? marked(run.target.text, now.target.text) : [[run.target.text], []];
  const names = ["translation", "score", "log P"].map((name, i) => el("th", { scope: "col", class: i ? "number" : null }, name));
  const row = (name, text, { score, log_prob }) => {
    const numbers = [score, log_prob].map((x) => el("td", { class: "number" }, number(x)));
    const words = text.some((part) => part !== "") ? text : ["(nothing)"];
    return el("tr", {}, el("th", { scope: "row" }, name), el("td", { lang: model.target_language }, words), numbers);
  };
  const rows = [row("all heads", before, run), now && row(`${now.request.off.length} off`, after, now)];
  return el("table", {}, el("thead", {}, el("tr", {}, el("td"), names)), el("tbody", {}, rows));
}

function chipsOf(off, change) {
  const chips = off.map((one, i) =>
    button(`${headName(asPlace(one))} ×`, () => change(off.filter((_, j) => j !== i)), {
      class: "token",
      "aria-label": `Switch ${longHeadName(asPlace(one))} on again`,
      "data-key": `chip ${one.join(" ")}`,
    }),
  );
  const all = button("all on again", () => change([]), { "data-key": "all on", class: "token" });
  return el("div", { class: "tokens", role: "group", "aria-label": "Heads that are off" }, el("span", {}, "off:"), chips, all);
}

function verdict(state, off, now) {
  if (!off.length) return "Every head is at work.";
  if (!now) return ""; // the status says why
  const difference = now.log_prob - state.run.log_prob;
  const change = `log P ${difference < 0 ? "falls" : "rises"} by ${number(Math.abs(difference))}`;
  return now.target.text === state.run.target.text
    ? `The same translation; its ${change}.`
    : `Another translation: its ${change} against the first one's. Words that differ are marked.`;
}

// One head large, and its measures -------------------------------------------------------------------------------------

const MEASURES = [
  ["previous", "token before"],
  ["same", "same token"],
  ["next", "token after"],
  ["first", "first token"],
  ["end", "end of sentence"],
  ["punctuation", "punctuation"],
  ["rare", "rare words"],
  ["peak", "its largest weight"],
];
const PLURAL = new Set(["punctuation", "rare"]);
const CROSS = { previous: "one place before", same: "same place", next: "one place after" };

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

/** What the run says of a head, as bars and in words. */
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
  `Entropy ${number(entropy)} bits (even weights on all ${keys} keys: ${number(Math.log2(keys))}); ` +
  `mean distance between query and key ${number(reach)} tokens.`;

/** Why the head has its label, or has none. */
function described(label, names, measures) {
  if (label === "alignment")
    return `Each query gives ${percent(measures.peak)} on average to one source word: the head aligns the two sentences.`;
  if (label) return `At least half of its weight falls on one kind of place, so it is called “${label}”.`;
  const [[name, words]] = names.filter(([name]) => name !== "peak").sort(([a], [b]) => measures[b] - measures[a]);
  const where = PLURAL.has(name) ? words : `the ${words}`;
  return `No kind of place takes half of its weight; the most, ${percent(measures[name])}, falls on ${where}.`;
}

// Every head off by itself ---------------------------------------------------------------------------------------------

const SHOWN = 8;

function drawRanking(body, state, settings, each, redraw) {
  const ask = () => {
    if (each.isBusy) return;
    each.ask(() => state.source.heads(state.run), (answer) => {
      settings.each = answer;
      redraw();
    });
  };
  const answer = settings.each;
  const result = el("span", { class: "note", "aria-live": "polite", id: "heads-ranking" }, answer ? summary(state, answer) : "");
  const start = button("Switch off every head by itself", ask, { id: "heads-rank", "data-key": "rank" });
  body.append(el("div", { class: "controls" }, start, each.status, result));
  if (!answer) return;
  const drops = answer.map((one) => ({ ...one, drop: state.run.log_prob - one.log_prob_of_original }));
  const largest = Math.max(...drops.map(({ drop }) => Math.abs(drop)));
  const grids = ATTENTIONS.map(() => el("div"));
  body.append(el("div", { class: "side-by-side rankings" }, grids), el("h4", {}, "The heads that this translation needs most"));
  ATTENTIONS.forEach(({ stack, kind, name }, i) => drawGrid(grids[i], state, drops, { stack, kind }, name, largest));
  drawNeeded(body, state, drops, largest);
  body.append(el("p", { class: "note" }, "* Without this head another translation is found. To be quick, these searches have one beam, with and without the head."));
}

/** The heads without which log P falls most; choosing one goes to it. */
function drawNeeded(body, state, drops, largest) {
  const ranked = [...drops].sort((a, b) => b.drop - a.drop).slice(0, SHOWN);
  const items = ranked.map((one) => ({
    name: headName(one),
    value: one.drop,
    colour: one.stack,
    text: `${number(one.drop)}${one.changed ? " *" : ""}`,
  }));
  bars(body, items, { largest, label: "fall of log P", onSelect: (i) => state.select({ ...place(ranked[i]), token: null }) });
}

const place = ({ stack, kind, layer, head }) => ({ stack, kind, layer, head });

function drawGrid(root, state, drops, { stack, kind }, name, largest) {
  const { layers, heads } = state.size(stack);
  const data = new Float32Array(layers * heads);
  for (const one of drops) if (one.stack === stack && one.kind === kind) data[one.layer * heads + one.head] = one.drop;
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

function summary(state, answer) {
  const changed = answer.filter(({ changed }) => changed).length;
  const worst = answer.reduce((a, b) => (b.log_prob_of_original < a.log_prob_of_original ? b : a));
  return (
    `Without ${headName(worst)} log P falls most, from ${number(state.run.log_prob)} to ${number(worst.log_prob_of_original)}. ` +
    `${changed} of ${answer.length} heads change what is translated with one beam.`
  );
}
