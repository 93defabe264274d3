"""The paper's search (section 6.1) and its length penalty (Wu et al. 2016, equation 14), written from the papers alone.

One sentence, no batch, no cache, no code of the package: slow, and short enough to be checked by eye.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch


class Hypothesis(NamedTuple):
    score: float  # log P / lp
    tokens: list[int]  # what was generated: no start token, `</s>` where it ended


class Found(NamedTuple):
    hypotheses: list[Hypothesis]  # best first, `beams` of them where there are so many
    margin: float  # smallest lead of a kept hypothesis over a dropped one: within rounding error, either may be kept


def length_penalty(length: int, alpha: float, offset: float = 5) -> float:
    """lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha; other toolkits have another number in the place of 5."""
    return ((offset + length) / (offset + 1)) ** alpha


def beam_search(
    log_probs: Callable[[list[list[int]]], torch.Tensor],
    end: int,
    beams: int,
    alpha: float,
    max_new_tokens: int,
    n_best: int = 1,
    any_candidate_may_end: bool = False,
    unfinished_last: bool = False,
    offset: float = 5,
) -> Found:
    """Searches with `log_probs`, which maps n hypotheses of equal length to (n, V) log-probabilities of the next token.

    Each step ranks the 2 x `beams` best continuations of all running hypotheses. Those of the best `beams` that end
    are finished (with `any_candidate_may_end`, as in tensor2tensor, all 2 x `beams` may); the best `beams` that do not
    end run on. Hypotheses that still run at `max_new_tokens` compete as they are (with `unfinished_last`, as in
    tensor2tensor, only where none has finished). A log-probability of -inf marks a token that cannot be.
    """
    running: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[Hypothesis] = []
    margin = math.inf

    def keep(ranked: list, limit: int) -> list:
        """The first `limit` of a list of tuples ranked by their first field; notes how near the next one came."""
        nonlocal margin
        if 0 < limit < len(ranked):
            margin = min(margin, ranked[limit - 1][0] - ranked[limit][0])
        return ranked[:limit]

    def rank(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)

    for length in range(1, max_new_tokens + 1):
        totals = torch.tensor([[log_p] for log_p, _ in running], dtype=torch.float64)
        totals = totals + log_probs([tokens for _, tokens in running]).double()
        scores, order = totals.flatten().sort(descending=True)
        rows, tokens = order // totals.shape[1], order % totals.shape[1]
        candidates = [
            (log_p, running[row][1] + [token])
            for log_p, row, token in zip(scores[: 3 * beams].tolist(), rows.tolist(), tokens.tolist(), strict=False)
            if log_p > -math.inf
        ]
        may_end = keep(candidates, 2 * beams if any_candidate_may_end else beams)
        finished += [
            Hypothesis(log_p / length_penalty(length, alpha, offset), tokens)
            for log_p, tokens in may_end
            if tokens[-1] == end
        ]
        finished = keep(rank(finished), beams)
        running = keep([candidate for candidate in candidates if candidate[1][-1] != end], beams)
        # Log-probabilities only fall, and the penalty is kindest to the longest.
        if not running or (
            len(finished) == beams
            and running[0][0] / length_penalty(max_new_tokens, alpha, offset) <= finished[-1].score
        ):
            break
    else:
        if not (unfinished_last and finished):
            finished += [Hypothesis(log_p / length_penalty(length, alpha, offset), tokens) for log_p, tokens in running]

    finished = rank(finished)
    for better, worse in zip(finished[:n_best], finished[1 : n_best + 1], strict=False):
        margin = min(margin, better.score - worse.score)
    return Found(finished[:n_best], margin)
