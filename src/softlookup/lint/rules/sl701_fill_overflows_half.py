"""A fill such as `-1e9` in a module that also runs in float16, whose smallest number is -65504.

Missed because: float32 and bfloat16 hold it; only float16 refuses it, or makes -inf of it.

Fix: `torch.finfo(scores.dtype).min`, or `float("-inf")`.

Seen in: https://github.com/facebookresearch/fairseq/issues/3575, https://github.com/openai/gpt-2/pull/122,
https://github.com/huggingface/lerobot/pull/710
"""

import ast
import math
import re
from collections.abc import Iterator

from softlookup.lint.fills import reaches_softmax, written_fills
from softlookup.lint.hit import Hit, shown
from softlookup.lint.source import Source
from softlookup.lint.values import everything_before

WORTH = re.compile(r"\de\+?\d|\d{6}")
_HALF = re.compile(r"\.half\(\)|(?<!b)float16|autocast|fp16")
_FLOAT = re.compile(r"\.float\(\)|float32|\.double\(\)")
_SMALLEST = -65504.0


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    if not _HALF.search(source.text):
        return
    for fill in written_fills(source):
        if not fill.value < _SMALLEST or not math.isfinite(fill.value) or not reaches_softmax(source, fill):
            continue
        if not any(_FLOAT.search(ast.unparse(it)) for it in everything_before(source, fill.tensor)):
            yield Hit(
                fill.node,
                f"{shown(fill.node)} does not fit into float16 (smallest -65504), which this file speaks of",
                "torch.finfo(scores.dtype).min",
            )
