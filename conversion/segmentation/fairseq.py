"""fairseq's dictionaries and segmentation, from the checkpoint's options and the files beside it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from vaswani_transformer import VaswaniConfig

from ..files.fairseq import FairseqCheckpoint
from ..files.folders import beside
from ..files.text import read_lines
from ..options import ConversionError, shown
from . import ConvertedTokenizer, MosesSettings, Vocabulary, choose, moses_escapes


SPECIAL = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>"}  # ids 0 to 3; dict.txt starts at 4
# Names of the codes in fairseq's recipes and releases.
CODES = ("bpecodes", "bpe.codes", "bpe-codes", "bpe.32k", "bpe.32000", "code", "codes")
# fairseq's names of the steps of preprocessing.
STEPS = {"tokenizer": (None, "space", "moses"), "bpe": (None, "subword_nmt", "fastbpe", "sentencepiece")}
OVERWRITE = " #fairseq:overwrite"
UNRECORDED = (
    "Input is not tokenized before byte-pair codes, because the checkpoint does not record a tokenizer. If it was "
    "trained on text tokenized by Moses, pass --moses."
)
MOSES_DASH = "@-@"  # how Moses writes dashes inside words if it splits there
SUBWORD_FILES = ("bpe_codes", "sentencepiece_model", "sentencepiece_vocab")


def read_vocabularies(
    folder: Path, languages: tuple[str | None, str | None], config: VaswaniConfig
) -> tuple[Vocabulary, Vocabulary] | None:
    """Reads source and target from `dict.<language>.txt`; returns None if there are no such files.

    Raises:
        ConversionError: a file is damaged or does not match the model's number of tokens.
    """
    dictionaries = sorted(folder.glob("dict*.txt"))
    if not dictionaries:
        return None
    paths = [folder / f"dict.{language}.txt" for language in languages]
    if not all(path.is_file() for path in paths):
        if len(dictionaries) > 1 and config.share_embeddings != "all":
            if None in languages:
                raise ConversionError(
                    f"Cannot tell source from target among dict.*.txt in {folder}. Pass --languages SOURCE TARGET."
                )
            names = " and ".join(path.name for path in paths)
            raise ConversionError(f"Vocabularies missing in {folder}: {names}.")
        paths = [dictionaries[0]] * 2
    sizes = config.vocab_size, config.decoder_vocab_size
    source, target = (read_dictionary(path, size) for path, size in zip(paths, sizes, strict=True))
    return source, target


def read_dictionary(path: Path, size: int) -> Vocabulary:
    lines = read_lines(path)
    rows = [line.removesuffix(OVERWRITE).rsplit(" ", 1) for line in lines]
    if wrong := [number for number, row in enumerate(rows, 1) if len(row) != 2 or not row[1].isdecimal()]:
        raise ConversionError(f"{path} is not a fairseq dictionary: line {wrong[0]} is not a token and a count.")
    known = set(SPECIAL.values())
    for number, (token, _) in enumerate(rows, 1):
        if token in known and not lines[number - 1].endswith(OVERWRITE):
            raise ConversionError(
                f"{path} is not a fairseq dictionary: line {number} repeats {token!r}, which fairseq refuses. Use the "
                "file from training."
            )
        known.add(token)
    tokens = (*SPECIAL.values(), *(token for token, _ in rows))
    if len(tokens) != size:
        raise ConversionError(
            f"{path} does not match the model: with the four special tokens it has {len(tokens)} entries, the model "
            f"has {size}."
        )
    return Vocabulary(tokens, **{name: i for i, name in enumerate(SPECIAL)})


def tokenizer(
    checkpoint: FairseqCheckpoint, folder: Path, vocabularies: tuple[Vocabulary, Vocabulary],
    languages: Sequence[str | None], codes: Path | None, spm: Path | None, moses: bool | None,
) -> ConvertedTokenizer:  # fmt: skip
    """Builds the tokenizer from the given file or the one in `folder`; checkpoints rarely record their segmentation.

    Without a record and without `moses`, a vocabulary with Moses' escapes shows that Moses came before the codes.

    Raises:
        ConversionError: the recorded segmentation is not supported, or a file is damaged.
    """
    settings = {"tokenizer": checkpoint.tokenizer, "bpe": checkpoint.bpe}
    names = {step: values.get("_name", values.get(step)) for step, values in settings.items()}
    if wrong := [
        f"{step}={shown(names[step])} (supported: {', '.join(known[1:])})"
        for step, known in STEPS.items()
        if names[step] not in known
    ]:
        raise ConversionError.from_problems(
            "Unsupported segmentation (remove dict.*.txt to convert the model without a tokenizer)", wrong
        )
    if codes is None and spm is None:
        codes, spm = files_in(folder, names["bpe"], settings["bpe"])
    around, seen = None, []
    if moses is None and names["tokenizer"] is None and codes is not None:
        seen = moses_escapes(*vocabularies)
        if seen:
            splits = any(MOSES_DASH in vocabulary.tokens for vocabulary in vocabularies)
            around = moses_settings({"moses_no_dash_splits": not splits}, languages)
    elif moses or (moses is None and names["tokenizer"] == "moses"):
        around = moses_settings(settings["tokenizer"], languages)
    separator = settings["bpe"].get("bpe_separator")
    made = choose(*vocabularies, codes, spm, separator=separator, moses=around)
    if seen:
        escapes = " and ".join(seen)
        made.differences.append(
            f"Texts are tokenized by Moses: the checkpoint does not record it, but its vocabulary has {escapes}. "
            "--no-moses turns it off."
        )
    elif codes and moses is None and names["tokenizer"] is None:
        made.differences.append(UNRECORDED)
    return made


def moses_settings(recorded: Mapping, languages: Sequence[str | None]) -> MosesSettings:
    source, target = (
        language or recorded.get(f"{side}_lang") or recorded.get(f"moses_{side}_lang")
        for side, language in zip(("source", "target"), languages, strict=True)
    )
    if source is None or target is None:
        raise ConversionError(
            "Moses needs the languages, which this checkpoint does not record. Pass --languages SOURCE TARGET."
        )
    dash_splits, escape = (not recorded.get(f"moses_no_{name}") for name in ("dash_splits", "escape"))
    return MosesSettings(source, target, dash_splits=dash_splits, escape=escape)


def files_in(folder: Path, kind: str | None, recorded: Mapping) -> tuple[Path | None, Path | None]:
    """Finds the codes, else the SentencePiece model, in `folder`, by the recorded name or a common one."""
    named = [beside(folder, recorded.get(key)) for key in SUBWORD_FILES]
    named = [path for path in named if path is not None]
    codes = named or [folder / name for name in CODES if (folder / name).is_file()]
    if codes and kind != "sentencepiece":
        return codes[0], None
    models = sorted(folder.glob("*.model"))
    models = named or (models if len(models) == 1 else [])
    return None, models[0] if models and kind in (None, "sentencepiece") else None
