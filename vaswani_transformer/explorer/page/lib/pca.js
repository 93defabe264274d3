// Principal component analysis: projects vectors onto a plane.
import { norm } from "./tensors.js";

const ROUNDS = 300;

/** Projects the rows of `values` [n, d] onto their first two principal components: {points, share of the variance}. */
export function project(values) {
  const rows = centre(values);
  const total = rows.reduce((sum, row) => sum + norm(row) ** 2, 0);
  if (total < 1e-12) return { points: rows.map(() => [0, 0]), share: 1 };
  const axes = firstAxes(covariance(rows));
  const points = rows.map((row) => axes.map((axis) => inner(row, axis)));
  return { points, share: points.reduce((sum, point) => sum + norm(point) ** 2, 0) / total };
}

/** The rows minus their mean, as arrays. */
function centre(values) {
  const [n, d] = values.shape;
  const rows = Array.from({ length: n }, (_, r) => Float64Array.from(values.part(r).data));
  const mean = new Float64Array(d);
  for (const row of rows) row.forEach((x, c) => (mean[c] += x / n));
  return rows.map((row) => row.map((x, c) => x - mean[c]));
}

function covariance(rows) {
  const d = rows[0].length;
  const matrix = Array.from({ length: d }, () => new Float64Array(d));
  for (const row of rows)
    for (let a = 0; a < d; a++)
      for (let b = 0; b < d; b++) matrix[a][b] += row[a] * row[b];
  return matrix;
}

/** The first two eigenvectors of the matrix, by power iteration. */
function firstAxes(matrix) {
  let axes = [1, 2].map((pace) => matrix.map((_, c) => Math.cos((c + 1) * pace)));
  for (let round = 0; round < ROUNDS; round++) {
    axes = axes.map((axis) => matrix.map((row) => inner(row, axis)));
    axes[0] = unit(axes[0]);
    const along = inner(axes[1], axes[0]);
    axes[1] = unit(axes[1].map((x, c) => x - along * axes[0][c]));
  }
  return axes;
}

function inner(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

function unit(vector) {
  const length = norm(vector);
  return length < 1e-12 ? vector.map(() => 0) : vector.map((x) => x / length);
}
