"""Calls inside compiled code: an operator that the compiler keeps, and that looks when the code runs.

It writes to a tensor that nobody reads, else the compiler would leave it out. Where the call stands in the
model is known to the compiler alone, and asked of it once, while it traces.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch import Tensor

_ran = torch.zeros(1)
#: Per traced call: the name of its door, and the ids of the modules around it, the innermost last.
_sites: list[tuple[str, tuple[int, ...]]] = []
_told: list[Callable[[str, tuple[int, ...], dict[str, Any], Tensor], None]] = []


def tell(heard: Callable[[str, tuple[int, ...], dict[str, Any], Tensor], None]) -> None:
    """Let a function hear of calls in compiled code: door, modules around, arguments by name, output."""
    _told[:] = [heard]


@torch.library.custom_op("softlookup::heard", mutates_args=("ran",))
def heard_products(
    ran: Tensor,
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    output: Tensor,
    site: int,
    is_causal: bool,
    scale: float | None,
) -> None:
    """Pass a call of scaled_dot_product_attention on."""
    door, modules = _sites[site]
    given = {"query": q, "key": k, "value": k, "attn_mask": mask, "is_causal": is_causal, "scale": scale}
    for heard in _told:
        heard(door, modules, given, output)


@torch.library.custom_op("softlookup::heard_scores", mutates_args=("ran",))
def heard_scores(ran: Tensor, scores: Tensor, output: Tensor, site: int) -> None:
    """Pass a softmax on."""
    door, modules = _sites[site]
    for heard in _told:
        heard(door, modules, {"input": scores, "dim": scores.dim() - 1}, output)


@heard_products.register_fake
def _(*args: Any) -> None:
    return None


@heard_scores.register_fake
def _(*args: Any) -> None:
    return None


def hand_over(door: str, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
    """Leave a trace of a call in the code that is being compiled; runs while the compiler traces."""
    if torch.compiler.is_exporting():
        return  # exported programs know no operator of ours
    if door == "sdpa":
        q, k = _argument(args, kwargs, 0, "query"), _argument(args, kwargs, 1, "key")
        mask, is_causal = _argument(args, kwargs, 3, "attn_mask"), _argument(args, kwargs, 5, "is_causal")
        scale = kwargs.get("scale")
        mask = None if mask is None else mask.detach()
        heard_products(
            _ran, q.detach(), k.detach(), mask, output.detach(), _site(door), bool(is_causal), scale
        )
    elif door == "softmax":
        scores, dim = args[0] if args else kwargs["input"], _argument(args, kwargs, 1, "dim")
        if scores.dim() in (3, 4) and dim in (-1, scores.dim() - 1):
            heard_scores(_ran, scores.detach(), output.detach(), _site(door))


def _argument(args: Sequence[Any], kwargs: Mapping[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _site(door: str) -> int:
    """Return a number for the call that is being traced; the compiler runs this and keeps the number."""
    modules = [number for key in _modules_around() if (number := _id(key)) is not None]
    _sites.append((door, tuple(modules)))
    return len(_sites) - 1


# What torch.compiler.assume_constant_result does, without loading the compiler, which takes seconds.
_site._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _modules_around() -> Sequence[Any]:
    """The compiler's keys of the modules around what it traces now, the innermost last.

    Each function that it follows has a translator of its own, which begins with the modules of its caller's;
    the innermost is nearest on the stack.
    """
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        translator = frame.f_locals.get("self")
        if isinstance(translator, InstructionTranslatorBase):
            return tuple(translator.nn_module_stack)
        frame = frame.f_back
    return ()


@functools.lru_cache(maxsize=4096)
def _id(key: Any) -> int | None:
    """The compiler's key of a module: its id, as text."""
    text = str(key).split("@", maxsplit=1)[0]
    return int(text) if text.isdigit() else None
