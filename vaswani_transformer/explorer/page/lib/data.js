// Where the numbers come from: a server that computes (live), or the files of an exported copy. Both answer alike.
import { readTensors } from "./tensors.js";

/** What the server said is wrong, in a sentence for the reader. */
export class Problem extends Error {}

/** The source of this page's numbers. An exported page says so in its first element. */
export const connect = () => ("exported" in document.documentElement.dataset ? new Exported() : new Live());

async function answer(request) {
  let response;
  try {
    response = await request;
  } catch {
    throw new Problem("The server does not answer. Is “vaswani explore” still running?");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new Problem(body.problem ?? `The server answered with status ${response.status}.`);
}

const getJson = async (path) => (await answer(fetch(path))).json();
const getTensors = async (path) => readTensors(await (await answer(fetch(path))).arrayBuffer());
const post = async (path, body) =>
  (await answer(fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }))).json();

class Live {
  checkpoints = () => getJson("api/checkpoints");
  model = (name) => getJson(`api/model?checkpoint=${encodeURIComponent(name)}`);
  modelTensors = (name) => getTensors(`api/model/tensors?checkpoint=${encodeURIComponent(name)}`);
  run = (request) => post("api/run", request);
  tensors = (run) => getTensors(`api/run/${run.id}/tensors`);
  heads = (run) => post("api/heads", run.request);
  beyond = (run) => post("api/beyond", run.request);
}

/** A copy without a server: it holds a few sentences, and for each the answers that the page's controls ask for. */
class Exported {
  checkpoints = () => getJson("data/checkpoints.json");
  model = () => getJson("data/model.json");
  modelTensors = () => getTensors("data/model.safetensors");
  sentences = () => (this.runs ??= getJson("data/runs.json"));

  async run({ text, off = [], causal = true, beams, alpha }) {
    const file = await this.file(text);
    if (off.length) {
      const all = await getJson(`data/runs/${file}.off.json`);
      const run = off.length === 1 ? all[off[0].join(".")] : null;
      if (!run) throw new Problem("This copy holds translations with one head off at a time. Run “vaswani explore” for more.");
      return { ...run, file };
    }
    if (!causal) return { ...(await getJson(`data/runs/${file}.leak.json`)), file: `${file}.leak` };
    const run = await getJson(`data/runs/${file}.json`);
    if (beams === undefined && alpha === undefined) return { ...run, file };
    const wanted = { beams: beams ?? run.search.beams, alpha: alpha ?? run.search.alpha };
    const others = await getJson(`data/runs/${file}.beams.json`);
    const found = others.find(({ search }) => search.beams === wanted.beams && search.alpha === wanted.alpha);
    if (!found) throw new Problem("This copy holds beams of 1 to 4 with alpha 0, 0.6 and 1. Run “vaswani explore” for more.");
    return { ...found, file };
  }

  tensors = (run) => getTensors(`data/runs/${run.file}.safetensors`);
  heads = async (run) => getJson(`data/runs/${await this.file(run.request.text)}.heads.json`);
  beyond = async (run) => getJson(`data/runs/${await this.file(run.request.text)}.beyond.json`);

  async file(text) {
    const found = (await this.sentences()).find((sentence) => sentence.text === text);
    if (!found) throw new Problem("This copy holds only its own sentences. Install the package and run “vaswani explore” for yours.");
    return found.file;
  }
}
