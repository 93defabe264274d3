"""Confidence intervals of 95%."""

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
    """Losses of rows that were trained with the same seeds and tested on the same pairs.

    nats [rows, seeds, N]: the loss of each pair, NaN if the row was not trained with the seed.
    tokens [N]: the length of each target.
    """

    rows: list[str]
    nats: np.ndarray
    tokens: np.ndarray

    @property
    def means(self) -> np.ndarray:
        """Nats per token: [rows, seeds]."""
        return self.nats.sum(axis=-1) / self.tokens.sum()


def differences(design: Design, baseline: str, max_spread: float = 2.0) -> dict[str, Interval]:
    """The difference between each row and the baseline, in nats per token.

    A two-way analysis of variance, with seeds as blocks: what remains of a loss after subtracting the means of its row
    and of its seed is noise, and all rows together estimate its variance. Added to this is the sampling of pairs,
    estimated from the paired differences.

    This assumes equally noisy rows. A row whose paired differences spread over `max_spread` times as much as the
    median row's is excluded from the common estimate and gets its own. In simulations with the default of 2, the
    interval of a row of three seeds that is two to five times as noisy as the others holds the truth in some 85% of
    cases; all other intervals do so in 94%.
    """
    means, base = design.means, design.rows.index(baseline)
    seed_counts = np.isfinite(means).sum(axis=1)
    paired = means - means[base]  # [rows, seeds]
    spread = np.nanstd(paired, axis=1, ddof=1)
    compared = np.array([i for i in range(len(means)) if i != base])
    steady = [base, *(i for i in compared if spread[i] <= max_spread * np.median(spread[compared]))]
    noise, noise_freedom = residual_variance(means[steady])
    intervals = {}
    for i in compared:
        seed_variance, freedom = (2 * noise, noise_freedom) if i in steady else (spread[i] ** 2, seed_counts[i] - 1)
        pair_variance = sampling_variance(np.nanmean(design.nats[i] - design.nats[base], axis=0), design.tokens)
        error = np.sqrt(seed_variance / seed_counts[i] + pair_variance)
        value, reach = np.nanmean(paired[i]), stats.t.ppf((1 + LEVEL) / 2, freedom) * error
        intervals[design.rows[i]] = Interval(value, value - reach, value + reach)
    return intervals


def residual_variance(means: np.ndarray) -> tuple[float, int]:
    """The variance that neither row nor seed explains, and its degrees of freedom: [rows, seeds], NaN if missing."""
    rows, seeds = np.nonzero(np.isfinite(means))
    factors = np.hstack([np.eye(len(means))[rows], np.eye(means.shape[1])[seeds]])
    fitted = factors @ np.linalg.lstsq(factors, means[rows, seeds], rcond=None)[0]
    freedom = len(rows) - int(np.linalg.matrix_rank(factors))
    return float(((means[rows, seeds] - fitted) ** 2).sum() / freedom), freedom


def sampling_variance(nats: np.ndarray, tokens: np.ndarray) -> float:
    """The variance of sum(nats) / sum(tokens) over samples of N pairs: [N], [N]."""
    count, ratio = len(tokens), nats.sum() / tokens.sum()
    return float(((nats - ratio * tokens) ** 2).sum() / tokens.sum() ** 2 * count / (count - 1))


def bootstrap(statistic: Callable[[np.ndarray], float], count: int, draws: int = 1000, seed: int = 1) -> Interval:
    """The interval of a statistic of `count` examples, given by their indices: percentiles of `draws` resamples."""
    examples = np.arange(count)
    value = float(statistic(examples))
    if count < 2:
        return Interval(value, value, value)
    low, high = stats.bootstrap(
        (examples,), statistic, n_resamples=draws, vectorized=False,
        confidence_level=LEVEL, method="percentile", rng=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    return Interval(value, float(low), float(high))


def mean(values: np.ndarray) -> Interval:
    """The interval of a mean, by Student's t: [N]."""
    reach = stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return Interval(values.mean(), values.mean() - reach, values.mean() + reach)


def slope(x: np.ndarray, y: np.ndarray) -> Interval:
    """The slope of the least-squares line through the points: [N], [N]."""
    line = stats.linregress(x, y)
    reach = stats.t.ppf((1 + LEVEL) / 2, len(x) - 2) * line.stderr
    return Interval(line.slope, line.slope - reach, line.slope + reach)
