"""What every converter returns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from .files.folders import sha256
from .options import ConversionError
from .segmentation import ConvertedTokenizer


@dataclass
class Converted:
    """A checkpoint of another toolkit as a model of ours.

    `weights` are float32 under the names of `VaswaniForConditionalGeneration`'s state dict, tied ones included. `facts`
    is what the card says about the origin. `tokenizer` is None if the source has none. `target_tokens` is the target
    vocabulary in the order of its ids, if it is known. `hint` says what to try if the model turns out to be another.
    """

    toolkit: str
    config: VaswaniConfig
    weights: Mapping[str, torch.Tensor]
    generation: GenerationConfig
    tokenizer: PreTrainedTokenizerBase | None = None
    target_tokens: Sequence[str] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    hint: str = ""

    @classmethod
    def from_checkpoint(
        cls,
        toolkit: str,
        config: VaswaniConfig,
        weights: Mapping[str, torch.Tensor],
        generation: GenerationConfig,
        tokenizer: ConvertedTokenizer | None = None,
        files: Iterable[Path] = (),
        facts: Mapping[str, Any] | None = None,
        **more,
    ) -> "Converted":
        """With the checksums of the `files` that were read, and the tokenizer's differences, among the facts."""
        recorded = {"files": {file.name: sha256(file) for file in files}, **(facts or {})}
        if tokenizer is not None:
            recorded["tokenizer_differences"] = tokenizer.differences
        return cls(toolkit, config, weights, generation, tokenizer and tokenizer.tokenizer, facts=recorded, **more)

    def model(self) -> VaswaniForConditionalGeneration:
        """In float32 and evaluation mode.

        Raises:
            ConversionError: weights that the configuration ties are not the same.
        """
        model = VaswaniForConditionalGeneration(self.config)
        weights = dict(self.weights)
        for tied, name in model.all_tied_weights_keys.items():
            if tied in weights and not torch.equal(weights[tied], weights.setdefault(name, weights[tied])):
                raise ConversionError(f"According to the options, {tied} and {name} are one matrix, but they differ.")
        model.load_state_dict(weights)
        model.generation_config = self.generation
        return model.eval()


def generation_config(config: VaswaniConfig, num_beams: int = 4, **settings) -> GenerationConfig:
    """The ids of `config`, and the toolkit's own way of ranking as `settings`.

    Raises:
        ConversionError: there are no beams.
    """
    if num_beams < 1:
        raise ConversionError(f"The checkpoint asks for a search with {num_beams} beams; it needs at least one.")
    if num_beams == 1:  # transformers does not save the settings of beam search without beams
        settings = {name: x for name, x in settings.items() if name not in ("length_penalty", "early_stopping")}
    ids = {name: getattr(config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    return GenerationConfig(num_beams=num_beams, **{"min_new_tokens": 1, **ids, **settings})


def language_facts(source: str | None, target: str | None) -> dict[str, str | None]:
    """Facts for the card. Those called "src", "trg" or "tgt" are names of files only."""
    named = {"source_language": source, "target_language": target}
    return {name: None if code in ("src", "trg", "tgt") else code for name, code in named.items()}


def by_mean_log_probability(config: VaswaniConfig) -> GenerationConfig:
    """4 beams ranked by log P / length, stopped once as many hypotheses have ended: fairseq's search, and a default."""
    return generation_config(config, length_penalty=1.0, length_penalty_offset=0, early_stopping=True)
