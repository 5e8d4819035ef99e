"""A mask as FlexAttention takes it: its predicate for one query and one key, and its blocks.

FlexAttention compiles the predicate into its kernel. It is the one in the rule's own file, so nothing is
written twice; the blocks are found row by row (``occupancy``), while create_block_mask makes the dense mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import and_, or_
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from softlookup.fused.occupancy import block_occupancy
from softlookup.masks import AllOf, AnyOf, Bias, Given, Mask, Opposite, Rule, rule_file
from softlookup.remembering import remembered
from softlookup.terms import SoftlookupError

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

_BLOCK = 128

#: mask_mod(b, h, i, j): may query i look at key j in head h of sample b?
MaskMod: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
#: score_mod(score, b, h, i, j): the score with the bias added.
ScoreMod: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class _OfSample:
    """The ids of one sample, as a rule reads them (``ids[..., position]``), fetched in a single step."""

    ids: Tensor  # [B or 1, T_k]
    sample: Tensor

    def __getitem__(self, place: tuple[Any, Tensor]) -> Tensor:
        return self.ids[_own(self.ids, 0, self.sample), place[-1]]


def mask_mod_of(
    mask: Mask | Tensor | None, q_len: int, k_len: int, *, device: torch.device | str | None = None
) -> MaskMod:
    """Return a mask as the ``mask_mod`` of FlexAttention.

    mask: a mask, bool [B or 1, H or 1, T_q or 1, T_k or 1] with True = may look, or None: everybody sees all

    >>> from softlookup.masks import causal
    >>> at = [torch.tensor(n) for n in (0, 0, 1, 2)]
    >>> mask_mod_of(causal(), 3, 3)(*at)
    tensor(False)
    """
    match mask:
        case None:
            return lambda b, h, i, j: i >= 0
        case Tensor():
            return _of_tensor(mask.to(device))
        case Given():
            return _of_tensor(mask.allowed_mask.to(device))
        case Rule():
            return _of_rule(mask, q_len, k_len, device)
        case Opposite():
            part = mask_mod_of(mask.part, q_len, k_len, device=device)
            return lambda b, h, i, j: ~part(b, h, i, j)
        case AllOf() | AnyOf():
            parts = [mask_mod_of(part, q_len, k_len, device=device) for part in mask.parts]
            joined = and_ if isinstance(mask, AllOf) else or_
            return lambda b, h, i, j: reduce(joined, [part(b, h, i, j) for part in parts])
    raise SoftlookupError(
        "mask_mod_of: this is no mask.", expected="a mask, a bool tensor or None", got=repr(mask)
    )


def score_mod_of(bias: Bias, q_len: int, k_len: int, *, device: torch.device | str | None = None) -> ScoreMod:
    """Return what adds a bias, as FlexAttention's ``score_mod``; its mask is ``mask_mod_of(bias.mask)``."""
    value = _of_file(rule_file(bias.name, "bias"), bias.parameters, (q_len, k_len), device)
    return lambda score, b, h, i, j: score + value(b, h, i, j)


def block_mask_of(
    mask: Mask | Tensor | None, q_len: int, k_len: int, *, device: torch.device | str | None = None
) -> BlockMask:
    """Return a mask as FlexAttention's BlockMask, without making it dense. It needs torch 2.6.

    >>> from softlookup.masks import sliding_window
    >>> block_mask_of(sliding_window(128), 1024, 1024, device="cpu").sparsity()
    76.5625
    """
    from torch.nn.attention.flex_attention import BlockMask

    shown = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device) if mask is None else mask
    seen = block_occupancy(shown, q_len, k_len, _BLOCK)
    full = seen.all.clone()
    full[..., seen.all.shape[-2] - bool(q_len % _BLOCK) :, :] = False  # the kernel wants whole blocks
    full[..., :, seen.all.shape[-1] - bool(k_len % _BLOCK) :] = False
    block_mask: BlockMask = BlockMask.from_kv_blocks(
        *_ordered((seen.some & ~full).to(device)),
        *_ordered(full.to(device)),
        BLOCK_SIZE=_BLOCK,
        mask_mod=mask_mod_of(mask, q_len, k_len, device=device),
        seq_lengths=(q_len, k_len),
    )
    return block_mask


