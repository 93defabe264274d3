// Chapter 5: an encoder layer as a path with stops.
import { bars } from "../lib/charts.js";
import { asSetting, button, choice } from "../lib/controls.js";
import { el, number, shown } from "../lib/dom.js";
import { heatmap } from "../lib/heatmap.js";
import { box, picture, plus, pressed, set, write } from "../lib/svg.js";
import { drawNorm, lengths, mean } from "./05-layernorm.js";

const SUBLAYERS = [
  ["self_attn", "self-attention"],
  ["feed_forward", "feed-forward"],
];

export function layerChoice(state, settings, change) {
  const options = Array.from({ length: state.size("encoder").layers }, (_, i) => [i, String(i + 1)]);
  const onChange = (layer) => change({ layer, unit: null });
  return choice({ name: "layer", value: settings.layer, key: "encoder layer", options, onChange });
}

/** The stops of a layer with their tensors. In pre-norm the sum is already the result of a sub-layer. */
function stopsOf({ norm_position }, layer) {
  const stops = [{ name: "input", tensor: `encoder.layers.${layer}.self_attn.input`, kind: "stream" }];
  for (const [sublayer, name] of SUBLAYERS) {
    const place = `encoder.layers.${layer}.${sublayer}`;
    stops.push({ name, tensor: `${place}.output`, kind: "output", place }, { name: "add", tensor: `${place}.sum`, kind: "sum", place });
    if (norm_position !== "pre") stops.push({ name: "norm", tensor: `${place}.result`, kind: "norm", place });
  }
  return stops;
}

export function drawPath(body, state, settings, change) {
  const { config } = state.model;
  const { tokens } = state.run.source;
  const isPre = config.norm_position === "pre";
  const stops = stopsOf(config, settings.layer).map((stop) => ({ ...stop, lengths: lengths(state.tensor(stop.tensor)) }));
  const at = Math.min(settings.stop, stops.length - 1);
  body.append(
    el("div", { class: "controls" }, layerChoice(state, settings, change), stepper(stops, at, change)),
    el("div", { class: "scroller" }, pathOf(stops, at, isPre, change, body.clientWidth < MIN_WIDE)),
    el("p", { id: "encoder-story", "aria-live": "polite" }, story(stops, at, settings, tokens)),
  );
  drawStop(body, state, stops, at, settings, change);
  if (stops[at].kind === (isPre ? "output" : "norm")) drawNorm(body, state, stops[at], settings, tokens);
}

/** Buttons for the previous and the next stop. */
function stepper(stops, at, change) {
  const step = (text, to, name) =>
    button(text, () => stops[to] && change({ stop: to }), {
      "aria-label": name,
      "aria-disabled": String(!stops[to]),
      "data-key": name,
      class: "step",
    });
  return el(
    "span",
    { class: "control" },
    step("←", at - 1, "previous stop"),
    step("→", at + 1, "next stop"),
    asSetting(el("output", { id: "encoder-stop" }, `stop ${at + 1} of ${stops.length}: ${stops[at].name}`), "stop", () => String(at + 1),
      (text) => stops[text - 1] && change({ stop: text - 1 })),
  );
}

/** The tensor at a stop, and the length of each of its rows. */
function drawStop(body, state, stops, at, settings, change) {
  const { tokens } = state.run.source;
  const [left, right] = [el("div", { class: "large" }), el("div", { class: "measures" })];
  body.append(el("div", { class: "side-by-side" }, left, right));
  const tensor = state.tensor(stops[at].tensor);
  const title = `${stops[at].name}, ${tensor.shape.join(" × ")}`;
  const onSelect = (token) => change({ token, unit: null });
  const names = { label: `The stream at ${title}`, rowName: "token", columnName: "component" };
  left.append(el("h4", {}, title));
  heatmap(left, tensor, { rows: tokens, scale: "signed", size: 22, selected: settings.token, onSelect, ...names });
  right.append(el("h4", {}, "length of each token's vector"));
  const items = tokens.map((token, t) => ({
    name: shown(token),
    value: stops[at].lengths[t],
    colour: t === settings.token ? "accent" : "soft",
  }));
  bars(right, items, { label: "length", largest: Math.max(...stops.flatMap((stop) => stop.lengths)), onSelect });
}

/** The step before a stop, in a sentence about the chosen token. */
function story(stops, at, { token }, tokens) {
  const { kind, name, lengths: now } = stops[at];
  const word = `“${shown(tokens[token])}”`;
  const length = (i) => number(stops[i].lengths[token]);
  const before = stops.slice(0, at).findLastIndex((stop) => stop.kind !== "output");
  const sentences = {
    stream: () => `${word} enters the layer as a vector of length ${length(at)}; the mean over all tokens is ${number(mean(now))}.`,
    output: () => `The output of ${name} for ${word} has length ${length(at)}; the vector in the stream has length ${length(before)}.`,
    sum: () => `The output is added to the stream (length ${length(before)}), which gives ${word} a vector of length ${length(at)}.`,
    norm: () =>
      `LayerNorm changes the length of ${word} from ${length(at - 1)} to ${length(at)}; ` +
      `over all tokens the lengths are now between ${number(Math.min(...now))} and ${number(Math.max(...now))}.`,
  };
  return sentences[kind]();
}

