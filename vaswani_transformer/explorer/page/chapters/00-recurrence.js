// Chapter 0: what self-attention saves compared with recurrence, and what it costs (section 4, Table 1).
import { lineChart } from "../lib/charts.js";
import { button, slider, tokenRow } from "../lib/controls.js";
import { count, el, formula, number, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { findingsSection } from "../lib/findings-section.js";

export default { id: "recurrence", number: 0, title: "Without recurrence", paper: "section 4, Table 1", render };

const TEXT = String.raw`
<p>A recurrent network reads a sentence word by word. It computes its state after each word from its state after the previous word,
  so the tenth word must wait for the ninth. A sentence of \(n\) words is a chain of \(n\) steps, and more hardware does not make the
  chain shorter. Self-attention has no chain: one matrix product compares every word with every other word, all pairs at once.</p>
<p>Here both layers read the sentence above. A step is a computation that must wait for the step before it.</p>`;

const PATHS = String.raw`
<p>A chain costs more than time. Information from one word passes through every step on its way to another word, and in training the
  gradient takes the same path back. The shorter the path, the easier it is to learn that two distant words belong together. Choose two
  words, and count the steps from the first word to the layer's output at the second.</p>`;

const COSTS = String.raw`
<p>Comparing all pairs has a price: \(n\) words form \(n^2\) pairs. A recurrent layer multiplies by a \(d \times d\) matrix at every
  word instead. Self-attention is therefore cheaper as long as the sentence has fewer words than the vectors have components,
  \(n < d\). Most sentences are that short. This is Table 1 with numbers instead of letters. Make the sentence longer to see where the
  balance tips.</p>`;

const STEP_MS = 420;
const MAX_PLAY_MS = 12_000;
const LETTER = 7; // approximate width of a letter in pixels
const KERNEL = 3; // width of the convolutions
const NEIGHBOURS = 16; // the r of restricted self-attention
const svg = (name, attributes, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null));
  return element;
};

function render(root, state) {
  const race = { step: 0, timer: null };
  const ends = { first: null, second: null };
  const costs = { n: null };
  state.on("run", () => {
    clearInterval(race.timer);
    race.step = Math.ceil(state.run.source.tokens.length / 4); // already shows the difference
    costs.n = null;
    [ends.first, ends.second] = farthest(state.run.source.tokens);
  });
  root.append(prose(TEXT));
  figure(root, state, { draw: (body) => drawRace(body, state, race),
    caption: "Left: the states of a recurrent layer; each is computed from the word beside it and the state above. Right: a "
      + "self-attention layer; the lines are the weights of the encoder's first layer, averaged over its heads." });
  root.append(el("h3", {}, "The path between two words"), prose(PATHS));
  figure(root, state, { draw: (body) => drawPaths(body, state, ends),
    caption: `The words are at the bottom, the layers above them; the thick line is the shortest path. A convolution sees ${KERNEL} words. In `
      + "dilated convolutions the gap between these words doubles from layer to layer, so the path grows only logarithmically." });
  root.append(el("h3", {}, "The cost"), prose(COSTS));
  figure(root, state, { draw: (body) => drawCosts(body, state, costs),
    caption: `Multiplications as in Table 1: the leading term of one layer. Convolutions have width k = ${KERNEL}; the table in the paper `
      + `lists dilated ones. Restricted self-attention sees r = ${NEIGHBOURS} neighbours. The longest path connects the first and the `
      + "last word, through as many layers as it needs. The formulas in grey give the order of growth, as in the paper; the numbers are exact." });
  findingsSection(root, "layers");
}

/** The first and the last word. */
function farthest(tokens) {
  const words = tokens.flatMap(({ kind }, i) => (kind === "word" ? [i] : []));
  return words.length > 1 ? [words[0], words.at(-1)] : [0, tokens.length - 1];
}

// Sequential against parallel -----------------------------------------------------------------------------------------

