"""The runs that the explorer makes: a translation looked at, each head off by itself, lengths beyond training."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import sacrebleu
import torch

from ..inspection.heads import Ablation, Head, ablate_heads, check_heads, head_names, log_probs_of
from ..inspection.inspection import Inspection, inspect_translation
from ..model.beam_search_vaswani import length_penalty
from .answers import run_answer, source_limit
from .opened import Opened


KEPT = 16  # runs whose tensors can still be fetched
KEPT_BYTES = 256 << 20  # that they may have together: a big model with a long sentence has some 60 MB
AT_ONCE = 2  # runs that compute at the same time
PATIENCE = 10.0  # seconds that a request waits for its turn
TIME_LIMIT = 20.0  # seconds that one search may take
COPIES = 8  # of a sentence, to see how a model does beyond the lengths that it was trained on
LONGEST_BEYOND = 400  # tokens that they may have together


class Busy(RuntimeError):
    """Too many runs are being computed."""


class Forgotten(LookupError):
    """A run whose tensors are not kept, or no longer."""


class Refused(ValueError):
    """A request that cannot be answered; the message says why and what to do."""


@dataclass(frozen=True)
class Key:
    """What makes two runs the same."""

    checkpoint: str
    text: str
    beams: int
    alpha: float
    off: tuple[Head, ...] = ()
    causal: bool = True


class Runs:
    """Makes runs, at most two at once, and keeps the last ones."""

    def __init__(self, patience: float = PATIENCE, time_limit: float = TIME_LIMIT):
        self.turns = threading.BoundedSemaphore(AT_ONCE)
        self.patience, self.time_limit = patience, time_limit
        self.kept: OrderedDict[str, tuple[Inspection, Key]] = OrderedDict()
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

    def keep(self, run: Inspection, key: Key) -> str:
        """Keeps a run under a new id, and forgets the oldest where there are too many or they are too large."""
        run_id = secrets.token_hex(8)
        with self.keeping:
            self.kept[run_id] = run, key
            while len(self.kept) > 1 and (len(self.kept) > KEPT or self.size() > KEPT_BYTES):
                self.kept.popitem(last=False)
        return run_id

    def size(self) -> int:
        """Bytes of the tensors that are kept."""
        return sum(tensor.nbytes for run, _ in self.kept.values() for tensor in run.tensors.values())

    def tensors(self, run_id: str) -> dict[str, torch.Tensor]:
        """The tensors of a run.

        Raises:
            Forgotten: it is not kept, or no longer.
        """
        with self.keeping:
            run, _ = self.kept.get(run_id, (None, None))
        if run is None:
            raise Forgotten("The tensors of this run are no longer kept: translate the sentence again.")
        return run.tensors

    def inspect(self, opened: Opened, key: Key) -> Inspection:
        """The run of this key, one that is kept or a new one."""
        with self.keeping:
            for run_id, (run, other) in self.kept.items():
                if other == key:
                    self.kept.move_to_end(run_id)
                    return run
        return inspect_translation(
            opened.model, opened.tokenizer, key.text, key.beams, key.alpha, key.off, key.causal, self.time_limit
        )

    # Answers ---------------------------------------------------------------------------------------------------------

    def run(
        self,
        opened: Opened,
        text: str,
        beams: int | None = None,
        alpha: float | None = None,
        off: Sequence[Head] = (),
        causal: bool = True,
    ) -> dict[str, Any]:
        """A translation and how it came about; with heads off or without the mask, also what the plain run gave."""
        plain_key = plain(opened, text, beams, alpha)
        key = replace(plain_key, off=tuple(off), causal=causal)
        check(opened, key)
        with self.turn():
            run = self.inspect(opened, key)
            before = self.inspect(opened, plain_key) if key != plain_key else None
        request = {**asdict(key), "off": [list(head) for head in off]}
        answer = run_answer(opened, self.keep(run, key), request, run)
        return answer if before is None else answer | {"changes": changes_answer(before)}

    def each_off(self, opened: Opened, text: str) -> dict[str, dict[str, Any]]:
        """By a head's name with dots, what a run without it would say of its translation, all of one batched search."""
        key = plain(opened, text)
        check(opened, key)
        with self.turn():
            original = self.inspect(opened, key)
            ids = original.source_ids, original.target_ids
            heads, settings = head_names(opened.model), (key.beams, key.alpha)
            ablations = ablate_heads(opened.model, *ids, *settings, heads=heads, max_time=self.time_limit)
        return {".".join(map(str, one.head or ())): off_answer(opened, key, original, one) for one in ablations}

    def heads(
        self, opened: Opened, text: str, beams: int | None = None, alpha: float | None = None
    ) -> list[dict[str, Any]]:
        """Every head off by itself: what becomes of the plain run's log P, and what is translated instead.

        The searches without a head, and the one of the whole model that they are compared with, have one beam: with
        four they would take seconds.
        """
        key = plain(opened, text, beams, alpha)
        check(opened, key)
        with self.turn():
            original = self.inspect(opened, key)
            ids = original.source_ids, original.target_ids
            whole, *ablations = ablate_heads(opened.model, *ids, num_beams=1, max_time=self.time_limit)
        text_of_whole = text_of(opened, whole)
        return [ablation_answer(opened, ablation, text_of_whole) for ablation in ablations]

    def beyond(self, opened: Opened, text: str, beams: int | None = None, alpha: float | None = None) -> dict[str, Any]:
        """The sentence several times over, with its translation as often: how sure the model is, by position."""
        key = plain(opened, text, beams, alpha)
        check(opened, key)
        with self.turn():
            return beyond_answer(opened, self.inspect(opened, key))


