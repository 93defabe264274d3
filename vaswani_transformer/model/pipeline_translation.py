"""`pipeline("translation", ...)`, a task that transformers 5 no longer has, and the function that translates lists.

A saved pipeline's folder carries a copy of this file and of those that it imports. Its config.json names the pipeline,
so that `pipeline` finds it there. A model that is saved without its pipeline has neither.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from os import PathLike
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel, PreTrainedTokenizerBase

from .confidence_vaswani import Calibration, confidences, is_calibrated, least_certain_word, mean_confidence
from .forced_vaswani import mean_log_probs_outside
from .generation_vaswani import VaswaniGenerationMixin
from .glossary_vaswani import Glossary
from .hooks_vaswani import SentencePipeline, check_text
from .int8_vaswani import is_int8, quantize
from .texts_vaswani import (
    MAX_SENTENCE_TOKENS,
    LongTexts,
    Sentence,
    TextSettings,
    TrainingTexts,
    add_terms,
    remove_broken,
)


# Limits of a planned batch, which on a CPU is much faster than single texts (benchmarks/README.md).
MAX_BATCH_SENTENCES, MAX_BATCH_TOKENS = 64, 2048
LENGTH_LIMITS = ("max_new_tokens", "max_length", "stopping_criteria")


def translate_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    batch_size: int | None = None,
    progress: Callable[[int], object] | None = None,
    **generate_kwargs: Any,
) -> list[str]:
    """Return the model's best translation of each text, in the order of `texts`: for evaluation.

    Each text is translated as one sentence, without checks and retries; `TranslationPipeline` does more. Texts of
    similar length share a batch, the longest come first. An empty text translates to "". The model stays on its device,
    and in training mode if it was.

    Args:
        model (`PreTrainedModel`): A sequence-to-sequence model.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        texts (`Sequence[str]`): Texts to translate.
        batch_size (`int`, *optional*): Texts that are translated at once; planned by default.
        progress (`Callable[[int], object]`, *optional*): Called with the number of texts just translated.
        **generate_kwargs: Passed to `model.generate`, such as `num_beams`.

    Raises:
        TypeError: a text is not a string.
        ValueError: a text is not valid Unicode, or `generate` refuses an argument.
    """
    was_training = model.training
    model.eval()
    try:
        # A model that accelerate has spread over devices stays there: the library refuses a device for it.
        device = None if hasattr(model, "hf_device_map") else model.device
        translate = TranslationPipeline(model=model, tokenizer=tokenizer, device=device)
        results = translate.translate(texts, batch_size, progress, split_sentences=False, **generate_kwargs)
    finally:
        model.train(was_training)
    return [records[0]["translation_text"] for records in results]


class TranslationPipeline(SentencePipeline):
    """Translates texts of any length with a sequence-to-sequence model and its tokenizer.

    ```python
    translate = TranslationPipeline(model=model, tokenizer=tokenizer)
    translate("A man is riding a bicycle.")  # [{"translation_text": "Ein Mann fährt mit dem Fahrrad."}]
    translate(["One.", "Two."], batch_size=2)  # [{"translation_text": "Eins."}, {"translation_text": "Zwei."}]
    ```

    Texts are translated sentence by sentence and keep their spacing, line ends and bullets. Text without words, such as
    a number or a URL, stays unchanged. Suspicious translations (wrong length, repetitions, missing numbers, URLs or
    placeholders) are retried. If they still look wrong, their record has "warnings", a list of strings. A sentence that
    had to be split because it was too long for the model also gives a warning.

    A string gives the list of its translations, best first: as many as `num_return_sequences`. A list, a tuple or a
    column of a data set gives a list with the translation of each text, or with the list of its translations if
    `num_return_sequences` is more than 1. A generator, a `KeyDataset` or another iterable gives an iterator over lists
    of translations, which reads only the texts of its next batch.

    Translations do not depend on the batches, in which the sentences of a list are grouped by length.

    Args:
        model (`PreTrainedModel`): A sequence-to-sequence model.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        device (`int`, `str` or `torch.device`, *optional*): Where the model runs; by default a GPU if there is one.
        dtype (`str` or `torch.dtype`, defaults to `"auto"`):
            Casts the model; "auto" leaves it as it is. "int8" is for CPUs: faster than float32, with about the same
            quality. `torch_dtype` is the older name.
        batch_size (`int`, *optional*):
            Sentences that the model translates at once. By default, batches of a list are planned: up to 64 sentences
            and 2,048 tokens with padding, and at least one sentence. An iterator is then translated text by text.
        split_sentences (`bool`, defaults to `True`):
            If False, the model gets each text unchanged, as one sentence, without checks and retries.
        longest_sentence (`int`, *optional*):
            Splits sentences with more tokens than this at a clause. By default the length of the longest sentence in
            the training data (`max_length` in about.json), or 1,024; at most what the model and its tokenizer take.
        source_language (`str`, *optional*):
            The language whose rules find sentences and numbers, such as "en"; by default the one in about.json. Without
            it, sentences are found as in English.
        target_language (`str`, *optional*):
            The language whose numbers are expected in translations, such as "de"; by default the one in about.json.
        glossary (`Glossary` or `dict[str, str | Iterable[str]]`, *optional*):
            Words that must be translated in a given way, or not at all.
        return_scores (`bool`, defaults to `False`):
            Adds "score": log P / ((5 + length) / 6)^alpha, by which the paper's beam search ranks (section 6.1). A
            `length_penalty_offset` in `generation_config.json` replaces the 5. A text of several sentences has their
            mean.
        return_alignments (`bool`, defaults to `False`):
            Adds "alignments": for each word and punctuation mark of the translation a pair of spans (begin, end) in
            characters, of the source word that it translates and of itself. The checkpoint must name a head that aligns
            (`alignment_head` in generation_config.json).
        return_confidence (`bool`, defaults to `False`):
            Adds "word_confidences": for each word of the translation its span (begin, end) in characters and how likely
            it is right, from 0 to 1; "confidence", their mean; and "lowest_word_confidence". Without a calibration of
            the checkpoint (`confidence` in generation_config.json), the default one is used; see `is_calibrated`.
        min_confidence (`float`, *optional*):
            Adds the same, and warnings about sentences with less confidence than this, from 0 to 1.
        min_word_confidence (`float`, *optional*):
            Adds the same, and warnings about sentences with a word of less confidence than this, from 0 to 1.
        return_terms (`bool`, defaults to `False`):
            Adds "terms": for each term of the glossary in the text a dictionary with "term", "translation" and
            "is_kept", whether the translation has it. `Glossary.counts` sums them up.
        tries_again (`bool`, *optional*):
            Whether to retry suspicious translations. By default True, unless you ask for samples, several translations
            or a maximum length.
        return_tensors (`bool`, defaults to `False`):
            Returns "translation_token_ids" [T], without start token and padding, instead of "translation_text". Texts
            are then not split.
        return_text (`bool`, *optional*):
            Whether to return "translation_text"; by default unless `return_tensors`. With both, records have both.
        clean_up_tokenization_spaces (`bool`, *optional*): Passed to the tokenizer's `decode`.
        truncation (`bool`, defaults to `False`):
            Truncates texts to the tokenizer's `model_max_length`, and does not split them. By default nothing is lost.
        shortlist (`bool` or `Shortlist`, defaults to `False`):
            Considers only likely translations of the source words: faster, and nearly always with the same result. True
            reads shortlist.safetensors in the checkpoint.
        **generate_kwargs: Passed to `model.generate`: `num_beams`, `num_return_sequences`, `max_new_tokens`, ...

    All but `model`, `tokenizer`, `device` and `dtype` can also be given to a call, for this call only.

    Raises:
        TypeError: a text is not a string.
        ValueError: a text is not valid Unicode; `generate` refuses an argument; you ask for alignments or a shortlist,
            and the checkpoint has none; or for alignments or confidence, and its tokenizer is a slow one.
    """

    def __init__(
        self,
        *args: Any,
        dtype: str | torch.dtype = "auto",
        torch_dtype: str | torch.dtype | None = None,
        split_sentences: bool = True,
        longest_sentence: int | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        glossary: Glossary | Mapping[str, str | Iterable[str]] | None = None,
        return_confidence: bool = False,
        min_confidence: float | None = None,
        min_word_confidence: float | None = None,
        return_terms: bool = False,
        tries_again: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.text_settings = TextSettings(
            split_sentences=split_sentences,
            longest_sentence=longest_sentence,
            source_language=source_language,
            target_language=target_language,
            glossary=glossary,
            return_confidence=return_confidence,
            min_confidence=min_confidence,
            min_word_confidence=min_word_confidence,
            return_terms=return_terms,
            tries_again=tries_again,
        )
        dtype = torch_dtype if torch_dtype is not None else dtype
        if is_int8(dtype):
            quantize(self.model)
        elif dtype not in (None, "auto"):
            self.model.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
        # `pipeline` has put classes here when it read the entry; a configuration with classes cannot be saved.
        vars(self.model.config).pop("custom_pipelines", None)

    def save_pretrained(self, save_directory: str | PathLike, **kwargs: Any):
        """Save model, tokenizer and the code of both and of this pipeline; arguments are the library's."""
        try:
            super().save_pretrained(save_directory, **kwargs)
        finally:  # a model that is saved alone has no pipeline
            vars(self.model.config).pop("custom_pipelines", None)

    @cached_property
    def training_texts(self) -> TrainingTexts:
        """What the checkpoint's about.json says of its languages and lengths."""
        return TrainingTexts.from_model(self.model)

    @property
    def can_align(self) -> bool:
        """Whether the checkpoint names a head that aligns words, which `return_alignments` needs."""
        return getattr(self.model.generation_config, "alignment_head", None) is not None

    @property
    def is_calibrated(self) -> bool:
        """Whether the checkpoint has a calibration of its own, so that confidence does not use the default one."""
        return is_calibrated(self.model)

    # Texts -----------------------------------------------------------------------------------------------------------

    def __call__(
        self, inputs: str | Iterable[str], **kwargs: Any
    ) -> list[dict] | list[list[dict]] | Iterator[list[dict]]:
        """Translate a text, a list of texts or a stream of texts; the class describes arguments and results."""
        if isinstance(inputs, str | Mapping) or not isinstance(inputs, Iterable | Dataset):
            check_text(inputs)
            return self.translate([str(inputs)], **kwargs)[0]
        if isinstance(inputs, Sequence):
            results = self.translate(inputs, **kwargs)
            return [result[0] for result in results] if all(len(result) == 1 for result in results) else results
        return self._translate_stream(inputs, **kwargs)

    def _translate_stream(
        self, texts: Iterable[str] | Dataset, batch_size: int | None = None, **kwargs: Any
    ) -> Iterator[list[dict]]:
        size = batch_size or self._batch_size or 1
        has_length = isinstance(texts, Dataset) and isinstance(texts, Sized)
        # A data set may have no iterator, and its `__getitem__` need not raise IndexError after the last item.
        stream = map(texts.__getitem__, range(len(texts))) if has_length else iter(texts)
        while window := list(islice(stream, size)):
            yield from self.translate(window, size, **kwargs)

    def translate(
        self,
        texts: Sequence[str],
        batch_size: int | None = None,
        progress: Callable[[int], object] | None = None,
        **kwargs: Any,
    ) -> list[list[dict[str, Any]]]:
        """Return the translations of each text, best first, in the order of `texts`.

        Args:
            texts (`Sequence[str]`): Texts to translate.
            batch_size (`int`, *optional*): Sentences that the model translates at once; planned by default.
            progress (`Callable[[int], object]`, *optional*): Called with the number of texts just translated.
            **kwargs: The arguments of a call.

        Raises:
            TypeError: a text is not a string.
            ValueError: as of a call.
        """
        for text in texts:
            check_text(text)
        settings, arguments = self.text_settings.updated(kwargs)
        options = {**self._preprocess_params, **self._forward_params, **self._postprocess_params, **arguments}
        long_texts = self._long_texts(settings, options, batch_size)
        if settings.split_sentences and not (options.get("return_tensors") or options.get("truncation")):
            return long_texts.translate(texts, progress, **arguments)
        sentences = [long_texts.as_sentence(text) for text in texts]
        results = long_texts.translate_sentences(sentences, progress, **arguments)
        if settings.return_terms:
            add_terms(sentences, results)
        for text, translations in zip(texts, results, strict=True):
            for translation in translations:
                if "translation_text" in translation and remove_broken(text, translation):
                    translation["warnings"] = ["a broken character was removed"]
        return results

    def _long_texts(self, settings: TextSettings, options: Mapping[str, Any], batch_size: int | None) -> LongTexts:
        """Return what translates texts, with the checkpoint's values for settings that are None."""
        calibration = Calibration.from_model(self.model) if settings.needs_confidence else None
        settings = replace(
            settings,
            longest_sentence=settings.longest_sentence or self._max_sentence_tokens(),
            source_language=settings.source_language or self.training_texts.source_language,
            target_language=settings.target_language or self.training_texts.target_language,
            tries_again=wants_best(options) if settings.tries_again is None else settings.tries_again,
        )
        entries = {
            "score": options.get("return_scores"),
            "alignments": options.get("return_alignments"),
            "confidence": settings.needs_confidence,
            "terms": settings.return_terms,
        }
        has_offsets = self.tokenizer.is_fast
        return LongTexts(
            self.tokenizer,
            partial(self.translate_sentences, batch_size=batch_size, calibration=calibration),
            settings,
            can_require=isinstance(self.model, VaswaniGenerationMixin),
            entries={name for name, is_wanted in entries.items() if is_wanted},
            log_probs_outside=partial(mean_log_probs_outside, self.model, self.tokenizer) if has_offsets else None,
        )

    def _max_sentence_tokens(self) -> int:
        limits = (
            self.training_texts.max_length,
            self.tokenizer.model_max_length,
            getattr(self.model.config, "longest_sequence", None),
            MAX_SENTENCE_TOKENS,
        )
        return min(limit for limit in limits if limit)

    # Sentences, in planned batches -----------------------------------------------------------------------------------

    def translate_sentences(
        self,
        sentences: Sequence[Sentence],
        progress: Callable[[int], object] | None = None,
        batch_size: int | None = None,
        calibration: Calibration | None = None,
        **kwargs: Any,
    ) -> list[list[dict[str, Any]]]:
        """Return the translations of each sentence, best first; with a calibration their confidence, too.

        A sentence with stand-ins has no translation if these were lost.
        """
        results: list[list[dict[str, Any]]] = [[] for _ in sentences]
        # All sentences of a batch have the same number of beams, which depends on a sentence's required words.
        options, by_beams = {**self._forward_params, **kwargs}, dict[int, list[int]]()
        for i, sentence in enumerate(sentences):
            by_beams.setdefault(self.constrained_beams(sentence.required, options), []).append(i)
        for _, indices in sorted(by_beams.items()):
            lengths = self._lengths([sentences[i] for i in indices])
            for batch in plan_batches(lengths, batch_size or self._batch_size):
                self.call_count = 0  # on a GPU the library warns about many calls
                chosen = [indices[i] for i in batch]
                translations = super().__call__([sentences[i] for i in chosen], batch_size=len(batch), **kwargs)
                for i, records in zip(chosen, translations, strict=True):
                    restored = map(sentences[i].restore, records)
                    results[i] = [record for record in restored if record is not None]
                if progress is not None:
                    progress(len(batch))
        if calibration is not None:
            self._add_confidence(sentences, results, calibration)
        return results

    def _lengths(self, sentences: Sequence[Sentence]) -> list[int]:
        """Return the number of tokens of each sentence."""
        texts = [sentence.model_input for sentence in sentences]
        return [len(ids) for ids in self.tokenizer(texts, verbose=False)["input_ids"]] if texts else []

    def _add_confidence(self, sentences: Sequence[Sentence], results: list[list[dict]], calibration: Calibration):
        """Add "confidence" and "word_confidences" to each record with a text."""
        pairs, records = [], []
        for sentence, translations in zip(sentences, results, strict=True):
            # The translation has items again instead of stand-ins; terms of the glossary stay translated in the input.
            source = sentence.text if sentence.stand_ins else sentence.model_input
            for record in translations:
                if "translation_text" in record:
                    pairs.append((source, record["translation_text"]))
                    records.append(record)
        word_confidences = confidences(self.model, self.tokenizer, pairs, calibration)
        for record, values in zip(records, word_confidences, strict=True):
            record |= {
                "confidence": mean_confidence(values),
                "lowest_word_confidence": least_certain_word(record["translation_text"], values)[1],
                "word_confidences": values,
            }


