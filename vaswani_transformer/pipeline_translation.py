"""`pipeline("translation", ...)`, a task that transformers 5 has removed, and the one way to translate a list.

A repository for the Hub carries a copy of this file and names it in `config.json`, where `pipeline` looks first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import GeneratorType
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import Pipeline, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from .alignment_vaswani import AlignmentHead, align, words
from .generation_vaswani import length_penalty
from .int8_vaswani import is_int8, quantize
from .shortlist_vaswani import Shortlist


# Of a planned batch: on a CPU much faster than single texts (benchmarks/README.md).
MOST_TEXTS, MOST_TOKENS = 64, 2048


def translate_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    batch_size: int | None = None,
    progress: Callable[[int], object] | None = None,
    **generate_kwargs: Any,
) -> list[str]:
    """The best translation of each text, in the order of `texts`.

    Texts of similar length share a batch, as in `TranslationPipeline`, the longest come first. An empty text translates
    to "". The model stays on its device, and in training mode if it was. `progress` is called with the number of texts
    just translated.

    Raises:
        TypeError: a text is not a string.
    """
    was_training = model.training
    model.eval()
    try:
        # A model that accelerate has spread over devices stays where it is, and the library refuses to be told where.
        device = None if hasattr(model, "hf_device_map") else model.device
        translate = TranslationPipeline(model=model, tokenizer=tokenizer, device=device)
        results = translate.translate(texts, batch_size, progress, **generate_kwargs)
    finally:
        model.train(was_training)
    return [records[0]["translation_text"] for records in results]


class TranslationPipeline(Pipeline):
    """Translates texts with a sequence-to-sequence model and its tokenizer.

    ```python
    translate = TranslationPipeline(model=model, tokenizer=tokenizer)
    translate("A man is riding a bicycle.")  # [{"translation_text": "Ein Mann fährt Fahrrad."}]
    translate(["One.", "Two."], batch_size=2)  # [{"translation_text": "Eins."}, {"translation_text": "Zwei."}]
    ```

    A string gives a list of its translations, as many as `num_return_sequences`, best first. A list, a tuple or a
    column of a data set gives a list with one entry for each text: a translation, or a list of them where
    `num_return_sequences` is more than 1. A generator, a `KeyDataset` or any other iterable gives an iterator over
    lists of translations; it takes only as many texts as it needs for the next batch. The translations do not depend
    on `batch_size`; of a list, texts of similar length share a batch. A text that is empty or all whitespace translates
    to "" without running the model.

    Each of these arguments can be given when the pipeline is created or when it is called:

    Args:
        batch_size (`int`, *optional*):
            Texts that the model translates at once. By default a list is planned: as many texts of similar length as
            64, or 2,048 tokens with padding, at least one. An iterator is then translated one text at a time.
        return_scores (`bool`, defaults to `False`):
            Adds "score": log P / ((5 + length) / 6)^alpha, by which the paper's beam search ranks (section 6.1). Where
            `generation_config.json` has a `length_penalty_offset`, it takes the place of the 5.
        return_alignments (`bool`, defaults to `False`):
            Adds "alignments": for each word of the translation, and each mark of punctuation, a pair of spans
            (begin, end) in characters: of the source's word that it translates, and of the word itself. The checkpoint
            says which of its heads of attention knows (`alignment_head` in generation_config.json).
        return_tensors (`bool`, defaults to `False`):
            Gives "translation_token_ids" [T], without start token and padding, instead of "translation_text".
        return_text (`bool`, defaults to `not return_tensors`): Gives "translation_text"; with both, both are given.
        clean_up_tokenization_spaces (`bool`, *optional*): Passed to the tokenizer's `decode`.
        truncation (`bool`, defaults to `False`):
            Truncates texts to the tokenizer's `model_max_length`. By default nothing is truncated.
        shortlist (`bool` or `Shortlist`, defaults to `False`):
            Considers only words that the source's may become, by the file shortlist.safetensors of the checkpoint, or
            by what is given: faster, and nearly always the same translation.
        **generate_kwargs: Passed to `model.generate`: `num_beams`, `num_return_sequences`, `max_new_tokens`, ...

    `device` and `dtype`, given when the pipeline is created, move and cast the model; "int8" is for CPUs, and is about
    as good as float32 in less time.

    Raises:
        TypeError: a text is not a string.
        ValueError: alignments are asked for, and the checkpoint names no head for them.
    """

    model: Any  # a PreTrainedModel that can generate
    tokenizer: PreTrainedTokenizerBase

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False

    def __init__(
        self, *args, dtype: str | torch.dtype = "auto", torch_dtype: str | torch.dtype | None = None, **kwargs
    ):
        super().__init__(*args, **kwargs)
        dtype = torch_dtype if torch_dtype is not None else dtype
        if is_int8(dtype):
            quantize(self.model)
        elif dtype not in (None, "auto"):
            self.model.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
        if getattr(self.model.config, "custom_pipelines", None):
            # `pipeline` has replaced the names in it by classes, with which the configuration could not be saved.
            self.name_in(self.model.config)

    @classmethod
    def name_in(cls, config: PreTrainedConfig):
        """Makes `config.json` say that `pipeline("translation", ...)` is the class in this file."""
        impl = f"{cls.__module__.rpartition('.')[-1]}.{cls.__name__}"
        config.custom_pipelines = {"translation": {"impl": impl, "pt": ["AutoModelForSeq2SeqLM"]}}

    def __call__(self, inputs: str | Iterable[str], **kwargs) -> list[dict] | list[list[dict]] | Iterator[list[dict]]:
        if isinstance(inputs, str | Mapping) or not isinstance(inputs, Iterable | Dataset):
            return super().__call__(inputs, **kwargs)
        if isinstance(inputs, Sequence):
            results = self.translate(inputs, **kwargs)
            return [result[0] for result in results] if all(len(result) == 1 for result in results) else results
        if not isinstance(inputs, GeneratorType | Dataset):
            inputs = (text for text in inputs)
        return super().__call__(inputs, **kwargs)

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
        results: list[list[dict[str, Any]]] = [[] for _ in texts]
        for batch in self._plan(texts, batch_size or self._batch_size):
            self.call_count = 0  # the library takes many calls for a mistake
            translations = super().__call__([texts[i] for i in batch], batch_size=len(batch), **kwargs)
            for i, records in zip(batch, translations, strict=True):
                results[i] = records
            if progress is not None:
                progress(len(batch))
        return results

    def _plan(self, texts: Sequence[str], batch_size: int | None) -> Iterator[list[int]]:
        """The indices of the texts in batches, the longest first.

        Batches then need little padding, and the largest comes first, where a lack of memory shows at once.
        """
        for text in texts:
            check_text(text)
        if not texts:
            return
        lengths = [len(ids) for ids in self.tokenizer(list(texts), verbose=False)["input_ids"]]
        order = sorted(range(len(texts)), key=lambda i: -lengths[i])
        start = 0
        while start < len(order):
            longest = max(1, lengths[order[start]])
            size = batch_size or min(MOST_TEXTS, max(1, MOST_TOKENS // longest))
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
            AlignmentHead.of(self.model)  # before anything is translated
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

    def preprocess(self, text: str, truncation: bool = False, keep_text: bool = False) -> dict[str, Any]:
        """A text -> input_ids [1, S] and attention_mask [1, S], with S = 0 where there is nothing to translate."""
        check_text(text)
        kept = {"text": np.array([text], dtype=object)} if keep_text else {}
        if not text.strip():
            nothing = torch.zeros(1, 0, dtype=torch.long)
            return {"input_ids": nothing, "attention_mask": nothing, **kept}
        encoded = self.tokenizer(text, truncation=truncation, return_tensors="pt")
        return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"], **kept}

    def _forward(
        self, model_inputs: dict[str, Any], return_scores: bool = False, **generate_kwargs
    ) -> dict[str, torch.Tensor | np.ndarray]:
        """Ids and mask [B, S] -> n translations of each text, [B, n, T], and [B, n] of what else was asked for."""
        texts = model_inputs.pop("text", None)
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
            outputs["alignments"] = self._alignments(np.concatenate([np.atleast_1d(x) for x in texts]), translations)
        return outputs

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
        pad_token_id = self.tokenizer.pad_token_id
        n = len(sequences) // len(inputs["input_ids"])
        inputs = {name: x.repeat_interleave(n, dim=0) for name, x in inputs.items()}
        logits = self.model(**inputs, decoder_input_ids=sequences[:, :-1], use_cache=False).logits.float()
        targets = sequences[:, 1:]
        produced = targets != pad_token_id
        log_probs = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(dim=-1)
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


def check_text(text: object):
    """Raises TypeError, with advice, for what is not a string."""
    if not isinstance(text, str):
        hint = " For one column of a data set use `KeyDataset(dataset, column)`." if isinstance(text, dict) else ""
        raise TypeError(f"TranslationPipeline translates strings, but was given {type(text).__name__}.{hint}")


__all__ = ["TranslationPipeline", "translate_texts"]
