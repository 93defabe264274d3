// Figure 1 of the paper as the page's table of contents: every box links to the chapter that explains it.
import { count } from "./dom.js";
import { set, write } from "./svg.js";

/** The sub-layers of a stack from bottom to top: [lines of text, class, chapter, part]. */
const ENCODER = [[["Multi-Head Attention"], "attention", "heads", "encoder-attention"], [["Feed Forward"], "feed-forward", "encoder", "encoder-feed-forward"]];
const DECODER = [[["Masked", "Multi-Head Attention"], "attention", "decoder", "mask"], [["Multi-Head Attention"], "attention", "decoder", "cross-attention"],
  [["Feed Forward"], "feed-forward", "encoder", "decoder-feed-forward"]];

const [WIDTH, BOTTOM, BOX, HALF, GAP, SPLIT] = [480, 620, 30, 82, 12, 32]; // pixels; SPLIT is the room for the arrows of Q, K and V
const LINE = 17; // of a second line of text
const [LEFT, RIGHT] = [118, 374]; // the middles of the two stacks

/** Figure 1 for a model, with its norms after or before the sub-layers; parts have a `data-part`. */
export function drawArchitecture({ config }) {
  const svg = window.d3.create("svg").call(set, { role: "group", "aria-label": "Figure 1, the model architecture. Each part is a link to its chapter." });
  addTips(svg);
  const decoderIsPre = (config.decoder_norm_position ?? config.norm_position) === "pre";
  const [encoderTop] = drawStack(svg, "encoder", ENCODER, config.norm_position === "pre", config.encoder_layers, config.final_norm);
  const [decoderTop, crossing] = drawStack(svg, "decoder", DECODER, decoderIsPre, config.decoder_layers, config.final_norm);
  for (const [x, what, side] of [[LEFT, "Input", "encoder"], [RIGHT, "Output", "decoder"]]) drawEmbedding(svg, x, what, side, config);
  // From the encoder's output come the keys and values of each decoder layer.
  const middle = (LEFT + RIGHT) / 2 - 6;
  for (const [i, name] of ["k", "v"].entries()) {
    letter(svg, name, crossing);
    arrow(svg, `M${LEFT + 4 - 8 * i} ${encoderTop} v${-12 - 7 * i} H${middle - 4 + 8 * i} V${crossing.y - 9 - 7 * i} H${crossing[name]} V${crossing.y - SPLIT + 1}`, name);
  }
  box(svg, ["Linear + Softmax"], "softmax", "beam", "softmax", RIGHT, decoderTop - 24 - BOX);
  arrow(svg, `M${RIGHT} ${decoderTop} V${decoderTop - 23}`);
  arrow(svg, `M${RIGHT} ${decoderTop - 24 - BOX} V${decoderTop - 44 - BOX}`);
  write(svg, "the next token", { x: RIGHT, y: decoderTop - 52 - BOX });
  write(svg, facts(config), { x: WIDTH / 2, y: BOTTOM + 142, class: "facts" });
  const top = decoderTop - 66 - BOX;
  return svg.call(set, { viewBox: `0 ${top} ${WIDTH} ${BOTTOM + 150 - top}` }).node();
}

