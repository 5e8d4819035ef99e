"""How sure a mean over inputs is: a bootstrap interval and a sign-flip p-value, honest about few inputs.

Values are differences within pairs: the same input with and without an intervention. Nothing here draws
from torch's global generator, and the same values give the same numbers again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from softlookup.masks.accept import whole_number
from softlookup.terms import SoftlookupError

_ENUMERATED = 16  # values whose 2^n signs are all tried
_CHUNK = 1 << 22  # numbers drawn at a time


@dataclass(frozen=True)
class Resampling:
    """How intervals and p-values are found.

    level: of the intervals;  seed: of both
    resamples: of the bootstrap, and of signs where not all are tried

    Raises: SoftlookupError for a level that is not between 0.5 and 1, or fewer than 100 resamples.
    """

    level: float = 0.95
    resamples: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.5 <= self.level < 1:
            raise SoftlookupError(
                "experiments: the level of an interval.", expected="0.5 <= level < 1", got=f"{self.level}"
            )
        whole_number("resamples", self.resamples, at_least=100)

    @property
    def fewest(self) -> int:
        """How many values an interval needs.

        No resample lies beyond the smallest and the largest value, and these enclose the middle of the
        distribution with a probability of 1 - 2^(1 - n) only: 0.94 for 5 values, 0.97 for 6.
        """
        return math.ceil(1 - math.log2(1 - self.level))


@dataclass(frozen=True)
class Estimate:
    """A mean, how sure it is, and the words for both.

    interval: None where there are too few values for one at this level;  how: how it was found, or why not
    p_value: two-sided, of a mean of 0; None where it cannot be found;  p_how: as ``how``
    """

    mean: float
    n: int
    interval: tuple[float, float] | None
    level: float
    how: str
    p_value: float | None
    p_how: str

    def __str__(self) -> str:
        between = "no interval" if self.interval is None else interval_words(self.interval, self.level)
        p = "" if self.p_value is None else f", {p_words(self.p_value)}"
        return f"{self.mean:.4g} ({between}{p}, n = {self.n})"

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.interval is not None and self.interval[0] > 0

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval lies below 0."""
        return self.interval is not None and self.interval[1] < 0

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


def interval_words(interval: tuple[float, float], level: float) -> str:
    """Return an interval in words, e.g. "95 % between 1.2 and 3.4"."""
    return f"{100 * level:g} % between {interval[0]:.3g} and {interval[1]:.3g}"


