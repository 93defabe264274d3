import { tokenRow } from "../lib/controls.js";
import { count, el, number, percent, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { heatmap } from "../lib/heatmap.js";
import { Tensor } from "../lib/tensors.js";
import { mean } from "./05-layernorm.js";
import { drawNorms } from "./05-norms.js";
import { drawParameters } from "./05-parameters.js";
import { drawPath, layerChoice } from "./05-path.js";

export default { id: "encoder", number: 5, title: "The encoder layer", paper: "sections 3.1 and 3.3, equation 2", render };

const TEXT = String.raw`
<p>An encoder layer has two sub-layers. In <em>self-attention</em> the tokens exchange information; the <em>feed-forward</em> network
  processes each token separately. Neither replaces the token's vector: the output of a sub-layer is <em>added</em> to its input. This
  creates a direct path from the embedding to the top of the stack, the <em class="res">residual stream</em>, and gradients take the same path back down.
  After each addition a LayerNorm brings the vector to a common scale.</p>
\[\begin{gathered}\mathrm{LayerNorm}(\res{x} + \mathrm{Sublayer}(\res{x})) \\
  \mathrm{LayerNorm}(x) = g \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + b\end{gathered}\]
<p>Follow the sentence through one layer. At each stop the map shows the tokens' vectors as rows, and the bars show their lengths. See
  how much a sub-layer adds to its input, and how the norm changes the sum.</p>`;

const FEED_FORWARD = String.raw`
<p>The feed-forward network is a wide hidden layer between two matrices, the same for every token in a layer:</p>
\[\mathrm{FFN}(x) = \max(0,\, x W_1 + b_1)\,W_2 + b_2 \qquad (2)\]
<p>Each inner unit compares the token with a pattern, a column of \(W_1\). If the token does not match, the ReLU outputs zero and the
  unit is silent. If it matches, the unit adds a vector, a row of \(W_2\); the better the match, the more it adds. Choose a token to see
  which units fire for it, and where else these units fire.</p>`;

const PARAMETERS = String.raw`
<p>Where are the parameters? Mostly not in attention. With the paper's \(d_{\mathrm{ff}} = 4\,d_{\mathrm{model}}\), the feed-forward
  network of an encoder layer has twice as many as its attention, and in a small model the embedding is larger than any layer. The
  norms, without which training would be hard, have very few.</p>`;

const NORMS = String.raw`
<p>The paper applies the norm <em>after</em> the addition (post-norm). Most later models apply it <em>before</em> the sub-layer, inside
  the branch (pre-norm). In post-norm the stream itself passes through every norm, so it keeps about the same length; deep post-norm
  stacks are hard to train without a warm-up. In pre-norm nothing interrupts the stream, so it usually grows from sub-layer to
  sub-layer, and one last norm follows the stack.</p>`;

function render(root, state) {
  root.append(prose(TEXT), el("h3", {}, "Through one layer"));
  const settings = { layer: 0, stop: 0, token: 0, unit: null, part: [] };
  state.on("model", () => Object.assign(settings, { layer: 0, part: [], stop: 0 }));
  state.on("run", () => Object.assign(settings, { token: longest(state.run.source.tokens), unit: null }));
  const figures = [];
  const change = (values) => {
    Object.assign(settings, values);
    figures.forEach(({ redraw }) => redraw());
  };
  const add = (draw, caption) =>
    figures.push(figure(root, state, { wide: true, draw: (body) => draw(body, state, settings, change), caption }));
  const section = (title, text) => root.append(el("h3", {}, title), prose(text));
  add(
    drawPath,
    "Top: the path through the layer; the wider the line, the longer the tokens' vectors on average. Bottom: the tensor at the chosen stop, " +
      "with a row for each token, and the length (Euclidean norm) of each row.",
  );
  section("The feed-forward network", FEED_FORWARD);
  add(
    drawUnits,
    "Rows: the units that fire most for the chosen token. Columns: all tokens of the sentence. A stronger colour means a larger " +
      "activation.",
  );
  section("The parameters", PARAMETERS);
  add(drawParameters, "Every parameter of the model, counted once. Choose a part to see what it is made of.");
  section("Post-norm and pre-norm", NORMS);
  add(drawNorms, "Bottom: the mean length of the tokens' vectors in this model's stream, after each sub-layer.");
}

/** The index of the longest token, which is likely a word with a meaning of its own. */
const longest = (tokens) =>
  tokens.reduce((best, token, i) => (token.kind !== "special" && token.text.length > tokens[best].text.length ? i : best), 0);

const MAX_UNITS = 10;
const activationNote = ({ activation_function: name }) =>
  name === "relu" ? "" : ` This model uses ${name} instead of ReLU; here a unit fires if its activation is above zero.`;

/** The inner units that fire for the chosen token, and the other tokens for which they fire. */
function drawUnits(body, state, settings, change) {
  const hidden = state.tensor(`encoder.layers.${settings.layer}.feed_forward.hidden`);
  const { tokens } = state.run.source;
  const onSelect = (token) => change({ token, unit: null });
  const row = hidden.part(settings.token).data;
  const strongest = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, MAX_UNITS);
  const units = strongest.filter((unit) => row[unit] > 0);
  const unit = units.includes(settings.unit) ? settings.unit : units[0];
  body.append(
    el("div", { class: "controls" }, layerChoice(state, settings, change)),
    tokenRow({ name: "token", key: "unit token", tokens, value: settings.token, onSelect }),
    shareOf(hidden, tokens, settings.token, state.model.config),
  );
  if (!units.length) return;
  drawStrongest(body, hidden, tokens, units, unit, change);
  body.append(el("p", { class: "note", id: "encoder-unit", "data-unit": unit }, whereItFires(hidden, tokens, unit)));
}

/** The share of units that fire, in a sentence. */
function shareOf(hidden, tokens, token, config) {
  const [T, width] = hidden.shape;
  const shares = Array.from({ length: T }, (_, t) => hidden.part(t).data.filter((x) => x > 0).length / width);
  const share = shares[token];
  const text =
    `For “${shown(tokens[token])}”, ${count(share * width)} of the ${count(width)} units fire (${percent(share)}); ` +
    `the average over the sentence is ${percent(mean(shares))}.${activationNote(config)}`;
  return el("p", { id: "encoder-units", "aria-live": "polite", "data-share": share }, text);
}

function drawStrongest(body, hidden, tokens, units, unit, change) {
  const values = units.flatMap((u) => tokens.map((_, t) => hidden.at(t, u)));
  const map = heatmap(body, new Tensor([units.length, tokens.length], Float32Array.from(values)), {
    rows: units.map((u) => ({ text: `unit ${u}` })),
    columns: tokens,
    label: "Strongest units for the token",
    largest: Math.max(...values),
    selected: units.indexOf(unit),
    rowName: "",
    columnName: "token",
    size: 30,
    onSelect: (r) => change({ unit: units[r] }),
  });
  map.units = units;
}

function whereItFires(hidden, tokens, unit) {
  const all = tokens.map((token, t) => ({ token, value: hidden.at(t, unit) })).filter(({ value }) => value > 0);
  const most = all.sort((a, b) => b.value - a.value).slice(0, 6);
  const names = most.map(({ token, value }) => `“${shown(token)}” (${number(value)})`).join(", ");
  const more = all.length > 6 ? ", …" : "";
  return `Unit ${unit} fires for ${all.length} of the ${tokens.length} tokens: ${names}${more}. Choose another unit in the map.`;
}