function drawRace(body, state, race) {
  clearInterval(race.timer);
  race.timer = null;
  const tokens = state.run.source.tokens;
  const n = tokens.length;
  const picture = racePicture(tokens, meanWeights(state), Math.min(760, body.clientWidth));
  const result = el("p", { class: "readout", id: "race-result", "aria-live": "polite" });
  const format = (step) => `${step} of ${n}`;
  const control = slider({ name: "step", min: 0, max: n, step: 1, value: race.step, format, onChange: (step) => jump(step) });
  const show = (step) => {
    race.step = step;
    control.querySelector("input").value = step;
    control.querySelector("output").textContent = format(step);
    picture.update(step);
    // While it plays, screen readers announce only the end.
    if (!race.timer || step === n) result.textContent = raceText(tokens, step);
  };
  const play = button("Play", () => (race.timer ? stop() : start()), { "data-key": "race play" });
  const stop = () => {
    clearInterval(race.timer);
    race.timer = null;
    play.textContent = "Play";
  };
  const start = () => {
    if (race.step >= n) show(0);
    play.textContent = "Pause";
    race.timer = setInterval(() => {
      show(race.step + 1);
      if (race.step >= n) stop();
    }, Math.min(STEP_MS, MAX_PLAY_MS / n));
  };
  const jump = (step) => {
    stop();
    show(step);
  };
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  body.append(el("div", { class: "controls" }, isStill ? null : play,
    button("Next step", () => jump((race.step + 1) % (n + 1)), { "data-key": "race step" }), control), picture.element, result);
  show(race.step);
}

function raceText(tokens, step) {
  const n = tokens.length;
  if (step === 0) return "Nothing has been computed yet.";
  const read = `After step ${step} the recurrent layer has read ${step} of ${n} tokens, up to “${shown(tokens[step - 1])}”`;
  return `${read}; self-attention finished all ${n} in step 1.`;
}

/** The weights of the encoder's first layer, averaged over its heads, as a function of query and key. */
function meanWeights(state) {
  const weights = state.tensors.get("encoder.layers.0.self_attn.weights");
  const [heads] = weights.shape;
  return (query, key) => {
    let sum = 0;
    for (let head = 0; head < heads; head++) sum += weights.at(head, query, key);
    return sum / heads;
  };
}

function racePicture(tokens, weight, width) {
  const n = tokens.length;
  const pitch = Math.max(15, Math.min(30, 620 / n));
  const top = 62;
  const grid = { top, pitch, radius: Math.min(8, pitch * 0.3), y: (i) => top + (i + 0.5) * pitch };
  Object.assign(grid, { stateX: 0.17 * width, wordX: 0.42 * width, inX: 0.6 * width, outX: 0.93 * width });
  const [left, right] = [recurrentHalf(tokens, grid), attentionHalf(tokens, grid, weight)];
  const words = tokens.map((token, i) => svg("text", { x: grid.wordX, y: grid.y(i) + 4, "text-anchor": "middle",
    class: `word ${token.kind}` }, shown(token)));
  const element = svg("svg", { viewBox: `0 0 ${width} ${top + n * pitch + 8}`, width, height: top + n * pitch + 8, class: "race",
    role: "img", "aria-label": `A recurrent layer computes ${n} states one by one; self-attention computes ${n} outputs in one step.` },
  ...left.parts, ...right.parts, ...words);
  const update = (step) => {
    left.update(step);
    right.update(step);
    words.forEach((word, i) => word.classList.toggle("now", i === step - 1));
  };
  return { element, update };
}

/** The name of a layer above its half of the picture, and the number of steps so far. */
function heading(name, x) {
  const steps = svg("text", { x, y: 38, "text-anchor": "middle", class: "count" });
  return { steps, parts: [svg("text", { x, y: 18, "text-anchor": "middle", class: "heading" }, name), steps] };
}

const halfOf = (token) => (shown(token).length * LETTER) / 2; // half the width of a word

function recurrentHalf(tokens, { stateX, wordX, radius, y }) {
  const title = heading("recurrent", stateX);
  const states = tokens.map((_, i) => svg("circle", { cx: stateX, cy: y(i), r: radius, class: "state" }));
  const chain = tokens.slice(1).map((_, i) => svg("path", { d: `M${stateX} ${y(i) + radius}V${y(i + 1) - radius}`, class: "edge" }));
  const inputs = tokens.map((token, i) => {
    const start = Math.max(stateX + radius, wordX - 10 - halfOf(token));
    return svg("path", { d: `M${start} ${y(i)}H${stateX + radius}`, class: "edge input" });
  });
  const update = (step) => {
    states.forEach((circle, i) => {
      circle.classList.toggle("done", i < step);
      circle.classList.toggle("now", i === step - 1);
    });
    chain.forEach((edge, i) => edge.classList.toggle("done", i + 1 < step));
    inputs.forEach((edge, i) => edge.classList.toggle("done", i < step));
    title.steps.textContent = `${step} of ${tokens.length} steps`;
  };
  return { parts: [...title.parts, ...inputs, ...chain, ...states], update };
}

