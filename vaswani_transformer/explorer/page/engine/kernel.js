// Matrix products, where the engine spends most of its time: in WebAssembly with SIMD, several times as fast as plain JavaScript, or else
// in JavaScript.
import { Tensor } from "../lib/tensors.js";

// kernel.wat, assembled
const ASSEMBLED = `
AGFzbQEAAAABDgJgAXsBfWAFf39/f38AAhIBBmVuZ2luZQZtZW1vcnkCAAEDBAMAAQEHDwIEcm93MQABBHJvdzQAAgrXBQMZACAA/R8AIAD9HwGSIAD9HwIgAP0fA5
KSC7cBAgR/A3sgA0ECdCEFIAIgBEECdGohBiAAIAVqIQgDQCAAIQf9DAAAAAAAAAAAAAAAAAAAAAAhCv0MAAAAAAAAAAAAAAAAAAAAACELA0AgB/0ABAAhCSAKIAkg
Af0ABAD95gH95AEhCiALIAkgASAFav0ABAD95gH95AEhCyABQRBqIQEgB0EQaiIHIAhJDQALIAIgChAAOAIAIAIgCxAAOAIEIAEgBWohASACQQhqIgIgBkkNAAsLgQ
QCBX8LeyADQQJ0IQUgBEECdCEGIAIgBmohByAAIAVqIQkDQCAAIQj9DAAAAAAAAAAAAAAAAAAAAAAhDf0MAAAAAAAAAAAAAAAAAAAAACEO/QwAAAAAAAAAAAAAAAAA
AAAAIQ/9DAAAAAAAAAAAAAAAAAAAAAAhEP0MAAAAAAAAAAAAAAAAAAAAACER/QwAAAAAAAAAAAAAAAAAAAAAIRL9DAAAAAAAAAAAAAAAAAAAAAAhE/0MAAAAAAAAAA
AAAAAAAAAAACEUA0AgAf0ABAAhCiABIAVq/QAEACELIAj9AAQAIQwgDSAMIAr95gH95AEhDSAOIAwgC/3mAf3kASEOIAggBWr9AAQAIQwgDyAMIAr95gH95AEhDyAQ
IAwgC/3mAf3kASEQIAggBUEBdGr9AAQAIQwgESAMIAr95gH95AEhESASIAwgC/3mAf3kASESIAggBUEDbGr9AAQAIQwgEyAMIAr95gH95AEhEyAUIAwgC/3mAf3kAS
EUIAFBEGohASAIQRBqIgggCUkNAAsgAiANEAA4AgAgAiAOEAA4AgQgAiAGaiEIIAggDxAAOAIAIAggEBAAOAIEIAggBmohCCAIIBEQADgCACAIIBIQADgCBCAIIAZq
IQggCCATEAA4AgAgCCAUEAA4AgQgASAFaiEBIAJBCGoiAiAHSQ0ACws=`;

/** A matrix [m, k] in the memory of a kernel. */
class StoredMatrix extends Tensor {}

/** Stores the matrices whose shape the kernel can handle in its memory, and returns all tensors by name. */
export async function storeMatrices(tensors) {
  const matrices = Array.from(tensors.values()).filter(({ shape: [m, k] }) => k && k % 4 === 0 && m % 2 === 0);
  const place = 4 * 4 * Math.max(0, ...matrices.flatMap(({ shape }) => shape)); // bytes of four rows of the largest product
  const kernel = await startKernel(matrices.reduce((sum, { data }) => sum + data.byteLength, 2 * place));
  if (!kernel) return tensors;
  Object.assign(kernel, { x: 0, out: place }); // the addresses of four rows of x, and of the result
  let address = 2 * place;
  const stored = new Map(tensors);
  for (const { shape, data, name } of matrices) {
    const numbers = kernel.numbers.subarray(address / 4, address / 4 + data.length);
    numbers.set(data);
    stored.set(name, Object.assign(new StoredMatrix(shape, numbers, name), { kernel, address }));
    address += data.byteLength;
  }
  return stored;
}

/** The kernel's functions and its memory as `numbers`, or null in a browser without WebAssembly or SIMD. */
async function startKernel(bytes) {
  try {
    const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / 65536) });
    const code = Uint8Array.from(atob(ASSEMBLED), (character) => character.charCodeAt(0));
    const { instance } = await WebAssembly.instantiate(code, { engine: { memory } });
    return { ...instance.exports, numbers: new Float32Array(memory.buffer) };
  } catch {
    return null;
  }
}

/** x [n, k] times the transpose of weight [m, k], plus bias [m] if there is one -> [n, m]. */
export function linear(x, weight, bias = null) {
  const product = weight instanceof StoredMatrix ? fastProduct(x, weight) : plainProduct(x, weight);
  if (bias) product.data.forEach((value, i) => (product.data[i] = value + bias.data[i % bias.data.length]));
  return product;
}

function fastProduct(x, { shape: [m, k], kernel, address }) {
  const n = x.shape[0];
  const out = new Float32Array(n * m);
  for (let row = 0; row < n; row += 4) {
    const rows = Math.min(4, n - row);
    kernel.numbers.set(x.data.subarray(row * k, (row + rows) * k), kernel.x / 4);
    (rows === 1 ? kernel.row1 : kernel.row4)(kernel.x, address, kernel.out, k, m);
    out.set(kernel.numbers.subarray(kernel.out / 4, kernel.out / 4 + rows * m), row * m);
  }
  return new Tensor([n, m], out);
}

function plainProduct(x, weight) {
  const [[n, k], [m]] = [x.shape, weight.shape];
  const out = new Float32Array(n * m);
  for (let row = 0; row < n; row++)
    for (let column = 0; column < m; column++) {
      let sum = 0;
      for (let i = 0; i < k; i++) sum += x.data[row * k + i] * weight.data[column * k + i];
      out[row * m + column] = sum;
    }
  return new Tensor([n, m], out);
}
