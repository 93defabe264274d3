// Chapter 4: positional encodings (section 3.5).
import { latestRequest } from "../lib/requests.js";
import { bars, lineChart } from "../lib/charts.js";
import { button, choice, slider, tokenRow } from "../lib/controls.js";
import { count, el, formula, number, prose } from "../lib/dom.js";
import { figure, keepFocus } from "../lib/figure.js";
import { findingsSection } from "../lib/findings-section.js";
import { heatmap } from "../lib/heatmap.js";
import { columnsOf, fitError, frequencies, rotationError, sinusoids, turn } from "../lib/positions.js";
import { norm, Tensor, timesTransposed } from "../lib/tensors.js";

export default { id: "positions", number: 4, title: "Positional encoding", paper: "section 3.5", render };

const TEXT = String.raw`
<p>Attention ignores the order of the words. If you shuffle them, the outputs are the same vectors, only shuffled: “the dog bites
  the man” and “the man bites the dog” would look alike. So before the first layer the model adds a vector to each token that encodes
  its position. In the paper this vector has no parameters. Its components come in pairs, a sine and a cosine of the same frequency, and
  the frequencies fall from one radian per position to about a ten-thousandth:</p>
\[ \begin{aligned} \pos{PE_{(pos,\,2i)}} &= \sin(pos\,\omega_i) \\ \pos{PE_{(pos,\,2i+1)}} &= \cos(pos\,\omega_i) \end{aligned}
  \quad \omega_i = 10000^{-2i/d} \]
<p>The vector is <em>added</em> to the embedding, not appended to it. One vector carries both, and the layers learn to tell them apart.
  The paper multiplies the embeddings by \(\sqrt{d}\) first, so that both vectors have similar lengths. Choose a token to see
  the two vectors and their sum.</p>`;

const CLOCKS = String.raw`
<p>Why sines? Think of each pair as the hand of a clock. The first hand needs about six positions for a full turn, the last one about
  sixty thousand. Together they tell the position, as the hands for hours, minutes and seconds tell the time. A move by \(k\) positions
  turns each hand by an angle that depends only on \(k\), not on where you start:</p>
\[ \begin{aligned} \pos{PE_{pos+k}} &= M_k\, \pos{PE_{pos}} \\[4pt]
  M_k^{(i)} &= \begin{pmatrix} \cos k\omega_i & \sin k\omega_i \\ -\sin k\omega_i & \cos k\omega_i \end{pmatrix} \end{aligned} \]
<p>So “three words back” is the same linear map everywhere in the sentence, and the matrices of a layer can learn linear maps. Move the
  shift \(k\), then the position: the angle between the hands stays the same.</p>`;

const LEARNED = String.raw`
<p>This checkpoint uses learned positions instead, a table of parameters as in Table 3, row (E). Nothing forces such a table to turn like
  a clock, but you can test whether a single matrix \(M_k\) shifts it by \(k\). Below, such a matrix is fitted to the even positions by
  least squares and tested on the odd ones, for the learned table and for the paper's sinusoids.</p>`;

const SIMILARITY = String.raw`
<p>Positions are compared by their dot product, the operation that attention uses. For sinusoids it depends only on the distance,
  \(\pos{PE_p} \cdot \pos{PE_q} = \sum_i \cos((p-q)\,\omega_i)\): every row below is the same curve, shifted. Neighbouring positions are similar,
  and distant ones differ.</p>`;

const BEYOND = String.raw`
<p>A formula has a value at every position, so the authors hoped that the model would also handle sentences longer than those in training.
  But a model may not know what to do with a position that it has never seen. Here the sentence and its translation are repeated up to
  eight times, and the model computes the probability of each token of the translation.</p>`;

const PAPER_POSITIONS = 128; // shown if the model has no table
const MAX_FACES = 8; // clocks

function render(root, state) {
  const settings = { token: 1, stack: "encoder", row: 40, shift: 3, position: 5, pair: 0, measure: "dot product" };
  const beyond = { response: null, request: latestRequest({ delay: 0 }) };
  state.on("run", () => {
    Object.assign(settings, { token: 1, stack: "encoder" });
    beyond.response = null;
    beyond.request.cancel();
  });
  root.append(prose(TEXT), el("h3", {}, "The sum"));
  figure(root, state, { wide: true, draw: (body) => drawSum(body, state, settings),
    caption: "Orange is negative, blue is positive. Each row of the large map is the vector that is added at one position." });
  const aboutShift = el("div");
  root.append(aboutShift);
  state.on("model", () => aboutShift.replaceChildren(...(kindOf(state) === "learned"
    ? [el("h3", {}, "Is a shift a rotation?"), prose(LEARNED)] : [el("h3", {}, "A shift is a rotation"), prose(CLOCKS)])));
  figure(root, state, { wide: true,
    draw: (body) => (kindOf(state) === "learned" ? drawFit(body, state) : drawClocks(body, state, settings)) });
  root.append(el("h3", {}, "The similarity of positions"), prose(SIMILARITY));
  figure(root, state, { wide: true, draw: (body) => drawSimilarity(body, state, settings),
    caption: "Choose a row of the map to show it as a curve in the chart." });
  root.append(el("h3", {}, "Longer than in training"), prose(BEYOND));
  const lengths = figure(root, state, { draw: (body) => drawBeyond(body, state, beyond, () => lengths.redraw()),
    caption: "Mean log-probability of a token with teacher forcing (chapter 6). A text that repeats itself eight times is unusual in itself, so the "
      + "positions are not the only cause of a fall. The dashed line, if in range, marks the longest translation in training." });
  findingsSection(root, "length");
}

