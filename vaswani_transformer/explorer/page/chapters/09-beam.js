import { latestRequest } from "../lib/requests.js";
import { lineChart } from "../lib/charts.js";
import { player, slider } from "../lib/controls.js";
import { count, el, number, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";

export default { id: "beam", number: 9, title: "Beam search", paper: "section 6.1", render };

const SEARCH = String.raw`
<p>The model computes probabilities; choosing a translation is another problem. The most probable token at each step does not always lead
  to the most probable sentence, and there are far too many sentences to try them all. Beam search keeps the \(n\) best unfinished
  translations, its hypotheses; the paper uses \(n = 4\). At each step every hypothesis is extended by every token of the vocabulary. The
  search considers the best \(2n\) extensions, and continues with the best \(n\) of them that have not ended. The others are pruned for
  good.</p>
<p>A hypothesis that ends is finished. The search stops when \(n\) hypotheses have finished and no other can still overtake the worst of
  them. Change the settings to search again.</p>`;

const PENALTY = String.raw`
<p>Every additional token makes a sentence less probable, so \(\log P\) alone favours short sentences. Beam search therefore compares
  finished hypotheses by \(\log P\) divided by the length penalty of Wu et al. (2016):</p>
\[s(Y) = \frac{\log P(Y \mid X)}{lp(Y)}\]
\[lp(Y) = \frac{(5 + |Y|)^{\alpha}}{(5 + 1)^{\alpha}}\]
<p>With \(\alpha = 0\) the length has no influence; a larger \(\alpha\) favours longer translations. The paper chose 0.6 on its
  development set.</p>`;

const LATER = String.raw`
<p>Today's models still have the parts of Figure 1: multi-head attention, feed-forward networks, and residual connections around both.
  Some parts have been replaced, and many models use only half of the figure. The table compares the model on this page with what came
  later.</p>`;

function render(root, state) {
  root.append(el("h3", {}, "The search step by step"), prose(SEARCH));
  renderSearch(root, state);
  root.append(el("h3", {}, "The length penalty"), prose(PENALTY));
  renderPenalty(root, state);
  root.append(el("h3", {}, "What came later"), prose(LATER));
  renderLater(root, state);
}

// The search ----------------------------------------------------------------------------------------------------------

const fixed = (x) => x.toFixed(2).replace("-", "−"); // for numbers in a column
const FATES = { kept: "continues", pruned: "pruned", finished: "finished", "ended-too-low": "ended with too low a score" };

function renderSearch(root, state) {
  const view = { run: null, step: null, beams: 4, alpha: 0.6 }; // run: the search on display; step: null for the last
  const request = latestRequest();
  const sentence = el("p", { id: "beam-sentence", "aria-live": "polite" });
  state.on("run", () => {
    const { beams, alpha } = state.run.search;
    Object.assign(view, { run: state.run, step: null, beams, alpha });
    request.cancel();
  });
  let fill = () => {}; // redraws the result but not the sliders, which the reader may still hold
  figure(root, state, { draw, wide: true,
    caption: "Each column is a step with its best candidates, the best at the top, and log P so far. Point at a candidate, or use the arrow "
      + "keys: left moves to the hypothesis that it extends, right to its best extension." });

  function searchAgain(change) {
    Object.assign(view, change);
    const { beams, alpha } = view;
    request.send(() => state.source.run({ checkpoint: state.model.name, text: state.run.request.text, beams, alpha }), (run) => {
      view.run = run;
      fill();
    });
  }

  function draw(body) {
    const [steps, tree] = [el("div", { class: "controls" }), el("div")];
    const show = (step) => {
      view.step = step === view.run.search.steps.length - 1 ? null : step; // the last step stays the last of another search
      tree.replaceChildren();
      drawSearch(tree, sentence, view, state.run);
    };
    fill = () => {
      const last = view.run.search.steps.length - 1;
      const format = (step) => `${step + 1} of ${last + 1}`;
      steps.replaceChildren(player({ name: "step", last, value: Math.min(view.step ?? last, last), format, onChange: show }));
      show(view.step);
    };
    body.append(el("div", { class: "controls" }, searchControls(state.model, view, searchAgain)), request.status, steps, sentence, tree);
    fill();
  }
}

/** Controls for beams and alpha. */
function searchControls({ limits }, { beams, alpha }, searchAgain) {
  return [slider({ name: "beams", min: 1, max: limits?.beams ?? 8, step: 1, value: beams, onChange: (beams) => searchAgain({ beams }) }),
    slider({ name: "α", key: "search alpha", min: 0, max: 2, step: 0.1, value: alpha, onChange: (alpha) => searchAgain({ alpha }) })];
}

function drawSearch(place, sentence, view, plain) {
  const { search } = view.run;
  const last = search.steps.length - 1;
  const step = Math.min(view.step ?? last, last);
  const nodes = nodesOf(search, step);
  const tree = treeOf(search, nodes, step);
  const isOver = step === last;
  const winner = isOver ? search.finished[0]?.key : null;
  const readout = el("p", { class: "readout", id: "beam-readout", "aria-live": "polite" }, " ");
  const light = (key) => {
    tree.light(key ?? winner);
    readout.textContent = key ? describe(nodes, key) : " ";
  };
  const list = isOver ? finishedList(search, light) : null;
  sentence.textContent = sentenceOf(view.run, plain, step);
  place.append(legend(), tree.element, readout, list ?? "");
  tree.listen(light);
  light(null);
  if (view.step !== null) tree.show(step); // initially the beginning is visible
}

/** The candidates of the steps up to `step` by key, each with its step and rank. */
export function nodesOf(search, step) {
  const nodes = new Map();
  search.steps.slice(0, step + 1).forEach(({ candidates }, s) => candidates.forEach((candidate, rank) => nodes.set(candidate.key,
    { ...candidate, step: s, rank })));
  return nodes;
}

/** Keys from the first token to this candidate. */
export function pathTo(nodes, key) {
  const path = [];
  for (let node = nodes.get(key); node; node = nodes.get(node.parent)) path.unshift(node.key);
  return path;
}

function describe(nodes, key) {
  const node = nodes.get(key);
  const text = pathTo(nodes, key).map((k) => nodes.get(k).text).join("").trim();
  return `“${text}”: log p of the last token ${fixed(node.log_prob)}, log P ${fixed(node.total)}, score ${fixed(node.score)}; `
    + `${FATES[node.fate]}.`;
}

function sentenceOf(run, plain, step) {
  const { search } = run;
  const fates = search.steps.slice(0, step + 1).flatMap(({ candidates }) => candidates.map(({ fate }) => fate));
  const countOf = (fate) => fates.filter((f) => f === fate).length;
  const seen = `${count(fates.length)} candidates in ${step + 1} ${step ? "steps" : "step"}: ${countOf("kept")} continued, ${countOf("pruned")} were `
    + `pruned, ${countOf("finished")} finished${countOf("ended-too-low") ? `, ${countOf("ended-too-low")} ended with too low a score` : ""}.`;
  const best = search.finished[0];
  if (step < search.steps.length - 1 || !best) return seen;
  const same = run === plain || run.target.text === plain.target.text ? ""
    : ` With the checkpoint's own settings: “${plain.target.text}”`;
  return `${seen} The best translation (log P ${fixed(best.log_prob)}, score ${fixed(best.score)}): “${best.text}”${same}`;
}

// The tree: a column for each step, lines from each candidate to the hypothesis that it extends -----------------------------------------------

const [COLUMN, ROW, LEFT, TOP] = [104, 36, 62, 30];
const GLYPHS = { kept: "symbolCircle", finished: "symbolStar", "ended-too-low": "symbolDiamond", pruned: "symbolTimes" };
const glyph = (fate) => window.d3.symbol(window.d3[GLYPHS[fate]], fate === "finished" ? 110 : 58)();
const shortened = (text) => (text.length > 9 ? `${text.slice(0, 8)}…` : text);

function legend() {
  const { d3 } = window;
  return el("p", { class: "note beam-legend" }, Object.entries(FATES).map(([fate, text]) => {
    const svg = d3.create("svg").attr("width", 18).attr("height", 18).attr("viewBox", "-9 -9 18 18").attr("aria-hidden", "true");
    svg.append("path").attr("d", glyph(fate)).attr("class", `glyph ${fate}`);
    return el("span", {}, svg.node(), text);
  }));
}

export function treeOf(search, nodes, step) {
  const rows = Math.max(...search.steps.map(({ candidates }) => candidates.length));
  const [width, height] = [LEFT + (step + 1) * COLUMN + 8, TOP + rows * ROW + 4];
  const svg = window.d3.create("svg").attr("width", width).attr("height", height).attr("viewBox", `0 0 ${width} ${height}`)
    .attr("class", "beam-tree").attr("aria-hidden", "true");
  const x = (s) => LEFT + s * COLUMN;
  const y = (rank) => TOP + rank * ROW + 12;
  for (let s = 0; s <= step; s++) svg.append("text").attr("x", x(s) - 5).attr("y", 12).attr("class", "step-number").text(s + 1);
  svg.append("text").attr("x", 2).attr("y", y(0) + 4).text("start");
  svg.append("text").attr("x", 2).attr("y", 12).attr("class", "step-number").text("step");

  const [links, points] = [new Map(), new Map()];
  for (const node of nodes.values()) links.set(node.key, drawLink(svg, node, nodes.get(node.parent), x, y));
  for (const node of nodes.values()) points.set(node.key, drawNode(svg, node, x, y, node.step === step));
  const box = el("div", { class: "scroller beam-box", tabindex: 0, role: "group", "data-key": "beam tree",
    "aria-label": "The search as a tree; use the arrow keys to move between candidates" }, svg.node());
  const light = (key) => {
    const path = new Set(pathTo(nodes, key));
    links.forEach((link, k) => link.classed("on-path", path.has(k)));
    points.forEach((point, k) => point.classed("on-path", path.has(k)));
  };
  const show = (s) => {
    box.scrollLeft = Math.max(0, x(s) + COLUMN - box.clientWidth);
  };
  return { element: box, light, show, listen: (onPoint) => listen(box, points, nodes, step, x, onPoint) };
}

function drawLink(svg, node, parent, x, y) {
  const [x0, y0] = parent ? [x(parent.step) + 12 + Math.min(62, Math.max(30, shortened(shown(parent)).length * 7)), y(parent.rank)]
    : [34, y(0)];
  const [x1, y1] = [x(node.step) - 7, y(node.rank)];
  const middle = (x0 + x1) / 2;
  return svg.append("path").attr("d", `M${x0} ${y0} C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`).attr("class", `link ${node.fate}`);
}

function drawNode(svg, node, x, y, isNew) {
  const group = svg.append("g").attr("class", `node ${node.fate}${isNew ? " new" : ""}`).attr("data-node", node.key)
    .attr("transform", `translate(${x(node.step)},${y(node.rank)})`);
  group.append("rect").attr("x", -9).attr("y", -13).attr("width", COLUMN - 22).attr("height", ROW - 4).attr("class", "target");
  group.append("path").attr("d", glyph(node.fate)).attr("class", `glyph ${node.fate}`);
  group.append("text").attr("x", 10).attr("y", 3).attr("class", "token-text").text(shortened(shown(node)));
  group.append("text").attr("x", 10).attr("y", 16).attr("class", "total").text(fixed(node.total));
  return group;
}

/** Handles the pointer and the arrow keys: `onPoint(key)`, with null for no candidate. */
function listen(box, points, nodes, step, x, onPoint) {
  let at = null;
  const go = (key) => {
    if (!key || !nodes.has(key)) return;
    points.get(at)?.classed("at", false);
    at = key;
    points.get(at).classed("at", true);
    const place = x(nodes.get(key).step);
    if (place - 20 < box.scrollLeft || place + COLUMN > box.scrollLeft + box.clientWidth) box.scrollLeft = place - box.clientWidth / 2;
    onPoint(key);
  };
  points.forEach((point, key) => point.on("pointerenter", () => onPoint(key)).on("pointerleave", () => onPoint(null)).on("click",
    () => go(key)));
  const keyAt = (s, rank) => [...nodes.values()].find((node) => node.step === s && node.rank === rank)?.key;
  box.addEventListener("keydown", (event) => {
    const here = nodes.get(at);
    const moves = { ArrowLeft: () => here?.parent,
      ArrowRight: () => [...nodes.values()].find(({ parent }) => here && parent === here.key)?.key,
      ArrowUp: () => here && keyAt(here.step, here.rank - 1), ArrowDown: () => here && keyAt(here.step, here.rank + 1) };
    if (!moves[event.key]) return;
    event.preventDefault();
    go(here ? moves[event.key]() : keyAt(step, 0));
  });
  box.addEventListener("blur", () => {
    points.get(at)?.classed("at", false);
    at = null;
    onPoint(null);
  });
}

const numberCell = (x) => el("td", { class: "number" }, String(x));
const headings = (...names) => names.map((name, i) => el("th", { scope: "col", class: i < names.length - 1 ? "number" : null },
  name || el("span", { class: "hidden" }, "rank")));

/** The finished translations, best first; pointing at one highlights its path. */
function finishedList(search, light) {
  const rows = search.finished.map(({ key, text, log_prob, length, score }, i) => el("tr",
    { pointerenter: () => light(key), pointerleave: () => light(null),
    "data-score": score, "data-log-prob": log_prob, "data-length": length },
  numberCell(i + 1), numberCell(fixed(score)), numberCell(fixed(log_prob)), numberCell(length),
  el("td", {}, el("button", { type: "button", class: "plain", "data-key": `finished ${i}`, focus: () => light(key),
    blur: () => light(null), click: () => light(key) }, text || "(empty)"))));
  return el("div", { class: "scroller" }, el("table", { id: "finished", class: "finished-list" }, el("caption", {}, "Finished translations, best first"),
    el("thead", {}, el("tr", {}, headings("", "score", "log P", "tokens", "translation"))),
    el("tbody", {}, rows)));
}

// The length penalty --------------------------------------------------------------------------------------------------

const lengthPenalty = (length, alpha, offset) => ((offset + length) / (offset + 1)) ** alpha;

function renderPenalty(root, state) {
  const view = { alpha: 0.6 };
  state.on("run", () => (view.alpha = state.run.search.alpha));
  figure(root, state, { draw, wide: true,
    caption: "First: the penalty by length. Second: the score of each finished translation minus the best score, by α. The slider "
      + "does not search again; it only ranks the finished translations of the sentence above with another α." });

  function draw(body) {
    const [place, sentence] = [el("div"), el("p", { id: "rescored-sentence", "aria-live": "polite" })];
    const redraw = () => {
      place.replaceChildren();
      drawPenalty(place, sentence, state.run.search, view.alpha);
    };
    body.append(el("div", { class: "controls" }, slider({ name: "α", key: "penalty alpha", min: 0, max: 2, step: 0.05, value: view.alpha,
      onChange: (alpha) => {
      view.alpha = alpha;
      redraw();
    } })), sentence, place);
    redraw();
  }
}

function drawPenalty(place, sentence, { finished, alpha: used, offset }, alpha) {
  const [left, right] = [el("div"), el("div")];
  place.append(el("div", { class: "side-by-side" }, left, right));
  const longest = Math.max(40, ...finished.map(({ length }) => length + 10));
  const lengths = Array.from({ length: longest }, (_, i) => i + 1);
  const curve = (a) => lengths.map((length) => [length, lengthPenalty(length, a, offset)]);
  left.append(el("h4", {}, "lp(Y)"));
  const penalties = lineChart(left, { x: "tokens, including the end token", y: "lp", domainX: [0, longest], series: [
    { name: `α = ${number(alpha)}`, colour: "a", points: curve(alpha) },
    ...(used === alpha ? [] : [{ name: `this search, α = ${number(used)}`, colour: "soft", dashed: true, points: curve(used) }])],
  marks: finished.map(({ length }, i) => ({ x: length, y: lengthPenalty(length, alpha, offset), colour: `head-${i % 8}` })) });
  penalties.id = "penalty-chart";
  const scoreAt = ({ log_prob, length }, a) => log_prob / lengthPenalty(length, a, offset);
  const alphas = Array.from({ length: 41 }, (_, i) => i / 20);
  const behind = (hypothesis, a) => scoreAt(hypothesis, a) - Math.max(...finished.map((rival) => scoreAt(rival, a)));
  right.append(el("h4", {}, "Distance from the best"));
  lineChart(right, { x: "α", y: "score minus the best", domainX: [0, 2], series: finished.map((hypothesis, i) => (
    { name: String(i + 1), colour: `head-${i % 8}`, dashed: i > 3, points: alphas.map((a) => [a, behind(hypothesis, a)]) })),
  marks: finished.map((hypothesis, i) => ({ x: alpha, y: behind(hypothesis, alpha), colour: `head-${i % 8}` })) });
  if (offset !== 5) place.append(el("p", { class: "note" }, `The search of this checkpoint uses ${number(offset)} instead of 5 in the formula.`));
  place.append(rescored(sentence, finished, (hypothesis) => scoreAt(hypothesis, alpha), ({ length }) => lengthPenalty(length, alpha, offset)));
}

/** The finished translations ranked with another alpha; their numbers are their ranks with the alpha of the search. */
function rescored(sentence, finished, score, penalty) {
  const ranked = finished.map((hypothesis, i) => ({ ...hypothesis, was: i + 1, score: score(hypothesis), penalty: penalty(hypothesis) }))
    .sort((a, b) => b.score - a.score);
  const [best] = ranked;
  sentence.textContent = best && best.was !== 1 ? `Translation ${best.was} wins instead: “${best.text}”`
    : "The same translation wins.";
  const rows = ranked.map(({ score, was, log_prob, penalty, length, text }) => el("tr", { "data-score": score, "data-was": was },
    numberCell(was), numberCell(fixed(score)), numberCell(fixed(log_prob)), numberCell(fixed(penalty)), numberCell(length),
    el("td", {}, text || "(empty)")));
  return el("div", {}, el("div", { class: "scroller" }, el("table", { id: "rescored", class: "finished-list" },
    el("caption", { class: "hidden" }, "Finished translations by score at this α"),
      el("thead", {}, el("tr", {}, headings("", "score", "log P", "lp", "tokens", "translation"))),
      el("tbody", {}, rows))));
}

// What came after -----------------------------------------------------------------------------------------------------

/** The rows: a part, this model's version of it, and later versions with their papers. */
const later = ({ config, generation }) => [
  ["architecture", "encoder and decoder", [["encoder only", "BERT", "Devlin et al. 2018"], ["decoder only", "GPT", "Radford et al. 2018"],
    ["encoder and decoder, pre-trained", "BART and T5", "Lewis et al. and Raffel et al. 2019"]]],
  ["positions", { sinusoidal: "sinusoids", learned: "a learned table", none: "none" }[config.position_encoding],
    [["relative", "distances in keys and values", "Shaw et al. 2018"],
    ["rotary", "queries and keys rotated by their positions", "Su et al. 2021"],
      ["ALiBi", "a penalty on the score, linear in distance", "Press et al. 2021"]]],
  ["norm", config.norm_position === "pre" ? "LayerNorm before each sub-layer" : "LayerNorm after each addition",
    [["pre-norm", "can train without warm-up", "Xiong et al. 2020"],
    ["RMSNorm", "divides by the root mean square, without subtracting the mean", "Zhang and Sennrich 2019"]]],
  ["activation", { relu: "ReLU", gelu: "GELU" }[config.activation_function] ?? config.activation_function,
    [["GELU", "used in BERT and GPT", "Hendrycks and Gimpel 2016"],
    ["SwiGLU", "a feed-forward network with a gate", "Shazeer 2020"]]],
  ["attention", `${config.encoder_attention_heads} heads, each with its own keys and values`,
    [["multi-query", "one set of keys and values for all heads", "Shazeer 2019"],
    ["grouped-query", "one set for each group of heads", "Ainslie et al. 2023"],
      ["FlashAttention", "the same result, computed in tiles", "Dao et al. 2022"]]],
  ["search", generation?.num_beams > 1 ? `a beam of ${generation.num_beams}` : "greedy",
    [["nucleus sampling", "samples from the most probable tokens that together have probability p", "Holtzman et al. 2019"]]]];

function renderLater(root, state) {
  figure(root, state, { on: ["model", "run"], wide: true, draw: (body) => {
    const rows = later(state.model).map(([what, here, changes]) => el("tr", {}, el("th", { scope: "row" }, what), el("td", {}, here),
      el("td", {}, el("ul", { class: "changes" }, changes.map(([name, how, who]) => el("li", {}, el("b", {}, name), `: ${how} `,
        el("span", { class: "note" }, `(${who})`)))))));
    body.append(el("table", { class: "later" }, el("thead", {}, el("tr", {},
      ["part", "this model", "later"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows)));
  } });
}
