// Chapter 4: what tells the model where a word stands (section 3.5).
import { bars, lineChart } from "../lib/charts.js";
import { button, choice, slider, tokenRow } from "../lib/controls.js";
import { Problem } from "../lib/data.js";
import { count, el, formula, number, prose } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { heatmap } from "../lib/heatmap.js";
import { norm, Tensor, timesTransposed } from "../lib/tensors.js";

export default { id: "positions", number: 4, title: "Where a word stands", paper: "section 3.5", render };

const TEXT = String.raw`
<p>Attention is a set operation: shuffle the words, and every output is the same, only shuffled too. “The dog bites the man” and “the
  man bites the dog” would be one sentence. So before the first layer each token gets a vector added that says where it stands.
  The paper's has no parameters. Its components come in pairs, a sine and a cosine of one frequency, and the frequencies fall from one
  radian per word to a ten-thousandth:</p>
\[ \begin{aligned} PE_{(pos,\,2i)} &= \sin(pos\,\omega_i) \\ PE_{(pos,\,2i+1)} &= \cos(pos\,\omega_i) \end{aligned}
  \qquad \omega_i = 10000^{-2i/d} \]
<p>It is <em>added</em>, not put beside the embedding: the sum has to carry both, and the model learns to keep them apart. That is
  why embeddings are multiplied by \(\sqrt{d}\) first; choose a token to see what meets what, and how long each of them is.</p>`;

const CLOCKS = String.raw`
<p>Why sines? Look at each pair as the hand of a clock. The first goes round in six words, the last would take sixty thousand; together
  they tell the position as hours, minutes and seconds tell the time. And to go \(k\) words further is to turn each hand by an angle that
  depends on \(k\) alone, not on where you are:</p>
\[ \begin{aligned} PE_{pos+k} &= M_k\, PE_{pos} \\[4pt] M_k^{(i)} &= \begin{pmatrix} \cos k\omega_i & \sin k\omega_i \\ -\sin k\omega_i & \cos k\omega_i \end{pmatrix} \end{aligned} \]
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
<p>A formula has a value at every position, so the paper's authors hoped for sentences longer than any in training. Having a value is
  not the same as being understood, though. Here the sentence and its translation are repeated, twice, three times, up to eight, and the
  model says how probable it finds the translation.</p>`;

const SHOWN = 128; // positions, where the model has no table to show
const FACES = 8; // clocks

function render(root, state) {
  const settings = { token: 1, stack: "encoder", row: 0, shift: 3, position: 5, pair: 0, measure: "dot product" };
  const beyond = { answer: null, problem: null, isAsked: false };
  state.on("run", () => {
    Object.assign(settings, { token: Math.min(1, state.run.source.tokens.length - 1), stack: "encoder" });
    Object.assign(beyond, { answer: null, problem: null, isAsked: false });
  });
  root.append(prose(TEXT));
  figure(root, state, { wide: true, draw: (body) => drawSum(body, state, settings), caption: "Orange is negative, blue positive." });
  const aboutShift = el("div");
  state.on("model", () => aboutShift.replaceChildren(prose(kindOf(state) === "learned" ? LEARNED : CLOCKS)));
  root.append(el("h3", {}, "A shift is a rotation"), aboutShift);
  figure(root, state, { wide: true, draw: (body) => (kindOf(state) === "learned" ? drawFit(body, state) : drawClocks(body, state, settings)) });
  root.append(el("h3", {}, "What is near, what is far"), prose(SIMILARITY));
  figure(root, state, { wide: true, draw: (body) => drawSimilarity(body, state, settings),
    caption: "Choose a row of the map: the chart shows it as a curve." });
  root.append(el("h3", {}, "Beyond the lengths it knows"), prose(BEYOND));
  const asked = figure(root, state, { draw: (body) => drawBeyond(body, state, beyond, () => asked.redraw()),
    caption: "Mean log-probability of a token, teacher-forced. Saying the same thing eight times is strange in itself, so a fall here is not the "
      + "positions' fault alone; what a model makes of lengths that it has seen is the left end of the curve." });
}

