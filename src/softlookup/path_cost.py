"""What ``attend`` makes of a mask in words: its path and why, the scores it computes, the mask it leaves out.

Nothing is computed: the mask and the lengths are enough.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from softlookup.cost import Workload, attention_cost, bytes_in_words, facts_table
from softlookup.terms import SoftlookupError

_WIDTH = 100  # characters of a line


@dataclass(frozen=True)
class MaskCost:
    """One call of attend for a layer of self-attention. Scores are counted over B * H."""

    mask: str
    path: str
    reason: str
    calls: tuple[str, ...]  # what is handed to fused kernels, in words
    visible_logits: int  # pairs of a query and a key that it sees
    computed_logits: int
    dense_mask_bytes: int  # the mask as a tensor [B or 1, H or 1, T, T]: bool, or float32 for a bias
    makes_dense_mask: bool


def mask_cost(workload: Workload, text: str, device: str = "cpu") -> MaskCost:
    """Return which way ``attend`` goes with a mask in words, and what it computes there.

    Raises: SoftlookupError when the text is no mask, the mask does not fit the layer, or the layer is said to
    be causal beside it.

    >>> cost = mask_cost(Workload(1, 8, 1024, 64, dtype="float32"), "causal & sliding_window(64)")
    >>> cost.visible_logits == 8 * sum(min(row + 1, 64) for row in range(1024))
    True
    >>> cost.visible_logits <= cost.computed_logits < 8 * 1024**2 // 4
    True
    """
    from softlookup.fused import explain_path
    from softlookup.masks import Mask
    from softlookup.masks.expression import read_mask_expression

    mask = read_mask_expression(text)
    if workload.causal:
        raise SoftlookupError(
            "cost: the mask of attend says all that is hidden.",
            expected="causal in the mask, not beside it",
            got=f"causal and the mask {mask!r}",
            hint='--attend "causal & ..." without --causal',
        )
    path = explain_path(
        mask,
        q_len=workload.tokens,
        k_len=workload.tokens,
        batch=workload.batch,
        heads=workload.heads,
        d_head=workload.head_dim,
        dropout_p=workload.dropout_p,
        device=device,
    )
    layers = (mask.sizes["B"] or 1) * (mask.sizes["H"] or 1)
    return MaskCost(
        mask=repr(mask),
        path=path.name,
        reason=path.reason,
        calls=tuple(path.calls),
        visible_logits=path.visible * workload.heads,
        computed_logits=path.logits * workload.heads,
        dense_mask_bytes=layers * workload.tokens**2 * (1 if isinstance(mask, Mask) else 4),
        makes_dense_mask=path.name == "whole mask",
    )


def mask_report(workload: Workload, text: str, device: str = "cpu") -> str:
    """Return the same as text.

    Raises: SoftlookupError as ``mask_cost`` does.
    """
    cost, logits = mask_cost(workload, text, device), attention_cost(workload).logits
    visible, computed = cost.visible_logits, cost.computed_logits
    ratio = f", {computed / visible:.3g} times as many" if visible < computed and visible else ""
    rows = [
        ("logits", f"{logits:,}", "B * H * T * T"),
        ("visible", f"{visible:,}", f"{visible / logits:.1%}"),
        ("computed", f"{computed:,}", f"{computed / logits:.1%}{ratio}"),
        (
            "made" if cost.makes_dense_mask else "never made",
            bytes_in_words(cost.dense_mask_bytes),
            "the mask as a tensor",
        ),
    ]
    said = [("mask", cost.mask), ("why", cost.reason), *(("call", words) for words in cost.calls)]
    title = f"attend on {device} takes this path: {cost.path}"
    return "\n".join([facts_table(title, rows), *(_wrapped(name, words) for name, words in said)])


def _wrapped(name: str, words: str) -> str:
    first = f"  {name:<12}"
    return textwrap.fill(words, _WIDTH, initial_indent=first, subsequent_indent=" " * len(first))
