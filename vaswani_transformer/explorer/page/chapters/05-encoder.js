import { bars, lineChart } from "../lib/charts.js";
import { button, choice, tokenRow } from "../lib/controls.js";
import { count, el, formula, number, percent, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { heatmap } from "../lib/heatmap.js";
import { norm, Tensor } from "../lib/tensors.js";

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
  kind need the warm-up of equation 3 to start training. In the second the road is free from bottom to top and the stream
  grows as it takes up more and more, until one last norm after the stack.</p>`;

function render(root, state) {
  root.append(prose(TEXT));
  const settings = { layer: 0, stop: 0, token: 0, unit: null, part: [] };
  state.on("run", () => Object.assign(settings, { token: longest(state.run.source.tokens), unit: null, layer: Math.min(settings.layer, state.size("encoder").layers - 1) }));
  state.on("model", () => Object.assign(settings, { part: [], stop: 0 }));
  const figures = [];
  const change = (values) => {
    Object.assign(settings, values);
    figures.forEach(({ redraw }) => redraw());
  };
  const add = (draw, caption, text, title) => {
    if (text) root.append(el("h3", {}, title), prose(text));
    figures.push(figure(root, state, { wide: true, draw: (body) => draw(body, state, settings, change), caption }));
  };
  add(drawPath, "Above: the layer's path; the road's width is the mean length of the tokens' vectors. Below: the tensor at the chosen stop, a row "
    + "for each token, and each row's length (its Euclidean norm).");
  add(drawUnits, "Rows: the units that fire most for the chosen token. Columns: all tokens of the sentence. The stronger the colour, the more it fires.", FEED_FORWARD,
    "The feed-forward network");
  add(drawParameters, "Every parameter of the model, counted once. Choose a part to see what it is made of.", PARAMETERS, "Where the parameters are");
  add(drawNorms, "Below: the mean length of the tokens' vectors along the stream, sub-layer by sub-layer, as this model has it.", NORMS,
    "Norm after, norm before");
}

/** The place of the longest token: more of a word than an article is. */
const longest = (tokens) => tokens.reduce((best, token, i) => (token.kind !== "special" && token.text.length > tokens[best].text.length ? i : best), 0);

const layerChoice = (state, settings, change) => choice({ name: "layer", value: settings.layer, key: "encoder layer",
  options: Array.from({ length: state.size("encoder").layers }, (_, i) => [i, String(i + 1)]), onChange: (layer) => change({ layer, unit: null }) });

// The path through a layer ---------------------------------------------------------------------------------------------

/** The stops of a layer: what is there, and its tensor. Where the norm comes first, the sum is what goes on. */
function stopsOf({ norm_position }, layer) {
  const stops = [{ name: "input", tensor: `encoder.layers.${layer}.self_attn.input`, kind: "stream" }];
  for (const [sublayer, name] of [["self_attn", "self-attention"], ["feed_forward", "feed-forward"]]) {
    const place = `encoder.layers.${layer}.${sublayer}`;
    stops.push({ name, tensor: `${place}.output`, kind: "output", place }, { name: "add", tensor: `${place}.sum`, kind: "sum", place });
    if (norm_position !== "pre") stops.push({ name: "norm", tensor: `${place}.result`, kind: "norm", place });
  }
  return stops;
}

/** The length of each row of [T, D]. */
const lengths = (tensor) => Array.from({ length: tensor.shape[0] }, (_, t) => norm(tensor.part(t).data));
const mean = (xs) => xs.reduce((a, x) => a + x, 0) / xs.length;

function drawPath(body, state, settings, change) {
  const stops = stopsOf(state.model.config, settings.layer).map((stop) => ({ ...stop, lengths: lengths(state.tensor(stop.tensor)) }));
  const at = Math.min(settings.stop, stops.length - 1);
  const { tokens } = state.run.source;
  const move = (stop) => change({ stop });
  const step = (text, to, name) => button(text, () => move(to), { "aria-label": name, "aria-disabled": String(!stops[to]), "data-key": name, class: "step" });
  body.append(el("div", { class: "controls" }, layerChoice(state, settings, change),
    el("span", { class: "control" }, step("←", Math.max(0, at - 1), "one stop back"), step("→", Math.min(stops.length - 1, at + 1), "one stop on"),
      el("output", { id: "encoder-stop" }, `stop ${at + 1} of ${stops.length}: ${stops[at].name}`))),
  el("div", { class: "scroller" }, pathOf(stops, at, state.model.config.norm_position === "pre", move)));
  const [left, right] = [el("div", { class: "large" }), el("div", { class: "measures" })];
  body.append(el("p", { id: "encoder-said", "aria-live": "polite" }, said(stops, at, settings, tokens)), el("div", { class: "side-by-side" }, left, right));
  const tensor = state.tensor(stops[at].tensor);
  const title = `${stops[at].name}, ${tensor.shape.join(" × ")}`;
  left.append(el("h4", {}, title));
  heatmap(left, tensor, { rows: tokens, scale: "signed", label: `The stream at ${title}`, rowName: "token", columnName: "component", size: 22,
    selected: settings.token, onSelect: (token) => change({ token, unit: null }) });
  right.append(el("h4", {}, "length of each token's vector"));
  bars(right, tokens.map((token, t) => ({ name: shown(token), value: stops[at].lengths[t], colour: t === settings.token ? "accent" : "soft" })),
    { label: "length", largest: Math.max(...stops.flatMap((stop) => stop.lengths)), onSelect: (token) => change({ token, unit: null }) });
  if (stops[at].kind === "norm") drawNorm(body, state, stops[at], settings, tokens);
  if (stops[at].kind === "output" && state.model.config.norm_position === "pre") drawNorm(body, state, stops[at], settings, tokens);
}

/** What happened on the way to a stop, in a sentence about the chosen token. */
function said(stops, at, { token }, tokens) {
  const { kind, name, lengths: now } = stops[at];
  const word = `“${shown(tokens[token])}”`;
  const length = (i) => number(stops[i].lengths[token]);
  const before = stops.slice(0, at).findLastIndex((stop) => stop.kind !== "output");
  if (kind === "stream") return `${word} comes into the layer as a vector of length ${length(at)}; the mean over the tokens is ${number(mean(now))}.`;
  if (kind === "output") return `${name[0].toUpperCase()}${name.slice(1)} has a vector of length ${length(at)} for ${word}; what came in has ${length(before)}.`;
  if (kind === "sum") return `Added to what came in (${length(before)}), it makes a vector of length ${length(at)} for ${word}.`;
  return `The norm brings ${word} from ${length(at - 1)} to ${length(at)}; over all tokens the lengths now go from ${number(Math.min(...now))} to ${number(Math.max(...now))}.`;
}

const [PATH_WIDTH, ROAD, BRANCH] = [900, 128, 44];

/** The path as a picture whose stops can be chosen. */
function pathOf(stops, at, isPre, onMove) {
  const svg = window.d3.create("svg").attr("viewBox", `0 0 ${PATH_WIDTH} 190`).attr("class", "path").attr("role", "group").attr("aria-label", "The path through the layer");
  const largest = Math.max(...stops.map((stop) => mean(stop.lengths)));
  const widthOf = (i) => 1.5 + 10 * mean(stops[i].lengths) / largest;
  const road = (x1, x2, i) => svg.append("line").attr("x1", x1).attr("x2", x2).attr("y1", ROAD).attr("y2", ROAD).attr("class", "road").attr("stroke-width", widthOf(i));
  const branch = (path, i) => svg.append("path").attr("d", path).attr("class", "branch").attr("stroke-width", i === null ? 1.5 : widthOf(i));
  const box = (x, y, text, className, width = 104) => {
    const group = svg.append("g").attr("class", className);
    group.append("rect").attr("x", x - width / 2).attr("y", y - 15).attr("width", width).attr("height", 30).attr("rx", 7);
    group.append("text").attr("x", x).attr("y", y + 4).attr("text-anchor", "middle").text(text);
  };
  const half = 410;
  const places = [[36, ROAD]];
  [0, 1].forEach((which) => {
    const x = 36 + which * half;
    const first = which * (isPre ? 2 : 3);
    const plus = x + (isPre ? 330 : 240);
    road(x, plus, first);
    branch(`M${x + 34} ${ROAD} V${BRANCH + 12} q0 -12 12 -12 H${x + 60}`, null);
    branch(`M${plus - 62} ${BRANCH} H${plus - 12} q12 0 12 12 V${ROAD - 11}`, first + 1);
    if (isPre) box(x + 84, BRANCH, "LayerNorm", "norm", 84);
    box(x + (isPre ? 200 : 126), BRANCH, which ? "feed-forward" : "self-attention", which ? "feed-forward" : "attention", 112);
    if (isPre) branch(`M${x + 126} ${BRANCH} H${x + 144}`, null);
    road(plus, x + half, isPre ? first + 2 : first + 3);
    if (!isPre) {
      road(plus, plus + 90, first + 2);
      box(plus + 90, ROAD, "LayerNorm", "norm", 84);
    }
    svg.append("circle").attr("cx", plus).attr("cy", ROAD).attr("r", 11).attr("class", "plus");
    svg.append("path").attr("d", `M${plus - 6} ${ROAD}h12M${plus} ${ROAD - 6}v12`).attr("class", "branch");
    places.push([plus - 32, BRANCH], [plus + (isPre ? 44 : 28), ROAD]);
    if (!isPre) places.push([x + half - 8, ROAD]);
  });
  places.forEach(([x, y], i) => stopMark(svg, x, y, stops[i], i, i === at, onMove));
  return svg.node();
}

function stopMark(svg, x, y, stop, i, isHere, onMove) {
  const length = number(mean(stop.lengths));
  const group = svg.append("g").attr("class", `stop ${isHere ? "here" : ""}`).attr("role", "button").attr("tabindex", 0).attr("data-key", `stop ${i}`)
    .attr("aria-pressed", String(isHere)).attr("aria-label", `Stop ${i + 1}, ${stop.name}: mean length ${length}`);
  group.append("circle").attr("cx", x).attr("cy", y).attr("r", 9);
  group.append("text").attr("x", x).attr("y", y + 4).attr("text-anchor", "middle").attr("class", "number").text(i + 1);
  group.append("text").attr("x", x).attr("y", y === BRANCH ? y - 17 : y + 32).attr("text-anchor", "middle").text(length);
  group.on("click", () => onMove(i)).on("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onMove(i);
  });
}

// LayerNorm on one token -----------------------------------------------------------------------------------------------

const momentsOf = (row) => {
  const mu = mean([...row]);
  return { mu, sigma: Math.sqrt(mean([...row].map((x) => (x - mu) ** 2))) };
};

/** A token's vector before the norm, standardised, and (where the model keeps it) after gain and bias. */
function drawNorm(body, state, stop, { token }, tokens) {
  const isPre = stop.kind === "output";
  const before = state.tensor(`${stop.place}.${isPre ? "input" : "sum"}`).part(token);
  const { mu, sigma } = momentsOf(before.data);
  const panels = [["before", before], ["less its mean, over its deviation", before.map((x) => (x - mu) / (sigma || 1))]];
  if (!isPre) panels.push(["after gain and bias", state.tensor(stop.tensor).part(token)]);
  body.append(el("h4", {}, `LayerNorm on “${shown(tokens[token])}”${isPre ? ", before the sub-layer sees it" : ""}`));
  const row = el("div", { class: "side-by-side norm-panels" }, panels.map(() => el("div")));
  body.append(row);
  panels.forEach(([name, tensor], i) => normPanel(row.children[i], name, tensor));
}

function normPanel(root, name, tensor) {
  const { mu, sigma } = momentsOf(tensor.data);
  const [width, height] = [Math.max(200, root.clientWidth || 300), 120];
  const { d3 } = window;
  const largest = tensor.data.reduce((a, x) => Math.max(a, Math.abs(x)), 1e-9);
  const up = d3.scaleLinear([-largest, largest], [height - 4, 4]);
  const across = d3.scaleLinear([0, tensor.shape[0]], [30, width]);
  const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("height", height).attr("role", "img")
    .attr("aria-label", `${name}: mean ${number(mu)}, deviation ${number(sigma)}`);
  svg.append("rect").attr("x", 30).attr("width", width - 30).attr("y", up(mu + sigma)).attr("height", Math.max(0, up(mu - sigma) - up(mu + sigma))).attr("class", "band");
  svg.append("path").attr("class", "components").attr("d", [...tensor.data].map((x, i) => `M${across(i + 0.5).toFixed(1)} ${up(0)}V${up(x).toFixed(1)}`).join(""));
  svg.append("line").attr("x1", 30).attr("x2", width).attr("y1", up(mu)).attr("y2", up(mu)).attr("class", "mean");
  svg.append("g").attr("transform", "translate(28,0)").call(d3.axisLeft(up).ticks(4).tickSizeOuter(0));
  root.append(el("p", { class: "note" }, `${name}: mean ${number(Math.abs(mu) < 1e-6 ? 0 : mu)}, deviation ${number(sigma)}`), svg.node());
  Object.assign(root, { tensor });
  root.dataset.mean = mu;
  root.dataset.deviation = sigma;
}

// The feed-forward network ---------------------------------------------------------------------------------------------

const UNITS = 10;
const activationNote = ({ activation_function: name }) => (name === "relu" ? "" : ` This model has ${name} for the ReLU; a unit above zero is said to fire.`);

function drawUnits(body, state, settings, change) {
  const hidden = state.tensor(`encoder.layers.${settings.layer}.feed_forward.hidden`);
  const { tokens } = state.run.source;
  const [T, width] = hidden.shape;
  const shares = Array.from({ length: T }, (_, t) => hidden.part(t).data.filter((x) => x > 0).length / width);
  const row = hidden.part(settings.token).data;
  const units = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, UNITS).filter((unit) => row[unit] > 0);
  const unit = units.includes(settings.unit) ? settings.unit : units[0];
  body.append(el("div", { class: "controls" }, layerChoice(state, settings, change)),
    tokenRow({ name: "token", key: "unit token", tokens, value: settings.token, onSelect: (token) => change({ token, unit: null }) }),
    el("p", { id: "encoder-units", "aria-live": "polite", "data-share": shares[settings.token] },
      `For “${shown(tokens[settings.token])}” ${count(shares[settings.token] * width)} of the ${count(width)} units fire (${percent(shares[settings.token])}); `
      + `over the sentence it is ${percent(mean(shares))} of them.${activationNote(state.model.config)}`));
  if (!units.length) return;
  const values = new Tensor([units.length, T], Float32Array.from({ length: units.length * T }, (_, i) => hidden.at(i % T, units[Math.floor(i / T)])));
  const map = heatmap(body, values, { rows: units.map((u) => ({ text: `unit ${u}` })), columns: tokens, label: "The strongest units for the token",
    largest: values.data.reduce((a, x) => Math.max(a, x), 0), selected: units.indexOf(unit), rowName: "", columnName: "token", size: 30,
    onSelect: (r) => change({ unit: units[r] }) });
  map.units = units;
  const fires = tokens.map((token, t) => ({ token, t, value: hidden.at(t, unit) })).filter(({ value }) => value > 0).sort((a, b) => b.value - a.value);
  const others = fires.slice(0, 6).map(({ token, value }) => `“${shown(token)}” (${number(value)})`).join(", ");
  body.append(el("p", { class: "note", id: "encoder-unit", "data-unit": unit },
    `Unit ${unit} fires for ${fires.length} of the ${T} tokens: ${others}${fires.length > 6 ? ", …" : ""}. Choose a row for another unit.`));
}

// Parameters -----------------------------------------------------------------------------------------------------------

const KINDS = [[/LayerNorm/, "norm"], [/attention|W\^/, "attention"], [/feed-forward|W_/, "feed-forward"], [/embedding|position|space/, "embedding"], [/linear/, "softmax"]];
const kindOf = (name) => KINDS.find(([pattern]) => pattern.test(name))?.[1] ?? "";
const sumOf = (part) => (part.parts.length ? part.parts.reduce((sum, child) => sum + sumOf(child), 0) : part.count);

/** A part's name as the page says it: layers are counted from 1. */
const nameOf = (part, siblings) => (/^layer \d+$/.test(part.name) ? `layer ${siblings.filter(({ name }) => /^layer \d+$/.test(name)).indexOf(part) + 1}` : part.name);

function drawParameters(body, state, settings, change) {
  const { parameters } = state.model;
  let [part, names] = [parameters, ["the whole model"]];
  for (const index of settings.part) {
    names.push(nameOf(part.parts[index], part.parts));
    part = part.parts[index];
  }
  const trail = names.map((name, depth) => (depth === names.length - 1 ? el("strong", {}, name)
    : button(name, () => change({ part: settings.part.slice(0, depth) }), { class: "token", "data-key": `part ${depth}` })));
  body.append(el("p", { class: "trail", "aria-live": "polite" }, trail.flatMap((one, i) => (i ? [" › ", one] : [one])), `: ${count(part.count)} parameters`,
    part === parameters ? "" : `, ${percent(part.count / parameters.count)} of the model`), icicle(body, parameters, settings, change));
  const list = part.parts.map((child) => ({ name: nameOf(child, part.parts), value: child.count, text: count(child.count), colour: "accent" }));
  if (list.length) bars(body, list, { label: "parameters", largest: part.count, onSelect: (i) => part.parts[i].parts.length && change({ part: [...settings.part, i] }) });
  part.parts.filter(({ note }) => note).forEach((child) => body.append(el("p", { class: "note" }, `${child.name}: ${child.note}.`)));
  body.append(el("p", { class: "note", id: "encoder-parameters", "data-sum": sumOf(parameters), "data-count": parameters.count },
    `Added up from the smallest parts: ${count(sumOf(parameters))}; the model has ${count(parameters.count)}.`));
}

/** Parts within parts, each as wide as it has parameters. */
function icicle(body, parameters, settings, change) {
  const { d3 } = window;
  const [width, row] = [Math.max(240, body.clientWidth || 600), 34];
  const tree = d3.hierarchy(parameters, (part) => part.parts).sum((part) => (part.parts.length ? 0 : part.count));
  d3.partition().size([width, (tree.height + 1) * row]).round(true)(tree);
  const pathOf_ = (node) => (node.parent ? [...pathOf_(node.parent), node.parent.data.parts.indexOf(node.data)] : []);
  const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${(tree.height + 1) * row}`).attr("class", "icicle").attr("role", "img")
    .attr("aria-label", "The model's parts within parts, each as wide as it has parameters; the list below says the same in numbers");
  const open = settings.part.join(".");
  for (const node of tree.descendants().filter((node) => node.x1 > node.x0)) {
    const path = pathOf_(node);
    const name = node.parent ? nameOf(node.data, node.parent.data.parts) : "model";
    const group = svg.append("g").attr("class", `${kindOf(name)} ${path.join(".") === open ? "open" : ""}`)
      .on("click", () => change({ part: node.children ? path : path.slice(0, -1) }));
    group.append("rect").attr("x", node.x0 + 0.5).attr("y", node.y0 + 0.5).attr("width", Math.max(0.5, node.x1 - node.x0 - 1)).attr("height", row - 2).attr("rx", 3);
    group.append("title").text(`${name}: ${count(node.value)}`);
    const room = Math.floor((node.x1 - node.x0 - 8) / 6.4);
    const text = name.length <= room ? name : name.replace(" of all heads", "").replace("LayerNorm of ", "").replace("layer ", "");
    if (text.length <= room) group.append("text").attr("x", (node.x0 + node.x1) / 2).attr("y", node.y0 + row / 2 + 3).attr("text-anchor", "middle").text(text);
  }
  return svg.node();
}

