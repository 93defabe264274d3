// Chapter 4: what tells the model where a word stands (section 3.5).
import { asked } from "../lib/asked.js";
import { bars, lineChart } from "../lib/charts.js";
import { button, choice, slider, tokenRow } from "../lib/controls.js";
import { count, el, formula, number, prose } from "../lib/dom.js";
import { figure, keepFocus } from "../lib/figure.js";
import { measured } from "../lib/measured.js";
import { heatmap } from "../lib/heatmap.js";
import { columnsOf, fitError, frequencies, rotationError, sinusoids, turn } from "../lib/positions.js";
import { norm, Tensor, timesTransposed } from "../lib/tensors.js";

export default { id: "positions", number: 4, title: "Where a word stands", paper: "section 3.5", render };

const TEXT = String.raw`
<p>Attention is a set operation: shuffle the words, and every output is the same, only shuffled too. “The dog bites the man” and “the
  man bites the dog” would be one sentence. So before the first layer each token gets a vector added that says where it stands.
  The paper's has no parameters. Its components come in pairs, a sine and a cosine of one frequency, and the frequencies fall from one
  radian per word to about a ten-thousandth:</p>
\[ \begin{aligned} PE_{(pos,\,2i)} &= \sin(pos\,\omega_i) \\ PE_{(pos,\,2i+1)} &= \cos(pos\,\omega_i) \end{aligned}
  \quad \omega_i = 10000^{-2i/d} \]
<p>It is <em>added</em>, not put beside the embedding: one vector has to carry both, and the layers learn to keep them apart. The paper
  multiplies embeddings by \(\sqrt{d}\) first, which brings both to lengths of one order. Choose a token to see the two and their sum.</p>`;

const CLOCKS = String.raw`
<p>Why sines? Look at each pair as the hand of a clock. The first goes round in six words, the last would take sixty thousand; together
  they tell the position as hours, minutes and seconds tell the time. And to go \(k\) words further is to turn each hand by an angle that
  depends on \(k\) alone, not on where you are:</p>
\[ \begin{aligned} PE_{pos+k} &= M_k\, PE_{pos} \\[4pt]
  M_k^{(i)} &= \begin{pmatrix} \cos k\omega_i & \sin k\omega_i \\ -\sin k\omega_i & \cos k\omega_i \end{pmatrix} \end{aligned} \]
<p>So “three words back” is one and the same linear map everywhere in the sentence, and linear maps are what a layer's matrices can
  learn. Move the shift \(k\), then the position: the angle between the hands stays.</p>`;

const LEARNED = String.raw`
<p>This checkpoint has learned its positions instead, a table of parameters as in Table 3, row (E). Nothing makes such a table turn like
  clocks; whether one matrix \(M_k\) shifts it by \(k\) is a question that can be asked. Below such a matrix is fitted to the even
  positions by least squares and tried on the odd ones, for the learned table and, in the same way, for the paper's sinusoids.</p>`;

const SIMILARITY = String.raw`
<p>Positions compare by their dot product, the same operation that attention uses. For sinusoids it depends on the distance only,
  \(PE_p \cdot PE_q = \sum_i \cos((p-q)\,\omega_i)\): every row below is the same curve, moved along. Neighbours are alike, and
  far words are told apart.</p>`;

const BEYOND = String.raw`
<p>A formula has a value at every position, so the authors hoped that it would carry over to sentences longer than any in training. Having a value
  is not the same as being understood, though. Here the sentence and its translation are repeated, twice, three times, up to eight, and the
  model says how probable it finds the translation.</p>`;

const SHOWN = 128; // positions, where the model has no table to show
const FACES = 8; // clocks

