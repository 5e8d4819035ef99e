"""Hidden scores are filled with a number near zero, `1e-9` where `-1e9` was meant: they keep weight.

Missed because: the sign has slipped into the exponent, and the mask still changes the output.

Fix: `float("-inf")`, or `torch.finfo(scores.dtype).min`.

Seen in: https://github.com/awslabs/gluonts/pull/1401, https://github.com/hyunwoongko/transformer/issues/10
"""

import re
from collections.abc import Iterator

from softlookup.lint.fills import reaches_softmax, written_fills
from softlookup.lint.hit import Hit, shown
from softlookup.lint.source import Source

WORTH = re.compile(r"\de-\d")
_NEAR_ZERO = 1e-2


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for fill in written_fills(source):
        if 0 < abs(fill.value) <= _NEAR_ZERO and reaches_softmax(source, fill):
            yield Hit(
                fill.node,
                f"hidden scores become {shown(fill.node)}, about 0: after the softmax they keep weight",
                'float("-inf"), or torch.finfo(scores.dtype).min',
            )