const kindOf = (state) => state.model.config.position_encoding;

/** The model's table of positions [P, D], or the paper's if the model has none. */
function table(state) {
  const { d_model } = state.model.config;
  return kindOf(state) === "none" ? sinusoids(PAPER_POSITIONS, d_model) : state.modelTensors.get("positions");
}

const isConcatenated = (state) => kindOf(state) !== "none" && state.model.config.position_layout === "concatenated";

/** A note if the table is not this model's, or not in the paper's order. */
function noteOf(state) {
  const text = kindOf(state) === "none" ? "This checkpoint adds no positions. The figures show the paper's, with the width of this model."
    : isConcatenated(state) ? "This checkpoint stores all sines in the first half and all cosines in the second." : null;
  return text ? el("p", { class: "note" }, text) : "";
}

const NONE = "This checkpoint adds no positions. It can learn about the order of the words only from the decoder's mask.";

// The sum -------------------------------------------------------------------------------------------------------

function drawSum(body, state, settings) {
  const [place, angle] = [el("div"), el("p", { class: "note", id: "position-angle", "aria-live": "polite" })];
  const stacks = [["encoder", "encoder"], ["decoder", "decoder"]];
  const picker = choice({ name: "input of", options: stacks, value: settings.stack, onChange: (stack) => {
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
  const map = heatmap(body, table(state), { scale: "signed", label: "Positional encoding", rowName: "position", columnName: "component" });
  map.id = "position-table";
}

/** The embedding, the position and their sum for one token. */
function parts(state, { stack, token }) {
  const { d_model } = state.model.config;
  const row = (name) => state.tensors.get(`${stack}.${name}`)?.part(token).data ?? new Float32Array(d_model);
  return { embedding: row("embedding"), position: row("positions"), sum: row("input") };
}

/** Adds the three vectors and their lengths to `root`; returns a sentence about their lengths. */
function showSum(root, { embedding, position, sum }) {
  const stacked = new Tensor([3, sum.length], Float32Array.from([...embedding, ...position, ...sum]));
  const names = ["embedding", "+ position", "= input"];
  const box = el("div", { id: "position-sum" });
  const list = el("div", { class: "lengths" });
  root.append(box, list);
  heatmap(box, stacked, { rows: names.map((text) => ({ text })), scale: "signed", label: "Embedding, position and their sum",
    read: (r, c, value) => `${names[r]}, component ${c}: ${number(value)}` });
  const lengths = [embedding, position, sum].map(norm);
  const bar = (name, i) => ({ name, value: lengths[i], colour: ["soft", "position", "residual"][i] });
  bars(list, ["embedding", "position", "their sum"].map(bar), { label: "Lengths (norms)" });
  return angleText(embedding, position, lengths);
}

function angleText(embedding, position, [first, second, sum]) {
  if (!second) return NONE;
  if (!first) return "The embedding of this token is zero, so its input is the position alone.";
  const cosine = embedding.reduce((total, x, c) => total + x * position[c], 0) / (first * second);
  const angle = Math.round((Math.acos(cosine) * 180) / Math.PI);
  const result = `Vectors of length ${number(first)} and ${number(second)} at an angle of ${angle}° have a sum of length ${number(sum)}.`;
  const isNearlyRight = Math.abs(cosine) < 0.25;
  return isNearlyRight ? `${result} This is nearly a right angle, as between most vectors with so many components, so neither hides the other.` : result;
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
    " the pair k positions further on; the sector between them is the angle of the rotation. The period is the number of positions for a full turn.");
  body.append(noteOf(state), el("div", { class: "controls" }, shift, position, pair), faces, legend, numbers);
  show();
}

/** Sets the value of a slider. */
function set(control, value, max = null) {
  const input = control.querySelector("input");
  if (max !== null) input.max = max;
  input.value = value;
  control.querySelector("output").textContent = count(value);
}

/** A selection of pairs from the fastest to the slowest; the chosen one replaces the nearest. */
function facesOf(pairs, chosen) {
  const faces = Math.min(MAX_FACES, pairs);
  // More fast pairs than slow ones, because they move visibly.
  const spread = Array.from({ length: faces }, (_, j) => Math.round((pairs - 1) * (j / Math.max(1, faces - 1)) ** 1.6));
  const nearest = spread.reduce((best, i, j) => (Math.abs(i - chosen) < Math.abs(spread[best] - chosen) ? j : best), 0);
  return spread.map((i, j) => (j === nearest ? chosen : i));
}

/** The number of positions for a full turn, with two digits. */
const periodOf = (omega) => ((period) => (period < 1000 ? number(period, 2) : count(Number(period.toPrecision(2)))))((2 * Math.PI) / omega);

const degrees = (radians) => `${number((radians * 180) / Math.PI, 2)}°`;

function clock(i, { omegas, shift, pair, ...view }, onSelect) {
  const [period, turned] = [`period ${periodOf(omegas[i])}`, degrees(shift * omegas[i])];
  const chip = button("", onSelect, { class: "clock", "aria-pressed": String(i === pair), "data-key": `clock ${i}` });
  const lines = [el("b", {}, `i = ${i}`), el("span", {}, period), el("span", {}, `turned ${turned}`)];
  chip.append(el("span", {}, face(i, { omegas, shift, ...view }), lines));
  return chip;
}

/** A clock's face: the sine points right and the cosine up, so the hand starts at twelve and turns clockwise. */
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

/** A block of M_k, applied to the pair at a position. */
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
    el("p", { class: "note" }, `The table has (${expected.join(", ")}) at position ${position + shift}.`)];
}

