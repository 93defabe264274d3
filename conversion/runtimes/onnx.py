"""Exports a checkpoint to ONNX, in float32, with the files and names of optimum's `ORTModelForSeq2SeqLM`.

    vaswani convert to-onnx mini-en-de OUT

The card in OUT shows a loop that needs only onnxruntime. A faster one, with batches and cached keys and values:

    from conversion.runtimes.onnx import greedy

    tokenizer = AutoTokenizer.from_pretrained("OUT")
    inputs = tokenizer(["Hello!"], padding=True, return_tensors="np")
    ids = greedy(Path("OUT"), inputs["input_ids"], inputs["attention_mask"], max_new_tokens=60)
    tokenizer.batch_decode(ids, skip_special_tokens=True)

B sentences, S source tokens, T target tokens, P previous target tokens, H heads of width K, layer number N:

- encoder_model.onnx: input_ids [B, S], attention_mask [B, S] -> last_hidden_state [B, S, D]
- decoder_model.onnx, the first step: input_ids [B, T], encoder_attention_mask [B, S], encoder_hidden_states [B, S, D]
  -> logits [B, T, V], present.N.decoder.key and .value [B, H, T, K], present.N.encoder.key and .value [B, H, S, K]
- decoder_with_past_model.onnx, every later step: input_ids [B, 1], encoder_attention_mask [B, S],
  past_key_values.N.decoder.key and .value [B, H, P, K], past_key_values.N.encoder.key and .value [B, H, S, K]
  -> logits [B, 1, V], present.N.decoder.key and .value [B, H, P + 1, K]

Ids and masks are int64. Masks are 1 for tokens and 0 for padding on the right. The target starts with
`decoder_start_token_id`. config.json, generation_config.json and the tokenizer are in the same folder.
"""

from pathlib import Path

import numpy as np
import onnxruntime
import torch
from transformers import PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.remote_code import CODE_FIELDS
from vaswani_transformer.system.files import read_json, write_json

from ..options import ConversionError, Options
from ..parity.samples import padded, sample_ids
from .exports import accepted_difference, exported_folder, load, snippet
from .onnx_graphs import DECODER, DECODER_WITH_PAST, ENCODER, write_graphs


MIN_POSITIONS = 12
EXAMPLE = """
encoder, decoder = (onnxruntime.InferenceSession(f"{{folder}}/{{name}}_model.onnx") for name in ("encoder", "decoder"))

ids = np.array([tokenizer("TEXT").input_ids])
inputs = {{"input_ids": ids, "attention_mask": np.ones_like(ids)}}
memory = {{
    "encoder_hidden_states": encoder.run(None, inputs)[0],
    "encoder_attention_mask": inputs["attention_mask"],
}}
target = np.array([[{start}]])
while target.shape[1] < {longest} and (target.shape[1] == 1 or target[0, -1] not in {ends}):
    logits = decoder.run(["logits"], {{"input_ids": target, **memory}})[0][0, -1]
    logits[{never}] = -np.inf
    target = np.append(target, [[logits.argmax()]], axis=1)
tokenizer.decode(target[0, 1:], skip_special_tokens=True)
"""


def export(checkpoint: str, out: Path):
    """Writes the folder `out` after comparing the results of onnxruntime with our model's.

    Raises:
        ConversionError: the checkpoint cannot be loaded or exported, or the results differ.
    """
    model, tokenizer = load(checkpoint, attn_implementation="eager")
    refuse_unsupported(model.config)
    with exported_folder(out, model, start(model, tokenizer), "onnxruntime", tokenizer) as folder:
        write_graphs(model, folder)
        settings = model.config.to_diff_dict()
        for name in CODE_FIELDS:  # the code is not in this folder
            settings.pop(name, None)
        write_json(folder / "config.json", settings)
        model.generation_config.save_pretrained(folder)
        difference = largest_difference(model, folder)
        if not difference < accepted_difference(model):
            raise ConversionError(
                f"onnxruntime's logits differ from our model's by up to {difference:.1e}; nothing was written."
            )
        print(f"onnxruntime {onnxruntime.__version__}: largest difference of logits {difference:.1e}")


def start(model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase | None) -> str:
    """Returns the loop for the card, if there is a tokenizer. The number of positions limits its length."""
    if tokenizer is None:
        return "This model has no tokenizer. Inputs and outputs have the names and shapes of optimum."
    config, generation = model.config, model.generation_config
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    longest = 256
    if config.position_encoding == "learned":
        longest = min(longest, config.max_position_embeddings - config.position_offset)
    never = [i for i in (config.pad_token_id, *(generation.suppress_tokens or [])) if i is not None]
    example = EXAMPLE.format(start=config.decoder_start_token_id, ends=ends, never=never, longest=longest)
    return snippet(example, "numpy as np", "onnxruntime", tokenizer=tokenizer)


