"""Run the model for the explorer: inspected translations, ablated heads, and texts longer than in training."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from ..inspection.heads import Ablation, Head, ablate_heads, check_heads
from ..inspection.inspection import Inspection, inspect_translation
from ..model.forced_vaswani import forced_log_probs
from ..model.hooks_vaswani import check_text
from .checkpoints import LoadedCheckpoint
from .responses import run_response, source_limit, trained_length


MAX_STORED = 16  # runs
MAX_STORED_BYTES = 256 << 20  # of their tensors; a big model on a long sentence needs about 60 MB
MAX_CONCURRENT = 2  # runs
PATIENCE = 10.0  # seconds that a request waits for its turn
TIME_LIMIT = 20.0  # seconds for a search
MAX_COPIES = 8  # of a sentence, for lengths beyond those in training
MAX_REPEATED_TOKENS = 400  # in all copies together


class Busy(RuntimeError):
    """Too many runs are in progress."""


class Expired(LookupError):
    """The tensors of this run are no longer available."""


class Refused(ValueError):
    """The request cannot be served; the message says why and what to do."""


@dataclass(frozen=True)
class Key:
    """The settings of a run. Runs with equal keys have equal results."""

    checkpoint: str
    text: str
    beams: int
    alpha: float
    off: tuple[Head, ...] = ()
    causal: bool = True


class Runs:
    """Runs the model, at most twice at a time, and stores the latest runs.

    Args:
        patience: Seconds that a request waits for its turn.
        time_limit: Seconds for a search.
    """

    def __init__(self, patience: float = PATIENCE, time_limit: float = TIME_LIMIT):
        self.turns = threading.BoundedSemaphore(MAX_CONCURRENT)
        self.patience, self.time_limit = patience, time_limit
        self.stored: OrderedDict[str, tuple[Inspection, Key]] = OrderedDict()
        self.lock = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, and give it back after the block.

        Raises:
            Busy: No turn was free within `patience` seconds.
        """
        if not self.turns.acquire(timeout=self.patience):
            raise Busy("The server is busy with two other runs. Retry in a few seconds.")
        try:
            yield
        finally:
            self.turns.release()

    def store(self, run: Inspection, key: Key) -> str:
        """Store a run and return its new id. Drops the oldest runs if there are too many or they are too large."""
        run_id = secrets.token_hex(8)
        with self.lock:
            self.stored[run_id] = run, key
            while len(self.stored) > 1 and (len(self.stored) > MAX_STORED or self.size() > MAX_STORED_BYTES):
                self.stored.popitem(last=False)
        return run_id

    def size(self) -> int:
        """Return the size of all stored tensors in bytes."""
        return sum(tensor.nbytes for run, _ in self.stored.values() for tensor in run.tensors.values())

    def tensors(self, run_id: str) -> dict[str, torch.Tensor]:
        """Return the tensors of a run, by name.

        Raises:
            Expired: The run is unknown or no longer stored.
        """
        with self.lock:
            run, _ = self.stored.get(run_id, (None, None))
        if run is None:
            raise Expired("The tensors of this run are no longer available. Translate the sentence again.")
        return run.tensors

    def inspect(self, checkpoint: LoadedCheckpoint, key: Key) -> Inspection:
        """Return the stored run with this key, or run the model."""
        with self.lock:
            for run_id, (run, run_key) in self.stored.items():
                if run_key == key:
                    self.stored.move_to_end(run_id)
                    return run
        return inspect_translation(
            checkpoint.model, checkpoint.tokenizer, key.text, key.beams, key.alpha, key.off, key.causal, self.time_limit
        )

    # Responses -------------------------------------------------------------------------------------------------------

    def run(
        self,
        checkpoint: LoadedCheckpoint,
        text: str,
        beams: int | None = None,
        alpha: float | None = None,
        off: Sequence[Head] = (),
        causal: bool = True,
    ) -> dict[str, Any]:
        """Translate a text and describe the run; with heads off or without the mask, also the run of the whole model.

        Raises:
            Refused: The text is empty, too long or has characters outside the vocabulary, or a head does not exist.
            Busy: No turn was free.
            TimeoutError: The search took too long.
        """
        whole_key = whole_model_key(checkpoint, text, beams, alpha)
        key = replace(whole_key, off=tuple(off), causal=causal)
        check_request(checkpoint, key)
        with self.turn():
            run = self.inspect(checkpoint, key)
            before = self.inspect(checkpoint, whole_key) if key != whole_key else None
        request = {**asdict(key), "off": [list(head) for head in off]}
        response = run_response(checkpoint, self.store(run, key), request, run)
        return response if before is None else response | {"changes": changes_response(before)}

    def heads(
        self, checkpoint: LoadedCheckpoint, text: str, beams: int | None = None, alpha: float | None = None
    ) -> list[dict[str, Any]]:
        """Switch off each head in turn: describe the new translation, and the log P of the original one.

        For speed, all searches use one beam, including that of the whole model to which they are compared.
        """
        key = whole_model_key(checkpoint, text, beams, alpha)
        check_request(checkpoint, key)
        with self.turn():
            original = self.inspect(checkpoint, key)
            ids = original.source_ids, original.target_ids
            whole, *ablations = ablate_heads(checkpoint.model, *ids, num_beams=1, max_time=self.time_limit)
        whole_text = decode(checkpoint, whole)
        return [ablation_response(checkpoint, ablation, whole_text) for ablation in ablations]

    def beyond(
        self, checkpoint: LoadedCheckpoint, text: str, beams: int | None = None, alpha: float | None = None
    ) -> dict[str, Any]:
        """Repeat the sentence and its translation 1 to 8 times; return the log-probability of each target token."""
        key = whole_model_key(checkpoint, text, beams, alpha)
        check_request(checkpoint, key)
        with self.turn():
            return beyond_response(checkpoint, self.inspect(checkpoint, key))


