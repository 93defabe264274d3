"""Writes a checkpoint of ours as ONNX, in float32, with the files and names of optimum's `ORTModelForSeq2SeqLM`.

    python -m conversion to-onnx mini-en-de OUT

The card in OUT shows a loop with onnxruntime alone. A faster one, for batches, with keys and values of earlier steps:

    from conversion.runtimes.onnx import greedy

    tokenizer = AutoTokenizer.from_pretrained("OUT")
    inputs = tokenizer(["Hello!"], padding=True, return_tensors="np")
    ids = greedy(Path("OUT"), inputs["input_ids"], inputs["attention_mask"], max_new_tokens=60)
    tokenizer.batch_decode(ids, skip_special_tokens=True)

B sentences, S source tokens, T target tokens, P target tokens before them, H heads of width K, N a layer's number:

- encoder_model.onnx: input_ids [B, S], attention_mask [B, S] -> last_hidden_state [B, S, D]
- decoder_model.onnx, the first step: input_ids [B, T], encoder_attention_mask [B, S], encoder_hidden_states [B, S, D]
  -> logits [B, T, V], present.N.decoder.key and .value [B, H, T, K], present.N.encoder.key and .value [B, H, S, K]
- decoder_with_past_model.onnx, every later step: input_ids [B, 1], encoder_attention_mask [B, S],
  past_key_values.N.decoder.key and .value [B, H, P, K], past_key_values.N.encoder.key and .value [B, H, S, K]
  -> logits [B, 1, V], present.N.decoder.key and .value [B, H, P + 1, K]

Ids and masks are int64, masks 1 for tokens and 0 for padding, which is on the right. The target begins with
`decoder_start_token_id`. config.json, generation_config.json and the tokenizer are in the same folder.
"""

import json
import logging
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from ..options import ConversionError, Options
from ..parity.samples import padded, sample_ids
from ..parity.scores import TOLERANCE
from .exports import exported_folder, import_of, load


ENCODER, DECODER, DECODER_WITH_PAST = "encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"
KINDS = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
OPSET = 20
SHORTEST = 12
LARGEST_FILE = 2**31 - 2**20  # what one file of protocol buffers can hold
START = """\
```python
import numpy as np
import onnxruntime
{imports}from transformers import AutoTokenizer

folder = "PATH OF THIS FOLDER"
tokenizer = AutoTokenizer.from_pretrained(folder)
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
```
"""


