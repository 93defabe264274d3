"""OpenNMT-py's Transformer, as its versions 2 and 3 write it: a `.pt`, or a `.pt` with the weights in `.safetensors`.

Always pre-norm, with a LayerNorm after each stack. Version 2 has all biases; in version 3 options add them.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.modeling_vaswani import sinusoidal_positions

from .core import ConversionError, Converted, Options, generation_config
from .mapping import Table
from .reading import load_pickle, sha256
from .segmentation import SPACE, Segmentation, Vocabulary, sentencepiece, subword_nmt, words


POSITIONS = [f"{side}.embeddings.make_embedding.pe.weight" for side in ("encoder", "decoder")]

TABLE = Table(
    """
    model.encoder.embed_tokens                       encoder.embeddings.make_embedding.emb_luts.0
    model.decoder.embed_tokens                       decoder.embeddings.make_embedding.emb_luts.0
    lm_head                                          generator
    model.encoder.embedding.positions                encoder.embeddings.make_embedding.pe
    model.decoder.embedding.positions                decoder.embeddings.make_embedding.pe

    model.encoder.layers.{e}.self_attn.qkv_proj      encoder.transformer.{e}.self_attn.linear_{query,keys,values}
    model.encoder.layers.{e}.self_attn.out_proj      encoder.transformer.{e}.self_attn.final_linear
    model.encoder.layers.{e}.self_attn_norm          encoder.transformer.{e}.layer_norm
    model.encoder.layers.{e}.feed_forward.fc1        encoder.transformer.{e}.feed_forward.w_1
    model.encoder.layers.{e}.feed_forward.fc2        encoder.transformer.{e}.feed_forward.w_2
    model.encoder.layers.{e}.feed_forward_norm       encoder.transformer.{e}.feed_forward.layer_norm
    model.encoder.norm                               encoder.layer_norm

    model.decoder.layers.{d}.self_attn.qkv_proj      decoder.transformer_layers.{d}.self_attn.linear_{query,keys,values}
    model.decoder.layers.{d}.self_attn.out_proj      decoder.transformer_layers.{d}.self_attn.final_linear
    model.decoder.layers.{d}.self_attn_norm          decoder.transformer_layers.{d}.layer_norm_1
    model.decoder.layers.{d}.cross_attn.q_proj       decoder.transformer_layers.{d}.context_attn.linear_query
    model.decoder.layers.{d}.cross_attn.kv_proj      decoder.transformer_layers.{d}.context_attn.linear_{keys,values}
    model.decoder.layers.{d}.cross_attn.out_proj     decoder.transformer_layers.{d}.context_attn.final_linear
    model.decoder.layers.{d}.cross_attn_norm         decoder.transformer_layers.{d}.layer_norm_2
    model.decoder.layers.{d}.feed_forward.fc1        decoder.transformer_layers.{d}.feed_forward.w_1
    model.decoder.layers.{d}.feed_forward.fc2        decoder.transformer_layers.{d}.feed_forward.w_2
    model.decoder.layers.{d}.feed_forward_norm       decoder.transformer_layers.{d}.feed_forward.layer_norm
    model.decoder.norm                               decoder.layer_norm
    """,
    ignored=map(re.escape, POSITIONS),
)

UNK, PAD, BOS, EOS = "<unk>", "<blank>", "<s>", "</s>"
SPECIAL = {"unk": UNK, "pad": PAD, "bos": BOS, "eos": EOS}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}  # silu and gated-gelu multiply by a third matrix
LAYOUTS = {"SinusoidalInterleaved": ("interleaved", "half"), "SinusoidalConcat": ("concatenated", "half_minus_one")}
# Each changes the model in a way that the paper's model cannot take.
MUST_BE_OFF = (
    "copy_attn", "parallel_residual", "num_experts", "sliding_window", "relative_positions_buckets", "n_src_feats",
    "lora_layers", "lora_embedding", "quant_layers", "src_feats", "feat_vocab_sizes",
)  # fmt: skip

# Transforms that cut texts into pieces, and what to do where that cannot be done here.
SEGMENTERS = {
    "bpe": "--codes names the file of codes.",
    "sentencepiece": "--spm names the model.",
    "onmt_tokenize": "It is the package pyonmttok's tokenizer, which is not made anew here.",
}
TRAINING_ONLY = (
    "filtertoolong", "filterfeats", "switchout", "tokendrop", "tokenmask", "bart", "clean",
    "insert_mask_before_placeholder",
)  # fmt: skip


class Field:
    """Stands for an object of version 2's vocabulary: keeps what it held, and does nothing."""

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        if isinstance(state, dict):
            self.__dict__.update(state)


