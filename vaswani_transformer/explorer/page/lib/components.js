// Principal components: vectors of many numbers, drawn in a plane.
import { norm } from "./tensors.js";

const ROUNDS = 300;

/** The two directions in which the rows of `values` [n, d] differ most: a place for each row, and their share of the variance. */
export function project(values) {
  const [n, d] = values.shape;
  const mean = Array.from({ length: d }, (_, c) => values.data.reduce((sum, x, i) => (i % d === c ? sum + x : sum), 0) / n);
  const centred = Array.from({ length: n }, (_, r) => mean.map((m, c) => values.data[r * d + c] - m));
  const total = centred.reduce((sum, row) => sum + norm(row) ** 2, 0);
  if (total < 1e-12) return { points: centred.map(() => [0, 0]), share: 1 };
  const axes = components(centred, d);
  const points = centred.map((row) => axes.map((axis) => inner(row, axis)));
  return { points, share: points.reduce((sum, point) => sum + norm(point) ** 2, 0) / total };
}

const inner = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

/** Two orthogonal axes, the longer first, by applying the rows' covariance to two vectors again and again. */
function components(rows, d) {
  let axes = [0, 1].map((shift) => Array.from({ length: d }, (_, c) => Math.cos((c + 1) * (shift + 1))));
  for (let round = 0; round < ROUNDS; round++) {
    axes = axes.map((axis) => {
      const next = new Array(d).fill(0);
      for (const row of rows) {
        const along = inner(row, axis);
        for (let c = 0; c < d; c++) next[c] += along * row[c];
      }
      return next;
    });
    axes[0] = unit(axes[0]);
    const along = inner(axes[1], axes[0]);
    axes[1] = unit(axes[1].map((x, c) => x - along * axes[0][c]));
  }
  return axes;
}

function unit(vector) {
  const length = norm(vector);
  return length < 1e-12 ? vector.map(() => 0) : vector.map((x) => x / length);
}