const kindOf = (state) => state.model.config.position_encoding;

/** What the model adds at each position [P, D]; where it adds nothing, the paper's. */
function table(state) {
  const { d_model } = state.model.config;
  return kindOf(state) === "none" ? sinusoids(SHOWN, d_model) : state.modelTensors.get("positions");
}

const absent = (state) => (kindOf(state) === "none"
  ? el("p", { class: "notice" }, "This checkpoint adds no positions: all it can know of the order comes through the decoder's mask. What is shown here "
    + "are the paper's sinusoids, as they would be at this width.") : null);

// What is added -------------------------------------------------------------------------------------------------------

function drawSum(body, state, settings) {
  const place = el("div");
  body.append(el("div", { class: "controls" }, choice({ name: "what enters", options: [["encoder", "the encoder"], ["decoder", "the decoder"]],
    value: settings.stack, onChange: (stack) => {
      Object.assign(settings, { stack, token: 0 });
      show();
    } })), place);
  const show = () => {
    place.replaceChildren();
    showSum(place, state, settings, show);
  };
  show();
  body.append(el("h4", {}, `All positions: ${table(state).shape.join(" × ")}`), absent(state) ?? "");
  const map = heatmap(body, table(state), { scale: "signed", label: "Position encoding", rowName: "position", columnName: "component",
    hint: "Each row is what is added at one position; each column is one component." });
  map.id = "position-table";
}

/** Three rows, embedding, position and their sum, of one token. */
function parts(state, { stack, token }) {
  const { d_model } = state.model.config;
  const row = (name) => state.tensors.get(`${stack}.${name}`)?.part(token).data ?? new Float32Array(d_model);
  return { embedding: row("embedding"), position: row("positions"), sum: row("input") };
}

