// How likely the words of a translation are right, as the library computes it (confidence_vaswani.py).

const UNCERTAIN = 0.35; // below it, a word is a reason to read the sentence (docs/guide/confidence.md)
const MIN_SURPRISAL = 1e-5;
const WORDS = /[\p{L}\p{N}_]+(?:[-'’.,][\p{L}\p{N}_]+)*|[^\p{L}\p{N}_\s]/gu;

/** The uncertain words of a run's translation: {begin, end, word, confidence}; none if the checkpoint has no calibration. */
export function uncertainWords({ target: { text, outputs }, log_probs }, calibration) {
  const texts = outputs.map((token) => (token.kind === "special" ? "" : token.text));
  const joined = texts.join("");
  if (!calibration || joined.trim() !== text) return []; // other tokenizers change the spaces
  const mean = log_probs.reduce((total, x) => total + x, 0) / log_probs.length;
  let position = joined.trimStart().length - joined.length; // of a token in the text
  const tokens = texts.map((token, i) => ({ begin: position, end: (position += token.length), log_prob: log_probs[i] }));
  const confidence = (begin, end) => {
    const own = tokens.filter((token) => token.begin < end && token.end > begin && token.begin < token.end);
    const log_prob = Math.min(own.reduce((total, token) => total + token.log_prob, 0), -MIN_SURPRISAL);
    const logOdds = log_prob - Math.log(-Math.expm1(log_prob));
    return 1 / (1 + Math.exp(-(calibration.word * logOdds + calibration.sentence * mean + calibration.bias)));
  };
  return [...text.matchAll(WORDS)]
    .map(({ 0: word, index: begin }) => ({ begin, end: begin + word.length, word, confidence: confidence(begin, begin + word.length) }))
    .filter(({ word, confidence }) => confidence < UNCERTAIN && /[\p{L}\p{N}]/u.test(word));
}
