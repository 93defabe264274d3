// The engine in the browser: answers the page's requests as the server does (runs.py and responses.py), with the model in JavaScript.
import { readTensors } from "../lib/tensors.js";
import { BeamSearch, lengthPenalty } from "./beam-search.js";
import { storeMatrices } from "./kernel.js";
import { findRole } from "./measures.js";
import { Tokenizer } from "./tokenizer.js";
import { logSoftmax, VaswaniForConditionalGeneration } from "./transformer.js";

const EXTRA_LENGTH = 50; // tokens that a translation may have more than its source (section 6.1)
const ALTERNATIVES = 10; // tokens listed at each position
const MAX_STORED = 8; // runs
const [MAX_COPIES, MAX_REPEATED_TOKENS] = [8, 400]; // of a sentence, for lengths beyond those in training
const START = "<start>";

/** A request that cannot be answered; the message says why and what to do. */
export class Refused extends Error {}

/** Lets other requests be answered between two parts of a long one. */
const pause = () => new Promise((resolve) => setTimeout(resolve));

/** A head's name in the model: ["encoder", "self_attn", 0, 3] -> "encoder.layers.0.self_attn.3". */
const headName = ([stack, kind, layer, head]) => `${stack}.layers.${layer}.${kind}.${head}`;

export class Engine {
  #stored = new Map(); // the latest runs: {response, tensors} by their settings

  /** `model` is the description that the page has, too; `config` and `tokenizer` are the checkpoint's files, `weights` its tensors. */
  constructor({ model, config, tokenizer, weights }) {
    Object.assign(this, { description: model, config, generation: model.generation });
    this.tokenizer = new Tokenizer(tokenizer);
    this.model = new VaswaniForConditionalGeneration(config, weights);
  }

  // Requests --------------------------------------------------------------------------------------------------------------------------

  /** Translates a text and describes the run; with heads off or without the mask, also the run of the whole model. */
  run(request) {
    const settings = this.#settings(request);
    const { response } = this.#inspect(settings);
    const whole = { ...settings, off: [], causal: true };
    if (JSON.stringify(whole) === JSON.stringify(settings)) return response;
    const { target, score, log_prob } = this.#inspect(whole).response;
    return { ...response, changes: { text_before: target.text, score_before: score, log_prob_before: log_prob } };
  }

  /** The tensors of a run with these settings, by name. */
  tensors = (request) => this.#inspect(this.#settings(request), true).tensors;

  /** Stores a run that was computed before, without its tensors. */
  remember(response) {
    this.#stored.set(JSON.stringify(response.request), { response });
  }

  /** Switches off each head in turn: the new translation, and the log P of the original one. For speed, all searches use one beam. */
  async heads(request) {
    const { source, target } = this.#inspect(this.#settings({ ...request, off: [], causal: true })).response;
    const [sourceIds, targetIds] = [idsOf(source.tokens), idsOf(target.outputs)];
    const without = (off) => {
      const pass = { record() {}, off: new Set(off.map(headName)) };
      const memory = this.model.encode(sourceIds, pass);
      const { search } = this.#search(sourceIds.length, memory, pass, { beams: 1, alpha: this.generation.length_penalty });
      const best = search.finished[0];
      const logProbs = this.#forcedLogProbs(memory, targetIds, pass);
      return { text: this.tokenizer.decode(best.tokens), score: best.score, log_prob_of_original: sum(logProbs) };
    };
    const whole = without([]);
    const response = [];
    for (const [stack, kind, layer, head] of this.#allHeads()) {
      const ablation = without([[stack, kind, layer, head]]);
      response.push({ stack, kind, layer, head, ...ablation, changed: ablation.text !== whole.text });
      await pause();
    }
    return response;
  }