def export(checkpoint: str, out: Path):
    """Writes the folder `out` after comparing what onnxruntime computes with our model.

    Raises:
        ConversionError: the checkpoint cannot be loaded or exported, or the results differ.
    """
    model, tokenizer = load(checkpoint, attn_implementation="eager")
    refuse_what_it_lacks(model.config)
    with exported_folder(out, checkpoint, start(model, tokenizer), "onnxruntime", tokenizer) as folder:
        write_graphs(model, folder)
        settings = model.config.to_diff_dict()
        for name in ("auto_map", "custom_pipelines"):  # they name code, which is not in this folder
            settings.pop(name, None)
        (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        model.generation_config.save_pretrained(folder)
        difference = largest_difference(model, folder)
        if not difference < TOLERANCE:
            raise ConversionError(
                f"onnxruntime's logits differ from our model's by up to {difference:.1e}; nothing was written."
            )
        print(f"onnxruntime {onnxruntime.__version__}: largest difference of logits {difference:.1e}")


def start(model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase | None) -> str:
    """The card's loop; it needs a tokenizer. Its length is limited as positions are."""
    if tokenizer is None:
        return "There is no tokenizer. The names and shapes of inputs and outputs are those of optimum."
    config, generation = model.config, model.generation_config
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    longest = 256
    if config.position_encoding == "learned":
        longest = min(longest, config.max_position_embeddings - config.position_offset)
    never = [i for i in (config.pad_token_id, *(generation.suppress_tokens or [])) if i is not None]
    settings = dict(start=config.decoder_start_token_id, ends=ends, never=never, longest=longest)
    return START.format(imports=import_of(tokenizer), **settings)


def refuse_what_it_lacks(config: VaswaniConfig):
    options = Options(config.to_dict(), "model")
    if config.decoder_start_token_id is None:
        options.refuse("decoder_start_token_id=None (supported: one token)")
    if config.position_encoding == "learned" and config.max_position_embeddings - config.position_offset < SHORTEST:
        options.refuse(f"positions for fewer than {SHORTEST} tokens, which the export is compared with")
    if options.problems:
        raise ConversionError.of("This model cannot be exported to ONNX", options.problems, 99)


class Encoder(nn.Module):
    def __init__(self, model: VaswaniForConditionalGeneration):
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class Decoder(nn.Module):
    """The first step: only the encoder's output is known."""

    def __init__(self, model: VaswaniForConditionalGeneration):
        super().__init__()
        self.decoder, self.lm_head = model.model.decoder, model.lm_head

    def forward(self, input_ids, encoder_attention_mask, encoder_hidden_states) -> list[torch.Tensor]:
        """Logits, then keys and values of each layer in the order of KINDS."""
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        logits = self._logits(input_ids, encoder_attention_mask, encoder_hidden_states, cache)
        layers = zip(cache.self_attention_cache.layers, cache.cross_attention_cache.layers, strict=True)
        return [logits, *(x for own, cross in layers for x in (own.keys, own.values, cross.keys, cross.values))]

    def _logits(self, input_ids, encoder_attention_mask, encoder_hidden_states, cache) -> torch.Tensor:
        hidden_states = self.decoder(
            input_ids=input_ids,
            encoder_hidden_states=encoder_hidden_states,
            encoder_attention_mask=encoder_attention_mask,
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        return self.lm_head(hidden_states)


class DecoderWithPast(Decoder):
    """Every later step, with the keys and values of earlier ones."""

    def forward(self, input_ids, encoder_attention_mask, past_key_values) -> list[torch.Tensor]:
        """`past_key_values` in the order that Decoder gives -> logits, then keys and values of the target."""
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        for layer in range(len(past_key_values) // len(KINDS)):
            key, value, cross_key, cross_value = past_key_values[len(KINDS) * layer :][: len(KINDS)]
            cache.self_attention_cache.update(key, value, layer)
            cache.cross_attention_cache.update(cross_key, cross_value, layer)
            cache.is_updated[layer] = True
        # Of the encoder's output, only the shape [B, S] is still asked for.
        logits = self._logits(input_ids, encoder_attention_mask, past_key_values[2][:, 0], cache)
        return [logits, *(x for own in cache.self_attention_cache.layers for x in (own.keys, own.values))]


@torch.no_grad()
def write_graphs(model: VaswaniForConditionalGeneration, folder: Path):
    """Exports encoder, decoder and decoder with past.

    Raises:
        ConversionError: torch's exporter cannot represent the model.
    """
    layers, config = range(model.config.decoder_layers), model.config
    past = [f"past_key_values.{n}.{kind}" for n in layers for kind in KINDS]
    present = [name.replace("past_key_values", "present") for name in past]
    own = [name for name in present if ".decoder." in name]

    input_ids, mask = padded(sample_ids(config, (2, 4, 3), config.vocab_size), config.pad_token_id)
    target, _ = padded(sample_ids(config, (3, 3, 3), config.decoder_vocab_size), config.pad_token_id)
    encoder, decoder, decoder_with_past = (kind(model).eval() for kind in (Encoder, Decoder, DecoderWithPast))
    hidden_states = encoder(input_ids, mask)
    keys_and_values = decoder(target, mask, hidden_states)[1:]

    axes = ("batch", "source_length", "target_length", "past_length")
    batch, source, tokens, before = map(torch.export.Dim, axes)
    ids, source_shape = {0: batch, 1: tokens}, {0: batch, 1: source}
    past_shapes = [{0: batch, 2: before if ".decoder." in name else source} for name in past]

    def write(name: str, module: nn.Module, arguments: tuple, shapes: tuple, inputs: list[str], outputs: list[str]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter's own dependencies
            program = torch.onnx.export(
                module,
                arguments,
                dynamo=True,
                opset_version=OPSET,
                dynamic_shapes=shapes,
                input_names=inputs,
                output_names=outputs,
                verbose=False,
            )
            large = sum(parameter.nbytes for parameter in module.parameters()) > LARGEST_FILE
            without_traces(program)
            program.save(folder / name, external_data=large)

    names = ["input_ids", "encoder_attention_mask"]
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it reports that torchvision is missing
    try:
        write(
            ENCODER, encoder, (input_ids, mask), (source_shape, source_shape), ["input_ids", "attention_mask"],
            ["last_hidden_state"],
        )  # fmt: skip
        write(
            DECODER, decoder, (target, mask, hidden_states), (ids, source_shape, source_shape),
            [*names, "encoder_hidden_states"], ["logits", *present],
        )  # fmt: skip
        write(
            DECODER_WITH_PAST, decoder_with_past, (target[:, :1], mask, keys_and_values),
            ({0: batch}, source_shape, past_shapes), [*names, *past], ["logits", *own],
        )  # fmt: skip
    except torch.onnx.errors.OnnxExporterError as error:
        raise ConversionError(f"torch cannot export this model to ONNX: {str(error).splitlines()[0]}") from error


def without_traces(program: torch.onnx.ONNXProgram):
    """Removes what the exporter notes about each node: the lines of code behind it, with the paths of this machine."""
    for graph in (program.model.graph, *program.model.functions.values()):
        graph.metadata_props.clear()
        for node in graph.all_nodes():
            node.metadata_props.clear()


def sessions(folder: Path) -> list[onnxruntime.InferenceSession]:
    """Encoder, decoder and decoder with past, run on as many threads as torch."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    return [
        onnxruntime.InferenceSession(folder / name, options, providers=["CPUExecutionProvider"])
        for name in (ENCODER, DECODER, DECODER_WITH_PAST)
    ]


def logits_of_steps(folder: Path, input_ids: np.ndarray, attention_mask: np.ndarray, begin: np.ndarray):
    """Generates logits [B, T, V] after the tokens `begin` [B, T], then [B, 1, V] after each [B, 1] sent to it."""
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
    """Greedy search: sources and their mask [B, S], int64 -> translations [B, T], padded (with 0) after `</s>`.

    Of generation_config.json it obeys `suppress_tokens` and `min_new_tokens`.
    """
    config = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    pad, end = config.get("pad_token_id"), config.get("eos_token_id")
    end = [] if end is None else end  # a list where several tokens end a text
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
    """Between the logits of onnxruntime and ours, in batches of one and several, one of them begun with four tokens."""
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
