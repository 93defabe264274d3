// Chapter 5: the norm after the addition (post-norm) or before the sub-layer (pre-norm), and its effect on the stream.
import { lineChart } from "../lib/charts.js";
import { el, formula } from "../lib/dom.js";
import { box, picture, plus, set, write } from "../lib/svg.js";
import { lengths, mean } from "./05-layernorm.js";

const FORMULAS = {
  post: String.raw`\res{x} \leftarrow \mathrm{LayerNorm}(\res{x} + \mathrm{Sublayer}(\res{x}))`,
  pre: String.raw`\res{x} \leftarrow \res{x} + \mathrm{Sublayer}(\mathrm{LayerNorm}(\res{x}))`,
};
const TITLES = { post: "Post-norm (the paper)", pre: "Pre-norm" };
const KINDS = { encoder: ["self_attn", "feed_forward"], decoder: ["self_attn", "cross_attn", "feed_forward"] };

export function drawNorms(body, state) {
  const { norm_position: encoder, decoder_norm_position: decoder } = state.model.config;
  const positions = { encoder, decoder };
  body.append(
    el(
      "div",
      { class: "side-by-side" },
      ["post", "pre"].map((position) => placeOfNorm(position, positions)),
    ),
    el("h4", {}, "The length of the stream in this model"),
  );
  const series = ["encoder", "decoder"].flatMap((stack) => streamOf(state, stack, positions[stack]));
  const highest = Math.max(...series.flatMap(({ points }) => points.map(([, y]) => y)));
  lineChart(body, { x: "sub-layers passed", y: "mean length", series, domainY: [0, highest], height: 230 });
}

/** One of the two variants, with a mark if the model uses it. */
function placeOfNorm(position, positions) {
  const users = Object.keys(positions).filter((stack) => positions[stack] === position);
  const tag = users.length ? el("span", { class: "tag" }, users.length === 2 ? "this model" : `this model's ${users[0]}`) : null;
  return el(
    "div",
    { class: `norm-place ${tag ? "used" : ""}`, "data-position": position },
    el("h4", {}, TITLES[position], tag),
    formula(FORMULAS[position], true),
    diagram(position === "pre"),
  );
}

/** The mean length of the stream after each sub-layer; for post-norm also that of the sum before the norm. */
function streamOf(state, stack, position) {
  const layers = Array.from({ length: state.size(stack).layers }, (_, i) => i);
  const places = layers.flatMap((layer) => KINDS[stack].map((kind) => `${stack}.layers.${layer}.${kind}`));
  const lengthOf = (name) => mean(lengths(state.tensor(name)));
  const after = (name) => places.map((place, i) => [i + 1, lengthOf(`${place}.${name}`)]);
  const stream = { name: `${stack}: stream`, colour: stack, points: [[0, lengthOf(`${stack}.input`)], ...after("result")] };
  if (position === "pre") return [stream];
  return [stream, { name: `${stack}: sum before the norm`, colour: stack, dashed: true, points: after("sum") }];
}

/** A sub-layer with its norm, from left to right. */
function diagram(isPre) {
  const label = isPre
    ? "x passes through LayerNorm and the sub-layer, and the result is added to x"
    : "x passes through the sub-layer, the result is added to x, and the sum passes through LayerNorm";
  const svg = picture(380, 110, { class: "path", role: "img", "aria-label": label });
  const end = isPre ? 300 : 190;
  svg.append("path").call(set, { d: "M8 80H372", class: "road", "stroke-width": 4 });
  svg.append("path").call(set, { d: `M40 80V42q0 -12 12 -12H${end - 12}q12 0 12 12V69`, class: "branch", "stroke-width": 1.5 });
  box(svg, "LayerNorm", isPre ? 108 : 290, isPre ? 30 : 80, "norm", 92);
  box(svg, "sub-layer", isPre ? 222 : 118, 30, "attention", 92);
  plus(svg, end, 80);
  write(svg, "x", { x: 12, y: 102 });
  return svg.node();
}
