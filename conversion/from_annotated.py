"""State dicts of the Annotated Transformer (harvardnlp, its versions of 2018 and 2022).

`description.json` beside the state dict says what it does not record. Only "heads" has no default:

| field          | default   | what it is                                                           |
|----------------|-----------|----------------------------------------------------------------------|
| heads          |           | `h` of `make_model`                                                  |
| layer_norm_eps | 1e-6      | `eps` of its LayerNorm                                               |
| dropout        | 0.1       | `dropout`, for training on                                           |
| ids            | its own   | {"bos": 0, "eos": 1, "pad": 2, "unk": 3, "decoder_start": 0}         |

Three more name files: "source_vocabulary" (vocab.src.txt) and "target_vocabulary" (vocab.trg.txt) with one token a
line, in the order of ids, and "codes" (bpe.codes), subword-nmt's; without them texts are split at spaces.

The state dict may be saved under "model", "state_dict" or "model_state_dict", and all its names may begin with module.,
_orig_mod. or model., which is left out.

Sizes and shared matrices are read off the tensors, and so are positions.
"""

from collections.abc import Mapping
from pathlib import Path

import torch

from vaswani_transformer import VaswaniConfig

from . import described
from .core import ConversionError, Converted, Options, generation_config
from .mapping import Table


# Its LayerNorm calls weight and bias a_2 and b_2; `convert` gives them their usual names.
TABLE = Table(
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

USUAL_NAMES = {".a_2": ".weight", ".b_2": ".bias", "_embed.1.pe": "_embed.1.weight"}
DEFAULTS = {
    "heads": None,
    "layer_norm_eps": 1e-6,
    "dropout": 0.1,
    **described.TEXT_FILES,
    "ids": {"bos": 0, "eos": 1, "pad": 2, "unk": 3},
}

add_arguments = described.add_arguments


def convert(source: Path, unsafe: bool = False, **given) -> Converted:
    """A state dict, or the folder that holds one; `given` is what `add_arguments` adds.

    Raises:
        ConversionError: it is no such state dict, is damaged, is described wrongly or uses what is not supported.
    """
    path = described.find(source)
    options = described.describe(path.parent, "Annotated Transformer", DEFAULTS, **given)
    tensors = described.load_state_dict(path, unsafe)
    if "encoder.norm.weight" in tensors:
        options.refuse("norms with weight and bias, such as torch's LayerNorm (supported: its own, with a_2 and b_2)")
    tensors = usual_names(tensors)
    config = read_config(options, tensors)
    if config.position_encoding == "sinusoidal":  # computed, not read
        tensors = {name: tensor for name, tensor in tensors.items() if "_embed.1." not in name}
    return Converted(
        toolkit="Annotated Transformer",
        config=config,
        weights=TABLE.read(tensors, config),
        # It has a greedy search only.
        generation=generation_config(config, length_penalty=1.0, length_penalty_offset=0, early_stopping=True),
        **described.with_tokenizer(path, options, config),
    )


def usual_names(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    renamed = {}
    for name, tensor in tensors.items():
        for theirs, usual in USUAL_NAMES.items():
            if name.endswith(theirs):
                name = name.removesuffix(theirs) + usual
        renamed[name] = described.rows(tensor) if "_embed.1." in name else tensor
    return renamed


def read_config(options: Options, tensors: Mapping[str, torch.Tensor]) -> VaswaniConfig:
    names = ("src_embed.0.lut", "tgt_embed.0.lut", "generator.proj", "encoder.layers.0.feed_forward.w_1")
    matrices = [tensors.get(f"{name}.weight") for name in names]
    if missing := [name for name, matrix in zip(names, matrices, strict=True) if matrix is None or matrix.dim() != 2]:
        raise ConversionError.of("This is no state dict of the Annotated Transformer: it has no matrices", missing)
    source, target, softmax, inner = matrices
    tables = [tensors.get(f"{side}_embed.1.weight") for side in ("src", "tgt")]
    if None in [None if table is None else 0 for table in tables]:
        raise ConversionError("This is no state dict of the Annotated Transformer: it has no src_embed.1.pe.")
    positions, others = (described.position_settings(table, source.shape[1]) for table in tables)
    if positions != others:
        options.refuse("source and target positions of different kinds (supported: the same)")
    return options.config(
        vocab_size=len(source),
        decoder_vocab_size=len(target),
        d_model=source.shape[1],
        d_ff=len(inner),
        encoder_layers=described.count_layers(tensors, "encoder.layers."),
        decoder_layers=described.count_layers(tensors, "decoder.layers."),
        encoder_attention_heads=options.take("heads"),
        decoder_attention_heads=options.take("heads"),
        dropout=options.take("dropout"),
        attention_dropout=options.take("dropout"),
        activation_dropout=options.take("dropout"),
        norm_position="pre",
        final_norm=True,
        layer_norm_eps=options.take("layer_norm_eps"),
        layer_norm_deviation="unbiased",
        **positions,
        attention_bias=True,
        softmax_bias=True,
        share_embeddings=described.shared(source, target, softmax),
        zero_pad_embedding=False,
        label_smoothing_type="uniform",
        **described.ids(options),
    )
