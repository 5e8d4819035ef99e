"""Compare an output of attention with the right one, as closely as its dtype allows.

The right output is the lookup in float64. float32 and float64 are judged by meaning: what rounding can do
there is far below what a mistake does; ``Scale`` holds the numbers. Half precision gets a budget for the mean
and for the largest error, measured by the plain formula in the same dtype; rule SL702 holds the numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.attention_inputs import check_tensors, read_mask, require_a_key_in_every_row, sizes_of
from softlookup.checker.evidence import Evidence, Observation
from softlookup.checker.hypotheses import REFERENCE, Scale
from softlookup.checker.rules import sl702_error_above_plain as sl702
from softlookup.report.matrices import beside
from softlookup.terms import Case, Contract, Corner, MaskLike, SoftlookupError

_SHOWN = 3  # rows and columns of yours and right in the words of a failure
_LISTED = 12  # keys that are listed by number
_DOING = "assert_attention_close:"


def assert_attention_close(
    actual: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | MaskLike | None = None,
    *,
    causal: bool | Corner | None = None,
    scale: float | None = None,
    layout: str = "B H T d",
) -> None:
    """Assert that ``actual`` is softmax(q k^T / sqrt(d_head)) v, as closely as its dtype allows.

    actual: [..., H, T_q, d_v] the output under test, in the dtype of q
    q: [..., H, T_q, d_head]; any leading axes, also none
    k: [..., H_kv, T_k, d_head] with H a multiple of H_kv, or H heads as in q
    v: [..., H_kv, T_k, d_v]
    attention_mask: broadcastable to [..., H, T_q, T_k]: bool (True = may look), a ``Mask``, or float, which
        is added to the scaled scores (-inf hides)
    causal: hide later keys as well; with T_q != T_k say from where they count, "top-left" or "bottom-right"
    scale: factor on the scores; None is 1 / sqrt(d_head)
    layout: the order of the axes of q, k, v and actual, e.g. "B T H d"; masks are always [..., H, T_q, T_k]

    A query without any key is not compared: right implementations differ in what it returns.

    Raises: AssertionError that names the worst row, the keys it may see, yours and the right output.
    SoftlookupError when the inputs are no attention problem.

    >>> q, k, v = torch.randn(3, 2, 4, 5, 8).unbind()
    >>> output = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    >>> assert_attention_close(output, q, k, v, causal=True)
    """
    __tracebackhide__ = True
    actual, q, k, v = (_canonical(tensor, layout) for tensor in (actual, q, k, v))
    check_tensors(q, k, v, enable_gqa=True)
    allowed_mask, additive_bias = read_mask(attention_mask, q, k)
    problem = Case(q, k, v, allowed_mask, additive_bias, causal=_corner(causal, q, k), scale=scale)
    assert_solves(actual, problem)


def assert_solves(actual: Tensor, problem: Case) -> None:
    """Assert that ``actual`` [..., H, T_q, d_v] is the answer to a problem that ``attention_problems`` drew.

    Raises: as ``assert_attention_close``.

    >>> q = torch.eye(3)
    >>> assert_solves(torch.nn.functional.scaled_dot_product_attention(q, q, q), Case(q, q, q))
    """
    __tracebackhide__ = True
    problem = _at_rest(problem)
    expected = (*problem.q.shape[:-1], problem.v.shape[-1])
    if tuple(actual.shape) != expected:
        raise AssertionError(f"the output has shape {tuple(actual.shape)}, attention gives {expected}")
    if actual.dtype != problem.q.dtype:
        raise AssertionError(f"the output is {_name(actual.dtype)}, its queries are {_name(problem.q.dtype)}")
    failure = _Comparison(actual.detach().cpu(), problem).failure()
    if failure:
        raise AssertionError(failure)


def _canonical(tensor: Tensor, layout: str) -> Tensor:
    """Return a tensor in this layout as [B, H, T, d], or without the leading axes that the layout lacks.

    Raises: SoftlookupError when the layout does not fit.
    """
    if layout == "B H T d":
        return tensor  # leading axes may be fewer or more
    axes = layout.split()
    canonical = [axis for axis in "BHTd" if axis in axes]
    if sorted(axes) != sorted(canonical) or canonical[-2:] != ["T", "d"] or tensor.dim() != len(axes):
        raise SoftlookupError(
            f"{_DOING} the layout {layout!r} does not fit.",
            expected='one letter an axis, of B, H, T and d: "B T H d", "T B d"',
            got=f"a tensor of {tensor.dim()} axes",
            hint="split folded axes first: x.unflatten(-1, (num_heads, d_head))",
        )
    return tensor.permute([axes.index(axis) for axis in canonical])


def _corner(causal: bool | Corner | None, q: Tensor, k: Tensor) -> Corner | None:
    if causal is None or causal is False:
        return None
    if causal is True and q.shape[-2] == k.shape[-2]:
        return "top-left"
    if causal == "top-left" or causal == "bottom-right":
        return causal
    raise SoftlookupError(
        f"{_DOING} causal does not say which keys come later.",
        expected='"top-left" (query 0 sees key 0) or "bottom-right" (the last query sees every key)',
        got=repr(causal),
        sizes=sizes_of(q, k),
    )


def _at_rest(problem: Case) -> Case:
    """Return the problem on the CPU, where float64 is at home, and outside any graph."""
    tensors = {
        name: value.detach().cpu() for name, value in vars(problem).items() if isinstance(value, Tensor)
    }
    return problem.but(**tensors, dropout_p=0.0)


class _Comparison:
    """An output beside the right one."""

    def __init__(self, actual: Tensor, problem: Case) -> None:
        self.problem = problem
        self.exact = STEPS(problem.double())[0]  # [..., H, T_q, d_v]
        self.plain = STEPS(problem)[0].double()  # the same formula, rounded as this dtype rounds
        self.actual = actual
        self.looking = _looking(problem)  # [..., H, T_q]: rows that may look somewhere

    def failure(self) -> str:
        """Return what is wrong, in words; empty when nothing is."""
        overflows = self.exact.isfinite() & ~self.plain.isfinite()  # nobody can be asked to do better there
        broken = (self.actual.isfinite() != self.exact.isfinite()) & ~overflows & self.looking[..., None]
        if broken.any():
            first = tuple(broken.nonzero()[0].tolist())
            rows = f"{int(broken.any(dim=-1).sum())} rows"
            lost = bool(self.actual[first].isfinite())
            return self._words(
                first,
                f"{rows} do not pass on a NaN or inf that they may look at"
                if lost
                else f"{rows} hold NaN or inf where the right output has none",
            )
        judged = self.looking & (self.exact.isfinite() & self.plain.isfinite()).all(dim=-1)
        if not judged.any():
            raise SoftlookupError(
                f"{_DOING} there is no row to compare.",
                expected="a query whose right answer is finite, by the plain formula too",
                got=f"inputs that hold NaN or inf, or overflow in {_name(self.actual.dtype)}",
                hint="smaller inputs, or float32",
            )
        if self._within(judged):
            return ""
        error = (self.actual.double() - self.exact).abs().masked_fill(~judged[..., None], -1.0)
        worst = torch.unravel_index(error.argmax(), error.shape)
        return self._words(tuple(int(n) for n in worst), self._figures(judged))

    def _within(self, judged: Tensor) -> bool:
        """Ask the checker's own rules for the dtype. judged: [..., H, T_q] bool, the rows that count."""
        rows = judged[..., None]
        mask = rows if self.problem.allowed_mask is None else rows & self.problem.allowed_mask
        # Attention is linear in v: bring the answers to size 1, for which the rules grant their least errors.
        unit = _power_of_two(float(self.exact[judged].abs().max()))
        case = self.problem.but(v=self.problem.v / unit, allowed_mask=mask)
        if self.actual.dtype.itemsize < 4:
            seen = Observation("half", case, self.actual / unit)
            return sl702.judge(Evidence(Contract(), (seen,))) is None
        seen = Observation("large", case, self.actual / unit)  # the scores of a test may have any size
        return Scale().compare(seen, REFERENCE).fits

    def _figures(self, judged: Tensor) -> str:
        yours, plain = ((it.double() - self.exact)[judged].abs() for it in (self.actual, self.plain))
        dtype = _name(self.actual.dtype)
        return (
            f"largest error {float(yours.max()):.3g}, mean {float(yours.mean()):.3g}; the plain formula in "
            f"{dtype}: largest {float(plain.max()):.3g}, mean {float(plain.mean()):.3g}"
        )

    def _words(self, place: tuple[int, ...], figures: str) -> str:
        """Describe the worst entry, at [..., query, feature], and a corner of the output around it."""
        *leading, query, feature = place
        i, j = (_window(n, size) for n, size in zip((query, feature), self.actual.shape[-2:], strict=True))
        yours, right = (it[tuple(leading)][i, j].double().tolist() for it in (self.actual, self.exact))
        names = ["batch", "head"][2 - len(leading) :] if len(leading) <= 2 else ["axis"] * len(leading)
        row = ", ".join(f"{name} {n}" for name, n in zip([*names, "query"], place, strict=False))
        return "\n".join(
            [
                f"this is not the output of attention: {_name(self.actual.dtype)} {list(self.actual.shape)}",
                f"  {figures}",
                f"  worst row: {row}, which may see {self._keys((*leading, query))}",
                f"  queries {i.start} to {i.stop - 1}, features {j.start} to {j.stop - 1} around it:",
                *(f"    {line}" for line in beside(("yours", "right"), yours, right, sums=False)),
                "  try: softlookup.check(your_function), which names the wrong step",
            ]
        )

    def _keys(self, place: tuple[int, ...]) -> str:
        T_k = self.problem.k.shape[-2]
        allowed = STEPS.visible(self.problem)
        if allowed is None:
            return f"all {T_k} keys"
        row = allowed.expand(*self.problem.q.shape[:-1], T_k)[place]
        seen = row.nonzero().flatten().tolist()
        if len(seen) == T_k:
            return f"all {T_k} keys"
        more = f" and {len(seen) - _LISTED} more" if len(seen) > _LISTED else ""
        listed = ", ".join(map(str, seen[:_LISTED]))
        return f"{'key' if len(seen) == 1 else 'keys'} {listed}{more} of {T_k}"


def _looking(problem: Case) -> Tensor:
    """[..., H, T_q] bool: queries that may look at some key."""
    allowed = STEPS.visible(problem)
    rows = problem.q.shape[:-1]
    looking = torch.ones(rows, dtype=torch.bool) if allowed is None else allowed.any(dim=-1).expand(rows)
    if not looking.any():
        require_a_key_in_every_row(allowed, problem)  # says which, in its own words
    return looking


def _window(place: int, size: int) -> slice:
    """Return at most three neighbours with this place among them."""
    start = max(0, min(place - 1, size - _SHOWN))
    return slice(start, min(size, start + _SHOWN))


def _power_of_two(size: float) -> float:
    return 2.0 ** math.floor(math.log2(size)) if size > 0 else 1.0


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
