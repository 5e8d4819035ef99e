"""`dropout_p` of a fused attention call is gated by no training flag: dropout stays on in evaluation.

Missed because: `nn.Dropout` looks at `self.training` by itself; the functional call has nowhere to look.

Fix: `dropout_p=self.dropout if self.training else 0.0`.

Seen in: https://github.com/huggingface/pytorch-image-models/pull/1978,
https://github.com/meta-pytorch/torchtune/issues/1791, https://github.com/wenet-e2e/wenet/issues/2699,
https://github.com/NVIDIA/torch-harmonics/pull/221
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.gates import depends_on_training
from softlookup.lint.hit import Hit, shown
from softlookup.lint.source import Source, argument, is_self_attribute, number
from softlookup.lint.values import reaching

WORTH = re.compile(r"dropout_p|scaled_dot_product_attention")
_POSITION = {"scaled_dot_product_attention": 4, "flash_attn_func": 3, "flash_attn_qkvpacked_func": 1}
_CALLS = {
    *_POSITION,
    "flash_attn_varlen_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_kvpacked_func",
}


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for call in source.calls:
        if source.called(call) not in _CALLS:
            continue
        rate = argument(call, "dropout_p", _POSITION.get(source.called(call)))
        if rate is None or not _is_a_rate(source, rate) or depends_on_training(source, rate):
            continue
        yield Hit(
            rate,
            f"`{source.called(call)}` drops with `{shown(rate)}` in evaluation too: no one asks the mode",
            f"dropout_p={shown(rate)} if self.training else 0.0",
        )


def _is_a_rate(source: Source, node: ast.expr) -> bool:
    """Say whether this code decides on a rate above 0: by a number, an attribute, a config value."""
    if isinstance(node, ast.Name):
        bindings = reaching(source, node)
        values = [it.value for it in bindings if it.value is not None]
        if not bindings or any(it.parameter for it in bindings) or len(values) < len(bindings):
            return False  # the caller decides
        return any(_is_a_rate(source, value) for value in values)
    if (value := number(node)) is not None:
        return value > 0
    if isinstance(node, ast.IfExp):
        return _is_a_rate(source, node.body) or _is_a_rate(source, node.orelse)
    if is_self_attribute(node):
        values = source.attribute_values(source.owner(node), node.attr)
        return source.method(source.owner(node), node.attr) is None and any(
            number(it) != 0 for it in values or [node]
        )
    if isinstance(node, ast.Attribute):  # what a backward pass has kept was decided in the forward pass
        return not source.dotted(node).startswith("ctx.")
    return False