def flex_attention_of(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask | Bias | Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Return output [B, H, T_q, d_v] and log-sum-exp [B, H, T_q] by FlexAttention.

    q: [B, H, T_q, d]   k: [B, H_kv, T_k, d]   v: [B, H_kv, T_k, d_v]

    On CUDA it is compiled, once for each mask; that is written from the documentation and has not run yet:
    ``benchmarks/gpu.py`` checks it. Elsewhere it runs uncompiled and holds all scores, which is for tests.
    """
    from torch.nn.attention import flex_attention as flex

    number = mask.number if isinstance(mask, (Mask, Bias)) else None
    prepared = _prepared if number is not None else _prepared.__wrapped__
    block_mask, score_mod = prepared(_Kept(mask, number), q.shape[-2], k.shape[-2], q.device)
    run = _compiled(number) if q.is_cuda else _run
    # The name of the request for the log-sum-exp changed in torch 2.9.
    asked = {"return_aux": flex.AuxRequest(lse=True)} if hasattr(flex, "AuxRequest") else {"return_lse": True}
    output, more = run(
        q, k, v, score_mod, block_mask=block_mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1], **asked
    )
    return output, more.lse if hasattr(more, "lse") else more


@dataclass(frozen=True, eq=False)
class _Kept:
    """A mask under its number, so that a memory asks for the number and not for equal entries."""

    mask: Mask | Bias | Tensor | None
    number: int | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)


@remembered(maxsize=16)
def _prepared(kept: _Kept, q_len: int, k_len: int, device: torch.device) -> tuple[BlockMask, ScoreMod | None]:
    """Return the blocks of a mask and what adds its bias."""
    mask = kept.mask
    if isinstance(mask, Bias):
        return (
            block_mask_of(mask.mask, q_len, k_len, device=device),
            score_mod_of(mask, q_len, k_len, device=device),
        )
    return block_mask_of(mask, q_len, k_len, device=device), None


def _run(*tensors: Any, **options: Any) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(*tensors, **options)


@lru_cache(maxsize=64)
def _compiled(number: int | None) -> Callable[..., Any]:
    """Return a compiled ``_run`` of its own for each mask.

    torch.compile counts compilations for each piece of code, and after eight of them it runs uncompiled, with
    all scores in memory: so each mask has a copy of the code.
    """
    own = FunctionType(_run.__code__.replace(), globals())
    compiled: Callable[..., Any] = torch.compile(own)
    return compiled


def _own(values: Tensor, axis: int, place: Tensor) -> Tensor | int:
    """An axis of size 1 answers for all."""
    return place if values.shape[axis] > 1 else 0


def _of_tensor(allowed: Tensor) -> MaskMod:
    return lambda b, h, i, j: allowed[tuple(_own(allowed, axis, at) for axis, at in enumerate((b, h, i, j)))]


def _of_rule(rule: Rule, q_len: int, k_len: int, device: torch.device | str | None) -> MaskMod:
    return _of_file(rule_file(rule.name), rule.parameters, (q_len, k_len), device)


def _of_file(
    file: Any, values: dict[str, Any], lengths: tuple[int, int], device: torch.device | str | None
) -> MaskMod:
    """Return what a rule file answers, with the parameters of the sample and head that are asked about."""
    q_len, k_len = lengths
    of_sample = {
        n: torch.tensor(values[n], device=device) for n in file.per_sample if isinstance(values[n], tuple)
    }
    of_head = {n: torch.tensor(values[n], device=device) for n in file.per_head}
    of_token = {n: values[n].to(device) for n in file.per_token}

    def answer(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        own = {name: numbers[_own(numbers, 0, b)] for name, numbers in of_sample.items()}
        own |= {name: numbers[_own(numbers, 0, h)] for name, numbers in of_head.items()}
        own |= {name: _OfSample(ids, b) for name, ids in of_token.items()}
        result: Tensor = file.answer(i, j, q_len=q_len, k_len=k_len, **{**values, **own})
        return result

    return answer


def _ordered(flags: Tensor) -> tuple[Tensor, Tensor]:
    """Bool [B, H, q blocks, k blocks] -> how many are set in each row, and which, those first: int32."""
    order = flags.to(torch.int8).argsort(dim=-1, descending=True, stable=True)
    return flags.sum(dim=-1, dtype=torch.int32), order.to(torch.int32).contiguous()