function render(root, state) {
  const settings = { token: 1, stack: "encoder", row: 40, shift: 3, position: 5, pair: 0, measure: "dot product" };
  const beyond = { answer: null, question: asked({ delay: 0 }) };
  state.on("run", () => {
    Object.assign(settings, { token: 1, stack: "encoder" });
    beyond.answer = null;
    beyond.question.drop();
  });
  root.append(prose(TEXT));
  figure(root, state, { wide: true, draw: (body) => drawSum(body, state, settings),
    caption: "Orange is negative, blue positive. In the large map each row is what is added at one position." });
  const aboutShift = el("div");
  root.append(aboutShift);
  state.on("model", () => aboutShift.replaceChildren(...(kindOf(state) === "learned"
    ? [el("h3", {}, "Is a shift a rotation?"), prose(LEARNED)] : [el("h3", {}, "A shift is a rotation"), prose(CLOCKS)])));
  figure(root, state, { wide: true,
    draw: (body) => (kindOf(state) === "learned" ? drawFit(body, state) : drawClocks(body, state, settings)) });
  root.append(el("h3", {}, "What is near, what is far"), prose(SIMILARITY));
  figure(root, state, { wide: true, draw: (body) => drawSimilarity(body, state, settings),
    caption: "Choose a row of the map: the chart shows it as a curve." });
  root.append(el("h3", {}, "Beyond the lengths it knows"), prose(BEYOND));
  const lengths = figure(root, state, { draw: (body) => drawBeyond(body, state, beyond, () => lengths.redraw()),
    caption: "Mean log-probability of a token, teacher-forced. To say the same thing eight times is strange in itself, so a fall is not "
      + "the positions' fault alone. The dashed line, where it is in reach, is the longest translation in training." });
  measured(root, "length");
}

const kindOf = (state) => state.model.config.position_encoding;

/** What the model adds at each position [P, D]; where it adds nothing, the paper's. */
function table(state) {
  const { d_model } = state.model.config;
  return kindOf(state) === "none" ? sinusoids(SHOWN, d_model) : state.modelTensors.get("positions");
}

const isConcatenated = (state) => kindOf(state) !== "none" && state.model.config.position_layout === "concatenated";

/** Where what is shown is not this model's, or not in the paper's order. */
function noteOf(state) {
  const text = kindOf(state) === "none" ? "This checkpoint adds no positions; these are the paper's, at its width."
    : isConcatenated(state) ? "This checkpoint keeps all sines in the first half and all cosines in the second." : null;
  return text ? el("p", { class: "note" }, text) : "";
}

const NONE = "This checkpoint adds nothing: all that it can know of the order comes through the decoder's mask.";

// What is added -------------------------------------------------------------------------------------------------------

function drawSum(body, state, settings) {
  const [place, angle] = [el("div"), el("p", { class: "note", id: "position-angle", "aria-live": "polite" })];
  const stacks = [["encoder", "the encoder"], ["decoder", "the decoder"]];
  const picker = choice({ name: "what enters", options: stacks, value: settings.stack, onChange: (stack) => {
    Object.assign(settings, { stack, token: 0 });
    show();
  } });
  body.append(el("div", { class: "controls" }, picker), place, angle);
  const show = () => keepFocus(place, () => {
    const tokens = settings.stack === "encoder" ? state.run.source.tokens : state.run.target.tokens;
    settings.token = Math.min(settings.token, tokens.length - 1);
    place.replaceChildren(tokenRow({ name: "token", tokens, value: settings.token, onSelect: (token) => {
      settings.token = token;
      show();
    } }));
    angle.textContent = showSum(place, parts(state, settings));
  });
  show();
  body.append(el("h4", {}, `All positions: ${table(state).shape.join(" × ")}`), noteOf(state));
  const map = heatmap(body, table(state), { scale: "signed", label: "Position encoding", rowName: "position", columnName: "component" });
  map.id = "position-table";
}

/** Three rows, embedding, position and their sum, of one token. */
function parts(state, { stack, token }) {
  const { d_model } = state.model.config;
  const row = (name) => state.tensors.get(`${stack}.${name}`)?.part(token).data ?? new Float32Array(d_model);
  return { embedding: row("embedding"), position: row("positions"), sum: row("input") };
}

/** Adds the three vectors and their lengths, and returns these in a sentence. */
function showSum(root, { embedding, position, sum }) {
  const stacked = new Tensor([3, sum.length], Float32Array.from([...embedding, ...position, ...sum]));
  const names = ["embedding", "+ position", "= input"];
  const box = el("div", { id: "position-sum" });
  const list = el("div", { class: "lengths" });
  root.append(box, list);
  heatmap(box, stacked, { rows: names.map((text) => ({ text })), scale: "signed", label: "Embedding, position and their sum",
    read: (r, c, value) => `${names[r]}, component ${c}: ${number(value)}` });
  const lengths = [embedding, position, sum].map(norm);
  const bar = (name, i) => ({ name, value: lengths[i], colour: ["query", "key", "soft"][i] });
  bars(list, ["embedding", "position", "their sum"].map(bar), { label: "Lengths (norms)" });
  return angleText(embedding, position, lengths);
}

