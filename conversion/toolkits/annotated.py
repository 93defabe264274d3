"""State dicts of the Annotated Transformer (harvardnlp), versions of 2018 and 2022.

`description.json`, beside the state dict, provides what it does not record. Only "heads" has no default:

| field          | default   | what it is                                                           |
|----------------|-----------|----------------------------------------------------------------------|
| heads          |           | `h` of `make_model`                                                  |
| layer_norm_eps | 1e-6      | `eps` of its LayerNorm                                               |
| dropout        | 0.1       | `dropout`, for further training                                      |
| ids            | its own   | {"bos": 0, "eos": 1, "pad": 2, "unk": 3, "decoder_start": 0}         |

Sizes, shared matrices and positions are recognised from the tensors.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

import torch

from vaswani_transformer import VaswaniConfig

from ..converted import Converted
from ..mapping import Table, count_layers, shared
from ..options import ConversionError, Fields, Options
from ..positions import recognise, rows
from . import bare_state_dict


# Its LayerNorm calls weight and bias a_2 and b_2; `convert` renames them.
WEIGHTS = Table(
    """
    model.encoder.embed_tokens                       src_embed.0.lut
    model.decoder.embed_tokens                       tgt_embed.0.lut
    lm_head                                          generator.proj
    model.encoder.embedding.positions                src_embed.1
    model.decoder.embedding.positions                tgt_embed.1

    model.encoder.layers.{e}.self_attn.qkv_proj      encoder.layers.{e}.self_attn.linears.{0,1,2}
    model.encoder.layers.{e}.self_attn.out_proj      encoder.layers.{e}.self_attn.linears.3
    model.encoder.layers.{e}.self_attn_norm          encoder.layers.{e}.sublayer.0.norm
    model.encoder.layers.{e}.feed_forward.fc1        encoder.layers.{e}.feed_forward.w_1
    model.encoder.layers.{e}.feed_forward.fc2        encoder.layers.{e}.feed_forward.w_2
    model.encoder.layers.{e}.feed_forward_norm       encoder.layers.{e}.sublayer.1.norm
    model.encoder.norm                               encoder.norm

    model.decoder.layers.{d}.self_attn.qkv_proj      decoder.layers.{d}.self_attn.linears.{0,1,2}
    model.decoder.layers.{d}.self_attn.out_proj      decoder.layers.{d}.self_attn.linears.3
    model.decoder.layers.{d}.self_attn_norm          decoder.layers.{d}.sublayer.0.norm
    model.decoder.layers.{d}.cross_attn.q_proj       decoder.layers.{d}.src_attn.linears.0
    model.decoder.layers.{d}.cross_attn.kv_proj      decoder.layers.{d}.src_attn.linears.{1,2}
    model.decoder.layers.{d}.cross_attn.out_proj     decoder.layers.{d}.src_attn.linears.3
    model.decoder.layers.{d}.cross_attn_norm         decoder.layers.{d}.sublayer.1.norm
    model.decoder.layers.{d}.feed_forward.fc1        decoder.layers.{d}.feed_forward.w_1
    model.decoder.layers.{d}.feed_forward.fc2        decoder.layers.{d}.feed_forward.w_2
    model.decoder.layers.{d}.feed_forward_norm       decoder.layers.{d}.sublayer.2.norm
    model.decoder.norm                               decoder.norm
    """
)

OPTIONS = Fields(
    """
    encoder_attention_heads, decoder_attention_heads    heads
    dropout, attention_dropout, activation_dropout      dropout
    norm_position                                       = pre
    final_norm                                          = True
    layer_norm_eps                                      layer_norm_eps
    layer_norm_deviation                                = unbiased
    attention_bias                                      = True
    softmax_bias                                        = True
    zero_pad_embedding                                  = False
    label_smoothing_type                                = uniform
    """
)
USUAL_NAMES = {".a_2": ".weight", ".b_2": ".bias", "_embed.1.pe": "_embed.1.weight"}
DEFAULTS = {
    "heads": None,
    "layer_norm_eps": 1e-6,
    "dropout": 0.1,
    **bare_state_dict.TEXT_FILES,
    "ids": {"bos": 0, "eos": 1, "pad": 2, "unk": 3},
}
POSITIONS = ("src_embed.1.weight", "tgt_embed.1.weight")

HELP = f"{__doc__}{bare_state_dict.FILES}"


def convert(source: Path, unsafe: bool = False, **given: Unpack[bare_state_dict.Given]) -> Converted:
    """Converts a state dict, or the one in a folder."""
    path = bare_state_dict.find(source)
    options = bare_state_dict.describe(path.parent, "Annotated Transformer", DEFAULTS, **given)
    tensors = bare_state_dict.load_state_dict(path, unsafe)
    if "encoder.norm.weight" in tensors:
        options.refuse(
            "norms with weight and bias, such as torch's LayerNorm (supported: its LayerNorm, with a_2 and b_2)"
        )
    tensors = usual_names(tensors)
    config = read_config(options, tensors)
    for name in POSITIONS:
        table = tensors.pop(name)
        if config.position_encoding == "learned":  # sinusoids are computed, not read
            tensors[name] = rows(table, config.d_model)
    return bare_state_dict.converted(path, options, config, WEIGHTS.read(tensors, config))


def usual_names(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    renamed = {}
    for name, tensor in tensors.items():
        suffix = next((suffix for suffix in USUAL_NAMES if name.endswith(suffix)), "")
        renamed[name.removesuffix(suffix) + USUAL_NAMES[suffix] if suffix else name] = tensor
    return renamed


def read_config(options: Options, tensors: Mapping[str, torch.Tensor]) -> VaswaniConfig:
    names = ("src_embed.0.lut", "tgt_embed.0.lut", "generator.proj", "encoder.layers.0.feed_forward.w_1")
    matrices = [tensors.get(f"{name}.weight") for name in names]
    missing = [name for name, matrix in zip(names, matrices, strict=True) if matrix is None or matrix.dim() != 2]
    if missing := missing + [name for name in POSITIONS if name not in tensors]:
        missing = [name.replace("_embed.1.weight", "_embed.1.pe") for name in missing]
        raise ConversionError.from_problems("Not a state dict of the Annotated Transformer; missing", missing)
    source, target, softmax, inner = matrices
    positions = recognise([tensors[name] for name in POSITIONS], source.shape[1])
    return options.config(
        **OPTIONS.read(options),
        **bare_state_dict.IDS.read(options),
        **positions,
        vocab_size=len(source),
        decoder_vocab_size=len(target),
        d_model=source.shape[1],
        d_ff=len(inner),
        encoder_layers=count_layers(tensors, "encoder.layers."),
        decoder_layers=count_layers(tensors, "decoder.layers."),
        share_embeddings=shared(source, target, softmax, torch.equal),
    )
