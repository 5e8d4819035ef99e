"""intervene: a model runs with some steps of its attention done otherwise."""

from __future__ import annotations

import fnmatch
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from softlookup.experiments.answering import Given, answer, given_to
from softlookup.experiments.fast_paths import without_fast_paths
from softlookup.experiments.intervention import STEPS, patterns_of, place_of, positions
from softlookup.experiments.stepping import Placed, call_of
from softlookup.experiments.wrong_places import check_place
from softlookup.live.around import Around, layer_around
from softlookup.live.coverage import attention_layers
from softlookup.live.door_files import Door
from softlookup.live.followed_weights import Following
from softlookup.live.tap import changing
from softlookup.terms import SoftlookupError

_lock = threading.Lock()
_blocks: list[Block] = []  # those that run, the outermost first; changed as a whole


class Block:
    """The interventions of one ``intervene`` on one model.

    met: by intervention and pattern, how many calls it met;  seen: paths of layers that made calls
    """

    def __init__(self, model: nn.Module, interventions: Sequence[Any]) -> None:
        self.paths = {id(module): path for path, module in model.named_modules()}
        self.layers = attention_layers(model)
        self.interventions = interventions
        self.following = Following(model, self._begin)
        self.met: Counter[tuple[int, str]] = Counter()
        self.seen: Counter[str] = Counter()
        self._calls: dict[int, Counter[str]] = defaultdict(Counter)  # by thread, in this forward

    def asked(self, path: str) -> list[Any]:
        """Return the interventions on a layer, in order."""
        return [it for number, it in enumerate(self.interventions) if self._patterns(number, path)]

    def placed(self, around: Around, way: str, given: Given) -> list[Placed]:
        """Return the interventions on a call, each with its place, and count it."""
        path = around.path
        calls = self._calls[threading.get_ident()]
        number = calls[path]
        calls[path] += 1
        self.seen[path] += 1
        known = {"layer": path, "number": number, "way": way, "training": around.layer.training}
        call = call_of(given.sizes, {**known, "cross": around.cross})
        found = []
        for index, it in enumerate(self.interventions):
            patterns = self._patterns(index, path)
            self.met.update((index, pattern) for pattern in patterns)
            if patterns:
                found.append(Placed(it, place_of(it, call, given.device)))
        return found

    def refuse_what_met_nothing(self) -> None:
        """Do nothing where every pattern of every intervention met a call.

        Raises: SoftlookupError: what did nothing must not look as if it had no effect.
        """
        for number, it in enumerate(self.interventions):
            for pattern in patterns_of(it):
                if not self.met[number, pattern]:
                    raise SoftlookupError(
                        f"{it!r}: it met no call of attention, so it changed nothing.",
                        expected=f"a call of a layer that matches {pattern!r}",
                        got="calls of " + ", ".join(self.seen)
                        if self.seen
                        else "no call of attention at all",
                        hint=""
                        if self.seen
                        else "was the model run inside the block? by a kernel of its own?",
                    )

    def changed(
        self, door: Door, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any
    ) -> tuple[Any, Door]:
        """See ``Changer``. The outermost block answers for all, as their steps belong together."""
        running = list(_blocks)
        if not running or running[0] is not self:
            return output, door
        met = [(it, around) for it in running if (around := layer_around(it.paths)) is not None]
        if not any(block.interventions for block, _ in met):
            return output, door
        around = met[0][1]
        given = given_to(door, args, kwargs, output, around)
        if given is None:
            return output, door
        placed = [it for block, here in met for it in block.placed(here, door.name, given)]
        if not placed:
            return output, door
        batch, heads, _, q_len, k_len = given.sizes
        sizes = (batch, heads, q_len, k_len)
        follow = met[0][0].following.follow
        return answer(door, output, given, placed, lambda it: follow(it, around.layer, sizes))

    def met_compiled(self, door: str, modules: tuple[int, ...]) -> None:
        """See ``Changer``: a call in compiled code cannot be changed."""
        path = next((self.paths[it] for it in reversed(modules) if it in self.paths), None)
        if path is not None and self.asked(path):
            raise _compiled(f"{path or 'the model'} runs as compiled code")

    def _patterns(self, number: int, path: str) -> list[str]:
        """The patterns of an intervention that mean a layer, or the layer of attention around it."""
        names = [path, *(it for it in self.layers if path.startswith(f"{it}."))]
        patterns = patterns_of(self.interventions[number])
        return [p for p in patterns if any(fnmatch.fnmatchcase(name, p) for name in names)]

    def _begin(self) -> None:
        self._calls[threading.get_ident()].clear()


