"""JoeyNMT's segmentation, as described in its configuration."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, normalizers
from transformers import PreTrainedTokenizerFast

from vaswani_transformer.model.tokenization_vaswani import VaswaniTokenizer

from ..files.folders import beside
from ..files.joeynmt import Specials
from ..options import ConversionError, Options
from . import SPACE, ConvertedTokenizer, MosesSettings, Vocabulary, characters, choose, words


@dataclass(frozen=True)
class Texts:
    """The configuration of the texts of one side, including the file that segments them."""

    language: str | None
    level: str
    kind: str  # of pieces: "sentencepiece" or "subword-nmt"
    file: str | None
    separator: str
    lowercase: bool
    normalize: bool
    moses: bool
    in_pieces: bool  # version 1 expects segmented texts, so it records no file

    @classmethod
    def from_options(cls, config: Options, side: str) -> "Texts":
        """Reads the settings of "src" or "trg". Version 1 has one group of settings for both."""
        values = config.take(f"data.{side}")
        in_pieces = not isinstance(values, dict)
        language, values = (values, config.take("data")) if in_pieces else (values.get("lang"), values)
        options = Options(values, "JoeyNMT")
        kind = options.take("tokenizer_type", options.take("bpe_type", "subword-nmt" if in_pieces else "sentencepiece"))
        return cls(
            language=language,
            level=options.take("level", "word"),
            kind=kind,
            file=options.take("tokenizer_cfg.model_file" if kind == "sentencepiece" else "tokenizer_cfg.codes"),
            separator=SPACE if kind == "sentencepiece" else options.take("tokenizer_cfg.separator", "@@"),
            lowercase=bool(options.take("lowercase", False)),
            normalize=bool(options.take("normalize", False)) and not in_pieces,
            moses=str(options.take("tokenizer_cfg.pretokenizer")).lower() == "moses",
            in_pieces=in_pieces,
        )


def tokenizer(
    folder: Path, texts: list[Texts], vocabularies: list[list[str]], specials: Specials, codes: Path | None,
    spm: Path | None,
) -> ConvertedTokenizer:  # fmt: skip
    """Builds the tokenizer that `data` describes. `codes` and `spm` are files outside `folder`."""
    source, target = texts
    if not all(vocabularies):
        return ConvertedTokenizer(None, ["none, because src_vocab.txt or trg_vocab.txt is missing."])
    if (source.level, source.kind, source.separator) != (target.level, target.kind, target.separator):
        return ConvertedTokenizer(None, ["none, because source and target use different segmentations."])
    sides = [Vocabulary(tokens, **specials.ids()) for tokens in vocabularies]
    settings: dict[str, Any] = dict(lowercase=source.lowercase, moses=moses_settings(texts))
    files = tuple(beside(folder, side.file) for side in texts)
    if source.level == "char":
        tokenizer = characters(*sides, space=" " if source.in_pieces else SPACE, **settings)
    elif source.level == "word":
        tokenizer = words(*sides, **settings)
    else:
        if codes is None and spm is None and None not in files:
            codes, spm = (files if source.kind == kind else None for kind in ("subword-nmt", "sentencepiece"))
        option = "--spm" if source.kind == "sentencepiece" else "--codes"
        settings |= dict(separator=source.separator, only_in_vocabulary=not source.in_pieces)
        settings["advice"] = f"Pass {option} FILE, its {source.kind} file, to include the segmentation."
        tokenizer = choose(*sides, None if spm else codes, spm, **settings)
    tokenizer.differences += add_normalization(tokenizer.tokenizer, source)
    if (source.lowercase, source.normalize) != (target.lowercase, target.normalize):
        tokenizer.differences.append(
            "Target texts are preprocessed with the source's settings of lowercase and normalize."
        )
    return tokenizer


def moses_settings(texts: list[Texts]) -> MosesSettings | None:
    if not any(side.moses for side in texts):
        return None
    if any(side.moses and not side.language for side in texts):
        raise ConversionError(
            "tokenizer_cfg.pretokenizer is moses, which needs data.src.lang and data.trg.lang. Add them to config.yaml."
        )
    return MosesSettings(*(side.language if side.moses else "" for side in texts), normalize=texts[0].normalize)


def add_normalization(tokenizer: VaswaniTokenizer | PreTrainedTokenizerFast, texts: Texts) -> list[str]:
    """Adds JoeyNMT's `normalize` to a tokenizer; returns the remaining differences."""
    if not texts.normalize:
        return []
    if texts.moses:  # sacremoses runs before any tokenizer that could be extended
        return ["Before Moses, JoeyNMT also applies NFKC and removes spaces before ?!,.:"]
    replaced = {"\u2019": "'", "\u201c": '"', "\u201d": '"', "\u200b": "", Regex(" +"): " ", Regex(" (?=[?!,.:])"): ""}
    steps = [normalizers.NFKC(), *(normalizers.Replace(*pair) for pair in replaced.items()), normalizers.Strip()]
    target = getattr(tokenizer, "_target_side", None)
    for side in [tokenizer.backend_tokenizer] + ([target] if target is not None else []):
        side.normalizer = normalizers.Sequence([*steps, *([side.normalizer] if side.normalizer else [])])
    return ["JoeyNMT also removes the spaces before ?!,.: from its translations."]
