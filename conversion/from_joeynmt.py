"""JoeyNMT's Transformer, as its versions 1 and 2 write it: a `.ckpt` with `config.yaml` and vocabularies beside it.

What the model is stands in the configuration alone, and what that leaves open depends on JoeyNMT's version.
"""

import argparse
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from tokenizers import Regex, normalizers
from transformers import GenerationConfig, PreTrainedTokenizerFast

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.tokenization_vaswani import VaswaniTokenizer

from .core import ConversionError, Converted, Options, generation_config
from .from_opennmt import position_offset
from .mapping import Table
from .reading import beside, load_pickle, sha256
from .segmentation import SPACE, Moses, Segmentation, Vocabulary, characters, sentencepiece, subword_nmt, words


TABLE = Table(
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

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu"}
# Kinds of JoeyNMT models, and of its descendants for speech, which are no plain Transformer of texts. Before a
# separator come prompts, to which further embeddings are added.
MUST_BE_OFF = ("ctc", "ctc_weight", "subsample", "in_channels", "conv_kernel_sizes", "multitask", "sep_token")


@dataclass(frozen=True)
class Specials:
    """The special tokens that `data.special_symbols` names, JoeyNMT's own where it does not."""

    unk: str = "<unk>"
    pad: str = "<pad>"
    bos: str = "<s>"
    eos: str = "</s>"
    unk_id: int = 0
    pad_id: int = 1
    bos_id: int = 2
    eos_id: int = 3
    others: tuple[str, ...] = ()  # a separator and tags of languages: never produced

    @classmethod
    def of(cls, data: Mapping) -> "Specials":
        said = data.get("special_symbols") or {}
        names = {name: said.get(f"{name}_token") for name in ("unk", "pad", "bos", "eos")}
        ids = {name: said.get(name) for name in ("unk_id", "pad_id", "bos_id", "eos_id")}
        tags = said.get("lang_tags") or []
        if not isinstance(tags, list):
            raise ConversionError(f"data.special_symbols.lang_tags is {tags!r}, which is no list.")
        others = [said["sep_token"]] if said.get("sep_token") else []
        values = {name: value for name, value in {**names, **ids}.items() if value is not None}
        return cls(**values, others=(*others, *tags))


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--config", type=Path, metavar="FILE.yaml", help="else config.yaml beside the checkpoint")
    parser.add_argument("--codes", type=Path, metavar="FILE", help="codes of subword-nmt, where they are not beside it")
    parser.add_argument("--spm", type=Path, metavar="FILE", help="a model of SentencePiece, likewise")


def convert(
    source: Path, unsafe: bool = False, config: Path | None = None, codes: Path | None = None, spm: Path | None = None
) -> Converted:
    """A checkpoint file, or the folder that holds one; the configuration is `config`, else `config.yaml` beside it.
    Vocabularies and the files of the segmentation are looked for beside the checkpoint.

    Raises:
        ConversionError: it is no such checkpoint, is damaged, uses what is not supported, or its vocabulary is of
            another model.
    """
    path = find(source)
    config = config or path.parent / "config.yaml"
    said = read_yaml(config)
    saved = load_pickle(path, unsafe=unsafe)
    tensors = saved.get("model_state") if isinstance(saved, dict) else None
    if not isinstance(tensors, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
        raise ConversionError(f"{path} is no checkpoint of JoeyNMT: it has no state dict called 'model_state'.")
    for side in ("encoder", "decoder"):  # tables of positions [1, length, d_model], as weights of embeddings
        if f"{side}.pe.pe" in tensors:
            tensors[f"{side}.pe.weight"] = tensors.pop(f"{side}.pe.pe").flatten(0, 1)
    specials = Specials.of(said["data"])
    model_config = read_config(said, tensors, specials)
    vocabularies = [read_vocabulary(path.parent, said["data"], side, specials) for side in ("src", "trg")]
    sizes = (model_config.vocab_size, model_config.decoder_vocab_size)
    for side, tokens, size in zip(("src", "trg"), vocabularies, sizes, strict=True):
        if tokens and len(tokens) != size:
            raise ConversionError(f"{side}_vocab.txt has {len(tokens)} tokens, but the model {size} embeddings.")
    facts = {
        "files": {file.name: sha256(file) for file in (path, config)},
        "version": said.get("joeynmt_version"),
        "name": said.get("name"),
    }
    texts = [Texts.of(said["data"], side) for side in ("src", "trg")]
    for name, side in zip(("source_language", "target_language"), texts, strict=True):
        facts[name] = None if side.language in ("src", "trg", "tgt") else side.language  # names of files, no codes
    made = tokenizer(path.parent, texts, vocabularies, specials, codes, spm)
    facts["tokenizer_differences"] = made.differences
    testing = said.get("testing") or {}
    facts["search settings left out"] = [  # unlike those of transformers they spare special tokens
        f"{name}={testing[name]}"
        for name in ("repetition_penalty", "no_repeat_ngram_size")
        if isinstance(testing.get(name), int | float) and testing[name] > 1
    ]
    return Converted(
        toolkit="joeynmt",
        config=model_config,
        weights=TABLE.read(tensors, model_config),
        generation=search(said, model_config, specials, vocabularies[1]),
        tokenizer=made.tokenizer,
        target_tokens=vocabularies[1],
        facts=facts,
    )


def find(source: Path) -> Path:
    if source.is_file():
        return source
    for name in ("best.ckpt", "avg_best.ckpt", "latest.ckpt"):
        if (source / name).is_file():
            return source / name
    found = sorted(source.glob("*.ckpt"), key=lambda path: int(path.stem) if path.stem.isdecimal() else -1)
    if not found:
        raise FileNotFoundError(f"{source} is neither a file nor a folder with a .ckpt in it.")
    return found[-1]


def read_yaml(path: Path) -> dict[str, Any]:
    """Raises:
    ConversionError: it is no configuration of JoeyNMT.
    """
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"There is no {path}: what the model is stands there. --config names another."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConversionError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    parts = ("data", "model", "model.encoder", "model.decoder")
    if missing := [name for name in parts if not isinstance(part(said, name), dict)]:
        raise ConversionError.of(f"{path} is no configuration of JoeyNMT; it lacks", missing)
    parts = ("data.special_symbols", "data.src.tokenizer_cfg", "data.trg.tokenizer_cfg", "testing", "training")
    parts += ("model.encoder.embeddings", "model.decoder.embeddings")
    if wrong := [name for name in parts if not isinstance(part(said, name), dict | None)]:
        raise ConversionError.of(f"{path} is no configuration of JoeyNMT; these are no groups of settings", wrong)
    return said


def part(said: Any, name: str) -> Any:
    for key in name.split("."):
        said = said.get(key) if isinstance(said, dict) else None
    return said


def read_vocabulary(folder: Path, data: Mapping, side: str, specials: Specials) -> list[str]:
    """The tokens of "src" or "trg" in the order of their ids; none where no file is found.

    A training run writes `src_vocab.txt` and `trg_vocab.txt`; the configuration may name another file, without the
    special tokens.

    Raises:
        ConversionError: the special tokens have other ids than the configuration says.
    """
    settings = data.get(side) if isinstance(data.get(side), dict) else {}
    named = settings.get("voc_file") or data.get(f"{side}_vocab")
    file = beside(folder, f"{side}_vocab.txt") or beside(folder, named)
    if file is None:
        return []
    try:
        lines = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ConversionError(f"{file} is no text in UTF-8: {error}") from None
    lead = [specials.unk, specials.pad, specials.bos, specials.eos, *specials.others]
    tokens = list(dict.fromkeys([*lead, *lines]))
    for name in ("unk", "pad", "bos", "eos"):
        token, number = getattr(specials, name), getattr(specials, f"{name}_id")
        if token not in tokens or tokens.index(token) != number:
            raise ConversionError(f"{file} does not give {token} the id {number}, as the configuration does.")
    return tokens


@dataclass(frozen=True)
class Texts:
    """What the configuration says of the texts of one side, and which file cuts them into pieces."""

    language: str | None
    level: str
    kind: str  # of the pieces: "sentencepiece" or "subword-nmt"
    file: str | None
    separator: str
    lowercase: bool
    normalize: bool
    moses: bool
    in_pieces: bool  # version 1 expects texts in pieces, and so knows no file

    @classmethod
    def of(cls, data: Mapping, side: str) -> "Texts":
        """Those of "src" or "trg". Version 1 has settings for both together."""
        said = data.get(side)
        in_pieces = not isinstance(said, dict)
        language, said = (said, data) if in_pieces else (said.get("lang"), said)
        more = said.get("tokenizer_cfg") or {}
        kind = said.get("tokenizer_type", said.get("bpe_type", "subword-nmt" if in_pieces else "sentencepiece"))
        return cls(
            language=language,
            level=said.get("level", "word"),
            kind=kind,
            file=more.get("model_file" if kind == "sentencepiece" else "codes"),
            separator=SPACE if kind == "sentencepiece" else more.get("separator", "@@"),
            lowercase=bool(said.get("lowercase", False)),
            normalize=bool(said.get("normalize", False)) and not in_pieces,
            moses=str(more.get("pretokenizer")).lower() == "moses",
            in_pieces=in_pieces,
        )


def tokenizer(
    folder: Path, texts: list[Texts], vocabularies: list[list[str]], specials: Specials, codes: Path | None,
    spm: Path | None,
) -> Segmentation:  # fmt: skip
    """The segmentation that `data` describes. `codes` and `spm` are files that are not in `folder`."""
    one, other = texts
    if not all(vocabularies):
        return Segmentation(None, ["there is none here, for src_vocab.txt and trg_vocab.txt are not both beside it."])
    if (one.level, one.kind, one.separator) != (other.level, other.kind, other.separator):
        return Segmentation(None, ["there is none here, for source and target are cut by different means."])
    ids = dict(unk=specials.unk_id, pad=specials.pad_id, bos=specials.bos_id, eos=specials.eos_id)
    sides = [Vocabulary(tokens, **ids) for tokens in vocabularies]
    settings: dict[str, Any] = dict(lowercase=one.lowercase)
    if any(t.moses and not t.language for t in texts):
        raise ConversionError("data.src and data.trg have tokenizer_cfg.pretokenizer: moses, which needs their lang.")
    if one.moses or other.moses:
        settings["moses"] = Moses(*(t.language if t.moses else "" for t in texts), normalize=one.normalize)
    kind = "sentencepiece" if spm else "subword-nmt" if codes else one.kind  # version 1 may not have said it
    files = [spm or codes or beside(folder, side.file) for side in texts]
    if one.level == "char":
        made = characters(*sides, space=" " if one.in_pieces else SPACE, **settings)
    elif one.level == "word":
        made = words(*sides, **settings)
    elif None in files:
        made = words(*sides, separator=one.separator, **settings)
        option = "--spm" if kind == "sentencepiece" else "--codes"
        made.differences = [f"Texts have to come in the pieces of {kind} already; {option} names its file."]
    elif kind == "sentencepiece":
        made = sentencepiece(tuple(files), *sides, only_in_vocabulary=not one.in_pieces, **settings)
    else:
        settings |= dict(separator=one.separator, only_in_vocabulary=not one.in_pieces)
        made = subword_nmt(tuple(files), *sides, **settings)
    made.differences += normalizing(made.tokenizer, one)
    if (one.lowercase, one.normalize) != (other.lowercase, other.normalize):
        made.differences.append("Target texts are prepared with the source's lowercase and normalize.")
    return made


def normalizing(tokenizer: VaswaniTokenizer | PreTrainedTokenizerFast, texts: Texts) -> list[str]:
    """Adds what JoeyNMT's `normalize` does to texts, and says what that leaves out."""
    if not texts.normalize:
        return []
    if texts.moses:  # which is not a part of the tokenizers that could be added to
        return ["Before Moses, JoeyNMT also writes characters in their NFKC forms and takes spaces before ?!,.: out."]
    replaced = {"\u2019": "'", "\u201c": '"', "\u201d": '"', "\u200b": "", Regex(" +"): " ", Regex(" (?=[?!,.:])"): ""}
    steps = [normalizers.NFKC(), *(normalizers.Replace(*pair) for pair in replaced.items()), normalizers.Strip()]
    for side in {tokenizer.backend_tokenizer, getattr(tokenizer, "_target_side", None)} - {None}:
        side.normalizer = normalizers.Sequence([*steps, *([side.normalizer] if side.normalizer else [])])
    return ["JoeyNMT also takes the spaces before ?!,.: out of its translations."]


def search(said: Mapping, config: VaswaniConfig, specials: Specials, tokens: list[str]) -> GenerationConfig:
    """The settings of `testing`: what JoeyNMT itself translates with.

    Raises:
        ConversionError: one is no number.
    """
    testing = Options(said.get("testing") or {}, "JoeyNMT")

    def number(name: str, default: float) -> float:
        value = testing.take(name, default)
        try:
            if math.isfinite(value := float(value)):
                return value
        except (TypeError, ValueError):
            pass
        raise ConversionError(f"testing.{name} is {value!r}, which is no number.")

    alpha = max(number("alpha", number("beam_alpha", -1)), 0.0)
    found = generation_config(
        config,
        num_beams=int(number("beam_size", 1)),
        length_penalty=alpha,
        length_penalty_offset=5,  # GNMT's
        early_stopping=False,
    )
    # Version 1 has neither of these.
    found.min_new_tokens = None if is_version_1(said) else int(number("min_output_length", 1))
    unknown = [] if is_version_1(said) or testing.take("generate_unk", True) else [specials.unk_id]
    if number("max_output_length", -1) > 0:
        found.max_new_tokens = int(number("max_output_length", -1))
    never = [specials.bos_id, *(tokens.index(token) for token in specials.others if token in tokens)]
    found.suppress_tokens = never + unknown
    return found


def is_version_1(said: Mapping) -> bool:
    """There "src" and "trg" name languages; version 2 has the settings of each."""
    return isinstance(said["data"].get("src"), str)


def read_config(said: Mapping, tensors: Mapping[str, torch.Tensor], specials: Specials) -> VaswaniConfig:
    model = said["model"]
    sides = {name: Options(model[name], "JoeyNMT") for name in ("encoder", "decoder")}
    embeddings = {name: Options(side.take("embeddings", {}), "JoeyNMT") for name, side in sides.items()}
    options = Options(model, "JoeyNMT")
    if (task := said.get("task") or said["data"].get("task") or "MT") != "MT":
        options.refuse(f"task={task!r} (supported: 'MT')")
    symbols = said["data"].get("special_symbols") or {}
    for name in MUST_BE_OFF:
        for where in (said, said["data"], symbols, model, *(side.values for side in sides.values())):
            if where.get(name):
                options.refuse(f"{name}={where[name]!r} (supported: unset)")
    for name, side in sides.items():
        recurrent = name == "encoder" or is_version_1(said)
        side.only("type", "transformer", default="recurrent" if recurrent else "transformer")
        side.only("alpha", 1, default=1)
        if name == "decoder" and options.take("tied_embeddings"):
            embeddings[name] = embeddings["encoder"]  # the encoder's are used, and their settings
        embeddings[name].only("embedding_dim", side.take("hidden_size", 512), default=64)
        for part_of in (side, embeddings[name]):
            options.problems += [f"model.{name}: {problem}" for problem in part_of.problems]
            part_of.problems.clear()

    def both(settings: dict[str, Options], name: str, default=None):
        """A setting of encoder and decoder, which must agree."""
        encoder, decoder = (settings[side].take(name, default) for side in ("encoder", "decoder"))
        if encoder != decoder:
            options.refuse(f"{name}={encoder!r} in the encoder, {decoder!r} in the decoder (supported: the same)")
        return encoder

    norms = {name: norm(name, side, said, tensors) for name, side in sides.items()}
    positions = [position for position, final in norms.values()]
    finals = [final for position, final in norms.values()]
    # One setting says of both stacks whether a norm follows: those that are pre-norm, all, or none.
    if finals != [position == "pre" for position in positions] and len(set(finals)) == 2:
        options.refuse("a pre-norm encoder without a norm at its end, and a decoder with one")
    final_norm = None if finals == [position == "pre" for position in positions] else finals[0]
    activation = both(sides, "activation", "relu")
    if (ours := ACTIVATIONS.get(str(activation))) is None:
        options.refuse(f"activation={activation!r} (supported: {', '.join(map(repr, ACTIVATIONS))})")
    # Versions before 2.2 know none but ReLU, and pass over the setting.
    activation = "relu" if (version(said) or (2, 2)) < (2, 2) else ours
    if missing := [name for name in ("src_embed.lut.weight", "trg_embed.lut.weight") if name not in tensors]:
        raise ConversionError.of("This is no Transformer of JoeyNMT's: the state dict lacks tensors", missing)
    shares_all = options.take("tied_embeddings") and options.take("tied_softmax")
    shares_target = options.take("tied_softmax")
    encoder, decoder = sides["encoder"], sides["decoder"]
    settings = dict(
        vocab_size=len(tensors["src_embed.lut.weight"]),
        decoder_vocab_size=len(tensors["trg_embed.lut.weight"]),
        d_model=both(sides, "hidden_size", 512),
        d_ff=encoder.take("ff_size", 2048),
        decoder_d_ff=decoder.take("ff_size", 2048),
        encoder_layers=encoder.take("num_layers", 8),
        decoder_layers=decoder.take("num_layers", 4),
        encoder_attention_heads=encoder.take("num_heads", 4),
        decoder_attention_heads=decoder.take("num_heads", 8),
        dropout=encoder.take("dropout", 0.1),
        attention_dropout=encoder.take("dropout", 0.1),
        activation_dropout=encoder.take("dropout", 0.1),
        activation_function=activation,
        norm_position=positions[0],
        decoder_norm_position=positions[1],
        final_norm=final_norm,
        layer_norm_eps=1e-6,
        position_layout="interleaved",
        position_divisor="half",
        attention_bias=True,
        scale_embedding=bool(both(embeddings, "scale", False)),
        share_embeddings="all" if shares_all else "target" if shares_target else "none",
        zero_pad_embedding=False,
        label_smoothing=(said.get("training") or {}).get("label_smoothing", 0.0),
        pad_token_id=specials.pad_id,
        eos_token_id=specials.eos_id,
        bos_token_id=specials.bos_id,
        decoder_start_token_id=specials.bos_id,
    )
    tables = [tensors[f"{name}.pe.weight"] for name in sides if f"{name}.pe.weight" in tensors]
    if position_offset(tables, options.config(**settings)) != 0:  # they are what is added, rounded or not
        settings.update(position_encoding="learned", max_position_embeddings=len(tables[0]))
    return options.config(**settings)


def norm(name: str, side: Options, said: Mapping, tensors: Mapping[str, torch.Tensor]) -> tuple[str, bool]:
    """Where the stack `name` has its norms, "pre" or "post", and whether one follows it.

    Version 1 is pre-norm, with a norm after each stack, whatever is asked for. Version 2 asks `layer_norm`. Where that
    is unset, all is post-norm until 2.1; from 2.2 on the encoder is pre-norm, but no norm follows it.

    Raises:
        ConversionError: nothing tells.
    """
    position = side.take("layer_norm")
    if position not in (None, "pre", "post"):
        raise ConversionError(f"model.{name}.layer_norm is {position!r}; JoeyNMT knows 'pre' and 'post'.")
    if position == "pre" or f"{name}.layer_norm.weight" in tensors:
        return "pre", True
    if position == "post" or name == "decoder":
        return "post", False
    if (number := version(said)) is None:
        raise ConversionError(
            "The configuration has neither model.encoder.layer_norm nor joeynmt_version. Until 2.1 that means 'post', "
            "from 2.2 on 'pre': add joeynmt_version, the version that the model was trained with."
        )
    return ("pre" if number >= (2, 2) else "post"), False


def version(said: Mapping) -> tuple[int, int] | None:
    if is_version_1(said):
        return 1, 0
    found = re.match(r"(\d+)\.(\d+)", str(said.get("joeynmt_version")))
    return (int(found[1]), int(found[2])) if found else None
