"""The paper's beam search (section 6.1), with the length penalty of Wu et al. 2016.

"We used beam search with a beam size of 4 and length penalty alpha = 0.6 [...] We set the maximum output length during
inference to input length + 50, but terminate early when possible."

A step ranks the continuations of a sentence's n beams. Those of the best n that end are finished and compete with the
finished ones by log P / lp; the best n that do not end run on. The search is over when no running beam can still beat
one of n finished ones. Nothing here knows the model: log-probabilities come in, and which beams to continue goes out.

Shapes: B sentences, n beams, N candidates of a sentence, L tokens so far, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn


IMPOSSIBLE = float("-inf")
SHARE_TO_DROP = 0.25  # of a batch's sentences: once so many are done, going on without them is worth its copies


def length_penalty(length: int | torch.Tensor, alpha: float, offset: float = 5) -> float | torch.Tensor:
    """lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha (Wu et al. 2016, equation 14), by which log P is divided.

    Other toolkits divide by |Y|^alpha: there `offset`, the 5 of the formula, is 0.
    """
    return ((offset + length) / (offset + 1)) ** alpha


# Hypotheses ----------------------------------------------------------------------------------------------------------


@dataclass
class Hypotheses:
    """k translations of each of B sentences, running or finished; the optional fields are recorded where wanted."""

    tokens: torch.Tensor  # [B, k, L], the prompt first; after an end, padding
    scores: torch.Tensor  # [B, k] log P, or log P / lp of a finished one; -inf where there is none
    lengths: torch.Tensor | None = None  # [B, k] tokens without the padding, of finished ones
    parents: torch.Tensor | None = None  # [B, k] the beam, 0 to n - 1, that a candidate continues
    log_probs: torch.Tensor | None = None  # [B, k, L - prompt] of each token; 0 after an end
    rows: torch.Tensor | None = None  # [B, k, L - prompt] the row of the batch that gave each token; -1 after an end

    def pick(self, index: torch.Tensor) -> "Hypotheses":
        """Those at `index` [B, m]: [B, k, ...] -> [B, m, ...]."""
        return replace(self, **{name: pick(x, index) for name, x in vars(self).items() if x is not None})

    def of(self, sentences: torch.Tensor) -> "Hypotheses":
        """Those of the sentences at these indices [b]: [B, k, ...] -> [b, k, ...]."""
        return replace(self, **{name: x.index_select(0, sentences) for name, x in vars(self).items() if x is not None})

    def beside(self, others: "Hypotheses") -> "Hypotheses":
        """These and others of each sentence: [B, k, ...], [B, m, ...] -> [B, k + m, ...]."""
        fields = {name: x for name, x in vars(self).items() if x is not None}
        return replace(self, **{name: torch.cat((x, getattr(others, name)), dim=1) for name, x in fields.items()})

    def grown(self, token: torch.Tensor | int, log_prob: torch.Tensor | float, row: torch.Tensor | int) -> "Hypotheses":
        """One place longer, by what is given for each of them [B, k] or for all."""
        tokens = append(self.tokens, token)
        if self.log_probs is None:
            return replace(self, tokens=tokens)
        return replace(self, tokens=tokens, log_probs=append(self.log_probs, log_prob), rows=append(self.rows, row))

    def padded(self, places: int, fill: int) -> "Hypotheses":
        """Longer by so many places after the end."""
        pad = nn.functional.pad
        tokens = pad(self.tokens, (0, places), value=fill)
        if self.log_probs is None:
            return replace(self, tokens=tokens)
        log_probs, rows = pad(self.log_probs, (0, places)), pad(self.rows, (0, places), value=-1)
        return replace(self, tokens=tokens, log_probs=log_probs, rows=rows)


def pick(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """x [B, k, ...], index [B, m] -> [B, m, ...]"""
    return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand(*index.shape, *x.shape[2:]))


def append(x: torch.Tensor, last: torch.Tensor | float) -> torch.Tensor:
    """x [B, k, L], last [B, k] or one number -> [B, k, L + 1]"""
    last = last.unsqueeze(-1) if isinstance(last, torch.Tensor) else x.new_full((*x.shape[:2], 1), last)
    return torch.cat((x, last), dim=-1)


# The search ----------------------------------------------------------------------------------------------------------


class BeamSearch:
    """The state of one search over B sentences, and its steps.

    Args:
        prompt: [B * n, L], the same for the n beams of a sentence.
        num_beams: n.
        max_length: Tokens that a hypothesis may have, those of the prompt included.
        alpha, offset: Of `length_penalty`.
        early_stopping: "never" searches until nothing better can come, as the paper does; `True` until there are n
            finished hypotheses; `False` until nothing better can come at the present length, a guess.
        num_ends: Tokens of the vocabulary that end a hypothesis.
        fill: The token after an end.
        do_sample: Whether candidates are drawn by their probabilities, instead of the best being taken.
        records_tokens: Whether the log-probability and the origin of each token are kept.
        vocabulary: The tokens that log-probabilities are given of, [V]; otherwise they are counted from 0.
    """

    def __init__(
        self,
        prompt: torch.Tensor,
        num_beams: int,
        max_length: int,
        alpha: float = 0.6,
        offset: float = 5,
        early_stopping: bool | str = "never",
        num_ends: int = 1,
        fill: int = 0,
        do_sample: bool = False,
        records_tokens: bool = False,
        vocabulary: torch.Tensor | None = None,
    ):
        self.vocabulary = vocabulary
        self.num_beams, self.max_length, self.prompt_length = num_beams, max_length, prompt.shape[1]
        self.alpha, self.offset, self.early_stopping = alpha, offset, early_stopping
        self.fill, self.do_sample = fill, do_sample
        self.num_candidates = max(2, 1 + num_ends) * num_beams  # so many that n of them do not end

        tokens, device = prompt.unflatten(0, (-1, num_beams)), prompt.device
        self.first_rows = torch.arange(len(tokens), device=device).unsqueeze(-1) * num_beams  # [B, 1]
        self.among_best = torch.arange(self.num_candidates, device=device) < num_beams  # [N]
        self.finished = Hypotheses(
            tokens=tokens,
            scores=torch.full(tokens.shape[:2], IMPOSSIBLE, device=device),
            lengths=torch.full(tokens.shape[:2], self.prompt_length, device=device),
            log_probs=torch.zeros(*tokens.shape[:2], 0, device=device) if records_tokens else None,
            rows=torch.zeros(*tokens.shape[:2], 0, dtype=torch.long, device=device) if records_tokens else None,
        )
        first_beam = torch.arange(num_beams, device=device) == 0  # the beams are still the same: one of them counts
        scores = self.finished.scores.masked_fill(first_beam, 0.0)
        self.running = replace(self.finished, scores=scores, lengths=None)
        self.may_improve = torch.ones(len(tokens), 1, dtype=torch.bool, device=device)
        self.sentences = torch.arange(len(tokens), device=device)  # [b], those still searched
        self.dropped: list[tuple[torch.Tensor, Hypotheses]] = []
        self.is_over = False

    @property
    def input_ids(self) -> torch.Tensor:
        """The tokens of the running hypotheses, [B * n, L]."""
        return self.running.tokens.flatten(0, 1)

    def step(self, log_probs: torch.Tensor, ends: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Log-probabilities of the next token [B * n, V] -> the rows of the batch that the beams continue, [B * n].

        `ends` says of hypotheses [rows, L] which of them end with their last token: bool [rows].
        """
        candidates = self.extend(log_probs)
        ended = ends(candidates.tokens.flatten(0, 1)).unflatten(0, (-1, self.num_candidates))  # [B, N]
        self.keep_finished(candidates, ended)
        self.keep_running(candidates, ended)
        self.look_ahead(ended)
        return (self.running.parents + self.first_rows).flatten()

    def extend(self, log_probs: torch.Tensor) -> Hypotheses:
        """The N best continuations of each sentence's beams, best first (or as they were drawn)."""
        choose = draw_tokens if self.do_sample else best_continuations
        log_probs = log_probs.unflatten(0, (-1, self.num_beams))  # [B, n, V]
        scores, parents, tokens, token_log_probs = choose(log_probs, self.running.scores, self.num_candidates)
        tokens = tokens if self.vocabulary is None else self.vocabulary[tokens]
        grown = self.running.pick(parents).grown(tokens, token_log_probs, parents + self.first_rows)
        return replace(grown, scores=scores, parents=parents)

    def keep_finished(self, candidates: Hypotheses, ended: torch.Tensor):
        """Of those finished before and those that ended now among the best n, the best n by log P / lp."""
        penalty = length_penalty(candidates.tokens.shape[-1] - self.prompt_length, self.alpha, self.offset)
        counts = ended & self.among_best & self.may_improve
        scores = (candidates.scores / penalty).masked_fill(~counts, IMPOSSIBLE)
        lengths = torch.full_like(candidates.tokens[..., 0], candidates.tokens.shape[-1])
        earlier = self.finished.grown(self.fill, 0.0, -1)
        both = earlier.beside(replace(candidates, scores=scores, lengths=lengths))
        self.finished = both.pick(both.scores.topk(self.num_beams, dim=-1).indices)

    def keep_running(self, candidates: Hypotheses, ended: torch.Tensor):
        """Prunes: keeps the best n of those that did not end, by log P."""
        scores, chosen = candidates.scores.masked_fill(ended, IMPOSSIBLE).topk(self.num_beams, dim=-1)
        self.running = replace(candidates.pick(chosen), scores=scores)

    def look_ahead(self, ended: torch.Tensor):
        """For each sentence, whether its best running hypothesis could still beat its worst finished one."""
        length = self.running.tokens.shape[-1] - self.prompt_length
        if self.early_stopping == "never" and self.alpha > 0:  # the penalty is kindest to the longest
            length = self.max_length - self.prompt_length
        best = self.running.scores[:, :1] / length_penalty(length, self.alpha, self.offset)
        worst = self.finished.scores.amin(dim=1, keepdim=True)  # -inf where fewer than n have finished
        self.may_improve = self.may_improve & (best > worst)
        if self.early_stopping is True:
            self.may_improve = self.may_improve & (worst == IMPOSSIBLE)
        self.is_over = not bool(self.may_improve.any() & ~ended.all())

    def drop_finished(self) -> torch.Tensor | None:
        """Lets sentences go whose search is over, if they are many: indices of the sentences that stay, [b]."""
        runs = self.may_improve.squeeze(1)
        if self.is_over or runs.sum() > (1 - SHARE_TO_DROP) * len(runs):
            return None
        gone, stay = (~runs).nonzero().squeeze(1), runs.nonzero().squeeze(1)
        self.dropped.append((self.sentences[gone], self.finished.of(gone)))
        self.sentences, self.may_improve = self.sentences[stay], self.may_improve[stay]
        self.finished, self.running = self.finished.of(stay), self.running.of(stay)
        self.first_rows = self.first_rows[: len(stay)]
        return stay

    def all_finished(self) -> Hypotheses:
        """The finished hypotheses of all B sentences, in their order."""
        groups = [*self.dropped, (self.sentences, self.finished)]
        width = self.finished.tokens.shape[-1]
        for i, (_, finished) in enumerate(groups):
            groups[i] = groups[i][0], finished.padded(width - finished.tokens.shape[-1], self.fill)
        order = torch.cat([sentences for sentences, _ in groups]).argsort()
        fields = [name for name, x in vars(self.finished).items() if x is not None]
        whole = {name: torch.cat([getattr(finished, name) for _, finished in groups]) for name in fields}
        return replace(self.finished, **whole).of(order)

    def best(self, count: int) -> Hypotheses:
        """The best `count` finished hypotheses, one after the other: [B * count, ...], as wide as the longest."""
        finished = self.all_finished()
        fields = {name: x for name, x in vars(finished).items() if x is not None}
        best = replace(finished, **{name: x[:, :count].flatten(0, 1) for name, x in fields.items()})
        is_none = best.scores == IMPOSSIBLE  # fewer than `count` were found
        lengths = best.lengths.masked_fill(is_none, self.prompt_length)
        longest = int(lengths.max())
        tokens = best.tokens[:, :longest].clone()
        tokens[:, self.prompt_length :].masked_fill_(is_none.unsqueeze(-1), self.fill)
        if best.log_probs is None:
            return replace(best, tokens=tokens, lengths=lengths)
        width = longest - self.prompt_length
        return replace(
            best, tokens=tokens, lengths=lengths, log_probs=best.log_probs[:, :width], rows=best.rows[:, :width]
        )