function showSum(root, state, settings, redraw) {
  const tokens = settings.stack === "encoder" ? state.run.source.tokens : state.run.target.tokens;
  settings.token = Math.min(settings.token, tokens.length - 1);
  const { embedding, position, sum } = parts(state, settings);
  root.append(tokenRow({ name: "token", tokens, value: settings.token, onSelect: (i) => {
    settings.token = i;
    const focused = document.activeElement?.dataset?.key;
    redraw();
    if (focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  } }));
  const stacked = new Tensor([3, sum.length], Float32Array.from([...embedding, ...position, ...sum]));
  const names = ["embedding", "+ position", "= input"];
  const box = el("div", { id: "position-sum" });
  root.append(box);
  heatmap(box, stacked, { rows: names.map((text) => ({ text })), scale: "signed", label: "Embedding, position and their sum",
    read: (r, c, value) => `${names[r]}, component ${c}: ${number(value)}` });
  const lengths = [embedding, position, sum].map(norm);
  const list = el("div", { class: "lengths" });
  root.append(list);
  bars(list, ["embedding", "position", "their sum"].map((name, i) => ({ name, value: lengths[i], colour: ["query", "key", "soft"][i] })), { label: "Lengths (norms)" });
  root.append(el("p", { class: "note", id: "position-angle", "aria-live": "polite" }, angleSays(embedding, position, lengths)));
}

function angleSays(embedding, position, [first, second, sum]) {
  if (!second || !first) return `The vectors' lengths: ${number(first)} and ${number(second)}; nothing turns where one of them is 0.`;
  const cosine = embedding.reduce((total, x, c) => total + x * position[c], 0) / (first * second);
  const angle = `Lengths ${number(first)} and ${number(second)} at an angle of ${Math.round((Math.acos(cosine) * 180) / Math.PI)}° give ${number(sum)}.`;
  return Math.abs(cosine) < 0.25 ? `${angle} Near to a right angle, as most vectors are in so many dimensions: neither hides the other.` : angle;
}

// The rotation --------------------------------------------------------------------------------------------------------

/** The paper's table, for any length and width. */
function sinusoids(length, width) {
  const half = width / 2;
  const value = (p, c) => (c % 2 ? Math.cos : Math.sin)(p / 10000 ** (Math.floor(c / 2) / half));
  return new Tensor([length, width], Float32Array.from({ length: length * width }, (_, i) => value(Math.floor(i / width), i % width)));
}

/** Where the sine and the cosine of pair i are. */
function pairOf(state, i) {
  const { d_model, position_layout } = state.model.config;
  return position_layout === "concatenated" && kindOf(state) !== "none" ? [i, i + d_model / 2] : [2 * i, 2 * i + 1];
}

/** The pairs' frequencies, in radians per position. Some toolkits divide by d/2 − 1 instead of d/2: the table says which. */
function frequencies(state) {
  const half = state.model.config.d_model / 2;
  const rows = table(state);
  const [sine, cosine] = pairOf(state, half - 1);
  const last = rows.shape[0] - 1;
  const turned = Math.atan2(rows.at(last, sine), rows.at(last, cosine)) - Math.atan2(rows.at(0, sine), rows.at(0, cosine));
  const exponents = [half, half - 1].map((divisor) => (half - 1) / divisor);
  const off = (exponent) => Math.abs(turned - last * 10000 ** -exponent);
  const divisor = off(exponents[0]) <= off(exponents[1]) ? half : half - 1;
  return Array.from({ length: half }, (_, i) => 10000 ** (-i / divisor));
}

/** The largest |PE(pos + k) − M_k PE(pos)| over all positions and components. */
function rotationError(state, rows, omegas, k) {
  let largest = 0;
  omegas.forEach((omega, i) => {
    const [sine, cosine] = pairOf(state, i);
    const [c, s] = [Math.cos(k * omega), Math.sin(k * omega)];
    for (let p = 0; p + k < rows.shape[0]; p++) {
      const [x, y] = [rows.at(p, sine), rows.at(p, cosine)];
      largest = Math.max(largest, Math.abs(rows.at(p + k, sine) - (c * x + s * y)), Math.abs(rows.at(p + k, cosine) - (c * y - s * x)));
    }
  });
  return largest;
}

function drawClocks(body, state, settings) {
  const rows = table(state);
  const omegas = frequencies(state);
  const last = rows.shape[0] - 1;
  settings.shift = Math.min(settings.shift, last);
  settings.position = Math.min(settings.position, last - settings.shift);
  settings.pair = Math.min(settings.pair, omegas.length - 1);
  const [faces, told] = [el("div", { class: "clocks", role: "group", "aria-label": "Pairs as clocks" }), el("div", { class: "side-by-side" })];
  const move = (name, change) => slider({ name, ...change, format: (x) => count(x), step: 1 });
  const position = move("position", { min: 0, max: last - settings.shift, value: settings.position, onChange: (x) => show({ position: x }) });
  const shift = move("shift k", { min: 0, max: Math.min(64, last), value: settings.shift, onChange: (x) => show({ shift: x }) });
  const pair = move("pair i", { min: 0, max: omegas.length - 1, value: settings.pair, onChange: (x) => show({ pair: x }) });
  const legend = el("p", { class: "note" }, el("span", { class: "before" }), " the pair at the position, ", el("span", { class: "after" }),
    " the pair k words further; between them the angle that the matrix turns by.");
  body.append(absent(state) ?? "", el("div", { class: "controls" }, shift, position, pair), faces, legend, told);
  const set = (control, value) => {
    control.querySelector("input").value = value;
    control.querySelector("output").textContent = count(value);
  };
  function show(change = {}) {
    const focused = document.activeElement?.dataset?.key;
    Object.assign(settings, change);
    position.querySelector("input").max = last - settings.shift;
    settings.position = Math.min(settings.position, last - settings.shift);
    set(position, settings.position);
    set(pair, settings.pair);
    faces.replaceChildren(...facesOf(omegas.length, settings.pair).map((i) => face(state, rows, omegas, i, settings, show)));
    told.replaceChildren(...blockOf(state, rows, omegas, settings));
    if (focused) faces.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }
  show();
}

/** Pairs from the fastest to the slowest, and the chosen one in the place of the nearest. */
function facesOf(pairs, chosen) {
  const shownPairs = Math.min(FACES, pairs);
  // More of the fast ones, where there is something to see.
  const spread = Array.from({ length: shownPairs }, (_, j) => Math.round((pairs - 1) * (j / Math.max(1, shownPairs - 1)) ** 1.6));
  const nearest = spread.reduce((best, i, j) => (Math.abs(i - chosen) < Math.abs(spread[best] - chosen) ? j : best), 0);
  return spread.map((i, j) => (j === nearest ? chosen : i));
}

/** A clock: the sine goes right and the cosine up, so that the hand starts at twelve and goes round as hands do. */
function face(state, rows, omegas, i, { position, shift, pair }, show) {
  const [sine, cosine] = pairOf(state, i);
  const hand = (p) => [50 + 36 * rows.at(p, sine), 50 - 36 * rows.at(p, cosine)];
  const [from, to] = [hand(position), hand(position + shift)];
  const svg = window.d3.create("svg").attr("viewBox", "0 0 100 100").attr("aria-hidden", "true");
  svg.append("circle").attr("class", "face").attr("cx", 50).attr("cy", 50).attr("r", 42);
  const turned = shift * omegas[i];
  const arc = window.d3.arc()({ innerRadius: 0, outerRadius: 36, startAngle: position * omegas[i], endAngle: position * omegas[i] + Math.min(turned, 2 * Math.PI) });
  svg.append("path").attr("class", "turn").attr("d", arc).attr("transform", "translate(50,50)");
  for (const [end, name] of [[from, "hand"], [to, "hand shifted"]])
    svg.append("line").attr("class", name).attr("x1", 50).attr("y1", 50).attr("x2", end[0]).attr("y2", end[1]);
  const period = (2 * Math.PI) / omegas[i];
  return button("", () => show({ pair: i }), { class: "clock", "aria-pressed": String(i === pair), "data-key": `clock ${i}`,
    "aria-label": `pair ${i}: once round in ${number(period)} words, turned by ${degrees(turned)}` }).appendChild(
    el("span", {}, svg.node(), el("b", {}, `i = ${i}`), el("span", {}, `${number(period, 2)} words`), el("span", {}, `turned ${degrees(turned)}`))).parentNode;
}

const degrees = (radians) => `${number((radians * 180) / Math.PI)}°`;

function blockOf(state, rows, omegas, { position, shift, pair }) {
  const omega = omegas[pair];
  const [sine, cosine] = pairOf(state, pair);
  const [c, s] = [Math.cos(shift * omega), Math.sin(shift * omega)];
  const tex = (x) => x.toFixed(4);
  const column = (...xs) => `\\begin{pmatrix} ${xs.map(tex).join(" \\\\ ")} \\end{pmatrix}`;
  const [x, y] = [rows.at(position, sine), rows.at(position, cosine)];
  const matrix = `\\begin{pmatrix} ${tex(c)} & ${tex(s)} \\\\ ${tex(-s)} & ${tex(c)} \\end{pmatrix}`;
  const product = formula(`${matrix} ${column(x, y)} = ${column(c * x + s * y, c * y - s * x)}`, true);
  const error = rotationError(state, rows, omegas, shift);
  const wanted = [rows.at(position + shift, sine), rows.at(position + shift, cosine)].map((z) => number(z, 4));
  return [el("div", {}, el("h4", {}, `The block of pair ${pair}, at position ${position}`), el("div", { class: "scroller" }, product),
    el("p", { class: "note" }, `The model's table has (${wanted.join(", ")}) at position ${position + shift}.`)),
  el("div", {}, el("h4", {}, `All ${omegas.length} blocks, all positions`), el("p", { id: "rotation-says", "data-error": error, "aria-live": "polite" },
    `With k = ${shift}, one matrix takes each of ${rows.shape[0] - shift} positions to the one ${shift} further; the largest error in any of their `
    + `${count(rows.shape[1])} components is ${number(error, 2)}. ${error < 1e-4 ? "That is rounding." : ""}`))];
}

// Learned positions ---------------------------------------------------------------------------------------------------

const SHIFTS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

function drawFit(body, state) {
  const learned = table(state);
  const computed = sinusoids(...learned.shape);
  const shifts = SHIFTS.filter((k) => k < learned.shape[0] / 2);
  if (!shifts.length) return body.append(el("p", {}, "This table has too few positions to ask."));
  const points = (rows) => shifts.map((k) => [k, fitError(rows, k)]);
  const series = [{ name: "this model's table", colour: "key", points: points(learned) }, { name: "the paper's sinusoids", colour: "query", points: points(computed) }];
  lineChart(body, { x: "shift k", y: "error", domainY: [0, Math.max(1, ...series[0].points.map(([, e]) => e))], series });
  body.append(el("p", { id: "fit-says" }, `At k = 1 the best matrix is wrong by ${number(series[0].points[0][1], 2)} for the learned table, and by `
    + `${number(series[1].points[0][1], 2)} for the sinusoids. 0 would be a perfect shift; 1 is no better than to say the mean of all positions.`));
}

/** A matrix fitted by least squares to shift the even rows by k, tried on the odd ones: error over deviation from the mean. */
function fitError(rows, k) {
  const usable = Array.from({ length: rows.shape[0] - k }, (_, p) => p);
  const [even, odd] = [0, 1].map((rest) => usable.filter((p) => p % 2 === rest));
  const take = (positions) => new Tensor([positions.length, rows.shape[1]], Float32Array.from(positions.flatMap((p) => [...rows.part(p).data])));
  const [X, Y, tried, wanted] = [take(even), take(even.map((p) => p + k)), take(odd), take(odd.map((p) => p + k))];
  const shares = solve(timesTransposed(X, X), timesTransposed(X, tried)); // each tried row as a mixture of the fitted ones
  return relativeError(shares, Y, wanted);
}

function relativeError(shares, Y, wanted) {
  const [n, d] = Y.shape;
  const [m] = wanted.shape;
  const mean = Array.from({ length: d }, (_, c) => Array.from({ length: m }, (_, j) => wanted.at(j, c)).reduce((a, x) => a + x, 0) / m);
  let [missed, spread] = [0, 0];
  for (let j = 0; j < m; j++)
    for (let c = 0; c < d; c++) {
      let predicted = 0;
      for (let i = 0; i < n; i++) predicted += shares[i][j] * Y.data[i * d + c];
      missed += (wanted.at(j, c) - predicted) ** 2;
      spread += (wanted.at(j, c) - mean[c]) ** 2;
    }
  return Math.sqrt(missed / (spread || 1));
}

/** The X with A X = B for a symmetric positive A [n, n] and B [n, m], by elimination; a little on the diagonal keeps it stable. */
function solve(A, B) {
  const [n, m] = B.shape;
  const ridge = (1e-6 * A.data.reduce((sum, x, i) => (i % (n + 1) === 0 ? sum + x : sum), 0)) / n;
  const rows = Array.from({ length: n }, (_, i) => [...A.part(i).data.map((x, j) => x + (i === j ? ridge : 0)), ...B.part(i).data]);
  for (let i = 0; i < n; i++)
    for (let r = 0; r < n; r++) {
      const factor = r === i ? 0 : rows[r][i] / rows[i][i];
      if (factor) for (let c = i; c < n + m; c++) rows[r][c] -= factor * rows[i][c];
    }
  return rows.map((row, i) => row.slice(n).map((x) => x / row[i]));
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
  settings.row = Math.min(settings.row || 40, table(state).shape[0] - 1);
  body.append(absent(state) ?? "", el("div", { class: "controls" }, choice({ name: "measure", options: [["dot product", "dot product"], ["cosine", "cosine"]],
    value: settings.measure, onChange: (measure) => {
      settings.measure = measure;
      show();
    } })), place);
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
    const series = maps.map(([name, map], i) => ({ name, colour: ["key", "query"][i], points: [...map.part(settings.row).data].map((x, q) => [q, x]) }));
    lineChart(chart, { x: "position", y: settings.measure, height: 320, series, read: (x) => {
      const q = Math.max(0, Math.min(maps[0][1].shape[0] - 1, Math.round(x)));
      return `${settings.row} and ${q}: ${maps.map(([name, map]) => `${number(map.at(settings.row, q))} (${name})`).join(", ")}`;
    } });
  };
  maps.forEach(([name, map], i) => {
    boxes.children[i].append(el("h4", {}, `${settings.measure}, ${name}`));
    heatmap(boxes.children[i], map, { scale: "signed", label: `Similarity of positions: ${settings.measure}, ${name}`, rowName: "position", columnName: "position",
      onSelect: (row) => {
        settings.row = row;
        curve();
      } });
  });
  curve();
}

