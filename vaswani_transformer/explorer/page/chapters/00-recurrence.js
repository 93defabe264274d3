// Chapter 0: what a layer without recurrence saves, and what it costs (section 4, Table 1).
import { lineChart } from "../lib/charts.js";
import { button, slider, tokenRow } from "../lib/controls.js";
import { count, el, formula, number, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";

export default { id: "recurrence", number: 0, title: "Without recurrence", paper: "section 4, Table 1", render };

const TEXT = String.raw`
<p>A recurrent network reads with a finger on the line. Its state after each word is computed from its state after the word before,
  so the tenth word has to wait for the ninth. A sentence of \(n\) words is a chain of \(n\) steps, and no number of processors makes
  a chain shorter. Self-attention has no chain: every word meets every other in one matrix product, all pairs at the same time.</p>
<p>Here are both, reading your sentence. A step is what has to wait for the step before it.</p>`;

const PATHS = String.raw`
<p>The chain costs more than time. What one word has to tell another is handed on at every step between them, and when the network
  learns, the gradient has to come back the same way. The shorter the path, the easier it is to learn that two distant words belong
  together. Choose two words, and count the steps from the first word to what the layer says about the second.</p>`;

const COSTS = String.raw`
<p>All pairs at once is not free: \(n\) words have \(n^2\) pairs. A recurrent layer instead multiplies by a \(d \times d\) matrix at
  every word. So self-attention is the cheaper of the two as long as the sentence is shorter than the vectors are wide, \(n < d\), and
  sentences nearly always are. Here is Table 1 with numbers in the place of letters. Make the sentence longer, and see where it turns.</p>`;

const STEP_MS = 420;
const LETTER = 7; // pixels of a letter's width, about
const KERNEL = 3; // the convolutions' width
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
    race.step = Math.min(3, state.run.source.tokens.length); // one that shows the difference
    costs.n = null;
    [ends.first, ends.second] = farthest(state.run.source.tokens);
  });
  root.append(prose(TEXT));
  figure(root, state, { draw: (body) => drawRace(body, state, race),
    caption: "Left: a recurrent layer's states, each made from the word beside it and the state above. Right: a self-attention layer; the lines "
      + "are the real weights of the encoder's first layer, the mean of its heads." });
  root.append(el("h3", {}, "How far it is from word to word"), prose(PATHS));
  figure(root, state, { draw: (body) => drawPaths(body, state, ends),
    caption: `Words at the bottom, layers upwards; thick: the shortest path. The convolutions see ${KERNEL} neighbours at a time. In the dilated `
      + "ones the gap between these doubles from layer to layer, which makes the path grow like a logarithm." });
  root.append(el("h3", {}, "What it costs"), prose(COSTS));
  figure(root, state, { draw: (body) => drawCosts(body, state, costs),
    caption: `Multiplications as Table 1 counts them: the leading term of one layer. Convolutions have the width k = ${KERNEL}, one word to each `
      + `side; restricted self-attention sees r = ${NEIGHBOURS} neighbours. Longest path: between the first word and the last, through as many layers as `
      + "that takes. The grey letters give its growth, as the table does; the numbers are counted." });
}

/** The first and the last word. */
function farthest(tokens) {
  const words = tokens.flatMap(({ kind }, i) => (kind === "word" ? [i] : []));
  return words.length > 1 ? [words[0], words.at(-1)] : [0, tokens.length - 1];
}

// Sequential against parallel -----------------------------------------------------------------------------------------

function drawRace(body, state, race) {
  clearInterval(race.timer);
  const tokens = state.run.source.tokens;
  const n = tokens.length;
  const picture = racePicture(tokens, meanWeights(state), Math.min(760, body.clientWidth));
  const said = el("p", { class: "readout", id: "race-says", "aria-live": "polite" });
  const place = slider({ name: "step", min: 0, max: n, step: 1, value: race.step, format: (x) => `${x} of ${n}`, onChange: (step) => stop() || show(step) });
  const [input, output] = [place.querySelector("input"), place.querySelector("output")];
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const play = button("Play", () => (race.timer ? stop() : start()), { "data-key": "race play" });

  function show(step) {
    race.step = step;
    input.value = step;
    output.textContent = `${step} of ${n}`;
    picture.update(step);
    // While it plays, a screen reader hears the end only.
    if (!race.timer || step === n) said.textContent = raceSays(tokens, step);
  }
  function stop() {
    clearInterval(race.timer);
    race.timer = null;
    play.textContent = "Play";
  }
  function start() {
    if (race.step >= n) show(0);
    race.timer = setInterval(() => {
      show(race.step + 1);
      if (race.step >= n) stop();
    }, STEP_MS);
    play.textContent = "Pause";
  }
  body.append(el("div", { class: "controls" }, isStill ? null : play,
    button("One step", () => stop() || show((race.step + 1) % (n + 1)), { "data-key": "race step" }), place), picture.element, said);
  show(race.step);
}