function angleText(embedding, position, [first, second, sum]) {
  if (!second) return NONE;
  if (!first) return "This token has no embedding of its own, it is zero: what enters is the position alone.";
  const cosine = embedding.reduce((total, x, c) => total + x * position[c], 0) / (first * second);
  const angle = Math.round((Math.acos(cosine) * 180) / Math.PI);
  const result = `Lengths ${number(first)} and ${number(second)} at an angle of ${angle}° give ${number(sum)}.`;
  const isNearlyRight = Math.abs(cosine) < 0.25;
  return isNearlyRight ? `${result} Nearly a right angle, as between most vectors of so many dimensions: neither hides the other.` : result;
}

// The rotation --------------------------------------------------------------------------------------------------------

function drawClocks(body, state, settings) {
  const rows = table(state);
  const omegas = frequencies(rows, isConcatenated(state));
  const last = rows.shape[0] - 1;
  const widest = Math.min(64, last);
  settings.shift = Math.min(settings.shift, widest);
  settings.pair = Math.min(settings.pair, omegas.length - 1);
  const move = (name, setting, max) => slider({ name, min: 0, max, step: 1, value: settings[setting], format: count,
    onChange: (x) => show({ [setting]: x }) });
  const [shift, position] = [move("shift k", "shift", widest), move("position", "position", last)];
  const pair = move("pair i", "pair", omegas.length - 1);
  const faces = el("div", { class: "clocks", role: "group", "aria-label": "Pairs as clocks" });
  const [block, result] = [el("div"), el("p", { id: "rotation-result", "aria-live": "polite" })];
  const numbers = el("div", { class: "side-by-side" }, block,
    el("div", {}, el("h4", {}, `All ${omegas.length} blocks, all positions`), result));
  const show = (change = {}) => {
    Object.assign(settings, change);
    settings.position = Math.min(settings.position, last - settings.shift);
    set(position, settings.position, last - settings.shift);
    set(pair, settings.pair);
    const view = { ...settings, rows, omegas, columns: (i) => columnsOf(i, rows.shape[1], isConcatenated(state)) };
    const clocks = facesOf(omegas.length, settings.pair).map((i) => clock(i, view, () => show({ pair: i })));
    keepFocus(faces, () => faces.replaceChildren(...clocks));
    block.replaceChildren(...blockOf(view));
    const error = rotationError(rows, omegas, settings.shift, isConcatenated(state));
    result.textContent = errorText(view, error);
    result.dataset.error = error;
  };
  const legend = el("p", { class: "note" }, el("span", { class: "before" }), " the pair at the position, ", el("span", { class: "after" }),
    " the pair k words further; between them the angle that the matrix turns by.");
  body.append(noteOf(state), el("div", { class: "controls" }, shift, position, pair), faces, legend, numbers);
  show();
}

/** Moves a slider from outside. */
function set(control, value, max = null) {
  const input = control.querySelector("input");
  if (max !== null) input.max = max;
  input.value = value;
  control.querySelector("output").textContent = count(value);
}

/** Some pairs from the fastest to the slowest, and the chosen one in the place of the nearest. */
function facesOf(pairs, chosen) {
  const faces = Math.min(FACES, pairs);
  // More of the fast ones, where there is something to see.
  const spread = Array.from({ length: faces }, (_, j) => Math.round((pairs - 1) * (j / Math.max(1, faces - 1)) ** 1.6));
  const nearest = spread.reduce((best, i, j) => (Math.abs(i - chosen) < Math.abs(spread[best] - chosen) ? j : best), 0);
  return spread.map((i, j) => (j === nearest ? chosen : i));
}

const degrees = (radians) => `${number((radians * 180) / Math.PI, 2)}°`;

function clock(i, { omegas, shift, pair, ...view }, onSelect) {
  const [period, turned] = [`${number((2 * Math.PI) / omegas[i], 2)} words`, degrees(shift * omegas[i])];
  const chip = button("", onSelect, { class: "clock", "aria-pressed": String(i === pair), "data-key": `clock ${i}`,
    "aria-label": `pair ${i}: once round in ${period}, turned by ${turned}` });
  const lines = [el("b", {}, `i = ${i}`), el("span", {}, period), el("span", {}, `turned ${turned}`)];
  chip.append(el("span", {}, face(i, { omegas, shift, ...view }), lines));
  return chip;
}

