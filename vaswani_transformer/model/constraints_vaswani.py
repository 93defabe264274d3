"""Beam search for translations that must contain given words: those of a glossary, or words to copy from the source.

Besides the best continuations of each beam, a step considers the tokens that begin or continue a missing word (Hokamp
and Liu 2017). The places in the beam are allocated to hypotheses by their progress with the words (Post and Vilar
2018). No hypothesis may end before it has all words. A word may have several forms, of which one is enough.

Shapes: B sentences, n beams, N candidates of a sentence, M tokens that begin or continue a word, L tokens so far,
V vocabulary.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

import torch

from .beam_search_vaswani import IMPOSSIBLE, BeamSearch, Hypotheses, best_tokens, length_penalty


PER_BEAM = 4  # continuations of each beam that are considered, besides those for missing words
MISSING_PENALTY = 1e4  # subtracted from log P for each word that a translation has no room for
Form = tuple[int, ...]  # the tokens of one form of a word


class State(NamedTuple):
    """The progress of a hypothesis with its words.

    Attributes:
        done: The words that it contains, a bit for each.
        partial: The tokens of a word that it has begun.
        just_done: The bit of the word that its last token completed, or 0.
    """

    done: int = 0
    partial: Form = ()
    just_done: int = 0

    @property
    def progress(self) -> tuple[int, int]:
        """The number of complete words, and of tokens in the word that has begun."""
        return self.done.bit_count(), len(self.partial)


class RequiredWords:
    """The words that one translation must contain.

    Args:
        words: For each word its forms, each a list of token ids. A word given twice must occur twice.
        joining: Tokens that continue a word, so that what looked complete is a longer word.
    """

    def __init__(self, words: Sequence[Sequence[Sequence[int]]], joining: Collection[int] = ()):
        self.words = [[tuple(form) for form in forms] for forms in words]
        self.joining = joining
        self.known: dict[tuple[State, int], State] = {}

    def missing_forms(self, done: int) -> list[Form]:
        """All forms of the words that are still missing."""
        return [form for i, forms in enumerate(self.words) if not done >> i & 1 for form in forms]

    def count_missing(self, state: State) -> int:
        return len(self.words) - state.done.bit_count()

    def next_state(self, state: State, token: int) -> State:
        """The state of a hypothesis after one more token."""
        if (state, token) not in self.known:
            self.known[state, token] = self._next_state(state, token)
        return self.known[state, token]

    def _next_state(self, state: State, token: int) -> State:
        done, partial, just_done = state
        if token in self.joining:
            done &= ~just_done
        partial = (*partial, token)
        missing = self.missing_forms(done)
        while partial and not any(form[: len(partial)] == partial for form in missing):
            partial = partial[1:]  # another word may have begun inside what turned out not to be a word
        if partial not in missing:
            return State(done, partial)
        word = next(i for i, forms in enumerate(self.words) if not done >> i & 1 and partial in forms)
        return State(done | 1 << word, (), 1 << word)

    def continuations(self, state: State) -> list[int]:
        """The tokens that begin a missing word, or continue the one that has begun."""
        length = len(state.partial)
        return sorted({form[length] for form in self.missing_forms(state.done) if form[:length] == state.partial})


def check_required(required: Sequence[Sequence[Sequence[Sequence[int]]]], vocab_size: int, num_beams: int):
    """Check words for all sentences: each word has forms, and each form has tokens of the vocabulary.

    Raises:
        ValueError: A word is invalid, or there is only one beam.
    """
    if num_beams == 1:
        raise ValueError("Required words need beam search: set `num_beams` to 2 or more.")
    for words in required:
        for forms in words:
            if not forms or not all(form and all(0 <= token < vocab_size for token in form) for form in forms):
                raise ValueError(
                    f"A required word has no forms, an empty form, or a token id that is not below {vocab_size:,}."
                )


class ConstrainedBeamSearch(BeamSearch):
    """The state of a search over B sentences whose translations must contain words, and its steps.

    Args:
        required: For each sentence its words, as `RequiredWords` takes them.
        joining: Tokens that continue a word.
        num_returned: How many hypotheses of each sentence will be returned.
        *args, **kwargs: As in `BeamSearch`.

    Raises:
        ValueError: The number of sentences differs, or words are combined with sampling or a shortlist.
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
            raise ValueError("Required words cannot be combined with sampling or with a shortlist.")
        self.num_returned = num_returned
        self.required = [RequiredWords(words, joining) for words in required]
        self.states: list[list[State]] = [[State()] * self.num_beams for _ in self.required]  # by sentence and beam

    def step(self, log_probs: torch.Tensor, ends: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """As in `BeamSearch`."""
        candidates = self.extend(log_probs)
        ended = ends(candidates.tokens.flatten(0, 1)).unflatten(0, candidates.scores.shape)  # [B, N]
        states = self.candidate_states(candidates)
        missing = self.count_missing(states).to(ended.device)
        # At the maximum length everything ends. Then a hypothesis ranks below all that miss fewer words.
        at_limit = ended.all(dim=1, keepdim=True)
        scores = torch.where(at_limit, candidates.scores - MISSING_PENALTY * missing, candidates.scores)
        self.among_best = at_limit | (missing == 0)
        self.keep_finished(replace(candidates, scores=scores), ended)
        chosen = self.allocate(candidates.scores.masked_fill(ended, IMPOSSIBLE), states)
        self.states = [
            [sentence_states[i] for i in indices]
            for sentence_states, indices in zip(states, chosen.tolist(), strict=True)
        ]
        self.running = candidates.pick(chosen)
        self.running.scores.masked_fill_(ended.gather(1, chosen), IMPOSSIBLE)
        self.look_ahead(ended)
        return (self.running.parents + self.first_rows).flatten()

    def extend(self, log_probs: torch.Tensor) -> Hypotheses:
        """The best continuations of each beam, and those for missing words. N differs from step to step."""
        log_probs = log_probs.unflatten(0, (-1, self.num_beams))  # [B, n, V]
        _, best = best_tokens(log_probs.flatten(0, 1).unsqueeze(1), PER_BEAM)
        best = best.unflatten(0, log_probs.shape[:2])  # [B, n, 4]
        wanted = self.wanted_tokens().to(best.device)
        # A token among the best must not be a candidate twice.
        wanted = wanted.masked_fill((wanted.unsqueeze(-1) == best.unsqueeze(-2)).any(dim=-1), -1)
        tokens = torch.cat((best, wanted), dim=-1)  # [B, n, 4 + M]
        token_log_probs = log_probs.gather(-1, tokens.clamp(min=0)).masked_fill(tokens < 0, IMPOSSIBLE)
        scores = (self.running.scores.unsqueeze(-1) + token_log_probs).flatten(1)
        parents = torch.arange(self.num_beams, device=tokens.device).view(1, -1, 1).expand_as(tokens).flatten(1)
        longer = self.running.pick(parents).append(
            tokens.clamp(min=0).flatten(1), token_log_probs.flatten(1), parents + self.first_rows
        )
        return replace(longer, scores=scores, parents=parents)

    def wanted_tokens(self) -> torch.Tensor:
        """The tokens that begin or continue a missing word of each beam, padded with -1: [B, n, M]."""
        tokens = [
            [words.continuations(state) for state in beams]
            for words, beams in zip(self.required, self.states, strict=True)
        ]
        width = max(len(row) for beams in tokens for row in beams)
        padded = [[row + [-1] * (width - len(row)) for row in beams] for beams in tokens]
        return torch.tensor(padded, dtype=torch.long)

    def candidate_states(self, candidates: Hypotheses) -> list[list[State]]:
        """The state of each candidate, by sentence."""
        all_parents, all_tokens = candidates.parents.tolist(), candidates.tokens[..., -1].tolist()
        states = []
        for words, beams, parents, tokens in zip(self.required, self.states, all_parents, all_tokens, strict=True):
            states.append([words.next_state(beams[i], token) for i, token in zip(parents, tokens, strict=True)])
        return states

    def count_missing(self, states: list[list[State]]) -> torch.Tensor:
        """The number of words that each candidate misses, [B, N]."""
        pairs = zip(self.required, states, strict=True)
        return torch.tensor([[words.count_missing(state) for state in candidates] for words, candidates in pairs])

    def allocate(self, scores: torch.Tensor, states: list[list[State]]) -> torch.Tensor:
        """Choose the n candidates that stay in the beam, best first: log P [B, N] -> indices [B, n].

        The best candidate of all comes first. The other places go in turn to the best of each progress with the words,
        the most advanced first, until the beam is full.
        """
        chosen = []
        for candidates, row in zip(states, scores.tolist(), strict=True):
            order = sorted(range(len(candidates)), key=lambda i: -row[i])
            by_progress: dict[tuple[int, int], list[int]] = {}
            for i in order[1:]:
                if row[i] > IMPOSSIBLE:
                    by_progress.setdefault(candidates[i].progress, []).append(i)
            groups = [by_progress[progress] for progress in sorted(by_progress, reverse=True)]
            in_turn = [i for turn in zip_longest(*groups) for i in turn if i is not None]
            impossible = order[1 + len(in_turn) :]  # fill the beam if there are too few candidates
            places = [order[0], *in_turn, *impossible][: self.num_beams]
            chosen.append(sorted(places, key=lambda i: -row[i]))
        return torch.tensor(chosen, device=scores.device)

    def look_ahead(self, ended: torch.Tensor):
        """Find out for each sentence whether a running hypothesis is better than the last one to be returned.

        Running hypotheses are compared by log P / lp at their present length, which is a guess. Otherwise hypotheses
        that miss words would run for long.
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
