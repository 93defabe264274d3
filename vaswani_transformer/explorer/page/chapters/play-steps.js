// The steps of the guided play, for readers who have never seen a Transformer; all numbers are the model's own.
import { bars } from "../lib/charts.js";
import { colour, headColour, signedScale } from "../lib/colours.js";
import { count, el, percent, shown } from "../lib/dom.js";
import { heatmap } from "../lib/heatmap.js";
import { links } from "../lib/links.js";
import { norm } from "../lib/tensors.js";
import { clearestLink, weightsOf } from "../lib/heads.js";
import { farthestFromDiagonal, weightsOf as decoderWeights } from "./06-decoder.js";
import { nodesOf, pathTo, treeOf } from "./09-beam.js";

/** An element that appears after those with a smaller `order`. */
const appearing = (element, order) => {
  element.classList.add("appearing");
  element.style.setProperty("--order", order);
  return element;
};

/** A vector as a strip of coloured cells. */
function strip(vector, name, largest) {
  const canvas = el("canvas", { width: vector.length, height: 1, class: "strip", role: "img", "aria-label": `${vector.length} numbers` });
  canvas.style.borderColor = `var(--${name})`;
  const [paint, context] = [signedScale(largest), canvas.getContext("2d")];
  vector.forEach((x, i) => {
    context.fillStyle = paint(x);
    context.fillRect(i, 0, 1, 1);
  });
  return canvas;
}

/** The end of a colour scale: the mean size of the numbers times 3, so that most cells have a colour. */
const largestOf = ({ data }) => (3 * data.reduce((sum, x) => sum + Math.abs(x), 0)) / data.length;

/** A row for each token: its name, and one strip for each of `parts`, [{tensor, name, sign}]. */
function stripTable(root, tokens, parts, order = (row) => row) {
  const table = el("div", { class: "strips" });
  table.style.setProperty("--columns", parts.length);
  tokens.forEach((token, t) => {
    table.append(el("span", { class: `name ${token.kind}` }, shown(token)));
    parts.forEach(({ tensor, name, sign = "" }, p) => table.append(appearing(
      el("span", { class: "cell" }, el("b", {}, sign), strip(tensor.part(t).data, name, largestOf(tensor))), order(t, p))));
  });
  root.append(table);
}

const tensorOf = (state, name) => state.tensors.get(name);
const word = (token) => `“${shown(token)}”`;

/** The encoder's clearest link, which the play explains. */
const linkOf = (state) => clearestLink(state) ?? { place: { stack: "encoder", kind: "self_attn", layer: 0, head: 0 }, row: 0, column: 0, link: 0 };

/** The three words to which a row of weights [S] gives most. */
const topThree = (row, tokens) => [...row].map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, 3)
  .map(([weight, i]) => `${word(tokens[i])} (${percent(weight)})`).join(", ");

function drawTokens(root, { run }) {
  root.append(el("div", { class: "play-tokens" }, run.source.tokens.map((token, i) => appearing(
    el("span", { class: `token ${token.kind}` }, shown(token), el("small", {}, `number ${count(token.id)}`)), i))));
}

const drawEmbeddings = (root, state) => stripTable(root, state.run.source.tokens, [{ tensor: tensorOf(state, "encoder.embedding"), name: "soft" }]);

const drawPositions = (root, state) => stripTable(root, state.run.source.tokens, [
  { tensor: tensorOf(state, "encoder.embedding"), name: "soft" }, { tensor: tensorOf(state, "encoder.positions"), name: "position", sign: "+" },
  { tensor: tensorOf(state, "encoder.input"), name: "residual", sign: "=" }], (t, p) => t * 0.3 + p * 5);

function drawLinks(root, state, { rows, columns, weights, row, colour: c, names }) {
  links(root, { rows, columns, rowName: names[0], columnName: names[1], heads: [{ name: "", colour: c, weights }], selected: row, label: "Attention of one token" });
}