def plain(opened: Opened, text: str, beams: int | None = None, alpha: float | None = None) -> Key:
    """A run with all heads and the mask; what is not given is the checkpoint's own."""
    generation = opened.model.generation_config
    own_alpha = 1.0 if generation.length_penalty is None else generation.length_penalty
    return Key(opened.name, text, beams or generation.num_beams or 1, own_alpha if alpha is None else alpha)


def check(opened: Opened, key: Key):
    """Refuses a text that is empty, cannot be written or is too long to show, and heads that do not exist."""
    if not key.text.strip():
        raise Refused("There is no text to translate: type a sentence.")
    try:
        length = len(opened.tokenizer(key.text)["input_ids"])
    except ValueError as error:
        raise Refused(
            "The text has characters that are not in this checkpoint's vocabulary: leave them out."
        ) from error
    if length > (limit := source_limit(opened)):
        raise Refused(f"The text has {length:,} tokens, and at most {limit} can be shown: give a shorter one.")
    try:
        check_heads(opened.model, key.off)
    except ValueError as error:
        raise Refused(str(error)) from error


def ablation_answer(opened: Opened, ablation: Ablation, whole: str) -> dict[str, Any]:
    """`whole` is what the model translates with all its heads and as many beams."""
    text = text_of(opened, ablation)
    return dict(zip(("stack", "kind", "layer", "head"), ablation.head or (), strict=True)) | {
        "text": text,
        "score": ablation.score,
        "log_prob_of_original": ablation.log_prob_of_original,
        "chrf_to_original": sacrebleu.sentence_chrf(text, [whole]).score,
        "changed": text != whole,
    }


def off_answer(opened: Opened, key: Key, original: Inspection, ablation: Ablation) -> dict[str, Any]:
    """What the page shows of a run without one head."""
    penalty = length_penalty(len(ablation.target_ids) - 1, key.alpha, opened.model.penalty_offset())
    return {
        "request": {**asdict(key), "off": [list(ablation.head or ())]},
        "target": {"text": text_of(opened, ablation)},
        "score": ablation.score,
        "log_prob": ablation.score * penalty,
        "changes": changes_answer(original),
    }


def changes_answer(before: Inspection) -> dict[str, Any]:
    return {"text_before": before.translation, "score_before": before.score, "log_prob_before": before.log_prob}


def text_of(opened: Opened, ablation: Ablation) -> str:
    return str(opened.tokenizer.decode(ablation.target_ids.tolist(), skip_special_tokens=True))


def beyond_answer(opened: Opened, run: Inspection) -> dict[str, Any]:
    """Log-probability by target position of 1 to 8 copies, as far as positions and patience reach."""
    model = opened.model
    longest = model.config.longest_sequence
    answer: dict[str, Any] = {"trained_length": opened.about.max_length if opened.about else None, "points": []}
    for copies in range(1, COPIES + 1):
        source = repeated(run.source_ids, copies, model.generation_config.eos_token_id)
        target = repeated(run.target_ids, copies, model.generation_config.eos_token_id, first=1)
        length = max(source.shape[1], target.shape[1] - 1)
        if longest is not None and length > longest:
            answer["problem"] = f"The learned positions of this checkpoint end at {longest}; longer texts have none."
            break
        if copies > 1 and length > LONGEST_BEYOND:
            break
        log_probs = log_probs_of(model, source.to(model.device), target.to(model.device))[0].tolist()
        answer["points"] += [
            {"copies": copies, "position": position, "log_prob": value} for position, value in enumerate(log_probs)
        ]
    return answer


def repeated(ids: torch.Tensor, copies: int, ends: int | list[int] | None, first: int = 0) -> torch.Tensor:
    """Ids [1, T] with all but the first ones and the end `copies` times over, [1, about copies * T]."""
    is_ended = int(ids[0, -1]) in (ends if isinstance(ends, list) else [ends])
    last = ids.shape[1] - is_ended
    return torch.cat((ids[:, :first], ids[:, first:last].repeat(1, copies), ids[:, last:]), dim=1)