// Beyond --------------------------------------------------------------------------------------------------------------

function drawBeyond(body, state, beyond, redraw) {
  if (beyond.answer) return showBeyond(body, beyond.answer);
  const ask = async () => {
    const { run } = state;
    Object.assign(beyond, { isAsked: true, problem: null });
    redraw();
    const change = await state.source.beyond(run).then((answer) => (answer.problem ? { problem: answer.problem } : { answer }),
      (error) => ({ problem: error instanceof Problem ? error.message : `Something in this page went wrong: ${error.message}` }));
    if (state.run !== run) return; // another sentence since
    Object.assign(beyond, change, { isAsked: false });
    redraw();
  };
  body.append(button(beyond.isAsked ? "Computing…" : "Repeat the sentence up to 8 times", ask, { disabled: beyond.isAsked, "data-key": "beyond" }));
  if (beyond.problem) body.append(el("p", { role: "alert", id: "beyond-problem" }, beyond.problem));
}

/** The mean log-probability of a token for each number of copies: [copies, tokens, mean]. */
function meansOf(points) {
  const groups = window.d3.group(points, ({ copies }) => copies);
  return [...groups].map(([copies, all]) => [copies, all.length, window.d3.mean(all, ({ log_prob }) => log_prob)]).sort((a, b) => a[0] - b[0]);
}

function showBeyond(body, { trained_length: trained, points }) {
  const means = meansOf(points);
  const [longest, length] = means.at(-1);
  const single = points.filter(({ copies }) => copies === longest).map(({ position, log_prob }) => [position, log_prob]);
  const lowest = Math.min(...single.map(([, y]) => y));
  const limit = trained && trained <= length * 1.5 ? [{ name: `longest in training: ${trained}`, colour: "soft", dashed: true, points: [[trained, lowest], [trained, 0]] }] : [];
  lineChart(body, { x: "tokens of the translation", y: "log-probability", height: 280, series: [
    { name: `each token of ${longest} copies`, colour: "line", points: single },
    { name: "mean of a whole text, by its length", colour: "key", points: means.map(([, tokens, mean]) => [tokens, mean]) }, ...limit] });
  const [[, firstLength, first], [, , last]] = [means[0], means.at(-1)];
  body.append(el("p", { id: "beyond-says", "aria-live": "polite" }, `A token has a mean log-probability of ${number(first)} where the sentence stands once `
    + `(${firstLength} tokens), and of ${number(last)} where it stands ${longest} times (${length} tokens).`));
}
