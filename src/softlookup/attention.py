"""Attention as a soft lookup, written as named steps.

    scores  = scale(score(q, k))                  how well does each key answer each query?
    weights = normalize(hide(scores, allowed))    shares of 1 over the keys that may be looked at
    output  = mix(weights, v)                     the values, in those shares

Every step is one small function of the tensors so far and the ``Case``, so that a bug can be written as one
replaced step: ``STEPS.but(scale=...)``. ``STEPS(case)`` runs them in whatever dtype the case has.

Source: equation 1 of Vaswani et al. 2017, "Attention Is All You Need", arXiv 1706.03762.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from softlookup.attention_inputs import check_options, check_tensors, read_mask, require_a_key_in_every_row
from softlookup.masks import causal_bottom_right, causal_top_left
from softlookup.terms import Case, MaskLike


def repeat_kv_heads(heads: Tensor, case: Case) -> Tensor:
    """[..., H_kv, T_k, d] -> [..., H, T_k, d]: query heads 0 to g-1 share head 0, the next g head 1."""
    if case.q.dim() < 3 or heads.shape[-3] == case.q.shape[-3]:
        return heads
    return heads.repeat_interleave(case.q.shape[-3] // heads.shape[-3], dim=-3)


def score(q: Tensor, k: Tensor, case: Case) -> Tensor:
    """[..., T_q, d_head] x [..., T_k, d_head] -> [..., T_q, T_k]: one dot product for every query and key."""
    broken = ~torch.isfinite(k).all(dim=-1)  # [..., T_k]
    if not broken.any():
        return q @ k.transpose(-2, -1)
    # 0 * nan is nan: a broken key that is hidden later must not reach q's gradient, so it leaves the product.
    scores = q @ k.masked_fill(broken[..., None], 0.0).transpose(-2, -1)
    return torch.where(broken[..., None, :], (q @ k.transpose(-2, -1)).detach(), scores)


def scale(scores: Tensor, case: Case) -> Tensor:
    """[..., T_q, T_k]: a sum of d_head products has variance d_head; 1 / sqrt(d_head) brings it back to 1."""
    factor = 1 / math.sqrt(case.q.shape[-1]) if case.scale is None else case.scale
    return scores * factor


def visible(case: Case) -> Tensor | None:
    """-> bool, broadcastable to [..., T_q, T_k]: True where every rule that was asked for allows the key."""
    q_len, k_len = case.q.shape[-2], case.k.shape[-2]
    i = torch.arange(q_len, device=case.q.device)[:, None]
    j = torch.arange(k_len, device=case.q.device)[None, :]
    rules: list[Tensor] = []
    if case.allowed_mask is not None:
        rules.append(case.allowed_mask)
    if case.additive_bias is not None:
        rules.append(case.additive_bias != -math.inf)
    if case.causal is not None:
        corner = causal_top_left if case.causal == "top-left" else causal_bottom_right
        rules.append(corner.allowed(i, j, q_len=q_len, k_len=k_len))
    if case.window is not None:
        here = i + (k_len - q_len if case.causal == "bottom-right" else 0)
        ahead = case.window if case.window_ahead else 1
        rules.append((here - j < case.window) & (j - here < ahead))
    if case.document_ids is not None:
        same = case.document_ids[:, :q_len, None] == case.document_ids[:, None, :k_len]  # [B, T_q, T_k]
        rules.append(same[:, None] if case.q.dim() == 4 else same)
    allowed = None
    for rule in rules:
        allowed = rule if allowed is None else allowed & rule
    return allowed


def hide(scores: Tensor, allowed: Tensor | None, case: Case) -> Tensor:
    """[..., T_q, T_k]: add the bias, then -inf on hidden keys, so that the softmax gives them exactly 0."""
    if case.additive_bias is not None:
        scores = scores + case.additive_bias.to(scores.dtype)
    if allowed is None:
        return scores
    # A row without keys keeps finite scores (settle zeroes its weights): a softmax of only -inf gives NaN.
    empty = ~allowed.any(dim=-1, keepdim=True)  # [..., T_q, 1]
    return scores.masked_fill(~(allowed | empty), -math.inf).masked_fill(empty, 0.0)


def normalize(scores: Tensor, case: Case) -> Tensor:
    """[..., T_q, T_k]: softmax over the keys, the last axis; every row sums to 1, columns are free."""
    return scores.softmax(dim=-1)


def settle(weights: Tensor, allowed: Tensor | None, case: Case) -> Tensor:
    """[..., T_q, T_k]: decide what a row that may look nowhere returns: weights 0, hence output 0."""
    if allowed is None:
        return weights
    return weights.masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)


def drop(weights: Tensor, case: Case) -> Tensor:
    """[..., T_q, T_k]: dropout on the weights (not on scores or output); rows then no longer sum to 1."""
    return torch.dropout(weights, case.dropout_p, train=True) if case.dropout_p else weights


def mix(weights: Tensor, v: Tensor, case: Case) -> Tensor:
    """[..., T_q, T_k] x [..., T_k, d_v] -> [..., T_q, d_v]: the values, in the shares of the weights."""
    finite = torch.isfinite(v)
    if finite.all():
        return weights @ v
    # 0 * nan is nan: look up the broken entries apart, so that only rows that give them weight receive them.
    output = weights @ v.masked_fill(~finite, 0.0)
    looks = (weights != 0).to(v.dtype)  # [..., T_q, T_k]
    for broken, value in ((v == math.inf, math.inf), (v == -math.inf, -math.inf), (v.isnan(), math.nan)):
        output = output + torch.zeros_like(output).masked_fill(looks @ broken.to(v.dtype) > 0, value)
    return output


@dataclass(frozen=True)
class Steps:
    """The steps of the lookup, each replaceable."""

    repeat_kv_heads: Callable[..., Tensor] = repeat_kv_heads
    score: Callable[..., Tensor] = score
    scale: Callable[..., Tensor] = scale
    visible: Callable[..., Tensor | None] = visible
    hide: Callable[..., Tensor] = hide
    normalize: Callable[..., Tensor] = normalize
    settle: Callable[..., Tensor] = settle
    drop: Callable[..., Tensor] = drop
    mix: Callable[..., Tensor] = mix

    def but(self, **steps: Any) -> Steps:
        """Return the same lookup with some steps done otherwise."""
        return replace(self, **steps)

    def __call__(self, case: Case) -> tuple[Tensor, Tensor]:
        """Return output [..., H, T_q, d_v] and weights [..., H, T_q, T_k]."""
        k = self.repeat_kv_heads(case.k, case)  # [..., H, T_k, d_head]
        v = self.repeat_kv_heads(case.v, case)  # [..., H, T_k, d_v]
        scores = self.scale(self.score(case.q, k, case), case)  # [..., H, T_q, T_k]
        allowed = self.visible(case)  # [..., T_q, T_k] or None
        weights = self.normalize(self.hide(scores, allowed, case), case)  # [..., H, T_q, T_k]
        weights = self.drop(self.settle(weights, allowed, case), case)
        return self.mix(weights, v, case), weights  # [..., H, T_q, d_v]


STEPS = Steps()


def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | MaskLike | None = None,
    *,
    scale: float | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    enable_gqa: bool = False,
    empty_rows: Literal["raise", "zero"] = "raise",
) -> tuple[Tensor, Tensor]:
    """Look up ``v`` softly: softmax(q k^T / sqrt(d_head)) v, and return the weights as well.

    q: [..., H, T_q, d_head] what each position looks for; any leading axes, also none
    k: [..., H, T_k, d_head] how each position is found; [..., H_kv, T_k, d_head] with ``enable_gqa``
    v: [..., H, T_k, d_v] what each position carries; [..., H_kv, T_k, d_v] with ``enable_gqa``
    attention_mask: broadcastable to [..., H, T_q, T_k]: bool (True = may look), a ``Mask``, or float, which
        is added to the scaled scores (-inf hides)
    scale: factor on the scores; None is 1 / sqrt(d_head)
    dropout_p: share of the weights that is dropped, on every call: pass 0.0 outside training
    is_causal: also hide every key after the query, counted from the first key (query i sees keys 0 to i, the
        corner of F.scaled_dot_product_attention); it combines with ``attention_mask``, on every device
    enable_gqa: groups of H / H_kv neighbouring query heads share one key/value head
    empty_rows: a query without any key "raise"s, or returns "zero" with finite gradients

    Returns: output [..., H, T_q, d_v] and attention_weights [..., H, T_q, T_k]; rows of weights sum to 1
    (before dropout). NaN or inf in a key or value reaches only the queries that may look at it.

    Raises: SoftlookupError (a ValueError) when q and k differ in d_head, k and v in T_k, or any two in dtype,
    device or leading axes; for a mask of integers or of sizes that do not broadcast; when a query has no key.

    Source: equation 1 of Vaswani et al. 2017, arXiv 1706.03762.

    >>> q = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]])
    >>> k = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]])
    >>> v = torch.tensor([[10.0, 0], [0, 10], [5, 5]])
    >>> output, weights = scaled_dot_product_attention(q, k, v)
    >>> [[round(share, 4) for share in row] for row in weights.tolist()]
    [[0.3837, 0.2327, 0.3837], [0.2327, 0.3837, 0.3837], [0.2741, 0.2741, 0.4519]]
    """
    check_tensors(q, k, v, enable_gqa=enable_gqa)
    check_options(dropout_p=dropout_p, empty_rows=empty_rows)
    allowed_mask, additive_bias = read_mask(attention_mask, q, k)
    case = Case(
        q,
        k,
        v,
        allowed_mask=allowed_mask,
        additive_bias=additive_bias,
        causal="top-left" if is_causal else None,
        scale=scale,
        dropout_p=dropout_p,
    )
    if empty_rows == "raise":
        require_a_key_in_every_row(STEPS.visible(case), case)
    return _with_broken_keys_contained(case)


def _with_broken_keys_contained(case: Case) -> tuple[Tensor, Tensor]:
    """Run the steps so that a query that looks at a broken key does not spoil the gradients of the others."""
    output, weights = _GUARDED(case)
    if torch.isfinite(case.k).all():
        return output, weights
    lost = weights.isnan().any(dim=-1, keepdim=True)  # [..., T_q, 1]: these rows looked at a broken key
    # Their answer is NaN anyway, but in backward 0 * NaN would reach every key: run them as empty rows.
    allowed = ~lost if case.allowed_mask is None else case.allowed_mask & ~lost
    output, weights = _GUARDED(case.but(q=case.q.masked_fill(lost, 0.0), allowed_mask=allowed))
    return output.masked_fill(lost, math.nan), weights.masked_fill(lost, math.nan)


def _settle_every_hidden_key(weights: Tensor, allowed: Tensor | None, case: Case) -> Tensor:
    """[..., T_q, T_k]: as ``settle``; hidden weights are 0 already; the fill stops gradients there."""
    # A huge hidden value makes the gradient of its weight overflow, and softmax turns that into 0 * inf.
    return weights if allowed is None else weights.masked_fill(~allowed, 0.0)


_GUARDED = STEPS.but(settle=_settle_every_hidden_key)
