"""What a model returned: the tensor that is measured, rows of some positions, one sample of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, cast

import torch
from torch import Tensor

from softlookup.experiments.one_input import Input
from softlookup.terms import SoftlookupError

#: A position, counted from the end if negative; "last" is the last token that is no padding.
Position = int | Literal["last", "all"]


def main_tensor(output: Any) -> Tensor:
    """Return the logits, or the first tensor that the output holds."""
    for name in ("logits", "last_hidden_state"):
        if isinstance(getattr(output, name, None), Tensor):
            return cast("Tensor", getattr(output, name))
    if isinstance(output, Tensor):
        return output
    parts = output.values() if isinstance(output, Mapping) else output
    for part in parts if not isinstance(parts, (str, bytes)) and hasattr(parts, "__iter__") else ():
        if isinstance(part, Tensor) and part.is_floating_point():
            return part
    raise SoftlookupError(
        "experiments: the output of the model holds no tensor that could be measured.",
        expected="a tensor, or a tuple, mapping or output of transformers with one",
        got=type(output).__name__,
        hint="give a metric of your own: a function (output, input) -> number",
    )


def logits_of(output: Any, name: str) -> Tensor:
    """Return the logits. name: of the metric that needs them

    Raises: SoftlookupError for an output that says that it holds none.
    """
    if getattr(output, "logits", None) is None and hasattr(output, "last_hidden_state"):
        raise SoftlookupError(
            f"experiments: the metric {name!r} needs logits, and this model returns none.",
            expected="an output with logits",
            got=type(output).__name__,
            hint='metric="change" measures how far the output moved',
        )
    return main_tensor(output)


def prediction_rows(output: Any, given: Input, position: Position, name: str) -> Tensor:
    """Return logits [positions, V] in float64."""
    return rows_at(logits_of(output, name), given, position)


def rows_at(rows: Tensor, given: Input, position: Position) -> Tensor:
    """Return [positions, width], float64: of [1, T, width], or of [1, width], which has one position.

    Raises: SoftlookupError for other shapes, or a position that does not exist.
    """
    if rows.dim() not in (2, 3) or rows.shape[0] != 1:
        raise SoftlookupError(
            "experiments: the output cannot be measured position by position.",
            expected="[1, T, width] or [1, width], of one sample",
            got=f"shape {list(rows.shape)}",
            hint="give each sample as an input of its own, or a metric of your own",
        )
    rows = rows[0].double()
    if rows.dim() == 1:
        return rows[None]
    if position == "all":
        return rows
    index = given.last if position == "last" else int(position)
    if not -len(rows) <= index < len(rows):
        raise SoftlookupError(
            "experiments: the position to measure at does not exist.",
            expected=f"-{len(rows)}..{len(rows) - 1} for input {given.number}",
            got=f"{index}",
        )
    return rows[index][None]


def next_tokens(given: Input, logits: Tensor) -> Tensor:
    """Return labels [1, T]: the token that follows, -100 at the end and where padding follows."""
    ids = given.ids
    if ids is None or ids.shape != logits.shape[:-1]:
        raise SoftlookupError(
            "experiments: the metric 'loss' knows no tokens to predict.",
            expected="token ids of the shape of the logits without their last axis",
            got="none" if ids is None else f"ids {list(ids.shape)} for logits {list(logits.shape)}",
            hint="loss(labels=...), or labels among the arguments of the model",
        )
    mask = given.kwargs.get("attention_mask")
    own = ids if mask is None else ids.masked_fill(mask == 0, -100)
    return torch.cat([own[:, 1:], own.new_full((1, 1), -100)], dim=1)


def bytes_of(output: Any) -> int:
    """Return how many bytes the tensors in an output hold."""
    if isinstance(output, Tensor):
        return output.numel() * output.element_size()
    if is_dataclass(output) and not isinstance(output, type) and not isinstance(output, Mapping):
        return sum(bytes_of(getattr(output, it.name)) for it in fields(output))
    parts = output.values() if isinstance(output, Mapping) else output
    return sum(map(bytes_of, parts)) if isinstance(parts, (tuple, list)) or parts is not output else 0


def sample_of(output: Any, row: int, rows: int) -> Any:
    """Return what a model returned for one sample of a batch: tensors whose first axis counts samples, cut.

    output: a tensor, or tuples, lists, mappings and dataclasses of them;  rows: how many samples there were
    """
    if isinstance(output, Tensor):
        return output[row : row + 1] if output.dim() and output.shape[0] == rows else output
    if isinstance(output, Mapping):
        parts = {name: sample_of(value, row, rows) for name, value in output.items()}
        return type(output)(**parts) if is_dataclass(output) else parts
    if is_dataclass(output) and not isinstance(output, type):
        values = {it.name: getattr(output, it.name) for it in fields(output)}
        return replace(output, **{name: sample_of(it, row, rows) for name, it in values.items()})
    if isinstance(output, (tuple, list)):
        cut = [sample_of(it, row, rows) for it in output]
        return type(output)(*cut) if hasattr(output, "_fields") else type(output)(cut)
    return output
