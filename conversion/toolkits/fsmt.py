"""transformers' FSMT, such as facebook/wmt19-en-de: fairseq's Transformer with fairseq's positions."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from transformers import FSMTForConditionalGeneration, FSMTTokenizer
from transformers import __version__ as transformers_version

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from ..converted import Converted
from ..files.hf_folder import (
    languages,
    load_reference,
    load_tokenizer,
    local_folder,
    origin_facts,
    read_generation,
    read_weights,
    tokens_in_order,
    weight_files,
    with_defaults,
)
from ..files.text import read_json_object
from ..mapping import Table
from ..options import ConversionError, Fields, Options
from ..parity.models import compare_models
from ..parity.scores import Parity
from ..parity.tokenizers import tokenizer_differences
from ..positions import check_computed
from ..segmentation import ConvertedTokenizer, MosesSettings, Vocabulary, subword_nmt
from .fairseq_layers import TRANSFORMERS_OPTIONS, layers


WEIGHTS = Table(
    """
    model.encoder.embed_tokens                       model.encoder.embed_tokens
    model.decoder.embed_tokens                       model.decoder.embed_tokens
    lm_head                                          model.decoder.output_projection
    """
    + layers("model."),
    ignored=[r"model\.(en|de)coder\.embed_positions\.weight"],
)
OPTIONS = Fields(
    """
    vocab_size                  src_vocab_size
    decoder_vocab_size          tgt_vocab_size
    position_divisor            = half_minus_one
    """
    + TRANSFORMERS_OPTIONS
)
OUTPUT, TARGET, SOURCE = (
    f"model.{name}.weight" for name in ("decoder.output_projection", "decoder.embed_tokens", "encoder.embed_tokens")
)
POSITIONS = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]
TOKENIZER = ("vocab-src.json", "vocab-tgt.json", "merges.txt")


def convert(source: Path, unsafe: bool = False) -> Converted:
    """Converts a folder written by `FSMTForConditionalGeneration.save_pretrained` or a repository on the Hub."""
    folder = local_folder(source)
    options = Options(read_json_object(folder / "config.json"), "FSMT")
    tensors = read_weights(folder, unsafe)
    config = read_config(options, tensors)
    check_computed({name: tensors[name] for name in POSITIONS if name in tensors}, config)
    for name in (OUTPUT, SOURCE):  # files, including facebook's, store a tied matrix once
        if TARGET in tensors:
            tensors.setdefault(name, tensors[TARGET])
    facts, tokenizer = origin_facts(source, folder), None
    if original := load_tokenizer(FSMTTokenizer, folder, TOKENIZER):
        tokenizer = read_tokenizer(original, folder, config)
        facts |= languages(original.src_lang, original.tgt_lang)
    defaults = FSMTForConditionalGeneration.config_class().to_dict()  # including those of search
    return Converted.from_checkpoint(
        "transformers' FSMT",
        config,
        WEIGHTS.read(tensors, config),
        read_generation(folder, {**defaults, **options.values}, config),
        tokenizer,
        files=weight_files(folder),
        facts=facts,
    )


def read_config(options: Options, tensors: Mapping[str, torch.Tensor]) -> VaswaniConfig:
    options.only("model_type", "fsmt")
    options.finish()
    hf_options = with_defaults(FSMTForConditionalGeneration.config_class, options)
    pad, tied = hf_options.take("pad_token_id"), hf_options.take("tie_word_embeddings")
    if not isinstance(pad, int):
        hf_options.refuse(f"pad_token_id={pad!r} (supported: an id; positions start after it)")
        hf_options.finish()
    if not tied and SOURCE not in tensors:
        hf_options.refuse("no source embedding, although tie_word_embeddings is off")
    return hf_options.config(
        **OPTIONS.read(hf_options),
        position_offset=pad + 1,
        share_embeddings="all" if tied else "target" if OUTPUT not in tensors else "none",
    )


def read_tokenizer(original: FSMTTokenizer, folder: Path, config: VaswaniConfig) -> ConvertedTokenizer:
    """Converts FSMTTokenizer, Moses with byte-pair codes; unlike it, encodes targets with the target vocabulary.

    Raises:
        ConversionError: the vocabularies do not match the model.
    """
    targets = {token: i for i, token in original.decoder.items()}
    source = vocabulary(original, original.encoder, config.vocab_size)
    target = vocabulary(original, targets, config.decoder_vocab_size)
    moses = MosesSettings(original.src_lang, original.tgt_lang, normalize=True, clean=True, dash_splits=True)
    lowercase = original.do_lower_case
    tokenizer = subword_nmt(folder / "merges.txt", source, target, version="0.2", lowercase=lowercase, moses=moses)
    tokenizer.tokenizer.model_max_length = original.model_max_length
    if lowercase:
        tokenizer.differences.append("Texts are lowercased after Moses' tokenizer, not before it.")
    sides = ((original.encoder, config.vocab_size), (targets, config.decoder_vocab_size))
    pieces = [tokens_in_order(ids, size) for ids, size in sides]
    tokenizer.differences += tokenizer_differences(tokenizer.tokenizer, original, *pieces, spelling)
    return tokenizer


def vocabulary(original: FSMTTokenizer, ids: Mapping[str, int], size: int) -> Vocabulary:
    """Converts the marks: FSMT marks the last piece of a word, `ab</w>`; subword-nmt marks all others, `ab@@`."""
    special = {name: str(getattr(original, name)) for name in ("sep_token", "unk_token", "pad_token", "bos_token")}
    if missing := [token for token in special.values() if token not in ids]:
        raise ConversionError.from_problems("Tokens are missing in a vocabulary", missing)
    renamed = {}
    for token, i in ids.items():
        ends_word = token.endswith("</w>") or token in special.values()
        renamed[token.removesuffix("</w>") if ends_word else f"{token}@@"] = i
    eos, unk, pad, bos = (ids[token] for token in special.values())
    return Vocabulary(tokens_in_order(renamed, size), eos=eos, unk=unk, pad=pad, bos=bos)


def spelling(piece: str) -> str:
    return re.sub("</w>$", " ", piece)


def compare_live(source: Path, converted: Converted, model: VaswaniForConditionalGeneration) -> Parity | None:
    """Compares with transformers' model on random sentences."""
    loaded = load_reference(FSMTForConditionalGeneration, local_folder(source))
    if loaded is None:
        return None
    reference, info = loaded
    if OUTPUT in info["missing_keys"]:  # missing weights were tied; transformers 5 initialises them randomly
        decoder = reference.model.decoder
        decoder.output_projection.weight = decoder.embed_tokens.weight
    return compare_models(model, reference, f"transformers {transformers_version} FSMT")
