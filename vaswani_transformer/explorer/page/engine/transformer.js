// The Transformer of "Attention Is All You Need" (Vaswani et al. 2017, arXiv 1706.03762) in JavaScript, to read beside the paper.
//
// The parts have the names of modeling_vaswani.py and follow Figure 1 from bottom to top. This is the model after training, for one
// sentence, without dropout and padding. LayerNorm comes after each sub-layer, as in the paper, or before it (pre-norm).
//
// A `pass` is one way through the model: `pass.record(name, tensor)` gets every tensor by name, and `pass.off` holds the names of heads
// to switch off, such as "encoder.layers.0.self_attn.3".
//
// Shapes: S source tokens, T target tokens, D = d_model, H heads, K = d_k, V = d_v. In a search, T is the number of beams.
import { Tensor } from "../lib/tensors.js";
import { linear } from "./kernel.js";

const zeros = (...shape) => new Tensor(shape, new Float32Array(shape.reduce((a, b) => a * b, 1)));
const range = (length) => Array.from({ length }, (_, i) => i);

// 3.4 Embeddings and Softmax ----------------------------------------------------------------------------------------------------------
// "[...] we share the same weight matrix between the two embedding layers and the pre-softmax linear transformation [...] In the
// embedding layers, we multiply those weights by sqrt(d_model)."

/** The rows of the embedding matrix: ids [T] -> [T, D]. As in the authors' code, padding and the start token are zero vectors. */
export function lookUp(embedTokens, ids, config) {
  const width = embedTokens.shape[1];
  const embedded = zeros(ids.length, width);
  ids.forEach((id, t) => {
    const isZero = config.zero_pad_embedding && id === config.pad_token_id;
    if (!isZero) embedded.data.set(embedTokens.part(id).data, t * width);
  });
  return embedded;
}

/** The logarithms of the softmax of each row: [T, vocabulary] -> [T, vocabulary]. */
export function logSoftmax(logits) {
  const [rows, size] = logits.shape;
  const logProbs = zeros(rows, size);
  for (let start = 0; start < rows * size; start += size) {
    const row = logits.data.subarray(start, start + size);
    let [highest, sum] = [-Infinity, 0];
    for (let i = 0; i < size; i++) if (row[i] > highest) highest = row[i];
    for (let i = 0; i < size; i++) sum += Math.exp(row[i] - highest);
    const logSum = Math.log(sum);
    for (let i = 0; i < size; i++) logProbs.data[start + i] = row[i] - highest - logSum;
  }
  return logProbs;
}

// 3.5 Positional Encoding -------------------------------------------------------------------------------------------------------------
// "The positional encodings have the same dimension d_model as the embeddings, so that the two can be summed."

/** PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)): [T] -> [T, D]. */
export function sinusoidalPositions(positions, { d_model: width }) {
  const encoded = zeros(positions.length, width);
  positions.forEach((position, t) => {
    for (let i = 0; i < width; i += 2) {
      const angle = Math.fround(position * Math.fround(10000 ** -(i / width)));
      encoded.data[t * width + i] = Math.sin(angle);
      encoded.data[t * width + i + 1] = Math.cos(angle);
    }
  });
  return encoded;
}

/** The positions that the page shows, [128, D]; they need no weights. */
export const positionTensors = (config) => new Map([["positions", sinusoidalPositions(range(128), config)]]);

/** embedding * sqrt(d_model) + position, the input of a stack. */
class VaswaniEmbedding {
  constructor(name, config) {
    Object.assign(this, { name, config, scale: Math.sqrt(config.d_model) });
  }

  /** embedded [T, D], positions [T] -> [T, D] */
  forward(embedded, positions, { record }) {
    const scaled = embedded.map((x) => x * this.scale);
    const encoded = sinusoidalPositions(positions, this.config);
    record(`${this.name}.embedding`, scaled);
    record(`${this.name}.positions`, encoded);
    return add(scaled, encoded);
  }
}

const add = (a, b) => new Tensor(a.shape, a.data.map((x, i) => x + b.data[i]));

// 3.2.1 Scaled Dot-Product Attention --------------------------------------------------------------------------------------------------

/**
 * Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V, equation 1.
 *
 * query [H, T, K], key [H, S, K], value [H, S, V] -> scores before the mask and weights [H, T, S], heads [H, T, V].
 * `mask(t, s)` tells whether query t may see key s; without a mask it may see all keys.
 */
