"""The result of every converter."""

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
    """A checkpoint of another toolkit, converted to our model.

    `weights` are float32 under the names of `VaswaniForConditionalGeneration`'s state dict, tied ones included. `facts`
    describe the origin, for the card. `tokenizer` is None if the source has none. `target_tokens` is the target
    vocabulary in the order of its ids, if it is known. `hint` says what to try if the comparison fails.
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
        """Records the checksums of `files` and the tokenizer's differences among the facts."""
        recorded = {"files": {file.name: sha256(file) for file in files}, **(facts or {})}
        if tokenizer is not None:
            recorded["tokenizer_differences"] = tokenizer.differences
        return cls(toolkit, config, weights, generation, tokenizer and tokenizer.tokenizer, facts=recorded, **more)

    def model(self) -> VaswaniForConditionalGeneration:
        """Builds the model, in float32 and evaluation mode.

        Raises:
            ConversionError: weights that the configuration ties differ.
        """
        model = VaswaniForConditionalGeneration(self.config)
        weights = dict(self.weights)
        for tied, name in model.all_tied_weights_keys.items():
            if tied in weights and not torch.equal(weights[tied], weights.setdefault(name, weights[tied])):
                raise ConversionError(f"The options say that {tied} and {name} are one matrix, but they differ.")
        model.load_state_dict(weights)
        model.generation_config = self.generation
        return model.eval()


def generation_config(config: VaswaniConfig, num_beams: int = 4, **settings) -> GenerationConfig:
    """Returns search settings: the ids of `config` and the toolkit's ranking as `settings`.

    Raises:
        ConversionError: `num_beams` is less than 1.
    """
    if num_beams < 1:
        raise ConversionError(f"Invalid beam size in the checkpoint: {num_beams} beams. It must be at least 1.")
    if num_beams == 1:  # transformers refuses to save settings of beam search for greedy search
        settings = {name: x for name, x in settings.items() if name not in ("length_penalty", "early_stopping")}
    ids = {name: getattr(config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    return GenerationConfig(num_beams=num_beams, **{"min_new_tokens": 1, **ids, **settings})


def language_facts(source: str | None, target: str | None) -> dict[str, str | None]:
    """The languages for the card; None for "src", "trg" and "tgt", which are only names of files."""
    named = {"source_language": source, "target_language": target}
    return {name: None if code in ("src", "trg", "tgt") else code for name, code in named.items()}


def by_mean_log_probability(config: VaswaniConfig) -> GenerationConfig:
    """fairseq's search, and our default: 4 beams ranked by log P / length, stopped once 4 hypotheses have ended."""
    return generation_config(config, length_penalty=1.0, length_penalty_offset=0, early_stopping=True)
