"""From a mask to a plan, remembered: masks are immutable, and all layers of a model ask with the same one."""

from __future__ import annotations

import torch
from torch import Tensor

from softlookup.attention_inputs import require_a_key_in_every_row
from softlookup.fused.from_blocks import plan_of_blocks
from softlookup.fused.from_spans import plan_of_spans
from softlookup.fused.occupancy import block_occupancy
from softlookup.fused.pieces import Plan
from softlookup.fused.tiles import BiasTiles, MaskTiles, TensorTiles
from softlookup.masks import Bias, Mask
from softlookup.masks.algebra import Given
from softlookup.masks.numbered import with_number
from softlookup.masks.spans import spans_of
from softlookup.remembering import remembered
from softlookup.terms import Case

_REMEMBERED = 64  # plans: a model has one mask for all its layers, a few when lengths change


def plan_of_mask(mask: Mask | Bias, q: Tensor, k: Tensor, *, empty_rows_allowed: bool) -> Plan:
    """Return the plan for a mask that keeps its structure.

    q: [B, H, T_q, d]   k: [B, H_kv, T_k, d]

    Raises: SoftlookupError when the lengths do not fit the mask, or a row is empty and must not be.
    """
    sizes = (q.shape[-2], k.shape[-2], q.shape[0], q.shape[1])
    plan, empty = _plan(mask.number, *sizes)
    if empty and not empty_rows_allowed:
        refuse_empty_rows(mask, q, k)
    return plan


@remembered(maxsize=_REMEMBERED)
def _plan(number: int, q_len: int, k_len: int, batch: int, heads: int) -> tuple[Plan, bool]:
    """Return the plan, and whether some query sees no key."""
    mask = with_number(number)
    hides = mask.mask if isinstance(mask, Bias) else mask
    spans = spans_of(hides, q_len, k_len) if hides is not None else None
    if isinstance(mask, Mask) and spans is not None:
        return plan_of_spans(spans, q_len, batch=batch, heads=heads), spans.empty_rows()
    tiles = BiasTiles(mask, q_len, k_len) if isinstance(mask, Bias) else MaskTiles(mask, q_len, k_len)
    shown = torch.ones(1, 1, 1, 1, dtype=torch.bool) if hides is None else hides
    occupancy = block_occupancy(shown, q_len, k_len)
    plan = plan_of_blocks(occupancy, tiles, q_len, maskless=isinstance(mask, Mask))
    empty = (
        spans.empty_rows()
        if spans is not None
        else hides is not None and bool(hides.empty_rows(q_len, k_len))
    )
    return plan, empty


def plan_of_tensor(mask: Tensor, q: Tensor, k: Tensor) -> Plan:
    """Return the plan for a mask that came as a tensor: its rows read as intervals, or else as blocks.

    mask: bool, or float to be added, [B or 1, H or 1, T_q or 1, T_k or 1]
    """
    q_len, k_len = q.shape[-2], k.shape[-2]
    if mask.dtype == torch.bool:
        spans = spans_of(Given(mask), q_len, k_len)
        if spans is not None:
            return plan_of_spans(spans, q_len, batch=q.shape[0], heads=q.shape[1])
    occupancy = block_occupancy(mask, q_len, k_len)
    return plan_of_blocks(occupancy, TensorTiles(mask), q_len, maskless=mask.dtype == torch.bool)


def refuse_empty_rows(mask: Mask | Bias, q: Tensor, k: Tensor) -> None:
    """Raise in the words of the readable attention, without a dense mask."""
    q_len, k_len = q.shape[-2], k.shape[-2]
    hides = mask.mask if isinstance(mask, Bias) else mask
    sizes = {} if hides is None else hides.sizes
    seen = torch.ones(q.shape[0], q.shape[1], q_len, 1, dtype=torch.bool)
    for batch, head, query in mask.empty_rows(q_len, k_len):
        samples = batch if sizes["B"] else slice(None)
        heads = head if sizes["H"] else slice(None)
        seen[samples, heads, query] = False
    require_a_key_in_every_row(seen, Case(q, k, k))
