// Measures of the attention weights of a head, and a label for heads that clearly have one role: measures.py in JavaScript.

const THRESHOLD = 0.5; // a measure below this one gives a head no label
const RARE = 4; // one word in 4 counts as rare
const COMMON = { punctuation: "punctuation", end: "end of the sentence", rare: "rare words", first: "first token" };
const LABELS = {
  self_attn: { previous: "previous token", next: "next token", same: "same token", ...COMMON },
  // Positions of two sentences cannot be compared, but a query that selects a single word aligns the two.
  cross_attn: { peak: "alignment", ...COMMON },
};

const isPunctuation = ({ kind, text }) => kind !== "special" && text.trim() !== "" && !/[\p{L}\p{N}]/u.test(text);
const isWord = (token) => token.kind !== "special" && !isPunctuation(token);

/** The role of a head: its label, or "", and its measures, for weights [T, S] on the tokens `keys`. */
export function findRole(kind, weights, keys) {
  const measures = measure(weights, keys);
  const clear = Object.keys(LABELS[kind]).filter((name) => measures[name] >= THRESHOLD);
  const largest = clear.reduce((best, name) => (measures[name] > (measures[best] ?? -1) ? name : best), "");
  return { label: LABELS[kind][largest] ?? "", measures };
}

/** The measures of `Role` in measures.py, each a mean over the queries. */
function measure(weights, keys) {
  const [T, S] = weights.shape;
  const rare = rareIds(keys);
  /** The sum over all weights of `share(weight, query, key)`, divided by `count`. */
  const mean = (share, count = T) => {
    let sum = 0;
    for (let t = 0; t < T; t++) for (let s = 0; s < S; s++) sum += share(weights.data[t * S + s], t, s);
    return sum / Math.max(1, count);
  };
  const meanAt = (offset) => {
    const isPair = (t) => t + offset >= 0 && t + offset < S;
    return mean((weight, t, s) => (s - t === offset ? weight : 0), Array.from({ length: T }, (_, t) => t).filter(isPair).length);
  };
  const meanOn = (isKey) => {
    const mask = keys.map(isKey);
    return mean((weight, t, s) => (mask[s] ? weight : 0));
  };
  const words = keys.map(isWord);
  const peak = (t) => words.reduce((highest, word, s) => Math.max(highest, word ? weights.data[t * S + s] : 0), 0);
  return {
    previous: meanAt(-1),
    next: meanAt(1),
    same: meanAt(0),
    first: mean((weight, t, s) => (s === 0 ? weight : 0)),
    end: meanOn(({ kind, text }) => kind === "special" && text !== "<start>"),
    punctuation: meanOn(isPunctuation),
    rare: meanOn((token) => isWord(token) && rare.has(token.id)),
    peak: Array.from({ length: T }, (_, t) => peak(t)).reduce((sum, value) => sum + value, 0) / T,
    entropy: mean((weight) => (weight > 0 ? -weight * Math.log2(weight) : 0)),
    reach: mean((weight, t, s) => weight * Math.abs(s - t)),
  };
}

/** The ids of the rarest quarter of the words. The higher its id, the rarer a token was in training. */
function rareIds(tokens) {
  const ids = [...new Set(tokens.filter(isWord).map(({ id }) => id))].sort((a, b) => a - b);
  return new Set(ids.slice(-Math.max(1, Math.floor(ids.length / RARE))));
}
