"""What the layers of ``multihead`` may be given, and the words in which anything else is refused."""

from __future__ import annotations

from torch import Tensor

from softlookup.terms import MaskLike, SoftlookupError


def check_sizes(layer: str, d_model: int, num_heads: int, num_kv_heads: int) -> None:
    """Refuse widths and heads that cannot be cut into equal pieces.

    Raises: SoftlookupError that names the sizes.
    """
    sizes = {"d_model": d_model, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
    if num_heads < 1 or d_model < 1 or d_model % num_heads:
        raise SoftlookupError(
            f"{layer}: d_model is cut into num_heads pieces of equal width.",
            expected="d_model a multiple of num_heads",
            got=f"{d_model} and {num_heads}",
            sizes=sizes,
        )
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise SoftlookupError(
            f"{layer}: query heads share key/value heads in groups of equal size.",
            expected="num_heads a multiple of num_kv_heads",
            got=f"{num_heads} and {num_kv_heads}",
            sizes=sizes,
        )


def check_tokens(name: str, tokens: Tensor, width: int) -> None:
    """Refuse what is not [B, T, width].

    Raises: SoftlookupError that names the argument.
    """
    if tokens.dim() != 3 or tokens.shape[-1] != width:
        raise SoftlookupError(
            f"{name} is no batch of token vectors of this layer.",
            expected=f"[B, T, {width}]",
            got=f"shape {tuple(tokens.shape)}",
            hint=f"{name}[None] for one sequence without a batch axis" if tokens.dim() == 2 else "",
        )


def with_four_axes(
    mask: Tensor | MaskLike | None, two: str, three: str, sizes: dict[str, int]
) -> Tensor | MaskLike | None:
    """Give a mask of 2 or 3 axes, named by ``two`` and ``three``, 4 axes that broadcast to [B, H, T_q, T_k].

    Raises: SoftlookupError for another number of axes, and when two axes have other sizes.
    """
    if not isinstance(mask, Tensor) or mask.dim() == 4:
        return mask
    if mask.dim() == 3:
        return mask[:, None]  # [B, 1, T_q, T_k]: one mask for all heads
    if mask.dim() == 2 and tuple(mask.shape) == tuple(sizes[axis] for axis in two.split()):
        # [B, 1, 1, T_k]: keys hidden from every head and query. [1, 1, T_q, T_k]: one mask for all samples.
        return mask[:, None, None] if two.startswith("B") else mask[None, None]
    raise SoftlookupError(
        "Multi-head attention: the mask has no shape that is understood.",
        expected=f"[{two}], [{three}], or 4 axes that broadcast to [{three.replace('B', 'B H', 1)}]",
        got=f"shape {tuple(mask.shape)}",
        sizes=sizes,
        hint="the mask is about the source: padded targets leave the loss, not the attention"
        if two.startswith("B")
        else "a padding mask [B T] hides keys: mask[:, None, None, :]",
    )
