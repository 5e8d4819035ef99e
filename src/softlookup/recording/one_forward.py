"""record_attention: one forward of a model, and all its calls of attention."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.live.around import layer_around
from softlookup.live.coverage import Coverage, attention_layers
from softlookup.live.door_files import Door
from softlookup.live.followed_weights import Following, Met, as_plain
from softlookup.live.naming_calls import call_of
from softlookup.live.problem import Problem
from softlookup.live.tap import changing
from softlookup.recording.recorded_call import RecordedCall
from softlookup.terms import SoftlookupError, did_you_mean

#: Doors whose output is what the heads found, [.., H, T_q, d_v].
_SHOWS_HEADS = ("sdpa", "attend", "flex")
#: What holds queries, keys and values in the calls of all doors; a model may write into them later on.
_NAMES = ("q", "k", "v", "query", "key", "value", "input")


@dataclass(frozen=True, eq=False)
class Recording:
    """What ``record_attention`` saw.

    calls: all calls, in the order in which they were made;  output: what the model returned
    """

    calls: tuple[RecordedCall, ...]
    output: Any = field(repr=False)

    @property
    def layers(self) -> tuple[str, ...]:
        """The paths of the layers, in the order of their first calls."""
        return tuple(dict.fromkeys(it.call.layer for it in self.calls))

    def __getitem__(self, layer: str) -> RecordedCall:
        """Return the first call of a layer."""
        return self.call(layer)

    def call(self, layer: str, number: int = 0) -> RecordedCall:
        """Return one call of a layer.

        number: how many calls of this layer came before it

        Raises: SoftlookupError when the layer was not recorded, or made fewer calls.
        """
        calls = [it for it in self.calls if it.call.layer == layer]
        if not calls:
            near = did_you_mean(layer, self.layers, f"recorded were {', '.join(self.layers)}")
            raise SoftlookupError(f"this recording has no layer {layer!r}.", hint=near)
        if not 0 <= number < len(calls):
            raise SoftlookupError(
                f"{layer!r} was not called so often in this recording.",
                expected=f"a number from 0 to {len(calls) - 1}",
                got=str(number),
            )
        return calls[number]


@dataclass(eq=False)
class _Part:
    """What heads found so far: outputs [rows of the map, d_v], how many rows, whether any came twice."""

    outputs: Tensor
    rows: int = 0
    several: bool = False


class _Keeping:
    """Keeps every call of one model."""

    def __init__(self, model: nn.Module, patterns: Sequence[str]) -> None:
        self.model, self.patterns = model, patterns
        self.paths = {id(module): path for path, module in model.named_modules()}
        self.coverage = Coverage([it for it in attention_layers(model) if self._wanted(it)])
        self.calls: list[RecordedCall] = []
        self.following = Following(model)
        self._parts: dict[int, _Part] = {}  # by place in calls

    def changed(
        self, door: Door, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any
    ) -> tuple[Any, Door]:
        """See ``Changer``; only a softmax is answered otherwise: by the same weights, which are followed."""
        around = layer_around(self.paths)
        if around is None or not self._wanted(around.path):
            return output, door
        copies = tuple(_copied(it) for it in args[:3])
        named = {name: _copied(it) if name in _NAMES else it for name, it in kwargs.items()}
        problem = door.read((*copies, *args[3:]), named, as_plain(output), around)
        if problem is None or problem.q_len * problem.k_len * problem.batch_size == 0:
            return output, door
        place = len(self.calls)
        call = call_of(problem, around, door.name, step=0, number=self.coverage.seen[around.path])
        self.coverage.seen[around.path] += 1
        values, outputs = _values(problem), _outputs(door, problem)
        problem = replace(problem, output=None, row_sums=None)  # weights that the model made are not kept
        self.calls.append(RecordedCall(call, values, outputs, problem))
        if door.written is not None:
            sizes = (call.batch_size, call.num_heads, call.q_len, call.k_len)
            output, journey = self.following.follow(output, around.layer, sizes)
            journey.at_values.append(lambda met: self._keep_outputs(place, met))
        return output, door

    def met_compiled(self, door: str, modules: tuple[int, ...]) -> None:
        """See ``Changer``."""
        if any(it in self.paths for it in modules):
            raise SoftlookupError(
                "recording: compiled code does not show its calls as a whole.",
                expected="the model as it was written",
                got="a compiled model, or one that compiles a part of itself",
                hint='with torch.compiler.set_stance("force_eager"): ...',
            )

    def _keep_outputs(self, place: int, met: Met) -> Tensor:
        """Keep what heads found, part by part where they are computed so, until it is whole."""
        recorded = self.calls[place]
        call = recorded.call
        rows, width = call.batch_size * call.num_heads * call.q_len, met.outputs.shape[-1]
        part = self._parts.setdefault(place, _Part(met.outputs.new_empty(rows, width)))
        part.several |= met.again or width != part.outputs.shape[-1]  # what a head finds is a sum then
        if not part.several:
            part.outputs[met.rows] = met.outputs.detach()
            part.rows += len(met.rows)
        shape = (call.batch_size, call.num_heads, call.q_len, width)
        outputs = part.outputs.view(shape) if part.rows == rows and not part.several else None
        values = met.values() if outputs is not None and len(met.rows) == rows else None
        self.calls[place] = replace(recorded, outputs=outputs, values=values)
        return met.outputs

    def _wanted(self, path: str) -> bool:
        return any(fnmatch.fnmatchcase(path, it) for it in self.patterns)


def record_attention(
    model: nn.Module, *args: Any, layers: str | Sequence[str] = "*", **kwargs: Any
) -> Recording:
    """Run one forward of a model, without gradients, and keep every call of attention in it.

    model: any module; it stays in the mode in which it is, and its output is the same, bit for bit
    args, kwargs: what the model is called with
    layers: patterns of the paths that are kept, e.g. "model.layers.[0-3].*"

    Kept are queries, keys, values and what the heads found, T x d for a head; maps are computed when they
    are asked for. Of attention that is written by hand, with a softmax, its scores are kept, as the model
    made them anyway. Inside ``intervene`` the maps are those that the interventions left.

    Raises: SoftlookupError when ``model`` is no module, no call is seen, or its code is compiled.

    >>> model = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    >>> recording = record_attention(model, torch.randn(2, 6, 16))
    >>> recording.layers
    ('self_attn',)
    >>> recording["self_attn"].weights(sample=1, heads=[0], queries=[2, 3]).shape
    torch.Size([1, 2, 6])
    """
    keeping = _keeping(model, layers)
    with torch.no_grad(), keeping.following.until_done(), changing(keeping):
        output = model(*args, **kwargs)
    if not keeping.calls:
        named = attention_layers(keeping.model)
        raise SoftlookupError(
            "record_attention: no call of attention was seen.",
            expected=f"calls of layers whose path matches {layers!r}",
            got=str(keeping.coverage),
            hint=f"layers: {', '.join(named) or 'none that says that it is attention'}",
        )
    return Recording(tuple(keeping.calls), output)


@contextmanager
def recorded_calls(model: nn.Module, *, layers: str | Sequence[str] = "*") -> Iterator[list[RecordedCall]]:
    """Keep every call of attention of a model while a block runs, whoever calls it there.

    model, layers: see ``record_attention``

    Yields: the calls so far, in the order in which they were made; none is no error.

    Raises: SoftlookupError when ``model`` is no module, or its code is compiled.

    >>> model = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    >>> with torch.no_grad(), recorded_calls(model) as calls:
    ...     _ = model(torch.randn(2, 6, 16)), model(torch.randn(2, 5, 16))
    >>> [it.call.q_len for it in calls]
    [6, 5]
    """
    keeping = _keeping(model, layers)
    with keeping.following.until_done(), changing(keeping):
        yield keeping.calls


def _keeping(model: nn.Module, layers: str | Sequence[str]) -> _Keeping:
    if not isinstance(model, nn.Module):
        raise SoftlookupError(
            "recording: there is no model to record.",
            expected="a torch.nn.Module",
            got=type(model).__name__,
        )
    inner = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    return _Keeping(inner, [layers] if isinstance(layers, str) else list(layers))


def _copied(value: Any) -> Any:
    """A copy of a tensor: caches, and layers that work in place, write into it later."""
    return value.detach().clone() if isinstance(value, Tensor) and not value.is_nested else value


def _values(problem: Problem) -> Tensor | None:
    values = problem.sources.get("values")
    if values is None:
        return None
    return values.reshape(problem.batch_size, problem.num_kv_heads, problem.k_len, -1)


def _outputs(door: Door, problem: Problem) -> Tensor | None:
    """[B, H, T_q, d_v], also where one new token has its heads where others have queries."""
    if door.name not in _SHOWS_HEADS or problem.output is None:
        return None
    outputs = problem.output.detach().clone()
    return outputs.reshape(problem.batch_size, problem.num_heads, problem.q_len, -1)
