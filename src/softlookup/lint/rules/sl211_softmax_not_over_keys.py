"""softmax over an axis of the scores that is not the keys: the columns sum to one, the rows do not.

Missed because: shapes are right and the loss falls; only the row sums tell.

Fix: normalise over the keys, the last axis of `q @ k.transpose(-2, -1)`: `dim=-1`.

Seen in: https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146,
https://github.com/FudanNLP/fastNLP/issues/254, https://github.com/nerminnuraydogan/vision-transformer/issues/1
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.axes import axes_of
from softlookup.lint.hit import Hit, shown
from softlookup.lint.products import fixed_dim, products_behind, softmaxes
from softlookup.lint.source import Source

WORTH = re.compile(r"[sS]oftmax\(")
_ON_PURPOSE = re.compile(r"slot|capsule|sinkhorn|match|assign|inverted", re.I)


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for call, scores, dim in softmaxes(source):
        axis = fixed_dim(dim)
        if axis is None or scores is None or _on_purpose(source, call):
            continue
        for product in products_behind(source, scores):
            if product.key_from_right is None:
                continue
            known = axes_of(source, scores)
            rank = len(product.axes.split()) or (len(known) if known is not None else None)
            from_right = -axis if axis < 0 else (rank - axis if rank is not None else None)
            if (
                from_right is not None
                and from_right != product.key_from_right
                and not _renormalised(source, call)
            ):
                yield Hit(
                    call,
                    f"the keys of `{shown(product.node)}` lie on axis -{product.key_from_right}, "
                    f"the softmax runs over axis {axis if axis < 0 else f'{axis} of {rank}'}",
                    f"dim=-{product.key_from_right}",
                )
                break


def _on_purpose(source: Source, call: ast.Call) -> bool:
    return bool(_ON_PURPOSE.search(source.qualified_name(call)))


def _renormalised(source: Source, call: ast.Call) -> bool:
    """Say whether the function divides by a sum, or takes a second softmax: then it is another method."""
    function = source.function(call)
    divided = [
        it
        for it in source.of_kind(ast.BinOp)
        if isinstance(it.op, ast.Div) and ".sum(" in ast.unparse(it.right)
    ]
    others = [it for it, _, _ in softmaxes(source) if it is not call]
    return any(source.function(it) is function for it in [*divided, *others])
