"""q, k, v and masks of any leading axes, folded to four."""

from __future__ import annotations

from torch import Tensor

from softlookup.attention_inputs import read_mask
from softlookup.masks import Bias, Mask
from softlookup.terms import MaskLike


def four_axes(x: Tensor) -> Tensor:
    """[..., H, T, d] -> [B, H, T, d], with B = 1 and H = 1 where there are none."""
    return x[None, None] if x.dim() == 2 else x[None] if x.dim() == 3 else x.flatten(0, -4)


def structure_or_tensor(mask: Tensor | MaskLike | None, q: Tensor, k: Tensor) -> Mask | Bias | Tensor | None:
    """Return a mask as it is where it keeps its structure, else as a tensor with four axes.

    q: [..., H, T_q, d_head]   k: [..., H_kv, T_k, d_head]   only their shapes and device count

    Raises: SoftlookupError for a mask that is none or does not fit.
    """
    if mask is None or (isinstance(mask, (Mask, Bias)) and (q.dim() <= 4 or mask.sizes["B"] is None)):
        return mask
    allowed, bias = read_mask(mask, q, k)
    tensor = bias if allowed is None else allowed
    assert tensor is not None
    if q.dim() > 4:  # [.., a, b, H, T_q, T_k] -> [a * b, H, T_q, T_k], the leading axes expanded
        tensor = tensor[(None,) * (q.dim() - tensor.dim())]
        return tensor.expand(*q.shape[:-3], *tensor.shape[-3:]).flatten(0, -4)
    return tensor[(None,) * (4 - tensor.dim())]