def whole_model_key(
    checkpoint: LoadedCheckpoint, text: str, beams: int | None = None, alpha: float | None = None
) -> Key:
    """Return the key of a run with all heads and the mask. Settings that are None come from the checkpoint."""
    generation = checkpoint.model.generation_config
    if alpha is None:
        alpha = 1.0 if generation.length_penalty is None else generation.length_penalty
    return Key(checkpoint.name, text, beams or generation.num_beams or 1, alpha)


def check_request(checkpoint: LoadedCheckpoint, key: Key):
    """Check that the page can show the run with this key.

    Raises:
        Refused: The text is empty, too long or has characters outside the vocabulary, or a head does not exist.
    """
    if not key.text.strip():
        raise Refused("The text is empty. Type a sentence.")
    try:
        check_text(key.text)
        length = len(checkpoint.tokenizer(key.text)["input_ids"])
    except ValueError as error:
        raise Refused("The text has characters outside this checkpoint's vocabulary. Remove them.") from error
    if length > (limit := source_limit(checkpoint)):
        raise Refused(f"The text has {length:,} tokens; the page shows at most {limit}. Shorten the text.")
    try:
        check_heads(checkpoint.model, key.off)
    except ValueError as error:
        raise Refused(str(error)) from error


def ablation_response(checkpoint: LoadedCheckpoint, ablation: Ablation, whole_text: str) -> dict[str, Any]:
    """Describe the effect of one head. `whole_text` is the whole model's translation with the same number of beams."""
    text = decode(checkpoint, ablation)
    return dict(zip(("stack", "kind", "layer", "head"), ablation.head or (), strict=True)) | {
        "text": text,
        "score": ablation.score,
        "log_prob_of_original": ablation.log_prob_of_original,
        "changed": text != whole_text,
    }


def changes_response(before: Inspection) -> dict[str, Any]:
    return {"text_before": before.translation, "score_before": before.score, "log_prob_before": before.log_prob}


def decode(checkpoint: LoadedCheckpoint, ablation: Ablation) -> str:
    return str(checkpoint.tokenizer.decode(ablation.target_ids.tolist(), skip_special_tokens=True))


def beyond_response(checkpoint: LoadedCheckpoint, run: Inspection) -> dict[str, Any]:
    """Return the log-probability of each target token in 1 to 8 copies.

    Stops at 400 tokens, or at the end of learned positions.
    """
    model = checkpoint.model
    max_length = model.config.longest_sequence
    response: dict[str, Any] = {
        "trained_length": trained_length(checkpoint),
        "points": [],
    }
    for copies in range(1, MAX_COPIES + 1):
        source = repeat_ids(run.source_ids, copies, model.generation_config.eos_token_id)
        target = repeat_ids(run.target_ids, copies, model.generation_config.eos_token_id, first=1)
        length = max(source.shape[1], target.shape[1] - 1)
        if max_length is not None and length > max_length:
            response["problem"] = (
                f"This checkpoint has learned positions for only {max_length} tokens; longer texts cannot be shown."
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


def repeat_ids(ids: torch.Tensor, copies: int, end_ids: int | list[int] | None, first: int = 0) -> torch.Tensor:
    """Repeat ids [1, T] `copies` times, except for the `first` ones and the end token: [1, about copies * T]."""
    is_ended = int(ids[0, -1]) in (end_ids if isinstance(end_ids, list) else [end_ids])
    last = ids.shape[1] - is_ended
    return torch.cat((ids[:, :first], ids[:, first:last].repeat(1, copies), ids[:, last:]), dim=1)
