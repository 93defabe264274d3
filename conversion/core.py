"""What every converter makes, and how it is refused or written."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import GenerationConfig, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration


class ConversionError(ValueError):
    """A checkpoint cannot be converted as it is; the message says why, all of it, and what can be done."""

    @classmethod
    def of(cls, what: str, problems: Iterable[str], shown: int = 12) -> "ConversionError":
        problems = list(problems)
        more = [f"and {len(problems) - shown} more"] if len(problems) > shown else []
        return cls(f"{what}: {'; '.join([*problems[:shown], *more])}.")


@dataclass
class Converted:
    """A checkpoint as it is here.

    `weights` are float32 under the names of `VaswaniForConditionalGeneration`'s state dict, tied ones included, and
    `facts` is what its card says about where it comes from. `tokenizer` is None where the source has none;
    `target_tokens` are the target vocabulary in the order of its ids, where it is known.
    """

    toolkit: str
    config: VaswaniConfig
    weights: Mapping[str, torch.Tensor]
    generation: GenerationConfig
    tokenizer: PreTrainedTokenizerBase | None = None
    target_tokens: Sequence[str] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def model(self) -> VaswaniForConditionalGeneration:
        """In float32 and evaluation mode.

        Raises:
            ConversionError: weights that the configuration ties are not the same.
        """
        model = VaswaniForConditionalGeneration(self.config)
        weights = dict(self.weights)
        for tied, kept in model.all_tied_weights_keys.items():
            if tied in weights and not torch.equal(weights[tied], weights.setdefault(kept, weights[tied])):
                raise ConversionError(f"The options say that {tied} and {kept} are one matrix, but they differ.")
        model.load_state_dict(weights)
        model.generation_config = self.generation
        return model.eval()


class Options:
    """The options of a checkpoint, as its toolkit recorded them, read so that none is overlooked.

    `take` gives an option's value; `refuse` notes what is not supported. `finish` raises for all of it at once.
    """

    def __init__(self, values: Mapping[str, Any], toolkit: str):
        self.values, self.toolkit = values, toolkit
        self.problems: list[str] = []

    def take(self, name: str, default: Any = None) -> Any:
        value = self.values.get(name)
        return default if value is None else value

    def refuse(self, problem: str):
        self.problems.append(problem)

    def only(self, name: str, *allowed: Any, default: Any = None):
        """Notes a value of `name` that is none of `allowed`; `default` is what the toolkit takes where it is unset."""
        value = self.take(name, default)
        if value not in allowed:
            self.refuse(f"{name}={value!r} (supported: {', '.join(map(repr, allowed))})")

    def off(self, *names: str):
        """Notes what is set of `names`."""
        for name in names:
            if self.take(name):
                self.refuse(f"{name}={self.take(name)!r} (supported: unset)")

    def choice(self, name: str, table: Mapping[Any, Any], default: Any = None) -> Any:
        """Our word for the toolkit's value of `name`; one without such a word is noted."""
        value = self.take(name, default)
        if value not in list(table):  # a list, for files may hold what cannot be hashed
            self.refuse(f"{name}={value!r} (supported: {', '.join(map(repr, table))})")
            return next(iter(table.values()))
        return table[value]

    def finish(self):
        """Raises:
        ConversionError: something was refused; the message names all of it.
        """
        if self.problems:
            raise ConversionError.of(f"This {self.toolkit} model uses what is not supported here", self.problems, 99)

    def config(self, **settings) -> VaswaniConfig:
        """The configuration, where nothing was refused.

        Raises:
            ConversionError: something was, or the settings are of no model that can be.
        """
        self.finish()
        try:
            config = VaswaniConfig(**settings)
            for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
                if not isinstance(i := getattr(config, name), int) or not 0 <= i < config.decoder_vocab_size:
                    raise ValueError(f"{name} is {i!r}, not the id of a token")
        except (StrictDataclassError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise ConversionError(
                f"The options of this {self.toolkit} model are of no possible model: {reason}"
            ) from None
        return config


def generation_config(config: VaswaniConfig, num_beams: int = 4, **settings) -> GenerationConfig:
    """With the ids of `config`, and the toolkit's own way of ranking as `settings`.

    Raises:
        ConversionError: there are no beams.
    """
    if num_beams < 1:
        raise ConversionError(f"A search with {num_beams} beams finds nothing; it needs at least one.")
    if num_beams == 1:  # how to rank what beams find cannot be saved without them
        settings = {name: x for name, x in settings.items() if name not in ("length_penalty", "early_stopping")}
    ids = {name: getattr(config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    return GenerationConfig(num_beams=num_beams, **{"min_new_tokens": 1, **ids, **settings})
