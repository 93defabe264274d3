"""Converts a tokenizer of SentencePiece unigram models to a MarianTokenizer."""

import base64
import json
import tempfile
from pathlib import Path

from tokenizers import Tokenizer
from transformers import MarianTokenizer, PreTrainedTokenizerBase
from transformers.utils import is_sentencepiece_available

from ..parity.tokenizers import tokenizer_differences
from ..segmentation import SPACE
from ..toolkits.hf_marian import spelling


def write_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> bool:
    """Writes a MarianTokenizer; returns False and writes nothing if it cannot represent the tokenizer."""
    if not is_sentencepiece_available():
        return False
    settings = tokenizer.init_kwargs
    source = getattr(tokenizer, "_source_side", None) or tokenizer.backend_tokenizer
    target = getattr(tokenizer, "_target_side", None) or source
    models = [sentencepiece_model(side) for side in (source, target)]
    if None in models or any(name.startswith("moses") or name == "escape" for name in settings):
        return False
    ids = [
        known_ids(side, settings.get(f"{prefix}known_tokens")) for side, prefix in ((source, ""), (target, "target_"))
    ]
    if not {tokenizer.eos_token, tokenizer.unk_token, tokenizer.pad_token} <= ids[0].keys() & ids[1].keys():
        return False
    with tempfile.TemporaryDirectory() as place:
        files = {name: Path(place) / name for name in ("source.spm", "target.spm", "vocab.json", "target_vocab.json")}
        for (name, file), content in zip(files.items(), (*models, *map(json.dumps, ids)), strict=True):
            file.write_bytes(content if name.endswith(".spm") else content.encode())
        written = MarianTokenizer(
            *list(map(str, files.values())),
            separate_vocabs=ids[0] != ids[1],
            eos_token=tokenizer.eos_token,
            unk_token=tokenizer.unk_token,
            pad_token=tokenizer.pad_token,
            model_max_length=tokenizer.model_max_length,
        )
        if tokenizer_differences(tokenizer, written, *map(list, ids), spelling):
            return False
        written.save_pretrained(folder)
    return True


def known_ids(side: Tokenizer, known: int | None) -> dict[str, int]:
    """Returns the ids that the model knows. Tokens that are not pieces start with a space; see `segmentation`."""
    ids = sorted(side.get_vocab().items(), key=lambda item: item[1])
    return {token.removeprefix(" "): i for token, i in ids if known is None or i < known}


def sentencepiece_model(side: Tokenizer) -> bytes | None:
    """Returns the SentencePiece unigram model of a side; None if it is of another kind."""
    from sentencepiece import sentencepiece_model_pb2

    settings = json.loads(side.to_str())
    model, normalizer = settings["model"], settings["normalizer"] or {}
    if model["type"] != "Unigram" or model["byte_fallback"] or side.normalizer is None:
        return None
    special = {token["content"] for token in settings["added_tokens"]}
    proto = sentencepiece_model_pb2.ModelProto()
    proto.pieces.add(piece="<unk>", score=0, type=sentencepiece_model_pb2.ModelProto.SentencePiece.UNKNOWN)
    for piece, score in model["vocab"]:
        if piece not in special and not piece.startswith(" "):
            proto.pieces.add(piece=piece, score=score)
    for step in normalizer.get("normalizers", [normalizer]):
        if step["type"] == "Precompiled":
            proto.normalizer_spec.precompiled_charsmap = base64.b64decode(step["precompiled_charsmap"])
    spaced = side.normalizer.normalize_str("a  a")
    if side.pre_tokenizer is not None:  # it may write the prefix
        spaced = "".join(piece for piece, _ in side.pre_tokenizer.pre_tokenize_str(spaced))
    proto.normalizer_spec.add_dummy_prefix = spaced.startswith(SPACE)
    proto.normalizer_spec.remove_extra_whitespaces = 2 * SPACE not in spaced
    proto.normalizer_spec.escape_whitespaces = SPACE in spaced
    proto.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.UNIGRAM
    return proto.SerializeToString()