# Choosing tokens -----------------------------------------------------------------------------------------------------

Continuations = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def best_continuations(log_probs: torch.Tensor, scores: torch.Tensor, count: int) -> Continuations:
    """The `count` best tokens after any beam: log_probs [B, n, V] and log P so far [B, n] -> four times [B, count].

    These are log P with the token, the beam, the token, and its own log-probability, best first.
    """
    totals, index = best_tokens(log_probs, count, scores)
    vocab_size = log_probs.shape[-1]
    return totals, index // vocab_size, index % vocab_size, log_probs.flatten(1).gather(1, index)


def draw_tokens(log_probs: torch.Tensor, scores: torch.Tensor, count: int) -> Continuations:
    """As `best_continuations`, but drawn without replacement, each with its share of all continuations' P."""
    totals = (log_probs + scores.unsqueeze(-1)).flatten(1)  # [B, n * V]
    shares = totals.softmax(dim=-1).nan_to_num(1.0)  # no beam of a sentence may go on: what it draws does not count
    index = torch.multinomial(shares, count)
    vocab_size = log_probs.shape[-1]
    return totals.gather(1, index), index // vocab_size, index % vocab_size, log_probs.flatten(1).gather(1, index)


def best_tokens(
    scores: torch.Tensor, count: int, offsets: torch.Tensor | None = None, width: int = 32
) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` highest of `scores` [B, n, V] + `offsets` [B, n], and where in n * V they are: twice [B, count].

    Best first, as `(scores + offsets.unsqueeze(-1)).flatten(1).topk(count)` gives them, in a fraction of its time.
    """
    beams, vocab_size = scores.shape[1:]
    offsets = scores.new_zeros(scores.shape[:2]) if offsets is None else offsets
    if vocab_size < 4 * width * count:
        return (scores + offsets.unsqueeze(-1)).flatten(1).topk(min(count, beams * vocab_size), dim=-1)
    # A token among the `count` best lies in one of the `count` blocks with the highest maxima, or in the rest: were its
    # block not among these, each of them would hold a better one.
    number = vocab_size // width
    blocks = scores[..., : number * width].unflatten(-1, (number, width))  # [B, n, number, width]
    best = (blocks.amax(dim=-1) + offsets.unsqueeze(-1)).flatten(1).topk(count, dim=-1).indices  # [B, count]
    starts = best // number * vocab_size + best % number * width
    within = torch.arange(vocab_size, device=scores.device)
    rest = within[number * width :] + vocab_size * torch.arange(beams, device=scores.device).unsqueeze(-1)
    places = (starts.unsqueeze(-1) + within[:width]).flatten(1)  # [B, count * width]
    places = torch.cat((places, rest.flatten().expand(len(places), -1)), dim=-1)
    candidates = scores.flatten(1).gather(1, places) + offsets.gather(1, places // vocab_size)
    top, index = candidates.topk(count, dim=-1)
    return top, places.gather(1, index)
