"""Every public name of the library in use, with the types that it promises: for the type checker (`make types`)."""

from typing import Any, assert_type

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from vaswani_transformer import (
    PRESETS,
    Inspection,
    LoadingError,
    TranslationPipeline,
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    VaswaniModel,
    VaswaniPreTrainedModel,
    VaswaniTokenizer,
    __version__,
    attention_figure,
    checkpoint_path,
    inspect_translation,
    learn_tokenizer,
    load,
    translate_texts,
    without_heads,
)


def build() -> VaswaniPreTrainedModel:
    config = VaswaniConfig.from_preset("base", encoder_layers=2, vocab_size=8000)
    assert_type(config, VaswaniConfig)
    assert_type(config.d_model, int)
    assert config.d_model == PRESETS["base"]["d_model"]
    model = VaswaniForConditionalGeneration(config)
    assert isinstance(model.model, VaswaniModel)
    return model


def translate(texts: list[str]) -> list[str]:
    assert_type(checkpoint_path("mini-en-de"), str)
    try:
        model, tokenizer = load(checkpoint_path("mini-en-de"))
    except LoadingError as error:
        return [str(error), __version__]
    assert_type(model, PreTrainedModel)
    assert_type(tokenizer, PreTrainedTokenizerBase)
    assert_type(translate_texts(model, tokenizer, texts, batch_size=8, progress=print), list[str])
    pipeline = TranslationPipeline(model=model, tokenizer=tokenizer)
    assert_type(pipeline.translate(texts, 8, num_return_sequences=2), list[list[dict[str, Any]]])
    return [records[0]["translation_text"] for records in pipeline.translate(texts)]


def tokenize(texts: list[str]) -> list[PreTrainedTokenizerFast]:
    learned = learn_tokenizer(texts, vocab_size=400)
    assert_type(learned, PreTrainedTokenizerFast)
    return [learned, VaswaniTokenizer.from_sides(learned.backend_tokenizer)]


def look(text: str) -> str:
    model, tokenizer = load(checkpoint_path("mini-en-de"))
    with without_heads(model, [("encoder", "self_attn", 0, 3)]):
        inspection = inspect_translation(model, tokenizer, text, num_beams=2)
    assert_type(inspection, Inspection)
    assert_type(inspection.tensors, dict[str, torch.Tensor])
    assert_type(inspection.source[0].text, str)
    return attention_figure(inspection, stack="decoder", kind="cross_attn", layer=-1, heads=[0], words=["und"])