function raceSays(tokens, step) {
  const n = tokens.length;
  if (step === 0) return "Nothing has been computed yet.";
  const read = `After step ${step} the recurrent layer has read ${step} of ${n} tokens, up to “${shown(tokens[step - 1])}”`;
  return `${read}; self-attention was done with all ${n} after step 1.`;
}

/** The encoder's first layer, mean over its heads: a function of query and key. */
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
  const [top, radius] = [62, Math.min(8, pitch * 0.3)];
  const [stateX, wordX, inX, outX] = [0.17, 0.42, 0.6, 0.93].map((share) => share * width);
  const y = (i) => top + (i + 0.5) * pitch;
  const states = tokens.map((_, i) => svg("circle", { cx: stateX, cy: y(i), r: radius, class: "state" }));
  const chain = tokens.slice(1).map((_, i) => svg("path", { d: `M${stateX} ${y(i) + radius}V${y(i + 1) - radius}`, class: "edge" }));
  const inputs = tokens.map((token, i) => {
    const start = Math.max(stateX + radius, wordX - 10 - shown(token).length * LETTER / 2);
    return svg("path", { d: `M${start} ${y(i)}H${stateX + radius}`, class: "edge input" });
  });
  const entries = tokens.map((token, i) => {
    const start = Math.min(inX - 6, wordX + 10 + (shown(token).length * LETTER) / 2);
    return svg("path", { d: `M${start} ${y(i)}H${inX - 6}`, class: "edge entry" });
  });
  const words = tokens.map((token, i) => svg("text", { x: wordX, y: y(i) + 4, "text-anchor": "middle", class: `word ${token.kind}` }, shown(token)));
  const outputs = tokens.map((_, i) => svg("circle", { cx: outX, cy: y(i), r: radius, class: "state attention" }));
  const dots = tokens.map((_, i) => svg("circle", { cx: inX, cy: y(i), r: 2.5, class: "dot" }));
  const fan = svg("g", { class: "fan" });
  for (let q = 0; q < n; q++)
    for (let k = 0; k < n; k++) {
      const w = weight(q, k);
      if (w < 0.01) continue; // too faint to be seen, and a hundred tokens have ten thousand pairs
      fan.append(svg("path", { d: `M${inX} ${y(k)}L${outX - radius} ${y(q)}`, "stroke-width": 0.4 + 4 * w, opacity: Math.min(1, 0.12 + 1.5 * w) }));
    }
  const heading = (x, text) => svg("text", { x, y: 18, "text-anchor": "middle", class: "heading" }, text);
  const counts = [stateX, (inX + outX) / 2].map((x) => svg("text", { x, y: 38, "text-anchor": "middle", class: "count" }));
  const element = svg("svg", { viewBox: `0 0 ${width} ${top + n * pitch + 8}`, width, height: top + n * pitch + 8, class: "race", role: "img",
    "aria-label": `A recurrent layer computes ${n} states one after the other; self-attention computes ${n} outputs in one step.` },
  heading(stateX, "recurrent"), heading((inX + outX) / 2, "self-attention"), ...counts, ...inputs, ...entries, ...chain, fan, ...states, ...words, ...dots, ...outputs);
  const update = (step) => {
    states.forEach((circle, i) => {
      circle.classList.toggle("done", i < step);
      circle.classList.toggle("now", i === step - 1);
    });
    chain.forEach((edge, i) => edge.classList.toggle("done", i + 1 < step));
    inputs.forEach((edge, i) => edge.classList.toggle("done", i < step));
    words.forEach((word, i) => word.classList.toggle("now", i === step - 1));
    [...outputs, ...entries, fan].forEach((part) => part.classList.toggle("done", step > 0));
    counts[0].textContent = `${step} of ${n} steps`;
    counts[1].textContent = `${Math.min(step, 1)} of 1 step`;
  };
  return { element, update };
}

// Path lengths --------------------------------------------------------------------------------------------------------