function addTips(svg) {
  const defs = svg.append("defs");
  for (const name of ["plain", "q", "k", "v", "residual"])
    defs.append("marker").call(set, { id: `tip-${name}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto",
      markerUnits: "userSpaceOnUse" }).append("path").call(set, { d: "M0 0 8 4 0 8z", class: `tip ${name}` });
}

/** The letter beside the arrow of Q, K or V. */
const letter = (svg, name, { y, ...at }) => write(svg, name.toUpperCase(), { x: at[name] + 9, y: y - SPLIT + 19, class: `letter ${name}` });

const arrow = (svg, d, name = "plain") => svg.append("path").call(set, { d, class: `arrow ${name}`, "marker-end": `url(#tip-${name})` });

function box(svg, lines, name, chapter, part, x, y, { height = heightOf(lines) } = {}) {
  const link = svg.append("a").call(set, { href: `#${chapter}`, class: `part ${name}`, "data-part": part });
  link.append("rect").call(set, { x: x - HALF, y, width: 2 * HALF, height, rx: 7 });
  lines.forEach((line, i) => write(link, line, { x, y: y + height / 2 + 5 + (i - (lines.length - 1) / 2) * LINE }));
}

const heightOf = (lines) => BOX + (lines.length - 1) * LINE;

/** A stack with its frame; returns the top and, in a decoder, where the keys and values of the encoder arrive. */
function drawStack(svg, side, sublayers, isPre, layers, hasFinalNorm) {
  const x = side === "encoder" ? LEFT : RIGHT;
  const frame = svg.append("rect");
  let [y, crossing] = [BOTTOM - 18, null];
  for (const sublayer of sublayers) {
    const [lines, name, , part] = sublayer;
    const fork = y;
    if (isPre) y = norm(svg, side, y, "Norm");
    if (name === "attention") {
      const at = { q: x + 46, k: x, v: x - 46, y };
      if (part === "cross-attention") crossing = at;
      drawQueries(svg, x, at, part === "cross-attention");
      y -= SPLIT;
    } else y = rise(svg, x, y);
    y -= heightOf(lines);
    box(svg, ...sublayer, x, y);
    y = isPre ? addition(svg, x, y) : norm(svg, side, y, "Add & Norm");
    arrow(svg, `M${x} ${fork - 4} H${x - HALF - 14} V${y + (isPre ? 9 : 13)} H${x - (isPre ? 10 : HALF + 1)}`, "residual");
  }
  frame.call(set, { x: x - HALF - 26, y: y - 12, width: 2 * HALF + 40, height: BOTTOM - y + 4, rx: 14, class: "frame" });
  write(svg, `${layers} ×`, { x: x - HALF - 32, y: y - 20, "text-anchor": "start", class: "times" });
  if (hasFinalNorm ?? isPre) y = norm(svg, side, y - 14, "Norm");
  return [y, crossing];
}

/** The queries, keys and values of an attention; those of cross-attention come from two sides. */
function drawQueries(svg, x, { q, k, v, y }, isCross) {
  if (!isCross) svg.append("path").call(set, { d: `M${x} ${y} V${y - 8} M${v} ${y - 8} H${q}`, class: "arrow plain" });
  else svg.append("path").call(set, { d: `M${x} ${y} V${y - 4} H${q} V${y - 10}`, class: "arrow plain" });
  for (const [name, end] of Object.entries(isCross ? { q } : { q, k, v })) {
    arrow(svg, `M${end} ${y - 8} V${y - SPLIT + 1}`, name);
    letter(svg, name, { [name]: end, y });
  }
}

/** A norm above `y`; returns its top. */
function norm(svg, side, y, text) {
  const x = side === "encoder" ? LEFT : RIGHT;
  arrow(svg, `M${x} ${y} V${y - GAP + 1}`);
  box(svg, [text], "norm", "encoder", `${side}-norm`, x, y - GAP - 26, { height: 26 });
  return y - GAP - 26;
}

function rise(svg, x, y) {
  arrow(svg, `M${x} ${y} V${y - GAP + 1}`);
  return y - GAP;
}

/** A circle with a plus above `y`; returns its top. */
function addition(svg, x, y) {
  arrow(svg, `M${x} ${y} V${y - GAP + 1}`);
  const centre = y - GAP - 9;
  svg.append("circle").call(set, { cx: x, cy: centre, r: 9, class: "plus" });
  svg.append("path").call(set, { d: `M${x - 5} ${centre}h10M${x} ${centre - 5}v10`, class: "arrow plain" });
  return centre - 9;
}

/** The embedding of a stack, with its positions. */
function drawEmbedding(svg, x, what, side, { position_encoding: positions }) {
  const y = BOTTOM + 56;
  arrow(svg, `M${x} ${y + BOX + 14} V${y + BOX + 1}`);
  box(svg, [`${what} Embedding`], "embedding", "positions", `${side}-embedding`, x, y);
  write(svg, side === "encoder" ? "the sentence" : "the translation so far", { x, y: y + BOX + 28 });
  const top = positions === "none" ? y : addition(svg, x, y);
  arrow(svg, `M${x} ${top} V${BOTTOM - 17}`);
  if (positions === "none") return;
  const wave = svg.append("a").call(set, { href: "#positions", class: "part positions", "data-part": "positions", "aria-label": "Positional encoding" });
  const at = x - 54;
  wave.append("circle").call(set, { cx: at, cy: top + 9, r: 13 });
  wave.append("path").call(set, { d: `M${at - 8} ${top + 9}q4 -9 8 0t8 0`, class: "wave" });
  svg.append("path").call(set, { d: `M${at + 13} ${top + 9}H${x - 9}`, class: "arrow positions" });
}

/** The model's sizes; two numbers if the stacks or vocabularies differ. */
function facts(config) {
  const both = (first, second) => (second && second !== first ? `${count(first)} and ${count(second)}` : count(first));
  const heads = both(config.encoder_attention_heads, config.decoder_attention_heads);
  return `d_model ${count(config.d_model)} · heads ${heads} · d_ff ${both(config.d_ff, config.decoder_d_ff)}`
    + ` · ${both(config.vocab_size, config.decoder_vocab_size)} tokens`;
}
