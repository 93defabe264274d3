"""fairseq's Transformer, versions 0.6 to 0.12: a `.pt` file with `dict.*.txt` beside it.

Its search ranks by log P / length^lenpen, and stops once the number of finished hypotheses equals the beam size.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from vaswani_transformer import VaswaniConfig

from ..converted import Converted, by_mean_log_probability, language_facts
from ..files.fairseq import FairseqCheckpoint, flat, load_checkpoint
from ..files.folders import checkpoint_in
from ..mapping import Table, matrices
from ..options import NORM_FIRST, NOT, Fields, Options, sharing, shown
from ..segmentation import Codes, SentencePieceModel
from ..segmentation.fairseq import read_vocabularies, tokenizer
from .fairseq_layers import layers


IGNORED = (
    r"(en|de)coder\.version",
    r"(en|de)coder\.embed_positions\.(_float_tensor|weights)",  # of sinusoids
    # copies that 0.12 keeps for a fused kernel; zeros until the model is first loaded
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)",
)

WEIGHTS = Table(
    """
    model.encoder.embed_tokens                       encoder.embed_tokens
    model.decoder.embed_tokens                       decoder.embed_tokens
    lm_head                                          decoder.output_projection
    model.encoder.embedding.positions                encoder.embed_positions
    model.decoder.embedding.positions                decoder.embed_positions
    model.encoder.norm                               encoder.layer_norm
    model.decoder.norm                               decoder.layer_norm
    """
    + layers(),
    ignored=IGNORED,
)

PAD, EOS = 1, 2  # of the dictionary's four special tokens
# Positions, sharing and vocabulary sizes depend on several options: see `read_config`.
OPTIONS = Fields(
    f"""
    d_model                     encoder_embed_dim = decoder_embed_dim
    d_ff                        encoder_ffn_embed_dim
    decoder_d_ff                decoder_ffn_embed_dim
    encoder_layers              encoder_layers
    decoder_layers              decoder_layers
    encoder_attention_heads     encoder_attention_heads
    decoder_attention_heads     decoder_attention_heads
    dropout                     dropout                                         0.0
    attention_dropout           attention_dropout                               0.0
    activation_dropout          activation_dropout | relu_dropout               0.0
    activation_function         activation_fn                                   relu
    norm_position               encoder_normalize_before                        False
    decoder_norm_position       decoder_normalize_before                        False
    layer_norm_eps              = 1e-5
    position_layout             = concatenated
    position_divisor            = half_minus_one
    position_offset             = {PAD + 1}
    attention_bias              = True
    scale_embedding             no_scale_embedding                              False
    zero_pad_embedding          = False
    label_smoothing             label_smoothing                                 0.0
    label_smoothing_type        = uniform
    pad_token_id                = {PAD}
    eos_token_id                = {EOS}
    bos_token_id                = 0
    decoder_start_token_id      = {EOS}
    """,
    choices={
        "activation_function": {
            "relu": "relu",
            "gelu": "gelu",
            "gelu_fast": "gelu_new",
            "gelu_accurate": "gelu_new",
            "tanh": "tanh",
            "swish": "silu",
            "relu_squared": "relu2",
            "linear": "linear",
        },
        "norm_position": NORM_FIRST,
        "decoder_norm_position": NORM_FIRST,
        "scale_embedding": NOT,
    },
)
# Language models and simultaneous translation, whose names start like the Transformer's presets.
OTHER_ARCHITECTURES = ("transformer_lm", "transformer_ulm", "transformer_unidirectional", "transformer_monotonic")
# Each changes the model, without a trace in its weights or in a way that the paper's model cannot represent.
MUST_BE_OFF = (
    "adaptive_softmax_cutoff", "adaptive_input", "cross_self_attention", "layernorm_embedding", "no_cross_attention",
    "encoder_layers_to_keep", "decoder_layers_to_keep", "scale_fc", "scale_attn", "scale_heads", "scale_resids",
    "relative_pos_type", "character_embeddings", "char_inputs", "base_layers", "quant_noise_scalar",
    "encoder_xformers_att_config", "decoder_xformers_att_config", "simul_type",
)  # fmt: skip


def convert(
    source: Path,
    unsafe: bool = False,
    codes: Codes = None,
    spm: SentencePieceModel = None,
    moses: Annotated[
        bool | None,
        typer.Option(
            "--moses/--no-moses",
            help="The model was trained on text tokenized by Moses. By default as recorded, or if the vocabulary has "
            "Moses' escapes.",
        ),
    ] = None,
    languages: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="SOURCE TARGET", help="Such as de en, if the checkpoint does not record them correctly."),
    ] = None,
) -> Converted:
    """Converts a checkpoint, or the one in a folder, with `dict.*.txt` and segmentation files beside it."""
    path = checkpoint_in(source, "*.pt", names=("checkpoint_best.pt", "checkpoint_last.pt", "model.pt"))
    checkpoint = load_checkpoint(path, unsafe)
    tensors = dict(checkpoint.tensors)
    config = read_config(checkpoint, tensors)
    recorded = checkpoint.task.get("source_lang"), checkpoint.task.get("target_lang")
    pair = recorded if languages is None else tuple(languages)
    # Vocabulary files are named after the languages recorded in training.
    vocabularies = read_vocabularies(path.parent, pair if None in recorded else recorded, config)
    return Converted.from_checkpoint(
        "fairseq",
        config,
        WEIGHTS.read(tensors, config),
        by_mean_log_probability(config),
        tokenizer(checkpoint, path.parent, vocabularies, pair, codes, spm, moses) if vocabularies else None,
        files=[path],
        facts={"arch": checkpoint.model.get("arch"), **language_facts(*pair)},
        target_tokens=vocabularies[1].tokens if vocabularies else (),
    )


def read_config(checkpoint: FairseqCheckpoint, tensors: dict[str, torch.Tensor]) -> VaswaniConfig:
    options = Options(flat(checkpoint.model), "fairseq")
    refuse_other_models(options, checkpoint.task.get("_name", checkpoint.task.get("task")))
    source, target = matrices(tensors, [f"{stack}.embed_tokens.weight" for stack in ("encoder", "decoder")], options)
    tensors.setdefault("decoder.output_projection.weight", target)  # old files store a tied matrix once
    return options.config(
        **OPTIONS.read(options),
        **read_positions(options, tensors),
        vocab_size=len(source),
        decoder_vocab_size=len(target),
        final_norm=final_norm(options, tensors),
        share_embeddings=sharing(
            options.take("share_all_embeddings"), options.take("share_decoder_input_output_embed")
        ),
    )


def refuse_other_models(options: Options, task: str | None):
    arch = str(options.take("arch", options.take("_name", "")))
    if not arch.startswith(("transformer", "vaswani")) or arch.startswith(OTHER_ARCHITECTURES):
        options.refuse(f"arch={shown(arch)} (supported: transformer and its presets)")
    # Other tasks add language or expert tags to texts, or translate with several models.
    if task not in (None, "translation"):
        options.refuse(f"task={shown(task)} (supported: 'translation')")
    options.off(*MUST_BE_OFF)
    d_model = options.take("encoder_embed_dim")
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if str(options.take(name, d_model)) != str(d_model):  # 0.12 records command-line options as text
            options.refuse(f"{name}={shown(options.take(name))} (supported: {d_model})")


def read_positions(options: Options, tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    rows = {len(table) for name, table in tensors.items() if name.endswith("coder.embed_positions.weight")}
    learned = bool(options.take("encoder_learned_pos", False))
    if learned != bool(options.take("decoder_learned_pos", False)):
        options.refuse("learned positions in encoder or decoder only (supported: both or neither)")
    if len(rows) > 1:
        options.refuse("different numbers of learned positions for source and target (supported: the same)")
    if options.take("no_token_positional_embeddings"):
        return {"position_encoding": "none"}
    if not learned:
        return {"position_encoding": "sinusoidal"}
    return {"position_encoding": "learned", "max_position_embeddings": next(iter(rows), None)}


def final_norm(options: Options, tensors: Mapping[str, torch.Tensor]) -> bool | None:
    """Whether pre-norm stacks end with a LayerNorm, which early versions lack. None if no stack is pre-norm."""
    stacks = [stack for stack in ("encoder", "decoder") if options.take(f"{stack}_normalize_before")]
    norms = {f"{stack}.layer_norm.weight" in tensors for stack in stacks}
    if len(norms) > 1:
        options.refuse("a LayerNorm after one of two pre-norm stacks (supported: after both, or after neither)")
    return False if norms == {False} else None
