"""q, k, v and masks of any leading axes, in the form that kernels take: four axes, one dtype, one width."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from softlookup.attention_inputs import read_mask
from softlookup.masks import Bias, Mask
from softlookup.terms import MaskLike, SoftlookupError


def four_axes(x: Tensor) -> Tensor:
    """[..., H, T, d] -> [B, H, T, d], with B = 1 and H = 1 where there are none."""
    return x[None, None] if x.dim() == 2 else x[None] if x.dim() == 3 else x.flatten(0, -4)


def as_autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Round to autocast's dtype, as F.scaled_dot_product_attention does under autocast; float64 stays."""
    device = tensors[0].device.type
    under = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    if not under or tensors[0].dtype == torch.float64:
        return tensors
    return tuple(x.to(torch.get_autocast_dtype(device)) for x in tensors)


def of_one_width(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Fill up the last axis with zeros to the widest: the CPU kernel wants d_v == d_head."""
    width = max(x.shape[-1] for x in tensors)
    return tuple(x if x.shape[-1] == width else pad(x, (0, width - x.shape[-1])) for x in tensors)


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


def check_batch_and_heads(
    mask: Mask | Bias | Tensor | None,
    batch_and_heads: Sequence[int],
    *,
    doing: str = "attend",
    sizes: dict[str, int] | None = None,
) -> None:
    """Refuse a mask that is for another number of samples or heads; tensors were looked at when read.

    batch_and_heads: B and H, and whatever follows; sizes: what the message shows beside

    Raises: SoftlookupError with both numbers.
    """
    if not isinstance(mask, (Mask, Bias)):
        return
    for axis, size in zip(("B", "H"), batch_and_heads, strict=False):
        if mask.sizes[axis] not in (None, size):
            raise SoftlookupError(
                f"{doing}: {mask!r} does not fit.",
                expected=f"{axis} = {mask.sizes[axis]}",
                got=f"{axis} = {size}",
                sizes=sizes,
            )
