"""attend: attention by PyTorch's fused kernels, in the way that the mask's structure allows."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from softlookup.attention_inputs import check_options, check_tensors
from softlookup.fused.explaining_paths import Path, path_of
from softlookup.fused.folding import as_autocast, four_axes, of_one_width, structure_or_tensor
from softlookup.fused.glance import needs_no_look
from softlookup.fused.paths import Problem, choose
from softlookup.terms import MaskLike


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | MaskLike | None = None,
    *,
    scale: float | None = None,
    dropout_p: float = 0.0,
    enable_gqa: bool = False,
    empty_rows: Literal["raise", "zero"] = "raise",
) -> Tensor:
    """Return what ``scaled_dot_product_attention`` returns as output, at the cost of fused kernels.

    q: [..., H, T_q, d_head]   k: [..., H_kv, T_k, d_head]   v: [..., H_kv, T_k, d_v]
    mask: a mask or bias of ``softlookup.masks``, whose structure decides the path; or a tensor that
        broadcasts to [..., H, T_q, T_k]: bool (True = may look), or float, added to the scaled scores
    scale: factor on the scores; None is 1 / sqrt(d_head)
    dropout_p: share of the weights that is dropped, on every call: pass 0.0 outside training
    enable_gqa: groups of H / H_kv neighbouring query heads share one key/value head
    empty_rows: a query without any key "raise"s, or returns "zero" with zero gradients

    Returns: output [..., H, T_q, d_v]. Under autocast in autocast's dtype.

    No [T_q, T_k] tensor is made for a mask that keeps its structure. ``attend.explain`` says which path a
    call takes. Unlike in the readable function, NaN in a hidden key may reach others: fused kernels
    multiply it by 0.

    Raises: SoftlookupError as ``scaled_dot_product_attention`` does. For a tensor mask inside torch.compile
    or vmap empty rows are not looked for: they return zeros.

    Source: equation 1 of Vaswani et al. 2017, arXiv 1706.03762; kernels: Dao et al. 2022, arXiv 2205.14135.

    >>> import torch
    >>> from softlookup.masks import causal, sliding_window
    >>> q, k, v = torch.randn(3, 1, 8, 1024, 64)
    >>> attend(q, k, v, causal() & sliding_window(128)).shape
    torch.Size([1, 8, 1024, 64])
    """
    if dropout_p == 0 and empty_rows in ("raise", "zero") and needs_no_look(q, k, v, mask, scale):
        return torch_attention(q, k, v, is_causal=mask is not None, scale=scale)
    asked = _Asked(q, k, v, scale, dropout_p, enable_gqa, empty_rows)
    return _found(asked, mask, with_lse=False)[0]


def attend_with_lse(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | MaskLike | None = None,
    *,
    scale: float | None = None,
    dropout_p: float = 0.0,
    enable_gqa: bool = False,
    empty_rows: Literal["raise", "zero"] = "raise",
) -> tuple[Tensor, Tensor | None]:
    """Return the output of ``attend``, bit for bit, and the log-sum-exp of the scaled, visible scores.

    Returns: output [..., H, T_q, d_v] and lse [..., H, T_q], float32 (float64 for float64), without a
    gradient; -inf for a query without keys. None where the path has no log-sum-exp: dropout, a bias that
    needs a gradient, another device.

    >>> import torch
    >>> q = torch.zeros(1, 1, 2, 4)
    >>> attend_with_lse(q, q, q)[1].exp()
    tensor([[[2., 2.]]])
    """
    return _found(_Asked(q, k, v, scale, dropout_p, enable_gqa, empty_rows), mask, with_lse=True)


class _Asked(NamedTuple):
    """The arguments of attend beside the mask."""

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float | None
    dropout_p: float
    enable_gqa: bool
    empty_rows: Literal["raise", "zero"]


def _found(asked: _Asked, mask: Tensor | MaskLike | None, *, with_lse: bool) -> tuple[Tensor, Tensor | None]:
    problem = _problem(asked, mask, with_lse=with_lse)
    way, _ = choose(problem)
    output, lse = way.compute(problem)
    if output.shape[-1] != asked.v.shape[-1]:
        output = output[..., : asked.v.shape[-1]]
    if asked.q.dim() == 4:
        return output, lse
    rows = asked.q.shape[:-1]
    return output.reshape(*rows, output.shape[-1]), None if lse is None else lse.reshape(rows)


def _problem(asked: _Asked, mask: Tensor | MaskLike | None, *, with_lse: bool) -> Problem:
    q, k, v, scale = asked[:4]
    check_tensors(q, k, v, enable_gqa=asked.enable_gqa)
    check_options(dropout_p=asked.dropout_p, empty_rows=asked.empty_rows)
    read = structure_or_tensor(mask, q, k)
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    if scale <= 0:  # the causal flag hides with -inf before it scales
        q, scale = q * scale, 1.0
    q, k, v = as_autocast(q, k, v)
    if q.dim() != 4:
        q, k, v = (four_axes(x) for x in (q, k, v))
    if q.shape[-1] != v.shape[-1] and q.device.type == "cpu":
        q, k, v = of_one_width(q, k, v)
    return Problem(q, k, v, read, scale, asked.dropout_p, asked.empty_rows == "zero", with_lse)


def _explain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | MaskLike | None = None,
    *,
    scale: float | None = None,
    dropout_p: float = 0.0,
    enable_gqa: bool = False,
) -> Path:
    """Return the path that a call of ``attend`` with these arguments takes, why, and what it computes.

    Raises: SoftlookupError as ``attend`` does, less for empty rows.
    """
    asked = _Asked(q, k, v, scale, dropout_p, enable_gqa, "zero")
    return path_of(_problem(asked, mask, with_lse=False))


attend.explain = _explain  # type: ignore[attr-defined]
