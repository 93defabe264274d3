// Positional encodings: the paper's sinusoids, the rotation that shifts them, and the fit of a shift to a learned table.
import { Tensor, timesTransposed } from "./tensors.js";

/** The paper's encoding of the positions 0 to length - 1, with alternating sines and cosines: [length, width]. */
export function sinusoids(length, width) {
  const value = (p, c) => (c % 2 ? Math.cos : Math.sin)(p / 10000 ** ((2 * Math.floor(c / 2)) / width));
  return new Tensor([length, width], Float32Array.from({ length: length * width }, (_, i) => value(Math.floor(i / width), i % width)));
}

/** The columns of the sine and the cosine of pair i. */
export const columnsOf = (i, width, isConcatenated) => (isConcatenated ? [i, i + width / 2] : [2 * i, 2 * i + 1]);

/** The frequency of each pair in radians per position. Some toolkits divide by d/2 - 1 instead of d/2; the slowest pair shows which. */
export function frequencies(table, isConcatenated) {
  const [length, width] = table.shape;
  const half = width / 2;
  const [sine, cosine] = columnsOf(half - 1, width, isConcatenated);
  const angle = (p) => Math.atan2(table.at(p, sine), table.at(p, cosine));
  const turned = angle(length - 1) - angle(0);
  const distance = (divisor) => Math.abs(turned - (length - 1) * 10000 ** (-(half - 1) / divisor));
  const divisor = distance(half) <= distance(half - 1) ? half : half - 1;
  return Array.from({ length: half }, (_, i) => 10000 ** (-i / divisor));
}

/** The largest |PE(pos + k) - M_k PE(pos)| over all positions and components. */
export function rotationError(table, omegas, k, isConcatenated) {
  const [length, width] = table.shape;
  let largest = 0;
  omegas.forEach((omega, i) => {
    const [sine, cosine] = columnsOf(i, width, isConcatenated);
    for (let p = 0; p + k < length; p++) {
      const [x, y] = turn([table.at(p, sine), table.at(p, cosine)], k * omega);
      largest = Math.max(largest, Math.abs(table.at(p + k, sine) - x), Math.abs(table.at(p + k, cosine) - y));
    }
  });
  return largest;
}

/** A pair (sine, cosine) rotated by an angle: a block of M_k times the pair. */
export const turn = ([x, y], angle) => [Math.cos(angle) * x + Math.sin(angle) * y, Math.cos(angle) * y - Math.sin(angle) * x];

/**
 * Fits a matrix that shifts the even positions by k (least squares), and tests it on the odd ones. Returns the root of the squared
 * error over the squared deviation from the mean: 0 is a perfect shift, 1 is as bad as the mean.
 */
export function fitError(table, k) {
  const positions = Array.from({ length: table.shape[0] - k }, (_, p) => p);
  const rows = (subset) => new Tensor([subset.length, table.shape[1]], Float32Array.from(subset.flatMap((p) => [...table.part(p).data])));
  const [even, odd] = [0, 1].map((rest) => positions.filter((p) => p % 2 === rest));
  const [fitted, tested] = [rows(even), rows(odd)];
  // The solution of minimum norm: it writes each tested row as a mixture of the fitted rows, and shifts these.
  const mixtures = solve(timesTransposed(fitted, fitted), timesTransposed(fitted, tested));
  return relativeError(mixtures, rows(even.map((p) => p + k)), rows(odd.map((p) => p + k)));
}

/** The error of the mixtures [n][m] of `parts` [n, d] with respect to `targets` [m, d]. */
function relativeError(mixtures, parts, targets) {
  const [[n, d], [m]] = [parts.shape, targets.shape];
  let [error, spread] = [0, 0];
  for (let c = 0; c < d; c++) {
    let mean = 0;
    for (let j = 0; j < m; j++) mean += targets.data[j * d + c] / m;
    for (let j = 0; j < m; j++) {
      let prediction = 0;
      for (let i = 0; i < n; i++) prediction += mixtures[i][j] * parts.data[i * d + c];
      error += (targets.data[j * d + c] - prediction) ** 2;
      spread += (targets.data[j * d + c] - mean) ** 2;
    }
  }
  return Math.sqrt(error / (spread || 1));
}

/** Solves A X = B for a symmetric positive A [n, n] and B [n, m] by elimination; a small ridge keeps it stable. */
function solve(A, B) {
  const [n, m] = B.shape;
  let trace = 0;
  for (let i = 0; i < n; i++) trace += A.at(i, i);
  const ridge = (1e-6 * trace) / n;
  const rows = Array.from({ length: n }, (_, i) => [...[...A.part(i).data].map((x, j) => (i === j ? x + ridge : x)), ...B.part(i).data]);
  for (let i = 0; i < n; i++)
    for (let r = 0; r < n; r++) {
      const factor = r === i ? 0 : rows[r][i] / rows[i][i];
      if (factor) for (let c = i; c < n + m; c++) rows[r][c] -= factor * rows[i][c];
    }
  return rows.map((row, i) => row.slice(n).map((x) => x / row[i]));
}
