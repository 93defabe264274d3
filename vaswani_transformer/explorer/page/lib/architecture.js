// Figure 1 of the paper as the page's table of contents: every box links to the chapter that explains it.
import { count, el, prose } from "./dom.js";

const [WIDTH, HEIGHT] = [640, 560];

const TEXT = `
<p>This is Figure 1 of the paper, with the sizes of the model on this page. On the left the <em>encoder</em> reads the whole
  sentence at once. On the right the <em>decoder</em> writes the translation token by token and looks at the encoder's output.
  A token is a word or a piece of a word.</p>
<p>The model is running. Write a sentence above and follow it through the ten chapters, or click the part that you want to
  understand. The figures are drawn from the model's own tensors, and you can change most of them: switch
  a head off, remove the mask, widen the beam, and see what happens to the translation.</p>`;

/** The boxes of one stack from bottom to top: [text, chapter, height]. */
const ENCODER = [["Multi-Head Attention", "heads"], ["Add & Norm", "encoder"], ["Feed Forward", "encoder"], ["Add & Norm", "encoder"]];
const DECODER = [["Masked Multi-Head Attention", "decoder"], ["Add & Norm", "encoder"], ["Multi-Head Attention", "heads"], ["Add & Norm", "encoder"],
  ["Feed Forward", "encoder"], ["Add & Norm", "encoder"]];

/** Adds the figure to `root`, and redraws it for another model. */
export function architecture(root, state) {
  const place = el("div", { class: "figure-1" });
  root.append(el("div", { class: "opening" }, place, prose(TEXT)));
  state.on("model", () => place.replaceChildren(draw(state.model)));
}

function draw({ config }) {
  const svg = window.d3.create("svg").attr("viewBox", `50 76 ${WIDTH - 90} ${HEIGHT - 76}`).attr("role", "group")
    .attr("aria-label", "Figure 1, the model architecture. Each part is a link to its chapter.");
  svg.append("defs").append("marker").attr("id", "tip").attr("viewBox", "0 0 8 8").attr("refX", 7).attr("refY", 4).attr("markerWidth", 6).attr("markerHeight", 6)
    .attr("orient", "auto").append("path").attr("d", "M0 0 8 4 0 8z").attr("class", "tip");
  const arrow = (path) => svg.append("path").attr("d", path).attr("class", "arrow").attr("marker-end", "url(#tip)");
  const label = (text, x, y, anchor = "middle", className = "") => svg.append("text").attr("x", x).attr("y", y).attr("text-anchor", anchor).attr("class", className).text(text);
  const box = (text, chapter, x, y, className, height = 30, width = 176) => {
    const link = svg.append("a").attr("href", `#${chapter}`).attr("class", `part ${className}`);
    link.append("rect").attr("x", x - width / 2).attr("y", y).attr("width", width).attr("height", height).attr("rx", 7);
    link.append("text").attr("x", x).attr("y", y + height / 2 + 4).attr("text-anchor", "middle").text(text);
  };

  const [left, right] = [190, 450];
  const bottom = 452;
  const stack = (boxes, x, layers) => {
    const top = bottom - boxes.length * 44 - 14;
    svg.append("rect").attr("x", x - 105).attr("y", top).attr("width", 210).attr("height", bottom - top - 4).attr("rx", 14).attr("class", "frame");
    boxes.forEach(([text, chapter], i) => {
      const y = bottom - (i + 1) * 44;
      if (i) arrow(`M${x} ${y + 44} V${y + 31}`);
      box(text, chapter, x, y, text.startsWith("Add") ? "norm" : text.startsWith("Feed") ? "feed-forward" : "attention");
    });
    for (const [i, [text]] of boxes.entries()) { // residual connections
      if (!text.startsWith("Add")) arrow(`M${x} ${bottom - i * 44 + (i ? -7 : 4)} H${x - 95} V${bottom - (i + 2) * 44 + 15} H${x - 89}`);
    }
    label(`${layers} ×`, x === left ? x - 115 : x + 115, (top + bottom) / 2, x === left ? "end" : "start", "times");
    return top;
  };
  const encoderTop = stack(ENCODER, left, config.encoder_layers);
  const decoderTop = stack(DECODER, right, config.decoder_layers);
  for (const [x, what] of [[left, "Input"], [right, "Output"]]) {
    arrow(`M${x} ${bottom + 66} V${bottom + 58}`);
    box(`${what} Embedding${config.position_encoding === "none" ? "" : " + Positions"}`, "positions", x, bottom + 27, "embedding", 30, 208);
    arrow(`M${x} ${bottom + 27} V${bottom - 13}`);
    label(x === left ? "the sentence" : "the translation so far", x, bottom + 82);
  }
  arrow(`M${left} ${encoderTop + 18} V${encoderTop - 16} H${(left + right) / 2} V${bottom - 2 * 44 - 30} H${right - 89}`); // the encoder's output, to each decoder layer
  box("Linear + Softmax", "beam", right, decoderTop - 62, "softmax");
  arrow(`M${right} ${decoderTop + 18} V${decoderTop - 31}`);
  arrow(`M${right} ${decoderTop - 62} V${decoderTop - 82}`);
  label("the next token", right, decoderTop - 88);
  label(facts(config), WIDTH / 2, HEIGHT - 6, "middle", "facts");
  return svg.node();
}

/** The model's sizes; two numbers if the stacks or vocabularies differ. */
function facts(config) {
  const both = (first, second) => (second && second !== first ? `${count(first)} and ${count(second)}` : count(first));
  const heads = both(config.encoder_attention_heads, config.decoder_attention_heads);
  const norms = config.norm_position === "pre" ? " · norms before the sub-layers" : "";
  return `d_model ${count(config.d_model)} · heads ${heads} · d_ff ${both(config.d_ff, config.decoder_d_ff)}`
    + ` · ${both(config.vocab_size, config.decoder_vocab_size)} tokens${norms}`;
}