@contextmanager
def intervene(model: nn.Module, *interventions: Any) -> Iterator[None]:
    """Run a model with some steps of its attention done otherwise, while the block runs.

    model: any module; nothing of it is edited
    interventions: of this package, or objects of your own with a method named after a step: see
        ``softlookup.experiments.intervention``

    An intervention acts inside the call of attention, on the rows of the map that it asked for, before the
    heads merge; all other rows stay what they are, bit for bit. Gradients flow through. It is the same for
    every way in which a model computes attention: scaled_dot_product_attention, attend, flex_attention, or a
    softmax that is written by hand.

    Together, steps run in the order of attention: all that change who is visible, then scores, then
    weights, then what the heads found; and within a step in the order in which they are given, outer blocks
    first. A key that one of them hides stays hidden, also in a map that another one puts in place: its share
    goes to the others. A query that sees no key stays as it is.

    Meanwhile the fast paths of nn.MultiheadAttention and nn.TransformerEncoderLayer are off, which go from
    tokens to tokens in one call, and differ from the plain way by rounding and in rows of padding. A fair
    baseline for them is ``with intervene(model):``, without interventions.

    All threads that run the model are meant. At the end, also by an exception, everything is as it was. The
    first block looks for the functions of attention in all modules that are loaded, which takes some ten
    milliseconds; a block inside it takes next to nothing.

    Raises: SoftlookupError for a place that is no layer of attention, a compiled model, and what is no
    intervention; when the model runs, for a head, query or sample that there is not, and for calls that
    cannot be changed; at the end, for one that met no call.

    >>> import torch
    >>> from softlookup.experiments import ablate, intervene, remove_source
    >>> model = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    >>> x = torch.randn(2, 6, 16)
    >>> with intervene(model, ablate(layer="self_attn", head=2), remove_source(0, layer="self_attn")):
    ...     changed = model(x)
    """
    model = _checked(model, interventions)
    with ExitStack() as stack:
        stack.enter_context(without_fast_paths())
        prepared = [it.prepared(model) if hasattr(it, "prepared") else it for it in interventions]
        block = Block(model, prepared)
        stack.enter_context(block.following.until_done())
        stack.enter_context(_running(block))
        stack.enter_context(changing(block))
        yield
    block.refuse_what_met_nothing()


@contextmanager
def _running(block: Block) -> Iterator[None]:
    with _lock:
        _blocks[:] = [*_blocks, block]
    try:
        yield
    finally:
        with _lock:
            _blocks[:] = [it for it in _blocks if it is not block]


def _checked(model: nn.Module, interventions: Sequence[Any]) -> nn.Module:
    """Return the model without what torch.compile wraps around it.

    Raises: SoftlookupError for what is no model, no intervention, or no place.
    """
    if not isinstance(model, nn.Module):
        raise SoftlookupError(
            "intervene: there is no model.", expected="a torch.nn.Module", got=type(model).__name__
        )
    inner: nn.Module = getattr(model, "_orig_mod", model)
    for it in interventions:
        if isinstance(it, type) or not any(callable(getattr(it, step, None)) for step in STEPS):
            raise SoftlookupError(
                "intervene: this is no intervention.",
                expected=f"an object with `layer` and a method called {', '.join(STEPS[:-1])} or {STEPS[-1]}",
                got=f"{it!r}",
                hint="intervene(model, *interventions)" if isinstance(it, (list, tuple)) else "",
            )
        for name in ("head", "query", "sample"):
            positions(name, getattr(it, name, None))
        for pattern in patterns_of(it):
            check_place(repr(it), pattern, inner)
    if interventions and (model is not inner or _compiles_itself(inner)) and not _runs_eagerly():
        raise _compiled(f"{type(inner).__name__}, compiled by torch.compile")
    return inner


def _compiles_itself(model: nn.Module) -> bool:
    return any(getattr(it, "_compiled_call_impl", None) is not None for it in model.modules())


def _runs_eagerly() -> bool:
    from torch._dynamo import eval_frame

    return bool(eval_frame._stance.stance == "force_eager")


def _compiled(got: str) -> SoftlookupError:
    return SoftlookupError(
        "intervene: compiled code computes attention as a whole, and no step of it can be replaced.",
        expected="the model as it was written",
        got=got,
        hint='the model before torch.compile, or torch.compiler.set_stance("force_eager") around it all',
    )
