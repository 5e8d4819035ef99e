"""Which layers of attention a model has, and which of them were seen at work."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from torch import nn

_NAMES = ("attention", "attn", "multihead")
_NOT_ATTENTION = ("norm", "dropout", "output", "mask", "rotary", "embedding", "pool", "mlp")
_LISTED = 4


def attention_layers(model: nn.Module) -> list[str]:
    """Return the paths of the modules that say that they are attention, the innermost ones.

    By the name of the class, e.g. "LlamaAttention"; what wraps such a module is not counted beside it.
    """
    found = [path for path, module in model.named_modules() if _says_attention(module)]
    return [path for path in found if not any(_below(other, path) for other in found if other != path)]


def _says_attention(module: nn.Module) -> bool:
    name = type(module).__name__.lower()
    has_weights = next(module.parameters(), None) is not None
    return has_weights and any(it in name for it in _NAMES) and not any(it in name for it in _NOT_ATTENTION)


def _below(inner: str, outer: str) -> bool:
    return inner != outer and (not outer or inner.startswith(outer + "."))


def one_holds_the_other(path: str, other: str) -> bool:
    """Say whether two paths are of the same module, or of one inside the other."""
    return path == other or _below(path, other) or _below(other, path)


@dataclass
class Coverage:
    """What was seen and what was not.

    expected: paths of the layers of attention that the model has
    seen: measured calls by path;  refused: why calls were not observable, and how many
    """

    expected: list[str]
    seen: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def expect(self, paths: list[str]) -> None:
        """Add layers of attention that somebody has declared."""
        self.expected += [it for it in paths if it not in self.expected]

    def outside(self, path: str) -> bool:
        """Say whether a layer neither is, holds nor lies in one of those expected."""
        return not any(one_holds_the_other(path, it) for it in self.expected)

    @property
    def missing(self) -> list[str]:
        """Layers of attention of which no call was seen."""
        return [it for it in self.expected if not any(one_holds_the_other(it, path) for path in self.seen)]

    @property
    def layers(self) -> int:
        """How many layers of attention there are: those expected, and others that turned out to be one."""
        return len(self.expected) + sum(map(self.outside, self.seen))

    def __str__(self) -> str:
        missing = self.missing
        seen = f"{self.layers - len(missing)} of {self.layers} attention layers seen"
        words = f"{seen}, {self.seen.total()} calls measured"
        if missing:
            listed = ", ".join(missing[:_LISTED]) + (", ..." if len(missing) > _LISTED else "")
            words += f"; no call seen of {listed}"
        if self.refused:
            why = "; ".join(f"{number} x {reason}" for reason, number in self.refused.most_common(_LISTED))
            words += f"; {self.refused.total()} calls not observable: {why}"
        return words
