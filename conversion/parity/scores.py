"""Compares scores, and describes the result of a comparison."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import torch

from vaswani_transformer import VaswaniForConditionalGeneration

from ..options import ConversionError
from .translations import ROUNDING, Verdicts


TOLERANCE = 1e-4  # largest difference of a score, in float32
# The same for models with large scores, as a part of the best one: there, rounding alone can exceed `TOLERANCE`.
RELATIVE_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Parity:
    """The comparison of a converted model with `against`, over `positions` target tokens of `sentences` sentences.

    The scores of tokens decide. Translations may differ even where these are equal, and are reported by their reason: a
    better one by the original's ranking, because toolkits differ in when they stop searching; one that the toolkit cut
    off at its length limit; one of two that score the same up to rounding; or another end of the search, with the
    scores of both translations.
    """

    against: str
    sentences: int
    positions: int
    max_difference: float
    best_tokens_agree: bool
    translations: int = 0
    translations_agree: int = 0
    translations_better: int = 0
    translations_at_limit: int = 0
    translations_rounded: int = 0
    translations_different: tuple[str, ...] = ()  # the scores of each
    not_compared: tuple[str, ...] = ()
    tolerance: float = TOLERANCE

    @property
    def holds(self) -> bool:
        return self.best_tokens_agree and self.max_difference < self.tolerance

    def with_translations(self, verdicts: Verdicts, not_compared: tuple[str, ...] = ()) -> "Parity":
        return replace(
            self,
            translations=verdicts.total(),
            translations_agree=verdicts["same"],
            translations_better=verdicts["better"],
            translations_at_limit=verdicts["at limit"],
            translations_rounded=verdicts["rounding"],
            translations_different=tuple(verdicts.different),
            not_compared=not_compared,
        )

    def __str__(self) -> str:
        parts = [
            f"{self.against}: largest difference {self.max_difference:.1e} over {self.positions:,} positions of "
            f"{self.sentences:,} sentences",
            f"best tokens {'the same' if self.best_tokens_agree else 'NOT the same'}",
        ]
        if self.translations:
            parts.append(f"{self.translations_agree} of {self.translations} translations the same")
        parts += [f"{count} {what}" for what, count in self.reported().items() if count]
        if self.translations_different:
            scores = "; ".join(self.translations_different[:3])
            parts.append(f"{len(self.translations_different)} different with equal scores of tokens ({scores})")
        return ", ".join(parts) + (f"; not compared: {', '.join(self.not_compared)}" if self.not_compared else "")

    def reported(self) -> dict[str, int]:
        """Counts the accepted differences of translations, by their reason."""
        return {
            "better by the original's ranking": self.translations_better,
            "different only because the original ended them at its length limit": self.translations_at_limit,
            "different only by rounding": self.translations_rounded,
        }

    def to_dict(self) -> dict:
        return asdict(self)


def tolerance(scores: torch.Tensor) -> float:
    """Returns the accepted difference of a model with such best scores."""
    return max(TOLERANCE, RELATIVE_TOLERANCE * float(scores.abs().max()))


@torch.no_grad()
def compare(
    model: VaswaniForConditionalGeneration,
    inputs: Mapping[str, torch.Tensor],
    scores: torch.Tensor,
    against: str,
    log_probs: bool = False,
) -> Parity:
    """Compares `scores` [N, T, V], the original's logits or log-probabilities for `inputs`, with the model's.

    Tokens added by conversion, such as padding, must have probability 0 and are not compared.

    Raises:
        ConversionError: `inputs` or `scores` belong to another model or are empty.
    """
    inputs = dict(inputs)
    check_shapes(model, inputs, scores)
    real = inputs.pop("decoder_attention_mask").bool()
    logits = model(**inputs, use_cache=False).logits.float()
    if (logits.softmax(dim=-1)[..., scores.shape[-1] :] > 0).any():
        raise ConversionError(f"The reference belongs to another model: it has scores of {scores.shape[-1]} tokens.")
    logits = logits[..., : scores.shape[-1]]
    accepted = tolerance(logits[real].max(dim=-1).values)
    if log_probs:
        logits, scores = logits.log_softmax(dim=-1), scores.log_softmax(dim=-1)
    logits, scores = logits[real], scores[real]  # [positions, V]
    # Rounding decides which of two tokens with equal scores is best.
    ours = scores.gather(-1, logits.argmax(dim=-1, keepdim=True))
    return Parity(
        against=against,
        sentences=len(real),
        positions=int(real.sum()),
        max_difference=float((logits - scores).abs().max()),
        best_tokens_agree=bool((scores.max(dim=-1, keepdim=True).values - ours <= ROUNDING).all()),
        tolerance=accepted,
    )


def check_shapes(model: VaswaniForConditionalGeneration, inputs: Mapping[str, torch.Tensor], scores: torch.Tensor):
    config, problems = model.config, []
    for side, size in (("", config.vocab_size), ("decoder_", config.decoder_vocab_size)):
        ids, mask = inputs[f"{side}input_ids"], inputs[f"{side}attention_mask"]
        if ids.dim() != 2 or ids.shape != mask.shape or not mask.any():
            problems.append(f"{side}input_ids {list(ids.shape)} with {side}attention_mask {list(mask.shape)}")
        elif not 0 <= int(ids.min()) <= int(ids.max()) < size:
            problems.append(f"{side}input_ids up to {int(ids.max())} of {size} tokens")
    expected = [*inputs["decoder_input_ids"].shape, config.decoder_vocab_size]
    if list(scores.shape[:-1]) != expected[:-1] or scores.shape[-1] > expected[-1]:
        problems.append(f"scores {list(scores.shape)} instead of {expected}")
    if len(inputs["input_ids"]) != len(inputs["decoder_input_ids"]):
        problems.append("different numbers of sources and targets")
    if problems:
        raise ConversionError.from_problems("The reference belongs to another model", problems)


def check_it_runs(model: VaswaniForConditionalGeneration):
    """Runs the model on a few tokens.

    Raises:
        ConversionError: it computes NaN or infinity.
    """
    config = model.config
    first = max(i for i in (config.pad_token_id, config.eos_token_id, 3) if i is not None) + 1
    source = torch.arange(first, first + 6)[None] % config.vocab_size
    if config.position_encoding == "learned":
        source = source[:, : max(config.max_position_embeddings - config.position_offset, 1)]
    logits = model(input_ids=source, decoder_input_ids=torch.full((1, 1), config.decoder_start_token_id)).logits
    if not logits.isfinite().all():
        raise ConversionError("The converted model computes NaN or infinity: the weights are damaged.")
