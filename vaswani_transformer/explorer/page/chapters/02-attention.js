import { attentionPicker, checkbox, slider, tokenRow } from "../lib/controls.js";
import { el, formula, number, percent, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { heatmap } from "../lib/heatmap.js";
import { softmax, Tensor, times, timesTransposed } from "../lib/tensors.js";
import { lineChart } from "../lib/charts.js";

export default { id: "attention", number: 2, title: "Scaled dot-product attention", paper: "section 3.2.1, equation 1", render };

const TEXT = String.raw`
<p>Each token asks the others a question. Its question is a <em class="q">query</em>, a row of \(Q\); what the others offer to be
  found by are <em class="k">keys</em>, the rows of \(K\); and what they hand over when found are <em class="v">values</em>, the rows of
  \(V\). All three are the same vectors of the stream, seen through three learned matrices.</p>
\[\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^{\top}}{\sqrt{d_k}}\right) V \qquad (1)\]
<p>Read it from the inside: every query meets every key in a dot product, the products are scaled, a softmax makes each row sum to
  one, and the rows of \(V\) are mixed in these shares. Below are the real matrices of one head. Choose another layer or head,
  take the scaling away, or change the temperature, and see what the mixture becomes.</p>`;

const SCALING = String.raw`
<p>Why divide? If the components of a query and a key are independent, with mean 0 and variance 1, their dot product has variance
  \(d_k\): the wider the head, the larger the products, and the closer the softmax comes to choosing one token and ignoring the rest.
  There its gradient almost vanishes. Dividing by \(\sqrt{d_k}\) keeps the variance at 1, whatever the width.</p>`;

function render(root, state) {
  root.append(prose(TEXT));
  const settings = { scaled: true, temperature: 1, query: 0 };
  const steps = figure(root, state, { on: ["run", "select"], wide: true, draw: (body) => drawSteps(body, state, settings, () => steps.redraw()),
    caption: "Every matrix is the model's own for the sentence above. The last one is checked against what the model computed." });
  root.append(el("h3", {}, "What the scaling is for"), prose(SCALING));
  figure(root, state, { on: ["run", "select"], draw: (body) => drawScaling(body, state),
    caption: "Left: the variance of q·k for random vectors, and (the dot) of this head's real scores. Right: the mean of each row's largest "
      + "weight after the softmax; the line is for random vectors over as many tokens, the dots for this head." });
}

function drawSteps(body, state, settings, redraw) {
  const { rows, columns } = state.tokens();
  const { head } = state.selection;
  const part = (name) => state.tensor(name).part(head);
  const [query, key, value] = [part("query"), part("key"), part("value")];
  const [T, d_k] = query.shape;
  const isCausal = state.selection.stack === "decoder" && state.selection.kind === "self_attn" && state.run.request.causal !== false;
  const masked = (r, c) => isCausal && c > r;
  settings.query = Math.min(settings.query, T - 1);

  const scores = state.tensor("scores").part(head).map((x) => (settings.scaled ? x : x * Math.sqrt(d_k)));
  const visible = new Tensor(scores.shape, scores.data.map((x, i) => (masked(Math.floor(i / columns.length), i % columns.length) ? -Infinity : x)));
  const weights = softmax(visible, settings.temperature);
  const mixed = times(weights, value);
  const names = { rowName: "query", columnName: "key" };
  const shape = (tensor) => el("span", { class: "note" }, ` ${tensor.shape.join(" × ")}`);
  const step = (title, tensor, options) => {
    const box = el("div", {}, el("h4", {}, title, shape(tensor)));
    return { box, show: () => heatmap(box, tensor, options) };
  };

  body.append(attentionPicker(state));
  const vectors = [
    step(formula("Q"), query, { rows, scale: "signed", label: "Queries", rowName: "token", columnName: "component", size: 16, selected: settings.query }),
    step(formula("K"), key, { rows: columns, scale: "signed", label: "Keys", rowName: "token", columnName: "component", size: 16 }),
    step(formula("V"), value, { rows: columns, scale: "signed", label: "Values", rowName: "token", columnName: "component", size: 16 })];
  const products = [
    step(formula(settings.scaled ? "Q K^{\\top} / \\sqrt{d_k}" : "Q K^{\\top}"), scores,
      { rows, columns, scale: "signed", label: "Scores", masked, selected: settings.query, ...names, onSelect: (r) => choose(r) }),
    step(formula("\\mathrm{softmax}"), weights,
      { rows, columns, label: "Weights", masked, selected: settings.query, ...names, onSelect: (r) => choose(r) })];
  const result = [step(formula("\\mathrm{softmax}(\\cdot)\\,V"), mixed,
    { rows, scale: "signed", label: "The head's output", rowName: "token", columnName: "component", size: 16, selected: settings.query })];
  const choose = (r) => {
    settings.query = r;
    redraw();
  };

  const line = (steps) => {
    const element = el("div", { class: "side-by-side" }, steps.map(({ box }) => box));
    body.append(element);
    steps.forEach(({ show }) => show());
  };
  line(vectors);
  body.append(el("div", { class: "controls" },
    checkbox({ name: "divide by √d_k", value: settings.scaled, onChange: (scaled) => { settings.scaled = scaled; redraw(); } }),
    slider({ name: "temperature", min: 0.1, max: 4, step: 0.1, value: settings.temperature, onChange: (t) => { settings.temperature = t; redraw(); } })));
  line(products);
  line(result);
  body.append(el("p", { class: "note", id: "attention-check" }, check(state, mixed, settings)),
    el("h4", {}, "One query"), tokenRow({ name: "query", tokens: rows, value: settings.query, onSelect: choose }),
    sentenceOf(rows, columns, settings.query, weights));
}

/** How far the page's result is from the model's. */
function check(state, mixed, { scaled, temperature }) {
  const recorded = state.tensor("heads").part(state.selection.head);
  const difference = mixed.data.reduce((worst, x, i) => Math.max(worst, Math.abs(x - recorded.data[i])), 0);
  const isPlain = scaled && temperature === 1;
  return isPlain ? `Largest difference from what the model computed: ${number(difference, 2)}.`
    : `With these settings the head's output differs from the model's own by up to ${number(difference)}.`;
}

/** What a query finds, in a sentence. */
function sentenceOf(rows, columns, query, weights) {
  const row = [...weights.part(query).data].map((weight, i) => ({ weight, token: columns[i] })).sort((a, b) => b.weight - a.weight);
  const found = row.slice(0, 3).map(({ weight, token }) => `“${shown(token)}” (${percent(weight)})`).join(", ");
  return el("p", {}, `“${shown(rows[query])}” takes most from ${found}.`);
}

// The scaling ---------------------------------------------------------------------------------------------------------

const variance = (xs) => {
  const mean = xs.reduce((a, x) => a + x, 0) / xs.length;
  return xs.reduce((a, x) => a + (x - mean) ** 2, 0) / xs.length;
};
const meanOfLargest = (weights) => {
  const [rows, columns] = weights.shape;
  let sum = 0;
  for (let r = 0; r < rows; r++) sum += Math.max(...weights.data.subarray(r * columns, (r + 1) * columns));
  return sum / rows;
};

/** Products of random queries and keys, [n, m], always the same for a width. */
function randomProducts(width, n, m) {
  const gaussian = window.d3.randomNormal.source(window.d3.randomLcg(width / 1024))();
  const random = (rows) => new Tensor([rows, width], Float32Array.from({ length: rows * width }, gaussian));
  return timesTransposed(random(n), random(m));
}

function drawScaling(body, state) {
  const scores = state.tensor("scores").part(state.selection.head);
  const d_k = state.tensor("query").shape.at(-1);
  const unscaled = scores.map((x) => x * Math.sqrt(d_k));
  const widths = [1, 2, 4, 8, 16, 32, 64, 128, 256];
  const products = widths.map((width) => [width, randomProducts(width, 40, scores.shape[1])]);
  const scaledBy = (tensor, width) => softmax(tensor.map((x) => x / Math.sqrt(width)));
  const charts = el("div", { class: "side-by-side" }, el("div"), el("div"));
  body.append(attentionPicker(state), charts);
  lineChart(charts.children[0], { x: "d_k", y: "variance of the scores", logX: true, logY: true, series: [
    { name: "q·k", colour: "key", points: products.map(([width, p]) => [width, variance(p.data)]) },
    { name: "q·k / √d_k", colour: "query", points: products.map(([width, p]) => [width, variance(p.data) / width]) }],
  marks: [{ x: d_k, y: variance(unscaled.data), colour: "key", text: `this head: ${number(variance(unscaled.data))}` },
    { x: d_k, y: variance(scores.data), colour: "query", text: `scaled: ${number(variance(scores.data))}` }] });
  lineChart(charts.children[1], { x: "d_k", y: "largest weight", logX: true, domainY: [0, 1], series: [
    { name: "without scaling", colour: "key", points: products.map(([width, p]) => [width, meanOfLargest(softmax(p))]) },
    { name: "with scaling", colour: "query", points: products.map(([width, p]) => [width, meanOfLargest(scaledBy(p, width))]) }],
  marks: [{ x: d_k, y: meanOfLargest(softmax(unscaled)), colour: "key", text: `this head: ${percent(meanOfLargest(softmax(unscaled)))}` },
    { x: d_k, y: meanOfLargest(softmax(scores)), colour: "query", text: `scaled: ${percent(meanOfLargest(softmax(scores)))}` }] });
}