// Norm after, norm before ----------------------------------------------------------------------------------------------

function drawNorms(body, state) {
  const { norm_position: encoder, decoder_norm_position: decoder } = state.model.config;
  const uses = (position) => [encoder === position && "encoder", decoder === position && "decoder"].filter(Boolean);
  const pair = el("div", { class: "side-by-side norms" }, [["post", "x \\leftarrow \\mathrm{LayerNorm}(x + \\mathrm{Sublayer}(x))"],
    ["pre", "x \\leftarrow x + \\mathrm{Sublayer}(\\mathrm{LayerNorm}(x))"]].map(([position, tex]) => {
    const used = uses(position);
    const words = used.length === 2 ? "this model" : used.length ? `this model's ${used[0]}` : "";
    return el("div", { class: `norm-place ${used.length ? "used" : ""}`, "data-position": position },
      el("h4", {}, position === "post" ? "Post-norm (the paper)" : "Pre-norm", words ? el("span", { class: "tag" }, words) : null), formula(tex, true), diagram(position === "pre"));
  }));
  body.append(pair, el("h4", {}, "The stream's length in this model"));
  lineChart(body, { x: "sub-layers passed", y: "mean length", ...streams(state), height: 230 });
}

/** The stream's mean length after each sub-layer, and of each sum before its norm. */
function streams(state) {
  const series = [];
  for (const stack of ["encoder", "decoder"]) {
    const kinds = stack === "encoder" ? ["self_attn", "feed_forward"] : ["self_attn", "cross_attn", "feed_forward"];
    const places = Array.from({ length: state.size(stack).layers }, (_, layer) => kinds.map((kind) => `${stack}.layers.${layer}.${kind}`)).flat();
    const lengthOf = (name) => mean(lengths(state.tensor(name)));
    const points = [[0, lengthOf(`${stack}.input`)], ...places.map((place, i) => [i + 1, lengthOf(`${place}.result`)])];
    series.push({ name: `${stack}: the stream`, colour: stack, points });
    const isPost = state.model.config[stack === "encoder" ? "norm_position" : "decoder_norm_position"] !== "pre";
    if (isPost) series.push({ name: `${stack}: the sums before the norms`, colour: stack, dashed: true, points: places.map((place, i) => [i + 1, lengthOf(`${place}.sum`)]) });
  }
  const highest = Math.max(...series.flatMap(({ points }) => points.map(([, y]) => y)));
  return { series, domainY: [0, highest] };
}

