"""Ask a library for the weights that it gives under a mask; a refusal is an answer too."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from forms_can_say import written_by
from raw_masks import close, random_mask
from torch import Tensor

from softlookup.conventions.converting import write_mask
from softlookup.conventions.discover import Convention
from softlookup.conventions.measuring import weights_by
from softlookup.conventions.spelling import Arguments, Sizes, Takes
from softlookup.conventions.tensors import as_array
from softlookup.masks import Mask
from softlookup.terms import SoftlookupError

_LENGTHS = {"different": (4, 5), "equal": (5, 5)}  # T_q, T_k; layers of self-attention take equal ones only


#: What ``run`` says of lengths that nobody can ask the library for.
NO_SUCH_CALL = "no such call"


class ContradictionError(AssertionError):
    """The library does something else than the convention's file declares."""


@dataclass(frozen=True)
class Answer:
    """The weights [B, H, T_q, T_k] of a call, or the kind of error with which it refused."""

    weights: Tensor | None = None
    refused: str = ""


def ask(convention: Convention, arguments: Arguments, sizes: Sizes) -> Answer:
    """Call the library."""
    try:
        with warnings.catch_warnings(), torch.compiler.set_stance("force_eager"):  # compiling takes a minute
            warnings.simplefilter("ignore")
            weights = weights_by(convention, arguments, sizes)
    except SoftlookupError:
        return Answer(refused=NO_SUCH_CALL)
    except Exception as error:
        return Answer(refused=f"refused: {type(error).__name__}")
    return Answer(weights)


def sizes_for(convention: Convention) -> Sizes:
    """Return sizes that all differ; T_q == T_k only where the call knows no other."""
    for q_len, k_len in _LENGTHS.values():
        sizes = Sizes(q_len, k_len, 2, 3)
        if ask(convention, nothing_hidden(convention, sizes), sizes).weights is not None:
            return sizes
    raise ContradictionError(f"{convention.name}: the call refuses a mask that hides nothing")


def nothing_hidden(convention: Convention, sizes: Sizes) -> Arguments:
    """Return the arguments of a mask that hides nothing."""
    return write_mask(
        Mask.from_tensor(torch.ones(1, 1, 1, 1, dtype=torch.bool)), convention.name, sizes
    ).arguments


def beside(convention: Convention, sizes: Sizes) -> dict[str, Any]:
    """Return the flags that switch off what the call hides by itself."""
    return {name: it for name, it in nothing_hidden(convention, sizes).items() if isinstance(it, bool)}


def with_equal_axes(convention: Convention) -> Iterator[tuple[str, Sizes]]:
    """Yield sizes of which two are equal, with which."""
    first = sizes_for(convention)
    yield "B == T_q", Sizes(first.q_len, first.k_len, first.q_len, 3)
    yield "B == H", Sizes(first.q_len, first.k_len, 3, 3)


def as_they_take_it(convention: Convention, take: Takes, tensor: Tensor) -> Any:
    """Return a tensor as what the call takes: its own arguments are written as tensors or as arrays."""
    sizes = Sizes(5, 5, 2, 3)
    for form in convention.forms:
        written = written_by(convention, form, Mask.from_tensor(random_mask("T_q T_k", sizes)), sizes)
        written_here = written.arguments.get(take.argument) if written else None
        if type(written_here).__module__ == "numpy":
            return as_array(tensor)
    return tensor


def same(answer: Answer, wanted: Tensor) -> bool:
    """Say whether a call was answered with these weights."""
    return answer.weights is not None and close(answer.weights, wanted)