export function scaledDotProductAttention({ shape: [H, T, K], data: query }, { data: key }, { shape: [, S, V], data: value }, mask) {
  const [scores, weights, heads] = [zeros(H, T, S), zeros(H, T, S), zeros(H, T, V)];
  for (let h = 0; h < H; h++)
    for (let t = 0; t < T; t++) {
      const [q, row, out] = [(h * T + t) * K, (h * T + t) * S, (h * T + t) * V];
      let [highest, sum] = [-Infinity, 0];
      for (let s = 0, k = h * S * K; s < S; s++, k += K) {
        let product = 0; // Q K^T
        for (let i = 0; i < K; i++) product += query[q + i] * key[k + i];
        const score = product / Math.sqrt(K);
        scores.data[row + s] = score;
        weights.data[row + s] = !mask || mask(t, s) ? score : -Infinity; // "illegal connections" (section 3.2.3)
        highest = Math.max(highest, weights.data[row + s]);
      }
      for (let s = 0; s < S; s++) sum += weights.data[row + s] = Math.exp(weights.data[row + s] - highest);
      for (let s = 0, v = h * S * V; s < S; s++, v += V) {
        const weight = (weights.data[row + s] /= sum);
        if (weight > 0) for (let i = 0; i < V; i++) heads.data[out + i] += weight * value[v + i];
      }
    }
  return { scores, weights, heads };
}

// 3.2.2 Multi-Head Attention ----------------------------------------------------------------------------------------------------------

/**
 * MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, where head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).
 *
 * Matrices with the same input are stored as one, for all heads: `qkv_proj` in self-attention. In the decoder's attention to the encoder,
 * queries come from the target (`q_proj`), keys and values from the source (`kv_proj`).
 */
class VaswaniAttention {
  constructor(name, config, weights, numHeads, isCross = false) {
    Object.assign(this, { name, numHeads, isCross });
    this.keys = numHeads * (config.d_k ?? config.d_model / numHeads); // the width of the keys of all heads
    this.matrix = (part) => weights.get(`model.${name}.${part}.weight`);
  }

  /** x [T, D], the encoder's output `memory` [S, D] -> [T, D] */
  forward(x, memory, mask, cache, { record, off }) {
    const parts = this.isCross ? this.projectCross(x, memory, cache) : this.projectSelf(x, cache); // Q W^Q, K W^K, V W^V
    const [query, key, value] = parts.map((part) => splitHeads(part, this.numHeads));
    const { scores, weights, heads } = scaledDotProductAttention(query, key, value, mask);
    for (const [part, tensor] of Object.entries({ query, key, value, scores, weights, heads })) record(`${this.name}.${part}`, tensor);
    return linear(this.concatenate(heads, off), this.matrix("out_proj")); // Concat(head_1, ..., head_h) W^O
  }

  /** x [T, D] -> query [T, H K]; of past and current tokens, keys [S, H K] and values [S, H V]. */
  projectSelf(x, cache) {
    const projected = linear(x, this.matrix("qkv_proj"));
    const [query, key, value] = split(projected, [this.keys, this.keys, projected.shape[1] - 2 * this.keys]);
    if (!cache) return [query, key, value];
    const past = cache.get(this.name) ?? [zeros(0, this.keys), zeros(0, value.shape[1])];
    cache.set(this.name, [append(past[0], key), append(past[1], value)]);
    return [query, ...cache.get(this.name)];
  }

  /** x [T, D] -> query [T, H K]; memory [S, D] -> keys [S, H K] and values [S, H V], which a cache keeps for the next steps. */
  projectCross(x, memory, cache) {
    const query = linear(x, this.matrix("q_proj"));
    if (cache?.has(this.name)) return [query, ...cache.get(this.name)];
    const projected = linear(memory, this.matrix("kv_proj"));
    const stored = split(projected, [this.keys, projected.shape[1] - this.keys]);
    cache?.set(this.name, stored);
    return [query, ...stored];
  }

  /** [H, T, V] -> [T, H V], with zeros for heads that are switched off. */
  concatenate(heads, off) {
    const [H, T, V] = heads.shape;
    const joined = zeros(T, H * V);
    for (let h = 0; h < H; h++)
      if (!off.has(`${this.name}.${h}`)) for (let t = 0; t < T; t++) joined.data.set(heads.part(h, t).data, (t * H + h) * V);
    return joined;
  }
}

