"""The paper's beam search as it happened: every candidate of every step, and what became of it."""

from dataclasses import dataclass, field
from typing import Literal

import torch

from ..model.beam_search_vaswani import IMPOSSIBLE, BeamSearch, Hypotheses, length_penalty


Fate = Literal["kept", "pruned", "finished", "ended-too-low"]


@dataclass(frozen=True)
class Candidate:
    """A running hypothesis continued by one token.

    `key` is "s<step>c<rank>", `parent` the key of the hypothesis that it continues (None: the start token alone).
    `log_prob` is the token's, `total` log P of all its tokens, and `score` is `total` by the length penalty.

    Its fate: it runs on ("kept"), or there were better ones ("pruned"); or it ended, and was then among the n best
    that had ended ("finished") or not ("ended-too-low").
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
    """A hypothesis that ended: its tokens without the start token, log P, and log P by the length penalty."""

    key: str
    tokens: list[int]
    log_prob: float
    score: float


@dataclass
class SearchRecord:
    """A search for one sentence: its settings, the candidates of each step (best first), what finished (best first).

    `max_length` is the number of tokens that a hypothesis may have, without the start token.
    """

    beams: int
    alpha: float
    offset: float
    max_length: int
    steps: list[list[Candidate]] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)


class RecordedSearch(BeamSearch):
    """The model's own search of one sentence, which notes its candidates as they come and go."""

    candidates: Hypotheses  # of the step that is being taken
    keys: list[str | None]  # of the running hypotheses
    finished_keys: dict[tuple[int, ...], str]
    steps: list[list[Candidate]]

    @classmethod
    def of(cls, search: BeamSearch) -> "RecordedSearch":
        """A search that has not begun."""
        recorded = cls.__new__(cls)
        recorded.__dict__ = vars(search)
        recorded.keys, recorded.finished_keys, recorded.steps = [None] * search.num_beams, {}, []
        return recorded

    def extend(self, log_probs: torch.Tensor) -> Hypotheses:
        self.candidates = super().extend(log_probs)
        return self.candidates

    def look_ahead(self, ended: torch.Tensor):
        """The last act of a step: what it kept and what finished is known now."""
        super().look_ahead(ended)
        self.note_step(ended[0].tolist())

    def note_step(self, ended: list[bool]):
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
            if self.candidates.scores[0, rank] == IMPOSSIBLE:  # of a beam that is not in use yet, or ruled out
                continue
            lives = tokens in (finished if ended[rank] else running)
            fate: Fate = ("finished" if lives else "ended-too-low") if ended[rank] else ("kept" if lives else "pruned")
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
        """Of a hypothesis of so many tokens, the prompt included."""
        return length_penalty(length - self.prompt_length, self.alpha, self.offset)

    def record(self) -> SearchRecord:
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
        return SearchRecord(
            beams=self.num_beams,
            alpha=self.alpha,
            offset=self.offset,
            max_length=self.max_length - self.prompt_length,
            steps=self.steps,
            finished=finished,
        )


def sequences_of(hypotheses: Hypotheses) -> list[tuple[int, ...]]:
    """The tokens of the first sentence's hypotheses, () where there is none."""
    scores, tokens = hypotheses.scores[0].tolist(), hypotheses.tokens[0].tolist()
    return [() if score == IMPOSSIBLE else tuple(row) for score, row in zip(scores, tokens, strict=True)]
