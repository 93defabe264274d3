"""`pipeline("translation", ...)` for transformers 5, which has no such task of its own any more.

Saved models carry a copy of this file and name it in `config.json`, where `pipeline` looks first.
"""

from collections.abc import Iterable, Iterator, Sequence
from types import GeneratorType

import torch
from torch.utils.data import Dataset
from transformers import Pipeline, PreTrainedConfig

from .generation_vaswani import length_penalty


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
    lists of translations that reads only as far as it is read. Neither the order nor the translations depend on
    `batch_size`. A text that is empty or all whitespace translates to "" without the model being asked.

    Each of these arguments can be given when the pipeline is made or when it is called:

    Args:
        batch_size (`int`, defaults to 1): Texts that the model translates at once.
        return_scores (`bool`, defaults to `False`):
            Adds "score": log P / ((5 + length) / 6)^alpha, by which the paper's beam search ranks (section 6.1); with
            another number than 5 where `generation_config.json` has a `length_penalty_offset`.
        return_tensors (`bool`, defaults to `False`):
            Gives "translation_token_ids" (1-D, without start token and padding) instead of "translation_text".
        return_text (`bool`, defaults to `not return_tensors`): Gives "translation_text"; both can be asked for.
        clean_up_tokenization_spaces (`bool`, *optional*): Passed to the tokenizer's `decode`.
        truncation (`bool`, defaults to `False`):
            Cuts texts to the tokenizer's `model_max_length`. Nothing is cut unless asked for.
        **generate_kwargs: Passed to `model.generate`: `num_beams`, `num_return_sequences`, `max_new_tokens`, ...

    `device` and `dtype` (when the pipeline is made) move and cast the model.

    Raises:
        TypeError: a text is not a string.
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False

    def __init__(self, *args, dtype: str | torch.dtype = "auto", torch_dtype: str | torch.dtype = None, **kwargs):
        super().__init__(*args, **kwargs)
        dtype = torch_dtype if torch_dtype is not None else dtype
        if dtype not in (None, "auto"):
            self.model.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
        if getattr(self.model.config, "custom_pipelines", None):
            # `pipeline` has put classes in the place of their names, with which the configuration cannot be saved.
            self.name_in(self.model.config)

    @classmethod
    def name_in(cls, config: PreTrainedConfig):
        """Makes `config.json` say that `pipeline("translation", ...)` is the class in this file."""
        impl = f"{cls.__module__.rpartition('.')[-1]}.{cls.__name__}"
        config.custom_pipelines = {"translation": {"impl": impl, "pt": ["AutoModelForSeq2SeqLM"]}}

    def __call__(self, inputs: str | Iterable[str], **kwargs) -> list[dict] | list[list[dict]] | Iterator[list[dict]]:
        if isinstance(inputs, str) or not isinstance(inputs, Iterable | Dataset):
            return super().__call__(inputs, **kwargs)
        if isinstance(inputs, Sequence):
            results = super().__call__(list(inputs), **kwargs) if len(inputs) else []
            return [result[0] for result in results] if all(len(result) == 1 for result in results) else results
        if not isinstance(inputs, GeneratorType | Dataset):
            inputs = (text for text in inputs)
        return super().__call__(inputs, **kwargs)

    def _sanitize_parameters(
        self,
        truncation: bool | None = None,
        return_scores: bool | None = None,
        return_tensors: bool | None = None,
        return_text: bool | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        **generate_kwargs,
    ) -> tuple[dict, dict, dict]:
        def given(**parameters):
            return {name: value for name, value in parameters.items() if value is not None}

        return (
            given(truncation=truncation),
            given(return_scores=return_scores) | generate_kwargs,
            given(
                return_tensors=return_tensors,
                return_text=return_text,
                clean_up_tokenization_spaces=clean_up_tokenization_spaces,
            ),
        )

    def preprocess(self, text: str, truncation: bool = False) -> dict[str, torch.Tensor]:
        """A text -> input_ids [1, S] and attention_mask [1, S], with S = 0 where there is nothing to translate."""
        if not isinstance(text, str):
            hint = " For one column of a data set use `KeyDataset(dataset, column)`." if isinstance(text, dict) else ""
            raise TypeError(f"TranslationPipeline translates strings, but was given {type(text).__name__}.{hint}")
        if not text.strip():
            nothing = torch.zeros(1, 0, dtype=torch.long)
            return {"input_ids": nothing, "attention_mask": nothing}
        encoded = self.tokenizer(text, truncation=truncation, return_tensors="pt")
        return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}

    def _forward(
        self, model_inputs: dict[str, torch.Tensor], return_scores: bool = False, **generate_kwargs
    ) -> dict[str, torch.Tensor]:
        """Ids and mask [B, S] -> n translations of each text, [B, n, T], and their scores [B, n] if asked for."""
        pad_token_id = self.tokenizer.pad_token_id
        n = self._setting("num_return_sequences", generate_kwargs) or 1
        asked = model_inputs["attention_mask"].any(dim=-1)
        translations = torch.full((len(asked), n, 1), pad_token_id, device=asked.device)
        scores = torch.zeros(len(asked), n, device=asked.device)
        if asked.any():
            inputs = {name: x[asked] for name, x in model_inputs.items()}
            sequences = self.model.generate(**inputs, **generate_kwargs)
            sequences = getattr(sequences, "sequences", sequences)
            translations = translations.repeat(1, 1, sequences.shape[1] - 1)
            translations[asked] = sequences[:, 1:].unflatten(0, (-1, n))
            if return_scores:
                log_probs, lengths = self._log_probs(inputs, sequences)
                alpha = self._setting("length_penalty", generate_kwargs)
                offset = 0  # GenerationMixin's own
                if hasattr(self.model, "penalty_offset"):
                    offset = self.model.penalty_offset(generate_kwargs.get("generation_config"))
                penalty = length_penalty(lengths, 1.0 if alpha is None else alpha, offset)
                scores[asked] = (log_probs / penalty).unflatten(0, (-1, n))
        return {"translations": translations} | ({"scores": scores} if return_scores else {})

    def _setting(self, name: str, generate_kwargs: dict):
        """What `generate` goes by for `name`."""
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
                record["translation_text"] = self.tokenizer.decode(
                    ids, skip_special_tokens=True, clean_up_tokenization_spaces=clean_up_tokenization_spaces
                )
            if "scores" in model_outputs:
                record["score"] = model_outputs["scores"][0, i].item()
            records.append(record)
        return records


__all__ = ["TranslationPipeline"]
