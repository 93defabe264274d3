import { asked } from "../lib/asked.js";
import { bars } from "../lib/charts.js";
import { lettersOn, weightScale } from "../lib/colours.js";
import { checkbox, choice, player, tokenRow } from "../lib/controls.js";
import { el, number, percent, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { heatmap } from "../lib/heatmap.js";
import { Tensor } from "../lib/tensors.js";

export default { id: "decoder", number: 6, title: "The decoder block", paper: "sections 3.1 and 3.2.3", render };

const MASK = String.raw`
<p>The decoder writes one token after another, and each token may depend on everything before it: on the sentence, and on what is
  written already. Its block differs from the encoder's in two things. Its own attention may only look back, and between that and the
  feed-forward network stands a third sub-layer, which asks the encoder.</p>
<p>Looking back only is a matter of adding minus infinity. At position \(i\) every score of a position \(j > i\) is masked before the
  softmax, which turns it into a weight of exactly zero, and what remains is a triangle:</p>
\[\mathrm{softmax}\!\left(\frac{Q K^{\top}}{\sqrt{d_k}} + M\right) V\]
\[M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}\]
<p>Why is that needed? In training the whole right translation is given to the decoder at once, moved one place to the right, so that
  the answer of position \(i\) is its input at \(i + 1\). Take the mask away, and the answer lies one step to the right of the question.</p>`;

const ALIGNMENT = String.raw`
<p>The queries of the third sub-layer come from the translation so far, its keys and values from the encoder's output. No mask here:
  the sentence is known from its first to its last word. Nobody told the model which word translates which, but to write the next
  token it has to look at the right place, and so an alignment of the two sentences appears by itself.</p>`;

const FORCING = String.raw`
<p>To translate, the decoder runs once per token, since its own output is its next input. To train, it runs once: every position is
  given what the right translation has there, whatever the model would have written itself. This is <em>teacher forcing</em>, and it is
  the mask that makes it honest: no position can tell that the later ones are there, so that one pass computes just what many would.</p>`;

/** A probability as a percentage, and no zero where there is something. */
const chance = (logProb) => (Math.exp(logProb) < 0.0005 ? "<0.1%" : percent(Math.exp(logProb)));
const numbers = (n) => Array.from({ length: n }, (_, i) => [i, String(i + 1)]);

function render(root, state) {
  root.append(el("h3", {}, "Looking back only"), prose(MASK));
  renderMask(root, state);
  root.append(el("h3", {}, "Looking at the sentence"), prose(ALIGNMENT));
  renderAlignment(root, state);
  root.append(el("h3", {}, "Many passes or one"), prose(FORCING));
  renderForcing(root, state);
}

/** Chooses a layer of the decoder, and one of its heads or their mean. */
function layerAndHead(state, view, onChange) {
  const { layers, heads } = state.size("decoder");
  view.layer = Math.min(view.layer ?? layers - 1, layers - 1);
  if (view.head !== "mean") view.head = Math.min(view.head, heads - 1);
  const set = (change) => {
    Object.assign(view, change);
    onChange();
  };
  return [choice({ name: "layer", options: numbers(layers), value: view.layer, onChange: (layer) => set({ layer }) }),
    choice({ name: "head", options: [["mean", "mean"], ...numbers(heads)], value: view.head, onChange: (head) => set({ head }) })];
}

/** The weights [T, S] of the chosen head, or the mean over all heads. */
function weightsOf(tensors, kind, { layer, head }) {
  const all = tensors.get(`decoder.layers.${layer}.${kind}.weights`);
  if (head !== "mean") return all.part(head);
  const [H, T, S] = all.shape;
  const mean = new Float32Array(T * S);
  all.data.forEach((weight, i) => (mean[i % (T * S)] += weight / H));
  return new Tensor([T, S], mean, `${all.name}, mean over heads`);
}

// The mask ------------------------------------------------------------------------------------------------------------

function renderMask(root, state) {
  const view = { causal: true, open: null, layer: null, head: "mean" }; // open: the run without the mask
  const question = asked();
  state.on("model", () => (view.layer = null));
  state.on("run", () => {
    Object.assign(view, { causal: true, open: null });
    question.drop();
  });
  const unmask = async () => {
    const run = await state.source.run({ ...state.run.request, causal: false });
    return { run, tensors: await state.source.tensors(run) };
  };
  figure(root, state, { draw, wide: true,
    caption: "Weights of the decoder's self-attention, and what they are good for: the probability of each right token, with the mask and "
      + "without it. The translation stays the same; only the decoder is run on it again." });

  function draw(body) {
    const [place, sentence] = [el("div"), el("p", { id: "leak-sentence", "aria-live": "polite" })];
    const redraw = () => {
      place.replaceChildren();
      drawMask(place, sentence, state, view);
    };
    const toggle = (causal) => {
      view.causal = causal;
      question.drop();
      if (!causal && !view.open) {
        question.ask(unmask, (open) => {
          view.open = open;
          redraw();
        });
      } else redraw();
    };
    body.append(el("div", { class: "controls" }, checkbox({ name: "causal mask", value: view.causal, onChange: toggle }),
      layerAndHead(state, view, redraw)), question.status, place, sentence);
    redraw();
  }
}

function drawMask(place, sentence, state, view) {
  const open = view.causal ? null : view.open;
  const { target } = state.run;
  const weights = weightsOf(open?.tensors ?? state.tensors, "self_attn", view);
  const isLater = (r, c) => c > r;
  const [map, table] = [el("div", { class: `map-place ${target.tokens.length > 24 ? "many" : ""}` }), el("div", { class: "leak-place" })];
  place.append(el("div", { class: "side-by-side" }, map, table));
  map.append(el("h4", {}, open ? "Weights, with the future open" : "Weights, the future masked"));
  heatmap(map, weights, { rows: target.tokens, columns: target.tokens, label: "Weights of the decoder's self-attention",
    masked: (r, c) => !open && isLater(r, c), marked: isLater, rowName: "at", columnName: "looks at",
    hint: open ? "Above the diagonal, in the other colour: weights on tokens not yet written." : "Above the diagonal: masked, weight 0." });
  table.append(leakTable(state.run, open?.run));
  sentence.textContent = leakSentence(state.run, open?.run, weights);
}

/** How much of a weight matrix [T, T] lies above its diagonal, and just right of it, as means of the rows. */
function futureShares(weights) {
  const [T] = weights.shape;
  let [later, next] = [0, 0];
  for (let r = 0; r < T - 1; r++) {
    next += weights.at(r, r + 1);
    for (let c = r + 1; c < T; c++) later += weights.at(r, c);
  }
  return { later: later / T, next: next / T };
}

function leakSentence(run, open, weights) {
  if (!open) return "With the mask on, no position looks ahead. Take it away and see what becomes of the probabilities.";
  const { later, next } = futureShares(weights);
  const looks = `Without the mask ${percent(later)} of the attention goes to tokens that are not written yet, `
    + `${percent(next)} to the very token that should be predicted. `;
  const change = `The log P of the same translation goes from ${number(run.log_prob)} to ${number(open.log_prob)}. `;
  return looks + change + (open.log_prob < run.log_prob
    ? "It falls, although the answer lies open: this model was trained with the mask, never learnt to use what lies ahead, and is "
      + "misled by it. Trained without the mask it would learn little more than to copy its next input, and find nothing to copy when it must "
      + "write by itself."
    : "It rises: the model uses what lies ahead, which it will not have when it must write by itself.");
}

function leakTable(run, open) {
  const share = (logProb, name) => {
    const bar = el("span", { class: `bar ${name}` });
    bar.style.width = `${100 * Math.exp(logProb)}%`;
    return el("td", { class: "share" }, el("span", {}, chance(logProb)), el("span", { class: "bar-place" }, bar));
  };
  const rows = run.target.outputs.map((token, t) => {
    const first = open?.alternatives[t][0];
    const isOther = first && first.id !== token.id;
    return el("tr", { "data-position": t, "data-log-prob": run.log_probs[t], "data-open": open ? open.log_probs[t] : null },
      el("th", { scope: "row" }, shown(token)), share(run.log_probs[t], "with"),
      open ? share(open.log_probs[t], "without") : el("td", { class: "share" }, "–"),
      el("td", {}, isOther ? `“${shown(first)}” ${chance(first.log_prob)}` : open ? "the same" : "–"));
  });
  return el("div", { class: "scroller", tabindex: rows.length > 16 ? 0 : null, role: "group",
    "aria-label": "Probability of each right token" },
    el("table", { class: "probabilities" }, el("caption", { class: "hidden" }, "Probability of each right token"),
    el("thead", {}, el("tr", {}, ["right token", "mask on", "mask off", "would write"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows)));
}

// Alignment -----------------------------------------------------------------------------------------------------------

function renderAlignment(root, state) {
  const view = { layer: null, head: "mean", chosen: null }; // chosen: {side: "target" or "source", index}
  state.on("model", () => (view.layer = null));
  state.on("run", () => (view.chosen = null));
  figure(root, state, { draw, wide: true,
    caption: "Weights of the attention to the encoder. A row belongs to the token that is written there, a column to a token of the "
      + "sentence. Point at a token, or go to it with the keyboard, to see its partners." });

  function draw(body) {
    const place = el("div");
    const redraw = () => {
      place.replaceChildren();
      drawAlignment(place, state, view);
    };
    body.append(el("div", { class: "controls" }, layerAndHead(state, view, redraw)), place);
    redraw();
  }
}

function drawAlignment(place, state, view) {
  const { source, target } = state.run;
  const weights = weightsOf(state.tensors, "cross_attn", view);
  view.chosen ??= { side: "target", index: farthestFromDiagonal(weights, target.outputs) };
  const paint = weightScale();
  const sentence = el("p", { id: "alignment-sentence", "aria-live": "polite" });
  const row = (side, name, tokens) => {
    const select = (index) => {
      view.chosen = { side, index };
      light(view.chosen);
    };
    const hover = (index) => light(index === null ? view.chosen : { side, index });
    const element = tokenRow({ name, tokens, key: `alignment ${side}`, onSelect: select, onHover: hover });
    element.classList.add("lit-tokens");
    return element;
  };
  const rows = { source: row("source", "sentence", source.tokens), target: row("target", "translation", target.outputs) };
  const light = (chosen) => lightPartners(rows, sentence, weights, paint, chosen, state.run);

  const map = el("div");
  place.append(el("h4", {}, "The sentence"), rows.source, el("h4", {}, "Its translation"), rows.target, sentence, map);
  heatmap(map, weights, { rows: target.outputs, columns: source.tokens, label: "Alignment: weights of the attention to the encoder",
    rowName: "writing", columnName: "looks at", size: 24,
    onHover: (r) => light(r === null ? view.chosen : { side: "target", index: r }),
    onSelect: (r) => light((view.chosen = { side: "target", index: r })) });
  light(view.chosen);
}

/** The word whose partner stands farthest from where it would in a translation word by word. */
function farthestFromDiagonal(weights, outputs) {
  const [T, S] = weights.shape;
  let best = { index: 0, distance: -1 };
  for (let t = 0; t < T; t++) {
    const row = weights.part(t).data;
    const distance = Math.abs(row.indexOf(row.reduce((a, x) => Math.max(a, x), 0)) / S - t / T);
    if (outputs[t].kind === "word" && distance > best.distance) best = { index: t, distance };
  }
  return best.index;
}

/** Shades the partners of a token by their weights, and says them. */
function lightPartners(rows, sentence, weights, paint, { side, index }, { source, target }) {
  const [T, S] = weights.shape;
  const isTarget = side === "target";
  const partners = isTarget ? Array.from({ length: S }, (_, s) => weights.at(index, s))
    : Array.from({ length: T }, (_, t) => weights.at(t, index));
  const [own, others] = isTarget ? [rows.target, rows.source] : [rows.source, rows.target];
  [...own.children].forEach((chip, i) => {
    chip.setAttribute("aria-pressed", String(i === index));
    chip.style.background = "";
    chip.classList.remove("on-light", "on-dark");
  });
  [...others.children].forEach((chip, i) => {
    const background = paint(partners[i]);
    chip.setAttribute("aria-pressed", "false");
    chip.style.background = background;
    chip.classList.remove("on-light", "on-dark");
    chip.classList.add(lettersOn(background));
  });
  const tokens = isTarget ? source.tokens : target.outputs;
  const best = partners.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, 3)
    .map(([weight, i]) => `“${shown(tokens[i])}” (${percent(weight)})`).join(", ");
  sentence.textContent = isTarget ? `To write “${shown(target.outputs[index])}” the decoder looks at ${best}.`
    : `“${shown(source.tokens[index])}” is looked at most for ${best}.`;
}

// Teacher forcing -----------------------------------------------------------------------------------------------------

function renderForcing(root, state) {
  const view = { mode: "generation", position: 0 };
  state.on("run", () => (view.position = state.run.log_probs.indexOf(Math.min(...state.run.log_probs)))); // where it was least sure
  const { redraw } = figure(root, state, { draw, wide: true,
    caption: "Above each arrow what goes into the decoder, below it what comes out, with its probability. The bars are the model's first "
      + "choices at the chosen position." });

  function draw(body) {
    const [place, sentence] = [el("div"), el("p", { id: "passes", "aria-live": "polite" })];
    const show = () => {
      place.replaceChildren();
      drawForcing(place, sentence, state, view, choose);
    };
    const choose = (position) => {
      view.position = position;
      if (view.mode === "generation") redraw();
      else show();
    };
    const last = state.run.target.outputs.length - 1;
    view.position = Math.min(view.position, last);
    body.append(el("div", { class: "controls" },
      choice({ name: "run", options: [["generation", "generation"], ["forcing", "teacher forcing"]], value: view.mode, onChange: (mode) => {
        view.mode = mode;
        redraw();
      } }),
      player({ name: "position", last, value: view.position, format: (t) => `${t + 1} of ${last + 1}`, onChange: (position) => {
        view.position = position;
        show();
      } })), sentence, place);
    show();
  }
}

function drawForcing(place, sentence, state, view, choose) {
  const { run } = state;
  const isGeneration = view.mode === "generation";
  const passes = isGeneration ? view.position + 1 : 1;
  const cards = el("div", { class: "positions", role: "group", "aria-label": "positions of the decoder" });
  run.target.outputs.forEach((token, t) => cards.append(card(run, t, token, isGeneration && t > view.position, t === view.position,
    choose)));
  sentence.textContent = passesSentence(run, passes, isGeneration);
  place.append(cards);
  place.append(el("h4", {}, `Position ${view.position + 1}: after “${shown(run.target.tokens[view.position])}”`));
  drawAlternatives(place, run, view.position);
  place.append(el("p", { class: "note", id: "forcing-check" }, checkOfPasses(run)));
}

function card(run, t, token, isFuture, isChosen, choose) {
  if (isFuture) return el("span", { class: "position future", "aria-hidden": "true" }, el("span", {}, "…"),
    el("span", { class: "arrow" }, "↓"), el("span", {}, "…"));
  const probability = chance(run.log_probs[t]);
  return el("button", { type: "button", class: "position", "aria-pressed": String(isChosen), "data-position": t,
    "data-key": `position ${t}`,
    "data-log-prob": run.log_probs[t], "aria-label": `${t + 1}: in ${shown(run.target.tokens[t])}, out ${shown(token)}, ${probability}`,
      click: () => choose(t) },
  el("span", { class: "in" }, shown(run.target.tokens[t])), el("span", { class: "arrow" }, "↓"),
  el("span", { class: "out" }, shown(token)), el("small", {}, probability));
}

function passesSentence(run, passes, isGeneration) {
  const T = run.target.outputs.length;
  if (isGeneration) return `${passes} ${passes === 1 ? "pass" : "passes"} so far: each one adds a token, which is the next one's input.`;
  return `One pass for all ${T} ${T === 1 ? "position" : "positions"}; the loss is their mean of −log p: ${number(-run.log_prob / T)}. `
    + "In training a person's translation stands here; here it is the model's own, so that the two can be compared.";
}

function drawAlternatives(place, run, t) {
  const right = run.target.outputs[t];
  const list = run.alternatives[t].slice(0, 6);
  if (!list.some(({ id }) => id === right.id)) list.push({ ...right, log_prob: run.log_probs[t] });
  bars(place, list.map((token) => ({ name: `${shown(token)}${token.id === right.id ? " ✓" : ""}`, value: Math.exp(token.log_prob),
    text: chance(token.log_prob),
    colour: token.id === right.id ? "value" : "query" })), { label: "alternatives", largest: 1 });
  const isFirst = run.alternatives[t][0].id === right.id;
  place.append(el("p", { class: "note" }, isFirst ? "The first choice is what was written."
    : "The first choice is not what was written: the beam found a better whole (chapter 9)."));
}

/** The search ran the decoder token by token; the probabilities of this page come from one pass. They agree. */
function checkOfPasses(run) {
  const candidates = new Map(run.search.steps.flatMap((step) => step.candidates).map((candidate) => [candidate.key, candidate]));
  const path = [];
  for (let at = candidates.get(run.search.finished[0]?.key); at; at = candidates.get(at.parent)) path.unshift(at.log_prob);
  if (path.length !== run.log_probs.length) return "";
  const difference = path.reduce((worst, logProb, t) => Math.max(worst, Math.abs(logProb - run.log_probs[t])), 0);
  return `The search wrote this token by token, in ${path.length} passes. Largest difference of a log-probability from the single pass: `
    + `${number(difference, 2)}.`;
}
