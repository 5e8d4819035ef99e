"""What every visibility rule is written with: positions as numbers or as index tensors, so that one line serves both.

A rule is ``allowed(i, j, *, q_len, k_len, ...)``: may query ``i`` look at key ``j``? It works on two integers and,
by broadcasting, on ``i: [q_len, 1]`` and ``j: [1, k_len]``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

#: An int (or bool) or an integer (or bool) tensor.
Index: TypeAlias = Any
