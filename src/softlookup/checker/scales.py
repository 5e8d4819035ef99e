"""The scale that a module declares: in its configuration, or by an argument of its constructor.

A ``self.scale`` that the class works out by itself declares nothing: it is what is checked.
"""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections.abc import Iterator

from softlookup.checker.calls import Sketch

_FACTOR = re.compile(
    r"((softmax|sm|attn|attention|qk)_)?(scale|scaling)(_factor)?|attention_multiplier", re.I
)
#: Gemma 2 and 3: the scores are divided by the root of this number.
_UNDER_ROOT = "query_pre_attn_scalar"


def declared_scale(sketch: Sketch) -> float | None:
    """Return the factor on the scores that a module was told; None where it was told nothing."""
    if not sketch.has_weights:
        return None
    config = {path.rpartition(".")[2]: v for path, v in sketch.settings.items() if path.startswith("config.")}
    under_root = sketch.settings.get(_UNDER_ROOT, config.get(_UNDER_ROOT))
    if under_root:
        return 1 / math.sqrt(under_root)
    told = {name: value for name, value in config.items() if _FACTOR.fullmatch(name)}
    for parameter in scale_parameters(sketch):
        value = sketch.settings.get(parameter)
        if value is not None and not _worked_out(float(value), sketch):
            told[parameter] = value
    return next((float(v) for v in told.values() if not isinstance(v, bool) and v > 0), None)


def scale_parameters(sketch: Sketch) -> list[str]:
    """Return the arguments of the constructor that set the scale."""
    return [p.name for p in sketch.init_parameters if _FACTOR.fullmatch(p.name) and p.default != "True"]


def _worked_out(value: float, sketch: Sketch) -> bool:
    """Say whether a factor is a power of one of the sizes, as a class works it out that was told none."""
    sizes = (v for v in sketch.settings.values() if not isinstance(v, bool) and v > 1)
    ratios = _ratios([float(size) for size in sizes])
    return any(math.isclose(value, size**power, rel_tol=1e-4) for size in ratios for power in (-0.5, -1, 0.5))


def _ratios(sizes: list[float]) -> Iterator[float]:
    """Yield the sizes, and one divided by another: a head is as wide as d_model / num_heads."""
    yield from sizes
    yield from (large / small for large in sizes for small in sizes if large > small)


def unread_scale(sketch: Sketch) -> str | None:
    """Return the argument of the constructor that sets the scale and is never read; None when all are."""
    for function in ast.walk(_tree(sketch.source)):
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            return next((name for name in scale_parameters(sketch) if name not in read), None)
    return None


def _tree(source: str) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return ast.Module([], [])
