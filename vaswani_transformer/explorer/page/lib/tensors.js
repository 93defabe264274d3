// Tensors, and the safetensors format: eight bytes with the length of the JSON header, the header, the numbers.

/** A float32 tensor: its `shape`, and its `data` in row-major order. */
export class Tensor {
  constructor(shape, data, name = "") {
    Object.assign(this, { shape, data, name });
  }

  /** The number at the given indices. */
  at(...index) {
    return this.data[index.reduce((offset, i, axis) => offset * this.shape[axis] + i, 0)];
  }

  /** The part at the given leading indices: for [H, T, S], `part(h)` is [T, S] and `part(h, t)` is [S]. It shares memory. */
  part(...index) {
    const shape = this.shape.slice(index.length);
    const size = shape.reduce((a, b) => a * b, 1);
    const start = index.reduce((offset, i, axis) => offset * this.shape[axis] + i, 0) * size;
    return new Tensor(shape, this.data.subarray(start, start + size), `${this.name}[${index.join(", ")}]`);
  }

  /** A tensor of the same shape with `fn` applied to each number. */
  map(fn) {
    return new Tensor(this.shape, this.data.map((x) => fn(x)), this.name);
  }
}

/** Reads a file's bytes into a Map of names to tensors, in float32; numbers may be stored in float16, too. */
export function readTensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = new Map();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const [start, end] = entry.data_offsets;
    const bytes = buffer.slice(8 + length + start, 8 + length + end); // a copy is aligned
    tensors.set(name, new Tensor(entry.shape, numbers(bytes, entry.dtype, name), name));
  }
  return tensors;
}

function numbers(bytes, type, name) {
  if (type === "F32") return new Float32Array(bytes);
  if (type === "F16") return fromHalves(new Uint16Array(bytes));
  throw new Error(`${name} is ${type}, not F32 or F16`);
}

let valuesOfHalves = null; // of all 65,536 numbers in float16, by their bits

function fromHalves(halves) {
  valuesOfHalves ??= Float32Array.from({ length: 1 << 16 }, (_, bits) => {
    const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  });
  const data = new Float32Array(halves.length);
  for (let i = 0; i < data.length; i++) data[i] = valuesOfHalves[halves[i]];
  return data;
}

/** a [n, k] times b [m, k] transposed -> [n, m]. */
export function timesTransposed(a, b) {
  const [[n, k], [m]] = [a.shape, b.shape];
  const out = new Float32Array(n * m);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < m; j++) {
      let sum = 0;
      for (let x = 0; x < k; x++) sum += a.data[i * k + x] * b.data[j * k + x];
      out[i * m + j] = sum;
    }
  return new Tensor([n, m], out);
}

/** a [n, k] times b [k, m] -> [n, m]. */
export function times(a, b) {
  const [[n, k], [, m]] = [a.shape, b.shape];
  const out = new Float32Array(n * m);
  for (let i = 0; i < n; i++)
    for (let x = 0; x < k; x++)
      for (let j = 0; j < m; j++) out[i * m + j] += a.data[i * k + x] * b.data[x * m + j];
  return new Tensor([n, m], out);
}

/** The softmax of each row of scores [n, m] divided by `temperature`; minus infinity gives 0. */
export function softmax(scores, temperature = 1) {
  const m = scores.shape.at(-1);
  const out = new Float32Array(scores.data.length);
  for (let start = 0; start < out.length; start += m) {
    const row = scores.data.subarray(start, start + m);
    const highest = row.reduce((a, b) => Math.max(a, b), -Infinity);
    let sum = 0;
    for (let j = 0; j < m; j++) sum += out[start + j] = Math.exp((row[j] - highest) / temperature);
    for (let j = 0; j < m; j++) out[start + j] /= sum;
  }
  return new Tensor(scores.shape, out);
}

/** The Euclidean norm of a row. */
export const norm = (row) => Math.sqrt(row.reduce((sum, x) => sum + x * x, 0));
