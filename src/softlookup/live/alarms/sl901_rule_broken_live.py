"""A call of a running model put weight on keys that the declared rule forbids.

The mask that reached the kernel shows more than the rule says: it was dropped, inverted, built for another
length, or laid along the wrong axis. Nothing fails: shapes are right, and in training the loss even falls,
faster than it should.

Missed because: each module is right by itself. What is lost is lost between them, on the way of the mask
from the batch to the kernel, and a fused kernel shows nobody what it was given.

Fix: print what `trace.layers` says of the first layer named, and follow its mask back to where it is made.
`softlookup.identify(mask)` says what it can mean.
"""

from __future__ import annotations

from collections.abc import Iterator

from softlookup.live.limits import Limits, Raised
from softlookup.live.past import Past
from softlookup.live.record import Record


def judge(record: Record, past: Past, limits: Limits) -> Iterator[Raised]:
    """Compare the weight on forbidden keys with nothing."""
    forbidden = record.statistics.moments.get("forbidden_mass")
    if forbidden is None:
        return
    worst, mean = forbidden.high[0], forbidden.mean[0]
    broken = (worst > limits.forbidden_mass).nonzero()[:, 0].tolist()
    if not broken:
        return
    head = int(worst.nan_to_num(0).argmax())
    heads = f"{len(broken)} of {len(worst)} heads" if len(broken) > 1 else f"head {head}"
    words = (
        f"{heads} put up to {float(worst[head]):.3g} of a query's weight on keys that the rule hides"
        f" ({float(mean[head]):.3g} on average)"
    )
    yield Raised(None if len(broken) > 1 else head, float(worst[head]), words)
