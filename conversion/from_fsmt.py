"""transformers' FSMT, such as facebook/wmt19-en-de: fairseq's Transformer with fairseq's positions."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from transformers import FSMTForConditionalGeneration, FSMTTokenizer
from transformers import __version__ as transformers_version

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from .core import ConversionError, Converted, Options
from .from_hf_marian import check_positions, compare_models, read_generation
from .mapping import Table
from .reading import read_json
from .segmentation import Moses, Segmentation, Vocabulary, subword_nmt
from .transformers_folder import (
    LAYERS,
    facts_of,
    folder_of,
    languages,
    load_reference,
    load_tokenizer,
    own_config,
    read_weights,
    tokenizer_differences,
    tokens_in_order,
)
from .verify import Parity


TABLE = Table(
    """
    model.encoder.embed_tokens                       model.encoder.embed_tokens
    model.decoder.embed_tokens                       model.decoder.embed_tokens
    lm_head                                          model.decoder.output_projection
    """
    + LAYERS,
    ignored=[r"model\.(en|de)coder\.embed_positions\.weight"],
)
OUTPUT, TARGET, SOURCE = (
    f"model.{name}.weight" for name in ("decoder.output_projection", "decoder.embed_tokens", "encoder.embed_tokens")
)
TOKENIZER = ("vocab-src.json", "vocab-tgt.json", "merges.txt")


def convert(source: Path, unsafe: bool = False) -> Converted:
    """A folder of `FSMTForConditionalGeneration.save_pretrained`, or the id of a repository; its tokenizer comes along.

    Raises:
        ConversionError: it is no such model, is damaged, or uses what is not supported.
        FileNotFoundError: files are missing.
    """
    folder = folder_of(source)
    options = Options(read_json(folder / "config.json"), "FSMT")
    tensors = read_weights(folder, unsafe)
    config = read_config(options, tensors)
    check_positions(tensors, config, first=config.position_offset)  # the row of padding is zero
    for name in (OUTPUT, SOURCE):  # files keep a tied matrix once, facebook's among them
        if name in tensors or TARGET in tensors:
            tensors.setdefault(name, tensors.get(TARGET))
    facts = facts_of(source, folder)
    made = None
    if theirs := load_tokenizer(FSMTTokenizer, folder, TOKENIZER):
        made = read_tokenizer(theirs, folder, config)
        facts |= languages(theirs.src_lang, theirs.tgt_lang) | {"tokenizer_differences": made.differences}
    defaults = FSMTForConditionalGeneration.config_class().to_dict()  # of search, too
    return Converted(
        toolkit="transformers' FSMT",
        config=config,
        weights=TABLE.read(tensors, config),
        generation=read_generation(folder, {**defaults, **options.values}, config),
        tokenizer=made and made.tokenizer,
        facts=facts,
    )


def read_config(options: Options, tensors: Mapping[str, torch.Tensor]) -> VaswaniConfig:
    options.only("model_type", "fsmt")
    options.finish()
    take = own_config(FSMTForConditionalGeneration.config_class, options)
    if take.pad_token_id is None:
        options.refuse("no pad_token_id, which the positions begin after")
    tied = take.tie_word_embeddings
    if not tied and SOURCE not in tensors:
        options.refuse("no embedding of the source, while tie_word_embeddings is off")
    return options.config(
        vocab_size=take.src_vocab_size,
        decoder_vocab_size=take.tgt_vocab_size,
        d_model=take.d_model,
        d_ff=take.encoder_ffn_dim,
        decoder_d_ff=take.decoder_ffn_dim,
        encoder_layers=take.encoder_layers,
        decoder_layers=take.decoder_layers,
        encoder_attention_heads=take.encoder_attention_heads,
        decoder_attention_heads=take.decoder_attention_heads,
        dropout=take.dropout,
        attention_dropout=take.attention_dropout,
        activation_dropout=take.activation_dropout,
        activation_function=take.activation_function,
        norm_position="post",
        final_norm=False,
        layer_norm_eps=1e-5,
        position_layout="concatenated",
        position_divisor="half_minus_one",
        position_offset=(take.pad_token_id or 0) + 1,
        attention_bias=True,
        scale_embedding=take.scale_embedding,
        share_embeddings="all" if tied else "target" if OUTPUT not in tensors else "none",
        zero_pad_embedding=False,  # its row is a zero vector or not, as it was trained
        label_smoothing_type="uniform",
        pad_token_id=take.pad_token_id,
        eos_token_id=take.eos_token_id,
        bos_token_id=take.bos_token_id,
        decoder_start_token_id=take.decoder_start_token_id,
    )


def read_tokenizer(theirs: FSMTTokenizer, folder: Path, config: VaswaniConfig) -> Segmentation:
    """What FSMTTokenizer does: Moses' tokenizer, then byte-pair codes. Targets are encoded with their own vocabulary,
    which FSMTTokenizer does not do.

    Raises:
        ConversionError: the vocabularies are not this model's.
    """
    targets = {token: i for i, token in theirs.decoder.items()}
    source = vocabulary(theirs, theirs.encoder, config.vocab_size)
    target = vocabulary(theirs, targets, config.decoder_vocab_size)
    moses = Moses(theirs.src_lang, theirs.tgt_lang, normalize=True, clean=True, dash_splits=True)
    made = subword_nmt(
        folder / "merges.txt", source, target, version="0.2", lowercase=theirs.do_lower_case, moses=moses
    )
    made.tokenizer.model_max_length = theirs.model_max_length
    if theirs.do_lower_case:
        made.differences.append("Texts are lowered after Moses' tokenizer, not before it.")
    pieces = tokens_in_order(theirs.encoder, config.vocab_size), tokens_in_order(targets, config.decoder_vocab_size)
    made.differences += tokenizer_differences(made.tokenizer, theirs, *pieces, spelt)
    return made


def vocabulary(theirs: FSMTTokenizer, ids: Mapping[str, int], size: int) -> Vocabulary:
    """Under subword-nmt's names: here the last piece of a word is marked, `ab</w>`, there all others are, `ab@@`."""
    special = {name: str(getattr(theirs, name)) for name in ("sep_token", "unk_token", "pad_token", "bos_token")}
    if missing := [token for token in special.values() if token not in ids]:
        raise ConversionError.of("A vocabulary lacks tokens", missing)
    renamed = {}
    for token, i in ids.items():
        ends_word = token.endswith("</w>") or token in special.values()
        renamed[token.removesuffix("</w>") if ends_word else f"{token}@@"] = i
    eos, unk, pad, bos = (ids[token] for token in special.values())
    return Vocabulary(tokens_in_order(renamed, size), eos=eos, unk=unk, pad=pad, bos=bos)


def spelt(piece: str) -> str:
    return re.sub("</w>$", " ", piece)


def compare_live(source: Path, converted: Converted, model: VaswaniForConditionalGeneration) -> Parity | None:
    """Against transformers' own model, for random sentences."""
    loaded = load_reference(FSMTForConditionalGeneration, folder_of(source))
    if loaded is None:
        return None
    reference, info = loaded
    if OUTPUT in info["missing_keys"]:  # transformers 5 leaves it random; what is missing was tied
        decoder = reference.model.decoder
        decoder.output_projection.weight = decoder.embed_tokens.weight
    return compare_models(model, reference, f"transformers {transformers_version} FSMT")
