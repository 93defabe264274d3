// The engine's worker: loads checkpoints and answers the page's requests, so that the page stays responsive.
import { loadEngine, Refused } from "./engine.js";

const engines = new Map(); // promises of engines, by the name of the checkpoint
const STEP = 250_000; // bytes between two reports of progress

addEventListener("message", async ({ data: { id, checkpoint, method, argument } }) => {
  try {
    if (!engines.has(checkpoint)) engines.set(checkpoint, load(checkpoint));
    const engine = await engines.get(checkpoint);
    postMessage({ id, result: method === "load" ? null : await engine[method](argument) });
  } catch (error) {
    postMessage({ id, problem: error.message, isExpected: error instanceof Refused });
  }
});

async function load(checkpoint) {
  const fetchFile = async (name) => {
    const response = await fetch(new URL(`../data/${encodeURIComponent(checkpoint)}/${name}`, import.meta.url));
    if (!response.ok) throw new Error(`${name}: status ${response.status}`);
    return response;
  };
  const fetchJson = async (name) => (await fetchFile(name)).json();
  try {
    const names = ["model.json", "config.json", "tokenizer.json", "example.json"];
    const [model, config, tokenizer, example] = await Promise.all(names.map(fetchJson));
    const weights = await read(await fetchFile("model.safetensors"), model.bytes, (loaded) => postMessage({ checkpoint, loaded }));
    const engine = await loadEngine({ model, config, tokenizer, weights });
    engine.remember(example);
    postMessage({ checkpoint, loaded: 1 });
    return engine;
  } catch (error) {
    console.error(error);
    engines.delete(checkpoint); // so that the next request loads it again
    postMessage({ checkpoint, loaded: 1 });
    throw new Refused("The model could not be loaded. Check the connection, and translate again.");
  }
}

/** The bytes of a response; `onProgress` is called with the share that has arrived, below 1. */
async function read(response, size, onProgress) {
  const bytes = new Uint8Array(size);
  let [length, reported] = [0, 0];
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes.set(value, length);
    length += value.length;
    if (length - reported < STEP) continue;
    onProgress(Math.min(0.99, length / size));
    reported = length;
  }
  if (length !== size) throw new Error(`model.safetensors: ${length} bytes instead of ${size}`);
  return bytes.buffer;
}