/** A clock's face: the sine goes right and the cosine up, so that the hand starts at twelve and goes round as hands do. */
function face(i, { rows, omegas, columns, position, shift }) {
  const { d3 } = window;
  const [sine, cosine] = columns(i);
  const start = position * omegas[i];
  const turned = Math.min(shift * omegas[i], 2 * Math.PI);
  const svg = d3.create("svg").attr("viewBox", "0 0 100 100").attr("aria-hidden", "true");
  svg.append("circle").attr("class", "face").attr("cx", 50).attr("cy", 50).attr("r", 42);
  svg.append("path").attr("class", "turn").attr("transform", "translate(50,50)")
    .attr("d", d3.arc()({ innerRadius: 0, outerRadius: 36, startAngle: start, endAngle: start + turned }));
  for (const [p, name] of [[position, "hand"], [position + shift, "hand shifted"]])
    svg.append("line").attr("class", name).attr("x1", 50).attr("y1", 50)
      .attr("x2", 50 + 36 * rows.at(p, sine)).attr("y2", 50 - 36 * rows.at(p, cosine));
  return svg.node();
}

/** One block of M_k, with the numbers of a position. */
function blockOf({ rows, omegas, columns, position, shift, pair }) {
  const at = (p) => columns(pair).map((column) => rows.at(p, column));
  const [c, s] = [Math.cos(shift * omegas[pair]), Math.sin(shift * omegas[pair])];
  const row = (numbers) => numbers.map((x) => x.toFixed(4)).join(" & ");
  const matrix = (...lines) => `\\begin{pmatrix} ${lines.map(row).join(" \\\\ ")} \\end{pmatrix}`;
  const vector = (pair) => matrix(...pair.map((x) => [x]));
  const turned = turn(at(position), shift * omegas[pair]);
  const expected = at(position + shift).map((x) => number(x, 4));
  return [el("h4", {}, `The block of pair ${pair}, at position ${position}`),
    el("div", { class: "scroller" }, formula(`${matrix([c, s], [-s, c])} ${vector(at(position))} = ${vector(turned)}`, true)),
    el("p", { class: "note" }, `In the table, position ${position + shift} has (${expected.join(", ")}).`)];
}

function errorText({ rows, shift }, error) {
  const result = `With k = ${shift}, one matrix takes each of ${rows.shape[0] - shift} positions to the one ${shift} further. The largest `
    + `error in any of their ${count(rows.shape[1])} components is ${number(error, 2)}`;
  return error < 1e-4 ? `${result}: rounding.` : `${result}.`;
}

// Learned positions ---------------------------------------------------------------------------------------------------

const SHIFTS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

function drawFit(body, state) {
  const learned = table(state);
  const computed = sinusoids(...learned.shape);
  const shifts = SHIFTS.filter((k) => k < learned.shape[0] / 2);
  if (!shifts.length) return body.append(el("p", {}, "This table has too few positions to ask."));
  const points = (rows) => shifts.map((k) => [k, fitError(rows, k)]);
  const [own, papers] = [points(learned), points(computed)];
  lineChart(body, { x: "shift k", y: "error", domainY: [0, Math.max(1, ...own.map(([, error]) => error))],
    series: [{ name: "this model's table", colour: "key", points: own },
      { name: "the paper's sinusoids", colour: "query", points: papers }] });
  body.append(el("p", { id: "fit-result", "data-error": own[0][1] },
    `At k = ${shifts[0]} the fitted matrix misses by ${number(own[0][1], 2)} for the learned table, and by ${number(papers[0][1], 2)} `
    + "for the sinusoids. 0 is a perfect shift; 1 is no better than the mean of all positions."));
}

// Similarity ----------------------------------------------------------------------------------------------------------

function similarity(rows, measure) {
  const products = timesTransposed(rows, rows);
  if (measure === "dot product") return products;
  const [n] = products.shape;
  const lengths = Array.from({ length: n }, (_, p) => Math.sqrt(products.at(p, p)) || 1);
  return new Tensor([n, n], products.data.map((x, i) => x / (lengths[Math.floor(i / n)] * lengths[i % n])));
}

