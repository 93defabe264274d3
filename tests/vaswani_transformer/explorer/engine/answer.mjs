// Answers requests with the page's engine: node answer.mjs PAGE MODEL.JSON CHECKPOINT < requests > responses, one JSON a line.
//
// A request is {method, argument}: "encode" and "decode" of the tokenizer, or a method of the engine. Tensors are written as
// {name: {shape, data}}, with float32 in base64.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [page, description, checkpoint] = process.argv.slice(2);
const { loadEngine } = await import(pathToFileURL(`${page}/engine/engine.js`));
const { Tokenizer } = await import(pathToFileURL(`${page}/engine/tokenizer.js`));

const json = (path) => JSON.parse(readFileSync(path, "utf-8"));
const bytes = (path) => new Uint8Array(readFileSync(path)).buffer;
const tokenizer = new Tokenizer(json(`${checkpoint}/tokenizer.json`));
let engine;
const engineOf = () => (engine ??= loadEngine({
  model: json(description),
  config: json(`${checkpoint}/config.json`),
  tokenizer: json(`${checkpoint}/tokenizer.json`),
  weights: bytes(`${checkpoint}/model.safetensors`),
}));

const written = (value) => value instanceof Map
  ? Object.fromEntries(Array.from(value, ([name, { shape, data }]) => [name, { shape, data: Buffer.from(data.slice().buffer).toString("base64") }]))
  : value;

for await (const line of createInterface({ input: process.stdin })) {
  const { method, argument } = JSON.parse(line);
  try {
    const target = method in tokenizer ? tokenizer : await engineOf();
    process.stdout.write(`${JSON.stringify(written(await target[method](argument)))}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ problem: error.message, stack: error.stack })}\n`);
  }
}
