// The words in which two translations differ.
import { el } from "../lib/dom.js";

const wordsOf = (text) => text.match(/\s*(?:[\p{L}\p{N}\p{M}’'-]+|\S)/gu) ?? []; // with the preceding space
const isEqual = (a, b) => a.trim() === b.trim();

/** Two texts as lists of nodes, [before, after]; words outside their longest common subsequence are marked. */
export function markDifferences(before, after) {
  const [a, b] = [wordsOf(before), wordsOf(after)];
  const longest = commonLengths(a, b);
  const [left, right] = [[], []];
  const mark = (word, className) => [word.match(/^\s*/)[0], el("mark", { class: className }, word.trim())];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const isShared = i < a.length && j < b.length && isEqual(a[i], b[j]);
    const isLost = j >= b.length || (i < a.length && longest[i + 1][j] >= longest[i][j + 1]);
    if (isShared) {
      left.push(a[i++]);
      right.push(b[j++]);
    } else if (isLost) left.push(...mark(a[i++], "lost"));
    else right.push(...mark(b[j++], null));
  }
  return [left, right];
}

/** [i][j] is the length of the longest common subsequence of a.slice(i) and b.slice(j). */
function commonLengths(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i][j] = isEqual(a[i], b[j]) ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  return lengths;
}
