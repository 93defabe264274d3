import { attentionPicker, checkbox, slider, tokenRow } from "../lib/controls.js";
import { el, formula, number, percent, prose, shown } from "../lib/dom.js";
import { figure, keepFocus } from "../lib/figure.js";
import { heatmap } from "../lib/heatmap.js";
import { softmax, Tensor, times, timesTransposed } from "../lib/tensors.js";
import { lineChart } from "../lib/charts.js";

export default { id: "attention", number: 2, title: "Scaled dot-product attention", paper: "section 3.2.1, equation 1", render };

const TEXT = String.raw`
<p>Each token looks for information in all tokens. It searches with its <em class="q">query</em>, a row of \(\q{Q}\). Tokens are found by
  their <em class="k">keys</em>, the rows of \(\k{K}\), and contribute their <em class="v">values</em>, the rows of \(\v{V}\). In
  self-attention all three are computed from the same vectors, with three learned matrices.</p>
\[\mathrm{Attention}(\q{Q}, \k{K}, \v{V}) = \mathrm{softmax}\!\left(\frac{\q{Q} \k{K}^{\top}}{\sqrt{d_k}}\right) \v{V} \qquad (1)\]
<p>Read the formula from the inside: the dot product compares every query with every key, the products are scaled, a softmax makes each
  row sum to one, and the rows of \(V\) are mixed with these weights. Below are the actual matrices of one head. Choose another layer or
  head, remove the scaling, or change the temperature, and see how the mixture changes.</p>`;

const SCALING = String.raw`
<p>Why divide? If the components of a query and a key are independent, with mean 0 and variance 1, their dot product has variance
  \(d_k\). So the wider the head, the larger the products, and the closer the softmax comes to choosing one token and ignoring the
  rest. There its gradient almost vanishes. Dividing by \(\sqrt{d_k}\) keeps the variance at 1, whatever the width.</p>`;

function render(root, state) {
  root.append(prose(TEXT), el("h3", {}, "One head, step by step"));
  const settings = { scaled: true, temperature: 1, query: 0 };
  state.on("select", () => (settings.query = state.selection.token ?? settings.query)); // the page's selection wins
  figure(root, state, { on: ["run", "select"], wide: true, draw: (body) => drawSteps(body, state, settings),
    caption: "All matrices belong to the sentence above. The page computes the last one from Q, K and V, and compares it with the model's." });
  root.append(el("h3", {}, "Why the products are scaled"), prose(SCALING));
  figure(root, state, { on: ["run", "select"], draw: (body) => drawScaling(body, state),
    caption: "First: the variance of q·k for random vectors (lines) and for this head (dots). Second: the largest weight of a row after the "
      + "softmax, averaged over the rows, for random vectors with as many keys (lines) and for this head (dots). Masked scores are "
      + "excluded." });
}

/** The matrices with the controls between them; a control redraws only the matrices that depend on it. */
function drawSteps(body, state, settings) {
  settings.query = Math.min(settings.query, state.tokens().rows.length - 1);
  const [vectors, products] = [el("div"), el("div")];
  const show = (...places) => keepFocus(body, () => {
    for (const place of places) place.replaceChildren();
    if (places.includes(vectors)) drawVectors(vectors, state, settings);
    drawProducts(products, state, settings, choose);
  });
  const change = (name) => (value) => {
    settings[name] = value;
    show(products);
  };
  const choose = (query) => {
    settings.query = query;
    show(vectors, products);
  };
  body.append(attentionPicker(state), vectors, el("div", { class: "controls" },
    checkbox({ name: "divide by √d_k", value: settings.scaled, onChange: change("scaled") }),
    slider({ name: "temperature", min: 0.1, max: 4, step: 0.1, value: settings.temperature, onChange: change("temperature") })), products);
  show(vectors, products);
}

/** Heat maps [title, tensor, options] side by side; all are added before the first is drawn, so that they share the width. */
function row(root, maps) {
  const boxes = maps.map(([title, tensor]) => el("div", {},
    el("h4", {}, formula(title), el("span", { class: "note" }, ` ${tensor.shape.join(" × ")}`))));
  root.append(el("div", { class: `side-by-side ${maps.length === 3 ? "three" : ""}` }, boxes));
  maps.forEach(([, tensor, options], i) => heatmap(boxes[i], tensor, options));
}

const VECTORS = { scale: "signed", rowName: "token", columnName: "component", size: 16 };

function drawVectors(root, state, { query: selected }) {
  const { rows, columns } = state.tokens();
  const part = (name) => state.tensor(name).part(state.selection.head);
  row(root, [["\\q{Q}", part("query"), { ...VECTORS, rows, selected, label: "Queries" }],
    ["\\k{K}", part("key"), { ...VECTORS, rows: columns, label: "Keys" }],
    ["\\v{V}", part("value"), { ...VECTORS, rows: columns, label: "Values" }]]);
}

function drawProducts(root, state, settings, choose) {
  const { rows, columns } = state.tokens();
  const { scores, weights, mixed, masked } = stepsOf(state, settings);
  const { scaled, query: selected } = settings;
  const map = { rows, columns, masked, selected, rowName: "query", columnName: "key", onSelect: choose };
  row(root, [[scaled ? "\\q{Q} \\k{K}^{\\top} / \\sqrt{d_k}" : "\\q{Q} \\k{K}^{\\top}", scores, { ...map, scale: "signed", label: "Scores" }],
    ["\\mathrm{softmax}", weights, { ...map, label: "Weights" }]]);
  row(root, [["\\mathrm{softmax}(\\cdot)\\,\\v{V}", mixed, { ...VECTORS, rows, selected, label: "Output of the head" }]]);
  root.append(el("p", { class: "note", id: "attention-check" }, check(state, mixed, settings)),
    el("h4", {}, "One query"), tokenRow({ name: "query", tokens: rows, value: selected, onSelect: choose }),
    sentenceOf(rows, columns, selected, weights));
}

