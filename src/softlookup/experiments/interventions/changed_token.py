"""Inputs with one token changed: the plainest experiment, done before the model runs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from softlookup.terms import SoftlookupError

Inputs = TypeVar("Inputs")
_IDS = ("input_ids", "inputs_embeds", "ids", "tokens", "token_ids")


def change_token(
    inputs: Inputs, position: int, token: int | Tensor, *, sample: int = 0, argument: str | None = None
) -> Inputs:
    """Return new inputs in which one token is another one; those that were given stay as they are.

    inputs: ids [B, T] or [T], numbers [B, T, d_model], a tuple of arguments with such a tensor first, or a
        mapping of arguments, e.g. what a tokenizer returns
    position: of the token, counted from the last one if negative;  token: its new id, or numbers [d_model]
    argument: which argument of a mapping holds the tokens; None: ``input_ids`` or the like

    Raises: SoftlookupError when there is no such sample or position, the token stands there already, or is
    padding.

    >>> change_token(torch.tensor([[5, 6, 7]]), 1, 9)
    tensor([[5, 9, 7]])
    """
    if isinstance(inputs, Tensor):
        return _changed(inputs, position, token, sample)  # type: ignore[return-value]
    if isinstance(inputs, Mapping):
        name = argument or next((it for it in _IDS if isinstance(inputs.get(it), Tensor)), None)
        if name is None or not isinstance(inputs.get(name), Tensor):
            raise SoftlookupError(
                "change_token: which argument holds the tokens?",
                expected=f"a tensor under {argument!r}" if argument else f"one of {', '.join(_IDS)}",
                got=", ".join(map(str, inputs)) or "no arguments",
                hint='argument="..."',
            )
        new: Any = copy.copy(inputs)
        new[name] = _changed(inputs[name], position, token, sample)
        _refuse_padding(inputs, new[name], position, sample)
        return new  # type: ignore[no-any-return]
    if isinstance(inputs, (tuple, list)) and inputs and isinstance(inputs[0], Tensor):
        return type(inputs)((_changed(inputs[0], position, token, sample), *inputs[1:]))
    raise SoftlookupError(
        "change_token: these inputs cannot be read.",
        expected="a tensor of tokens, a tuple that begins with one, or a mapping of arguments",
        got=type(inputs).__name__,
    )


def _changed(tokens: Tensor, position: int, token: int | Tensor, sample: int) -> Tensor:
    ids = not tokens.is_floating_point()
    if tokens.dim() not in ((1, 2) if ids else (2, 3)):
        raise SoftlookupError(
            "change_token: these are no tokens.",
            expected="ids [B, T] or [T], or numbers [B, T, d_model]",
            got=f"{tokens.dtype} {list(tokens.shape)}",
        )
    new = tokens.detach().clone()
    batch = new if new.dim() == (2 if ids else 3) else new[None]
    sizes = {"B": batch.shape[0], "T": batch.shape[1]}
    for name, number, size in (("sample", sample, sizes["B"]), ("position", position, sizes["T"])):
        if isinstance(number, bool) or not isinstance(number, int) or not -size <= number < size:
            raise SoftlookupError(
                f"change_token: there is no {name} {number!r}.", expected=f"0 to {size - 1}", sizes=sizes
            )
    value = torch.as_tensor(token, device=new.device)
    wrong_kind = ids and (value.is_floating_point() or value.dtype == torch.bool or int(value.min()) < 0)
    if wrong_kind or value.shape != batch.shape[2:]:
        raise SoftlookupError(
            "change_token: the new token does not fit.",
            expected="an id of at least 0" if ids else f"numbers {list(batch.shape[2:])}",
            got=f"{token!r}",
        )
    if torch.equal(batch[sample, position], value.to(batch.dtype)):
        raise SoftlookupError(
            f"change_token: position {position} of sample {sample} holds this token already.",
            expected="another token",
            got=f"{token!r}",
        )
    batch[sample, position] = value.to(batch.dtype)
    return new


def _refuse_padding(inputs: Mapping[str, Any], tokens: Tensor, position: int, sample: int) -> None:
    mask = inputs.get("attention_mask")
    if isinstance(mask, Tensor) and mask.shape == tokens.shape[:2] and not bool(mask[sample, position]):
        raise SoftlookupError(
            f"change_token: position {position} of sample {sample} is padding.",
            expected="a position where attention_mask is 1",
            got="0",
        )
