"""Hypothesis strategies for small attention problems: a confused axis cannot hide behind an equal one.

Numbers are multiples of 1/8 between -4 and 4: short to read, and the same in every dtype. Failing examples
shrink to few tokens and to a mask that hides little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softlookup.checker.cases import Sizes, keep_one_key
from softlookup.terms import Case, Corner, SoftlookupError

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

_FEW = {"B": 3, "H_kv": 4, "T_q": 7, "T_k": 9, "d_head": 8, "d_v": 10}  # the most of each axis
_LAYOUTS = ("B H T d", "B T H d", "T B H d")
_MASK_AXES = ("B", "H", "T_q", "T_k")


def shapes(
    *, grouped: bool = False, same_lengths: bool = False, same_widths: bool = False
) -> SearchStrategy[Sizes]:
    """Draw sizes of q [B, H, T_q, d_head], k [B, H_kv, T_k, d_head] and v [B, H_kv, T_k, d_v].

    Most often all are different; sometimes several are equal, where a wrong broadcast is accepted silently.

    grouped: query heads may share key/value heads, H = H_kv * 2 or 3
    same_lengths: T_k is T_q, for attention of a sequence to itself
    same_widths: d_v is d_head

    Raises: SoftlookupError when hypothesis is not installed.

    >>> shapes().example()  # doctest: +SKIP
    Sizes(B=2, H=3, H_kv=3, T_q=5, T_k=7, d_head=8, d_v=4)
    """
    st = _hypothesis("shapes")

    def draw_sizes(draw: DrawFn) -> Sizes:
        equal = draw(st.integers(0, 4)) == 4  # one in five
        taken: set[int] = set()
        drawn: dict[str, int] = {}
        for axis, most in _FEW.items():
            free = [n for n in range(1, most + 1) if equal or n not in taken]
            drawn[axis] = draw(st.sampled_from(free))
            taken.add(drawn[axis])
        groups = draw(st.integers(1, 3)) if grouped else 1
        sizes = Sizes(H=drawn["H_kv"] * groups, **drawn)
        sizes = replace(sizes, T_k=sizes.T_q) if same_lengths else sizes
        return replace(sizes, d_v=sizes.d_head) if same_widths else sizes

    strategy: SearchStrategy[Sizes] = st.composite(draw_sizes)()
    return strategy


def qkv(
    sizes: Sizes | None = None, *, dtype: torch.dtype = torch.float32, strided: bool = False
) -> SearchStrategy[tuple[Tensor, Tensor, Tensor]]:
    """Draw q [B, H, T_q, d_head], k [B, H_kv, T_k, d_head] and v [B, H_kv, T_k, d_v].

    sizes: of the tensors; None draws them from ``shapes()``
    strided: sometimes the tensors are stored as [B, T, H, d], so that they are not contiguous

    Raises: SoftlookupError when hypothesis is not installed.

    >>> q, k, v = qkv().example()  # doctest: +SKIP
    """
    st = _hypothesis("qkv")

    def draw_tensors(draw: DrawFn) -> tuple[Tensor, Tensor, Tensor]:
        s = sizes or draw(shapes())
        random = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
        stored_apart = strided and draw(st.booleans())

        def tensor(*shape: int) -> Tensor:
            numbers = torch.randn(*shape, generator=random, dtype=torch.float64)
            numbers = ((numbers * 8).round() / 8).clamp(-4, 4).to(dtype)
            return numbers.transpose(1, 2).contiguous().transpose(1, 2) if stored_apart else numbers

        q = tensor(s.B, s.H, s.T_q, s.d_head)
        return q, tensor(s.B, s.H_kv, s.T_k, s.d_head), tensor(s.B, s.H_kv, s.T_k, s.d_v)

    strategy: SearchStrategy[tuple[Tensor, Tensor, Tensor]] = st.composite(draw_tensors)()
    return strategy


def allowed_masks(
    sizes: Sizes, axes: str = "B H T_q T_k", *, causal: Corner | None = None, empty_rows: bool = False
) -> SearchStrategy[Tensor]:
    """Draw a bool mask, True = may look, that leaves every query a key.

    sizes: of the problem
    axes: of the mask, with 1 where it is the same for all: "B 1 1 T_k" for padding, "T_q T_k" for one pattern
    causal: the rule that will be asked for besides; a key stays visible under both
    empty_rows: queries without any key are wanted too

    Raises: SoftlookupError for axes that are none of a mask, or when hypothesis is not installed.

    >>> allowed_masks(Sizes(), "B 1 1 T_k").example().shape  # doctest: +SKIP
    torch.Size([2, 1, 1, 7])
    """
    st = _hypothesis("allowed_masks")
    shape = _mask_shape(sizes, axes)
    count = int(torch.Size(shape).numel())

    def draw_mask(draw: DrawFn) -> Tensor:
        # One byte an entry: even shows the key, and bytes shrink towards 0.
        hidden = torch.tensor(list(draw(st.binary(min_size=count, max_size=count)))).reshape(shape) % 2 == 1
        if empty_rows:
            return ~hidden
        empty = torch.zeros(sizes.B, sizes.H, sizes.T_q, 0), torch.zeros(sizes.B, sizes.H_kv, sizes.T_k, 0)
        return keep_one_key(Case(empty[0], empty[1], empty[1], causal=causal), ~hidden)

    strategy: SearchStrategy[Tensor] = st.composite(draw_mask)()
    return strategy


def layouts() -> SearchStrategy[str]:
    """Draw an order of axes, "B H T d" first, for code that takes several; see ``in_layout``.

    Raises: SoftlookupError when hypothesis is not installed.

    >>> layouts().example()  # doctest: +SKIP
    'B T H d'
    """
    strategy: SearchStrategy[str] = _hypothesis("layouts").sampled_from(_LAYOUTS)
    return strategy


def attention_problems(
    sizes: SearchStrategy[Sizes] | None = None,
    *,
    mask_axes: str | None = "B H T_q T_k",
    causal: Corner | None = None,
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    empty_rows: bool = False,
    strided: bool = False,
) -> SearchStrategy[Case]:
    """Draw a ``Case``: q, k, v and the rules that are asked for; ``assert_solves`` judges the answer.

    sizes: None is ``shapes()``
    mask_axes: of the masks that some problems have, as for ``allowed_masks``; None is no mask ever
    causal: "top-left" or "bottom-right" hides later keys in every problem
    dtypes: of the tensors, the first is the simplest
    empty_rows: queries without any key are wanted too
    strided: sometimes the tensors are not contiguous

    Raises: SoftlookupError when hypothesis is not installed.

    >>> problem = attention_problems().example()  # doctest: +SKIP
    >>> my_attention(problem.q, problem.k, problem.v, problem.allowed_mask)  # doctest: +SKIP
    """
    st = _hypothesis("attention_problems")

    def draw_problem(draw: DrawFn) -> Case:
        s = draw(shapes() if sizes is None else sizes)
        if causal == "bottom-right" and not empty_rows:  # the first queries of a longer sequence see nothing
            s = replace(s, T_k=max(s.T_k, s.T_q))
        case = Case(*draw(qkv(s, dtype=draw(st.sampled_from(list(dtypes))), strided=strided)), causal=causal)
        if mask_axes is None or not draw(st.booleans()):
            return case
        return case.but(allowed_mask=draw(allowed_masks(s, mask_axes, causal=causal, empty_rows=empty_rows)))

    strategy: SearchStrategy[Case] = st.composite(draw_problem)()
    return strategy


def in_layout(tensor: Tensor, layout: str) -> Tensor:
    """Return a tensor [B, H, T, d] with its axes in another order, as a view.

    Raises: SoftlookupError when the layout is no order of B, H, T and d.

    >>> in_layout(torch.zeros(2, 3, 5, 8), "B T H d").shape
    torch.Size([2, 5, 3, 8])
    """
    axes = layout.split()
    if sorted(axes) != sorted("BHTd") or tensor.dim() != 4:
        raise SoftlookupError(
            "in_layout: the axes do not fit.",
            expected='a tensor [B, H, T, d] and an order of its axes, such as "B T H d"',
            got=f"{tensor.dim()} axes and {layout!r}",
        )
    return tensor.permute(["BHTd".index(axis) for axis in axes])


def _mask_shape(sizes: Sizes, axes: str) -> tuple[int, ...]:
    names = axes.split()
    if not 0 < len(names) <= 4 or any(
        name not in ("1", axis) for name, axis in zip(reversed(names), reversed(_MASK_AXES), strict=False)
    ):
        raise SoftlookupError(
            "allowed_masks: these are not the axes of a mask.",
            expected='the last axes of "B H T_q T_k", each by its name or as 1: "B 1 1 T_k", "T_q T_k"',
            got=repr(axes),
        )
    return tuple(1 if name == "1" else int(getattr(sizes, name)) for name in names)


def _hypothesis(wanted_by: str) -> Any:
    """Return ``hypothesis.strategies``: only these functions need it."""
    try:
        import hypothesis.strategies
    except ModuleNotFoundError:
        raise SoftlookupError(
            f"softlookup.testing: {wanted_by} draws its examples with Hypothesis, which is not installed.",
            expected="the package hypothesis, version 6.100 or later",
            got="no module named hypothesis",
            hint="pip install hypothesis",
        ) from None
    return hypothesis.strategies
