"""What the functions and blocks of FlexAttention say, position by position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softlookup.conventions.spelling import Reading, Sizes, refuse_shape
from softlookup.conventions.tensors import from_additive, given
from softlookup.terms import SoftlookupError

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

#: What makes a new tensor beside another, without a look at its numbers: and_masks and or_masks begin so.
_ASK_NO_VALUE = ("new_ones", "new_zeros", "new_full", "ones_like", "zeros_like", "full_like")


def needed_sizes(mod: Callable[..., Tensor], sizes: Sizes, whose: str) -> Sizes:
    """Return the sizes at which a mask_mod must be asked: 1 for samples and heads it does not look at.

    Raises: SoftlookupError when it looks at them and nobody said how many there are.
    """
    asked = {
        name: sizes.of(name, f"a function that looks at {letter}") if _looks_at(mod, place, whose) else 1
        for place, (name, letter) in enumerate((("batch_size", "b"), ("num_heads", "h")))
    }
    return replace(sizes, **asked)


def ask_everywhere(
    mod: Callable[..., Tensor], sizes: Sizes, whose: str, device: torch.device | str = "cpu"
) -> Tensor:
    """Return what a mask_mod answers: bool [B, H, T_q, T_k].

    device: where the tensors live that it reads

    Raises: SoftlookupError when it fails, or answers with something else than bool.
    """
    answers = _everywhere(mod, sizes, whose, device)
    if answers.dtype != torch.bool:
        raise refuse_shape(answers, whose, "the answer of mask_mod", "bool, True = may look")
    return answers


def hidden_by_score_mod(
    mod: Callable[..., Tensor], sizes: Sizes, whose: str
) -> tuple[Tensor, tuple[str, ...]]:
    """Return what a score_mod leaves visible, bool [B, H, T_q, T_k], and in words what else it does.

    Raises: SoftlookupError when it fails, or returns nan or +inf.
    """

    def of_score(score: float) -> Callable[..., Tensor]:
        return lambda b, h, i, j: mod(torch.tensor(score), b, h, i, j)

    sizes = needed_sizes(of_score(0.0), sizes, whose)
    at_0, at_1 = (_everywhere(of_score(score), sizes, whose) for score in (0.0, 1.0))
    allowed, lost = from_additive(at_0, whose)
    if bool(((at_1 - at_0 - 1).abs() > 1e-3)[allowed].any()):
        lost += ("what score_mod does to scores beyond adding to them",)
    return allowed, lost


def read_block_mask(block_mask: BlockMask, sizes: Sizes, whose: str) -> Reading:
    """Return what a compiled kernel shows: whole blocks, and in part-shown blocks what mask_mod shows.

    Raises: SoftlookupError for anything but a BlockMask, for other lengths than it is for, and when its
    mask_mod looks at samples or heads and nobody said how many there are.
    """
    some, full, sizes = blocks_of(block_mask, sizes, whose)
    mask_mod, device = block_mask.mask_mod, block_mask.kv_num_blocks.device
    by_mod = ask_everywhere(mask_mod, needed_sizes(mask_mod, sizes, whose), whose, device)
    allowed = full | (some & by_mod)
    if bool((allowed == by_mod).all()):
        return Reading(given(by_mod))
    return Reading(
        given(allowed), ("the entries where blocks and mask_mod differ: uncompiled, only mask_mod is asked",)
    )


def blocks_of(block_mask: BlockMask, sizes: Sizes, whose: str) -> tuple[Tensor, Tensor, Sizes]:
    """Return where a BlockMask shows a block in part, and where as a whole, and its own sizes.

    The two are bool [B or 1, H or 1, T_q, T_k], True for every position inside such a block.

    Raises: SoftlookupError for anything but a BlockMask, and for other lengths than it is for.
    """
    if not hasattr(block_mask, "kv_num_blocks"):
        raise SoftlookupError(
            f"{whose}: this is no BlockMask.",
            expected="a BlockMask, or a mask_mod function",
            got=type(block_mask).__name__,
            hint="source='F.scaled_dot_product_attention' reads a bool tensor",
        )
    q_len, k_len = block_mask.seq_lengths
    if sizes.q_len not in (None, q_len) or sizes.k_len not in (None, k_len):
        raise SoftlookupError(
            f"{whose}: the BlockMask is for other lengths.",
            expected=f"q_len={sizes.q_len}, k_len={sizes.k_len}",
            got=f"seq_lengths = {(q_len, k_len)}",
        )
    batch_size, num_heads = block_mask.kv_num_blocks.shape[:2]
    sizes = Sizes(
        q_len,
        k_len,
        sizes.batch_size or (batch_size if batch_size > 1 else None),
        sizes.num_heads or (num_heads if num_heads > 1 else None),
    )
    some = _positions(block_mask, block_mask.kv_num_blocks, block_mask.kv_indices)
    if block_mask.full_kv_num_blocks is None or block_mask.full_kv_indices is None:
        return some, torch.zeros_like(some), sizes
    return some, _positions(block_mask, block_mask.full_kv_num_blocks, block_mask.full_kv_indices), sizes


def _positions(block_mask: BlockMask, counts: Tensor, indices: Tensor) -> Tensor:
    """Return the listed blocks as positions: counts [B, H, rows], indices [B, H, rows, columns]."""
    (q_len, k_len), (q_block, k_block) = block_mask.seq_lengths, block_mask.BLOCK_SIZE
    columns = -(-k_len // k_block)
    listed = torch.arange(indices.shape[-1], device=indices.device) < counts[..., None]
    blocks = torch.zeros(*counts.shape, columns + 1, dtype=torch.bool, device=counts.device)
    # What stands behind the listed indices is undefined: it goes into a column of its own.
    blocks.scatter_(-1, indices.long().where(listed, torch.tensor(columns, device=indices.device)), True)
    rows = blocks[..., :columns].repeat_interleave(q_block, dim=-2)[..., :q_len, :]
    return rows.repeat_interleave(k_block, dim=-1)[..., :k_len]


def _everywhere(
    mod: Callable[..., Tensor], sizes: Sizes, whose: str, device: torch.device | str = "cpu"
) -> Tensor:
    """Return the answers of a function of (b, h, i, j) for all positions, by PyTorch's own way of asking."""
    from torch.nn.attention.flex_attention import create_mask

    lengths = sizes.of("q_len", "a function of positions"), sizes.of("k_len", "a function of positions")

    def of_positions(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return mod(b, h, i, j)  # create_mask counts parameters, which not every callable shows

    try:
        answers: Tensor = create_mask(
            of_positions, sizes.batch_size, sizes.num_heads, *lengths, device=device
        )
    except Exception as error:  # the function is the user's: anything can happen in it
        raise _failed(error, whose) from error
    return answers


def _looks_at(mod: Callable[..., Tensor], place: int, whose: str) -> bool:
    """Say whether a function of (b, h, i, j) computes anything from one of these."""
    looked = False

    class Watched(Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal looked
            result = super().__torch_function__(function, types, args, kwargs or {})  # type: ignore[no-untyped-call]
            if function.__name__ in _ASK_NO_VALUE or not isinstance(result, Tensor):
                return result.as_subclass(Tensor) if isinstance(result, Tensor) else result
            looked = True
            return result

    at: list[Tensor] = [torch.tensor(0) for _ in range(4)]
    at[place] = at[place].as_subclass(Watched)
    try:
        mod(*at)
    except Exception as error:
        raise _failed(error, whose) from error
    return looked


def _failed(error: Exception, whose: str) -> SoftlookupError:
    return SoftlookupError(
        f"{whose}: the function failed when it was asked about positions.",
        expected="mask_mod(b, h, q_idx, kv_idx) -> bool, of tensors on the CPU",
        got=f"{type(error).__name__}: {error}".split("\n")[0],
    )