def p_words(p_value: float) -> str:
    """Return a p-value as people write it."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"


def estimate(
    values: Sequence[float], how: Resampling | None = None, *, what: str = "input", test: str = ""
) -> Estimate:
    """Return the mean of values, its bootstrap interval and its sign-flip p-value.

    values: one number an input, differences within pairs;  what: what one of them stands for
    test: why no p-value is asked for; "" where one is

    Raises: SoftlookupError without values, or with NaN or inf among them.

    >>> print(estimate([1.0, 2.0, 1.5, 0.5, 1.2, 0.9, 1.1]))
    1.171 (95 % between 0.8 and 1.67, p = 0.016, n = 7)
    >>> print(estimate([1.0]).how)
    1 input: no interval at 95 %, which needs at least 6
    """
    how = how or Resampling()
    data = _finite(values)
    interval = bootstrap_interval(values, how)
    count = f"{len(data)} {what}{'s' if len(data) != 1 else ''}"
    words = (
        f"BCa bootstrap over {count}, {how.resamples} resamples, seed {how.seed}"
        if interval is not None
        else f"{count}: no interval at {100 * how.level:g} %, which needs at least {how.fewest}"
    )
    p_value, p_how = (None, test) if test else sign_flip_p_value(values, how)
    return Estimate(float(data.mean()), len(data), interval, how.level, words, p_value, p_how)


def bootstrap_interval(values: Sequence[float], how: Resampling | None = None) -> tuple[float, float] | None:
    """Return the BCa bootstrap interval of a mean (Efron 1987); None with fewer than ``how.fewest`` values.

    The bare bootstrap is too narrow for few values; its normal quantiles are therefore widened by
    sqrt(n / (n - 1)) and Student's t, which makes it as wide as the t interval where values are normal
    (Hesterberg 2015, "expanded percentiles").
    """
    how = how or Resampling()
    data = _finite(values)
    n = len(data)
    if n < how.fewest:
        return None
    if bool((data == data[0]).all()):
        return float(data[0]), float(data[0])
    means = _resampled_means(data, how)
    normal = NormalDist()
    below = float((means < data.mean()).double().mean() + (means == data.mean()).double().mean() / 2)
    bias = normal.inv_cdf(min(max(below, 1 / how.resamples), 1 - 1 / how.resamples))
    spread = data - data.mean()  # of the jackknife, which for a mean is this over n - 1
    skew = float((spread**3).sum() / (6 * (spread**2).sum() ** 1.5))
    wide = math.sqrt(n / (n - 1)) * _t_quantile((1 + how.level) / 2, n - 1)
    ends = [bias + z for z in (-wide, wide)]
    shares = [normal.cdf(bias + z / max(1 - skew * z, 0.1)) for z in ends]
    low, high = torch.quantile(means, torch.tensor(shares, dtype=torch.float64)).tolist()
    return low, high


def _resampled_means(data: Tensor, how: Resampling) -> Tensor:
    """[resamples]: means of as many values, drawn with replacement."""
    draw = torch.Generator().manual_seed(how.seed)
    rows = max(1, _CHUNK // len(data))
    return torch.cat(
        [
            data[torch.randint(len(data), (min(rows, how.resamples - done), len(data)), generator=draw)].mean(
                1
            )
            for done in range(0, how.resamples, rows)
        ]
    )


def sign_flip_p_value(values: Sequence[float], how: Resampling | None = None) -> tuple[float | None, str]:
    """Return how often random signs give a mean as far from 0, and how that was found.

    If the intervention did nothing, which run of a pair is called changed is arbitrary, so every sign is as
    likely as the other. All 2^n signs are tried up to 16 values. None for one value: its p could only be 1.

    >>> sign_flip_p_value([1.0, 2.0, 3.0, 2.5, 1.5])[0]
    0.0625
    """
    how = how or Resampling()
    data = _finite(values)
    n = len(data)
    if n < 2:
        return None, f"{n} input: there is no p-value over inputs"
    far = abs(float(data.mean())) * (1 - 1e-9)  # the same sum in another order differs in the last digits
    if n <= _ENUMERATED:
        bits = torch.arange(2**n)[:, None] >> torch.arange(n) & 1
        share = float((((1 - 2 * bits).double() @ data / n).abs() >= far).double().mean())
        return share, f"all {2**n} sign flips over {n} inputs; no p is smaller than {2 / 2**n:.2g}"
    draw = torch.Generator().manual_seed(how.seed)
    hits, rows = 0, max(1, _CHUNK // n)
    for done in range(0, how.resamples, rows):
        signs = 1 - 2 * torch.randint(2, (min(rows, how.resamples - done), n), generator=draw)
        hits += int(((signs.double() @ data / n).abs() >= far).sum())
    return (hits + 1) / (how.resamples + 1), f"{how.resamples} random sign flips over {n} inputs"


def _finite(values: Sequence[float]) -> Tensor:
    data = torch.as_tensor(list(values), dtype=torch.float64)
    if not len(data):
        raise SoftlookupError("experiments: the mean of values.", expected="at least one value", got="none")
    if not bool(data.isfinite().all()):
        first = int((~data.isfinite()).nonzero()[0])
        raise SoftlookupError(
            "experiments: a value over inputs is not finite.",
            expected="finite numbers",
            got=f"{float(data[first])} for input {first}",
            hint="look at what the model or the metric gives for this input",
        )
    return data


def _t_quantile(share: float, freedom: int) -> float:
    """Student's t by the expansion of Cornish and Fisher; to 3 digits from 5 degrees of freedom on."""
    z = NormalDist().inv_cdf(share)
    terms: tuple[float, ...] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    found: float = z + sum(term / freedom ** (i + 1) for i, term in enumerate(terms))
    return found