/** Nodes of a path are [row, position]; row 0 holds the words. `sees` gives the nodes below one that it is computed from. */
const recurrentPath = (a, b) => ({ name: "recurrent", rows: 1, path: [[0, a], ...range(a, b + 1).map((i) => [1, i])],
  sees: ([row, i]) => (row === 0 ? [] : [[0, i], ...(i > 0 ? [[1, i - 1]] : [])]) });

const attentionPath = (a, b, n) => ({ name: "self-attention", rows: 1, path: [[0, a], [1, b]],
  sees: ([row]) => (row === 0 ? [] : range(0, n).map((i) => [0, i])) });

/** `gaps` gives the distance between neighbours in each layer. A path takes every gap that still fits, from the widest down. */
function convolutionPath(name, a, b, n, gaps) {
  let left = b - a;
  const moves = [...gaps].reverse().map((gap) => (gap <= left ? ((left -= gap), gap) : 0)).reverse();
  const path = moves.reduce((nodes, move, i) => [...nodes, [i + 1, nodes.at(-1)[1] + move]], [[0, a]]);
  const sees = ([row, i]) => (row === 0 ? [] : [-gaps[row - 1], 0, gaps[row - 1]].map((by) => [row - 1, i + by]).filter(([, j]) => j >= 0 && j < n));
  return { name, rows: gaps.length, path, sees };
}

const range = (start, end) => Array.from({ length: Math.max(0, end - start) }, (_, i) => start + i);

/** The layers that take a word's news over a distance. */
const dilatedLayers = (distance) => Math.ceil(Math.log2(distance + 1));
const plainLayers = (distance, width) => Math.ceil(distance / Math.floor(width / 2));

function pathsBetween(a, b, n) {
  const distance = b - a;
  return [recurrentPath(a, b), convolutionPath("convolutions", a, b, n, range(0, plainLayers(distance, KERNEL)).map(() => 1)),
    convolutionPath("dilated convolutions", a, b, n, range(0, dilatedLayers(distance)).map((i) => 2 ** i)), attentionPath(a, b, n)];
}