function drawHead(root, state) {
  const { tokens } = state.run.source;
  const { place, row } = linkOf(state);
  drawLinks(root, state, { rows: tokens, columns: tokens, weights: weightsOf(state, place), row, colour: colour("query"), names: ["asks", "answers"] });
}

/** What each head of a layer looks at for one token. */
function drawHeads(root, state) {
  const { place, row } = linkOf(state);
  const { tokens } = state.run.source;
  const { heads } = state.size("encoder");
  for (let head = 0; head < heads; head++) {
    const list = el("p", { class: "play-head" }, el("b", {}, `head ${head + 1}`), ` takes from ${topThree(weightsOf(state, { ...place, head }).part(row).data, tokens)}`);
    list.style.setProperty("--mark", headColour(head));
    root.append(appearing(list, head * 2));
  }
}

/** The cosine of two vectors. */
const cosine = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0) / (norm(a) * norm(b) || 1);

/** One token's vector before and after each layer of the encoder, and how similar it still is to the first. */
function drawLayers(root, state) {
  const { row } = linkOf(state);
  const names = ["encoder.input", ...Array.from({ length: state.size("encoder").layers }, (_, i) => `encoder.layers.${i}.feed_forward.result`)];
  const first = tensorOf(state, names[0]).part(row).data;
  const table = el("div", { class: "strips layers" });
  names.forEach((name, i) => {
    const vector = tensorOf(state, name).part(row).data;
    const similarity = el("b", {}, percent(Math.max(0, cosine(vector, first))));
    table.append(el("span", { class: "name" }, i ? `after layer ${i}` : "before"),
      appearing(el("span", { class: "cell" }, strip(vector, "residual", largestOf(tensorOf(state, name))), similarity), i * 2.5));
  });
  root.append(table, el("p", { class: "note" }, "The percentage is the similarity to the first row (the cosine of the angle)."));
}

const lastLayer = (state) => ({ layer: state.size("decoder").layers - 1, head: "mean" });

function drawMask(root, state) {
  const { tokens } = state.run.target;
  const map = heatmap(root, decoderWeights(state.tensors, "self_attn", lastLayer(state)), { rows: tokens, columns: tokens, masked: (r, c) => c > r,
    label: "Weights of the decoder with the mask", rowName: "at", columnName: "looks at" });
  map.classList.add("revealed");
}

/** The token of the translation that crossing words make most interesting. */
function crossingOf(state) {
  const weights = decoderWeights(state.tensors, "cross_attn", lastLayer(state));
  return { weights, row: farthestFromDiagonal(weights, state.run.target.outputs) };
}

function drawCrossing(root, state) {
  const { source, target } = state.run;
  drawLinks(root, state, { rows: target.outputs, columns: source.tokens, ...crossingOf(state), colour: colour("query"), names: ["translation", "sentence"] });
}

/** The position of the least certain word, where the model had a choice. */
const choiceOf = ({ run }) => run.log_probs.indexOf(Math.min(...run.log_probs));

function drawChoice(root, state) {
  const { run } = state;
  const row = choiceOf(state);
  bars(root, run.alternatives[row].slice(0, 6).map((token) => ({ name: shown(token), value: Math.exp(token.log_prob), text: percent(Math.exp(token.log_prob)),
    colour: token.id === run.target.outputs[row].id ? "c" : "soft" })), { label: "The most probable next tokens", largest: 1 });
}

const MAX_STEPS = 6; // of the search, so that the tree fits

function drawSearch(root, { run: { search } }) {
  const step = Math.min(MAX_STEPS, search.steps.length) - 1;
  const nodes = nodesOf(search, step);
  const tree = treeOf(search, nodes, step);
  const best = new Set(pathTo(nodesOf(search, search.steps.length - 1), search.finished[0]?.key));
  tree.light([...nodes.keys()].findLast((key) => best.has(key)) ?? null);
  tree.element.classList.add("revealed", "sideways");
  root.append(tree.element);
}

const endOf = ({ run }) => shown(run.source.tokens.at(-1));

