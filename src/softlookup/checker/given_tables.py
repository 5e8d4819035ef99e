"""Tables of rotary positions as models hand them to a layer: cosines and sines, angles, complex numbers."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from softlookup.terms import Case

#: Which features turn together, then the shape: "halves B T d" is what transformers gives.
FORMS = (
    *(f"halves {shape}" for shape in ("B T d", "T d", "1 1 T d", "1 T 1 d")),
    *(f"each pair once {shape}" for shape in ("T d", "1 1 T d", "1 T 1 d")),
    *(f"neighbours {shape}" for shape in ("B T d", "T d", "1 1 T d", "1 T 1 d")),
    *(f"{kind} {shape}" for kind in ("complex", "angles") for shape in ("T d", "1 1 T d", "1 T 1 d")),
)
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


def tables_by_role(case: Case) -> dict[str, Tensor | tuple[Tensor, Tensor]]:
    """Return "role form" -> value, for every form; positions count from 0, and the base is 10000."""
    found: dict[str, Tensor | tuple[Tensor, Tensor]] = {}
    for form in FORMS:
        kind, shape = re.fullmatch(r"([a-z ]+?) ((?:[A-Z1] )+d)", form).groups()  # type: ignore[union-attr]
        angles = _shaped(_angles(case, kind), shape, case)
        cos, sin = angles.cos().to(case.q.dtype), angles.sin().to(case.q.dtype)
        if kind == "complex":
            found[f"rotary {form}"] = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
        elif kind == "angles":
            found[f"rotary {form}"] = angles.to(case.q.dtype)
        else:
            found |= {f"cos {form}": cos, f"sin {form}": sin, f"rotary {form}": (cos, sin)}
    return found


def _angles(case: Case, kind: str) -> Tensor:
    """[T, d_head], or [T, d_head / 2] where one number stands for a pair of features."""
    T, d = case.q.shape[-2:]
    rates = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.arange(T, dtype=torch.float64)[:, None] * rates
    if kind == "halves":
        return torch.cat([angles, angles], dim=-1)[:, :d]
    return angles.repeat_interleave(2, dim=-1)[:, :d] if kind == "neighbours" else angles


def _shaped(table: Tensor, shape: str, case: Case) -> Tensor:
    """[T, d] -> the axes of a form."""
    if shape == "B T d":
        return table.expand(case.q.shape[0], -1, -1)
    return {"T d": table, "1 1 T d": table[None, None], "1 T 1 d": table[None, :, None]}[shape]
