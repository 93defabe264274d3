"""The explorer's runs of the model: inspected translations, ablations of heads, texts longer than in training."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import sacrebleu
import torch

from ..inspection.heads import Ablation, Head, ablate_heads, check_heads, head_names
from ..inspection.inspection import Inspection, inspect_translation
from ..model.beam_search_vaswani import length_penalty
from ..model.forced_vaswani import forced_log_probs
from .checkpoints import LoadedCheckpoint
from .responses import run_response, source_limit


MAX_KEPT = 16  # runs whose tensors stay available
MAX_KEPT_BYTES = 256 << 20  # of these tensors; a run of a big model on a long sentence has about 60 MB
MAX_CONCURRENT = 2  # runs
PATIENCE = 10.0  # seconds that a request waits for its turn
TIME_LIMIT = 20.0  # seconds for a search
MAX_COPIES = 8  # of a sentence, to go beyond the lengths in training
MAX_REPEATED_TOKENS = 400  # of all copies together


class Busy(RuntimeError):
    """Too many runs are in progress."""


class Forgotten(LookupError):
    """The tensors of this run are no longer available."""


class Refused(ValueError):
    """The request cannot be served; the message says why and what to do."""


@dataclass(frozen=True)
class Key:
    """The settings of a run: runs with equal keys are equal."""

    checkpoint: str
    text: str
    beams: int
    alpha: float
    off: tuple[Head, ...] = ()
    causal: bool = True


class Runs:
    """Runs the model, at most twice at a time, and keeps the latest runs."""

    def __init__(self, patience: float = PATIENCE, time_limit: float = TIME_LIMIT):
        self.turns = threading.BoundedSemaphore(MAX_CONCURRENT)
        self.patience, self.time_limit = patience, time_limit
        self.kept: OrderedDict[str, tuple[Inspection, Key]] = OrderedDict()
        self.keeping = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn to compute.

        Raises:
            Busy: All turns were taken for `patience` seconds.
        """
        if not self.turns.acquire(timeout=self.patience):
            raise Busy("The server is busy with two other runs. Retry in a few seconds.")
        try:
            yield
        finally:
            self.turns.release()

    def keep(self, run: Inspection, key: Key) -> str:
        """Keep a run under a new id, and drop the oldest ones if there are too many or they are too large."""
        run_id = secrets.token_hex(8)
        with self.keeping:
            self.kept[run_id] = run, key
            while len(self.kept) > 1 and (len(self.kept) > MAX_KEPT or self.size() > MAX_KEPT_BYTES):
                self.kept.popitem(last=False)
        return run_id

    def size(self) -> int:
        """The size of all kept tensors in bytes."""
        return sum(tensor.nbytes for run, _ in self.kept.values() for tensor in run.tensors.values())

    def tensors(self, run_id: str) -> dict[str, torch.Tensor]:
        """The tensors of a run, by name.

        Raises:
            Forgotten: The run is unknown, or no longer kept.
        """
        with self.keeping:
            run, _ = self.kept.get(run_id, (None, None))
        if run is None:
            raise Forgotten("The tensors of this run are no longer available. Translate the sentence again.")
        return run.tensors

    def inspect(self, checkpoint: LoadedCheckpoint, key: Key) -> Inspection:
        """Return the kept run of this key, or run the model."""
        with self.keeping:
            for run_id, (run, run_key) in self.kept.items():
                if run_key == key:
                    self.kept.move_to_end(run_id)
                    return run
        return inspect_translation(
            checkpoint.model, checkpoint.tokenizer, key.text, key.beams, key.alpha, key.off, key.causal, self.time_limit
        )

    # Answers ---------------------------------------------------------------------------------------------------------

    def run(
        self,
        checkpoint: LoadedCheckpoint,
        text: str,
        beams: int | None = None,
        alpha: float | None = None,
        off: Sequence[Head] = (),
        causal: bool = True,
    ) -> dict[str, Any]:
        """Translate a text and describe the run; with heads off or without the mask, compare it with the plain run."""
        plain_key = plain(checkpoint, text, beams, alpha)
        key = replace(plain_key, off=tuple(off), causal=causal)
        check(checkpoint, key)
        with self.turn():
            run = self.inspect(checkpoint, key)
            before = self.inspect(checkpoint, plain_key) if key != plain_key else None
        request = {**asdict(key), "off": [list(head) for head in off]}
        response = run_response(checkpoint, self.keep(run, key), request, run)
        return response if before is None else response | {"changes": changes_response(before)}

    def each_off(self, checkpoint: LoadedCheckpoint, text: str) -> dict[str, dict[str, Any]]:
        """The translation without each head, by the head's dotted name, from one batched search."""
        key = plain(checkpoint, text)
        check(checkpoint, key)
        with self.turn():
            original = self.inspect(checkpoint, key)
            ids = original.source_ids, original.target_ids
            heads, settings = head_names(checkpoint.model), (key.beams, key.alpha)
            ablations = ablate_heads(checkpoint.model, *ids, *settings, heads=heads, max_time=self.time_limit)
        return {
            ".".join(map(str, ablation.head or ())): off_response(checkpoint, key, original, ablation)
            for ablation in ablations
        }

    def heads(
        self, checkpoint: LoadedCheckpoint, text: str, beams: int | None = None, alpha: float | None = None
    ) -> list[dict[str, Any]]:
        """Switch off each head in turn: the log P of the plain run's translation, and the translation without the head.

        For speed all these searches use one beam, also that of the whole model, with which they are compared.
        """
        key = plain(checkpoint, text, beams, alpha)
        check(checkpoint, key)
        with self.turn():
            original = self.inspect(checkpoint, key)
            ids = original.source_ids, original.target_ids
            whole, *ablations = ablate_heads(checkpoint.model, *ids, num_beams=1, max_time=self.time_limit)
        text_of_whole = text_of(checkpoint, whole)
        return [ablation_response(checkpoint, ablation, text_of_whole) for ablation in ablations]

    def beyond(
        self, checkpoint: LoadedCheckpoint, text: str, beams: int | None = None, alpha: float | None = None
    ) -> dict[str, Any]:
        """Repeat the sentence and its translation 1 to 8 times: the log-probability of each target token."""
        key = plain(checkpoint, text, beams, alpha)
        check(checkpoint, key)
        with self.turn():
            return beyond_response(checkpoint, self.inspect(checkpoint, key))


