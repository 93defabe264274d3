// Chapter 1: attention as a dictionary that returns a blend, with colours in a plane and with the model's own values.
import { bars } from "../lib/charts.js";
import { colour } from "../lib/colours.js";
import { project } from "../lib/pca.js";
import { asSetting, attentionPicker, slider, tokenRow } from "../lib/controls.js";
import { el, number, percent, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { softmax, Tensor, times } from "../lib/tensors.js";

export default { id: "dictionary", number: 1, title: "Attention is a soft dictionary", paper: "section 3.2", render };

const TEXT = String.raw`
<p>A dictionary in a program holds <em class="k">keys</em> and <em class="v">values</em>. You look something up with a
  <em class="q">query</em>: if it equals a key, you get that key's value; otherwise you get nothing. Attention keeps the terms and
  softens the lookup. Queries and keys are vectors, and a measure of agreement, their dot product, replaces the test for equality. The
  answer is a blend of <em>all</em> values, each weighted by how well its key matches.</p>
\[ o = \sum_i w_i\, \v{v_i}, \qquad w_i = \frac{e^{\q{q} \cdot \k{k_i}}}{\sum_j e^{\q{q} \cdot \k{k_j}}} \]
<p>Here the vectors have two components, so they can be drawn, and a value is a colour. The background shows the answer to every query
  in the plane. Drag the ring, and watch it take the colour of its answer. Then set the temperature to 0: the blend disappears, the
  plane splits into regions with sharp borders, and attention is an ordinary lookup that returns a single value.</p>`;

const WHY = String.raw`
<p>At a sharp border nothing can be learned: a small change of the query changes either nothing or everything. In the soft plane every
  small change makes the answer slightly better or slightly worse, and training follows the improvement. One question remains: where
  do queries, keys and values come from? The model computes all three from its token vectors, with learned matrices.</p>
<p>This is one of the model's own lookups; only the drawing is simplified. One token asks, and all tokens answer. A value has as many
  components as the head is wide, so the values are drawn in the two directions in which they differ most. The blend always lies among
  the values, because the weights are positive and sum to one.</p>`;

/** The dictionary in the plane: keys, and colours as their values. */
const KEYS = [
  { name: "blue", colour: "head-0", at: [2.1, 0.9] },
  { name: "green", colour: "head-2", at: [0.1, 2.3] },
  { name: "gold", colour: "head-4", at: [-2.2, 0.7] },
  { name: "orange", colour: "head-1", at: [-1.1, -1.9] },
  { name: "pink", colour: "head-3", at: [1.5, -1.7] },
];
const REACH = 3.2; // the plane goes from -REACH to REACH
const STEP = 0.1; // of an arrow key
const FIELD = 96; // pixels of the background per side; the browser smooths it
const SHARP_FIELD = 480; // the same with sharp borders
const HARD = 0; // the temperature at which only the best key counts

function render(root, state) {
  const toy = { query: [1.1, 1.05], temperature: 1 };
  const real = { query: null, attention: null, temperature: 1 };
  root.append(prose(TEXT));
  figure(root, state, { wide: true, draw: (body) => drawPlane(body, toy),
    caption: "Five keys and their values. A longer query is more decisive: doubling its length has the same effect as halving the "
      + "temperature. Colours are mixed in the CIELAB colour space." });
  root.append(el("h3", {}, "A lookup in this sentence"), prose(WHY));
  state.on("run", () => (real.query = null));
  figure(root, state, { on: ["run", "select"], wide: true, draw: (body) => drawLookup(body, state, real),
    caption: "Circles: the values of this head; the larger the circle, the larger its weight. Diamond: the blend, which is the head's output. "
      + "Dotted line: the blend at other temperatures, from the best key's value alone to the mean of all values. The colour depends only on the position in the plane." });
}

/** The weights of scores at a temperature; at 0 the highest score has weight 1. */
function weightsOf(scores, temperature) {
  if (temperature !== HARD) return softmax(new Tensor([1, scores.length], Float32Array.from(scores)), temperature).data;
  const best = scores.indexOf(Math.max(...scores));
  return Float32Array.from(scores, (_, i) => Number(i === best));
}

const columnsNamed = (left, right) => el("p", { class: "note columns-named" }, el("span", {}, left), el("span", {}, right));
const temperatureText = (t) => (t === HARD ? "0: hard lookup" : number(t, 2));

/** A slider for `settings.temperature`; 0 is the hard lookup. */
const temperatureSlider = (name, settings, onChange) => slider({ name: "temperature", key: `${name} temperature`,
  min: HARD, max: 4, step: 0.05, value: settings.temperature, format: temperatureText, onChange: (temperature) => {
    settings.temperature = temperature;
    onChange();
  } });
const dot = ([a, b], [c, d]) => a * c + b * d;

// The plane -----------------------------------------------------------------------------------------------------------

/** The values as numbers: the theme's colours in CIELAB. */
const paletteOf = () => KEYS.map(({ colour: name }) => {
  const { l, a, b } = window.d3.lab(colour(name));
  return [l, a, b];
});
const blend = (values, weights) => values[0].map((_, c) => values.reduce((sum, value, i) => sum + weights[i] * value[c], 0));
const labColour = ([l, a, b]) => window.d3.lab(l, a, b).formatHex();

function drawPlane(body, toy) {
  const values = paletteOf();
  const field = el("canvas", { "aria-hidden": "true" });
  const drawing = planePicture(toy, (query) => {
    toy.query = query;
    show();
  });
  const table = el("div");
  const result = el("p", { class: "answer", id: "plane-result", "aria-live": "polite" });
  const swatch = el("span", { class: "blend", role: "img", "aria-label": "colour of the answer" });
  const plane = el("div", { class: "plane" }, field, drawing.element);
  const heat = temperatureSlider("plane", toy, () => {
    paintField(field, values, toy.temperature);
    show();
  });
  body.append(el("div", { class: "dictionary" }, plane,
    el("div", { class: "reading" }, el("div", { class: "controls" }, heat), table, el("div", { class: "result" }, swatch, result))));
  const show = () => {
    const scores = KEYS.map(({ at }) => dot(toy.query, at));
    const weights = weightsOf(scores, toy.temperature);
    const answer = labColour(blend(values, weights));
    drawing.update(weights, answer);
    swatch.style.background = answer;
    result.textContent = planeText(toy, weights);
    table.replaceChildren(columnsNamed("key → value", "q·k → weight"));
    bars(table, KEYS.map(({ name, colour }, i) => ({ name: `k${"₁₂₃₄₅"[i]} → ${name}`, value: weights[i], colour,
      text: `${number(scores[i], 2)} → ${percent(weights[i])}` })), { largest: 1, label: "Keys with q·k and weight" });
    Object.assign(plane, { query: toy.query, scores, weights: [...weights] });
  };
  paintField(field, values, toy.temperature);
  show();
  asSetting(plane, "q", () => toy.query.map((x) => x.toFixed(2)).join(" "), (text) => {
    toy.query = text.split(" ").map((x) => within(Number(x) || 0));
    show();
  });
}

function planeText({ query, temperature }, weights) {
  const order = [...KEYS.keys()].sort((a, b) => weights[b] - weights[a]);
  const parts = order.filter((i) => weights[i] >= 0.005).map((i) => `${percent(weights[i])} ${KEYS[i].name}`);
  const kind = temperature === HARD ? "a single value" : "a blend";
  return `q = (${query.map((x) => number(x, 2)).join(", ")}) gives ${kind}: ${parts.join(" + ")}.`;
}

/** Paints the colour of the answer to each query. */
function paintField(canvas, values, temperature) {
  const { lab } = window.d3;
  const palette = values.map((value) => lab(...value).rgb());
  const isHard = temperature === HARD;
  const blended = (scores) => lab(...blend(values, weightsOf(scores, temperature))).rgb();
  const answer = isHard ? (scores) => palette[scores.indexOf(Math.max(...scores))] : blended;
  const size = isHard ? SHARP_FIELD : FIELD;
  Object.assign(canvas, { width: size, height: size });
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  for (let row = 0; row < size; row++)
    for (let column = 0; column < size; column++) {
      const query = [REACH * ((2 * column + 1) / size - 1), REACH * (1 - (2 * row + 1) / size)];
      const { r, g, b } = answer(KEYS.map(({ at }) => dot(query, at)));
      image.data.set([r, g, b, 255], 4 * (row * size + column));
    }
  context.putImageData(image, 0, 0);
}

const place = ([x, y]) => [200 + (x / REACH) * 200, 200 - (y / REACH) * 200];
const within = (x) => Math.max(-REACH * 0.96, Math.min(REACH * 0.96, x));

/** The keys, and a query that the pointer and the arrow keys move; calls `onMove(query)`. */
function planePicture(toy, onMove) {
  const picture = window.d3.create("svg").attr("viewBox", "0 0 400 400").attr("role", "group")
    .attr("aria-label", "A plane with five keys and a query");
  picture.append("path").attr("class", "axes").attr("d", "M0 200H400M200 0V400");
  const threads = KEYS.map(({ at }) => picture.append("line").attr("class", "thread").attr("x1", place(at)[0]).attr("y1", place(at)[1]));
  const arrow = picture.append("line").attr("class", "arrow").attr("x1", 200).attr("y1", 200);
  KEYS.forEach((key, i) => drawKey(picture, key, i));
  const query = picture.append("g").attr("class", "query").attr("tabindex", 0).attr("role", "slider").attr("data-key", "plane query")
    .attr("aria-label", "the query; use the arrow keys to move it").attr("aria-valuenow", 0);
  query.append("circle").attr("class", "handle").attr("r", 26);
  const ring = query.append("circle").attr("class", "ring").attr("r", 13);
  query.append("text").attr("x", 20).attr("y", 5).text("q");
  moveByPointer(picture, query, onMove);
  moveByKeys(query, toy, onMove);
  const update = (weights, answer) => {
    const [x, y] = place(toy.query);
    query.attr("transform", `translate(${x},${y})`).attr("aria-valuetext", `at ${toy.query.map((c) => number(c, 2)).join(", ")}`);
    ring.attr("fill", answer);
    arrow.attr("x2", x).attr("y2", y);
    threads.forEach((thread, i) => thread.attr("x2", x).attr("y2", y).attr("stroke-width", 14 * weights[i])
      .attr("opacity", weights[i] < 0.005 ? 0 : 0.75));
  };
  return { element: picture.node(), update };
}

function drawKey(picture, { name, colour: c, at }, i) {
  const key = picture.append("g").attr("class", "key").attr("transform", `translate(${place(at)})`);
  key.append("circle").attr("r", 11).attr("fill", colour(c));
  key.append("text").attr("y", at[1] > 0 ? -17 : 27).attr("text-anchor", "middle").text(`k${"₁₂₃₄₅"[i]} ${name}`);
}

function moveByPointer(picture, query, onMove) {
  let isDragged = false;
  const move = (event) => {
    const [x, y] = window.d3.pointer(event, picture.node());
    onMove([within((x / 200 - 1) * REACH), within((1 - y / 200) * REACH)]);
  };
  picture.on("pointerdown", (event) => {
    // A finger elsewhere scrolls the page; a mouse moves the query from anywhere.
    if (event.pointerType === "touch" && !query.node().contains(event.target)) return;
    isDragged = true;
    picture.node().setPointerCapture(event.pointerId);
    move(event);
  });
  picture.on("pointermove", (event) => isDragged && move(event));
  picture.on("pointerup pointercancel", () => (isDragged = false));
  picture.on("click", move);
}

function moveByKeys(query, toy, onMove) {
  query.on("keydown", (event) => {
    const move = { ArrowUp: [0, STEP], ArrowDown: [0, -STEP], ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    onMove(toy.query.map((x, axis) => within(x + move[axis])));
  });
}

// A real lookup -------------------------------------------------------------------------------------------------------

const MAX_BARS = 16;

function drawLookup(body, state, real) {
  const { rows, columns } = state.tokens();
  const { stack, kind, head } = state.selection;
  const [weights, scores, values] = ["weights", "scores", "value"].map((name) => state.tensor(name).part(head));
  const attention = `${stack}.${kind}`;
  if (real.attention !== attention) Object.assign(real, { attention, query: null }); // the tokens have changed
  real.query = Math.min(real.query ?? state.selection.token ?? queryOfThree(weights), rows.length - 1);
  const isCausal = attention === "decoder.self_attn" && state.run.request.causal !== false;
  const plane = project(values);
  const [list, picture] = [el("div"), el("div", { class: "values" })];
  const result = el("p", { id: "lookup-result", "aria-live": "polite" });
  const queries = tokenRow({ name: "query token", tokens: rows, onSelect: (i) => {
    real.query = i;
    show();
  } });
  body.append(attentionPicker(state), el("div", { class: "asking" }, el("span", { class: "q" }, "query"), queries),
    el("div", { class: "controls" }, temperatureSlider("lookup", real, () => show())),
    el("div", { class: "dictionary" }, picture, el("div", { class: "reading" }, list)), result);
  const show = () => {
    [...queries.children].forEach((chip, i) => chip.setAttribute("aria-pressed", String(i === real.query)));
    const row = [...scores.part(real.query).data].map((score, key) => (isCausal && key > real.query ? -Infinity : score));
    const shares = weightsOf(row, real.temperature);
    list.replaceChildren();
    picture.replaceChildren();
    listAnswers(list, { columns, row, shares, plane });
    picture.append(valuePicture({ columns, row, shares, plane, width: picture.clientWidth }));
    result.textContent = lookupText(state, { rows, columns, shares, values, real, plane });
    Object.assign(picture, { tensor: new Tensor([shares.length], shares), share: plane.share });
  };
  show();
}

/** The query whose perplexity of weights is closest to 3: neither a copy of one value nor a mean of all. */
function queryOfThree(weights) {
  const [queries, keys] = weights.shape;
  const spread = (q) => {
    const row = weights.data.subarray(q * keys, (q + 1) * keys);
    return Math.exp(-row.reduce((sum, w) => sum + (w > 0 ? w * Math.log(w) : 0), 0));
  };
  const distance = (q) => Math.abs(spread(q) - 3);
  return Array.from({ length: queries }, (_, q) => q).reduce((best, q) => (distance(q) < distance(best) ? q : best), 0);
}

/** The colour of a position: the hue is its direction, and the centre is grey. */
function valueColour([x, y], reach) {
  const isDark = document.documentElement.dataset.theme === "dark";
  const chroma = 60 * Math.sqrt(Math.min(1, Math.hypot(x, y) / reach)); // the root, because one value is often far from the rest
  const angle = Math.atan2(y, x);
  return window.d3.lab(isDark ? 70 : 54, chroma * Math.cos(angle), chroma * Math.sin(angle)).formatHex();
}

const reachOf = (points) => Math.max(1e-6, ...points.map(([x, y]) => Math.hypot(x, y)));

function listAnswers(root, { columns, row, shares, plane }) {
  const reach = reachOf(plane.points);
  const order = [...shares.keys()].sort((a, b) => shares[b] - shares[a]);
  const top = new Set(order.slice(0, columns.length > MAX_BARS ? MAX_BARS - 1 : MAX_BARS));
  const items = [...top].sort((a, b) => a - b).map((i) => ({ name: shown(columns[i]), value: shares[i],
    colour: valueColour(plane.points[i], reach), text: row[i] === -Infinity ? "masked" : `${number(row[i], 2)} → ${percent(shares[i])}` }));
  if (top.size < columns.length) {
    const rest = order.slice(top.size).reduce((sum, i) => sum + shares[i], 0);
    items.push({ name: `${columns.length - top.size} more`, value: rest, colour: "soft", text: percent(rest) });
  }
  root.append(columnsNamed("key", "q·k / √d_k → weight"));
  bars(root, items, { largest: 1, label: "Keys with score and weight" });
}

const mixPoints = (points, shares) => [0, 1].map((axis) => points.reduce((sum, point, i) => sum + shares[i] * point[axis], 0));

function valuePicture({ columns, row, shares, plane, width }) {
  const { d3 } = window;
  const size = Math.max(240, Math.min(520, width));
  const { points } = plane;
  const reach = reachOf(points);
  const toPixels = scaleTo(points, size);
  const picture = d3.create("svg").attr("viewBox", `0 0 ${size} ${size}`).attr("width", size).attr("height", size)
    .attr("role", "img").attr("aria-label", `The values of ${points.length} tokens in two dimensions, and their blend`);
  const output = mixPoints(points, shares);
  const [ox, oy] = toPixels(output);
  const temperatures = d3.range(-2.4, 3, 0.06).map((x) => 10 ** x);
  const trail = temperatures.map((t) => toPixels(mixPoints(points, weightsOf(row, t))));
  picture.append("path").attr("class", "trail").attr("d", d3.line()(trail));
  points.forEach((point, i) => drawValue(picture, { from: toPixels(point), to: [ox, oy], share: shares[i], shade: valueColour(point, reach),
    isMasked: row[i] === -Infinity, text: shown(columns[i]) }));
  picture.append("path").attr("class", "output").attr("d", d3.symbol(d3.symbolDiamond, 190)()).attr("transform", `translate(${ox},${oy})`)
    .attr("fill", valueColour(output, reach));
  const names = points.map((point, i) => ({ at: toPixels(point), text: shown(columns[i]), share: shares[i] }));
  labelPoints(picture, names, [ox, oy], size);
  return picture.node();
}

function drawValue(picture, { from: [x, y], to: [ox, oy], share, shade, isMasked, text }) {
  if (share >= 0.005) picture.append("line").attr("x1", x).attr("y1", y).attr("x2", ox).attr("y2", oy).attr("stroke", shade)
    .attr("stroke-width", 1 + 9 * share).attr("opacity", 0.55).attr("stroke-linecap", "round");
  picture.append("circle").attr("cx", x).attr("cy", y).attr("r", radiusOf(share)).attr("fill", shade)
    .attr("class", isMasked ? "value masked" : "value").append("title").text(`${text}: ${percent(share)}`);
}

const radiusOf = (share) => 4 + 13 * Math.sqrt(share);

/** Maps the plane to pixels, with the same scale on both axes. */
function scaleTo(points, size) {
  const [xs, ys] = [0, 1].map((axis) => window.d3.extent(points, (point) => point[axis]));
  const margin = 46;
  const scale = (size - 2 * margin) / Math.max(xs[1] - xs[0], ys[1] - ys[0], 1e-6);
  const [cx, cy] = [(xs[0] + xs[1]) / 2, (ys[0] + ys[1]) / 2];
  return ([x, y]) => [size / 2 + (x - cx) * scale, size / 2 - (y - cy) * scale];
}

/** Names beside the points, by decreasing weight; a name that would cover another is left out (the list has it). */
function labelPoints(picture, points, [ox, oy], size) {
  const occupied = [{ x0: ox - 12, x1: ox + 12, y0: oy - 12, y1: oy + 12 }];
  points.forEach(({ at: [x, y] }) => occupied.push({ x0: x - 4, x1: x + 4, y0: y - 4, y1: y + 4 }));
  const isFree = (box) => box.x0 >= 0 && box.x1 <= size && box.y0 >= 0 && box.y1 <= size
    && occupied.every((area) => box.x1 < area.x0 || box.x0 > area.x1 || box.y1 < area.y0 || box.y0 > area.y1);
  for (const { at: [x, y], text, share } of [...points].sort((a, b) => b.share - a.share)) {
    const [width, gap] = [text.length * 6.9 + 2, radiusOf(share) + 3];
    const corners = [[x + gap, y - 7], [x - gap - width, y - 7], [x - width / 2, y - gap - 14], [x - width / 2, y + gap]];
    const corner = corners.find(([a, b]) => isFree({ x0: a, x1: a + width, y0: b, y1: b + 14 }));
    if (!corner) continue;
    occupied.push({ x0: corner[0], x1: corner[0] + width, y0: corner[1], y1: corner[1] + 14 });
    picture.append("text").attr("x", corner[0]).attr("y", corner[1] + 11).attr("class", share >= 0.1 ? "name heavy" : "name").text(text);
  }
}

function lookupText(state, { rows, columns, shares, values, real, plane }) {
  const order = [...shares.keys()].sort((a, b) => shares[b] - shares[a]).filter((i) => shares[i] >= 0.01).slice(0, 3);
  const sources = order.map((i) => `“${shown(columns[i])}” (${percent(shares[i])})`).join(", ");
  const share = `The drawing shows ${percent(plane.share)} of the variance of the ${columns.length} values.`;
  return `The output for “${shown(rows[real.query])}” takes most from ${sources}. ${share} ${distanceText(state, shares, values, real)}`;
}

/** The difference between the blend and the model's own output. */
function distanceText(state, shares, values, { query, temperature }) {
  const mixed = times(new Tensor([1, shares.length], shares), values).data;
  const recorded = state.tensor("heads").part(state.selection.head, query).data;
  const largest = mixed.reduce((worst, x, i) => Math.max(worst, Math.abs(x - recorded[i])), 0);
  return temperature === 1 ? `At temperature 1 this is the model's own output; the largest difference is ${number(largest, 2)}.`
    : `The model itself uses temperature 1; this blend differs from its output by up to ${number(largest)}.`;
}
