"""tensor2tensor's Transformer, version 1.4 (November 2017) and later: a TensorFlow checkpoint with `hparams.json` and
`vocab.*.subwords` beside it.

The variables may also be in a `variables.npz`, written with `reader = tf.train.load_checkpoint(...)` and
`numpy.savez("variables.npz", **{name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()})`.
"""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from vaswani_transformer.model.generation_vaswani import paper_generation_config

from ..converted import Converted
from ..files.tensor2tensor import MODEL, canonical, embeddings, files, find, npz_variables, read_hparams, weights
from ..files.tensor_bundle import read_bundle
from ..mapping import Table, shared
from ..options import ConversionError, Fields, Options, shown
from ..segmentation.tensor2tensor import read_tokenizer


# The checkpoint's names without "transformer/body/", with dots for slashes; `canonical` renames norms.
WEIGHTS = Table(
    """
    model.encoder.embed_tokens.weight                input_emb
    model.decoder.embed_tokens.weight                target_emb
    lm_head.weight                                   softmax
    model.encoder.embedding.space.weight             target_space_embedding.kernel
    model.encoder.embedding.positions.weight         inputs_positional_embedding
    model.decoder.embedding.positions.weight         targets_positional_embedding

    model.encoder.layers.{e}.self_attn.qkv_proj      encoder.layer_{e}.self_attention.multihead_attention.{q,k,v}.T
    model.encoder.layers.{e}.self_attn.out_proj      encoder.layer_{e}.self_attention.multihead_attention.output_transform.T
    model.encoder.layers.{e}.self_attn_norm          encoder.layer_{e}.self_attention.norm
    model.encoder.layers.{e}.feed_forward.fc1        encoder.layer_{e}.ffn.conv1.T
    model.encoder.layers.{e}.feed_forward.fc2        encoder.layer_{e}.ffn.conv2.T
    model.encoder.layers.{e}.feed_forward_norm       encoder.layer_{e}.ffn.norm
    model.encoder.norm                               encoder.norm

    model.decoder.layers.{d}.self_attn.qkv_proj      decoder.layer_{d}.self_attention.multihead_attention.{q,k,v}.T
    model.decoder.layers.{d}.self_attn.out_proj      decoder.layer_{d}.self_attention.multihead_attention.output_transform.T
    model.decoder.layers.{d}.self_attn_norm          decoder.layer_{d}.self_attention.norm
    model.decoder.layers.{d}.cross_attn.q_proj       decoder.layer_{d}.encdec_attention.multihead_attention.q.T
    model.decoder.layers.{d}.cross_attn.kv_proj      decoder.layer_{d}.encdec_attention.multihead_attention.{k,v}.T
    model.decoder.layers.{d}.cross_attn.out_proj     decoder.layer_{d}.encdec_attention.multihead_attention.output_transform.T
    model.decoder.layers.{d}.cross_attn_norm         decoder.layer_{d}.encdec_attention.norm
    model.decoder.layers.{d}.feed_forward.fc1        decoder.layer_{d}.ffn.conv1.T
    model.decoder.layers.{d}.feed_forward.fc2        decoder.layer_{d}.ffn.conv2.T
    model.decoder.layers.{d}.feed_forward_norm       decoder.layer_{d}.ffn.norm
    model.decoder.norm                               decoder.norm
    """,  # noqa: E501
    parameters=("kernel", "bias"),
)

PAD, EOS = 0, 1
OPTIONS = Fields(
    f"""
    d_model                     hidden_size
    d_ff                        filter_size                                 2048
    encoder_layers              num_encoder_layers | num_hidden_layers
    decoder_layers              num_decoder_layers | num_hidden_layers
    encoder_attention_heads, decoder_attention_heads    num_heads           8
    dropout                     layer_prepostprocess_dropout                0.0
    attention_dropout           attention_dropout                           0.0
    activation_dropout          relu_dropout                                0.0
    layer_norm_eps              norm_epsilon                                1e-6
    position_encoding           pos                                         timing
    position_layout             = concatenated
    position_divisor            = half_minus_one
    scale_embedding             multiply_embedding_mode                     sqrt_depth
    source_space_embedding      use_target_space_embedding                  True
    label_smoothing             label_smoothing                             0.0
    pad_token_id                = {PAD}
    eos_token_id                = {EOS}
    decoder_start_token_id      = {PAD}
    """,  # the embedding of padding is a zero vector, the decoder's first input
    choices={
        "position_encoding": {"timing": "sinusoidal", "emb": "learned", "none": "none"},
        "scale_embedding": {"sqrt_depth": True, "none": False, "": False},
        "source_space_embedding": {True: True, False: False},
    },
)
# Steps before and after a sub-layer (n norm, a add; d, dropout, is ignored), and the resulting norm position.
SEQUENCES = {("", "an"): "post", ("n", "a"): "pre"}
NORMS = {"post": "layer_postprocess", "pre": "layer_prepostprocess"}
# Options that change the model or its storage, with the values that leave the paper's model unchanged.
MUST_BE = {
    "self_attention_type": ("dot_product",),
    "norm_type": ("layer",),
    "prepend_mode": ("none",),
    "weight_dtype": ("float32",),
    "activation_dtype": ("float32", "bfloat16"),  # the second is for training; evaluation may use the first
    "causal_decoder_self_attention": (True,),
    "nbr_decoder_problems": (1,),
    "ffn_layer": ("dense_relu_dense", "conv_hidden_relu"),
    "input_modalities": ("default",),  # these two until 1.9
    "target_modality": ("default",),
}
MUST_BE_OFF = (
    "proximity_bias", "unidirectional_encoder", "attention_variables_3d", "hard_attention_k",
    "split_targets_chunk_length", "bottom", "top", "name", "modality",
)  # fmt: skip


