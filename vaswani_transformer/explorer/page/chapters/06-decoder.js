import { latestRequest } from "../lib/requests.js";
import { bars } from "../lib/charts.js";
import { lettersOn, weightScale } from "../lib/colours.js";
import { checkbox, choice, player, tokenRow } from "../lib/controls.js";
import { el, number, percent, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { heatmap } from "../lib/heatmap.js";
import { Tensor } from "../lib/tensors.js";

export default { id: "decoder", number: 6, title: "The decoder layer", paper: "sections 3.1 and 3.2.3", render };

const MASK = String.raw`
<p>The decoder writes one token after another. Each token may depend on everything before it: on the sentence, and on the tokens already
  written. A decoder layer differs from an encoder layer in two ways. Its self-attention may only look back, and between self-attention
  and the feed-forward network there is a third sub-layer, which attends to the encoder's output.</p>
<p>The mask adds minus infinity to some scores. At position \(i\) every score of a position \(j > i\) is masked before the softmax, so
  its weight becomes exactly zero. The remaining weights form a triangle:</p>
\[\mathrm{softmax}\!\left(\frac{\q{Q} \k{K}^{\top}}{\sqrt{d_k}} + M\right) \v{V}\]
\[M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}\]
<p>Why is the mask needed? In training the decoder receives the whole correct translation at once, shifted right by one position, so the
  token that it must predict at position \(i\) is its input at \(i + 1\). Without the mask it could read the answer there.</p>`;

const ALIGNMENT = String.raw`
<p>The <em class="q">queries</em> of the third sub-layer come from the translation so far, its <em class="k">keys</em> and <em class="v">values</em> from the encoder's output. It needs no mask,
  because the whole sentence is known from the start. Nobody tells the model which word translates which, but to write the next token it
  has to look at the right place. So it learns an alignment of the two sentences by itself.</p>`;

const FORCING = String.raw`
<p>To translate, the decoder runs once per token, because its output is its next input. In training it runs only once: each position
  receives the token of the correct translation, whatever the model would have written itself. This is <em>teacher forcing</em>. The mask
  makes it valid: no position can see later ones, so a single pass computes the same as many passes would.</p>`;

/** A probability as a percentage; small ones are not rounded to zero. */
const chance = (logProb) => (Math.exp(logProb) < 0.0005 ? "<0.1%" : percent(Math.exp(logProb)));
const numbers = (n) => Array.from({ length: n }, (_, i) => [i, String(i + 1)]);

function render(root, state) {
  root.append(el("h3", {}, "The causal mask"), prose(MASK));
  renderMask(root, state);
  root.append(el("h3", {}, "Cross-attention"), prose(ALIGNMENT));
  renderAlignment(root, state);
  root.append(el("h3", {}, "Teacher forcing"), prose(FORCING));
  renderForcing(root, state);
}

/** Chooses a decoder layer, and one of its heads or their mean. */
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

/** The weights [T, S] of the chosen head, or their mean over all heads. */
export function weightsOf(tensors, kind, { layer, head }) {
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
  const request = latestRequest();
  state.on("model", () => (view.layer = null));
  state.on("run", () => {
    Object.assign(view, { causal: true, open: null });
    request.cancel();
  });
  const unmask = async () => {
    const run = await state.source.run({ ...state.run.request, causal: false });
    return { run, tensors: await state.source.tensors(run) };
  };
  figure(root, state, { draw, wide: true,
    caption: "Weights of the decoder's self-attention, and the probability of each correct token with the mask and without it. "
      + "The last column is the model's first choice without the mask. The translation stays the same; only the decoder runs on it again." });

  function draw(body) {
    const [place, sentence] = [el("div"), el("p", { id: "leak-sentence", "aria-live": "polite" })];
    const redraw = () => {
      place.replaceChildren();
      drawMask(place, sentence, state, view);
    };
    const toggle = (causal) => {
      view.causal = causal;
      request.cancel();
      if (!causal && !view.open) {
        request.send(unmask, (open) => {
          view.open = open;
          redraw();
        });
      } else redraw();
    };
    body.append(el("div", { class: "controls" }, checkbox({ name: "causal mask", value: view.causal, onChange: toggle }),
      layerAndHead(state, view, redraw)), request.status, place, sentence);
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
  map.append(el("h4", {}, open ? "Weights without the mask" : "Weights with the mask"));
  heatmap(map, weights, { rows: target.tokens, columns: target.tokens, label: "Weights of the decoder's self-attention",
    masked: (r, c) => !open && isLater(r, c), marked: isLater, rowName: "at", columnName: "looks at",
    hint: open ? "Above the diagonal, in the other colour: weights on tokens that are not written yet." : "Above the diagonal: masked, weight 0." });
  table.append(leakTable(state.run, open?.run));
  sentence.textContent = leakSentence(state.run, open?.run, weights);
}

/** The share of a weight matrix [T, T] above the diagonal, and just right of it, averaged over the rows. */
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
  if (!open) return "With the mask, no position looks ahead. Switch it off to see how the probabilities change.";
  const { later, next } = futureShares(weights);
  const looks = `Without the mask, ${percent(later)} of the attention goes to tokens that are not written yet, `
    + `including ${percent(next)} to the very token that the position must predict. `;
  const change = `Log P of the same translation changes from ${number(run.log_prob)} to ${number(open.log_prob)}. `;
  return looks + change + (open.log_prob < run.log_prob
    ? "It falls, although the model can see the answer: it was trained with the mask, never learned to use later tokens, and is "
      + "misled by them. A model trained without the mask would learn little more than to copy its next input, and would have nothing "
      + "to copy when it translates."
    : "It rises: the model uses later tokens, which do not exist yet when it translates.");
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
      el("td", {}, isOther ? `“${shown(first)}” ${chance(first.log_prob)}` : open ? "same" : "–"));
  });
  return el("div", { class: "scroller", tabindex: rows.length > 16 ? 0 : null, role: "group",
    "aria-label": "Probability of each correct token" },
    el("table", { class: "probabilities" }, el("caption", { class: "hidden" }, "Probability of each correct token"),
    el("thead", {}, el("tr", {}, ["correct token", "mask on", "mask off", "first choice"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows)));
}

// Alignment -----------------------------------------------------------------------------------------------------------

function renderAlignment(root, state) {
  const view = { layer: null, head: "mean", chosen: null }; // chosen: {side: "target" or "source", index}
  state.on("model", () => (view.layer = null));
  state.on("run", () => (view.chosen = null));
  figure(root, state, { draw, wide: true,
    caption: "Weights of the cross-attention. Each row belongs to a token of the translation, each column to a token of the sentence. "
      + "Point at a token, or move to it with the keyboard, to see the tokens that belong to it." });

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
  place.append(el("h4", {}, "Sentence"), rows.source, el("h4", {}, "Translation"), rows.target, sentence, map);
  heatmap(map, weights, { rows: target.outputs, columns: source.tokens, label: "Alignment: weights of the cross-attention",
    rowName: "writing", columnName: "looks at", size: 24,
    onHover: (r) => light(r === null ? view.chosen : { side: "target", index: r }),
    onSelect: (r) => light((view.chosen = { side: "target", index: r })) });
  light(view.chosen);
}

/** The word with the largest distance from the diagonal of a word-by-word translation. */
export function farthestFromDiagonal(weights, outputs) {
  const [T, S] = weights.shape;
  let best = { index: 0, distance: -1 };
  for (let t = 0; t < T; t++) {
    const row = weights.part(t).data;
    const distance = Math.abs(row.indexOf(row.reduce((a, x) => Math.max(a, x), 0)) / S - t / T);
    if (outputs[t].kind === "word" && distance > best.distance) best = { index: t, distance };
  }
  return best.index;
}

/** Shades the tokens that a token attends to, or is attended by, and describes them. */
function lightPartners(rows, sentence, weights, paint, { side, index }, { source, target }) {
  const [T, S] = weights.shape;
  const isTarget = side === "target";
  const partners = isTarget ? Array.from({ length: S }, (_, s) => weights.at(index, s))
    : Array.from({ length: T }, (_, t) => weights.at(t, index));
  const [chosenRow, partnerRow] = isTarget ? [rows.target, rows.source] : [rows.source, rows.target];
  [...chosenRow.children].forEach((chip, i) => {
    chip.setAttribute("aria-pressed", String(i === index));
    chip.style.background = "";
    chip.classList.remove("on-light", "on-dark");
  });
  [...partnerRow.children].forEach((chip, i) => {
    const background = paint(partners[i]);
    chip.setAttribute("aria-pressed", "false");
    chip.style.background = background;
    chip.classList.remove("on-light", "on-dark");
    chip.classList.add(lettersOn(background));
  });
  const tokens = isTarget ? source.tokens : target.outputs;
  const best = partners.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, 3)
    .map(([weight, i]) => `“${shown(tokens[i])}” (${percent(weight)})`).join(", ");
  sentence.textContent = isTarget ? `To write “${shown(target.outputs[index])}”, the decoder looks at ${best}.`
    : `The decoder looks at “${shown(source.tokens[index])}” most when it writes ${best}.`;
}

