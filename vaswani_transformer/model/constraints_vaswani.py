"""Beam search for translations that must hold given words: a glossary's, or what is to be copied from the source.

Besides the best continuations of each beam, a step considers those that begin or go on with a word that is still
missing (Hokamp and Liu 2017). The places in the beam are shared out among hypotheses that have come equally far with
the words (Post and Vilar 2018); none may end before it has them all. A word may have several forms, of which one is
enough.

Shapes: B sentences, n beams, N candidates of a sentence, M tokens that may lead to a word, L tokens so far,
V vocabulary.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

import torch

from .beam_search_vaswani import IMPOSSIBLE, BeamSearch, Hypotheses, best_tokens, length_penalty


OF_A_BEAM = 4  # continuations of each beam that are considered, besides those that lead to a word
LACK = 1e4  # by which log P of a translation is lowered for each word that it could not hold
Form = tuple[int, ...]  # the tokens of one form of a word


class State(NamedTuple):
    """The words that a hypothesis has, a bit for each; the tokens of the one it is in; the one that ended just now."""

    has: int = 0
    begun: Form = ()
    ended: int = 0


class RequiredWords:
    """The words that a translation must hold, and what becomes of a hypothesis with each token.

    Args:
        words: For each word its forms, each a list of token ids. A word that stands twice must be said twice.
        joining: Tokens that go on with a word, by which one that seemed complete becomes another.
    """

    def __init__(self, words: Sequence[Sequence[Sequence[int]]], joining: Collection[int] = ()):
        self.words = [[tuple(form) for form in forms] for forms in words]
        self.joining = joining
        self.known: dict[tuple[State, int], State] = {}

    def missing(self, has: int) -> list[Form]:
        """The forms of the words that are still missing."""
        return [form for i, forms in enumerate(self.words) if not has >> i & 1 for form in forms]

    def after(self, state: State, token: int) -> State:
        if (state, token) not in self.known:
            self.known[state, token] = self.find_after(state, token)
        return self.known[state, token]

    def find_after(self, state: State, token: int) -> State:
        has, begun, ended = state
        if token in self.joining:
            has &= ~ended
        begun = (*begun, token)
        missing = self.missing(has)
        while begun and not any(form[: len(begun)] == begun for form in missing):
            begun = begun[1:]  # perhaps another word has begun in what was the wrong one
        if begun not in missing:
            return State(has, begun)
        word = next(i for i, forms in enumerate(self.words) if not has >> i & 1 and begun in forms)
        return State(has | 1 << word, (), 1 << word)

    def leading(self, state: State) -> list[int]:
        """The tokens that begin a missing word, or go on with the one that is begun."""
        length = len(state.begun)
        return sorted({form[length] for form in self.missing(state.has) if form[:length] == state.begun})


def progress(state: State) -> tuple[int, int]:
    """How many words a hypothesis has, and how many tokens of the one that is begun."""
    return state.has.bit_count(), len(state.begun)


def check_required(required: Sequence[Sequence[Sequence[Sequence[int]]]], vocab_size: int, num_beams: int):
    """Raises ValueError for words that no search could give, or not this one."""
    if num_beams == 1:
        raise ValueError("Required words need beam search: give `num_beams` of 2 or more.")
    forms = [form for words in required for forms in words for form in (forms or [()])]
    if not all(form and all(0 <= token < vocab_size for token in form) for form in forms):
        raise ValueError(f"A required word has no forms, an empty one, or a token that is not below {vocab_size:,}.")


class ConstrainedBeamSearch(BeamSearch):
    """The state of a search over B sentences whose translations must hold words, and its steps.

    Args:
        required: For each sentence its words, as `RequiredWords` takes them.
        joining: Tokens that go on with a word.
        num_returned: Hypotheses of each sentence that are wanted.
        *args, **kwargs: As `BeamSearch` takes them.
    """

    def __init__(
        self,
        required: Sequence[Sequence[Sequence[Sequence[int]]]],
        joining: Collection[int],
        num_returned: int,
        *args,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        if len(required) != len(self.first_rows):
            raise ValueError(f"Required words are given for {len(required)} of {len(self.first_rows)} sentences.")
        if self.do_sample or self.vocabulary is not None:
            raise ValueError("Words can be required neither of samples nor with a shortlist.")
        self.num_returned = num_returned
        self.required = [RequiredWords(words, joining) for words in required]
        self.states: list[list[State]] = [[State()] * self.num_beams for _ in self.required]

    def step(self, log_probs: torch.Tensor, ends: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """As in `BeamSearch`."""
        candidates = self.extend(log_probs)
        ended = ends(candidates.tokens.flatten(0, 1)).unflatten(0, candidates.scores.shape)  # [B, N]
        states = self.states_of(candidates)
        missing = self.missing(states).to(ended.device)
        # Where the length ends a hypothesis that lacks words, it counts less than any that lacks fewer.
        at_limit = ended.all(dim=1, keepdim=True)
        scores = torch.where(at_limit, candidates.scores - LACK * missing, candidates.scores)
        self.among_best = at_limit | (missing == 0)
        self.keep_finished(replace(candidates, scores=scores), ended)
        chosen = self.shared_out(candidates.scores.masked_fill(ended, IMPOSSIBLE), states)
        self.states = [[of[i] for i in indices] for of, indices in zip(states, chosen.tolist(), strict=True)]
        self.running = candidates.pick(chosen)
        self.running.scores.masked_fill_(ended.gather(1, chosen), IMPOSSIBLE)
        self.look_ahead(ended)
        return (self.running.parents + self.first_rows).flatten()

    def extend(self, log_probs: torch.Tensor) -> Hypotheses:
        """The best continuations of each beam, and those that lead to a missing word: N differs by step."""
        log_probs = log_probs.unflatten(0, (-1, self.num_beams))  # [B, n, V]
        _, best = best_tokens(log_probs.flatten(0, 1).unsqueeze(1), OF_A_BEAM)
        leading = [[words.leading(s) for s in of] for words, of in zip(self.required, self.states, strict=True)]
        most = max(len(tokens) for of in leading for tokens in of)
        padded = [[tokens + [-1] * (most - len(tokens)) for tokens in of] for of in leading]
        wanted = torch.tensor(padded, device=best.device, dtype=torch.long)  # [B, n, M]
        best = best.unflatten(0, log_probs.shape[:2])
        # What is among the best already is not considered twice.
        wanted = wanted.masked_fill((wanted.unsqueeze(-1) == best.unsqueeze(-2)).any(dim=-1), -1)
        tokens = torch.cat((best, wanted), dim=-1)
        of_tokens = log_probs.gather(-1, tokens.clamp(min=0)).masked_fill(tokens < 0, IMPOSSIBLE)
        scores = (self.running.scores.unsqueeze(-1) + of_tokens).flatten(1)
        parents = torch.arange(self.num_beams, device=tokens.device).view(1, -1, 1).expand_as(tokens).flatten(1)
        grown = self.running.pick(parents).grown(
            tokens.clamp(min=0).flatten(1), of_tokens.flatten(1), parents + self.first_rows
        )
        return replace(grown, scores=scores, parents=parents)

    def states_of(self, candidates: Hypotheses) -> list[list[State]]:
        parents, tokens = candidates.parents.tolist(), candidates.tokens[..., -1].tolist()
        return [
            [words.after(of[parent], token) for parent, token in zip(*pairs, strict=True)]
            for words, of, *pairs in zip(self.required, self.states, parents, tokens, strict=True)
        ]

    def missing(self, states: list[list[State]]) -> torch.Tensor:
        """How many words each hypothesis lacks, [B, N]."""
        numbers = [
            [len(words.words) - state.has.bit_count() for state in of]
            for words, of in zip(self.required, states, strict=True)
        ]
        return torch.tensor(numbers)

    def shared_out(self, scores: torch.Tensor, states: list[list[State]]) -> torch.Tensor:
        """The n candidates that run on, [B, n], best first: the best of all by log P [B, N], and of each progress."""
        chosen = []
        for of, row in zip(states, scores.tolist(), strict=True):
            order = sorted(range(len(of)), key=lambda i: -row[i])
            groups: dict[tuple[int, int], list[int]] = {}
            for i in order[1:]:
                if row[i] > IMPOSSIBLE:
                    groups.setdefault(progress(of[i]), []).append(i)
            by_progress = [groups[key] for key in sorted(groups, reverse=True)]
            in_turn = [i for turn in zip_longest(*by_progress) for i in turn if i is not None]
            impossible = order[1 + len(in_turn) :]
            kept = [order[0], *in_turn, *impossible][: self.num_beams]
            chosen.append(sorted(kept, key=lambda i: -row[i]))
        return torch.tensor(chosen, device=scores.device)

    def look_ahead(self, ended: torch.Tensor):
        """For each sentence, whether a running hypothesis is better than the last of those that would be returned.

        By log P / lp at the present length, a guess: hypotheses that lack words would run on for long otherwise.
        """
        length = self.running.tokens.shape[-1] - self.prompt_length
        best = self.running.scores.amax(dim=1, keepdim=True) / length_penalty(length, self.alpha, self.offset)
        worst = self.finished.scores[:, self.num_returned - 1 : self.num_returned]
        self.may_improve = self.may_improve & (best > worst)
        self.is_over = not bool(self.may_improve.any() & ~ended.all())

    def drop_finished(self) -> torch.Tensor | None:
        stay = super().drop_finished()
        if stay is not None:
            self.required, self.states = ([x[i] for i in stay.tolist()] for x in (self.required, self.states))
        return stay
