"""`pipeline("translation", ...)`, a task that transformers 5 has removed, and the one way to translate a list.

A repository for the Hub carries a copy of this file and names it in `config.json`, where `pipeline` looks first. What
a model saves without its pipeline does not.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property, partial
from itertools import islice
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import AutoModelForSeq2SeqLM, Pipeline, PreTrainedModel, PreTrainedTokenizerBase

from .alignment_vaswani import AlignmentHead, align
from .confidence_vaswani import Calibration, confidences, mean_confidence
from .forced_vaswani import forced_log_probs
from .generation_vaswani import VaswaniGenerationMixin, length_penalty
from .glossary_vaswani import Glossary
from .int8_vaswani import is_int8, quantize
from .shortlist_vaswani import Shortlist
from .spans_vaswani import Replaced, words
from .texts_vaswani import MAX_SENTENCE_TOKENS, OWN_SEARCH, LongTexts, Sentence, TextRecord


# Of a planned batch: on a CPU much faster than single texts (benchmarks/README.md).
MAX_BATCH_SENTENCES, MAX_BATCH_TOKENS = 64, 2048
SPARE_BEAMS = 2  # besides one for each word that a translation must hold


def translate_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    batch_size: int | None = None,
    progress: Callable[[int], object] | None = None,
    **generate_kwargs: Any,
) -> list[str]:
    """The best translation of each text as the model gives it, in the order of `texts`: for evaluation.

    Each is translated whole, as one sentence, and not looked at; `TranslationPipeline` does more. Texts of similar
    length share a batch, the longest come first. An empty text translates to "". The model stays on its device, and in
    training mode if it was. `progress` is called with the number of texts just translated.

    Raises:
        TypeError: a text is not a string.
    """
    was_training = model.training
    model.eval()
    try:
        # A model that accelerate has spread over devices stays where it is, and the library refuses to be told where.
        device = None if hasattr(model, "hf_device_map") else model.device
        translate = TranslationPipeline(model=model, tokenizer=tokenizer, device=device)
        results = translate.translate(texts, batch_size, progress, split_sentences=False, **generate_kwargs)
    finally:
        model.train(was_training)
    return [records[0]["translation_text"] for records in results]


class TranslationPipeline(Pipeline):
    """Translates texts with a sequence-to-sequence model and its tokenizer.

    ```python
    translate = TranslationPipeline(model=model, tokenizer=tokenizer)
    translate("A man is riding a bicycle.")  # [{"translation_text": "Ein Mann fährt mit dem Fahrrad."}]
    translate(["One.", "Two."], batch_size=2)  # [{"translation_text": "Eins."}, {"translation_text": "Zwei."}]
    ```

    Texts may have any length: they are translated sentence by sentence, and keep their spacing, line ends and bullets.
    What has no words, such as a number or a URL, stays as it is. A translation that looks wrong, by its length, by what
    it repeats, or by numbers, URLs or placeholders that it lacks, is tried again in other ways; where it still looks
    wrong, and where a sentence was too long for the model and was split, its record has "warnings", a list of texts.

    A string gives a list of its translations, as many as `num_return_sequences`, best first. A list, a tuple or a
    column of a data set gives a list with one entry for each text: a translation, or a list of them where
    `num_return_sequences` is more than 1. A generator, a `KeyDataset` or any other iterable gives an iterator over
    lists of translations; it takes only as many texts as it needs for the next batch. The translations do not depend
    on `batch_size`; of a list, sentences of similar length share a batch.

    Each of these arguments can be given when the pipeline is created or when it is called:

    Args:
        batch_size (`int`, *optional*):
            Sentences that the model translates at once. By default a list is planned: as many of similar length as
            64, or 2,048 tokens with padding, at least one. An iterator is then translated one text at a time.
        split_sentences (`bool`, defaults to `True`):
            Without, each text is given to the model as it is, as one sentence, and is not looked at.
        longest_sentence (`int`, *optional*):
            Tokens from which on a sentence is split at a clause. By default those of the longest that the model has
            learned from, as the checkpoint's about.json says, else 1,024.
        source_language (`str`, *optional*):
            Such as "en", by which sentences are found; by default that of about.json.
        glossary (`Glossary` or `dict`, *optional*): Words that must be translated in a given way, or not at all.
        return_scores (`bool`, defaults to `False`):
            Adds "score": log P / ((5 + length) / 6)^alpha, by which the paper's beam search ranks (section 6.1). Where
            `generation_config.json` has a `length_penalty_offset`, it takes the place of the 5. Of several sentences
            it is the mean.
        return_alignments (`bool`, defaults to `False`):
            Adds "alignments": for each word of the translation, and each mark of punctuation, a pair of spans
            (begin, end) in characters: of the source's word that it translates, and of the word itself. The checkpoint
            says which of its heads of attention knows (`alignment_head` in generation_config.json).
        return_confidence (`bool`, defaults to `False`):
            Adds "word_confidences": for each word of the translation its span (begin, end) in characters and how likely
            it is right, from 0 to 1; and "confidence", their mean. The checkpoint says how these are calibrated
            (`confidence` in generation_config.json).
        min_confidence (`float`, *optional*): The same; and sentences with less are among the "warnings".
        tries_again (`bool`, *optional*):
            Whether a translation that looks wrong is tried again. By default it is, unless several translations, a
            length or samples are asked for.
        return_tensors (`bool`, defaults to `False`):
            Gives "translation_token_ids" [T], without start token and padding, instead of "translation_text". Texts
            are then not split.
        return_text (`bool`, defaults to `not return_tensors`): Gives "translation_text"; with both, both are given.
        clean_up_tokenization_spaces (`bool`, *optional*): Passed to the tokenizer's `decode`.
        truncation (`bool`, defaults to `False`):
            Truncates texts to the tokenizer's `model_max_length`; they are then not split. By default nothing is lost.
        shortlist (`bool` or `Shortlist`, defaults to `False`):
            Considers only words that the source's may become, by the file shortlist.safetensors of the checkpoint, or
            by what is given: faster, and nearly always the same translation.
        **generate_kwargs: Passed to `model.generate`: `num_beams`, `num_return_sequences`, `max_new_tokens`, ...

    `device` and `dtype`, given when the pipeline is created, move and cast the model; "int8" is for CPUs, and is about
    as good as float32 in less time.

    Raises:
        TypeError: a text is not a string.
        ValueError: a text is not valid Unicode. Or alignments or confidence are asked for, and the checkpoint does not
            say which head aligns, or how sure it is.
    """

    model: Any  # a PreTrainedModel that can generate
    tokenizer: PreTrainedTokenizerBase

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False

    def __init__(
        self,
        *args,
        dtype: str | torch.dtype = "auto",
        torch_dtype: str | torch.dtype | None = None,
        split_sentences: bool = True,
        longest_sentence: int | None = None,
        source_language: str | None = None,
        glossary: Glossary | Mapping[str, str | Iterable[str]] | None = None,
        return_confidence: bool = False,
        min_confidence: float | None = None,
        tries_again: bool | None = None,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self.text_settings = {
            "split_sentences": split_sentences,
            "longest_sentence": longest_sentence,
            "source_language": source_language,
            "glossary": as_glossary(glossary),
            "return_confidence": return_confidence,
            "min_confidence": min_confidence,
            "tries_again": tries_again,
        }
        dtype = torch_dtype if torch_dtype is not None else dtype
        if is_int8(dtype):
            quantize(self.model)
        elif dtype not in (None, "auto"):
            self.model.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
        # `pipeline` has read it already, and has put classes into it, with which the configuration could not be saved.
        vars(self.model.config).pop("custom_pipelines", None)

    def save_pretrained(self, save_directory: str | PathLike, **kwargs):
        """As the library's, which also stores and names the code of this pipeline."""
        try:
            super().save_pretrained(save_directory, **kwargs)
        finally:  # the model alone is saved without that code
            vars(self.model.config).pop("custom_pipelines", None)

    def __call__(self, inputs: str | Iterable[str], **kwargs) -> list[dict] | list[list[dict]] | Iterator[list[dict]]:
        if isinstance(inputs, str | Mapping) or not isinstance(inputs, Iterable | Dataset):
            check_text(inputs)
            return self.translate([str(inputs)], **kwargs)[0]
        if isinstance(inputs, Sequence):
            results = self.translate(inputs, **kwargs)
            return [result[0] for result in results] if all(len(result) == 1 for result in results) else results
        return self._translate_arriving(inputs, **kwargs)

    def _translate_arriving(self, texts: Iterable[str] | Dataset, batch_size: int | None = None, **kwargs):
        size = batch_size or self._batch_size or 1
        has_length = isinstance(texts, Dataset) and isinstance(texts, Sized)
        # A data set may have no iterator, and does not say that it has ended.
        arriving = map(texts.__getitem__, range(len(texts))) if has_length else iter(texts)
        while window := list(islice(arriving, size)):
            yield from self.translate(window, size, **kwargs)

    def translate(
        self,
        texts: Sequence[str],
        batch_size: int | None = None,
        progress: Callable[[int], object] | None = None,
        **kwargs: Any,
    ) -> list[list[dict[str, Any]]]:
        """The translations of each text, best first, in the order of `texts`.

        `progress` is called with the number of texts just translated; other arguments are those of a call.
        """
        for text in texts:
            check_text(text)
        settings = {name: kwargs.pop(name, value) for name, value in self.text_settings.items()}
        asked = {**self._preprocess_params, **self._forward_params, **self._postprocess_params, **kwargs}
        long_texts = self._long_texts(asked, batch_size, **settings)
        if settings["split_sentences"] and not (asked.get("return_tensors") or asked.get("truncation")):
            return long_texts.translate(texts, progress, **kwargs)
        return long_texts.translate_sentences(list(map(long_texts.sentence, texts)), progress, **kwargs)

    def _translate_sentences(
        self,
        sentences: Sequence[Sentence],
        progress: Callable[[int], object] | None = None,
        batch_size: int | None = None,
        calibration: Calibration | None = None,
        **kwargs: Any,
    ) -> list[list[dict[str, Any]]]:
        """The translations of each sentence, best first, in the order of `sentences`; with a calibration how sure."""
        results: list[list[dict[str, Any]]] = [[] for _ in sentences]
        # Those with words that they must hold are searched for in another way, by themselves.
        plain = [i for i, sentence in enumerate(sentences) if not sentence.required]
        others = [i for i, sentence in enumerate(sentences) if sentence.required]
        for indices in (plain, others):
            for batch in self._plan([sentences[i].read for i in indices], batch_size or self._batch_size):
                self.call_count = 0  # the library takes many calls for a mistake
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

    def _add_confidence(self, sentences: Sequence[Sentence], results: list[list[dict]], calibration: Calibration):
        """To each record that has a text."""
        sources = [s.text if s.stand_ins else s.read for s in sentences]
        pairs = [(s, r) for s, of in zip(sources, results, strict=True) for r in of if "translation_text" in r]
        texts = [(source, record["translation_text"]) for source, record in pairs]
        for (_, record), sure in zip(pairs, confidences(self.model, self.tokenizer, texts, calibration), strict=True):
            record |= {"confidence": mean_confidence(sure), "word_confidences": sure}

    def _long_texts(
        self,
        asked: dict[str, Any],
        batch_size: int | None,
        split_sentences: bool,
        longest_sentence: int | None,
        source_language: str | None,
        glossary: Glossary | Mapping[str, str | Iterable[str]] | None,
        return_confidence: bool,
        min_confidence: float | None,
        tries_again: bool | None,
    ) -> LongTexts:
        is_plain = not asked.get("do_sample") and not asked.keys() & OWN_SEARCH
        calibration = Calibration.from_model(self.model) if return_confidence or min_confidence is not None else None
        limits = [self.tokenizer.model_max_length, getattr(self.model.config, "longest_sequence", None)]
        own = [self.text_record.max_length, *(limit for limit in limits if limit is not None), MAX_SENTENCE_TOKENS]
        return LongTexts(
            self.tokenizer,
            partial(self._translate_sentences, batch_size=batch_size, calibration=calibration),
            language=source_language or self.text_record.source_language,
            longest=longest_sentence or min(limit for limit in own if limit),
            glossary=as_glossary(glossary),
            may_require=isinstance(self.model, VaswaniGenerationMixin),
            tries_again=is_plain if tries_again is None else tries_again,
            min_confidence=min_confidence,
            scores=bool(asked.get("return_scores")),
            alignments=bool(asked.get("return_alignments")),
            confidence=calibration is not None,
        )

    @cached_property
    def text_record(self) -> TextRecord:
        return TextRecord.of(self.model)

    def _plan(self, texts: Sequence[str], batch_size: int | None) -> Iterator[list[int]]:
        """The indices of the texts in batches, the longest first.

        Batches then need little padding, and the largest comes first, where a lack of memory shows at once.
        """
        if not texts:
            return
        lengths = [len(ids) for ids in self.tokenizer(list(texts), verbose=False)["input_ids"]]
        order = sorted(range(len(texts)), key=lambda i: -lengths[i])
        start = 0
        while start < len(order):
            longest = max(1, lengths[order[start]])
            size = batch_size or min(MAX_BATCH_SENTENCES, max(1, MAX_BATCH_TOKENS // longest))
            yield order[start : start + size]
            start += size

    def _sanitize_parameters(
        self,
        truncation: bool | None = None,
        return_scores: bool | None = None,
        return_alignments: bool | None = None,
        return_tensors: bool | None = None,
        return_text: bool | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        shortlist: bool | Shortlist | None = None,
        **generate_kwargs,
    ) -> tuple[dict, dict, dict]:
        def given(**parameters):
            return {name: value for name, value in parameters.items() if value is not None}

        if shortlist is not None:
            generate_kwargs["shortlist"] = self.own_shortlist if shortlist is True else shortlist or None
        if return_alignments:
            AlignmentHead.from_model(self.model)  # before anything is translated
        return (
            given(truncation=truncation, keep_text=return_alignments),
            given(return_scores=return_scores) | generate_kwargs,
            given(
                return_tensors=return_tensors,
                return_text=return_text,
                clean_up_tokenization_spaces=clean_up_tokenization_spaces,
            ),
        )

    @cached_property
    def own_shortlist(self) -> Shortlist:
        """That of the model's folder or repository."""
        revision = getattr(self.model.config, "_commit_hash", None)
        return Shortlist.from_pretrained(self.model.name_or_path, revision)

    def preprocess(self, sentence: str | Sentence, truncation: bool = False, keep_text: bool = False) -> dict[str, Any]:
        """A sentence -> input_ids [1, S] and attention_mask [1, S], with S = 0 where there is nothing to translate."""
        if not isinstance(sentence, Sentence):
            check_text(sentence)
            sentence = Sentence(sentence, Replaced(sentence))
        kept = {"text": alone(sentence.read)} if keep_text else {}
        if sentence.required:
            kept["required"] = alone([self._forms(forms, sentence.read) for forms in sentence.required])
        if not sentence.read.strip():
            nothing = torch.zeros(1, 0, dtype=torch.long)
            return {"input_ids": nothing, "attention_mask": nothing, **kept}
        encoded = self.tokenizer(sentence.read, truncation=truncation, return_tensors="pt")
        return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"], **kept}

    def _forms(self, forms: Sequence[str], source: str) -> list[list[int]]:
        """The tokens of each form, also after the mark that it follows in the source: a bracket, a quote."""
        before = [match[1] for form in forms for match in re.finditer(rf"([^\w\s]){re.escape(form)}", source)]
        spelled = dict.fromkeys([*forms, *(mark + form for mark in before for form in forms)])
        return self.tokenizer(text_target=list(spelled), add_special_tokens=False)["input_ids"]

    def _forward(
        self, model_inputs: dict[str, Any], return_scores: bool = False, **generate_kwargs
    ) -> dict[str, torch.Tensor | np.ndarray]:
        """Ids and mask [B, S] -> n translations of each text, [B, n, T], and [B, n] of what else was asked for."""
        texts, required = (model_inputs.pop(name, None) for name in ("text", "required"))
        if required is not None:
            generate_kwargs = {**generate_kwargs, **self._requiring(together(required), generate_kwargs)}
        pad_token_id = self.tokenizer.pad_token_id
        n = self._setting("num_return_sequences", generate_kwargs) or 1
        asked = model_inputs["attention_mask"].any(dim=-1)
        translations = torch.full((len(asked), n, 1), pad_token_id, device=asked.device)
        scores = torch.zeros(len(asked), n, device=asked.device)
        if asked.any():
            inputs = {name: x[asked] for name, x in model_inputs.items()}
            if return_scores:
                generate_kwargs = {**generate_kwargs, "return_dict_in_generate": True}
                if hasattr(self.model, "penalty_offset"):  # one of ours: without the cache it is faster
                    generate_kwargs["return_cache"] = False
            output = self.model.generate(**inputs, **generate_kwargs)
            sequences = getattr(output, "sequences", output)
            translations = translations.repeat(1, 1, sequences.shape[1] - 1)
            translations[asked] = sequences[:, 1:].unflatten(0, (-1, n))
            if return_scores:
                scores[asked] = self._scores(inputs, output, generate_kwargs).unflatten(0, (-1, n))
        outputs: dict[str, torch.Tensor | np.ndarray] = {"translations": translations}
        if return_scores:
            outputs["scores"] = scores
        if texts is not None:
            outputs["alignments"] = self._alignments(together(texts), translations)
        return outputs

    def _requiring(self, required: np.ndarray, generate_kwargs: dict[str, Any]) -> dict[str, Any]:
        """The search for translations that must hold words, given for each sentence: [B]."""
        beams = self._setting("num_beams", generate_kwargs) or 1
        most = max(map(len, required))
        return {
            "required_words": list(required),
            "joining_tokens": self.joining_tokens,
            "num_beams": max(beams, most + SPARE_BEAMS),
            "shortlist": None,
        }

    @cached_property
    def joining_tokens(self) -> frozenset[int]:
        """Those that go on with the word before them."""
        before = self.tokenizer(text_target="a", add_special_tokens=False)["input_ids"]
        start = len(self._decode(torch.tensor(before)))
        texts = self.tokenizer.batch_decode([[*before, i] for i in range(len(self.tokenizer))])
        return frozenset(i for i, text in enumerate(texts) if text[start : start + 1].isalnum())

    def _alignments(self, texts: np.ndarray, translations: torch.Tensor) -> np.ndarray:
        """Texts [B], translations [B, n, T] -> lists of pairs of spans, [B, n]."""
        pairs = [
            (text, self._decode(ids)) for text, of_text in zip(texts, translations, strict=True) for ids in of_text
        ]
        found = np.empty(len(pairs), dtype=object)
        for i, ((source, target), links) in enumerate(
            zip(pairs, align(self.model, self.tokenizer, pairs), strict=True)
        ):
            of_source, of_target = words(source), words(target)
            found[i] = [(of_source[one], of_target[other]) for one, other in links]
        return found.reshape(translations.shape[:2])

    def _decode(self, ids: torch.Tensor, clean_up_tokenization_spaces: bool | None = None) -> str:
        ids = ids[ids != self.tokenizer.pad_token_id]
        text = self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=clean_up_tokenization_spaces
        )
        return str(text)

    def _scores(self, inputs: dict[str, torch.Tensor], output: Any, generate_kwargs: dict) -> torch.Tensor:
        """log P divided by the length penalty, for each sequence that `generate` gave: [B * n]."""
        if getattr(output, "sequences_scores", None) is not None:
            return output.sequences_scores.to(torch.float32)
        # Greedy search, and the library's loop unless it keeps every step's scores: the model is asked once more.
        log_probs, lengths = self._log_probs(inputs, output.sequences)
        alpha = self._setting("length_penalty", generate_kwargs)
        offset = 0.0  # GenerationMixin's own
        if hasattr(self.model, "penalty_offset"):
            offset = self.model.penalty_offset(generate_kwargs.get("generation_config"))
        return log_probs / length_penalty(lengths, 1.0 if alpha is None else alpha, offset)

    def _setting(self, name: str, generate_kwargs: dict) -> Any:
        """The value that `generate` uses for `name`."""
        config = generate_kwargs.get("generation_config") or self.model.generation_config
        value = generate_kwargs.get(name, getattr(config, name))
        return getattr(self.model.generation_config, name) if value is None else value

    def _log_probs(self, inputs: dict[str, torch.Tensor], sequences: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sources [B, S] and sequences [B * n, 1 + T] -> log P and length of each, [B * n]."""
        n = len(sequences) // len(inputs["input_ids"])
        inputs = {name: x.repeat_interleave(n, dim=0) for name, x in inputs.items()}
        produced = sequences[:, 1:] != self.tokenizer.pad_token_id
        log_probs = forced_log_probs(self.model, inputs, sequences)
        return log_probs.masked_fill(~produced, 0.0).sum(dim=-1), produced.sum(dim=-1)

    def postprocess(
        self,
        model_outputs: dict[str, torch.Tensor],
        return_tensors: bool = False,
        return_text: bool | None = None,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[dict]:
        records = []
        for i, ids in enumerate(model_outputs["translations"][0]):
            ids = ids[ids != self.tokenizer.pad_token_id]
            record = {}
            if return_tensors:
                record["translation_token_ids"] = ids
            if return_text or (return_text is None and not return_tensors):
                record["translation_text"] = self._decode(ids, clean_up_tokenization_spaces)
            if "scores" in model_outputs:
                record["score"] = model_outputs["scores"][0, i].item()
            if "alignments" in model_outputs:
                record["alignments"] = model_outputs["alignments"][0, i]
            records.append(record)
        return records


# As `register_pipeline` sets it: the library's `save_pretrained` stores the code of a registered pipeline only, which
# this class is not where it was loaded from a repository.
setattr(  # noqa: B010  # a type checker does not know the library's attribute
    TranslationPipeline,
    "_registered_impl",
    {"translation": {"impl": TranslationPipeline, "pt": (AutoModelForSeq2SeqLM,)}},
)


def as_glossary(terms: Glossary | Mapping[str, str | Iterable[str]] | None) -> Glossary | None:
    return terms if isinstance(terms, Glossary | None) else Glossary(terms)


def alone(value: object) -> np.ndarray:
    """An array of one object, as the library puts them together into batches."""
    array = np.empty(1, dtype=object)
    array[0] = value
    return array


def together(arrays: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
    """The objects of a batch, [B]; of one sentence the library makes no batch."""
    return arrays if isinstance(arrays, np.ndarray) else np.concatenate(arrays)


def check_text(text: object):
    """Raises TypeError, with advice, for what is not a string, and ValueError for one that is no text."""
    if not isinstance(text, str):
        hint = " For one column of a data set use `KeyDataset(dataset, column)`." if isinstance(text, dict) else ""
        raise TypeError(f"TranslationPipeline translates strings, but was given {type(text).__name__}.{hint}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"A text has half a character at position {error.start}: it is no valid Unicode.") from error


__all__ = ["TranslationPipeline", "translate_texts"]