function drawSimilarity(body, state, settings) {
  const place = el("div");
  const maps = [[kindOf(state) === "learned" ? "this model's, learned" : "sinusoids", table(state)]];
  if (kindOf(state) === "learned") maps.push(["the paper's sinusoids", sinusoids(...table(state).shape)]);
  settings.row = Math.min(settings.row, table(state).shape[0] - 1);
  const measures = [["dot product", "dot product"], ["cosine", "cosine"]];
  const picker = choice({ name: "measure", options: measures, value: settings.measure, onChange: (measure) => {
    settings.measure = measure;
    show();
  } });
  body.append(noteOf(state), el("div", { class: "controls" }, picker), place);
  const show = () => {
    place.replaceChildren();
    showSimilarity(place, maps.map(([name, rows]) => [name, similarity(rows, settings.measure)]), settings);
  };
  show();
}

function showSimilarity(root, maps, settings) {
  const boxes = el("div", { class: "side-by-side" }, maps.map(() => el("div")), el("div"));
  root.append(boxes);
  const chart = boxes.lastChild;
  const curve = () => {
    chart.replaceChildren(el("h4", {}, `Position ${settings.row} and the others`));
    const points = (map) => [...map.part(settings.row).data].map((x, q) => [q, x]);
    const series = maps.map(([name, map], i) => ({ name, colour: ["key", "query"][i], points: points(map) }));
    lineChart(chart, { x: "position", y: settings.measure, height: 320, series, read: (x) => {
      const q = Math.max(0, Math.min(maps[0][1].shape[0] - 1, Math.round(x)));
      return `${settings.row} and ${q}: ${maps.map(([name, map]) => `${number(map.at(settings.row, q))} (${name})`).join(", ")}`;
    } });
  };
  maps.forEach(([name, map], i) => {
    boxes.children[i].append(el("h4", {}, `${settings.measure}, ${name}`));
    const label = `Similarity of positions: ${settings.measure}, ${name}`;
    heatmap(boxes.children[i], map, { scale: "signed", label, rowName: "position", columnName: "position",
      onSelect: (row) => {
        settings.row = row;
        curve();
      } });
  });
  curve();
}

// Beyond --------------------------------------------------------------------------------------------------------------

function drawBeyond(body, state, beyond, redraw) {
  const { answer, question } = beyond;
  if (answer) return showBeyond(body, answer);
  const ask = () => {
    if (question.isBusy) return;
    question.ask(() => state.source.beyond(state.run), (answer) => {
      beyond.answer = answer;
      redraw();
    });
  };
  body.append(button("Repeat the sentence up to 8 times", ask, { "data-key": "beyond" }), question.status);
}

/** The mean log-probability of a token for each number of copies: [copies, tokens, mean]. */
function meansOf(points) {
  const groups = window.d3.group(points, ({ copies }) => copies);
  const mean = (all) => window.d3.mean(all, ({ log_prob }) => log_prob);
  return [...groups].map(([copies, all]) => [copies, all.length, mean(all)]).sort((a, b) => a[0] - b[0]);
}

function showBeyond(body, { trained_length: trained, points, problem }) {
  if (problem) body.append(el("p", { class: "note", id: "beyond-problem" }, problem));
  if (!points.length) return;
  const means = meansOf(points);
  const [longest, length] = means.at(-1);
  const single = points.filter(({ copies }) => copies === longest).map(({ position, log_prob }) => [position, log_prob]);
  const lowest = Math.min(...single.map(([, y]) => y));
  const line = { name: `longest in training: ${trained}`, colour: "soft", dashed: true, points: [[trained, lowest], [trained, 0]] };
  const limit = trained && trained <= length * 1.5 ? [line] : [];
  lineChart(body, { x: "tokens of the translation", y: "log-probability", height: 280, series: [
    { name: `each token of ${longest} copies`, colour: "line", points: single },
    { name: "mean of a whole text, by its length", colour: "key", points: means.map(([, tokens, mean]) => [tokens, mean]) }, ...limit] });
  const [[, firstLength, first], [, , last]] = [means[0], means.at(-1)];
  body.append(el("p", { id: "beyond-result", "aria-live": "polite" },
    `A token has a mean log-probability of ${number(first)} where the sentence stands once (${firstLength} tokens), and of ${number(last)} `
    + `where it stands ${longest} times (${length} tokens).`));
}
