"""OpenNMT-py's segmentation: the transforms recorded in a checkpoint."""

from pathlib import Path

from ..files.folders import beside
from ..files.opennmt import BOS, EOS, PAD, UNK
from ..options import ConversionError, Options, shown
from . import ConvertedTokenizer, Vocabulary, choose


SPECIAL = {"unk": UNK, "pad": PAD, "bos": BOS, "eos": EOS}
# Transforms that segment texts, with the advice if their files are missing.
SEGMENTERS = {
    "bpe": "Pass --codes FILE, the codes of its transform bpe, to include the segmentation.",
    "sentencepiece": "Pass --spm FILE, the model of its transform sentencepiece, to include the segmentation.",
    "onmt_tokenize": "Its transform onmt_tokenize uses pyonmttok, which cannot be converted.",
}
TRAINING_ONLY = (
    "filtertoolong", "filterfeats", "switchout", "tokendrop", "tokenmask", "bart", "clean",
    "insert_mask_before_placeholder",
)  # fmt: skip


def transforms(options: Options) -> list[str]:
    """The transforms applied in training, of all corpora. In version 2 users apply them themselves."""
    names = options.take("transforms", [])
    if not isinstance(names, list | tuple):
        raise ConversionError(f"transforms is not a list: {shown(names)}.")
    names = list(map(str, names))
    corpora = options.take("data", {})
    for corpus in corpora.values() if isinstance(corpora, dict) else []:
        recorded = corpus.get("transforms") if isinstance(corpus, dict) else None
        names += map(str, recorded if isinstance(recorded, list | tuple) else [])
    return list(dict.fromkeys(names))


def tokenizer(
    folder: Path, options: Options, source: list[str], target: list[str], codes: Path | None, spm: Path | None
) -> ConvertedTokenizer:
    """Builds the tokenizer from `codes` or `spm`, else the recorded subword models, if they are in `folder`."""
    sides = vocabularies(source, target)
    if sides is None:
        return ConvertedTokenizer(None, ["none, because the special tokens of source and target differ."])
    names = transforms(options)
    tool = next((name for name in names if name in SEGMENTERS), None)
    if codes is None and spm is None:
        models = subword_models(folder, options)
        codes, spm = (models if tool == kind else None for kind in ("bpe", "sentencepiece"))
    restricted = any(options.take(f"{side}_vocab_threshold", 0) not in (0, -1) for side in ("src", "tgt"))
    tokenizer = choose(*sides, codes, spm, only_in_vocabulary=restricted, advice=SEGMENTERS.get(tool))
    if tool and codes is None and spm is None and not tokenizer.differences:
        tokenizer.differences.append(f"Input must already be segmented. {SEGMENTERS[tool]}")
    if restricted:
        tokenizer.differences.append("Pieces are limited to the model's vocabulary, not to the file used in training.")
    if unsupported := [name for name in names if name not in SEGMENTERS and name not in TRAINING_ONLY]:
        tokenizer.differences.append(
            f"Training also applied {', '.join(unsupported)} to texts; this tokenizer does not."
        )
    return tokenizer


def vocabularies(source: list[str], target: list[str]) -> tuple[Vocabulary, Vocabulary] | None:
    """Source and target vocabulary; None if their special tokens have different ids."""
    special = {name: target.index(token) for name, token in SPECIAL.items() if token in target}
    source_special = {name: source.index(token) for name, token in SPECIAL.items() if token in source}
    if "eos" not in source_special:  # version 2 with two vocabularies
        shared = {name: i for name, i in source_special.items() if special.get(name) == i}
        source_special = {"eos": None} | shared
    elif source_special != special:
        return None
    return Vocabulary(source, **source_special, after=()), Vocabulary(target, **special)


def subword_models(folder: Path, options: Options) -> tuple[Path, Path] | None:
    recorded = [options.take(f"{side}_subword_model") for side in ("src", "tgt")]
    source, target = (beside(folder, name) for name in (recorded[0], recorded[1] or recorded[0]))
    return (source, target) if source is not None and target is not None else None
