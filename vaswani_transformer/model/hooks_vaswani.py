"""One batch of sentences through the hooks of transformers' pipelines: options, preprocess, forward, postprocess.

Shapes: B sentences, n translations of each, S source tokens, T target tokens.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import Pipeline, PreTrainedTokenizerBase

from .alignment_vaswani import AlignmentHead, align
from .forced_vaswani import forced_log_probs
from .generation_vaswani import length_penalty
from .shortlist_vaswani import Shortlist
from .spans_vaswani import Replaced, words
from .texts_vaswani import Sentence


EXTRA_BEAMS = 2  # besides one for each word that a translation must contain


class SentencePipeline(Pipeline):
    """Translates batches of sentences; `TranslationPipeline` adds everything about texts."""

    model: Any  # a PreTrainedModel that can generate
    tokenizer: PreTrainedTokenizerBase

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False

    # Options ---------------------------------------------------------------------------------------------------------

    def _sanitize_parameters(
        self,
        truncation: bool | None = None,
        return_scores: bool | None = None,
        return_alignments: bool | None = None,
        return_tensors: bool | None = None,
        return_text: bool | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        shortlist: bool | Shortlist | None = None,
        **generate_kwargs: Any,
    ) -> tuple[dict, dict, dict]:
        """Return the arguments of `preprocess`, `_forward` and `postprocess`."""

        def given(**parameters: Any) -> dict[str, Any]:
            return {name: value for name, value in parameters.items() if value is not None}

        if shortlist is not None:
            generate_kwargs["shortlist"] = self.checkpoint_shortlist if shortlist is True else shortlist or None
        if return_alignments:
            AlignmentHead.from_model(self.model)  # a checkpoint without one is refused before it translates
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
    def checkpoint_shortlist(self) -> Shortlist:
        """The shortlist in the model's folder or repository."""
        revision = getattr(self.model.config, "_commit_hash", None)
        return Shortlist.from_pretrained(self.model.name_or_path, revision)

    def _setting(self, name: str, generate_kwargs: dict[str, Any]) -> Any:
        """Return the value of a setting that `generate` uses."""
        config = generate_kwargs.get("generation_config") or self.model.generation_config
        value = generate_kwargs.get(name, getattr(config, name))
        return getattr(self.model.generation_config, name) if value is None else value

    # Text to ids -----------------------------------------------------------------------------------------------------

    def preprocess(self, sentence: str | Sentence, truncation: bool = False, keep_text: bool = False) -> dict[str, Any]:
        """Tokenize a sentence: input_ids [1, S] and attention_mask [1, S], with S = 0 for a blank sentence.

        With `keep_text` also its text, and for a sentence with required words the tokens of their forms: "text" [1] and
        "required" [1], arrays of objects.
        """
        if not isinstance(sentence, Sentence):
            check_text(sentence)
            sentence = Sentence(sentence, Replaced(sentence))
        text = sentence.model_input
        extra = {"text": boxed(text)} if keep_text else {}
        if sentence.required:
            extra["required"] = boxed([self._form_ids(forms, text) for forms in sentence.required])
        if not text.strip():
            no_ids = torch.zeros(1, 0, dtype=torch.long)
            return {"input_ids": no_ids, "attention_mask": no_ids, **extra}
        encoded = self.tokenizer(text, truncation=truncation, return_tensors="pt")
        return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"], **extra}

    def _form_ids(self, forms: Sequence[str], source: str) -> list[list[int]]:
        """Return the tokens of each form, also after the bracket or quote that precedes it in the source."""
        marks = [match[1] for form in forms for match in re.finditer(rf"([^\w\s]){re.escape(form)}", source)]
        spellings = dict.fromkeys([*forms, *(mark + form for mark in marks for form in forms)])
        return self.tokenizer(text_target=list(spellings), add_special_tokens=False)["input_ids"]

    # Ids to translations ---------------------------------------------------------------------------------------------

    def _forward(
        self, model_inputs: dict[str, Any], return_scores: bool = False, **generate_kwargs: Any
    ) -> dict[str, torch.Tensor | np.ndarray]:
        """Translate a batch of sentences, with the keys that `preprocess` gives.

        Returns "translations" [B, n, T], without start tokens; with `return_scores` "scores" [B, n]; and for sentences
        with their texts "alignments" [B, n], lists of pairs of spans. A blank sentence has padding and a score of 0.
        """
        texts, required = (model_inputs.pop(name, None) for name in ("text", "required"))
        if required is not None:
            generate_kwargs |= self._constrained_search(unboxed(required), generate_kwargs)
        n = self._setting("num_return_sequences", generate_kwargs) or 1
        has_text = model_inputs["attention_mask"].any(dim=-1)  # [B]
        translations = torch.full((len(has_text), n, 1), self.tokenizer.pad_token_id, device=has_text.device)
        scores = torch.zeros(len(has_text), n, device=has_text.device)
        if has_text.any():
            inputs = {name: x[has_text] for name, x in model_inputs.items()}
            sequences, search_scores = self._search(inputs, return_scores, generate_kwargs)
            translations = translations.repeat(1, 1, sequences.shape[1] - 1)
            translations[has_text] = sequences[:, 1:].unflatten(0, (-1, n))
            if search_scores is not None:
                scores[has_text] = search_scores.unflatten(0, (-1, n))
        outputs: dict[str, torch.Tensor | np.ndarray] = {"translations": translations}
        if return_scores:
            outputs["scores"] = scores
        if texts is not None:
            outputs["alignments"] = self._alignments(unboxed(texts), translations)
        return outputs

    def _constrained_search(self, required: np.ndarray, generate_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the settings of a search for translations with required words, given for each sentence: [B]."""
        return {
            "required_words": list(required),
            "joining_tokens": self.joining_tokens,
            "num_beams": max(self.constrained_beams(words, generate_kwargs) for words in required),
            "shortlist": None,
        }

    def constrained_beams(self, required: Sequence, generate_kwargs: dict[str, Any]) -> int:
        """Return how many beams the search for a translation with these words needs; 0 for a search without words."""
        beams = self._setting("num_beams", generate_kwargs) or 1
        return max(beams, len(required) + EXTRA_BEAMS) if required else 0

    @cached_property
    def joining_tokens(self) -> frozenset[int]:
        """The tokens that continue the word before them."""
        prefix = self.tokenizer(text_target="a", add_special_tokens=False)["input_ids"]
        start = len(self._decode(torch.tensor(prefix)))
        texts = self.tokenizer.batch_decode([[*prefix, i] for i in range(len(self.tokenizer))])
        return frozenset(i for i, text in enumerate(texts) if text[start : start + 1].isalnum())

    def _search(
        self, inputs: dict[str, torch.Tensor], return_scores: bool, generate_kwargs: dict[str, Any]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the sequences [B * n, 1 + T] that `generate` finds, and their scores [B * n] if asked for."""
        if return_scores:
            generate_kwargs = {**generate_kwargs, "return_dict_in_generate": True}
            if hasattr(self.model, "penalty_offset"):  # this package's model, which is faster without the cache
                generate_kwargs["return_cache"] = False
        output = self.model.generate(**inputs, **generate_kwargs)
        sequences = getattr(output, "sequences", output)
        return sequences, self._scores(inputs, output, generate_kwargs) if return_scores else None

    def _scores(self, inputs: dict[str, torch.Tensor], output: Any, generate_kwargs: dict[str, Any]) -> torch.Tensor:
        """Return log P divided by the length penalty for each sequence of an output of `generate`: [B * n]."""
        if getattr(output, "sequences_scores", None) is not None:
            return output.sequences_scores.to(torch.float32)
        # Greedy search has no scores, and the library's search only if it keeps every step's: run the model once more.
        n = len(output.sequences) // len(inputs["input_ids"])
        inputs = {name: x.repeat_interleave(n, dim=0) for name, x in inputs.items()}
        is_token = output.sequences[:, 1:] != self.tokenizer.pad_token_id
        log_probs = forced_log_probs(self.model, inputs, output.sequences).masked_fill(~is_token, 0.0).sum(dim=-1)
        alpha = self._setting("length_penalty", generate_kwargs)
        offset = 0.0  # the library's own penalty
        if hasattr(self.model, "penalty_offset"):
            offset = self.model.penalty_offset(generate_kwargs.get("generation_config"))
        return log_probs / length_penalty(is_token.sum(dim=-1), 1.0 if alpha is None else alpha, offset)

    def _alignments(self, texts: np.ndarray, translations: torch.Tensor) -> np.ndarray:
        """Return lists of pairs of spans [B, n], for texts [B] and translations [B, n, T]."""
        number = translations.shape[1]
        sources = [text for text in texts for _ in range(number)]
        targets = [self._decode(ids) for ids in translations.flatten(0, 1)]
        pairs = list(zip(sources, targets, strict=True))
        alignments = np.empty(len(pairs), dtype=object)
        for i, links in enumerate(align(self.model, self.tokenizer, pairs)):
            source_words, target_words = map(words, pairs[i])
            alignments[i] = [(source_words[j], target_words[k]) for j, k in links]
        return alignments.reshape(-1, number)

    # Translations to records -----------------------------------------------------------------------------------------

    def postprocess(
        self,
        model_outputs: dict[str, Any],
        return_tensors: bool = False,
        return_text: bool | None = None,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[dict[str, Any]]:
        """Return a record of each translation of one sentence, best first."""
        if return_text is None:
            return_text = not return_tensors
        records = []
        for i, ids in enumerate(model_outputs["translations"][0]):
            record: dict[str, Any] = {}
            if return_tensors:
                record["translation_token_ids"] = ids[ids != self.tokenizer.pad_token_id]
            if return_text:
                record["translation_text"] = self._decode(ids, clean_up_tokenization_spaces)
            if "scores" in model_outputs:
                record["score"] = model_outputs["scores"][0, i].item()
            if "alignments" in model_outputs:
                record["alignments"] = model_outputs["alignments"][0, i]
            records.append(record)
        return records

    def _decode(self, ids: torch.Tensor, clean_up_tokenization_spaces: bool | None = None) -> str:
        """Return the text of a translation [T]."""
        ids = ids[ids != self.tokenizer.pad_token_id]
        text = self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=clean_up_tokenization_spaces
        )
        return str(text)


def boxed(value: object) -> np.ndarray:
    """Return an array [1] of an object, which the library can put into a batch."""
    array = np.empty(1, dtype=object)
    array[0] = value
    return array


def unboxed(arrays: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
    """Return the objects of a batch, [B]; for a single sentence the library makes no list."""
    return arrays if isinstance(arrays, np.ndarray) else np.concatenate(arrays)


def check_text(text: object):
    """Refuse anything that is not a text.

    Raises:
        TypeError: it is not a string.
        ValueError: it is not valid Unicode.
    """
    if not isinstance(text, str):
        hint = " For a column of a data set use `KeyDataset(dataset, column)`." if isinstance(text, dict) else ""
        raise TypeError(f"TranslationPipeline translates strings, but got {type(text).__name__}.{hint}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"Invalid Unicode (a lone surrogate) at position {error.start} of a text.") from error
