import { lineChart } from "../lib/charts.js";
import { button, checkbox, choice, slider, tokenRow } from "../lib/controls.js";
import { count, el, number, percent, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { findingsSection } from "../lib/findings-section.js";
import { Tensor } from "../lib/tensors.js";
import { drawFirstSteps } from "./07-first-steps.js";

export default { id: "training", number: 7, title: "Training", paper: "section 5, equation 3", render };

const SCHEDULE = String.raw`
<p>Large steps at the start can ruin the training of a Transformer: Adam divides each step by a running average of gradient sizes, and at
  first this average rests on very few gradients. So the paper starts with tiny steps and increases the learning rate linearly for
  \(\mathit{warmup\_steps}\) steps. After that the rate decreases with the inverse square root of the step number:</p>
\[\mathit{lrate} = d_{\text{model}}^{-0.5} \cdot \min\!\left(\mathit{step}^{-0.5},\ \mathit{step} \cdot \mathit{warmup\_steps}^{-1.5}\right) \quad (3)\]
<p>Both terms are equal at the end of the warm-up. There the rate has its maximum,
  \((d_{\text{model}} \cdot \mathit{warmup\_steps})^{-0.5}\). Wider models and longer warm-ups have lower maxima.</p>`;

const SMOOTHING = String.raw`
<p>The loss compares the model's distribution with a target. The plain target is certain: the correct token has probability 1, all others
  have 0, and a \(p\) closer to 1 always lowers the loss \(-\log p\). Label smoothing takes \(\epsilon_{ls}\) from the correct token and
  spreads it over the rest of the vocabulary:</p>
\[L = -\sum_v q(v) \log p(v)\]
\[q(v) = \begin{cases} 1 - \epsilon_{ls} & v \text{ is correct} \\ \epsilon_{ls} / (V - 1) & \text{otherwise} \end{cases}\]
<p>This is how the authors' code defines it. Szegedy et al. (2015), whom the paper cites, spread \(\epsilon_{ls}\) over all \(V\) tokens,
  including the correct one. In both cases the loss is smallest for \(p = q\), and a model that is more certain has a larger loss.
  Perplexity, the exponential of the mean \(-\log p\), gets worse, because it rewards the certainty that smoothing removes. BLEU depends
  only on the chosen words, not on their probabilities, and it improves: in row (D) of Table 3 the model without smoothing has
  perplexity 4.67 and 25.3 BLEU; the base model with \(\epsilon_{ls} = 0.1\) has 4.92 and 25.8.</p>`;

const DROPOUT = String.raw`
<p>Dropout sets each component of a vector to zero with probability \(P_{drop}\), at random in each step, and divides the rest by
  \(1 - P_{drop}\), so that each component stays the same on average. The paper uses it in three places: on the input of the encoder, on
  the input of the decoder, and on the output of every sub-layer, before it is added to the stream. Dropout acts only in training;
  everything else on this page is computed without it.</p>`;

const FIRST_STEPS = String.raw`
<p>An untrained model gives every token about the same probability, so its loss is \(\ln V\). In the first steps it learns which tokens
  are frequent, and the loss falls fast, without a single correct word. Then it learns which words follow each other. Only when
  cross-attention finds the right source words does the model translate, and BLEU rises.</p>`;

const CURVE = String.raw`
<p>This is the record of the checkpoint above. If its training continued an earlier run, the steep beginning is missing.</p>`;

function render(root, state) {
  root.append(el("h3", {}, "The learning rate"), prose(SCHEDULE));
  renderSchedule(root, state);
  root.append(el("h3", {}, "Label smoothing"), prose(SMOOTHING));
  renderSmoothing(root, state);
  root.append(el("h3", {}, "Dropout"), prose(DROPOUT));
  renderDropout(root, state);
  root.append(el("h3", {}, "How a model learns"), prose(FIRST_STEPS));
  figure(root, state, { draw: drawFirstSteps, wide: true, caption: "Recorded from the first step of a small model, from English to German." });
  root.append(el("h3", {}, "How this model was trained"), prose(CURVE));
  renderCurve(root, state);
  findingsSection(root, "table3", "warmup", "optimisers");
}

// The schedule --------------------------------------------------------------------------------------------------------

const PAPER = { d_model: 512, warmup: 4000 };

/** Equation 3 for step 1, 2, ... */
const equation3 = (step, d_model, warmup) => d_model ** -0.5 * Math.min(step ** -0.5, step * warmup ** -1.5);

/** The schedule of this checkpoint: equation 3 times a scale, with an optional cooldown; Schedule-Free has no decay. */
function recipeRate(step, d_model, training) {
  const { warmup_steps: warmup, learning_rate_scale: scale, cooldown_steps: cooldown, max_steps: last, optimiser } = training;
  const start = training.decay_from ?? warmup;
  const rate = (d_model * start) ** -0.5 * scale * Math.min(1, step / warmup);
  if (optimiser === "schedule_free") return rate;
  return rate * Math.min(1, (start / step) ** 0.5) * (cooldown ? Math.min(1, (last + 1 - step) / cooldown) : 1);
}

/** About 200 steps from 1 to `last`, denser at the beginning. */
const stepsTo = (last) => [...new Set(Array.from({ length: 201 }, (_, i) => Math.max(1, Math.round(last * (i / 200) ** 2))))];

function renderSchedule(root, state) {
  const view = { ...PAPER, isLog: false };
  state.on("model", () => Object.assign(view, { d_model: state.model.config.d_model, warmup: PAPER.warmup }));
  figure(root, state, { draw, wide: true, on: ["model", "run"],
    caption: "The learning rate by step. Dashed: the paper's base model, with d_model 512 and 4,000 warm-up steps." });

  function draw(body) {
    const [charts, sentence] = [el("div", { class: "side-by-side" }), el("p", { id: "schedule-peak", "aria-live": "polite" })];
    const redraw = () => {
      charts.replaceChildren();
      drawSchedule(charts, sentence, state, view);
    };
    const power = (name, key, min, max) => slider({ name, key: `schedule ${key}`, min: Math.log2(min), max: Math.log2(max), step: 0.25,
      value: Math.log2(view[key]),
      format: (x) => count(rounded(2 ** x)), onChange: (x) => {
        view[key] = rounded(2 ** x);
        redraw();
      } });
    body.append(el("div", { class: "controls" }, power("d_model", "d_model", 64, 4096), power("warmup_steps", "warmup", 125, 32000),
      checkbox({ name: "logarithmic axes", value: view.isLog, onChange: (isLog) => {
        view.isLog = isLog;
        redraw();
      } })), sentence, charts);
    redraw();
  }
}

/** Rounds to a number that people would choose: 4100, not 4096.2. */
const rounded = (x) => (x >= 1000 ? Math.round(x / 100) * 100 : Math.round(x));

function drawSchedule(charts, sentence, state, { d_model, warmup, isLog }) {
  const { training, config } = state.model;
  const last = Math.max(20000, 5 * warmup);
  const points = (rate, end) => stepsTo(end).map((step) => [step, rate(step)]);
  const hasRecipe = training?.warmup_steps && training.max_steps;
  const [plot, place] = [el("div"), el("div")];
  charts.append(plot, ...(hasRecipe ? [place] : [])); // both are added before either is drawn, so that they share the width
  plot.append(el("h4", {}, "Equation 3"));
  const peak = equation3(warmup, d_model, warmup);
  const element = lineChart(plot, { x: "step", y: "learning rate", logX: isLog, logY: isLog, series: [
    { name: `d_model ${count(d_model)}, warm-up ${count(warmup)}`, colour: "a",
      points: points((step) => equation3(step, d_model, warmup), last) },
    { name: "the paper's base model", colour: "soft", dashed: true, points: points((step) => equation3(step, PAPER.d_model, PAPER.warmup),
      last) }],
  marks: [{ x: warmup, y: peak, colour: "a", text: number(peak) }] });
  element.id = "schedule-chart";
  sentence.dataset.peak = peak;
  sentence.textContent = `With d_model ${count(d_model)} and ${count(warmup)} warm-up steps, the learning rate has its maximum at step `
    + `${count(warmup)}: ${number(peak)}.`;
  if (!hasRecipe) return;

  place.append(el("h4", {}, `This checkpoint (${state.model.name})`));
  const rate = (step) => recipeRate(step, config.d_model, training);
  const chart = lineChart(place, { x: "step", y: "learning rate", logX: isLog, logY: isLog, series: [
    { name: training.schedule, colour: "c", points: points(rate, training.max_steps) },
    { name: "equation 3", colour: "soft", dashed: true, points: points((step) => equation3(step, config.d_model, training.warmup_steps),
      training.max_steps) }],
  marks: [{ x: training.warmup_steps, y: rate(training.warmup_steps), colour: "c", text: number(rate(training.warmup_steps)) }] });
  chart.id = "recipe-chart";
  place.append(el("p", {}, recipeSentence(training)));
}

function recipeSentence({ warmup_steps, learning_rate_scale, batch_tokens, optimiser, micro_batches }) {
  const scale = learning_rate_scale === 1 ? "" : `, learning rate times ${number(learning_rate_scale)}`;
  const batch = batch_tokens ? ` Batches of about ${count(batch_tokens * (micro_batches ?? 1))} tokens; the paper's have about 25,000 `
    + "source and 25,000 target tokens." : "";
  const by = { adam: "Adam", muon: "Muon for the layers' matrices and Adam for the rest", schedule_free: "Schedule-Free AdamW" }[optimiser];
  return `Warm-up of ${count(warmup_steps)} steps${scale}${by ? `, with ${by}` : ""}.${batch}`;
}

// Label smoothing -----------------------------------------------------------------------------------------------------

const MAX_TOKENS = 6;

/** The target probability of the correct token (`on`) and of every other token (`off`). */
function targetOf(epsilon, type, V) {
  const off = epsilon / (type === "t2t" ? Math.max(1, V - 1) : V);
  return { on: type === "t2t" ? 1 - epsilon : 1 - epsilon + off, off };
}

/** The entropy of q, which is the minimum of the loss. */
const leastLoss = ({ on, off }, V) => -on * Math.log(on) - (off ? (V - 1) * off * Math.log(off) : 0);

/** The smoothed loss above its minimum, for a model that gives p to the correct token and shares the rest evenly. */
function lossAt(p, target, V) {
  const rest = target.off ? (V - 1) * target.off * Math.log((1 - p) / (V - 1)) : 0;
  return -target.on * Math.log(p) - rest - leastLoss(target, V);
}

/** -sum_v q(v) log p(v), from log p of the correct token and the mean of log p over the vocabulary. */
const smoothedLoss = (logProb, mean, { on, off }, V) => -on * logProb - (off ? off * (V * mean - logProb) : 0);

function renderSmoothing(root, state) {
  const view = { epsilon: 0.1, type: "t2t", position: 0 };
  state.on("model", () => {
    const { label_smoothing: epsilon, label_smoothing_type: type } = state.model.config;
    Object.assign(view, { epsilon, type });
  });
  state.on("run", () => (view.position = Math.min(2, state.run.target.outputs.length - 1)));
  figure(root, state, { draw, wide: true, on: ["run"],
    caption: "The table shows target and prediction for the model's first choices, and for the rest of the vocabulary in one row. The chart "
      + "shows the loss above its minimum by the probability of the correct token, if the other tokens share the rest evenly." });

  function draw(body) {
    const [place, sentence] = [el("div"), el("p", { id: "smoothing-sentence", "aria-live": "polite" })];
    const redraw = () => {
      place.replaceChildren();
      drawSmoothing(place, sentence, state, view);
    };
    const { outputs } = state.run.target;
    view.position = Math.min(view.position, outputs.length - 1);
    const tokens = tokenRow({ name: "correct token", key: "smoothing", tokens: outputs, value: view.position, onSelect: (position) => {
      view.position = position;
      [...tokens.children].forEach((chip, i) => chip.setAttribute("aria-pressed", String(i === position)));
      redraw();
    } });
    const change = (name) => (value) => {
      view[name] = value;
      redraw();
    };
    body.append(el("div", { class: "controls" },
      slider({ name: "ε", key: "epsilon", min: 0, max: 0.4, step: 0.01, value: view.epsilon, onChange: change("epsilon") }),
      choice({ name: "spread over", options: [["t2t", "other tokens"], ["uniform", "all tokens"]], value: view.type,
        onChange: change("type") })), el("h4", {}, "Correct token"), tokens, place, sentence);
    redraw();
  }
}

function drawSmoothing(place, sentence, state, { epsilon, type, position }) {
  const { run, model } = state;
  const V = model.config.decoder_vocab_size ?? model.config.vocab_size;
  const right = run.target.outputs[position];
  const logProb = run.log_probs[position];
  const target = targetOf(epsilon, type, V);
  const [left, chart] = [el("div"), el("div")];
  place.append(el("div", { class: "side-by-side" }, left, chart));
  left.append(el("h4", {}, `Target and prediction for “${shown(right)}”`), targetTable(run, position, V, target));
  chart.append(el("h4", {}, "Loss by probability"));
  drawLosses(chart, Math.exp(logProb), epsilon, target, V);
  const loss = { plain: -logProb, smoothed: smoothedLoss(logProb, run.mean_log_probs[position], target, V), least: leastLoss(target, V) };
  sentence.textContent = lossSentence(run, model.config, { epsilon, type, on: target.on }, loss);
  Object.assign(sentence.dataset, loss);
}

/** The curves of the plain and the smoothed loss, with this model's position on the smoothed one. */
function drawLosses(root, p, epsilon, target, V) {
  const plain = targetOf(0, "t2t", V);
  const near = [0.985, 0.99, 0.993, 0.996, 0.998, 0.999, 0.9995, 0.9999];
  const grid = [...Array.from({ length: 98 }, (_, i) => (i + 1) / 100), ...near];
  const points = (q) => grid.map((p) => [p, lossAt(p, q, V)]).filter(([, loss]) => loss <= 3);
  const series = [{ name: "plain", colour: "soft", dashed: true, points: points(plain) },
    { name: `ε = ${number(epsilon)}`, colour: "a", points: points(target) }];
  const marks = [{ x: target.on, y: 0, colour: "a", text: `minimum: ${percent(target.on)}` }];
  const modelLoss = lossAt(p, target, V);
  if (modelLoss <= 3) marks.push({ x: p, y: modelLoss, colour: "b", text: `this model: ${percent(p)}` });
  lineChart(root, { x: "probability of the correct token", y: "loss above its minimum", domainX: [0, 1], domainY: [0, 3], height: 270,
    series, marks });
}

/** The target and prediction of the correct token, of the model's first choices, and of all other tokens together. */
function targetTable(run, position, V, { on, off }) {
  const right = run.target.outputs[position];
  const alternatives = run.alternatives[position].filter(({ id }) => id !== right.id);
  const tokens = [{ ...right, log_prob: run.log_probs[position] }, ...alternatives].slice(0, Math.min(MAX_TOKENS, V));
  const rest = 1 - tokens.reduce((sum, { log_prob }) => sum + Math.exp(log_prob), 0);
  const bar = (share, name) => {
    const fill = el("span", { class: `bar ${name}` });
    fill.style.width = `${100 * share}%`;
    return el("td", { class: "share" }, el("span", {}, share < 0.0005 ? number(share, 2) : percent(share)),
      el("span", { class: "bar-place" }, fill));
  };
  const row = (name, target, predicted, isRight) => el("tr", { class: isRight ? "right" : null, "data-target": target,
    "data-predicted": predicted }, el("th", { scope: "row" }, name), bar(target, "target"), bar(predicted, "predicted"));
  const rows = tokens.map((token, i) => row(i ? shown(token) : `${shown(token)} ✓`, i ? off : on, Math.exp(token.log_prob), !i));
  const left = V - tokens.length;
  if (left) rows.push(row(`${count(left)} other tokens`, off * left, Math.max(0, rest), false));
  return el("table", { class: "probabilities" }, el("caption", { class: "hidden" }, "Target and prediction"),
    el("thead", {}, el("tr", {}, ["token", "target q", "model's p"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows));
}

function lossSentence(run, config, { epsilon, type, on }, { plain, smoothed, least }) {
  const surest = Math.exp(Math.max(...run.log_probs));
  const perplexity = Math.exp(-run.log_prob / run.log_probs.length);
  const isTrained = type === config.label_smoothing_type && epsilon === config.label_smoothing;
  const above = `${number(smoothed)}, which is ${number(smoothed - least)} above its minimum of ${number(least)}`;
  const origin = isTrained ? " (as in this checkpoint's training)" : "";
  const smooth = epsilon ? `with ε = ${number(epsilon)}${origin} the loss is ${above}` : "with ε = 0 the smoothed loss is the same";
  const bound = epsilon ? ` A model that gave each correct token ${percent(on)} would have a perplexity of ${number(1 / on)}.` : "";
  return `The plain loss of this token is ${number(plain)}; ${smooth}. Among the ${run.log_probs.length} tokens of the translation `
    + `the highest probability is ${percent(surest)}. The perplexity of the translation is ${number(perplexity)}.${bound}`;
}

// Dropout -------------------------------------------------------------------------------------------------------------

function renderDropout(root, state) {
  const view = { rate: 0.1, seed: 1 };
  state.on("model", () => (view.rate = state.model.config.dropout));
  figure(root, state, { draw, wide: true, on: ["run"],
    caption: "The diagram shows the three places of dropout in Figure 1, with one sub-layer for all. The bars show a vector of this model, "
      + "and the effect of dropout on it." });

  function draw(body) {
    const [bars, sentence] = [el("div"), el("p", { class: "note", "aria-live": "polite" })];
    const redraw = () => {
      bars.replaceChildren();
      drawDropped(bars, sentence, state, view);
    };
    const controls = el("div", { class: "controls" }, slider({ name: "P_drop", min: 0, max: 0.9, step: 0.05, value: view.rate,
      onChange: (rate) => {
      view.rate = rate;
      redraw();
    } }), button("New sample", () => {
      view.seed += 1;
      redraw();
    }, { "data-key": "draw again" }));
    body.append(el("div", { class: "dropout" }, dropoutDrawing(state.model.config), el("div", {}, controls, bars, sentence)));
    redraw();
  }
}

function dropoutDrawing(config) {
  const { encoder_layers: N, decoder_layers: M, dropout } = config;
  const svg = window.d3.create("svg").attr("viewBox", "0 0 350 332").attr("class", "dropout-drawing").attr("role", "img").attr("aria-label",
    `Dropout after the sum of embedding and position in the encoder and the decoder, and after each sub-layer; P_drop ${dropout}`);
  svg.append("defs").append("marker").attr("id", "drop-tip").attr("viewBox", "0 0 8 8").attr("refX", 7).attr("refY", 4)
    .attr("markerWidth", 6).attr("markerHeight", 6)
    .attr("orient", "auto").append("path").attr("d", "M0 0 8 4 0 8z").attr("class", "tip");
  drawStack(svg, { x: 92, name: "encoder", number: "1", isPre: config.norm_position === "pre", times: `${N} × 2 sub-layers` });
  drawStack(svg, { x: 266, name: "decoder", number: "2", isPre: (config.decoder_norm_position ?? config.norm_position) === "pre",
    times: `${M} × 3 sub-layers` });
  return el("div", {}, svg.node(), el("p", { class: "note", id: "dropout-places" }, placesOf(config)));
}

/** Where this model has dropout, and how often: in the paper's three places, and in two that later toolkits added. */
function placesOf({ encoder_layers: N, decoder_layers: M, dropout, attention_dropout, activation_dropout }) {
  const paper = dropout === 0.1 ? ", as in the paper's base model" : "";
  const places = [[dropout, 2 + 2 * N + 3 * M, "in the paper's places", paper],
    [attention_dropout, N + 2 * M, "on the attention weights", ", which the paper does not mention"],
    [activation_dropout, N + M, "on the inner units of the feed-forward networks", ", which the paper does not mention"]].filter(([rate]) => rate);
  const list = places.map(([rate, n, where, note]) => `${n} times ${where} with P_drop = ${number(rate)}${note}`);
  const acts = list.length ? `This model has dropout ${list.join("; ")}.` : "This model has no dropout.";
  return `${acts} The residual connections never have dropout.`;
}

/** A stack from bottom to top: embedding, dropout, and a sub-layer with its dropout, residual connection and norm. */
function drawStack(svg, { x, name, number: place, isPre, times }) {
  const arrow = (path) => svg.append("path").attr("d", path).attr("class", "arrow").attr("marker-end", "url(#drop-tip)");
  const text = (words, y, className = "") => svg.append("text").attr("x", x).attr("y", y + 4).attr("text-anchor", "middle")
    .attr("class", className).text(words);
  const box = (words, y, width, className) => {
    svg.append("rect").attr("x", x - width / 2).attr("y", y - 14).attr("width", width).attr("height", 28).attr("rx", 7)
      .attr("class", `box ${className}`);
    text(words, y);
  };
  const drop = (n, y) => {
    svg.append("rect").attr("x", x - 12).attr("y", y - 12).attr("width", 24).attr("height", 24).attr("rx", 5).attr("class", "drop");
    text(n, y, "drop-number");
  };
  const [embedding, first, fork, sub, second, plus, top] = [300, 256, 226, isPre ? 158 : 184, isPre ? 118 : 136, isPre ? 82 : 100, 24];
  svg.append("rect").attr("x", x - 82).attr("y", 44).attr("width", 164).attr("height", 190).attr("rx", 12).attr("class", "frame");
  text(name, 322, "what");
  box("embedding + positions", embedding, 152, "embedding");
  arrow(`M${x} ${embedding - 14} V${first + 12}`);
  drop(place, first);
  arrow(`M${x} ${first - 12} V${(isPre ? 202 : sub) + 14}`);
  if (isPre) {
    box("Norm", 202, 70, "norm");
    arrow(`M${x} 188 V${sub + 14}`);
  }
  box("sub-layer", sub, 100, "sub");
  arrow(`M${x} ${sub - 14} V${second + 12}`);
  drop("3", second);
  arrow(`M${x} ${second - 12} V${plus + 10}`);
  svg.append("circle").attr("cx", x).attr("cy", plus).attr("r", 10).attr("class", "box");
  text("+", plus);
  arrow(`M${x} ${fork} H${x - 70} V${plus} H${x - 10}`); // the residual connection
  if (isPre) arrow(`M${x} ${plus - 10} V${top}`);
  else {
    arrow(`M${x} ${plus - 10} V80`);
    box("Norm", 66, 70, "norm");
    arrow(`M${x} 52 V${top}`);
  }
  text(times, 12, "what");
}

/** The output of a sub-layer for one token as bars, before and after dropout. */
function drawDropped(place, sentence, state, { rate, seed }) {
  const output = state.tensor("encoder.layers.0.self_attn.output").part(0);
  const width = Math.min(48, output.shape[0]);
  const vector = new Tensor([width], output.data.slice(0, width), output.name);
  const random = window.d3.randomLcg((seed * 0.618) % 1);
  const isKept = Array.from({ length: width }, () => random() >= rate);
  const dropped = new Tensor([width], vector.data.map((x, i) => (isKept[i] ? x / (1 - rate) : 0)), "with dropout");
  const largest = vector.data.reduce((a, x) => Math.max(a, Math.abs(x)), 0) || 1;
  const [step, half] = [12, 90];
  const height = (x) => Math.max(-half, Math.min(half, (x / largest) * (half / 2))); // room for twice the largest, so up to P_drop 0.5
  const svg = window.d3.create("svg").attr("viewBox", `0 0 ${width * step} ${2 * half + 2}`).attr("class", "dropped-bars")
    .attr("role", "img")
    .attr("aria-label", "The components of a vector as bars, before and after dropout");
  const bar = (x, i, name) => svg.append("rect").attr("x", i * step + 1.5).attr("width", step - 3).attr("class", name)
    .attr("y", half - Math.max(0, height(x))).attr("height", Math.abs(height(x)));
  vector.data.forEach((x, i) => {
    if (isKept[i]) bar(dropped.data[i], i, "after");
    bar(x, i, "before");
    if (!isKept[i]) svg.append("path").attr("class", "lost").attr("d", `M${i * step + 2.5} ${half - 3.5}l7 7m0 -7l-7 7`);
  });
  svg.append("path").attr("class", "zero").attr("d", `M0 ${half} H${width * step}`);
  const lost = isKept.filter((kept) => !kept).length;
  const element = el("div", { id: "dropped" }, svg.node());
  Object.assign(element, { tensor: dropped, before: vector });
  place.append(el("h4", {}, `Output of the encoder's first self-attention for “${shown(state.run.source.tokens[0])}”: the first ${width} of `
    + `${output.shape[0]} components`),
    element);
  sentence.textContent = `Outlines: before dropout. Filled: after dropout. This time ${lost} of ${width} components are zero (×); the rest are `
    + `multiplied by ${number(1 / (1 - rate))}.`;
}

// The recorded curve --------------------------------------------------------------------------------------------------

function renderCurve(root, state) {
  figure(root, state, { draw: (body) => drawCurve(body, state), wide: true, on: ["model", "run"] });
}

function drawCurve(body, { model }) {
  const { curve, training } = model;
  if (!curve?.length) {
    body.append(el("p", { id: "no-curve" }, `The files of ${model.name} contain no record of the loss during training.`));
    if (training) body.append(trainingFacts(training));
    return;
  }
  const points = (name) => curve.filter((point) => Number.isFinite(point[name])).map((point) => [point.step, point[name]]);
  const charts = el("div", { class: "side-by-side" }, el("div"), el("div"));
  body.append(charts);
  const losses = [["training", "train_loss", "a"], ["validation", "validation_loss", "b"]];
  charts.children[0].append(el("h4", {}, "Loss"));
  const element = lineChart(charts.children[0], { x: "step", y: "loss",
    series: losses.map(([name, field, colour]) => ({ name, colour, points: points(field) }))
    .filter((series) => series.points.length) });
  element.id = "curve-chart";
  const scores = points("bleu");
  if (scores.length) {
    const [step, best] = scores.reduce((a, b) => (b[1] > a[1] ? b : a));
    charts.children[1].append(el("h4", {}, "BLEU on the validation set"));
    lineChart(charts.children[1], { x: "step", y: "BLEU", series: [{ name: "BLEU", colour: "c", points: scores }],
      marks: [{ x: step, y: best, colour: "c", text: number(best) }] });
  } else charts.children[1].remove();
  body.append(el("p", { class: "note" },
    "The training loss is smoothed and computed with dropout. The validation loss is the plain mean of −log p without dropout. "
    + "Either can therefore be the smaller one."));
  if (training) body.append(trainingFacts(training));
}

const duration = (hours) => (hours < 2 ? `${Math.round(60 * hours)} minutes` : `${number(hours)} hours`);

function trainingFacts(training) {
  const facts = [training.max_steps && `${count(training.max_steps)} steps`,
    training.training_pairs && `${count(training.training_pairs)} sentence pairs`,
    training.epochs && `${number(training.epochs)} epochs`,
      training.hours && `${duration(training.hours)} on ${training.device ?? "one machine"}`,
    training.averaged_steps?.length > 1 && `average of the last ${training.averaged_steps.length} checkpoints (section 6.1)`].filter(Boolean);
  return el("p", { id: "training-facts" }, `The training: ${facts.join(", ")}.`);
}