def convert(
    source: Path,
    unsafe: bool = False,
    hparams: Annotated[
        Path | None, typer.Option(metavar="FILE", help="hparams.json, if not beside the checkpoint.")
    ] = None,
    target_space_id: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Target space of the problem that the model was trained for; early versions number the target "
            "languages, later ones give 0 to all problems. Default: the one in hparams.json, else 0.",
        ),
    ] = None,
    vocab: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE...",
            help="The vocabulary, or those of source and target. Default: `vocab.*.subwords` beside the checkpoint.",
        ),
    ] = None,
) -> Converted:
    """Converts a checkpoint (`model.ckpt-N` or its `.index`), a `variables.npz`, or the one in a folder.

    `unsafe` has no effect: these files contain no code.
    """
    path = find(source)
    values = read_hparams(hparams or path.parent / "hparams.json")
    variables = npz_variables(path) if path.suffix == ".npz" else read_bundle(path, weights)
    if not variables:
        raise ConversionError(f"No tensor2tensor Transformer in {path}: no variable starts with {MODEL!r}.")
    space_id = values.get("target_space_id") if target_space_id is None else target_space_id
    options = Options(values, "tensor2tensor")
    settings = read_settings(options)
    tensors = canonical(variables, NORMS[settings["norm_position"]])
    tables = embeddings(tensors)
    config = options.config(
        **settings,
        vocab_size=len(tables["input_emb"]),
        decoder_vocab_size=len(tables["target_emb"]),
        share_embeddings=shared(tables["input_emb"], tables["target_emb"], tables["softmax"]),
    )
    facts, hint = {}, ""
    if config.source_space_embedding:
        hint = choose_space(tensors, space_id)
        facts["target_space_id"] = space_id or 0
    vocabularies, tokenizer = read_tokenizer(path.parent, vocab, config, options.number("vocab_divisor", 1))
    return Converted.from_checkpoint(
        "tensor2tensor",
        config,
        WEIGHTS.read({**tensors, **tables}, config),
        # Its beam search is the paper's; translations may be empty.
        paper_generation_config(pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD),
        tokenizer,
        files=files(path),
        facts=facts,
        target_tokens=vocabularies[1] if vocabularies else (),
        hint=hint,
    )


def choose_space(tensors: dict[str, torch.Tensor], chosen: int | None) -> str:
    """Keeps the vector [1, D] of one target space, which is added to the source; returns a hint in case it is wrong."""
    kernel, number = tensors.get("target_space_embedding.kernel"), chosen or 0
    if kernel is None or kernel.dim() != 2:
        raise ConversionError("hparams.json requires a target_space_embedding, but the checkpoint has none.")
    spaces = f"0 to {len(kernel) - 1}"
    if not isinstance(number, int) or not 0 <= number < len(kernel):
        raise ConversionError(
            f"Invalid --target-space-id {shown(number)}: the target spaces of this model are {spaces}."
        )
    tensors["target_space_embedding.kernel"] = kernel[number : number + 1]
    if chosen is not None:
        return ""
    return (
        "hparams.json does not record the target space, so 0 was assumed. If everything else is right, "
        f"pass --target-space-id N, from {spaces}: in early versions it depends on the target language."
    )


def read_settings(options: Options) -> dict[str, Any]:
    """Reads the configuration, except for sizes and sharing of the embeddings.

    Raises:
        ConversionError: options are unsupported; the message names all.
    """
    options.must_be(MUST_BE)
    options.off(*MUST_BE_OFF)
    areas = max(options.number("max_area_width", 1), options.number("max_area_height", 1))
    if options.number("num_area_layers") and areas > 1:
        options.refuse("num_area_layers, attention to areas (supported: 0)")
    for name in ("hidden_size", "filter_size", "num_encoder_layers", "num_decoder_layers", "num_hidden_layers"):
        options.number(name)
    settings = {**OPTIONS.read(options), "norm_position": norm_position(options)}
    settings |= head_widths(options)
    if settings["position_encoding"] == "learned":
        settings["max_position_embeddings"] = options.number("max_length")
    options.finish()
    return settings


def norm_position(options: Options) -> str | None:
    before = options.take("layer_preprocess_sequence", "none")
    after = options.take("layer_postprocess_sequence", "dan")
    position = SEQUENCES.get(tuple(str(steps).replace("none", "").replace("d", "") for steps in (before, after)))
    if position is None:
        options.refuse(
            f"layer_preprocess_sequence={shown(before)} with layer_postprocess_sequence={shown(after)} (supported: "
            "'none' with 'dan', 'n' with 'da')"
        )
    return position


def head_widths(options: Options) -> dict[str, int]:
    """Returns d_k and d_v of our configuration, unless they equal d_model / heads."""
    d_model, heads = options.number("hidden_size"), options.number("num_heads", 8)
    widths = {}
    for ours, name in (("d_k", "attention_key_channels"), ("d_v", "attention_value_channels")):
        channels = options.number(name) or d_model
        if not heads or channels % heads:
            options.refuse(f"{name} or hidden_size of {channels} with num_heads={heads} (supported: a multiple)")
        elif channels != d_model:
            widths[ours] = channels // heads
    return widths
