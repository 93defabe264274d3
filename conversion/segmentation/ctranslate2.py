"""The segmentation of CTranslate2's models: files beside the model or in the Argos package.

A model's own files record only the vocabularies.
"""

from collections.abc import Sequence
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniTokenizer

from ..files.argos import ArgosPackage
from ..files.ctranslate2 import CTranslate2Files
from ..files.folders import regular
from ..files.text import one_line, read_json_object
from ..options import ConversionError
from . import ConvertedTokenizer, MosesSettings, Vocabulary, choose, sentencepiece, subword_nmt
from .marian import files_for


SAVED = ("tokenizer_config.json", "tokenizer.json")
# The classes of tokenizers that our exporter saves; transformers renamed the first.
SAVED_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend", VaswaniTokenizer.__name__)
UNDERSCORES = "Argos Translate replaces underscores in translations by spaces; this tokenizer does not."
UNKNOWN = "Argos Translate replaces an unknown token by the source's token with most attention; here it stays."
ADVICE = "Pass --spm or --codes with the files of source and target to include the segmentation."


def tokenizer(
    files: CTranslate2Files,
    package: ArgosPackage | None,
    config: VaswaniConfig,
    spm: Sequence[Path] | None = None,
    codes: Sequence[Path] | None = None,
    source_eos: bool | None = None,
) -> ConvertedTokenizer:
    """Builds the tokenizer from the given files, those of the package, or those beside the model.

    Raises:
        ConversionError: a file does not match the model.
        FileNotFoundError: a given file is missing.
    """
    for file in [*(spm or []), *(codes or [])]:
        regular(file)
    vocabularies = source_and_target(files, config, source_eos)
    if vocabularies is None:
        return ConvertedTokenizer(None, ["none, because the special tokens of source and target differ."])
    if package is not None and not spm and not codes:
        return package_tokenizer(package, *vocabularies)
    if not spm and not codes and (saved := saved_tokenizer(files)) is not None:
        return ConvertedTokenizer(saved)
    models = None if codes else files_for(files.folder, ("*.spm", "*.model"), spm)
    merges = None if models else files_for(files.folder, ("*.bpe", "*.codes", "bpecodes"), codes)
    return choose(*vocabularies, merges, models, advice=ADVICE)


def source_and_target(
    files: CTranslate2Files, config: VaswaniConfig, source_eos: bool | None
) -> tuple[Vocabulary, Vocabulary] | None:
    """Source and target vocabulary; None if a special token has different ids in them."""
    take = files.options.take
    rows, pad = (config.vocab_size, config.decoder_vocab_size), config.pad_token_id
    sides = [placeholders(tokens, size) for tokens, size in zip((files.source, files.target), rows, strict=True)]
    if any(pad >= len(tokens) for tokens in (files.source, files.target)):  # it was added
        name = "<pad>"
        while any(name in side for side in sides):
            name = f"<{name}>"
        for side in sides:
            side[pad] = name
    ids = [{token: i for i, token in enumerate(tokens)} for tokens in sides]
    special = {"pad": config.pad_token_id}
    for name in ("eos", "unk", "bos"):
        places = [side.get(take(f"{name}_token")) for side in ids]
        if places[0] == places[1] and places[0] is not None:
            special[name] = places[0]
        elif None not in places:
            return None
    ends = take("add_source_eos") or take("decoder/start_from_zero_embedding") if source_eos is None else source_eos
    if ends and "eos" not in special or take("add_source_bos") and "bos" not in special:
        return None
    around = {
        "before": (special["bos"],) if take("add_source_bos") else (),
        "after": (special["eos"],) if ends else (),
    }
    source = Vocabulary(sides[0], **{"eos": None, **special}, **around)
    return source, Vocabulary(sides[1], **{**special, "eos": config.eos_token_id})


def placeholders(tokens: Sequence[str], rows: int) -> list[str]:
    """The tokens, and names for rows without a token."""
    return [*tokens, *(f"<unused {i}>" for i in range(len(tokens), rows))]


def package_tokenizer(package: ArgosPackage, source: Vocabulary, target: Vocabulary) -> ConvertedTokenizer:
    """Builds the tokenizer of an Argos package: SentencePiece, or byte-pair codes after Moses."""
    spm, codes = package.segmentation()
    if spm is not None:
        built = sentencepiece(spm, source, target)
        built.differences += [UNDERSCORES, UNKNOWN]
        return built
    if codes is None:
        return choose(source, target, advice=ADVICE)
    languages = package.text("from_code"), package.text("to_code")
    if None in languages:
        raise ConversionError(f"{package.folder / 'metadata.json'} has no from_code or to_code, which Moses needs.")
    built = subword_nmt(codes, source, target, moses=MosesSettings(*languages, normalize=True))
    built.differences.append(UNKNOWN)
    return built


def saved_tokenizer(files: CTranslate2Files) -> PreTrainedTokenizerBase | None:
    """Loads the tokenizer that our exporter saves beside a model; returns None if there is none.

    Raises:
        ConversionError: it is damaged, or does not match the vocabularies.
    """
    folder = files.folder
    if not all((folder / name).is_file() for name in SAVED):
        return None
    if read_json_object(folder / SAVED[0]).get("tokenizer_class") not in SAVED_CLASSES:
        return None
    try:
        loaded = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # damaged files raise errors of many kinds
        raise ConversionError(f"Cannot read the tokenizer in {folder}: {one_line(error)}") from None
    if wrong := [*unknown(loaded, files.source), *unknown_of_target(loaded, files.target)]:
        raise ConversionError.from_problems(
            f"The tokenizer in {folder} does not match the model (pass --spm or --codes to use another)", wrong, 3
        )
    return loaded


def unknown_of_target(loaded: PreTrainedTokenizerBase, tokens: Sequence[str]) -> list[str]:
    if not isinstance(loaded, VaswaniTokenizer):
        return unknown(loaded, tokens)
    loaded._switch_to_target_mode()
    try:
        return unknown(loaded, tokens)
    finally:
        loaded._switch_to_input_mode()


def unknown(loaded: PreTrainedTokenizerBase, tokens: Sequence[str]) -> list[str]:
    """The tokens that a tokenizer has with other ids than `tokens`. A surface is the spelling of a token in texts."""
    surfaces = set((loaded.init_kwargs.get("surfaces") or {}).values())
    return [
        token
        for token, i in loaded.get_vocab().items()
        if i not in surfaces and (i >= len(tokens) or tokens[i] != token)
    ]