/** [T, H width] -> [H, T, width] */
function splitHeads(x, H) {
  const [T, width] = [x.shape[0], x.shape[1] / H];
  const heads = zeros(H, T, width);
  for (let h = 0; h < H; h++)
    for (let t = 0; t < T; t++) heads.data.set(x.part(t).data.subarray(h * width, (h + 1) * width), (h * T + t) * width);
  return heads;
}

/** Splits the columns of x [T, all widths]: [T, width] for each width. */
function split(x, widths) {
  const [T, all] = x.shape;
  let start = 0;
  return widths.map((width) => {
    const part = zeros(T, width);
    for (let t = 0; t < T; t++) part.data.set(x.data.subarray(t * all + start, t * all + start + width), t * width);
    start += width;
    return part;
  });
}

/** [S, D], [T, D] -> [S + T, D] */
function append(past, x) {
  const longer = zeros(past.shape[0] + x.shape[0], x.shape[1]);
  longer.data.set(past.data);
  longer.data.set(x.data, past.data.length);
  return longer;
}

// 3.3 Position-wise Feed-Forward Networks ---------------------------------------------------------------------------------------------

/** FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, equation 2: [T, D] -> [T, D]. */
class VaswaniFeedForward {
  constructor(name, weights) {
    this.name = name;
    this.linear = (part, x) => linear(x, weights.get(`model.${name}.${part}.weight`), weights.get(`model.${name}.${part}.bias`));
  }

  forward(x, { record }) {
    const hidden = this.linear("fc1", x).map((value) => Math.max(0, value)); // [T, d_ff]
    record(`${this.name}.hidden`, hidden);
    return this.linear("fc2", hidden);
  }
}

// 3.1 Encoder and Decoder Stacks ------------------------------------------------------------------------------------------------------
// "[...] the output of each sub-layer is LayerNorm(x + Sublayer(x)), where Sublayer(x) is the function implemented by the sub-layer itself."

/** LayerNorm over d_model (Ba et al. 2016): [T, D] -> [T, D]. */
class VaswaniNorm {
  constructor(name, config, weights) {
    this.epsilon = config.layer_norm_eps;
    [this.weight, this.bias] = ["weight", "bias"].map((part) => weights.get(`model.${name}.${part}`).data);
  }

  forward(x) {
    const [T, D] = x.shape;
    const result = zeros(T, D);
    for (let t = 0; t < T; t++) {
      const row = x.part(t).data;
      const mean = row.reduce((sum, value) => sum + value, 0) / D;
      const deviation = Math.sqrt(row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / D + this.epsilon);
      for (let i = 0; i < D; i++) result.data[t * D + i] = ((row[i] - mean) / deviation) * this.weight[i] + this.bias[i];
    }
    return result;
  }
}

/** The common part of the layers of both stacks: the "Add & Norm" of Figure 1. */
class VaswaniLayer {
  constructor(name, config, weights, { numHeads, isPreNorm }, kinds) {
    Object.assign(this, { name, isPreNorm });
    const module = (kind) => {
      if (kind === "feed_forward") return new VaswaniFeedForward(`${name}.${kind}`, weights);
      return new VaswaniAttention(`${name}.${kind}`, config, weights, numHeads, kind === "cross_attn");
    };
    for (const kind of kinds) {
      this[kind] = module(kind);
      this[`${kind}_norm`] = new VaswaniNorm(`${name}.${kind}_norm`, config, weights);
    }
  }

  /** LayerNorm(x + Sublayer(x)), or pre-norm x + Sublayer(LayerNorm(x)): [T, D] -> [T, D]; `run` runs the sub-layer of this kind. */
  addAndNorm(x, kind, run, { record }) {
    const norm = this[`${kind}_norm`];
    record(`${this.name}.${kind}.input`, x);
    const output = run(this[kind], this.isPreNorm ? norm.forward(x) : x);
    const sum = add(x, output);
    const result = this.isPreNorm ? sum : norm.forward(sum);
    for (const [part, tensor] of Object.entries({ output, sum, result })) record(`${this.name}.${kind}.${part}`, tensor);
    return result;
  }
}

