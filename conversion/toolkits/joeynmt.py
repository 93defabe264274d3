"""JoeyNMT's Transformer, versions 1 and 2: a `.ckpt` file with `config.yaml` and the vocabularies beside it.

Only the configuration describes the model; its defaults depend on the version of JoeyNMT.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from transformers import GenerationConfig

from vaswani_transformer import VaswaniConfig

from ..converted import Converted, generation_config, language_facts
from ..files.folders import checkpoint_in
from ..files.joeynmt import (
    Specials,
    is_version_1,
    load_tensors,
    read_config_file,
    read_vocabulary,
    step_number,
    version,
)
from ..mapping import Table, matrices
from ..options import ConversionError, Fields, Options, refuse_if_different, sharing, shown
from ..positions import stored
from ..segmentation import Codes, SentencePieceModel
from ..segmentation.joeynmt import Texts, tokenizer


WEIGHTS = Table(
    """
    model.encoder.embed_tokens                       src_embed.lut
    model.decoder.embed_tokens                       trg_embed.lut
    lm_head                                          decoder.output_layer
    model.encoder.embedding.positions                encoder.pe
    model.decoder.embedding.positions                decoder.pe

    model.encoder.layers.{e}.self_attn.qkv_proj      encoder.layers.{e}.src_src_att.{q,k,v}_layer
    model.encoder.layers.{e}.self_attn.out_proj      encoder.layers.{e}.src_src_att.output_layer
    model.encoder.layers.{e}.self_attn_norm          encoder.layers.{e}.layer_norm
    model.encoder.layers.{e}.feed_forward.fc1        encoder.layers.{e}.feed_forward.pwff_layer.0
    model.encoder.layers.{e}.feed_forward.fc2        encoder.layers.{e}.feed_forward.pwff_layer.3
    model.encoder.layers.{e}.feed_forward_norm       encoder.layers.{e}.feed_forward.layer_norm
    model.encoder.norm                               encoder.layer_norm

    model.decoder.layers.{d}.self_attn.qkv_proj      decoder.layers.{d}.trg_trg_att.{q,k,v}_layer
    model.decoder.layers.{d}.self_attn.out_proj      decoder.layers.{d}.trg_trg_att.output_layer
    model.decoder.layers.{d}.self_attn_norm          decoder.layers.{d}.x_layer_norm
    model.decoder.layers.{d}.cross_attn.q_proj       decoder.layers.{d}.src_trg_att.q_layer
    model.decoder.layers.{d}.cross_attn.kv_proj      decoder.layers.{d}.src_trg_att.{k,v}_layer
    model.decoder.layers.{d}.cross_attn.out_proj     decoder.layers.{d}.src_trg_att.output_layer
    model.decoder.layers.{d}.cross_attn_norm         decoder.layers.{d}.dec_layer_norm
    model.decoder.layers.{d}.feed_forward.fc1        decoder.layers.{d}.feed_forward.pwff_layer.0
    model.decoder.layers.{d}.feed_forward.fc2        decoder.layers.{d}.feed_forward.pwff_layer.3
    model.decoder.layers.{d}.feed_forward_norm       decoder.layers.{d}.feed_forward.layer_norm
    model.decoder.norm                               decoder.layer_norm
    """,
    ignored=[r"(en|de)coder\.pe\.weight"],
)

OPTIONS = Fields(
    """
    d_model                     model.encoder.hidden_size = model.decoder.hidden_size               512
    d_ff                        model.encoder.ff_size                                               2048
    decoder_d_ff                model.decoder.ff_size                                               2048
    encoder_layers              model.encoder.num_layers                                            8
    decoder_layers              model.decoder.num_layers                                            4
    encoder_attention_heads     model.encoder.num_heads                                             4
    decoder_attention_heads     model.decoder.num_heads                                             8
    dropout, attention_dropout, activation_dropout      model.encoder.dropout                       0.1
    activation_function         model.encoder.activation = model.decoder.activation                 relu
    layer_norm_eps              = 1e-6
    position_layout             = interleaved
    position_divisor            = half
    attention_bias              = True
    zero_pad_embedding          = False
    label_smoothing             training.label_smoothing                                            0.0
    """,
    choices={"activation_function": {"relu": "relu", "gelu": "gelu", "swish": "silu"}},
)
POSITIONS = ["encoder.pe.weight", "decoder.pe.weight"]
# Options of other JoeyNMT models and of derived speech toolkits. A `sep_token` follows prompts, which get additional
# embeddings.
MUST_BE_OFF = ("ctc", "ctc_weight", "subsample", "in_channels", "conv_kernel_sizes", "multitask", "sep_token")
PLACES = ("", "data.", "data.special_symbols.", "model.", "model.encoder.", "model.decoder.")


def convert(
    source: Path,
    unsafe: bool = False,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="Default: config.yaml beside the checkpoint."),
    ] = None,
    codes: Codes = None,
    spm: SentencePieceModel = None,
) -> Converted:
    """Converts a checkpoint, or the one in a folder. `config` is the path of config.yaml, if it is elsewhere."""
    names = ("best.ckpt", "avg_best.ckpt", "latest.ckpt")
    path = checkpoint_in(source, "*.ckpt", names=names, newest=step_number)
    file = config or path.parent / "config.yaml"
    recorded = Options(read_config_file(file), "JoeyNMT")
    tensors = load_tensors(path, unsafe)
    specials = Specials.from_options(recorded)
    model_config = read_config(recorded, tensors, specials)
    sizes = {"src": model_config.vocab_size, "trg": model_config.decoder_vocab_size}
    vocabularies = [read_vocabulary(path.parent, recorded, side, specials, size) for side, size in sizes.items()]
    texts = [Texts.from_options(recorded, side) for side in ("src", "trg")]
    return Converted.from_checkpoint(
        "joeynmt",
        model_config,
        WEIGHTS.read(tensors, model_config),
        search(recorded, model_config, specials, vocabularies[1]),
        tokenizer(path.parent, texts, vocabularies, specials, codes, spm),
        files=[path, file],
        facts=recorded_facts(recorded, texts),
        target_tokens=vocabularies[1],
    )


def recorded_facts(config: Options, texts: list[Texts]) -> dict[str, Any]:
    facts = {"version": config.take("joeynmt_version"), "name": config.take("name")}
    facts |= language_facts(*(side.language for side in texts))
    penalties = {name: config.take(f"testing.{name}") for name in ("repetition_penalty", "no_repeat_ngram_size")}
    # transformers' settings of these names also affect special tokens; JoeyNMT's do not.
    facts["search settings left out"] = [
        f"{name}={value}" for name, value in penalties.items() if isinstance(value, int | float) and value > 1
    ]
    return facts


def read_config(config: Options, tensors: Mapping[str, torch.Tensor], specials: Specials) -> VaswaniConfig:
    refuse_other_models(config)
    settings = OPTIONS.read(config)
    if (version(config) or (2, 2)) < (2, 2):  # versions that only have ReLU and ignore the setting
        settings["activation_function"] = "relu"
    source, target = matrices(tensors, ["src_embed.lut.weight", "trg_embed.lut.weight"], config)
    positions = [norm_position(stack, config, tensors) for stack in ("encoder", "decoder")]
    tied = config.take("model.tied_softmax")
    return config.config(
        **settings | stored(tensors, POSITIONS, config, settings["d_model"]),
        vocab_size=len(source),
        decoder_vocab_size=len(target),
        norm_position=positions[0],
        decoder_norm_position=positions[1],
        final_norm=final_norm(config, positions, tensors),
        scale_embedding=scale_embedding(config),
        share_embeddings=sharing(tied and config.take("model.tied_embeddings"), tied),
        pad_token_id=specials.pad_id,
        eos_token_id=specials.eos_id,
        bos_token_id=specials.bos_id,
        decoder_start_token_id=specials.bos_id,
    )


def refuse_other_models(config: Options):
    if (task := config.take("task", config.take("data.task", "MT"))) != "MT":
        config.refuse(f"task={shown(task)} (supported: 'MT')")
    config.off(*(place + name for name in MUST_BE_OFF for place in PLACES))
    for stack in ("encoder", "decoder"):
        recurrent = stack == "encoder" or is_version_1(config)
        config.only(f"model.{stack}.type", "transformer", default="recurrent" if recurrent else "transformer")
        config.only(f"model.{stack}.alpha", 1, default=1)
        width = config.take(f"model.{stack}.hidden_size", 512)
        config.only(f"model.{embedding_prefix(stack, config)}.embeddings.embedding_dim", width, default=64)


def embedding_prefix(stack: str, config: Options) -> str:
    """Returns the stack whose embeddings and settings are used: the encoder's if they are tied."""
    return "encoder" if config.take("model.tied_embeddings") else stack