const [PATH_WIDTH, PATH_HEIGHT, ROAD, BRANCH, START, HALF] = [900, 190, 128, 44, 36, 410];
const MIN_WIDE = 560; // pixels; a narrower screen has the second sub-layer below the first

/** The path as a picture with stops to choose from. */
function pathOf(stops, at, isPre, change, isNarrow) {
  const size = isNarrow ? [PATH_WIDTH / 2 + 20, 2 * PATH_HEIGHT] : [PATH_WIDTH, PATH_HEIGHT];
  const svg = picture(...size, { class: `path ${isNarrow ? "narrow" : ""}`, role: "group", "aria-label": "The path through the layer" });
  const largest = Math.max(...stops.map((stop) => mean(stop.lengths)));
  const widths = stops.map((stop) => 1.5 + (10 * mean(stop.lengths)) / largest);
  const perSublayer = isPre ? 2 : 3;
  const places = SUBLAYERS.flatMap(([, name], i) => {
    const drawSublayer = isPre ? preSublayer : postSublayer;
    const down = isNarrow ? i * PATH_HEIGHT : 0;
    const group = svg.append("g").attr("transform", `translate(0 ${down})`);
    return drawSublayer(group, isNarrow ? START : START + i * HALF, name, widths.slice(i * perSublayer)).map(([x, y]) => [x, y, down]);
  });
  [[START, ROAD, 0], ...places].forEach(([x, y, down], i) =>
    stopMark(svg.append("g").attr("transform", `translate(0 ${down})`), x, y, stops[i], i, i === at, () => change({ stop: i })));
  return svg.node();
}

const road = (svg, x1, x2, width) => svg.append("line").call(set, { x1, x2, y1: ROAD, y2: ROAD, class: "road", "stroke-width": width });
const branch = (svg, d, width = 1.5) => svg.append("path").call(set, { d, class: "branch", "stroke-width": width });
const boxClass = (name) => (name === "feed-forward" ? "feed-forward" : "attention");

/** The branch that leaves the road at `x` and joins it at `end`. */
function bypass(svg, x, end, width) {
  branch(svg, `M${x + 34} ${ROAD} V${BRANCH + 12} q0 -12 12 -12 H${x + 60}`);
  branch(svg, `M${end - 62} ${BRANCH} H${end - 12} q12 0 12 12 V${ROAD - 11}`, width);
}

/** A sub-layer with its norm on the road; returns the positions of output, sum and result. */
function postSublayer(svg, x, name, [input, output, sum, result]) {
  const end = x + 240;
  road(svg, x, end, input);
  bypass(svg, x, end, output);
  box(svg, name, x + 126, BRANCH, boxClass(name), 112);
  road(svg, end, end + 90, sum);
  road(svg, end + 90, x + HALF, result);
  box(svg, "LayerNorm", end + 90, ROAD, "norm", 84);
  plus(svg, end, ROAD);
  return [
    [end - 32, BRANCH],
    [end + 28, ROAD],
    [x + HALF - 8, ROAD],
  ];
}

/** A sub-layer with its norm in the branch; returns the positions of output and sum. */
function preSublayer(svg, x, name, [input, output, sum]) {
  const end = x + 330;
  road(svg, x, end, input);
  bypass(svg, x, end, output);
  box(svg, "LayerNorm", x + 84, BRANCH, "norm", 84);
  branch(svg, `M${x + 126} ${BRANCH} H${x + 144}`);
  box(svg, name, x + 200, BRANCH, boxClass(name), 112);
  road(svg, end, x + HALF, sum);
  plus(svg, end, ROAD);
  return [
    [end - 32, BRANCH],
    [end + 44, ROAD],
  ];
}

function stopMark(svg, x, y, stop, i, isHere, onPress) {
  const length = number(mean(stop.lengths));
  const names = {
    "data-key": `stop ${i}`,
    "aria-pressed": String(isHere),
    "aria-label": `Stop ${i + 1}, ${stop.name}: mean length ${length}`,
  };
  const group = svg
    .append("g")
    .call(set, { class: `stop ${isHere ? "here" : ""}`, role: "button", tabindex: 0, ...names })
    .call(pressed, onPress);
  group.append("circle").call(set, { cx: x, cy: y, r: 9 });
  write(group, i + 1, { x, y: y + 4, class: "number" });
  write(svg, length, { x, y: y === BRANCH ? y - 17 : y + 32, class: `length ${isHere ? "here" : ""}`, "aria-hidden": true });
}
