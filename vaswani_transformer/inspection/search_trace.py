"""The trace of a beam search: every candidate of every step, and its fate."""

from dataclasses import dataclass, field
from typing import Literal

import torch

from ..model.beam_search_vaswani import IMPOSSIBLE, BeamSearch, Hypotheses, length_penalty


Fate = Literal["kept", "pruned", "finished", "ended-too-low"]


@dataclass(frozen=True)
class Candidate:
    """A running hypothesis continued by one token.

    Attributes:
        key: "s<step>c<rank>".
        parent: The key of the hypothesis that it continues, or None for the start token alone.
        token: The id of the token.
        log_prob: The token's log-probability.
        total: log P of all tokens so far.
        score: `total` divided by the length penalty.
        fate: A candidate that did not end was kept in the beam ("kept") or not ("pruned"). One that ended was among
            the n best finished ones ("finished") or not ("ended-too-low").
    """

    key: str
    parent: str | None
    token: int
    log_prob: float
    total: float
    score: float
    fate: Fate


@dataclass(frozen=True)
class Finished:
    """A hypothesis that ended: its tokens without the start token, log P, and log P / length penalty."""

    key: str
    tokens: list[int]
    log_prob: float
    score: float


@dataclass
class SearchTrace:
    """The search for one sentence: its settings, the candidates of each step and the finished hypotheses, best first.

    `max_length` is the maximum number of tokens of a hypothesis, without the start token.
    """

    beams: int
    alpha: float
    offset: float
    max_length: int
    steps: list[list[Candidate]] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)


class TracedSearch(BeamSearch):
    """The model's own search for one sentence, which also records its candidates. The arguments are `BeamSearch`'s."""

    candidates: Hypotheses  # those of the current step

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.keys: list[str | None] = [None] * self.num_beams  # of the running hypotheses
        self.finished_keys: dict[tuple[int, ...], str] = {}
        self.steps: list[list[Candidate]] = []

    def extend(self, log_probs: torch.Tensor) -> Hypotheses:
        self.candidates = super().extend(log_probs)
        return self.candidates

    def look_ahead(self, ended: torch.Tensor):
        super().look_ahead(ended)
        self.record_step(ended[0].tolist())  # a step ends here, so the fate of its candidates is known

    def record_step(self, ended: list[bool]):
        sequences = [tuple(tokens) for tokens in self.candidates.tokens[0].tolist()]
        running = sequences_of(self.running)
        length = len(sequences[0])
        finished = {
            tokens[:length]
            for tokens, size in zip(sequences_of(self.finished), self.finished.lengths[0].tolist(), strict=True)
            if tokens and size == length
        }
        step: list[Candidate] = []
        keys = {}
        for rank, tokens in enumerate(sequences):
            if self.candidates.scores[0, rank] == IMPOSSIBLE:  # ruled out, or of a beam that is not in use yet
                continue
            survives = tokens in (finished if ended[rank] else running)
            fate: Fate
            if ended[rank]:
                fate = "finished" if survives else "ended-too-low"
            else:
                fate = "kept" if survives else "pruned"
            candidate = self.candidate(rank, tokens, fate)
            step.append(candidate)
            if fate == "kept":
                keys[tokens] = candidate.key
            elif fate == "finished":
                self.finished_keys[tokens] = candidate.key
        self.keys = [keys.get(tokens) for tokens in running]
        self.steps.append(step)

    def candidate(self, rank: int, tokens: tuple[int, ...], fate: Fate) -> Candidate:
        total = self.candidates.scores[0, rank].item()
        return Candidate(
            key=f"s{len(self.steps)}c{rank}",
            parent=self.keys[int(self.candidates.parents[0, rank])],
            token=tokens[-1],
            log_prob=self.candidates.log_probs[0, rank, -1].item(),
            total=total,
            score=total / self.penalty(len(tokens)),
            fate=fate,
        )

    def penalty(self, length: int) -> float:
        """The length penalty of a hypothesis with this number of tokens, prompt included."""
        return length_penalty(length - self.prompt_length, self.alpha, self.offset)

    def trace(self) -> SearchTrace:
        """The whole search, once it is over."""
        finished = []
        scores, lengths = self.finished.scores[0].tolist(), self.finished.lengths[0].tolist()
        for tokens, score, length in zip(sequences_of(self.finished), scores, lengths, strict=True):
            if tokens:
                tokens = tokens[:length]
                log_prob = score * self.penalty(length)
                finished.append(
                    Finished(self.finished_keys[tokens], list(tokens[self.prompt_length :]), log_prob, score)
                )
        return SearchTrace(
            beams=self.num_beams,
            alpha=self.alpha,
            offset=self.offset,
            max_length=int(self.max_lengths) - self.prompt_length,
            steps=self.steps,
            finished=finished,
        )


def sequences_of(hypotheses: Hypotheses) -> list[tuple[int, ...]]:
    """The tokens of the first sentence's hypotheses, () for an empty place."""
    scores, tokens = hypotheses.scores[0].tolist(), hypotheses.tokens[0].tolist()
    return [() if score == IMPOSSIBLE else tuple(row) for score, row in zip(scores, tokens, strict=True)]
