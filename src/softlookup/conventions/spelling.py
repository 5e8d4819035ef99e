"""What every convention is written with: sizes, what a reading found, what a writing made, what a call takes.

A convention is one file of this folder that defines ``NAME`` and

    read(arguments, sizes) -> Reading     their arguments -> who may look at whom
    FORMS = {"name": writer, ...}         writer(mask, sizes) -> Spelling, the cheapest form first
    CALL = "F.attention(q, k, v, {})"     the call, with {} where the arguments go
    TAKES = (Takes(...), ...)             what each tensor argument means, and its shapes; the main one first
    WORDS = "torch 2.13.0"                whose documentation the file's page gives in our words

and it may define

    ALSO = ("sdpa",)                      other names that it answers to
    NEEDS = ("jax",)                      packages that ``run`` imports
    run(q, k, v, arguments) -> Tensor     the real call: q [B, H, T_q, d], k, v [B, H, T_k, d] -> as q
    CAUSAL = {"is_causal": True}          the arguments that ask for causal and nothing else
    WINDOW = (arguments, "what 3 counts") the arguments that ask for a window of 3

Its docstring is its page: the API, a drawing of what it is given for ``EXAMPLE``, and paragraphs that begin
with ``In its words:``, ``Lost when written:`` and ``Lost when read:``. A writer never refuses: it says in
``lost`` what its arguments do not carry, and then hides less than the mask, never more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from torch import Tensor

from softlookup.masks import Mask
from softlookup.terms import SoftlookupError

#: What an entry of a mask tensor says. "allowed": nonzero may look. "blocked": nonzero is hidden.
#: "additive": the number is added to the scores. "bounds": no entries, but where documents begin and end.
Meaning: TypeAlias = Literal["allowed", "blocked", "additive", "bounds"]
Arguments: TypeAlias = Mapping[str, Any]

#: The mask that every page draws, for T_q = T_k = 3, B = 2, H = 1.
EXAMPLE = "causal & padding([3, 2])"


@dataclass(frozen=True)
class Sizes:
    """The sizes that a mask is for; None where nobody said."""

    q_len: int | None = None
    k_len: int | None = None
    batch_size: int | None = None
    num_heads: int | None = None

    def of(self, name: str, why: str) -> int:
        """Return a size that is needed.

        name: a field, e.g. "num_heads"; why: what it is needed for

        Raises: SoftlookupError when nobody said it.
        """
        size: int | None = getattr(self, name)
        if size is None:
            raise SoftlookupError(f"masks: {why} needs {name}.", expected=f"{name}=...", got="no number")
        return size


@dataclass(frozen=True)
class Reading:
    """Who may look at whom, and in words what their arguments said beyond that."""

    mask: Mask
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spelling:
    """The keyword arguments of a call, and in words what of the mask they do not carry."""

    arguments: dict[str, Any]
    lost: tuple[str, ...] = ()


Writer: TypeAlias = Callable[[Mask, Sizes], Spelling]


@dataclass(frozen=True)
class Takes:
    """One tensor argument of a call: what its entries mean, and its shapes.

    dtype: "bool", "int" or "float"
    shapes: e.g. ("T_q T_k", "B*H T_q T_k"), the most general last
    broadcast: any axis may be 1, and leading axes may be missing
    """

    argument: str
    meaning: Meaning
    dtype: Literal["bool", "int", "float"]
    shapes: tuple[str, ...]
    broadcast: bool = False


def take_known(arguments: Arguments, known: tuple[str, ...], whose: str) -> dict[str, Any]:
    """Return the arguments by name, None for those that were not given.

    Raises: SoftlookupError for a name that the call does not have.
    """
    unknown = [name for name in arguments if name not in known]
    if unknown:
        raise SoftlookupError(
            f"{whose}: there is no argument {unknown[0]!r} about visibility.",
            expected=" or ".join(known),
            got=", ".join(map(repr, arguments)),
        )
    return {name: arguments.get(name) for name in known}


def refuse_shape(tensor: Tensor, whose: str, argument: str, expected: str) -> SoftlookupError:
    """Return the refusal of a tensor whose axes or dtype the call does not take."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return SoftlookupError(
        f"{whose}: {argument} does not look like one.", expected=expected, got=f"{dtype} {list(tensor.shape)}"
    )
