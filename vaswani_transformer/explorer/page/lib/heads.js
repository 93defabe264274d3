// The heads of a model: names, masks, weights and roles. A place is {stack, kind, layer, head}.
import { softmax, Tensor } from "./tensors.js";

/** The three places of multi-head attention (section 3.2.3): stack, kind, name. */
export const ATTENTIONS = [
  { stack: "encoder", kind: "self_attn", name: "encoder self-attention" },
  { stack: "decoder", kind: "self_attn", name: "decoder self-attention" },
  { stack: "decoder", kind: "cross_attn", name: "cross-attention" },
];

const SHORT = { "encoder.self_attn": "encoder", "decoder.self_attn": "decoder", "decoder.cross_attn": "cross" };

/** "encoder 2 · head 3"; the page counts layers and heads from 1, requests count from 0. */
export const headName = ({ stack, kind, layer, head }) => `${SHORT[`${stack}.${kind}`]} ${layer + 1} · head ${head + 1}`;

/** "encoder self-attention, layer 2, head 3" */
export const longHeadName = ({ stack, kind, layer, head }) =>
  `${ATTENTIONS.find((a) => a.stack === stack && a.kind === kind).name}, layer ${layer + 1}, head ${head + 1}`;

export const isSameHead = (a, b) => a.stack === b.stack && a.kind === b.kind && a.layer === b.layer && a.head === b.head;

/** A head's {label, measures} in this run. */
export const roleOf = (run, place) => run.heads.find((role) => isSameHead(role, place)) ?? { label: "", measures: {} };

/** (row, column) => whether the causal mask hides the weight. */
export const maskOf = (state, { stack, kind }) =>
  stack === "decoder" && kind === "self_attn" && state.run.request.causal !== false ? (r, c) => c > r : () => false;

/** The weights of a head [T, S]: the model's own, or recomputed from the scores at another temperature. */
export function weightsOf(state, place, temperature = 1) {
  if (temperature === 1) return state.tensor("weights", place).part(place.head);
  const isMasked = maskOf(state, place);
  const scores = state.tensor("scores", place).part(place.head);
  const columns = scores.shape[1];
  const visible = scores.data.map((x, i) => (isMasked(Math.floor(i / columns), i % columns) ? -Infinity : x));
  return softmax(new Tensor(scores.shape, visible, scores.name), temperature);
}

/** The tokens [first, last] of a word's first or last occurrence in a sentence, also if it consists of several; or null. */
export function findWord(tokens, word, { last = false } = {}) {
  const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
  let span = null;
  for (let start = 0; start < tokens.length; start++) {
    if (tokens[start].kind !== "word") continue;
    let end = start;
    while (tokens[end + 1]?.kind === "part") end++;
    const text = tokens
      .slice(start, end + 1)
      .map((token) => token.text)
      .join("");
    if (plain(text) === plain(word) && (last || !span)) span = [start, end];
  }
  return span;
}

/** The largest weight of any encoder head from one word to another: {place, row, column, weight}, or null. */
export function strongestLink(state, [from, to]) {
  const { tokens } = state.run.source;
  const [rows, columns] = [findWord(tokens, from), findWord(tokens, to, { last: true })];
  if (!rows || !columns) return null;
  return best(state, (weights) => largestWhere(weights, (r, c) => c >= columns[0] && c <= columns[1], rows));
}

const PAIRS = [["it", "book"], ["es", "Auto"], ["qu'il", "chien"]]; // pronouns of the page's first sentences, and their nouns

/** The link between two words that belong together, or the clearest one: {place, row, column, link}, or null. */
export function clearestLink(state) {
  const pairs = [...PAIRS, ...state.model.examples.map(({ words }) => words).filter(Boolean)];
  const links = pairs.map((pair) => strongestLink(state, pair)).filter((link) => link?.weight > 2 / state.run.source.tokens.length);
  return links.length ? { ...links[0], link: links[0].weight } : mostTellingHead(state);
}

const MAX_NEAR = 1; // tokens between adjacent words
const MIN_POSITIONAL = 0.6; // mean weight on one offset that makes a head positional

/**
 * The encoder head that says most about pairs of distant words. For each word it takes the largest weight on a distant word
 * minus that word's mean weight, and averages over the words. Positional heads are excluded.
 */
export function mostTellingHead(state) {
  const { tokens } = state.run.source;
  const isWord = (i) => tokens[i].kind !== "special" && /[\p{L}\p{N}]/u.test(tokens[i].text);
  return best(state, (weights) => {
    if ([-1, 0, 1].some((offset) => meanAt(weights, offset) >= MIN_POSITIONAL)) return null;
    const excess = lessColumnMeans(weights);
    const all = tokens
      .map((_, row) => isWord(row) && largestWhere(excess, (r, c) => isWord(c) && Math.abs(r - c) > MAX_NEAR, [row, row]))
      .filter(Boolean);
    if (!all.length) return null;
    const { row, column } = all.reduce((a, b) => (weights.at(b.row, b.column) > weights.at(a.row, a.column) ? b : a));
    return { row, column, weight: all.reduce((sum, { weight }) => sum + weight, 0) / all.length, link: weights.at(row, column) };
  });
}

/** The mean weight on the key `offset` tokens after the query. */
function meanAt(weights, offset) {
  const rows = Array.from({ length: weights.shape[0] }, (_, r) => r).filter((r) => r + offset >= 0 && r + offset < weights.shape[1]);
  return rows.length ? rows.reduce((sum, r) => sum + weights.at(r, r + offset), 0) / rows.length : 0;
}

function lessColumnMeans(weights) {
  const [rows, columns] = weights.shape;
  const means = Array.from({ length: columns }, (_, c) => {
    let sum = 0;
    for (let r = 0; r < rows; r++) sum += weights.at(r, c);
    return sum / rows;
  });
  return new Tensor(
    weights.shape,
    weights.data.map((x, i) => x - means[i % columns]),
  );
}

/** The largest weight in the rows from `first` to `last` where `isWanted`: {row, column, weight}, or null. */
function largestWhere(weights, isWanted, [first, last]) {
  let largest = null;
  for (let row = first; row <= last; row++)
    for (let column = 0; column < weights.shape[1]; column++)
      if (isWanted(row, column) && !(weights.at(row, column) <= largest?.weight)) largest = { row, column, weight: weights.at(row, column) };
  return largest;
}

/** The encoder head whose `measure(weights)` has the largest weight. */
function best(state, measure) {
  const { layers, heads } = state.size("encoder");
  let bestHead = null;
  for (let layer = 0; layer < layers; layer++)
    for (let head = 0; head < heads; head++) {
      const place = { stack: "encoder", kind: "self_attn", layer, head };
      const measured = measure(weightsOf(state, place));
      if (measured && !(measured.weight <= bestHead?.weight)) bestHead = { place, ...measured };
    }
  return bestHead;
}