function attentionHalf(tokens, { inX, outX, wordX, radius, y }, weight) {
  const title = heading("self-attention", (inX + outX) / 2);
  const entries = tokens.map((token, i) => {
    const start = Math.min(inX - 6, wordX + 10 + halfOf(token));
    return svg("path", { d: `M${start} ${y(i)}H${inX - 6}`, class: "edge entry" });
  });
  const dots = tokens.map((_, i) => svg("circle", { cx: inX, cy: y(i), r: 2.5, class: "dot" }));
  const outputs = tokens.map((_, i) => svg("circle", { cx: outX, cy: y(i), r: radius, class: "state attention" }));
  const fan = svg("g", { class: "fan" });
  tokens.forEach((_, query) => tokens.forEach((_, key) => {
    const w = weight(query, key);
    if (w < 0.01) return; // invisible, and 100 tokens have 10,000 pairs
    fan.append(svg("path", { d: `M${inX} ${y(key)}L${outX - radius} ${y(query)}`, "stroke-width": 0.4 + 4 * w,
      opacity: Math.min(1, 0.12 + 1.5 * w) }));
  }));
  const update = (step) => {
    [...outputs, ...entries, fan].forEach((part) => part.classList.toggle("done", step > 0));
    title.steps.textContent = `${Math.min(step, 1)} of 1 step`;
  };
  return { parts: [...title.parts, ...entries, fan, ...dots, ...outputs], update };
}

// Path lengths --------------------------------------------------------------------------------------------------------

/** Nodes of a path are [row, position]; row 0 contains the words. `sees(node)` returns the nodes from which a node is computed. */
const recurrentPath = (a, b) => ({ name: "recurrent", rows: 1, path: [[0, a], ...range(a, b + 1).map((i) => [1, i])],
  sees: ([row, i]) => (row === 0 ? [] : [[0, i], ...(i > 0 ? [[1, i - 1]] : [])]) });

const attentionPath = (a, b, n) => ({ name: "self-attention", rows: 1, path: [[0, a], [1, b]],
  sees: ([row]) => (row === 0 ? [] : range(0, n).map((i) => [0, i])) });

/** `gaps` are the distances between neighbours in each layer. From its end, the path takes each gap that still fits. */
function convolutionPath(name, a, b, n, gaps) {
  const path = [[gaps.length, b]];
  for (let row = gaps.length; row > 0; row--) {
    const [, at] = path[0];
    path.unshift([row - 1, at - gaps[row - 1] >= a ? at - gaps[row - 1] : at]);
  }
  const neighbours = (i, gap) => [i - gap, i, i + gap].filter((j) => j >= 0 && j < n);
  const sees = ([row, i]) => (row === 0 ? [] : neighbours(i, gaps[row - 1]).map((j) => [row - 1, j]));
  return { name, rows: gaps.length, path, sees };
}

const range = (start, end) => Array.from({ length: Math.max(0, end - start) }, (_, i) => start + i);

/** The number of layers that information needs to cover a distance. */
const dilatedLayers = (distance) => Math.max(1, Math.ceil(Math.log2(distance + 1)));
const plainLayers = (distance, width) => Math.max(1, Math.ceil(distance / Math.floor(width / 2)));

function pathsBetween(a, b, n) {
  const distance = b - a;
  return [recurrentPath(a, b), convolutionPath("convolutions", a, b, n, range(0, plainLayers(distance, KERNEL)).map(() => 1)),
    convolutionPath("dilated convolutions", a, b, n, range(0, dilatedLayers(distance)).map((i) => 2 ** i)), attentionPath(a, b, n)];
}

