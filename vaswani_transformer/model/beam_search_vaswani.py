"""The paper's beam search (section 6.1), with the length penalty of Wu et al. 2016.

"We used beam search with a beam size of 4 and length penalty alpha = 0.6 [...] We set the maximum output length during
inference to input length + 50, but terminate early when possible."

A step ranks the continuations of a sentence's n beams. Those of the best n that end are finished, and compete with
earlier finished ones by log P / lp; the best n that do not end stay in the beam. The search is over when no running
hypothesis can beat the worst of n finished ones. Nothing here knows the model: log-probabilities come in, and the rows
of the batch to continue go out.

Shapes: B sentences, n beams, N candidates of a sentence, L tokens so far, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn


IMPOSSIBLE = float("-inf")
MIN_FINISHED_SHARE = 0.1  # of a batch's sentences: fewer are not worth the copies that dropping them takes


def length_penalty(length: int | torch.Tensor, alpha: float, offset: float = 5) -> float | torch.Tensor:
    """lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha (Wu et al. 2016, equation 14), by which log P is divided.

    `offset` is the 5 of the formula. With 0 this is |Y|^alpha, as in other toolkits.
    """
    return ((offset + length) / (offset + 1)) ** alpha


# Hypotheses ----------------------------------------------------------------------------------------------------------


@dataclass
class Hypotheses:
    """k translations of each of B sentences, running or finished. Optional fields are recorded if requested."""

    tokens: torch.Tensor  # [B, k, L], the prompt first; padding after the end
    scores: torch.Tensor  # [B, k] log P, or log P / lp once finished; -inf for an empty place
    lengths: torch.Tensor | None = None  # [B, k] finished hypotheses' tokens without padding
    parents: torch.Tensor | None = None  # [B, k] the beam, 0 to n - 1, that a candidate continues
    log_probs: torch.Tensor | None = None  # [B, k, L - prompt] each token's; 0 after the end
    rows: torch.Tensor | None = None  # [B, k, L - prompt] the row of the batch behind each token; -1 after the end

    def pick(self, index: torch.Tensor) -> "Hypotheses":
        """Select hypotheses of each sentence, by index [B, m]: [B, k, ...] -> [B, m, ...]."""
        return replace(self, **{name: pick(x, index) for name, x in vars(self).items() if x is not None})

    def select(self, sentences: torch.Tensor) -> "Hypotheses":
        """Select sentences, by index [b]: [B, k, ...] -> [b, k, ...]."""
        return replace(self, **{name: x.index_select(0, sentences) for name, x in vars(self).items() if x is not None})

    def concatenate(self, more: "Hypotheses") -> "Hypotheses":
        """Join two sets of hypotheses of the same sentences: [B, k, ...], [B, m, ...] -> [B, k + m, ...]."""
        fields = {name: x for name, x in vars(self).items() if x is not None}
        return replace(self, **{name: torch.cat((x, getattr(more, name)), dim=1) for name, x in fields.items()})

    def append(
        self, token: torch.Tensor | int, log_prob: torch.Tensor | float, row: torch.Tensor | int
    ) -> "Hypotheses":
        """Append one token to each hypothesis. The arguments are [B, k], or one value for all."""
        tokens = append_column(self.tokens, token)
        if self.log_probs is None:
            return replace(self, tokens=tokens)
        log_probs, rows = append_column(self.log_probs, log_prob), append_column(self.rows, row)
        return replace(self, tokens=tokens, log_probs=log_probs, rows=rows)

    def pad(self, places: int, fill: int) -> "Hypotheses":
        """Lengthen all hypotheses by this number of places after their ends."""
        tokens = nn.functional.pad(self.tokens, (0, places), value=fill)
        if self.log_probs is None:
            return replace(self, tokens=tokens)
        log_probs = nn.functional.pad(self.log_probs, (0, places))
        rows = nn.functional.pad(self.rows, (0, places), value=-1)
        return replace(self, tokens=tokens, log_probs=log_probs, rows=rows)


def pick(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """x [B, k, ...], index [B, m] -> [B, m, ...]"""
    return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand(*index.shape, *x.shape[2:]))


def append_column(x: torch.Tensor, last: torch.Tensor | float) -> torch.Tensor:
    """x [B, k, L], last [B, k] or one number -> [B, k, L + 1]"""
    last = last.unsqueeze(-1) if isinstance(last, torch.Tensor) else x.new_full((*x.shape[:2], 1), last)
    return torch.cat((x, last), dim=-1)


# The search ----------------------------------------------------------------------------------------------------------


class BeamSearch:
    """The state of one search over B sentences, and its steps.

    Args:
        prompt: [B * n, L], the same for the n beams of a sentence.
        num_beams: n.
        max_length: Maximum number of tokens of a hypothesis, prompt included: one for all, or each sentence's, [B, 1].
        alpha, offset: The parameters of `length_penalty`.
        early_stopping: When to stop. "never": when no running hypothesis can still become better than the finished
            ones, as in the paper. `True`: at n finished hypotheses. `False`: when no running hypothesis is better at
            its present length, which is a guess.
        num_ends: How many tokens of the vocabulary end a hypothesis.
        fill: The token after an end.
        do_sample: Whether to draw candidates by their probabilities, instead of taking the best.
        records_tokens: Whether to record the log-probability and the row of each token.
        vocabulary: The tokens that the log-probabilities belong to, [V]; by default 0 to V - 1.
    """

    def __init__(
        self,
        prompt: torch.Tensor,
        num_beams: int,
        max_length: int | torch.Tensor,
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
        self.num_beams, self.prompt_length = num_beams, prompt.shape[1]
        self.alpha, self.offset, self.early_stopping = alpha, offset, early_stopping
        self.fill, self.do_sample = fill, do_sample
        self.num_candidates = max(2, 1 + num_ends) * num_beams  # at least n of them do not end

        tokens, device = prompt.unflatten(0, (-1, num_beams)), prompt.device
        self.first_rows = torch.arange(len(tokens), device=device).unsqueeze(-1) * num_beams  # [B, 1]
        self.max_lengths = torch.as_tensor(max_length, device=device).expand(len(tokens), 1)
        self.among_best = torch.arange(self.num_candidates, device=device) < num_beams  # [N]
        self.finished = Hypotheses(
            tokens=tokens,
            scores=torch.full(tokens.shape[:2], IMPOSSIBLE, device=device),
            lengths=torch.full(tokens.shape[:2], self.prompt_length, device=device),
            log_probs=torch.zeros(*tokens.shape[:2], 0, device=device) if records_tokens else None,
            rows=torch.zeros(*tokens.shape[:2], 0, dtype=torch.long, device=device) if records_tokens else None,
        )
        first_beam = torch.arange(num_beams, device=device) == 0  # all beams are equal at first, so only one counts
        scores = self.finished.scores.masked_fill(first_beam, 0.0)
        self.running = replace(self.finished, scores=scores, lengths=None)
        self.may_improve = torch.ones(len(tokens), 1, dtype=torch.bool, device=device)
        self.sentences = torch.arange(len(tokens), device=device)  # [b], those still in the batch
        self.dropped: list[tuple[torch.Tensor, Hypotheses]] = []
        self.is_over = False

    @property
    def input_ids(self) -> torch.Tensor:
        """The tokens of the running hypotheses, [B * n, L]."""
        return self.running.tokens.flatten(0, 1)

    def step(self, log_probs: torch.Tensor, ends: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Log-probabilities of the next token [B * n, V] -> the rows of the batch that the beams continue, [B * n].

        `ends` tells which hypotheses [rows, L] end with their last token: bool [rows].
        """
        candidates = self.extend(log_probs)
        ended = ends(candidates.tokens.flatten(0, 1)).unflatten(0, (-1, self.num_candidates))  # [B, N]
        self.keep_finished(candidates, ended)
        self.keep_running(candidates, ended)
        self.look_ahead(ended)
        return (self.running.parents + self.first_rows).flatten()

    def extend(self, log_probs: torch.Tensor) -> Hypotheses:
        """The N best continuations of each sentence's beams, best first; with `do_sample`, in the order drawn."""
        choose = draw_tokens if self.do_sample else best_continuations
        log_probs = log_probs.unflatten(0, (-1, self.num_beams))  # [B, n, V]
        scores, parents, tokens, token_log_probs = choose(log_probs, self.running.scores, self.num_candidates)
        tokens = tokens if self.vocabulary is None else self.vocabulary[tokens]
        longer = self.running.pick(parents).append(tokens, token_log_probs, parents + self.first_rows)
        return replace(longer, scores=scores, parents=parents)

    def keep_finished(self, candidates: Hypotheses, ended: torch.Tensor):
        """Keep the best n finished hypotheses by log P / lp: earlier ones, and those of the best n that just ended."""
        penalty = length_penalty(candidates.tokens.shape[-1] - self.prompt_length, self.alpha, self.offset)
        counts = ended & self.among_best & self.may_improve
        scores = (candidates.scores / penalty).masked_fill(~counts, IMPOSSIBLE)
        lengths = torch.full_like(candidates.tokens[..., 0], candidates.tokens.shape[-1])
        earlier = self.finished.append(self.fill, 0.0, -1)
        both = earlier.concatenate(replace(candidates, scores=scores, lengths=lengths))
        self.finished = both.pick(both.scores.topk(self.num_beams, dim=-1).indices)

    def keep_running(self, candidates: Hypotheses, ended: torch.Tensor):
        """Prune: keep the best n hypotheses that did not end, by log P."""
        scores, chosen = candidates.scores.masked_fill(ended, IMPOSSIBLE).topk(self.num_beams, dim=-1)
        self.running = replace(candidates.pick(chosen), scores=scores)

    def look_ahead(self, ended: torch.Tensor):
        """Find out for each sentence whether its best running hypothesis can still beat its worst finished one."""
        length: int | torch.Tensor = self.running.tokens.shape[-1] - self.prompt_length
        if self.early_stopping == "never" and self.alpha > 0:  # the longest possible hypothesis has the lowest penalty
            length = self.max_lengths - self.prompt_length
        best = self.running.scores[:, :1] / length_penalty(length, self.alpha, self.offset)
        worst = self.finished.scores.amin(dim=1, keepdim=True)  # -inf where fewer than n have finished
        self.may_improve = self.may_improve & (best > worst)
        if self.early_stopping is True:
            self.may_improve = self.may_improve & (worst == IMPOSSIBLE)
        self.is_over = not bool(self.may_improve.any() & ~ended.all())

    def drop_finished(self) -> torch.Tensor | None:
        """Drop sentences whose search is over, if they are many, and return the indices of the others, [b]."""
        runs = self.may_improve.squeeze(1)
        if self.is_over or runs.sum() > (1 - MIN_FINISHED_SHARE) * len(runs):
            return None
        done, stay = (~runs).nonzero().squeeze(1), runs.nonzero().squeeze(1)
        self.dropped.append((self.sentences[done], self.finished.select(done)))
        self.sentences, self.may_improve = self.sentences[stay], self.may_improve[stay]
        self.finished, self.running = self.finished.select(stay), self.running.select(stay)
        self.first_rows, self.max_lengths = self.first_rows[: len(stay)], self.max_lengths[stay]
        return stay

    def all_finished(self) -> Hypotheses:
        """The finished hypotheses of all B sentences, in their order."""
        groups = [*self.dropped, (self.sentences, self.finished)]
        width = self.finished.tokens.shape[-1]
        for i, (_, finished) in enumerate(groups):
            groups[i] = groups[i][0], finished.pad(width - finished.tokens.shape[-1], self.fill)
        order = torch.cat([sentences for sentences, _ in groups]).argsort()
        fields = [name for name, x in vars(self.finished).items() if x is not None]
        whole = {name: torch.cat([getattr(finished, name) for _, finished in groups]) for name in fields}
        return replace(self.finished, **whole).select(order)

    def best(self, count: int) -> Hypotheses:
        """The best `count` finished hypotheses of each sentence: [B * count, ...], as wide as the longest."""
        finished = self.all_finished()
        fields = {name: x for name, x in vars(finished).items() if x is not None}
        best = replace(finished, **{name: x[:, :count].flatten(0, 1) for name, x in fields.items()})
        is_empty = best.scores == IMPOSSIBLE  # fewer than `count` hypotheses have finished
        lengths = best.lengths.masked_fill(is_empty, self.prompt_length)
        longest = int(lengths.max())
        tokens = best.tokens[:, :longest].clone()
        tokens[:, self.prompt_length :].masked_fill_(is_empty.unsqueeze(-1), self.fill)
        if best.log_probs is None:
            return replace(best, tokens=tokens, lengths=lengths)
        width = longest - self.prompt_length
        return replace(
            best, tokens=tokens, lengths=lengths, log_probs=best.log_probs[:, :width], rows=best.rows[:, :width]
        )