def plain(checkpoint: LoadedCheckpoint, text: str, beams: int | None = None, alpha: float | None = None) -> Key:
    """The key of a run with all heads and the mask; settings that are None come from the checkpoint."""
    generation = checkpoint.model.generation_config
    if alpha is None:
        alpha = 1.0 if generation.length_penalty is None else generation.length_penalty
    return Key(checkpoint.name, text, beams or generation.num_beams or 1, alpha)


def check(checkpoint: LoadedCheckpoint, key: Key):
    """Check a request.

    Raises:
        Refused: The text is empty, too long or has characters outside the vocabulary, or a head does not exist.
    """
    if not key.text.strip():
        raise Refused("The text is empty. Type a sentence.")
    try:
        length = len(checkpoint.tokenizer(key.text)["input_ids"])
    except ValueError as error:
        raise Refused("The text has characters that are not in this checkpoint's vocabulary. Remove them.") from error
    if length > (limit := source_limit(checkpoint)):
        raise Refused(f"The text has {length:,} tokens; the page shows at most {limit}. Shorten the text.")
    try:
        check_heads(checkpoint.model, key.off)
    except ValueError as error:
        raise Refused(str(error)) from error


def ablation_response(checkpoint: LoadedCheckpoint, ablation: Ablation, whole: str) -> dict[str, Any]:
    """Describe the effect of one head; `whole` is the translation by all heads with as many beams."""
    text = text_of(checkpoint, ablation)
    return dict(zip(("stack", "kind", "layer", "head"), ablation.head or (), strict=True)) | {
        "text": text,
        "score": ablation.score,
        "log_prob_of_original": ablation.log_prob_of_original,
        "chrf_to_original": sacrebleu.sentence_chrf(text, [whole]).score,
        "changed": text != whole,
    }


def off_response(checkpoint: LoadedCheckpoint, key: Key, original: Inspection, ablation: Ablation) -> dict[str, Any]:
    """Describe a run without one head, as far as the page shows it."""
    penalty = length_penalty(len(ablation.target_ids) - 1, key.alpha, checkpoint.model.penalty_offset())
    return {
        "request": {**asdict(key), "off": [list(ablation.head or ())]},
        "target": {"text": text_of(checkpoint, ablation)},
        "score": ablation.score,
        "log_prob": ablation.score * penalty,
        "changes": changes_response(original),
    }


def changes_response(before: Inspection) -> dict[str, Any]:
    return {"text_before": before.translation, "score_before": before.score, "log_prob_before": before.log_prob}


def text_of(checkpoint: LoadedCheckpoint, ablation: Ablation) -> str:
    return str(checkpoint.tokenizer.decode(ablation.target_ids.tolist(), skip_special_tokens=True))


def beyond_response(checkpoint: LoadedCheckpoint, run: Inspection) -> dict[str, Any]:
    """The log-probability of each target token for 1 to 8 copies, up to 400 tokens or the end of learned positions."""
    model = checkpoint.model
    longest = model.config.longest_sequence
    response: dict[str, Any] = {
        "trained_length": checkpoint.about.max_length if checkpoint.about else None,
        "points": [],
    }
    for copies in range(1, MAX_COPIES + 1):
        source = repeated(run.source_ids, copies, model.generation_config.eos_token_id)
        target = repeated(run.target_ids, copies, model.generation_config.eos_token_id, first=1)
        length = max(source.shape[1], target.shape[1] - 1)
        if longest is not None and length > longest:
            response["problem"] = (
                f"The learned positions of this checkpoint end at {longest}, so longer texts cannot be shown."
            )
            break
        if copies > 1 and length > MAX_REPEATED_TOKENS:
            break
        inputs = {"input_ids": source.to(model.device)}
        log_probs = forced_log_probs(model, inputs, target.to(model.device))[0].tolist()
        response["points"] += [
            {"copies": copies, "position": position, "log_prob": value} for position, value in enumerate(log_probs)
        ]
    return response


def repeated(ids: torch.Tensor, copies: int, ends: int | list[int] | None, first: int = 0) -> torch.Tensor:
    """Repeat the ids [1, T] `copies` times, apart from the `first` ones and the end token: [1, about copies * T]."""
    is_ended = int(ids[0, -1]) in (ends if isinstance(ends, list) else [ends])
    last = ids.shape[1] - is_ended
    return torch.cat((ids[:, :first], ids[:, first:last].repeat(1, copies), ids[:, last:]), dim=1)