# As the library's `register_pipeline` sets it: `save_pretrained` stores the code of registered pipelines only, and this
# class is not registered if it was loaded from a repository.
setattr(  # noqa: B010  # a type checker does not know the library's attribute
    TranslationPipeline,
    "_registered_impl",
    {"translation": {"impl": TranslationPipeline, "pt": (AutoModelForSeq2SeqLM,)}},
)


def wants_best(options: Mapping[str, Any]) -> bool:
    """Return whether the caller wants the best translation, not samples, several translations or a shortened one."""
    is_limited = any(options.get(name) is not None for name in LENGTH_LIMITS)
    return not is_limited and not options.get("do_sample") and (options.get("num_return_sequences") or 1) == 1


def plan_batches(lengths: Sequence[int], batch_size: int | None) -> Iterator[list[int]]:
    """Yield the indices of sentences in batches, the longest sentences first, given their numbers of tokens.

    Batches then need little padding, and a lack of memory shows in the first one. Without `batch_size`, a batch has at
    most MAX_BATCH_SENTENCES and, with padding, MAX_BATCH_TOKENS, but at least one sentence.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        max_length = max(1, lengths[order[start]])
        size = batch_size or min(MAX_BATCH_SENTENCES, max(1, MAX_BATCH_TOKENS // max_length))
        yield order[start : start + size]
        start += size


__all__ = ["TranslationPipeline", "translate_texts"]