# Choosing tokens -----------------------------------------------------------------------------------------------------

Continuations = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def best_continuations(log_probs: torch.Tensor, scores: torch.Tensor, count: int) -> Continuations:
    """The `count` best continuations: log_probs [B, n, V] and log P so far [B, n] -> four tensors [B, count].

    The four are log P with the token, the beam, the token, and the token's log-probability, best first.
    """
    totals, index = best_tokens(log_probs, count, scores)
    vocab_size = log_probs.shape[-1]
    return totals, index // vocab_size, index % vocab_size, log_probs.flatten(1).gather(1, index)


def draw_tokens(log_probs: torch.Tensor, scores: torch.Tensor, count: int) -> Continuations:
    """As `best_continuations`, but drawn without replacement, by their probabilities."""
    totals = (log_probs + scores.unsqueeze(-1)).flatten(1)  # [B, n * V]
    shares = totals.softmax(dim=-1).nan_to_num(1.0)  # nan: no beam can continue, and the draw does not count
    index = torch.multinomial(shares, count)
    vocab_size = log_probs.shape[-1]
    return totals.gather(1, index), index // vocab_size, index % vocab_size, log_probs.flatten(1).gather(1, index)


def best_tokens(
    scores: torch.Tensor, count: int, offsets: torch.Tensor | None = None, width: int = 32
) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` highest `scores` [B, n, V] + `offsets` [B, n], and their indices in n * V: twice [B, count].

    The result is that of `(scores + offsets.unsqueeze(-1)).flatten(1).topk(count)`, in a fraction of its time.
    """
    beams, vocab_size = scores.shape[1:]
    offsets = scores.new_zeros(scores.shape[:2]) if offsets is None else offsets
    if vocab_size < 4 * width * count:
        return (scores + offsets.unsqueeze(-1)).flatten(1).topk(min(count, beams * vocab_size), dim=-1)
    # A token among the `count` best lies in one of the `count` blocks with the highest maxima, or in the rest after the
    # last block. If its block were another one, each of these blocks would hold a better token.
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