/** Scores, weights and the mixture of the values with these settings; `masked(query, key)` is the causal mask. */
function stepsOf(state, { scaled, temperature }) {
  const { stack, kind, head } = state.selection;
  const isCausal = stack === "decoder" && kind === "self_attn" && state.run.request.causal !== false;
  const masked = (r, c) => isCausal && c > r;
  const factor = scaled ? 1 : Math.sqrt(state.tensor("query").shape.at(-1));
  const scores = state.tensor("scores").part(head).map((x) => x * factor);
  const weights = softmax(hidden(scores, masked), temperature);
  return { scores, weights, mixed: times(weights, state.tensor("value").part(head)), masked };
}

/** Scores [T, S] with minus infinity where masked. */
const hidden = (scores, masked) =>
  new Tensor(scores.shape, scores.data.map((x, i) => (masked(Math.floor(i / scores.shape[1]), i % scores.shape[1]) ? -Infinity : x)));

/** The difference between the page's result and the model's. */
function check(state, mixed, { scaled, temperature }) {
  const recorded = state.tensor("heads").part(state.selection.head);
  const difference = mixed.data.reduce((worst, x, i) => Math.max(worst, Math.abs(x - recorded.data[i])), 0);
  const isPlain = scaled && temperature === 1;
  return isPlain ? `Largest difference from the model's output: ${number(difference, 2)}.`
    : `With these settings the output differs from the model's by up to ${number(difference)}.`;
}

/** The keys with the largest weights, in a sentence. */
function sentenceOf(rows, columns, query, weights) {
  const row = [...weights.part(query).data].map((weight, i) => ({ weight, token: columns[i] })).sort((a, b) => b.weight - a.weight);
  const strongest = row.slice(0, 3).map(({ weight, token }) => `“${shown(token)}” (${percent(weight)})`).join(", ");
  return el("p", {}, `“${shown(rows[query])}” attends most to ${strongest}.`);
}

// The scaling ---------------------------------------------------------------------------------------------------------

const variance = (numbers) => {
  const xs = numbers.filter(Number.isFinite); // masked scores are minus infinity
  const mean = xs.reduce((a, x) => a + x, 0) / xs.length;
  return xs.reduce((a, x) => a + (x - mean) ** 2, 0) / xs.length;
};
const meanOfLargest = (weights) => {
  const [rows, columns] = weights.shape;
  let sum = 0;
  for (let r = 0; r < rows; r++) sum += Math.max(...weights.data.subarray(r * columns, (r + 1) * columns));
  return sum / rows;
};

/** The products [n, m] of random queries and keys; the seed depends on the width only. */
function randomProducts(width, n, m) {
  const gaussian = window.d3.randomNormal.source(window.d3.randomLcg(width / 1024))();
  const random = (rows) => new Tensor([rows, width], Float32Array.from({ length: rows * width }, gaussian));
  return timesTransposed(random(n), random(m));
}

function drawScaling(body, state) {
  const { scores: all, masked } = stepsOf(state, { scaled: true, temperature: 1 });
  const hide = (tensor) => hidden(tensor, masked);
  const scores = hide(all);
  const d_k = state.tensor("query").shape.at(-1);
  const unscaled = scores.map((x) => x * Math.sqrt(d_k));
  const widths = [1, 2, 4, 8, 16, 32, 64, 128, 256];
  const [queries, keys] = scores.shape;
  const isCausal = masked(0, 1);
  const products = widths.map((width) => [width, hide(randomProducts(width, isCausal ? queries : 40, keys))]);
  const scaledBy = (tensor, width) => softmax(tensor.map((x) => x / Math.sqrt(width)));
  const charts = el("div", { class: "side-by-side" }, el("div"), el("div"));
  body.append(attentionPicker(state), charts);
  lineChart(charts.children[0], { x: "d_k", y: "variance of the scores", logX: true, logY: true, series: [
    { name: "q·k", colour: "b", points: products.map(([width, p]) => [width, variance(p.data)]) },
    { name: "q·k / √d_k", colour: "a", points: products.map(([width, p]) => [width, variance(p.data) / width]) }],
  marks: [{ x: d_k, y: variance(unscaled.data), colour: "b", text: `this head: ${number(variance(unscaled.data))}` },
    { x: d_k, y: variance(scores.data), colour: "a", text: `scaled: ${number(variance(scores.data))}` }] });
  lineChart(charts.children[1], { x: "d_k", y: "largest weight", logX: true, domainY: [0, 1], series: [
    { name: "without scaling", colour: "b", points: products.map(([width, p]) => [width, meanOfLargest(softmax(p))]) },
    { name: "with scaling", colour: "a", points: products.map(([width, p]) => [width, meanOfLargest(scaledBy(p, width))]) }],
  marks: [{ x: d_k, y: meanOfLargest(softmax(unscaled)), colour: "b", text: `this head: ${percent(meanOfLargest(softmax(unscaled)))}` },
    { x: d_k, y: meanOfLargest(softmax(scores)), colour: "a", text: `scaled: ${percent(meanOfLargest(softmax(scores)))}` }] });
}