/** One sub-layer with its norm, from left to right. */
function diagram(isPre) {
  const svg = window.d3.create("svg").attr("viewBox", "0 0 380 110").attr("class", "path").attr("role", "img")
    .attr("aria-label", isPre ? "x goes through LayerNorm and sub-layer, and is added to x" : "x goes through the sub-layer, is added to x, and the sum goes through LayerNorm");
  const line = (d) => svg.append("path").attr("d", d).attr("class", "branch").attr("stroke-width", 1.5);
  const box = (x, y, text, className, width = 92) => {
    const group = svg.append("g").attr("class", className);
    group.append("rect").attr("x", x).attr("y", y - 15).attr("width", width).attr("height", 30).attr("rx", 7);
    group.append("text").attr("x", x + width / 2).attr("y", y + 4).attr("text-anchor", "middle").text(text);
  };
  const plus = isPre ? 300 : 190;
  svg.append("path").attr("d", `M8 80H372`).attr("class", "road").attr("stroke-width", 4);
  line(`M40 80V42q0 -12 12 -12H${plus - 12}q12 0 12 12V69`);
  if (isPre) box(62, 30, "LayerNorm", "norm");
  box(isPre ? 176 : 72, 30, "sub-layer", "attention");
  if (!isPre) box(244, 80, "LayerNorm", "norm");
  svg.append("circle").attr("cx", plus).attr("cy", 80).attr("r", 11).attr("class", "plus");
  line(`M${plus - 6} 80h12M${plus} 74v12`);
  svg.append("text").attr("x", 10).attr("y", 102).text("x");
  return svg.node();
}
