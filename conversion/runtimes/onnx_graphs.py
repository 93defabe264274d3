"""Exports encoder, decoder and decoder with past to ONNX graphs; `onnx.py` lists their inputs and outputs."""

import logging
import warnings
from pathlib import Path

import torch
from torch import nn
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from vaswani_transformer import VaswaniForConditionalGeneration

from ..options import ConversionError
from ..parity.samples import padded, sample_ids


ENCODER, DECODER, DECODER_WITH_PAST = "encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"
KINDS = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
OPSET = 20
MAX_FILE_BYTES = 2**31 - 2**20  # below the limit of protocol buffers, 2 GiB


class Encoder(nn.Module):
    def __init__(self, model: VaswaniForConditionalGeneration):
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class Decoder(nn.Module):
    """The first step, which only has the encoder's output."""

    def __init__(self, model: VaswaniForConditionalGeneration):
        super().__init__()
        self.decoder, self.lm_head = model.model.decoder, model.lm_head

    def forward(self, input_ids, encoder_attention_mask, encoder_hidden_states) -> list[torch.Tensor]:
        """Returns logits, then keys and values of each layer in the order of KINDS."""
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        logits = self._logits(input_ids, encoder_attention_mask, encoder_hidden_states, cache)
        layers = zip(cache.self_attention_cache.layers, cache.cross_attention_cache.layers, strict=True)
        return [logits, *(x for layer, cross in layers for x in (layer.keys, layer.values, cross.keys, cross.values))]

    def _logits(self, input_ids, encoder_attention_mask, encoder_hidden_states, cache) -> torch.Tensor:
        hidden_states = self.decoder(
            input_ids=input_ids,
            encoder_hidden_states=encoder_hidden_states,
            encoder_attention_mask=encoder_attention_mask,
            cache=cache,
            use_cache=True,
        ).last_hidden_state
        return self.lm_head(hidden_states)


class DecoderWithPast(Decoder):
    """All later steps, with cached keys and values."""

    def forward(self, input_ids, encoder_attention_mask, past_key_values) -> list[torch.Tensor]:
        """`past_key_values` in Decoder's order -> logits, then keys and values of the target."""
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        for layer in range(len(past_key_values) // len(KINDS)):
            key, value, cross_key, cross_value = past_key_values[len(KINDS) * layer :][: len(KINDS)]
            cache.self_attention_cache.update(key, value, layer)
            cache.cross_attention_cache.update(cross_key, cross_value, layer)
            cache.is_updated[layer] = True
        # Only the shape [B, S] of the encoder's output is still needed.
        logits = self._logits(input_ids, encoder_attention_mask, past_key_values[2][:, 0], cache)
        return [logits, *(x for layer in cache.self_attention_cache.layers for x in (layer.keys, layer.values))]


@torch.no_grad()
def write_graphs(model: VaswaniForConditionalGeneration, folder: Path):
    """Exports encoder, decoder and decoder with past.

    Raises:
        ConversionError: torch's exporter cannot represent the model.
    """
    layers, config = range(model.config.decoder_layers), model.config
    past = [f"past_key_values.{n}.{kind}" for n in layers for kind in KINDS]
    present = [name.replace("past_key_values", "present") for name in past]
    decoder_present = [name for name in present if ".decoder." in name]

    input_ids, mask = padded(sample_ids(config, (2, 4, 3), config.vocab_size), config.pad_token_id)
    target, _ = padded(sample_ids(config, (3, 3, 3), config.decoder_vocab_size), config.pad_token_id)
    encoder, decoder, decoder_with_past = (kind(model).eval() for kind in (Encoder, Decoder, DecoderWithPast))
    hidden_states = encoder(input_ids, mask)
    keys_and_values = decoder(target, mask, hidden_states)[1:]

    axes = ("batch", "source_length", "target_length", "past_length")
    batch, source, tokens, before = map(torch.export.Dim, axes)
    ids, source_shape = {0: batch, 1: tokens}, {0: batch, 1: source}
    past_shapes = [{0: batch, 2: before if ".decoder." in name else source} for name in past]

    def export_graph(
        name: str, module: nn.Module, arguments: tuple, shapes: tuple, inputs: list[str], outputs: list[str]
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from the exporter's dependencies
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
            large = sum(parameter.nbytes for parameter in module.parameters()) > MAX_FILE_BYTES
            without_traces(program)
            program.save(folder / name, external_data=large)

    names = ["input_ids", "encoder_attention_mask"]
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it reports that torchvision is missing
    try:
        export_graph(
            ENCODER, encoder, (input_ids, mask), (source_shape, source_shape), ["input_ids", "attention_mask"],
            ["last_hidden_state"],
        )  # fmt: skip
        export_graph(
            DECODER, decoder, (target, mask, hidden_states), (ids, source_shape, source_shape),
            [*names, "encoder_hidden_states"], ["logits", *present],
        )  # fmt: skip
        export_graph(
            DECODER_WITH_PAST, decoder_with_past, (target[:, :1], mask, keys_and_values),
            ({0: batch}, source_shape, past_shapes), [*names, *past], ["logits", *decoder_present],
        )  # fmt: skip
    except torch.onnx.errors.OnnxExporterError as error:
        raise ConversionError(f"torch cannot export this model to ONNX: {str(error).splitlines()[0]}") from error


def without_traces(program: torch.onnx.ONNXProgram):
    """Removes the exporter's metadata of nodes: source lines with local paths."""
    for graph in (program.model.graph, *program.model.functions.values()):
        graph.metadata_props.clear()
        for node in graph.all_nodes():
            node.metadata_props.clear()