def scale_embedding(config: Options) -> bool:
    encoder, decoder = (f"model.{embedding_prefix(stack, config)}.embeddings.scale" for stack in ("encoder", "decoder"))
    refuse_if_different(config, encoder, [decoder], False)
    return bool(config.take(encoder, False))


def norm_position(stack: str, config: Options, tensors: Mapping[str, torch.Tensor]) -> str:
    """Returns "pre" or "post", the norm position of a stack.

    Version 1 is always pre-norm, with a norm after each stack. Version 2 follows `layer_norm`. If that is unset, both
    stacks are post-norm until 2.1; since 2.2 the encoder is pre-norm, without a norm after it.

    Raises:
        ConversionError: neither `layer_norm` nor the version is recorded.
    """
    position = config.take(f"model.{stack}.layer_norm")
    config.only(f"model.{stack}.layer_norm", "pre", "post", None)
    if f"{stack}.layer_norm.weight" in tensors:
        return "pre"
    if position is not None or stack == "decoder":
        return position or "post"
    if (number := version(config)) is None:
        raise ConversionError(
            "The configuration has neither model.encoder.layer_norm nor joeynmt_version. Until 2.1 that means 'post', "
            "from 2.2 on 'pre': add joeynmt_version, the version that the model was trained with."
        )
    return "pre" if number >= (2, 2) else "post"


