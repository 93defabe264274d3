"""How sure one can be of a difference: intervals of 95%."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats


LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate and the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.3f} ({self.low:+.3f} to {self.high:+.3f})"

    def rounded(self, digits: int = 4) -> list[float]:
        return [round(float(x), digits) for x in self]


class Design(NamedTuple):
    """Losses of rows that were each trained with the same seeds, and judged by the same pairs.

    nats [rows, seeds, N] of each pair; tokens [N] of its target.
    """

    rows: list[str]
    nats: np.ndarray
    tokens: np.ndarray

    @property
    def means(self) -> np.ndarray:
        """Nats a token: [rows, seeds]."""
        return self.nats.sum(axis=-1) / self.tokens.sum()


def differences(design: Design, baseline: str, spread: float = 2.0) -> dict[str, Interval]:
    """Of each row to the baseline, in nats a token.

    Seeds are blocks: what is left of a loss once its row's and its seed's mean are taken away is chance, and all rows
    together say how large it is (two-way analysis of variance). To that comes the choice of pairs, by the paired
    differences of pairs. This takes rows to be equally noisy. One that varies over `spread` times as much as the
    median row is left out of the common estimate and has its own: at 2, the interval of a row of three seeds that is
    two to five times as noisy as the others holds the truth in some 85% of cases, and that of any other in 94%.
    """
    means, base = design.means, design.rows.index(baseline)
    count = means.shape[1]
    paired = means - means[base]  # [rows, seeds]
    own = paired.std(axis=1, ddof=1)
    others = np.array([i for i in range(len(means)) if i != base])
    steady = [base, *(i for i in others if own[i] <= spread * np.median(own[others]))]
    residual = means[steady] - means[steady].mean(1, keepdims=True) - means[steady].mean(0) + means[steady].mean()
    freedom = (len(steady) - 1) * (count - 1)
    common = 2 * (residual**2).sum() / freedom / count  # the variance of a difference of two rows
    found = {}
    for i in others:
        variance, degrees = (common, freedom) if i in steady else (own[i] ** 2 / count, count - 1)
        error = np.sqrt(variance + of_pairs((design.nats[i] - design.nats[base]).mean(axis=0), design.tokens))
        value, reach = paired[i].mean(), stats.t.ppf((1 + LEVEL) / 2, degrees) * error
        found[design.rows[i]] = Interval(value, value - reach, value + reach)
    return found


def of_pairs(nats: np.ndarray, tokens: np.ndarray) -> float:
    """The variance of sum(nats) / sum(tokens) over the choice of N pairs: [N], [N]."""
    count, ratio = len(tokens), nats.sum() / tokens.sum()
    return float(((nats - ratio * tokens) ** 2).sum() / tokens.sum() ** 2 * count / (count - 1))


def bootstrap(statistic: Callable[[np.ndarray], float], count: int, draws: int = 1000, seed: int = 1) -> Interval:
    """Of a statistic of `count` examples, given by their indices: percentiles of `draws` samples of them."""
    rng = np.random.default_rng(seed)
    values = [statistic(rng.integers(0, count, count)) for _ in range(draws)]
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(statistic(np.arange(count))), float(low), float(high))


def mean(values: np.ndarray) -> Interval:
    """Of a mean, by Student's t: [N]."""
    reach = stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return Interval(values.mean(), values.mean() - reach, values.mean() + reach)


def slope(x: np.ndarray, y: np.ndarray) -> Interval:
    """Of the line through the points (least squares): [N], [N]."""
    line = stats.linregress(x, y)
    reach = stats.t.ppf((1 + LEVEL) / 2, len(x) - 2) * line.stderr
    return Interval(line.slope, line.slope - reach, line.slope + reach)