  /** Repeats the sentence and its translation 1 to 8 times: the log-probability of each target token. */
  async beyond(request) {
    const { source, target } = this.#inspect(this.#settings({ ...request, off: [], causal: true })).response;
    const repeat = (tokens, copies) => {
      const ids = idsOf(tokens);
      const text = ids.at(-1) === this.tokenizer.end ? ids.slice(0, -1) : ids;
      return [...Array.from({ length: copies }, () => text).flat(), ...ids.slice(text.length)];
    };
    const points = [];
    for (let copies = 1; copies <= MAX_COPIES; copies++) {
      const [sourceIds, targetIds] = [repeat(source.tokens, copies), repeat(target.outputs, copies)];
      if (copies > 1 && Math.max(sourceIds.length, targetIds.length) > MAX_REPEATED_TOKENS) break;
      const logProbs = this.#forcedLogProbs(this.model.encode(sourceIds), targetIds);
      points.push(...logProbs.map((log_prob, position) => ({ copies, position, log_prob })));
      await pause();
    }
    return { trained_length: this.description.trained_length, points };
  }

  // The model -------------------------------------------------------------------------------------------------------------------------

  /** The complete settings of a request; those that are missing are the checkpoint's. */
  #settings({ text, beams, alpha, off = [], causal = true }) {
    if (/^[\p{White_Space}\x1c-\x1f]*$/u.test(text)) throw new Refused("The text is empty. Type a sentence.");
    const [length, limit] = [this.tokenizer.encode(text).length, this.description.limits.source_tokens];
    if (length > limit)
      throw new Refused(`The text has ${length.toLocaleString("en")} tokens; the page shows at most ${limit}. Shorten the text.`);
    const { num_beams, length_penalty } = this.generation;
    return { checkpoint: this.description.name, text, beams: beams ?? num_beams, alpha: alpha ?? length_penalty, off, causal };
  }

  /** Runs the model, or returns the stored run with these settings; `needsTensors` computes tensors that are missing. */
  #inspect(settings, needsTensors = false) {
    const key = JSON.stringify(settings);
    const stored = this.#stored.get(key);
    const run = stored && (stored.tensors || !needsTensors) ? stored : this.#compute(settings);
    this.#stored.delete(key);
    this.#stored.set(key, run);
    if (this.#stored.size > MAX_STORED) this.#stored.delete(this.#stored.keys().next().value);
    return run;
  }

  #compute(settings) {
    const start = performance.now();
    const off = new Set(settings.off.map(headName));
    const sourceIds = this.tokenizer.encode(settings.text);
    const tensors = new Map();
    const pass = { record: (name, tensor) => tensors.set(name, tensor), off };
    const memory = this.model.encode(sourceIds, pass);
    const { search, milliseconds } = this.#search(sourceIds.length, memory, { ...pass, record() {} }, settings);
    const targetIds = search.finished[0].tokens;
    const logits = this.model.decode(this.#shiftRight(targetIds), memory, pass, settings.causal);
    const response = this.#describe(settings, sourceIds, targetIds, tensors, logSoftmax(logits), search);
    response.timing_ms = { search: milliseconds, inspect: performance.now() - start - milliseconds };
    return { response, tensors };
  }

  /** Searches the translation of a source of S tokens, whose encoder output is `memory`. */
  #search(S, memory, pass, { beams, alpha }) {
    const start = performance.now();
    const { config, tokenizer, generation } = this;
    const lengths = { minLength: generation.min_new_tokens, maxLength: S + EXTRA_LENGTH };
    const ids = { pad: config.pad_token_id, end: tokenizer.end };
    const search = new BeamSearch({ beams, alpha, offset: generation.length_penalty_offset, ...lengths, ...ids });
    const cache = new Map();
    let [histories, rows] = [[[]], 0]; // the cache's rows that each beam has come through
    for (let position = 0; !search.isOver; position++) {
      histories = search.running.map(({ row }, beam) => [...histories[row], rows + beam]);
      rows += histories.length;
      const isOwn = histories.map((history) => Uint8Array.from({ length: rows }, (_, row) => history.includes(row)));
      const last = search.running.map(({ tokens }) => tokens.at(-1) ?? config.decoder_start_token_id);
      const logits = this.model.step(last, position, memory, cache, (beam, row) => isOwn[beam][row], pass);
      search.step(logSoftmax(logits));
    }
    return { search, milliseconds: performance.now() - start };
  }

  /** The decoder's input for a translation: "offset by one position" (section 3.1). */
  #shiftRight = (ids) => [this.config.decoder_start_token_id, ...ids.slice(0, -1)];

  /** The log-probability of each target token after the tokens before it. */
  #forcedLogProbs(memory, targetIds, pass) {
    const logProbs = logSoftmax(this.model.decode(this.#shiftRight(targetIds), memory, pass));
    return targetIds.map((id, t) => logProbs.at(t, id));
  }

  /** All heads, from the encoder's first layer to the decoder's last. */
  #allHeads() {
    const kinds = [["encoder", "self_attn"], ["decoder", "self_attn"], ["decoder", "cross_attn"]];
    const heads = kinds.flatMap(([stack, kind]) =>
      Array.from({ length: this.config[`${stack}_layers`] }, (_, layer) =>
        Array.from({ length: this.config[`${stack}_attention_heads`] }, (_, head) => [stack, kind, layer, head])).flat());
    const inOrder = (a, b) => (a[0] === "decoder") - (b[0] === "decoder") || a[2] - b[2];
    return heads.sort(inOrder);
  }

  // Responses -------------------------------------------------------------------------------------------------------------------------

  #describe(request, sourceIds, targetIds, tensors, logProbs, search) {
    const { tokenizer } = this;
    const [source, outputs] = [tokenizer.describe(sourceIds), tokenizer.describe(targetIds)];
    const start = { id: this.config.decoder_start_token_id, text: START, kind: "special", unknown: false };
    const target = [start, ...outputs.slice(0, -1)];
    const log_probs = targetIds.map((id, t) => logProbs.at(t, id));
    return {
      id: JSON.stringify(request),
      checkpoint: this.description.name,
      request,
      source: { text: request.text, tokens: source },
      target: { text: tokenizer.decode(targetIds), tokens: target, outputs },
      log_probs,
      mean_log_probs: targetIds.map((_, t) => sum(logProbs.part(t).data) / logProbs.shape[1]),
      log_prob: sum(log_probs),
      score: sum(log_probs) / lengthPenalty(targetIds.length, search.alpha, search.offset),
      alternatives: targetIds.map((_, t) => this.#alternatives(logProbs.part(t).data)),
      search: this.#describeSearch(search),
      heads: this.#allHeads().map(([stack, kind, layer, head]) => {
        const weights = tensors.get(`${stack}.layers.${layer}.${kind}.weights`).part(head);
        return { stack, kind, layer, head, ...findRole(kind, weights, stack === "encoder" || kind === "cross_attn" ? source : target) };
      }),
      changes: null,
    };
  }

  /** The likeliest tokens of one position, best first. */
  #alternatives(logProbs) {
    const best = [];
    logProbs.forEach((log_prob, id) => {
      if (best.length === ALTERNATIVES && log_prob <= best.at(-1).log_prob) return;
      const rank = best.findIndex((other) => other.log_prob < log_prob);
      best.splice(rank < 0 ? best.length : rank, 0, { id, text: "", log_prob });
      best.length = Math.min(best.length, ALTERNATIVES);
    });
    return best.map((alternative) => ({ ...alternative, text: this.tokenizer.describe([alternative.id])[0].text }));
  }

  #describeSearch({ beams, alpha, offset, maxLength, steps, finished, penalty }) {
    const { tokenizer } = this;
    const candidate = ({ key, parent, token, logProb, total, score, fate }) =>
      ({ key, parent, id: token, log_prob: logProb, total, score, fate, text: tokenizer.describe([token])[0].text });
    const hypothesis = ({ key, tokens, score }) => ({
      key,
      text: tokenizer.decode(tokens),
      tokens: tokenizer.describe(tokens).map(({ text }) => text),
      log_prob: score * penalty(tokens.length),
      length: tokens.length,
      score,
    });
    const described = { steps: steps.map((candidates) => ({ candidates: candidates.map(candidate) })), finished: finished.map(hypothesis) };
    return { beams, alpha, offset, max_length: maxLength, ...described };
  }
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const idsOf = (tokens) => tokens.map(({ id }) => id);

/** The engine of a checkpoint: `weights` are the bytes of model.safetensors. */
export async function loadEngine({ weights, ...files }) {
  return new Engine({ ...files, weights: await storeMatrices(readTensors(weights)) });
}
