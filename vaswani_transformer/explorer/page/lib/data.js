// The source of the page's data: a running server, or the files of an exported copy. Both have the same methods.
import { readTensors } from "./tensors.js";

/** An error that the reader should see; the message is a sentence. */
export class Problem extends Error {}

/** Connects to the source; an exported page has an attribute on its <html> element. */
export const connect = () => ("exported" in document.documentElement.dataset ? new Exported() : new Live());

async function checked(request) {
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

const getJson = async (path) => (await checked(fetch(path))).json();
const getTensors = async (path) => readTensors(await (await checked(fetch(path))).arrayBuffer());
const post = async (path, body) =>
  (await checked(fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }))).json();

class Live {
  checkpoints = () => getJson("api/checkpoints");
  model = (name) => getJson(`api/model?checkpoint=${encodeURIComponent(name)}`);
  modelTensors = (name) => getTensors(`api/model/tensors?checkpoint=${encodeURIComponent(name)}`);
  run = (request) => post("api/run", request);
  tensors = (run) => getTensors(`api/run/${run.id}/tensors`);
  heads = (run) => post("api/heads", run.request);
  beyond = (run) => post("api/beyond", run.request);
}

/** A copy without a server: it contains a few sentences and, for each, the responses that the controls need. */
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
      if (!run) throw new Problem("This copy contains translations with one head off at a time. Run “vaswani explore” for other combinations.");
      return { ...run, file };
    }
    if (!causal) return { ...(await getJson(`data/runs/${file}.leak.json`)), file: `${file}.leak` };
    const run = await getJson(`data/runs/${file}.json`);
    if (beams === undefined && alpha === undefined) return { ...run, file };
    const wanted = { beams: beams ?? run.search.beams, alpha: alpha ?? run.search.alpha };
    const searches = await getJson(`data/runs/${file}.beams.json`);
    const match = searches.find(({ search }) => search.beams === wanted.beams && search.alpha === wanted.alpha);
    if (!match) throw new Problem("This copy contains searches with 1 to 4 beams and α of 0, 0.6 or 1. Run “vaswani explore” for other settings.");
    return { ...match, file };
  }

  tensors = (run) => getTensors(`data/runs/${run.file}.safetensors`);
  heads = async (run) => getJson(`data/runs/${await this.file(run.request.text)}.heads.json`);
  beyond = async (run) => getJson(`data/runs/${await this.file(run.request.text)}.beyond.json`);

  async file(text) {
    const sentence = (await this.sentences()).find((candidate) => candidate.text === text);
    if (!sentence) throw new Problem("This copy contains only a few sentences. Install the package and run “vaswani explore” to translate your own.");
    return sentence.file;
  }
}
