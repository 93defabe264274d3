"""The runs that the explorer makes: a translation looked at, each head off by itself, lengths beyond training."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..inspection import Head, Inspection, inspect_translation, log_probs_of, twin_of, without_heads
from .answers import run_answer, source_limit
from .opened import Opened


KEPT = 16  # runs whose tensors can still be fetched
AT_ONCE = 2  # runs that compute at the same time
PATIENCE = 10.0  # seconds that a request waits for its turn
TIME_LIMIT = 20.0  # seconds that one search may take


class Busy(RuntimeError):
    """Too many runs are being computed."""


class Refused(ValueError):
    """A request that cannot be answered; the message says why and what to do."""


class Runs:
    """Makes runs, at most two at once, and keeps the last ones."""

    def __init__(self, patience: float = PATIENCE, time_limit: float = TIME_LIMIT):
        self.turns = threading.BoundedSemaphore(AT_ONCE)
        self.patience, self.time_limit = patience, time_limit
        self.kept: OrderedDict[str, Inspection] = OrderedDict()
        self.keeping = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for a turn to compute.

        Raises:
            Busy: there was none for too long.
        """
        if not self.turns.acquire(timeout=self.patience):
            raise Busy("Two other runs are being computed: try again in a few seconds.")
        try:
            yield
        finally:
            self.turns.release()

    def keep(self, run: Inspection) -> str:
        """Keeps a run under a new id, and forgets the oldest."""
        run_id = secrets.token_hex(8)
        with self.keeping:
            self.kept[run_id] = run
            while len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        return run_id

    def tensors(self, run_id: str) -> dict[str, torch.Tensor]:
        """The tensors of a run.

        Raises:
            LookupError: it is not kept, or no longer.
        """
        with self.keeping:
            run = self.kept.get(run_id)
        if run is None:
            raise LookupError("The tensors of this run are no longer kept: translate the sentence again.")
        return run.tensors

    def run(
        self,
        opened: Opened,
        text: str,
        beams: int | None = None,
        alpha: float | None = None,
        off: list[Head] | None = None,
        causal: bool = True,
    ) -> dict[str, Any]:
        """A translation and how it came about; with heads off or without the mask, also what the plain run gave."""
        generation, off = opened.model.generation_config, off or []
        beams = beams or generation.num_beams or 1
        alpha = alpha if alpha is not None else generation.length_penalty
        settings = {"num_beams": beams, "length_penalty": alpha}
        with self.turn():
            run = self.inspect(opened, text, **settings, off=off, causal=causal)
            plain = self.inspect(opened, text, **settings) if off or not causal else None
            leak = None if causal else leak_answer(opened, run, off)
        off_answer = [list(head) for head in off]
        request = {"checkpoint": opened.name, "text": text, **{"beams": beams, "alpha": alpha}}
        request |= {"off": off_answer, "causal": causal}
        answer = run_answer(opened, self.keep(run), request, run) | {"leak": leak}
        if plain is not None:
            answer["changes"] = {
                "text_before": plain.translation,
                "score_before": plain.score,
                "log_prob_before": plain.log_prob,
            }
        return answer

    def inspect(self, opened: Opened, text: str, **settings: Any) -> Inspection:
        """One inspection; refuses a text that is empty or too long, and heads that do not exist."""
        check_text(opened, text)
        try:
            return inspect_translation(opened.model, opened.tokenizer, text, max_time=self.time_limit, **settings)
        except ValueError as error:
            raise Refused(str(error)) from error


def leak_answer(opened: Opened, run: Inspection, off: list[Head]) -> dict[str, Any]:
    """The log-probabilities of a run without the mask, and of the same translation with it."""
    twin = twin_of(opened.model)
    with without_heads(twin, off):
        before = log_probs_of(twin, run.source_ids, run.target_ids)[0]
    return {"log_probs_before": before.tolist(), "log_probs": run.log_probs.tolist()}


def check_text(opened: Opened, text: str):
    """Refuses an empty text, and one with more tokens than can be shown."""
    if not text.strip():
        raise Refused("There is no text to translate: type a sentence.")
    length, limit = len(opened.tokenizer(text)["input_ids"]), source_limit(opened)
    if length > limit:
        raise Refused(f"The text has {length:,} tokens, and at most {limit} can be shown: give a shorter one.")