def final_norm(config: Options, positions: list[str], tensors: Mapping[str, torch.Tensor]) -> bool | None:
    """Whether a norm follows both stacks or neither; None if only pre-norm stacks have one, as usual."""
    names = [f"{stack}.layer_norm.weight" in tensors for stack in ("encoder", "decoder")]
    asked = [config.take(f"model.{stack}.layer_norm") == "pre" for stack in ("encoder", "decoder")]
    follows = [stored or wanted for stored, wanted in zip(names, asked, strict=True)]
    if follows == [position == "pre" for position in positions]:
        return None
    if follows[0] != follows[1]:
        config.refuse("a pre-norm encoder without a final norm, with a decoder that has one")
    return follows[0]


def search(config: Options, model: VaswaniConfig, specials: Specials, tokens: list[str]) -> GenerationConfig:
    """The search settings in `testing`, which JoeyNMT uses; its length penalty is GNMT's."""
    never = [specials.bos_id, *(tokens.index(token) for token in specials.language_tags if token in tokens)]
    shortest, longest = None, config.real("testing.max_output_length", -1)
    if not is_version_1(config):  # version 1 has neither setting
        shortest = int(config.real("testing.min_output_length", 1))
        never += [] if config.take("testing.generate_unk", True) else [specials.unk_id]
    return generation_config(
        model,
        num_beams=int(config.real("testing.beam_size", 1)),
        length_penalty=max(config.real("testing.alpha", config.real("testing.beam_alpha", -1)), 0.0),
        length_penalty_offset=5,
        early_stopping=False,
        min_new_tokens=shortest,
        max_new_tokens=int(longest) if longest > 0 else None,
        suppress_tokens=never,
    )