def refuse_unsupported(config: VaswaniConfig):
    options = Options(config.to_dict(), "model")
    if config.decoder_start_token_id is None:
        options.refuse("decoder_start_token_id=None (supported: one token)")
    learned = config.position_encoding == "learned"
    if learned and config.max_position_embeddings - config.position_offset < MIN_POSITIONS:
        options.refuse(f"positions for fewer than {MIN_POSITIONS} tokens (the comparison needs {MIN_POSITIONS})")
    if options.problems:
        raise ConversionError.from_problems("This model cannot be exported to ONNX", options.problems, 99)


def sessions(folder: Path) -> list[onnxruntime.InferenceSession]:
    """Opens encoder, decoder and decoder with past, with as many threads as torch uses."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    return [
        onnxruntime.InferenceSession(folder / name, options, providers=["CPUExecutionProvider"])
        for name in (ENCODER, DECODER, DECODER_WITH_PAST)
    ]


def logits_of_steps(folder: Path, input_ids: np.ndarray, attention_mask: np.ndarray, begin: np.ndarray):
    """Yields logits [B, T, V] for the tokens `begin` [B, T], then [B, 1, V] for each [B, 1] sent to it."""
    encoder, decoder, decoder_with_past = sessions(folder)
    hidden_states = encoder.run(None, {"input_ids": input_ids, "attention_mask": attention_mask})[0]
    inputs = {"input_ids": begin, "encoder_attention_mask": attention_mask, "encoder_hidden_states": hidden_states}
    session, past = decoder, {}
    while True:
        outputs = session.run(None, inputs)
        for output, value in zip(session.get_outputs(), outputs, strict=True):
            if output.name.startswith("present"):
                past[output.name.replace("present", "past_key_values")] = value
        token = yield outputs[0]
        session, inputs = decoder_with_past, {"input_ids": token, "encoder_attention_mask": attention_mask, **past}


def greedy(folder: Path, input_ids: np.ndarray, attention_mask: np.ndarray, max_new_tokens: int) -> np.ndarray:
    """Runs greedy search: sources and mask [B, S], int64 -> translations [B, T], padded (default: 0) after `</s>`.

    Uses `suppress_tokens` and `min_new_tokens` of generation_config.json.
    """
    config = read_json(folder / "generation_config.json")
    pad, end = config.get("pad_token_id"), config.get("eos_token_id")
    end = [] if end is None else end  # a list if several tokens end a text
    never = [i for i in (pad, *(config.get("suppress_tokens") or [])) if i is not None]
    steps = logits_of_steps(
        folder, input_ids, attention_mask, np.full((len(input_ids), 1), config["decoder_start_token_id"])
    )
    logits, tokens, running = next(steps), [], np.ones(len(input_ids), dtype=bool)
    while True:
        logits[..., never] = -np.inf
        if len(tokens) < (config.get("min_new_tokens") or 0):
            logits[..., end] = -np.inf
        token = np.where(running, logits[:, -1].argmax(axis=-1), pad or 0)
        tokens.append(token)
        running &= ~np.isin(token, end)
        if not running.any() or len(tokens) == max_new_tokens:
            return np.stack(tokens, axis=1)
        logits = steps.send(token[:, None])


@torch.no_grad()
def largest_difference(model: VaswaniForConditionalGeneration, folder: Path) -> float:
    """Returns the largest difference of logits: batches of one and several, with one and four initial tokens."""
    config, worst = model.config, 0.0
    for lengths, begun in (((7,), 1), ((1, 5, 11), 1), ((6, 2), 4)):
        input_ids, mask = padded(sample_ids(config, lengths, config.vocab_size), config.pad_token_id)
        target, _ = padded(sample_ids(config, (7,) * len(lengths), config.decoder_vocab_size), config.pad_token_id)
        target[:, 0] = config.decoder_start_token_id
        ours = model(input_ids, mask, target, use_cache=False).logits
        steps = logits_of_steps(folder, input_ids.numpy(), mask.numpy(), target[:, :begun].numpy())
        computed = [next(steps), *(steps.send(target[:, [i]].numpy()) for i in range(begun, target.shape[1]))]
        worst = max(worst, float((torch.from_numpy(np.concatenate(computed, axis=1)) - ours).abs().max()))
    return worst
