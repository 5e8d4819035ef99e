"""Requests at a place where there are no heads: refused, with the reason and the place that is meant."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from torch import nn

from softlookup.live.coverage import attention_layers
from softlookup.terms import SoftlookupError, did_you_mean

#: What projections after attention are called.
_AFTER = ("o_proj", "out_proj", "c_proj", "to_out", "wo", "dense", "o", "out", "out_lin", "proj", "output")
_LISTED = 4


def check_place(words: str, pattern: str, model: nn.Module) -> None:
    """Do nothing where a pattern may mean layers of attention of a model.

    words: the intervention

    Raises: SoftlookupError for a pattern that matches no module, a module inside a layer of attention or
    beside one, and a module around one.
    """
    modules = dict(model.named_modules())
    matching = [path for path in modules if fnmatch.fnmatchcase(path, pattern)]
    layers = attention_layers(model)
    if not matching:
        raise SoftlookupError(
            f"{words}: no module of the model has such a path.",
            expected=_listed(layers) if layers else "the path of an attention layer",
            got=f"{pattern!r}",
            hint=did_you_mean(pattern, layers or modules),
        )
    if any(path in layers for path in matching):
        return
    for path in matching:
        _check_around(words, path, modules[path], layers)
    if all(_is_a_projection(modules[path]) for path in matching):
        _refuse_projection(words, matching[0], layers)


def _check_around(words: str, path: str, module: nn.Module, layers: Sequence[str]) -> None:
    inside = [it for it in layers if not path or it.startswith(f"{path}.")]
    if inside:
        raise SoftlookupError(
            f"{words}: {path or 'the model'} is no layer of attention, it holds {_counted(len(inside))}.",
            expected=f"{_listed(inside)}" if len(inside) == 1 else f"one or some of {_listed(inside)}",
            got=f"{path!r}: {type(module).__name__}",
            hint=f"layer={inside[0]!r}"
            if len(inside) == 1
            else f'layer="{path}{"." if path else ""}*" for all',
        )


def _refuse_projection(words: str, path: str, layers: Sequence[str]) -> None:
    name = path.rpartition(".")[2]
    name = path.split(".")[-2] if name.isdigit() and "." in path else name
    meant = _nearest(path, layers)
    if name in _AFTER:
        why = "after the output projection the heads are mixed, and a slice of it is no head"
    elif meant and path.startswith(f"{meant}."):
        why = "a projection before attention is not what a head finds"
    else:
        why = "it is no layer of attention"
    raise SoftlookupError(
        f"{words}: {path} is no place to intervene: {why}.",
        expected="the layer of attention, inside which the heads are still apart",
        got=f"{path!r}",
        hint=f"layer={meant!r}" if meant else "",
    )


def _is_a_projection(module: nn.Module) -> bool:
    """Whether it computes with parameters of its own and holds nothing that could attend."""
    own = next(module.parameters(recurse=False), None) is not None
    return own and next(module.children(), None) is None and not isinstance(module, nn.MultiheadAttention)


def _nearest(path: str, layers: Sequence[str]) -> str:
    """The layer of attention that is nearest to a path in the tree of modules; "" where there is none."""
    parts = path.split(".")
    shared = {it: _same_start(parts, it.split(".")) for it in layers}
    most = max(shared.values(), default=0)
    return next((it for it, number in shared.items() if number == most and most), "")


def _same_start(parts: Sequence[str], others: Sequence[str]) -> int:
    number = 0
    for part, other in zip(parts, others, strict=False):
        if part != other:
            break
        number += 1
    return number


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(paths[:_LISTED]) + (", ..." if len(paths) > _LISTED else "")


def _counted(number: int) -> str:
    return "one" if number == 1 else f"{number} of them"
