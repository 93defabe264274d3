"""transformers' MarianMTModel, such as Helsinki-NLP's models on the Hugging Face Hub.

It is the model that transformers runs, not the one that Marian trained: position frequencies are 10000^(-i / (d/2)),
and LayerNorm's eps is 1e-5. `from_marian` keeps Marian's own.

Search is as the folder's settings say. Padding is never produced, and its probability goes to the other tokens: that is
what `bad_words_ids` and `renormalize_logits` are for in the settings of the models on the Hub.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, decoders
from transformers import GenerationConfig, MarianMTModel, MarianTokenizer
from transformers import __version__ as transformers_version

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.modeling_vaswani import sinusoidal_positions

from .core import ConversionError, Converted, Options
from .exporting import padded, sample_ids
from .mapping import Table
from .marian_files import pair
from .reading import read_json
from .segmentation import SPACE, Segmentation, Vocabulary, sentencepiece
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
from .verify import Parity, compare, without_end


POSITIONS = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]

TABLE = Table(
    """
    model.encoder.embed_tokens                       model.encoder.embed_tokens
    model.decoder.embed_tokens                       model.decoder.embed_tokens
    lm_head.weight                                   lm_head.weight
    lm_head.bias                                     final_logits_bias
    """
    + LAYERS,
    ignored=[r"model\.shared\.weight", *map(str, POSITIONS)],
)

# Old versions knew them, and were other models with them. (`extra_pos_embeddings`, which is set in old files too, never
# mattered to Marian's positions.)
MUST_BE_OFF = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
# What older files say of search in config.json, newer ones in generation_config.json.
SEARCH = (
    "num_beams", "max_length", "min_length", "length_penalty", "early_stopping", "no_repeat_ngram_size",
    "repetition_penalty", "bad_words_ids", "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens",
    "begin_suppress_tokens", "encoder_no_repeat_ngram_size", "num_beam_groups", "diversity_penalty",
    "renormalize_logits", "do_sample",
)  # fmt: skip
HALF_PRECISION = 1e-3
TOKENIZER = ("source.spm", "target.spm", "vocab.json")


def convert(source: Path, unsafe: bool = False) -> Converted:
    """A folder of `MarianMTModel.save_pretrained`, or the id of a repository; its tokenizer comes along.

    Raises:
        ConversionError: it is no such model, is damaged, or uses what is not supported.
        FileNotFoundError: files are missing.
    """
    folder = folder_of(source)
    values = read_json(folder / "config.json")
    config = read_config(Options(values, "MarianMTModel"))
    tensors = untied(read_weights(folder, unsafe), config)
    check_positions(tensors, config)
    facts = facts_of(source, folder)
    made = None
    if theirs := load_tokenizer(MarianTokenizer, folder, TOKENIZER):
        made = read_tokenizer(theirs, folder, config)
        facts |= languages(theirs.source_lang, theirs.target_lang) | {"tokenizer_differences": made.differences}
    return Converted(
        toolkit="transformers' Marian",
        config=config,
        weights=TABLE.read(tensors, config),
        generation=read_generation(folder, values, config),
        tokenizer=made and made.tokenizer,
        facts=facts,
    )


def read_config(options: Options) -> VaswaniConfig:
    options.only("model_type", "marian")
    architectures = options.take("architectures", ["MarianMTModel"])
    if not isinstance(architectures, list) or "MarianMTModel" not in architectures:
        options.refuse(f"architectures={architectures!r} (supported: MarianMTModel)")
    options.off(*MUST_BE_OFF)
    options.only("static_position_embeddings", True, default=True)
    options.finish()
    take = own_config(MarianMTModel.config_class, options)
    shared = take.share_encoder_decoder_embeddings
    return options.config(
        vocab_size=take.vocab_size,
        decoder_vocab_size=take.vocab_size if shared else take.decoder_vocab_size,
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
        position_divisor="half",
        attention_bias=True,
        softmax_bias=True,
        scale_embedding=take.scale_embedding,
        share_embeddings="none" if not take.tie_word_embeddings else "all" if shared else "target",
        zero_pad_embedding=False,  # its row is a zero vector or not, as it was trained
        label_smoothing_type="uniform",
        pad_token_id=take.pad_token_id,
        eos_token_id=take.eos_token_id,
        bos_token_id=take.bos_token_id,
        decoder_start_token_id=take.decoder_start_token_id,
    )


def untied(tensors: Mapping[str, torch.Tensor], config: VaswaniConfig) -> dict[str, torch.Tensor]:
    """The tensors with each matrix under the names of all its users; files name a shared one once or more."""
    tensors = dict(tensors)
    users = ["lm_head.weight", "model.decoder.embed_tokens.weight", "model.encoder.embed_tokens.weight"]
    users = {"all": ["model.shared.weight", *users], "target": users[:2], "none": []}[config.share_embeddings]
    if found := [tensors[name] for name in users if name in tensors]:
        for name in users:
            tensors.setdefault(name, found[0])
    if "model.shared.weight" in tensors:  # source and target alone may share it
        for stack in ("encoder", "decoder"):
            tensors.setdefault(f"model.{stack}.embed_tokens.weight", tensors["model.shared.weight"])
    if "final_logits_bias" not in tensors:
        tensors["final_logits_bias"] = torch.zeros(1, config.decoder_vocab_size)
    return tensors


def check_positions(tensors: Mapping[str, torch.Tensor], config: VaswaniConfig, first: int = 0):
    """Positions from `first` on.

    Raises:
        ConversionError: the file holds a table of positions which is not the one that is computed.
    """
    for name in POSITIONS:
        table = tensors.get(name)
        if table is None:
            continue
        fits = table.dim() == 2 and table.shape[1] == config.d_model and len(table) > first
        computed = sinusoidal_positions(torch.arange(len(table)), config) if fits else None
        if not fits or (table.float() - computed)[first:].abs().max() > HALF_PRECISION:
            raise ConversionError(f"{name} holds other positions than transformers computes: they are not supported.")


def read_generation(folder: Path, values: Mapping[str, Any], config: VaswaniConfig) -> GenerationConfig:
    """The model's own settings of search, which rank by log P / length^alpha.

    Raises:
        ConversionError: they are no settings.
    """
    file = folder / "generation_config.json"
    said = read_json(file) if file.is_file() else {name: values[name] for name in SEARCH if name in values}
    said = {name: value for name, value in said.items() if value is not None and not name.startswith("_")}
    said.pop("transformers_version", None)
    ids = {name: getattr(config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    defaults = dict(length_penalty=1.0, early_stopping=False, num_beams=1)
    if said.get("num_beams", 1) == 1:  # settings of beam search cannot be saved without beams
        said = {name: value for name, value in said.items() if name not in defaults}
    try:
        return GenerationConfig(**{**defaults, **said, **ids, "length_penalty_offset": 0})
    except (TypeError, ValueError) as error:
        raise ConversionError(f"The settings of search cannot be: {error}") from None


def read_tokenizer(theirs: MarianTokenizer, folder: Path, config: VaswaniConfig) -> Segmentation:
    """What MarianTokenizer does, with the files of `folder`.

    Raises:
        ConversionError: the vocabulary is not this model's, or a SentencePiece model is damaged.
    """
    source = vocabulary(theirs, theirs.encoder, config.vocab_size)
    separate = theirs.target_encoder if theirs.separate_vocabs else theirs.encoder
    target = vocabulary(theirs, separate, config.decoder_vocab_size)
    made = sentencepiece(pair(folder / "source.spm", folder / "target.spm"), source, target)
    side = getattr(made.tokenizer, "_target_side", None) or made.tokenizer.backend_tokenizer
    side.decoder = decoders.Sequence([side.decoder, decoders.Replace(Regex(r" +\z"), "")])
    made.tokenizer.model_max_length = theirs.model_max_length
    made.tokenizer.clean_up_tokenization_spaces = theirs.clean_up_tokenization_spaces
    made.differences += tokenizer_differences(made.tokenizer, theirs, source.tokens, target.tokens, spelt)
    made.differences.append(f"Texts that spell a special token, such as {theirs.eos_token}, are text here.")
    if codes := [token for token in source.tokens if token.startswith(">>") and token.endswith("<<")]:
        made.differences.append(
            f"A language's code, such as {codes[0]}, is one wherever it stands in a text, not at the beginning alone; "
            "codes that the vocabulary lacks are cut into pieces, not read as an unknown token."
        )
    return made


def vocabulary(theirs: MarianTokenizer, ids: Mapping[str, int], size: int) -> Vocabulary:
    tokens = tokens_in_order(ids, size)
    eos, unk, pad = (ids.get(str(token)) for token in (theirs.eos_token, theirs.unk_token, theirs.pad_token))
    if eos is None:
        raise ConversionError(f"The vocabulary has no {theirs.eos_token}.")
    return Vocabulary(tokens, eos=eos, unk=unk, pad=pad)


def spelt(piece: str) -> str:
    return piece.replace(SPACE, " ")


def compare_live(source: Path, converted: Converted, model: VaswaniForConditionalGeneration) -> Parity | None:
    """Against transformers' own model, for random sentences."""
    loaded = load_reference(MarianMTModel, folder_of(source))
    if loaded is None:
        return None
    reference, _ = loaded
    for stack in (reference.model.encoder, reference.model.decoder):  # older files hold them in half precision
        stack.embed_positions.weight.data = stack.embed_positions.create_weight()
    return compare_models(model, reference, f"transformers {transformers_version} MarianMTModel")


