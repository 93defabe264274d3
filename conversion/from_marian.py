"""Marian's own Transformer: `model.npz` with its vocabularies (and `decoder.yml`) beside it.

The model stays Marian's, number for number, which transformers' MarianMTModel is not: position frequencies are
10000^(-i / (d/2 - 1)), LayerNorm's eps is 1e-6, and the decoder's first input is a zero vector.

Marian has no padding. A token after its last is added for it here: its embedding is zero, which makes it the zero start
vector too, and its bias in the pre-softmax transformation is so low that its probability is 0.

Where the vocabularies are SentencePiece models, Marian cuts texts itself. Where they are lists of pieces, what cuts
texts (`source.spm` and `target.spm`, or `.bpe`, as OPUS-MT calls them) is looked for beside the model.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from . import verify_marian
from .core import ConversionError, Converted, Options, generation_config
from .mapping import Table
from .marian_files import (
    SENTENCEPIECE,
    Words,
    decoder_file,
    find,
    number,
    pair,
    read_model,
    read_training,
    read_vocabularies,
    read_yaml,
)
from .reading import sha256
from .segmentation import SPACE, Segmentation, Vocabulary, sentencepiece, subword_nmt, words
from .verify import Parity


TABLE = Table(
    """
    model.encoder.embed_tokens.weight                       encoder_Wemb
    model.decoder.embed_tokens.weight                       decoder_Wemb
    lm_head.weight                                          decoder_ff_logit_out_Wt
    lm_head.bias                                            decoder_ff_logit_out_b

    model.encoder.layers.{e}.self_attn.qkv_proj.weight      encoder_l{e+1}_self_W{q,k,v}.T
    model.encoder.layers.{e}.self_attn.qkv_proj.bias        encoder_l{e+1}_self_b{q,k,v}
    model.encoder.layers.{e}.self_attn.out_proj.weight      encoder_l{e+1}_self_Wo.T
    model.encoder.layers.{e}.self_attn.out_proj.bias        encoder_l{e+1}_self_bo
    model.encoder.layers.{e}.self_attn_norm.weight          encoder_l{e+1}_self_Wo_ln_scale
    model.encoder.layers.{e}.self_attn_norm.bias            encoder_l{e+1}_self_Wo_ln_bias
    model.encoder.layers.{e}.feed_forward.fc1.weight        encoder_l{e+1}_ffn_W1.T
    model.encoder.layers.{e}.feed_forward.fc1.bias          encoder_l{e+1}_ffn_b1
    model.encoder.layers.{e}.feed_forward.fc2.weight        encoder_l{e+1}_ffn_W2.T
    model.encoder.layers.{e}.feed_forward.fc2.bias          encoder_l{e+1}_ffn_b2
    model.encoder.layers.{e}.feed_forward_norm.weight       encoder_l{e+1}_ffn_ffn_ln_scale
    model.encoder.layers.{e}.feed_forward_norm.bias         encoder_l{e+1}_ffn_ffn_ln_bias
    model.encoder.norm.weight                               encoder_top_ln_scale
    model.encoder.norm.bias                                 encoder_top_ln_bias

    model.decoder.layers.{d}.self_attn.qkv_proj.weight      decoder_l{d+1}_self_W{q,k,v}.T
    model.decoder.layers.{d}.self_attn.qkv_proj.bias        decoder_l{d+1}_self_b{q,k,v}
    model.decoder.layers.{d}.self_attn.out_proj.weight      decoder_l{d+1}_self_Wo.T
    model.decoder.layers.{d}.self_attn.out_proj.bias        decoder_l{d+1}_self_bo
    model.decoder.layers.{d}.self_attn_norm.weight          decoder_l{d+1}_self_Wo_ln_scale
    model.decoder.layers.{d}.self_attn_norm.bias            decoder_l{d+1}_self_Wo_ln_bias
    model.decoder.layers.{d}.cross_attn.q_proj.weight       decoder_l{d+1}_context_Wq.T
    model.decoder.layers.{d}.cross_attn.q_proj.bias         decoder_l{d+1}_context_bq
    model.decoder.layers.{d}.cross_attn.kv_proj.weight      decoder_l{d+1}_context_W{k,v}.T
    model.decoder.layers.{d}.cross_attn.kv_proj.bias        decoder_l{d+1}_context_b{k,v}
    model.decoder.layers.{d}.cross_attn.out_proj.weight     decoder_l{d+1}_context_Wo.T
    model.decoder.layers.{d}.cross_attn.out_proj.bias       decoder_l{d+1}_context_bo
    model.decoder.layers.{d}.cross_attn_norm.weight         decoder_l{d+1}_context_Wo_ln_scale
    model.decoder.layers.{d}.cross_attn_norm.bias           decoder_l{d+1}_context_Wo_ln_bias
    model.decoder.layers.{d}.feed_forward.fc1.weight        decoder_l{d+1}_ffn_W1.T
    model.decoder.layers.{d}.feed_forward.fc1.bias          decoder_l{d+1}_ffn_b1
    model.decoder.layers.{d}.feed_forward.fc2.weight        decoder_l{d+1}_ffn_W2.T
    model.decoder.layers.{d}.feed_forward.fc2.bias          decoder_l{d+1}_ffn_b2
    model.decoder.layers.{d}.feed_forward_norm.weight       decoder_l{d+1}_ffn_ffn_ln_scale
    model.decoder.layers.{d}.feed_forward_norm.bias         decoder_l{d+1}_ffn_ffn_ln_bias
    model.decoder.norm.weight                               decoder_top_ln_scale
    model.decoder.norm.bias                                 decoder_top_ln_bias
    """,
    ignored=(r"special:.*",),
)

ACTIVATIONS = {"relu": "relu", "swish": "silu"}
GELU = {"exact": "gelu", "sigmoid": "quick_gelu"}  # x * Phi(x), x * sigmoid(1.702 x)
NEVER = -1e4  # a bias whose exp is 0, in half precision too
# Options that change what is computed, with the values under which nothing changes. Some versions lack some of them.
ONLY = {
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-attention-mask": ("default",),
    "transformer-pool": (False,),
    "transformer-rnn-projection": (False,),
    "lemma-dim-emb": (0,),
    "factors-dim-emb": (0,),
    "lemma-dependency": ("",),
    "ulr": (False,),
    "right-left": (False,),
    "input-join-fields": (False,),
}


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument(
        "--vocabs", type=Path, nargs="+", metavar="FILE", help="source and target vocabulary, if decoder.yml names none"
    )
    for name, what in (("--spm", "SentencePiece models"), ("--codes", "byte-pair codes")):
        parser.add_argument(
            name, type=Path, nargs="+", metavar="FILE", help=f"{what} of source and target, or one for both"
        )
    parser.add_argument(
        "--gelu",
        choices=GELU,
        help="what gelu is in it, if its version does not tell: sigmoid until 1.11, exact now",
    )


@dataclass
class FromMarian(Converted):
    """With what Marian needs to run it."""

    path: Path | None = None
    words: tuple[Words, ...] = ()


def convert(
    source: Path, unsafe: bool = False, vocabs: Sequence[Path] | None = None, gelu: str | None = None,
    spm: Sequence[Path] | None = None, codes: Sequence[Path] | None = None,
) -> FromMarian:  # fmt: skip
    """A model.npz, or the folder that holds one; nothing in it needs `unsafe`.

    Raises:
        ConversionError: it is no such model, is damaged, or uses what is not supported.
        FileNotFoundError: the model or a vocabulary is not there.
    """
    path = find(source)
    tensors, values = read_model(path)
    options = Options(values, "Marian")
    tensors = one_way(tensors, options)
    decoding = {"beam-size": 12} | read_yaml(decoder_file(path)) if decoder_file(path) else {}  # Marian's own default
    sides = read_vocabularies(path, decoding, vocabs)
    config = read_config(options, read_training(path), tensors, sides, decoding, gelu)
    weights = TABLE.read(with_padding(tensors, config), config)
    generation = generation_config(
        config,
        num_beams=int(number(decoding, "beam-size", 4)),
        length_penalty=number(decoding, "normalize", 0.0),
        length_penalty_offset=0,
        early_stopping=True,
        min_new_tokens=None,  # its translations may be empty
        # Marian never writes <unk>, and does not renormalise for that.
        suppress_tokens=None if decoding.get("allow-unk") else [sides[1].unk],
    )
    rows = [len(tensors[name]) for name in ("encoder_Wemb", "decoder_Wemb")]
    made = tokenizer(path, sides, rows, config.pad_token_id, spm, codes)
    return FromMarian(
        toolkit="Marian",
        config=config,
        weights=weights,
        generation=generation,
        tokenizer=made.tokenizer,
        target_tokens=sides[1].tokens[: rows[1]],
        facts={
            "files": {file.name: sha256(file) for file in (path, *(side.path for side in sides))},
            "version": options.take("version"),
            "left out": "the shortlist of decoder.yml: all tokens are candidates"
            if decoding.get("shortlist")
            else None,
            "tokenizer_differences": made.differences,
        },
        path=path,
        words=sides,
    )


def tokenizer(
    path: Path, sides: tuple[Words, Words], rows: Sequence[int], pad: int,
    spm: Sequence[Path] | None = None, codes: Sequence[Path] | None = None,
) -> Segmentation:  # fmt: skip
    """With the files given, or found beside the model at `path`. `rows` are those of the two embeddings, of which the
    vocabularies may have more.

    Raises:
        ConversionError: a file does not fit, or the special tokens of the two sides differ.
        FileNotFoundError: a file that was named is not there.
    """
    if missing := [file for file in [*(spm or []), *(codes or [])] if not file.is_file()]:
        raise FileNotFoundError(f"There is no {', '.join(map(str, missing))}.")
    vocabularies = [vocabulary(side, known, pad) for side, known in zip(sides, rows, strict=True)]
    if all(side.path.suffix in SENTENCEPIECE for side in sides):
        return sentencepiece((sides[0].path, sides[1].path), *vocabularies)
    if codes is None and (models := files_for(path.parent, ("*.spm", "*.model"), spm)):
        return sentencepiece(models, *vocabularies)
    if merges := files_for(path.parent, ("*.bpe", "*.codes", "bpecodes"), codes):
        return subword_nmt(merges, *vocabularies)
    # Texts have to come in pieces then.
    marks = (("@@", str.endswith), (SPACE, str.startswith))
    separator = next((mark for mark, has in marks if any(has(token, mark) for token in sides[1].tokens)), None)
    made = words(*vocabularies, separator=separator)
    if separator:
        made.differences.append("Name what cuts texts with --spm or --codes.")
    return made


def files_for(folder: Path, patterns: Sequence[str], given: Sequence[Path] | None) -> tuple[Path, Path] | None:
    """Those of source and target: as given, else called so, else the only one."""
    if given:
        return given[0], given[-1]
    found = sorted(file for pattern in patterns for file in folder.glob(pattern))
    named = [file for name in ("source", "target") for file in found if file.stem == name]
    if len(named) == 2:
        return pair(*named)
    return (found[0], found[0]) if len(found) == 1 else None


def vocabulary(side: Words, rows: int, pad: int) -> Vocabulary:
    """Its tokens that have an embedding, and padding as the last."""
    known = side.tokens[:rows]
    tokens = [*known, *(f"<unused {i}>" for i in range(len(known), pad)), "<pad>"]
    return Vocabulary(tokens, eos=side.eos, unk=side.unk, pad=pad)


def one_way(tensors: dict[str, torch.Tensor], options: Options) -> dict[str, torch.Tensor]:
    """The tensors as if nothing was tied, all were transposed alike, and no layer lacked its output projection."""
    tensors = dict(tensors)
    output = "decoder_ff_logit_out_W"
    if "Wemb" in tensors:
        tensors["encoder_Wemb"] = tensors["decoder_Wemb"] = tensors.pop("Wemb")
    if output in tensors:  # until 2018
        tensors[f"{output}t"] = tensors.pop(output).mT
    elif "decoder_Wemb" in tensors:
        tensors.setdefault(f"{output}t", tensors["decoder_Wemb"])
    stored = dict(tensors)  # layer 2 may share those of 1, and layer 3 those stored as 2
    for layer, kept in enumerate(several(options, "transformer-tied-layers"), start=1):
        mark = f"decoder_l{kept}_"
        own = {name.replace(mark, f"decoder_l{layer}_"): x for name, x in stored.items() if name.startswith(mark)}
        tensors.update(own)
    if options.take("transformer-no-projection"):  # the identity says the same
        for query in [name for name in tensors if name.endswith("_Wq")]:
            tensors[f"{query[:-1]}o"] = torch.eye(len(tensors[query]))
            tensors[f"{query[:-2]}bo"] = torch.zeros(1, len(tensors[query]))
    return tensors


def read_config(
    options: Options, training: Mapping, tensors: Mapping, sides: tuple[Words, Words], decoding: Mapping,
    gelu: str | None = None,
) -> VaswaniConfig:  # fmt: skip
    options.only("type", "transformer")
    for name, allowed in ONLY.items():
        options.only(name, *allowed, default=allowed[0])
    if kinds := [kind for kind in several(options, "input-types") if kind != "sequence"]:
        options.refuse(f"input-types with {', '.join(map(repr, kinds))} (supported: 'sequence')")
    if len(sizes := several(options, "dim-vocabs")) not in (0, 2):
        options.refuse(f"{len(sizes)} vocabularies (supported: 2)")
    if "Wpos" in tensors:
        options.refuse("trained positions (supported: sinusoidal)")
    if decoding.get("word-penalty"):
        options.refuse(f"word-penalty={decoding['word-penalty']} (supported: 0)")
    if sides[0].eos != sides[1].eos:
        options.refuse(f"</s> with ids {sides[0].eos} and {sides[1].eos} (supported: the same in both vocabularies)")

    # d is dropout, a adds the input, n normalises; h is a highway, r the norm without mean and bias.
    before = str(options.take("transformer-preprocess", "")).replace("d", "")
    after = str(options.take("transformer-postprocess", "dan")).replace("d", "")
    top = str(options.take("transformer-postprocess-top", "")).replace("d", "")
    embedding = str(options.take("transformer-postprocess-emb", "d")).replace("d", "")
    if (before, after) != ("", "an"):
        options.refuse(
            f"transformer-preprocess={before!r} with transformer-postprocess={after!r}, dropout aside (supported: "
            "'' with 'an'; Marian's pre-norm is another than the usual one)"
        )
    if top not in ("", "n"):
        options.refuse(f"transformer-postprocess-top={top!r} (supported: '' and 'n')")
    if embedding:
        options.refuse(f"transformer-postprocess-emb={embedding!r} (supported: '')")

    if options.take("transformer-ffn-activation") == "gelu":
        activation = which_gelu(options, gelu)
    else:
        activation = options.choice("transformer-ffn-activation", ACTIVATIONS, default="swish")
    options.finish()
    if missing := [name for name in ("encoder_Wemb", "decoder_Wemb") if name not in tensors]:
        raise ConversionError.of("This is no translation model of Marian's: it lacks tensors", missing)
    source, target = tensors["encoder_Wemb"], tensors["decoder_Wemb"]
    tied_output = tensors["decoder_ff_logit_out_Wt"] is target
    rows = max(len(source), len(target)) + 1
    positions = not options.take("transformer-disable-position-embeddings")
    return options.config(
        vocab_size=rows,
        decoder_vocab_size=rows,
        d_model=options.take("dim-emb"),
        d_ff=options.take("transformer-dim-ffn"),
        decoder_d_ff=options.take("transformer-decoder-dim-ffn") or None,
        encoder_layers=options.take("enc-depth"),
        decoder_layers=options.take("dec-depth"),
        encoder_attention_heads=options.take("transformer-heads"),
        decoder_attention_heads=options.take("transformer-heads"),
        dropout=float(training.get("transformer-dropout") or 0),
        attention_dropout=float(training.get("transformer-dropout-attention") or 0),
        activation_dropout=float(training.get("transformer-dropout-ffn") or 0),
        activation_function=activation,
        norm_position="post",
        final_norm=top == "n",
        layer_norm_eps=1e-6,
        # Without positions, Marian does not scale either.
        position_encoding="sinusoidal" if positions else "none",
        scale_embedding=positions,
        position_layout="concatenated",
        position_divisor="half_minus_one",
        attention_bias=True,
        softmax_bias=True,  # padding needs one, if nothing else does
        share_embeddings="none" if not tied_output else "all" if source is target else "target",
        label_smoothing=float(training.get("label-smoothing") or 0),
        label_smoothing_type="uniform",
        pad_token_id=rows - 1,
        eos_token_id=sides[1].eos,
        decoder_start_token_id=rows - 1,
    )


def several(options: Options, name: str) -> list:
    found = options.take(name, [])
    return found if isinstance(found, list) else [found]


def which_gelu(options: Options, given: str | None) -> str | None:
    """Ours for Marian's gelu, which 1.12.42 has exactly and versions until 1.11 approximate."""
    numbers = re.match(r"v?(\d+)\.(\d+)\.(\d+)", str(options.take("version")))
    version = tuple(map(int, numbers.groups())) if numbers else None
    if given is None and version is not None:
        given = "sigmoid" if version < (1, 12, 0) else "exact" if version >= (1, 12, 42) else None
    if given is None:
        options.refuse("gelu, of a version that may compute it in one of two ways (name it with --gelu)")
    return GELU.get(given)


def with_padding(tensors: Mapping[str, torch.Tensor], config: VaswaniConfig) -> dict[str, torch.Tensor]:
    """Both vocabularies with as many rows as `config` says: those added are zero, and never produced."""
    tensors = dict(tensors)
    bias = tensors.get("decoder_ff_logit_out_b", torch.zeros(1, len(tensors["decoder_Wemb"])))  # output-omit-bias
    tensors["decoder_ff_logit_out_b"] = nn.functional.pad(bias, (0, config.vocab_size - bias.shape[-1]), value=NEVER)
    for name in ("encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_Wt"):
        tensors[name] = nn.functional.pad(tensors[name], (0, 0, 0, config.vocab_size - len(tensors[name])))
    return tensors


def compare_live(source: Path, converted: FromMarian, model: VaswaniForConditionalGeneration) -> Parity | None:
    """Against what Marian prints, or once printed; see `verify_marian`."""
    return verify_marian.compare(converted.path, converted.words, model)