function drawPaths(body, state, ends) {
  const tokens = state.run.source.tokens;
  if (tokens.length < 2) return body.append(el("p", {}, "One token has no other to reach: write a longer sentence."));
  const place = el("div", { class: "paths" });
  const said = el("p", { class: "readout", id: "path-says", "aria-live": "polite" });
  const row = tokenRow({ name: "two words", tokens, onSelect: (i) => {
    if (i === ends.first || i === ends.second) return;
    [ends.first, ends.second] = [ends.second, i]; // the older choice goes
    show();
  } });
  const show = () => {
    [...row.children].forEach((chip, i) => chip.setAttribute("aria-pressed", String(i === ends.first || i === ends.second)));
    const [a, b] = [ends.first, ends.second].sort((x, y) => x - y);
    const paths = pathsBetween(a, b, tokens.length);
    place.replaceChildren();
    paths.forEach((path) => place.append(pathPanel(path, tokens, a, b, place.clientWidth)));
    said.textContent = `From “${shown(tokens[a])}” to “${shown(tokens[b])}”: `
      + `${paths.map(({ name, path }) => `${path.length - 1} ${path.length === 2 ? "step" : "steps"} with ${name}`).join(", ")}.`;
  };
  body.append(row, place, said);
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
  const nodes = isSmall ? range(0, rows + 1).flatMap((row) => range(0, n).map((i) => svg("circle", { ...at([row, i]), r: 2, class: "node" }))) : [];
  const word = (i) => {
    const half = (shown(tokens[i]).length * LETTER) / 2 + 2;
    const centre = Math.max(half, Math.min(width - half, x(i)));
    return svg("text", { x: centre, y: height - 10, "text-anchor": "middle", class: "word" }, shown(tokens[i]));
  };
  const ends = [path[0], path.at(-1)].map((node) => svg("circle", { ...at(node), r: 5.5, class: "end" }));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${name}: ${steps} steps` },
    svg("path", { d: isSmall ? seen([rows, b], sees).map((edge) => line(...edge)).join("") : "", class: "field" }), ...nodes,
    svg("path", { d: path.slice(1).map((node, i) => line(path[i], node)).join(""), class: "way" }), ...ends, word(a), word(b));
  return el("div", { class: "path", "data-path": name, "data-steps": steps },
    el("h4", {}, name, el("b", {}, ` ${steps} ${steps === 1 ? "step" : "steps"}`)), picture);
}

/** All edges that lead to a node, each once. */
function seen(node, sees) {
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

/** Table 1's rows: operations of a layer, sequential operations, and the longest path, as TeX and as functions of n and d. */
const LAYERS = [
  { name: "self-attention", colour: "query", tex: "n^2 d", operations: (n, d) => n * n * d, sequential: () => 1, path: () => 1, orders: ["1", "1"] },
  { name: "recurrent", colour: "key", tex: "n d^2", operations: (n, d) => n * d * d, sequential: (n) => n, path: (n) => n, orders: ["n", "n"] },
  { name: "convolutional", colour: "value", tex: "k n d^2", operations: (n, d) => KERNEL * n * d * d, sequential: () => 1,
    path: (n) => plainLayers(n - 1, KERNEL), orders: ["1", "n/k"] },
  { name: "convolutional, dilated", tex: "k n d^2", operations: (n, d) => KERNEL * n * d * d, sequential: () => 1,
    path: (n) => dilatedLayers(n - 1), orders: ["1", "\\log_k n"] },
  { name: "self-attention, restricted", colour: "decoder", tex: "r n d", operations: (n, d) => Math.min(NEIGHBOURS, n) * n * d, sequential: () => 1,
    path: (n) => plainLayers(n - 1, NEIGHBOURS), orders: ["1", "n/r"] },
];

const LONGEST = 12; // the slider's end: two to this power

function drawCosts(body, state, costs) {
  const d = state.model.config.d_model;
  const own = state.run.source.tokens.length;
  costs.n ??= own;
  const [table, chart] = [el("div", { class: "scroller" }), el("div", { class: "cost-chart" })];
  const said = el("p", { id: "cost-says", "aria-live": "polite" });
  // The slider moves in powers of two; what it says is the whole number that is used.
  const length = slider({ name: "n, the tokens of the sentence", min: 1, max: LONGEST, step: 0.01, value: Math.log2(costs.n), key: "costs n",
    format: (x) => count(2 ** x), onChange: (x) => show(Math.round(2 ** x)) });
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
    said.textContent = costSays(n, d);
  };
  body.append(el("div", { class: "controls" }, length, button(`this sentence: ${own}`, () => reset(own), { "data-key": "costs own" }),
    button(`n = d: ${count(d)}`, () => reset(d), { "data-key": "costs equal" })), said, table, chart);
  show(costs.n);
}

function costSays(n, d) {
  if (n === d) return `At n = d = ${d} a self-attention layer and a recurrent layer cost the same, ${count(n * n * d)} multiplications.`;
  const [factor, word] = n < d ? [d / n, "cheaper"] : [n / d, "dearer"];
  return `With ${count(n)} tokens and d = ${d}, a self-attention layer is ${number(factor, 2)} times ${word} than a recurrent one, `
    + `and waits for 1 step instead of ${count(n)}.`;
}

function costTable(n, d) {
  const cell = (tex, value) => el("td", { class: "number", "data-value": value }, el("span", { class: "order" }, formula(tex)), count(value));
  return el("table", { class: "costs" },
    el("thead", {}, el("tr", {}, ["layer", "operations", "in sequence", "longest path"].map((name, i) => el("th", { class: i ? "number" : null, scope: "col" }, name)))),
    el("tbody", {}, LAYERS.map(({ name, tex, operations, sequential, path, orders }) => el("tr", { "data-layer": name },
      el("th", { scope: "row" }, name), cell(tex, operations(n, d)), cell(orders[0], sequential(n)), cell(orders[1], path(n))))));
}

function costChart(root, n, d) {
  const lengths = range(0, 2 * LONGEST + 1).map((i) => 2 ** (i / 2)).filter((x) => x >= 2);
  const drawn = LAYERS.filter(({ colour }) => colour);
  const ends = [lengths[0], lengths.at(-1)];
  const highest = Math.max(...drawn.map(({ operations }) => operations(ends[1], d)));
  lineChart(root, { x: "n, tokens", y: "operations of a layer", logX: true, logY: true, height: 260, domainX: ends,
    series: drawn.map(({ name, colour, operations }) => ({ name, colour, points: lengths.map((x) => [x, operations(x, d)]) }))
      .concat([{ name: `n = ${count(n)}`, colour: "soft", dashed: true, points: [[n, drawn[0].operations(1, d)], [n, highest]] }]),
    marks: [{ x: d, y: d ** 3, colour: "ink", text: `n = d = ${d}` }] });
}