function errorText({ rows, shift }, error) {
  const result = `With k = ${shift}, one matrix maps each of ${rows.shape[0] - shift} positions to the position ${shift} further on. The `
    + `largest error in any of the ${count(rows.shape[1])} components is ${number(error, 2)}`;
  return error < 1e-4 ? `${result}, a rounding error.` : `${result}.`;
}

// Learned positions ---------------------------------------------------------------------------------------------------

const SHIFTS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

function drawFit(body, state) {
  const learned = table(state);
  const computed = sinusoids(...learned.shape);
  const shifts = SHIFTS.filter((k) => k < learned.shape[0] / 2);
  if (!shifts.length) return body.append(el("p", {}, "This table has too few positions for this test."));
  const points = (rows) => shifts.map((k) => [k, fitError(rows, k)]);
  const [learnedErrors, paperErrors] = [points(learned), points(computed)];
  lineChart(body, { x: "shift k", y: "error", domainY: [0, Math.max(1, ...learnedErrors.map(([, error]) => error))],
    series: [{ name: "this model's table", colour: "position", points: learnedErrors },
      { name: "the paper's sinusoids", colour: "a", points: paperErrors }] });
  body.append(el("p", { id: "fit-result", "data-error": learnedErrors[0][1] },
    `At k = ${shifts[0]} the error of the fitted matrix is ${number(learnedErrors[0][1], 2)} for the learned table and `
    + `${number(paperErrors[0][1], 2)} for the sinusoids. 0 is a perfect shift; 1 is as bad as the mean of all positions.`));
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
  const maps = [[kindOf(state) === "learned" ? "learned, this model" : "sinusoids", table(state)]];
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
    chart.replaceChildren(el("h4", {}, `Position ${settings.row} compared with all positions`));
    const points = (map) => [...map.part(settings.row).data].map((x, q) => [q, x]);
    const series = maps.map(([name, map], i) => ({ name, colour: ["position", "a"][i], points: points(map) }));
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

// Longer than in training --------------------------------------------------------------------------------------------------------------

function drawBeyond(body, state, beyond, redraw) {
  const { response, request } = beyond;
  if (response) return showBeyond(body, response);
  const ask = () => {
    if (request.isBusy) return;
    request.send(() => state.source.beyond(state.run), (newResponse) => {
      beyond.response = newResponse;
      redraw();
    });
  };
  body.append(button("Repeat the sentence up to 8 times", ask, { "data-key": "beyond" }), request.status);
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
    { name: "mean over a text, by its length", colour: "a", points: means.map(([, tokens, mean]) => [tokens, mean]) }, ...limit] });
  const [[, firstLength, first], [, , last]] = [means[0], means.at(-1)];
  body.append(el("p", { id: "beyond-result", "aria-live": "polite" },
    `A token has a mean log-probability of ${number(first)} if the text contains the sentence once (${firstLength} tokens), and of ${number(last)} `
    + `if it contains the sentence ${longest} times (${length} tokens).`));
}
