"""Measure what the libraries do with masks, by calling them: every fact of docs/reference/conventions.json.

Each question is put to the real call with a raw tensor, and answered from the weights that it gives every
key (``softlookup.conventions.measuring``). Where the library does something else than the convention's file
declares, a ContradictionError says so. Where nothing can be called here, the same questions are answered by
what we read in the documentation.
"""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import torch
from asking_libraries import (
    ContradictionError,
    as_they_take_it,
    ask,
    beside,
    nothing_hidden,
    same,
    sizes_for,
    with_equal_axes,
)
from forms_can_say import forms, written_by
from raw_masks import (
    DTYPES,
    READINGS,
    SHAPES,
    close,
    encoded,
    fits,
    in_shape,
    random_mask,
    scores_of,
    small_sizes,
    weights_for,
)
from torch import Tensor

from softlookup.conventions.converting import write_mask
from softlookup.conventions.discover import Convention
from softlookup.conventions.spelling import Arguments, Sizes, Spelling, Takes
from softlookup.masks import Mask
from softlookup.masks.expression import read_mask_expression

_CORNERS = ((2, 4), (4, 2))
_WINDOW = 9  # tokens


def can_be_asked(convention: Convention) -> bool:
    """Say whether all is installed that a convention's call, or its writing, needs."""
    return all(find_spec(package) is not None for package in convention.needs)


def facts(convention: Convention) -> dict[str, Any]:
    """Return what is measured of one convention, or read where there is nothing to call; as JSON has it.

    Raises: ContradictionError when the library does not do what the file declares.
    """
    found: dict[str, Any] = {"measured_with": versions(convention) if convention.run else None}
    found |= {"entries": entries(convention), "shapes": shapes(convention)}
    found |= {"corner": corner(convention), "window": window(convention)}
    return found | {"empty_rows": empty_rows(convention), "forms": forms(convention)}


def versions(convention: Convention) -> dict[str, str]:
    """Return the version of every library that is called."""
    called = convention.needs or ("torch",)
    return {package: version(package).partition("+")[0] for package in called}


# What an entry says


def entries(convention: Convention) -> dict[str, dict[str, str]]:
    """Return for every argument and dtype what a 1 at one key does, where all other entries are 0.

    "allowed": only that key is seen. "blocked": it alone is not. "additive": its score is larger by 1.
    """
    declared = {(it.argument, it.dtype): it for it in convention.takes}
    found: dict[str, dict[str, str]] = {}
    for take in convention.takes:
        if take.argument in found:
            continue
        found[take.argument] = {}
        for dtype in DTYPES:
            said = declared.get((take.argument, dtype))
            if convention.run is None or not (said or take.shapes):
                says = said.meaning if said else None
            else:
                says = _entry(convention, said or take, DTYPES[dtype])
                if said and says != said.meaning:
                    raise ContradictionError(f"{convention.name}: {said} was measured as {says!r}")
            if says:
                found[take.argument][dtype] = says
    return found


def _entry(convention: Convention, take: Takes, dtype: torch.dtype) -> str:
    sizes, key = sizes_for(convention), 2
    if take.shapes:
        shape = take.shapes[-1]
        marked = torch.zeros(small_sizes(shape, sizes), dtype=dtype)
        marked[..., key] = 1
        argument = as_they_take_it(convention, take, in_shape(marked, shape, sizes))
        arguments = beside(convention, sizes) | {take.argument: argument}
    else:  # no tensor says it: theirs is written from a mask that shows one key
        only = torch.arange(sizes.of("k_len", "a mask")) == key
        arguments = write_mask(Mask.from_tensor(only[None]), convention.name, sizes).arguments
    answer = ask(convention, arguments, sizes)
    if answer.weights is None:
        return answer.refused
    scores = scores_of(sizes)
    mark = torch.zeros_like(scores)
    mark[..., key] = 1
    outcomes = {
        "allowed": scores.masked_fill(mark == 0, -torch.inf),
        "blocked": scores.masked_fill(mark == 1, -torch.inf),
        "additive": scores + mark,
        "ignored": scores,
    }
    return next((it for it, wanted in outcomes.items() if same(answer, wanted.softmax(-1))), "something else")


# Which shapes are taken, and for what


def shapes(convention: Convention) -> dict[str, dict[str, str]]:
    """Return what happens to a mask of each shape: "taken", refused, or taken for another shape.

    First all sizes differ, but for T_q == T_k where a layer knows no other; then two are equal, which may
    hide that one axis is taken for the other. That is only told where it changes the answer.
    """
    found: dict[str, dict[str, str]] = {}
    for take in convention.takes:
        name = f"{take.argument}: {take.dtype}"
        if convention.run is None or not take.shapes:
            found[name] = dict.fromkeys(take.shapes, "taken")
            continue
        first = sizes_for(convention)
        found[name] = {shape: _shape(convention, take, shape, first) for shape in SHAPES}
        for equal, sizes in with_equal_axes(convention):
            for shape in filter(lambda shape: _can_be_mistaken(shape, sizes), SHAPES):
                says = _shape(convention, take, shape, sizes)
                if says.startswith("taken for") and says != found[name][shape]:
                    found[name][f"{shape} where {equal}"] = says
        _check_shapes(convention, take, found[name])
    return found


def _can_be_mistaken(shape: str, sizes: Sizes) -> bool:
    tensor = in_shape(random_mask(shape, sizes), shape, sizes)
    return any(fits(tensor, other, sizes) for other in READINGS if other != shape)


