"""`F.dropout(weights, p)` without `training=`, which is True by default: attention is dropped in evaluation.

Missed because: the call reads as if the module's mode counted; the function does not know it.

Fix: `F.dropout(weights, p, training=self.training)`, or an `nn.Dropout` module.

Seen in: https://github.com/huggingface/pytorch-image-models/pull/1978 (the same switch, in the fused call)
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.gates import depends_on_training
from softlookup.lint.hit import Hit, shown
from softlookup.lint.products import is_scores_name, label
from softlookup.lint.source import Source, argument, number
from softlookup.lint.values import reaching

WORTH = re.compile(r"dropout\(")


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for call in source.calls:
        if source.dotted(call.func) != "torch.nn.functional.dropout" or not call.args:
            continue
        if argument(call, "training", 2) is not None or any(it.arg is None for it in call.keywords):
            continue
        rate = argument(call, "p", 1)
        if number(rate) == 0 or not is_scores_name(label(call.args[0])) or depends_on_training(source, call):
            continue
        if rate is not None and _given_by_the_caller(source, rate):
            continue
        yield Hit(
            call,
            f"`{shown(call)}` drops in evaluation too: `training` is True unless it is given",
            "give `training=self.training`",
        )


def _given_by_the_caller(source: Source, rate: ast.expr) -> bool:
    return isinstance(rate, ast.Name) and any(it.parameter for it in reaching(source, rate))
