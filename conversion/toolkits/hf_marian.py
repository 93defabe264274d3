"""transformers' MarianMTModel, such as Helsinki-NLP's models on the Hugging Face Hub.

The result computes what transformers computes, which differs from Marian: position frequencies are 10000^(-i / (d/2)),
and LayerNorm's eps is 1e-5. The converter `marian` keeps Marian's values.

Search follows the folder's settings. As set by `bad_words_ids` and `renormalize_logits` in models on the Hub, padding
is never generated, and its probability goes to the other tokens.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import Regex, decoders
from transformers import MarianMTModel, MarianTokenizer
from transformers import __version__ as transformers_version

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from ..converted import Converted
from ..files.folders import pair
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
from ..options import ConversionError, Fields, Options, sharing, shown
from ..parity.models import compare_models
from ..parity.scores import Parity
from ..parity.tokenizers import tokenizer_differences
from ..positions import check_computed
from ..segmentation import SPACE, ConvertedTokenizer, Vocabulary, sentencepiece
from .fairseq_layers import TRANSFORMERS_OPTIONS, layers


POSITIONS = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]

WEIGHTS = Table(
    """
    model.encoder.embed_tokens                       model.encoder.embed_tokens
    model.decoder.embed_tokens                       model.decoder.embed_tokens
    lm_head.weight                                   lm_head.weight
    lm_head.bias                                     final_logits_bias
    """
    + layers("model."),
    ignored=[r"model\.shared\.weight", *POSITIONS],
)
OPTIONS = Fields(
    """
    vocab_size                  vocab_size
    position_divisor            = half
    softmax_bias                = True
    """
    + TRANSFORMERS_OPTIONS
)
# Options of old versions that change the model. (`extra_pos_embeddings`, also set in old files, has no effect on
# Marian's positions.)
MUST_BE_OFF = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
TOKENIZER = ("source.spm", "target.spm", "vocab.json")


def convert(source: Path, unsafe: bool = False) -> Converted:
    """Converts a folder written by `MarianMTModel.save_pretrained` or a repository on the Hub."""
    folder = local_folder(source)
    values = read_json_object(folder / "config.json")
    config = read_config(Options(values, "MarianMTModel"))
    tensors = untied(read_weights(folder, unsafe), config)
    check_computed({name: tensors[name] for name in POSITIONS if name in tensors}, config)
    facts, tokenizer = origin_facts(source, folder), None
    if original := load_tokenizer(MarianTokenizer, folder, TOKENIZER):
        tokenizer = read_tokenizer(original, folder, config)
        facts |= languages(original.source_lang, original.target_lang)
    return Converted.from_checkpoint(
        "transformers' Marian",
        config,
        WEIGHTS.read(tensors, config),
        read_generation(folder, values, config),
        tokenizer,
        files=weight_files(folder),
        facts=facts,
    )


def read_config(options: Options) -> VaswaniConfig:
    options.only("model_type", "marian")
    architectures = options.take("architectures", ["MarianMTModel"])
    if not isinstance(architectures, list) or "MarianMTModel" not in architectures:
        options.refuse(f"architectures={shown(architectures)} (supported: MarianMTModel)")
    options.off(*MUST_BE_OFF)
    options.only("static_position_embeddings", True, default=True)
    options.finish()
    hf_options = with_defaults(MarianMTModel.config_class, options)
    shared, tied = hf_options.take("share_encoder_decoder_embeddings"), hf_options.take("tie_word_embeddings")
    return hf_options.config(
        **OPTIONS.read(hf_options),
        decoder_vocab_size=hf_options.take("vocab_size" if shared else "decoder_vocab_size"),
        share_embeddings=sharing(tied and shared, tied),
    )


def untied(tensors: Mapping[str, torch.Tensor], config: VaswaniConfig) -> dict[str, torch.Tensor]:
    """Returns the tensors, with a shared matrix under each of its names; files store it at least once."""
    tensors = dict(tensors)
    users = ["lm_head.weight", "model.decoder.embed_tokens.weight", "model.encoder.embed_tokens.weight"]
    users = {"all": ["model.shared.weight", *users], "target": users[:2], "none": []}[config.share_embeddings]
    if stored := [tensors[name] for name in users if name in tensors]:
        for name in users:
            tensors.setdefault(name, stored[0])
    if "model.shared.weight" in tensors:  # only source and target may share it
        for stack in ("encoder", "decoder"):
            tensors.setdefault(f"model.{stack}.embed_tokens.weight", tensors["model.shared.weight"])
    if "final_logits_bias" not in tensors:
        tensors["final_logits_bias"] = torch.zeros(1, config.decoder_vocab_size)
    return tensors


def read_tokenizer(original: MarianTokenizer, folder: Path, config: VaswaniConfig) -> ConvertedTokenizer:
    """Converts MarianTokenizer, with the files in `folder`.

    Raises:
        ConversionError: the vocabulary does not match the model, or a SentencePiece model is damaged.
    """
    source = vocabulary(original, original.encoder, config.vocab_size)
    separate = original.target_encoder if original.separate_vocabs else original.encoder
    target = vocabulary(original, separate, config.decoder_vocab_size)
    tokenizer = sentencepiece(pair(folder / "source.spm", folder / "target.spm"), source, target)
    side = getattr(tokenizer.tokenizer, "_target_side", None) or tokenizer.tokenizer.backend_tokenizer
    side.decoder = decoders.Sequence([side.decoder, decoders.Replace(Regex(r" +\z"), "")])
    tokenizer.tokenizer.model_max_length = original.model_max_length
    tokenizer.tokenizer.clean_up_tokenization_spaces = original.clean_up_tokenization_spaces
    pieces = source.tokens, target.tokens
    tokenizer.differences += tokenizer_differences(tokenizer.tokenizer, original, *pieces, spelling)
    tokenizer.differences.append(
        f"A special token spelled out in a text, such as {original.eos_token}, is treated as text."
    )
    if codes := [token for token in source.tokens if token.startswith(">>") and token.endswith("<<")]:
        tokenizer.differences.append(
            f"A language code, such as {codes[0]}, is recognised anywhere in a text, not only at its beginning; codes "
            "outside the vocabulary are split into pieces instead of becoming an unknown token."
        )
    return tokenizer


def vocabulary(original: MarianTokenizer, ids: Mapping[str, int], size: int) -> Vocabulary:
    tokens = tokens_in_order(ids, size)
    special = (original.eos_token, original.unk_token, original.pad_token)
    eos, unk, pad = (ids.get(str(token)) for token in special)
    if eos is None:
        raise ConversionError(f"{original.eos_token} is missing in the vocabulary.")
    return Vocabulary(tokens, eos=eos, unk=unk, pad=pad)


def spelling(piece: str) -> str:
    return piece.replace(SPACE, " ")


def compare_live(source: Path, converted: Converted, model: VaswaniForConditionalGeneration) -> Parity | None:
    """Compares with transformers' model on random sentences."""
    loaded = load_reference(MarianMTModel, local_folder(source))
    if loaded is None:
        return None
    reference, _ = loaded
    for stack in (reference.model.encoder, reference.model.decoder):  # old files store positions in half precision
        stack.embed_positions.weight.data = stack.embed_positions.create_weight()
    return compare_models(model, reference, f"transformers {transformers_version} MarianMTModel")