def _shape(convention: Convention, take: Takes, shape: str, sizes: Sizes) -> str:
    allowed = random_mask(shape, sizes)
    tensor = in_shape(allowed, shape, sizes)
    argument = as_they_take_it(convention, take, encoded(tensor, take))
    answer = ask(convention, beside(convention, sizes) | {take.argument: argument}, sizes)
    if answer.weights is None:
        return answer.refused
    if same(answer, weights_for(tensor, shape, sizes)):
        return "taken"
    for other in READINGS:
        if fits(tensor, other, sizes) and same(answer, weights_for(tensor, other, sizes)):
            return f"taken for {other}"
    if same(answer, weights_for(~tensor, shape, sizes)):
        return "turned round"  # what is hidden is seen, and the other way round
    return "ignored" if same(answer, scores_of(sizes).softmax(-1)) else "taken for something else"


def _check_shapes(convention: Convention, take: Takes, found: dict[str, str]) -> None:
    for shape in take.shapes:
        if shape == "T_k" and found[shape].startswith("refused"):
            continue  # it is for a call without an axis for samples
        if found.get(shape, "taken") != "taken":
            raise ContradictionError(f"{convention.name}: {take} takes {shape}, measured: {found[shape]}")


# Corner, window, rows without keys


def corner(convention: Convention) -> dict[str, str] | None:
    """Return where the causal flag begins for T_q x T_k that differ: "top-left", "bottom-right", refused."""
    if convention.causal is None:
        return None
    found = {}
    for q_len, k_len in _CORNERS:
        sizes = Sizes(q_len, k_len, 2, 3)
        seen = _seen(convention, convention.causal, sizes)
        found[f"{q_len} x {k_len}"] = seen if isinstance(seen, str) else _corner(seen)
    return found


def _corner(seen: Tensor) -> str:
    q_len, k_len = seen.shape[-2:]
    for name, diagonal in (("top-left", 0), ("bottom-right", k_len - q_len)):
        wanted = torch.ones(q_len, k_len).tril(diagonal).bool()
        some = wanted.any(-1)
        if bool((seen[..., some, :] == wanted[some]).all()):
            return name
    return "neither corner"


def window(convention: Convention) -> dict[str, Any] | None:
    """Return which keys the middle one of nine queries sees, from its own position, and what 3 counts."""
    if convention.window is None:
        return None
    arguments, counts = convention.window
    seen = _seen(convention, arguments, Sizes(_WINDOW, _WINDOW, 2, 3))
    if isinstance(seen, str):
        return {"counts": counts, "keys": seen}
    middle = _WINDOW // 2
    return {"counts": counts, "keys": (seen[0, 0, middle].nonzero()[:, 0] - middle).tolist()}


def _seen(convention: Convention, arguments: Arguments, sizes: Sizes) -> Tensor | str:
    """Return bool [B, H, T_q, T_k]: measured, and as we read the arguments; the kind of error when refused.

    Raises: ContradictionError when rows that see something differ between the two.
    """
    q_len, k_len = sizes.of("q_len", "a mask"), sizes.of("k_len", "a mask")
    if convention.takes[0].meaning == "bounds":  # a call of packed rows: where they begin goes with all else
        arguments = {**nothing_hidden(convention, sizes), **arguments}
    read = convention.read(arguments, sizes).mask.dense(q_len, k_len).expand(2, 3, q_len, k_len)
    if convention.run is None:
        return read
    answer = ask(convention, arguments, sizes)
    if answer.weights is None:
        return answer.refused
    some = read.any(-1)
    seen = answer.weights > 0
    if not torch.equal(seen[some], read[some]):
        raise ContradictionError(
            f"{convention.name}: {arguments} shows {seen[0, 0]}, and is read as {read[0, 0]}"
        )
    return seen & some[..., None]


def empty_rows(convention: Convention) -> dict[str, str] | None:
    """Return for every form what a query gets that may look nowhere; None where nothing is called."""
    if convention.run is None:
        return None
    return {form: _empty_row(convention, form) for form in convention.forms}


def _empty_row(convention: Convention, form: str) -> str:
    """Ask with one blind query, a sample without keys, and a causal corner below the first queries."""
    first = sizes_for(convention)
    q_len, k_len = first.of("q_len", "a mask"), first.of("k_len", "a mask")
    one_query = torch.ones(1, 1, q_len, k_len, dtype=torch.bool)
    one_query[..., 1, :] = False
    asked: list[tuple[Mask, Sizes]] = [
        (Mask.from_tensor(one_query), first),
        (Mask.from_tensor(torch.tensor([True, False]).view(2, 1, 1, 1).expand(2, 1, 1, k_len)), first),
        (read_mask_expression(f"padding([{k_len}, 0])"), first),
        (read_mask_expression('causal("bottom-right")'), Sizes(4, 2, 2, 3)),
    ]
    for mask, sizes in asked:
        written = written_by(convention, form, mask, sizes)
        if written is not None and not written.lost:
            return _blind(convention, written, mask, sizes)
    return "cannot say it"


def _blind(convention: Convention, written: Spelling, mask: Mask, sizes: Sizes) -> str:
    answer = ask(convention, written.arguments, sizes)
    if answer.weights is None:
        return answer.refused
    q_len, k_len = sizes.of("q_len", "a mask"), sizes.of("k_len", "a mask")
    blind = ~mask.dense(q_len, k_len).expand(answer.weights.shape).any(-1)
    rows = answer.weights[blind]
    if bool(rows.isnan().any()):
        return "NaN"
    outcomes = {
        "zeros": torch.zeros_like(rows),
        "the average of all": torch.full_like(rows, 1 / k_len),
    }
    if found := next((it for it, wanted in outcomes.items() if close(rows, wanted)), ""):
        return found
    as_unmasked = close(rows, scores_of(sizes).softmax(-1)[blind], atol=0.01)  # rounded beside a large number
    return "as without a mask" if as_unmasked else "something else"