const it = (state) => word(state.run.source.tokens[linkOf(state).row]);

/** The beginning of the translation up to a token. */
const beginning = ({ run }, row) => run.target.tokens.slice(1, row + 1).map(({ text }) => text).join("").trim();

export const steps = [
  { title: "A sentence becomes tokens", part: [], chapter: "top", seconds: 8, draw: drawTokens,
    text: (state) => `The model knows ${count(state.model.config.vocab_size)} tokens: words and pieces of words. Each has a number. Your sentence becomes `
      + `a list of ${state.run.source.tokens.length} tokens. The last one, ${endOf(state)}, marks its end.` },
  { title: "Each token becomes a vector", part: ["encoder-embedding"], chapter: "positions", seconds: 9, draw: drawEmbeddings,
    text: ({ model }) => `A token's number has no meaning. So the model has learned ${model.config.d_model} numbers for each: its embedding. `
      + "Tokens with similar uses have similar embeddings. Blue is positive, orange negative." },
  { title: "Its position is added", part: ["positions"], chapter: "positions", seconds: 8, draw: drawPositions, isShown: ({ model }) => model.config.position_encoding !== "none",
    text: () => "The model reads all tokens at once. It would not know their order. So each position has a pattern, which is added to the embedding." },
  { title: "A token looks at the others", part: ["encoder-attention"], chapter: "attention", seconds: 11, draw: drawHead,
    text: (state) => {
      const { row, column, link } = linkOf(state);
      const { tokens } = state.run.source;
      return "This is attention. Each token has a query: what it looks for. Each has a key: what it offers. The better they match, the larger the weight. "
        + `Here ${word(tokens[row])} gives ${percent(link)} of its weight to ${word(tokens[column])}.`;
    } },
  { title: "Several heads look at once", part: ["encoder-attention"], chapter: "heads", seconds: 9, draw: drawHeads,
    text: (state) => "Each token also has a value: what it passes on. The weights mix these values. "
      + `${state.size("encoder").heads} heads do this at once, each in its own way. For ${it(state)}:` },
  { title: "Layer after layer", part: ["encoder-attention", "encoder-feed-forward", "encoder-norm"], chapter: "encoder", seconds: 9, draw: drawLayers,
    text: (state) => `Then a small network works on each token alone. Attention and network form a layer; the encoder has ${state.size("encoder").layers}. `
      + `Layer by layer, ${it(state)} takes on its meaning in this sentence.` },
  { title: "The decoder writes from left to right", part: ["mask", "decoder-embedding"], chapter: "decoder", seconds: 9, draw: drawMask,
    text: () => "The decoder writes the translation, one token after another. It works like the encoder, with one rule: a token may only look back. "
      + "A mask (grey) hides the rest." },
  { title: "It looks back at the sentence", part: ["cross-attention"], chapter: "decoder", seconds: 9, draw: drawCrossing,
    text: (state) => {
      const { weights, row } = crossingOf(state);
      return `For each token, the decoder also looks at your sentence. To write ${word(state.run.target.outputs[row])}, it looks at `
        + `${topThree(weights.part(row).data, state.run.source.tokens)}. Nobody told it which words belong together.`;
    } },
  { title: "Every token gets a probability", part: ["softmax"], chapter: "decoder", seconds: 8, draw: drawChoice,
    text: (state) => `Which token comes next? All ${count(state.model.config.decoder_vocab_size ?? state.model.config.vocab_size)} get a probability. `
      + `These are the most probable ones ${choiceOf(state) ? `after “${beginning(state, choiceOf(state))}”` : "at the start"}:` },
  { title: "The best sentence wins", part: ["softmax"], chapter: "beam", seconds: 10, draw: drawSearch,
    text: ({ run }) => `The best next token may lead to a poor sentence. So the search keeps the ${run.search.beams === 1 ? "best beginning" : `${run.search.beams} best beginnings`}. `
      + `In the end the best sentence wins: “${run.target.text}”` },
];