function drawPaths(body, state, ends) {
  const tokens = state.run.source.tokens;
  if (tokens.length < 2) return body.append(el("p", {}, "A path needs two tokens. Write a longer sentence."));
  const place = el("div", { class: "paths" });
  const result = el("p", { class: "readout", id: "path-result", "aria-live": "polite" });
  const row = tokenRow({ name: "two words", tokens, onSelect: (i) => {
    if (i === ends.first || i === ends.second) return;
    [ends.first, ends.second] = [ends.second, i]; // drops the older choice
    show();
  } });
  const show = () => {
    [...row.children].forEach((chip, i) => chip.setAttribute("aria-pressed", String(i === ends.first || i === ends.second)));
    const [a, b] = [ends.first, ends.second].sort((x, y) => x - y);
    const paths = pathsBetween(a, b, tokens.length);
    place.replaceChildren();
    paths.forEach((path) => place.append(pathPanel(path, tokens, a, b, place.clientWidth)));
    result.textContent = `From “${shown(tokens[a])}” to “${shown(tokens[b])}”: `
      + `${paths.map(({ name, path }) => `${name} ${path.length - 1} ${path.length === 2 ? "step" : "steps"}`).join(", ")}.`;
  };
  body.append(row, place, result);
  show();
}

function pathPanel({ name, rows, path, sees }, tokens, a, b, available) {
  const width = Math.max(220, Math.min(420, available > 620 ? available / 2 - 24 : available));
  const [height, margin] = [150, 14];
  const n = tokens.length;
  const x = (i) => margin + (i * (width - 2 * margin)) / (n - 1);
  const y = (row) => height - 34 - (row * (height - 52)) / rows;
  const line = ([row, i], [to, j]) => `M${x(i)} ${y(row)}L${x(j)} ${y(to)}`;
  const at = ([row, i]) => ({ cx: x(i), cy: y(row) });
  const steps = path.length - 1;
  const isSmall = n * (rows + 1) <= 1500;
  const places = isSmall ? range(0, rows + 1).flatMap((row) => range(0, n).map((i) => [row, i])) : [];
  const nodes = places.map((node) => svg("circle", { ...at(node), r: 2, class: "node" }));
  const word = (i) => {
    const half = halfOf(tokens[i]) + 2;
    const centre = Math.max(half, Math.min(width - half, x(i)));
    return svg("text", { x: centre, y: height - 10, "text-anchor": "middle", class: "word" }, shown(tokens[i]));
  };
  const ends = [path[0], path.at(-1)].map((node) => svg("circle", { ...at(node), r: 5.5, class: "end" }));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${name}: ${steps} steps` },
    svg("path", { d: isSmall ? edgesTo([rows, b], sees).map((edge) => line(...edge)).join("") : "", class: "field" }), ...nodes,
    svg("path", { d: path.slice(1).map((node, i) => line(path[i], node)).join(""), class: "way" }), ...ends, word(a), word(b));
  return el("div", { class: "path", "data-path": name, "data-steps": steps },
    el("h4", {}, name, el("b", {}, ` ${steps} ${steps === 1 ? "step" : "steps"}`)), picture);
}

/** All edges that lead to a node, each once. */
function edgesTo(node, sees) {
  const edges = [];
  const visited = new Set();
  const open = [node];
  while (open.length) {
    const next = open.pop();
    if (visited.has(next.join())) continue;
    visited.add(next.join());
    for (const from of sees(next)) {
      edges.push([from, next]);
      open.push(from);
    }
  }
  return edges;
}

// Table 1 -------------------------------------------------------------------------------------------------------------

/** The rows of Table 1: complexity, sequential operations and maximum path length, as TeX and as functions of n and d. */
const LAYERS = [
  { name: "self-attention", colour: "a", orders: ["n^2 d", "1", "1"],
    operations: (n, d) => n * n * d, sequential: () => 1, path: () => 1 },
  { name: "recurrent", colour: "b", orders: ["n d^2", "n", "n"],
    operations: (n, d) => n * d * d, sequential: (n) => n, path: (n) => n },
  { name: "convolutional", colour: "c", orders: ["k n d^2", "1", "n/k"],
    operations: (n, d) => KERNEL * n * d * d, sequential: () => 1, path: (n) => plainLayers(n - 1, KERNEL) },
  { name: "convolutional, dilated", colour: null, orders: ["k n d^2", "1", "\\log_k n"],
    operations: (n, d) => KERNEL * n * d * d, sequential: () => 1, path: (n) => dilatedLayers(n - 1) },
  { name: "self-attention, restricted", colour: "d", orders: ["r n d", "1", "n/r"],
    operations: (n, d) => Math.min(NEIGHBOURS, n) * n * d, sequential: () => 1, path: (n) => plainLayers(n - 1, NEIGHBOURS) },
];

const MAX_LOG2_LENGTH = 12; // end of the slider

function drawCosts(body, state, costs) {
  const d = state.model.config.d_model;
  const sentenceLength = state.run.source.tokens.length;
  costs.n ??= sentenceLength;
  const [table, chart] = [el("div", { class: "scroller" }), el("div", { class: "cost-chart" })];
  const result = el("p", { id: "cost-result", "aria-live": "polite" });
  // The slider is logarithmic; it shows the rounded length.
  const length = slider({ name: "tokens n", key: "costs n", min: 1, max: MAX_LOG2_LENGTH, step: 0.01,
    value: Math.log2(costs.n), format: (x) => count(2 ** x), onChange: (x) => show(Math.round(2 ** x)) });
  const reset = (n) => {
    length.querySelector("input").value = Math.log2(n);
    length.querySelector("output").textContent = count(n);
    show(n);
  };
  const show = (n) => {
    costs.n = n;
    table.replaceChildren(costTable(n, d));
    chart.replaceChildren();
    costChart(chart, n, d);
    result.textContent = costText(n, d);
  };
  body.append(el("div", { class: "controls" }, length, button(`this sentence: ${sentenceLength}`, () => reset(sentenceLength), { "data-key": "costs sentence" }),
    button(`n = d: ${count(d)}`, () => reset(d), { "data-key": "costs equal" })), result, table, chart);
  show(costs.n);
}

function costText(n, d) {
  if (n === d) return `At n = d = ${d} a self-attention layer and a recurrent layer cost the same, ${count(n * n * d)} multiplications.`;
  const [factor, word] = n < d ? [d / n, "cheaper"] : [n / d, "more expensive"];
  return `With ${count(n)} tokens and d = ${d}, a self-attention layer is ${number(factor, 2)} times ${word} than a recurrent one, `
    + `and needs 1 step instead of ${count(n)}.`;
}

function costTable(n, d) {
  const heads = ["layer", "multiplications", "steps", "longest path"];
  const order = (tex) => el("span", { class: "order" }, formula(tex));
  const cell = (tex, value) => el("td", { class: "number", "data-value": value }, order(tex), count(value));
  const row = ({ name, orders, operations, sequential, path }) => el("tr", { "data-layer": name }, el("th", { scope: "row" }, name),
    [operations(n, d), sequential(n), path(n)].map((value, i) => cell(orders[i], value)));
  return el("table", { class: "costs" },
    el("thead", {}, el("tr", {}, heads.map((name, i) => el("th", { class: i ? "number" : null, scope: "col" }, name)))),
    el("tbody", {}, LAYERS.map(row)));
}

function costChart(root, n, d) {
  const lengths = range(0, 2 * MAX_LOG2_LENGTH + 1).map((i) => 2 ** (i / 2)).filter((x) => x >= 2);
  const drawn = LAYERS.filter(({ colour }) => colour); // dilated convolutions cost the same
  const ends = [lengths[0], lengths.at(-1)];
  const highest = Math.max(...drawn.map(({ operations }) => operations(ends[1], d)));
  const series = drawn.map(({ name, colour, operations }) => ({ name, colour, points: lengths.map((x) => [x, operations(x, d)]) }));
  const current = { name: `n = ${count(n)}`, colour: "soft", dashed: true, points: [[n, drawn[0].operations(1, d)], [n, highest]] };
  lineChart(root, { x: "n, tokens", y: "multiplications per layer", logX: true, logY: true, height: 260, domainX: ends,
    series: [...series, current], marks: [{ x: d, y: d ** 3, colour: "ink", text: `n = d = ${d}`, isBelow: true }] });
}