// Teacher forcing -----------------------------------------------------------------------------------------------------

function renderForcing(root, state) {
  const view = { mode: "generation", position: 0 };
  state.on("run", () => (view.position = state.run.log_probs.indexOf(Math.min(...state.run.log_probs)))); // the least confident one
  const { redraw } = figure(root, state, { draw, wide: true,
    caption: "Above each arrow the decoder's input, below it the output with its probability. The bars show the model's first choices at "
      + "the chosen position." });

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
      choice({ name: "mode", key: "run", options: [["generation", "generation"], ["forcing", "teacher forcing"]], value: view.mode, onChange: (mode) => {
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
  const cards = el("div", { class: "positions", role: "group", "aria-label": "Positions of the decoder" });
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
    "data-log-prob": run.log_probs[t], click: () => choose(t) },
  el("span", { class: "in" }, shown(run.target.tokens[t])), el("span", { class: "arrow" }, "↓"),
  el("span", { class: "out" }, shown(token)), el("small", {}, probability));
}

function passesSentence(run, passes, isGeneration) {
  const T = run.target.outputs.length;
  if (isGeneration) return `${passes} ${passes === 1 ? "pass" : "passes"} so far: each pass adds a token, which is the next input.`;
  return `One pass for all ${T} ${T === 1 ? "position" : "positions"}; the loss is their mean of −log p: ${number(-run.log_prob / T)}. `
    + "In training these tokens come from a human translation; here they come from the model's own translation, so that you can compare the two modes.";
}

function drawAlternatives(place, run, t) {
  const right = run.target.outputs[t];
  const list = run.alternatives[t].slice(0, 6);
  if (!list.some(({ id }) => id === right.id)) list.push({ ...right, log_prob: run.log_probs[t] });
  bars(place, list.map((token) => ({ name: `${shown(token)}${token.id === right.id ? " ✓" : ""}`, value: Math.exp(token.log_prob),
    text: chance(token.log_prob),
    colour: token.id === right.id ? "c" : "a" })), { label: "alternatives", largest: 1 });
  const isFirst = run.alternatives[t][0].id === right.id;
  place.append(el("p", { class: "note" }, isFirst ? "The model wrote its first choice."
    : "The model did not write its first choice: beam search found a better sentence (chapter 9)."));
}

/** Compares the probabilities of the search, token by token, with those of the single pass. */
function checkOfPasses(run) {
  const candidates = new Map(run.search.steps.flatMap((step) => step.candidates).map((candidate) => [candidate.key, candidate]));
  const path = [];
  for (let at = candidates.get(run.search.finished[0]?.key); at; at = candidates.get(at.parent)) path.unshift(at.log_prob);
  if (path.length !== run.log_probs.length) return "";
  const difference = path.reduce((worst, logProb, t) => Math.max(worst, Math.abs(logProb - run.log_probs[t])), 0);
  return `The search wrote this translation token by token, in ${path.length} passes. The largest difference of a log-probability from `
    + `the single pass is ${number(difference, 2)}.`;
}
