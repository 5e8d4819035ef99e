"""Tables of rotary positions as models hand them to a layer: cosines and sines, angles, complex numbers."""

from __future__ import annotations

import re
from functools import lru_cache

import torch
from torch import Tensor

from softlookup.terms import Case

#: Which features turn together, then the shape: "halves B T d" is what transformers gives.
FORMS = (
    *(f"halves {shape}" for shape in ("B T d", "T d", "1 1 T d", "1 T 1 d")),
    *(f"each pair once {shape}" for shape in ("T d", "1 1 T d", "1 T 1 d", "B T d")),
    *(f"neighbours {shape}" for shape in ("B T d", "T d", "1 1 T d", "1 T 1 d")),
    *(f"{kind} {shape}" for kind in ("complex", "angles") for shape in ("T d", "1 1 T d", "1 T 1 d")),
)
Table = Tensor | tuple[Tensor, Tensor]

#: Roles whose values have a form, and what is left of them without it.
TABLES = ("cos", "sin", "rotary")


def likely_forms(roles: dict[str, str]) -> list[str]:
    """Return the forms in which these arguments, name -> role, may come, the likeliest first."""
    given = {role: name for name, role in roles.items() if role in TABLES}
    pairs = [form for form in FORMS if not form.startswith(("complex", "angles"))]
    if "rotary" not in given:
        return pairs
    others = [form for form in FORMS if form not in pairs]
    return others + pairs if re.search(r"freq|cis", given["rotary"], re.I) else pairs + others


def tables_by_role(case: Case) -> dict[str, Table]:
    """Return "role form" -> value, for every form; positions count from 0, and the base is 10000."""
    B, _, T, d = case.q.shape
    return _tables(B, T, d, case.q.dtype)


@lru_cache(maxsize=64)
def _tables(B: int, T: int, d: int, dtype: torch.dtype) -> dict[str, Table]:
    found: dict[str, Table] = {}
    for form in FORMS:
        kind, shape = re.fullmatch(r"([a-z ]+?) ((?:[A-Z1] )+d)", form).groups()  # type: ignore[union-attr]
        angles = _shaped(_angles(T, d, kind), shape, B)
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        if kind == "complex":
            found[f"rotary {form}"] = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
        elif kind == "angles":
            found[f"rotary {form}"] = angles.to(dtype)
        else:
            found |= {f"cos {form}": cos, f"sin {form}": sin, f"rotary {form}": (cos, sin)}
    return found


def _angles(T: int, d: int, kind: str) -> Tensor:
    """[T, d], or [T, d / 2] where one number stands for a pair of features."""
    rates = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.arange(T, dtype=torch.float64)[:, None] * rates
    if kind == "halves":
        return torch.cat([angles, angles], dim=-1)[:, :d]
    return angles.repeat_interleave(2, dim=-1)[:, :d] if kind == "neighbours" else angles


def _shaped(table: Tensor, shape: str, B: int) -> Tensor:
    """[T, d] -> the axes of a form."""
    if shape == "B T d":
        return table.expand(B, -1, -1)
    return {"T d": table, "1 1 T d": table[None, None], "1 T 1 d": table[None, :, None]}[shape]
