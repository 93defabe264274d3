import { tokenRow } from "../lib/controls.js";
import { count, el, number, percent, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { heatmap } from "../lib/heatmap.js";
import { Tensor } from "../lib/tensors.js";
import { mean } from "./05-layernorm.js";
import { drawNorms } from "./05-norms.js";
import { drawParameters } from "./05-parameters.js";
import { drawPath, layerChoice } from "./05-path.js";

export default { id: "encoder", number: 5, title: "The encoder block", paper: "sections 3.1 and 3.3, equation 2", render };

const TEXT = String.raw`
<p>An encoder layer does two things to every token. In <em>self-attention</em> the tokens exchange what they know; in the
  <em>feed-forward</em> network each is alone with what it has heard. Neither replaces the token's vector: what a sub-layer finds is
  <em>added</em> to the vector that came in. So there is a straight road from the embedding to the top of the stack, the residual stream,
  and gradients take it back down. After each addition a LayerNorm brings the vector to a common scale.</p>
\[\begin{gathered}\mathrm{LayerNorm}(x + \mathrm{Sublayer}(x)) \\
  \mathrm{LayerNorm}(x) = g \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + b\end{gathered}\]
<p>Follow the sentence through one layer. At each stop the map has a token's vector as a row, and the bars their lengths: watch how
  much a sub-layer adds to what was there, and what the norm makes of the sum.</p>`;

const FEED_FORWARD = String.raw`
<p>The feed-forward network is a wide hidden layer between two matrices, the same for every token of a layer:</p>
\[\mathrm{FFN}(x) = \max(0,\, x W_1 + b_1)\,W_2 + b_2 \qquad (2)\]
<p>Each inner unit compares the token with a pattern, a column of \(W_1\). Where it does not fit, the ReLU leaves a zero and the unit is
  silent; where it does, the unit adds a vector of its own, a row of \(W_2\), the more the better the fit. Choose a token, and see which
  units fire for it and where else they do.</p>`;

const PARAMETERS = String.raw`
<p>Where do the parameters sit? Not where the fame is. With the paper's \(d_{\mathrm{ff}} = 4\,d_{\mathrm{model}}\) the feed-forward
  network of an encoder layer holds twice as many as its attention, and in a small model the embedding outweighs any layer. The norms,
  without which none of it would train well, are next to nothing.</p>`;

const NORMS = String.raw`
<p>The paper puts the norm <em>after</em> the addition; most later models put it <em>before</em> the sub-layer, inside the branch. In the
  first, each norm stands across the road itself, and the stream keeps about the same length; deep stacks of this
  kind are hard to train without a warm-up. In the second the road is free from bottom to top and the stream
  grows as it takes up more and more, until one last norm after the stack.</p>`;

function render(root, state) {
  root.append(prose(TEXT));
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
    "Above: the layer's path; the road's width is the mean length of the tokens' vectors. Below: the tensor at the chosen stop, " +
      "a row for each token, and each row's length (its Euclidean norm).",
  );
  section("The feed-forward network", FEED_FORWARD);
  add(
    drawUnits,
    "Rows: the units that fire most for the chosen token. Columns: all tokens of the sentence. The stronger the colour, the " +
      "more it fires.",
  );
  section("Where the parameters are", PARAMETERS);
  add(drawParameters, "Every parameter of the model, counted once. Choose a part to see what it is made of.");
  section("Norm after, norm before", NORMS);
  add(drawNorms, "Below: the mean length of the tokens' vectors along the stream, sub-layer by sub-layer, as this model has it.");
}

/** The place of the longest token: more of a word than an article is. */
const longest = (tokens) =>
  tokens.reduce((best, token, i) => (token.kind !== "special" && token.text.length > tokens[best].text.length ? i : best), 0);

const UNITS = 10; // that are shown
const activationNote = ({ activation_function: name }) =>
  name === "relu" ? "" : ` This model has ${name} in place of the ReLU; here a unit fires where it is above zero.`;

/** Which inner units fire for the chosen token, and for which other tokens they do. */
function drawUnits(body, state, settings, change) {
  const hidden = state.tensor(`encoder.layers.${settings.layer}.feed_forward.hidden`);
  const { tokens } = state.run.source;
  const onSelect = (token) => change({ token, unit: null });
  const row = hidden.part(settings.token).data;
  const strongest = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, UNITS);
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

/** How many units fire, in a sentence. */
function shareOf(hidden, tokens, token, config) {
  const [T, width] = hidden.shape;
  const shares = Array.from({ length: T }, (_, t) => hidden.part(t).data.filter((x) => x > 0).length / width);
  const share = shares[token];
  const text =
    `For “${shown(tokens[token])}” ${count(share * width)} of the ${count(width)} units fire (${percent(share)}); ` +
    `over the sentence it is ${percent(mean(shares))} of them.${activationNote(config)}`;
  return el("p", { id: "encoder-units", "aria-live": "polite", "data-share": share }, text);
}

function drawStrongest(body, hidden, tokens, units, unit, change) {
  const values = units.flatMap((u) => tokens.map((_, t) => hidden.at(t, u)));
  const map = heatmap(body, new Tensor([units.length, tokens.length], Float32Array.from(values)), {
    rows: units.map((u) => ({ text: `unit ${u}` })),
    columns: tokens,
    label: "The strongest units for the token",
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
  return `Unit ${unit} fires for ${all.length} of the ${tokens.length} tokens: ${names}${more}. Choose a row for another unit.`;
}