/** The left block of Figure 1: [S, D] -> [S, D]. */
class VaswaniEncoderLayer extends VaswaniLayer {
  forward(x, pass) {
    x = this.addAndNorm(x, "self_attn", (attention, x) => attention.forward(x, null, null, null, pass), pass);
    return this.addAndNorm(x, "feed_forward", (network, x) => network.forward(x, pass), pass);
  }
}

/** The right block of Figure 1: target [T, D], the encoder's output `memory` [S, D] -> [T, D]. */
class VaswaniDecoderLayer extends VaswaniLayer {
  forward(x, targetMask, memory, cache, pass) {
    // Masked Multi-Head Attention, Multi-Head Attention, Feed Forward: each with its Add & Norm
    x = this.addAndNorm(x, "self_attn", (attention, x) => attention.forward(x, null, targetMask, cache, pass), pass);
    x = this.addAndNorm(x, "cross_attn", (attention, x) => attention.forward(x, memory, null, cache, pass), pass);
    return this.addAndNorm(x, "feed_forward", (network, x) => network.forward(x, pass), pass);
  }
}

/** A stack of N identical layers and its embedding. A LayerNorm follows a stack of pre-norm layers. */
class Stack {
  constructor(name, config, weights, Layer, kinds) {
    const position = (name === "decoder" && config.decoder_norm_position) || config.norm_position;
    const settings = { numHeads: config[`${name}_attention_heads`], isPreNorm: position === "pre" };
    Object.assign(this, { name, config, embedTokens: weights.get("model.shared.weight") });
    this.embedding = new VaswaniEmbedding(name, config);
    this.layers = range(config[`${name}_layers`]).map((i) => new Layer(`${name}.layers.${i}`, config, weights, settings, kinds));
    this.norm = (config.final_norm ?? settings.isPreNorm) ? new VaswaniNorm(`${name}.norm`, config, weights) : null;
  }

  /** ids [T], positions [T] -> [T, D]; `run(layer, x)` runs a layer. */
  forward(ids, positions, run, pass) {
    let x = this.embedding.forward(lookUp(this.embedTokens, ids, this.config), positions, pass);
    pass.record(`${this.name}.input`, x);
    for (const layer of this.layers) x = run(layer, x);
    if (this.norm) x = this.norm.forward(x);
    pass.record(`${this.name}.output`, x);
    return x;
  }
}

// Figure 1: The Transformer - model architecture --------------------------------------------------------------------------------------

const UNRECORDED = { record() {}, off: new Set() };

/** Encoder, decoder and pre-softmax linear transformation. `weights` maps the names of the state dict to tensors. */
export class VaswaniForConditionalGeneration {
  constructor(config, weights) {
    this.config = config;
    this.encoder = new Stack("encoder", config, weights, VaswaniEncoderLayer, ["self_attn", "feed_forward"]);
    this.decoder = new Stack("decoder", config, weights, VaswaniDecoderLayer, ["self_attn", "cross_attn", "feed_forward"]);
    this.lmHead = weights.get("model.shared.weight");
  }

  /** Source ids [S] -> the encoder's output [S, D]. */
  encode(ids, pass = UNRECORDED) {
    return this.encoder.forward(ids, range(ids.length), (layer, x) => layer.forward(x, pass), pass);
  }

  /**
   * Target ids [T], the start token first, and the encoder's output [S, D] -> logits [T, vocabulary].
   *
   * "This masking [...] ensures that the predictions for position i can depend only on the known outputs at positions less than i."
   */
  decode(ids, memory, pass = UNRECORDED, isCausal = true) {
    const mask = isCausal ? (t, s) => s <= t : null;
    const run = (layer, x) => layer.forward(x, mask, memory, null, pass);
    return linear(this.decoder.forward(ids, range(ids.length), run, pass), this.lmHead);
  }

  /**
   * One step of a search: the last token of each beam [n], at the same position -> logits [n, vocabulary].
   *
   * The cache has a row for each token of each step. `mask(beam, row)` tells which rows are a beam's own history.
   */
  step(ids, position, memory, cache, mask, pass = UNRECORDED) {
    const run = (layer, x) => layer.forward(x, mask, memory, cache, pass);
    return linear(this.decoder.forward(ids, ids.map(() => position), run, pass), this.lmHead);
  }
}
