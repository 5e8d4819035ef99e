"""A call of attention, answered with some of its rows done otherwise; all others stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from softlookup.experiments.answered_problem import answered
from softlookup.experiments.intervention import At
from softlookup.experiments.stepping import (
    WEIGHT_STEPS,
    Changed,
    Placed,
    Rows,
    mixed_otherwise,
    part_of,
    run_steps,
)
from softlookup.live.around import Around
from softlookup.live.door_files import Door
from softlookup.live.followed_weights import Journey, Met, as_plain
from softlookup.live.products import Products, Written
from softlookup.terms import SoftlookupError

Given: TypeAlias = Products | Written
#: Lets weights be followed to the values.
Follow: TypeAlias = Callable[[Tensor], tuple[Tensor, Journey]]


def given_to(
    door: Door, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around
) -> Given | None:
    """Return what a call was given; None where it is no attention.

    Raises: SoftlookupError for a call whose rows cannot be done otherwise.
    """
    if any(torch._C._functorch.is_functorch_wrapped_tensor(it) for it in args if isinstance(it, Tensor)):
        raise _no_rows(around, "inside vmap or another transform of torch.func", "call the model itself")
    if door.name == "flex" and around.value("s_aux") is not None:
        raise _no_rows(
            around, "flex_attention with sinks, which come in after it", 'attn_implementation="eager"'
        )
    if door.products is not None:
        return door.products(args, kwargs, around)
    if door.written is not None:
        return door.written(args, kwargs, as_plain(output), around)
    raise _no_rows(
        around, "a fast path from tokens to tokens", "torch.backends.mha.set_fastpath_enabled(False)"
    )


def answer(
    door: Door, output: Any, given: Given, placed: Sequence[Placed], follow: Follow
) -> tuple[Any, Door]:
    """Return what the caller gets, and the door by which others see it.

    Raises: SoftlookupError as ``run_steps`` does, and for dropout inside the call.
    """
    with torch.autocast(given.device.type, enabled=False):
        if isinstance(given, Products):
            return _answer_products(door, output, given, placed)
        return _answer_written(door, output, given, placed, follow)


def _answer_products(door: Door, output: Any, given: Products, placed: Sequence[Placed]) -> tuple[Any, Door]:
    result = output[0] if isinstance(output, tuple) else output
    batch, heads, _, q_len, _ = given.sizes
    outputs = result.reshape(batch, heads, q_len, -1)
    of_weights = [it for it in placed if it.has(*WEIGHT_STEPS)]
    if of_weights:
        if given.dropout_p:
            raise SoftlookupError(
                f"{of_weights[0].at.words}: {of_weights[0].at.call.layer} drops weights at random inside one"
                " call, where nothing can be put in their place.",
                expected="dropout 0",
                got=f"dropout {given.dropout_p}",
                hint="model.eval()",
            )
        part = part_of(of_weights)
        changed = run_steps(part, Rows(*given.scores(part)), of_weights)
        if bool(changed.touched.any()):
            mixed = given.mixed(changed.weights, part)
            outputs = outputs.index_put(changed.index(), mixed[changed.touched].to(outputs.dtype))
            output, door = _with_lse(output, changed), answered(door, changed)
    for it in placed:
        if it.has("mix"):
            outputs = outputs.index_put(it.at.index(), mixed_otherwise(it, outputs[it.at.index()]))
    result = outputs.reshape(result.shape)
    return ((result, *output[1:]) if isinstance(output, tuple) else result), door


def _with_lse(output: Any, changed: Changed) -> Any:
    """Give the log-sum-exp that is returned beside the output its new rows, where weights are a softmax."""
    if not isinstance(output, tuple) or len(output) < 2:
        return output
    aux = output[1]
    lse = getattr(aux, "lse", aux)
    if not isinstance(lse, Tensor):
        return output
    rows = changed.scores.masked_fill(~changed.allowed, -torch.inf).logsumexp(dim=-1)
    heads = lse.shape[-2] if lse.dim() > 1 else 1
    new = lse.reshape(-1, heads, lse.shape[-1]).index_put(
        changed.index(), rows[changed.touched].to(lse.dtype)
    )
    new = new.reshape(lse.shape)
    return (output[0], new if aux is lse else aux._replace(lse=new), *output[2:])


def _answer_written(
    door: Door, output: Tensor, given: Written, placed: Sequence[Placed], follow: Follow
) -> tuple[Any, Door]:
    of_weights = [it for it in placed if it.has(*WEIGHT_STEPS)]
    mixing = [it for it in placed if it.has("mix")]
    if of_weights:
        changed = _changed_rows(given, of_weights)
        if bool(changed.touched.any()):
            rows = changed.weights[changed.touched]  # [m, T_k]
            if given.sinks is not None:
                rows = torch.cat([rows, 1 - rows.sum(dim=-1, keepdim=True)], dim=-1)
            batch, heads, _, q_len, _ = given.sizes
            whole = given.weights.reshape(batch, heads, q_len, -1)
            whole = whole.index_put(changed.index(), rows.to(whole.dtype))
            output, door = whole.reshape(given.weights.shape), answered(door, changed)
    if mixing:
        output, journey = follow(output)
        sizes = given.sizes
        journey.at_values.append(lambda met: _mixed_rows(mixing, met, sizes))
        journey.at_end.append(lambda met: _refuse_rows_that_never_met(mixing, met, sizes))
    return output, door


def _changed_rows(given: Written, placed: Sequence[Placed]) -> Changed:
    part = part_of(placed)
    scores, allowed = given.rows(part)
    sinks = given.sinks
    if sinks is not None:
        sinks = sinks[part.rows()].to(scores.dtype)
    changed = run_steps(part, Rows(scores, allowed, sinks), placed)
    if bool((changed.allowed & ~allowed).any()):
        at = placed[0].at
        raise SoftlookupError(
            f"{at.words}: {at.call.layer} hid keys that are to be shown, and their scores are gone.",
            expected="a model that hands queries, keys and a mask to one function",
            got="a softmax that is written by hand",
            hint='attn_implementation="sdpa"',
        )
    return changed


def _mixed_rows(placed: Sequence[Placed], met: Met, sizes: tuple[int, int, int, int, int]) -> Tensor:
    """Return the outputs [m, d_v] of rows that met values, some of them mixed otherwise."""
    outputs = met.outputs
    for it in placed:
        chosen = _rows_of(it.at, met.rows, sizes)
        if not len(chosen):
            continue
        if met.again and not getattr(it.intervention, "any_part", False):
            raise SoftlookupError(
                f"{it.at.words}: weights of {it.at.call.layer} are multiplied with values more than once, and"
                " what a head finds is no tensor of its own.",
                expected="one product of weights and values",
                got="several, as with values of positions that are added",
                hint='how="zero", or a step before: remove_source, uniform_map',
            )
        chosen = chosen[met.rows[chosen].argsort()]
        at = _grid(it.at, met.rows[chosen], sizes)
        block = outputs[chosen].reshape(*at.shape, -1)
        made = mixed_otherwise(Placed(it.intervention, at), block)
        outputs = outputs.index_put((chosen,), made.reshape(len(chosen), -1))
    return outputs


def _rows_of(at: At, rows: Tensor, sizes: tuple[int, int, int, int, int]) -> Tensor:
    """Return which of these rows of the map an intervention is about: int64 [m']."""
    sample, head, query = _places(rows, sizes)
    asked = torch.isin(sample, at.samples) & torch.isin(head, at.heads) & torch.isin(query, at.queries)
    return asked.nonzero().flatten()


def _places(rows: Tensor, sizes: tuple[int, int, int, int, int]) -> tuple[Tensor, Tensor, Tensor]:
    _, heads, _, q_len, _ = sizes
    return rows // (heads * q_len), rows // q_len % heads, rows % q_len


def _grid(at: At, rows: Tensor, sizes: tuple[int, int, int, int, int]) -> At:
    """Return where these rows are, as samples, heads and queries, all with all."""
    samples, heads, queries = (it.unique() for it in _places(rows, sizes))  # type: ignore[no-untyped-call]
    if len(samples) * len(heads) * len(queries) != len(rows):
        raise SoftlookupError(
            f"{at.words}: {at.call.layer} multiplies its weights with values in parts.",
            expected="the same queries of all heads at a time",
            got=f"{len(rows)} rows of {len(samples)} samples, {len(heads)} heads and {len(queries)} queries",
        )
    return replace(at, samples=samples, heads=heads, queries=queries)


def _refuse_rows_that_never_met(
    placed: Sequence[Placed], met: Tensor, sizes: tuple[int, int, int, int, int]
) -> None:
    missing = (~met).nonzero().flatten()
    for it in placed:
        if len(_rows_of(it.at, missing, sizes)):
            raise SoftlookupError(
                f"{it.at.words}: weights of {it.at.call.layer} were never seen to meet values, so that what"
                " the heads find could not be replaced.",
                expected="matmul, @, bmm, baddbmm or einsum of weights and values",
                got="something else",
                hint="a step before: remove_source, uniform_map",
            )


def _no_rows(around: Around, got: str, hint: str) -> SoftlookupError:
    return SoftlookupError(
        f"intervene: {around.path or 'the model'} makes a call in which no row can be done otherwise.",
        expected="a call of attention with its queries, keys and values",
        got=got,
        hint=hint,
    )