# What version 2 pickled with its vocabularies; torchtext moved its own to torchtext.legacy.
FIELDS = (
    "onmt.inputters.text_dataset.TextMultiField", "onmt.inputters.text_dataset._feature_tokenize",
    "onmt.inputters.inputter._feature_tokenize", "onmt.inputters.inputter.make_src",
    "onmt.inputters.inputter.make_tgt", "onmt.inputters.inputter.AlignField",
    "onmt.inputters.inputter.parse_align_idx", "functools.partial", "collections.defaultdict",
    *(
        f"torchtext{legacy}.{name}" for legacy in ("", ".legacy")
        for name in ("vocab.Vocab", "vocab._default_unk_index", "data.field.Field", "data.field.RawField",
                     "data.field.LabelField", "data.pipeline.Pipeline", "data.utils._split_tokenizer")
    ),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--codes", type=Path, metavar="FILE", help="codes of subword-nmt")
    parser.add_argument("--spm", type=Path, metavar="FILE", help="a model of SentencePiece")


def convert(source: Path, unsafe: bool = False, codes: Path | None = None, spm: Path | None = None) -> Converted:
    """A checkpoint file, or the folder that holds one; the subword models that it names are looked for beside it.

    Raises:
        ConversionError: it is no such checkpoint, is damaged, or uses what is not supported.
    """
    path = find(source)
    saved = load_pickle(
        path, allowed=[argparse.Namespace, set, *((Field, name) for name in FIELDS)], unsafe=unsafe
    )  # fmt: skip
    if not isinstance(saved, dict) or not {"opt", "vocab"} <= saved.keys():
        raise ConversionError(f"{path} is no checkpoint of OpenNMT-py: it lacks 'opt' or 'vocab'.")
    if not isinstance(saved["opt"], dict | argparse.Namespace):
        raise ConversionError(f"{path} is no checkpoint of OpenNMT-py: its 'opt' holds no options.")
    options = Options(saved["opt"] if isinstance(saved["opt"], dict) else vars(saved["opt"]), "OpenNMT-py")
    refuse_other_models(options)
    options.finish()
    files = [path, *weight_files(path, saved)]
    tensors = all_tensors(saved, files[1:])
    vocabularies = [read_vocabulary(saved["vocab"], side) for side in ("src", "tgt")]
    config = read_config(options, tensors, *vocabularies, start=start_token(saved["vocab"], options))
    weights = TABLE.read(tensors, config)
    generation = generation_config(config, **search(saved["vocab"]))
    generation.min_new_tokens = None  # its translations may be empty
    facts = {"files": {file.name: sha256(file) for file in files}, "transforms": transforms(options)}
    made = tokenizer(path.parent, options, *vocabularies, codes, spm)
    facts["tokenizer_differences"] = made.differences
    return Converted(
        toolkit="opennmt",
        config=config,
        weights=weights,
        generation=generation,
        tokenizer=made.tokenizer,
        target_tokens=vocabularies[1],
        facts=facts,
    )


def find(source: Path) -> Path:
    if source.is_file():
        return source
    found = sorted(source.glob("*.pt"), key=lambda path: (steps(path), path.name))
    if not found:
        raise FileNotFoundError(f"{source} is neither a file nor a folder with a .pt in it.")
    return found[-1]


def steps(path: Path) -> float:
    """The number in `model_step_1000.pt`; a released model, without one, comes after all."""
    number = re.search(r"_step_(\d+)", path.name)
    return int(number[1]) if number else float("inf")


def weight_files(path: Path, saved: Mapping) -> list[Path]:
    """The `.safetensors` beside a `.pt` without weights, in one part or several."""
    if "model" in saved:
        return []
    found = sorted(path.parent.glob(f"{path.stem}.*safetensors"))
    if not found:
        raise ConversionError(f"{path} holds no weights, and there is no {path.stem}.safetensors beside it.")
    return found


def all_tensors(saved: Mapping, files: Sequence[Path]) -> dict[str, torch.Tensor]:
    """Weights of model and generator under the names of version 3."""
    found = {}
    try:
        for file in files:
            found.update(load_file(file))
    except (SafetensorError, OSError) as error:
        raise ConversionError(f"The weights cannot be read: {error}") from None
    if not files:
        generator = saved.get("generator")
        if not isinstance(saved["model"], Mapping) or not isinstance(generator, Mapping):
            raise ConversionError("This is no whole model of OpenNMT-py: 'model' or 'generator' is no state dict.")
        found.update(saved["model"])
        found.update({f"generator.{name}": tensor for name, tensor in generator.items()})
    if strangers := [name for name, tensor in found.items() if not isinstance(tensor, torch.Tensor)]:
        raise ConversionError.of("What should be weights are no tensors", strangers)
    # Version 2, and before it; and a table is the weight of an embedding.
    names = {"generator.0.": "generator.", ".a_2": ".weight", ".b_2": ".bias", ".pe.pe": ".pe.weight"}
    tensors = {}
    for name, tensor in found.items():
        for old, new in names.items():
            name = name.replace(old, new)
        tensors[name] = tensor.flatten(1) if name in POSITIONS else tensor  # [length, 1, d]
    return tensors


def read_vocabulary(vocab: Any, side: str) -> list[str]:
    """The tokens of "src" or "tgt" in the order of their ids.

    Raises:
        ConversionError: there is none, or the source has features beside its tokens.
    """
    found = vocab.get(side) if isinstance(vocab, Mapping) else None
    if isinstance(found, Field):  # version 2: fields of torchtext
        fields = getattr(found, "fields", [(side, found)])
        if len(fields) > 1:
            raise ConversionError("This OpenNMT-py model uses what is not supported here: features beside the tokens.")
        found = getattr(getattr(fields[0][1], "vocab", None), "itos", None)
    if not isinstance(found, list) or not all(isinstance(token, str) for token in found):
        raise ConversionError(f"This is no vocabulary of OpenNMT-py 2 or 3: it has no list of tokens for {side!r}.")
    # A source has no end; version 2 gives it none where it has a vocabulary of its own.
    if missing := [token for token in ((PAD,) if side == "src" else (PAD, EOS)) if token not in found]:
        raise ConversionError.of(f"The vocabulary {side!r} lacks tokens", missing)
    return found


def transforms(options: Options) -> list[str]:
    """What texts went through in training, of all corpora; version 2 leaves it to the user to do the same."""
    named = options.take("transforms", [])
    if not isinstance(named, list | tuple):
        raise ConversionError(f"transforms={named!r} is no list of transforms.")
    named = list(map(str, named))
    corpora = options.take("data", {})
    for corpus in corpora.values() if isinstance(corpora, dict) else []:
        named += (corpus.get("transforms") if isinstance(corpus, dict) else None) or []
    return list(dict.fromkeys(named))


def tokenizer(
    folder: Path, options: Options, source: list[str], target: list[str], codes: Path | None, spm: Path | None
) -> Segmentation:
    """By `codes` or `spm`, else by the subword models of the recorded transforms, where they are in `folder`."""
    special = {name: target.index(token) for name, token in SPECIAL.items() if token in target}
    own = {name: source.index(token) for name, token in SPECIAL.items() if token in source}
    if "eos" not in own:  # version 2 with two vocabularies
        own = {"eos": None} | {name: i for name, i in own.items() if special.get(name) == i}
    elif own != special:
        return Segmentation(None, ["there is none here, for source and target have other special tokens."])
    sides = Vocabulary(source, **own, after=()), Vocabulary(target, **special)
    named = transforms(options)
    tool = next((name for name in named if name in SEGMENTERS), None)
    recorded = [options.take(f"{side}_subword_model") for side in ("src", "tgt")]
    models = [folder / Path(name).name for name in (recorded[0], recorded[1] or recorded[0]) if isinstance(name, str)]
    models = tuple(models) if len(models) == 2 and all(model.is_file() for model in models) else None
    codes = codes or (models if tool == "bpe" and spm is None else None)
    spm = spm or (models if tool == "sentencepiece" else None)
    restricted = any(options.take(f"{side}_vocab_threshold", 0) not in (0, -1) for side in ("src", "tgt"))
    if codes is not None:
        made = subword_nmt(codes, *sides, only_in_vocabulary=restricted)
    elif spm is not None:
        made = sentencepiece(spm, *sides, only_in_vocabulary=restricted)
    else:
        made = words(*sides, separator=separator(target))
        if tool:
            made.differences = [f"Texts have to come in the pieces of {tool} already. {SEGMENTERS[tool]}"]
    if restricted:
        made.differences.append("Pieces are kept to the model's vocabulary, not to the file that it was trained with.")
    if others := [name for name in named if name not in SEGMENTERS and name not in TRAINING_ONLY]:
        made.differences.append(f"In training, texts also went through {', '.join(others)}, which is not done here.")
    return made


def separator(tokens: Sequence[str]) -> str | None:
    """The mark by which pieces of subword-nmt or SentencePiece can be told, where the vocabulary has any."""
    if any(token.endswith("@@") for token in tokens):
        return "@@"
    return SPACE if any(token.startswith(SPACE) for token in tokens) else None


def start_token(vocab: Mapping, options: Options) -> str:
    return vocab.get("decoder_start_token") or options.take("decoder_start_token", BOS)


def search(vocab: Mapping) -> dict:
    """How `onmt_translate` ranks if it is told nothing: by mean log P in version 3, by log P in version 2."""
    mean = 0.0 if isinstance(vocab["tgt"], Field) else 1.0
    return dict(length_penalty=mean, length_penalty_offset=1, early_stopping=False)  # it counts the start token too


def refuse_other_models(options: Options):
    options.only("model_task", "seq2seq", default="seq2seq")
    options.only("model_type", "text", default="text")
    options.only("encoder_type", "transformer", default="rnn")
    options.only("decoder_type", "transformer", default="rnn")
    options.only("self_attn_type", "scaled-dot", "scaled-dot-flash", default="scaled-dot")
    options.only("max_relative_positions", 0, default=0)
    options.only("layer_norm", "standard", default="standard")
    options.only("generator_function", "softmax", default="softmax")
    options.off(*MUST_BE_OFF)
    heads = options.take("heads", 8)
    options.only("num_kv", 0, heads, default=0)
    if options.take("multiquery") and options.take("num_kv", 0) != heads:
        options.refuse("multiquery=True (supported: False)")


def read_config(
    options: Options, tensors: Mapping[str, torch.Tensor], source: list[str], target: list[str], start: str
) -> VaswaniConfig:
    def size(name: str, both: str) -> int | None:
        """An option of one side; one for both sides wins where it is set."""
        common = options.take(both, -1)
        return options.take(name) if common in (0, -1) else common

    rnn = "hid" if options.take("enc_hid_size") else "rnn"  # "rnn" in version 2
    both = "hidden_size" if rnn == "hid" else "rnn_size"
    d_model = size(f"enc_{rnn}_size", both)
    for name, wanted in ((f"dec_{rnn}_size", both), ("src_word_vec_size", "word_vec_size"),
                         ("tgt_word_vec_size", "word_vec_size")):  # fmt: skip
        if size(name, wanted) != d_model:
            options.refuse(f"{name}={size(name, wanted)!r} (supported: {d_model!r}, the encoder's width)")
    if options.take("share_embeddings") and source != target:
        options.refuse("share_embeddings=True with two vocabularies (supported: one for both)")
    if source.index(PAD) != target.index(PAD):
        options.refuse(f"{PAD} with the id {source.index(PAD)} in the source and {target.index(PAD)} in the target")
    if start not in target:
        options.refuse(f"decoder_start_token={start!r}, which is not in the vocabulary")
    layout, divisor = options.choice("position_encoding_type", LAYOUTS, default="SinusoidalInterleaved")
    positions = bool(options.take("position_encoding"))
    shares_target = bool(options.take("share_decoder_embeddings"))
    share = "all" if shares_target and options.take("share_embeddings") else "target" if shares_target else "none"

    def rate(name: str, default: float) -> float:
        value = options.take(name, default)
        return value[-1] if isinstance(value, list) and value else value

    settings = dict(
        vocab_size=len(source),
        decoder_vocab_size=len(target),
        d_model=d_model,
        d_ff=options.take("transformer_ff", 2048),
        encoder_layers=size("enc_layers", "layers"),
        decoder_layers=size("dec_layers", "layers"),
        encoder_attention_heads=options.take("heads", 8),
        decoder_attention_heads=options.take("heads", 8),
        dropout=rate("dropout", 0.3),
        attention_dropout=rate("attention_dropout", 0.1),
        activation_dropout=rate("dropout", 0.3),
        activation_function=options.choice("pos_ffn_activation_fn", ACTIVATIONS, default="relu"),
        norm_position="pre",
        layer_norm_eps=options.take("norm_eps", 1e-6),
        position_encoding="sinusoidal" if positions else "none",
        position_layout=layout,
        position_divisor=divisor,
        attention_bias=any(name.endswith("_attn.linear_query.bias") for name in tensors),
        feed_forward_bias=any(name.endswith(".w_1.bias") for name in tensors),
        softmax_bias="generator.bias" in tensors,
        scale_embedding=positions,  # one module does both
        share_embeddings=share,
        zero_pad_embedding=False,
        label_smoothing=options.take("label_smoothing", 0.0),
        label_smoothing_type="uniform",
        pad_token_id=target.index(PAD),
        eos_token_id=target.index(EOS),
        bos_token_id=target.index(BOS) if BOS in target else None,
        decoder_start_token_id=target.index(start) if start in target else None,
    )
    for side, tokens in (("encoder", source), ("decoder", target)):
        table = tensors.get(f"{side}.embeddings.make_embedding.emb_luts.0.weight")
        if table is not None and len(table) != len(tokens):
            options.refuse(f"a vocabulary of {len(tokens)} tokens with {len(table)} embeddings in the {side}")
    config = options.config(**settings)
    tables = [tensors[name] for name in POSITIONS if name in tensors]
    if not positions or (offset := position_offset(tables, config)) == 0:
        return config
    if offset is not None:
        return options.config(**settings, position_offset=offset)
    # The tables are what the toolkit adds, whatever the options say; in half precision they are rounded sinusoids.
    settings.update(position_encoding="learned", max_position_embeddings=len(tables[0]))
    return options.config(**settings)


def position_offset(tables: Sequence[torch.Tensor], config: VaswaniConfig, checked: int = 256) -> int | None:
    """Which position the first row of the stored tables is; None where they are not exactly sinusoids."""
    rows = [table[:checked].float() for table in tables]
    if any(table.shape[1:] != (config.d_model,) for table in rows):
        return None
    for offset in range(4):  # models that came from fairseq start at 2
        expected = [sinusoidal_positions(torch.arange(len(table)) + offset, config) for table in rows]
        if all(a.shape == b.shape and torch.allclose(a, b, atol=1e-4) for a, b in zip(rows, expected, strict=True)):
            return offset
    return None