@torch.no_grad()
def compare_models(model: VaswaniForConditionalGeneration, reference: torch.nn.Module, against: str) -> Parity:
    """Against a model of transformers with the same ids: logits, and what a search with 4 beams finds."""
    config = model.config
    longest = min(reference.config.max_position_embeddings, 24) - 2
    lengths = tuple(max(1, longest // n) for n in (1, 2, 3, 5))
    source, mask = padded(sample_ids(config, lengths, config.vocab_size), config.pad_token_id)
    target, target_mask = padded(sample_ids(config, lengths[::-1], config.decoder_vocab_size), config.pad_token_id)
    start = torch.full((len(target), 1), config.decoder_start_token_id)
    inputs = {
        "input_ids": source,
        "attention_mask": mask,
        "decoder_input_ids": torch.cat((start, target[:, :-1]), dim=1),
        "decoder_attention_mask": target_mask,
    }
    logits = reference(**{k: v for k, v in inputs.items() if k != "decoder_attention_mask"}, use_cache=False).logits
    parity = compare(model, inputs, logits, against)
    found, expected = searches(model, reference, source, mask, min(longest, 16))
    agree = sum(without_end(a[1:], model) == without_end(b[1:], model) for a, b in zip(found, expected, strict=True))
    return replace(parity, translations=len(expected), translations_agree=agree)


def searches(
    model: VaswaniForConditionalGeneration, reference: torch.nn.Module, source: torch.Tensor, mask: torch.Tensor,
    length: int,
) -> Sequence[list[list[int]]]:  # fmt: skip
    """What both find with 4 beams for `source` [N, S], padding excluded."""
    config = model.config
    settings = GenerationConfig(
        num_beams=4,
        max_length=length + 1,
        length_penalty=1.0,
        length_penalty_offset=0,
        early_stopping=False,
        do_sample=False,
        bad_words_ids=[[config.pad_token_id]],
        renormalize_logits=True,
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )
    return [m.generate(source, attention_mask=mask, generation_config=settings).tolist() for m in (model, reference)]
