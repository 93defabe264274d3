// Answers requests with the page's engine: node answer.mjs PAGE CHECKPOINT < requests > responses, one JSON object a line.
//
// A request is {method, argument}: a method of the tokenizer or of the engine, or "translate", with only the text of the translation.
// Tensors become {name: {shape, data}}, with float32 in base64.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [page, checkpoint] = process.argv.slice(2);
const { loadEngine, Refused } = await import(pathToFileURL(`${page}/engine/engine.js`));
const json = (name) => JSON.parse(readFileSync(`${checkpoint}/${name}`, "utf-8"));
const weights = new Uint8Array(readFileSync(`${checkpoint}/model.safetensors`)).buffer;
const files = { model: json("model.json"), config: json("config.json"), tokenizer: json("tokenizer.json"), weights };
const engine = await loadEngine(files);

const base64 = ({ data }) => Buffer.from(data.slice().buffer).toString("base64");
const written = (value) =>
  value instanceof Map ? Object.fromEntries(Array.from(value, ([name, tensor]) => [name, { shape: tensor.shape, data: base64(tensor) }])) : value;

async function answer(method, argument) {
  if (method === "translate") return { text: engine.run({ text: argument }).target.text };
  if (method === "without WebAssembly") {
    delete globalThis.WebAssembly;
    return (await loadEngine(files)).run(argument);
  }
  return method in engine.tokenizer ? engine.tokenizer[method](argument) : engine[method](argument);
}

for await (const line of createInterface({ input: process.stdin })) {
  const { method, argument } = JSON.parse(line);
  const response = await answer(method, argument).catch((error) => (error instanceof Refused ? { problem: error.message } : { stack: error.stack }));
  process.stdout.write(`${JSON.stringify(written(response))}\n`);
}
