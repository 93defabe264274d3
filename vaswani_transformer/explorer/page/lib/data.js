// The source of the page's data: a running server, or in an exported page the engine in the browser. Both have the same methods.
import { positionTensors } from "../engine/transformer.js";
import { readTensors, Tensor } from "./tensors.js";

/** An error that the reader should see; the message is a sentence. */
export class Problem extends Error {}

/** Connects to the source; an exported page has an attribute on its <html> element. */
export const connect = () => (isExported() ? new InBrowser() : new Live());

const isExported = () => "exported" in document.documentElement.dataset;

async function checked(request) {
  let response;
  try {
    response = await request;
  } catch {
    throw new Problem(isExported() ? "A file of this page could not be loaded. Check the connection, and retry."
      : "The server does not answer. Is “vaswani explore” still running?");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new Problem(body.problem ?? `The server answered with status ${response.status}.`);
}

const getJson = async (path) => (await checked(fetch(path))).json();
const getTensors = async (path) => readTensors(await (await checked(fetch(path))).arrayBuffer());
const post = async (path, body) =>
  (await checked(fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }))).json();

class Live {
  privacy = "The text that you type stays between this page and the program that serves it.";
  checkpoints = () => getJson("api/checkpoints");
  model = (name) => getJson(`api/model?checkpoint=${encodeURIComponent(name)}`);
  modelTensors = (name) => getTensors(`api/model/tensors?checkpoint=${encodeURIComponent(name)}`);
  run = (request) => post("api/run", request);
  tensors = (run) => getTensors(`api/run/${run.id}/tensors`);
  heads = (run) => post("api/heads", run.request);
  beyond = (run) => post("api/beyond", run.request);
}

/** An exported page without a server: the engine in a worker computes everything but the first sentence, which is precomputed. */
class InBrowser {
  #worker = null;
  #files = new Map(); // promises, by their paths
  #requests = 0;
  #answers = new Map(); // the functions that receive the worker's answers, by the number of the request
  #listeners = [];
  privacy = "The text that you type stays in this page: the model runs in your browser.";

  checkpoints = () => getJson("data/checkpoints.json");
  model = (name) => this.#file(name, "model.json");
  modelTensors = async (name) => positionTensors((await this.model(name)).config);
  heads = ({ request }) => this.#ask(request, "heads");
  beyond = ({ request }) => this.#ask(request, "beyond");

  async run(request) {
    const { example } = await this.model(request.checkpoint);
    if (request.text === example) {
      const run = await this.#file(request.checkpoint, "example.json");
      const isExample = Object.entries(request).every(([name, value]) => JSON.stringify(value) === JSON.stringify(run.request[name]));
      if (isExample) return run;
    }
    return this.#ask(request, "run");
  }

  async tensors(run) {
    const { checkpoint } = run.request;
    if (run !== (await this.#file(checkpoint, "example.json"))) return this.#ask(run.request, "tensors");
    const tensors = await this.#file(checkpoint, "example.safetensors", getTensors);
    this.#ask(run.request, "load").catch(() => {}); // the next request tries again, and reports the problem
    return tensors;
  }

  /** Calls `listener(checkpoint, share)` while weights are loading; a share of 1 means that loading has ended. */
  onProgress(listener) {
    this.#listeners.push(listener);
  }

  /** The content of a file of a checkpoint, which is loaded once. */
  #file(name, file, get = getJson) {
    const path = `data/${encodeURIComponent(name)}/${file}`;
    if (!this.#files.has(path)) this.#files.set(path, get(path).catch((error) => {
      this.#files.delete(path); // so that the next request loads it again
      throw error;
    }));
    return this.#files.get(path);
  }

  #ask(request, method) {
    this.#worker ??= this.#start();
    return new Promise((resolve, reject) => {
      const id = this.#requests++;
      this.#answers.set(id, { resolve, reject });
      this.#worker.postMessage({ id, checkpoint: request.checkpoint, method, argument: request });
    });
  }

  #start() {
    const worker = new Worker(new URL("../engine/worker.js", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data: { id, result, problem, isExpected, checkpoint, loaded } }) => {
      if (checkpoint) return this.#listeners.forEach((listener) => listener(checkpoint, loaded));
      const { resolve, reject } = this.#answers.get(id);
      this.#answers.delete(id);
      if (problem) reject(isExpected ? new Problem(problem) : new Error(problem));
      else resolve(result instanceof Map ? restored(result) : result);
    });
    worker.addEventListener("error", () => {
      for (const { reject } of this.#answers.values()) reject(new Problem("This browser cannot run the model. Update it, or use another one."));
      this.#answers.clear();
      this.#worker = null;
    });
    return worker;
  }
}

/** Tensors as such: a message from a worker carries their contents only. */
const restored = (tensors) => new Map(Array.from(tensors, ([name, { shape, data }]) => [name, new Tensor(shape, data, name)]));
