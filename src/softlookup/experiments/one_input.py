"""What a model is given in one run: the arguments of one forward, of one sample."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.terms import SoftlookupError

_IDS = ("input_ids", "decoder_input_ids", "ids", "tokens", "token_ids")


@dataclass(frozen=True, eq=False)
class Input:
    """The arguments of one forward. number: among all inputs;  given: what the user handed over"""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0
    given: Any = None

    def run(self, model: nn.Module) -> Any:
        """Call the model."""
        fresh = self.fresh()
        return model(*fresh.args, **fresh.kwargs)

    def fresh(self) -> Input:
        """Return the same with caches copied: a forward adds to them."""
        kwargs = {name: _copied(it) for name, it in self.kwargs.items()}
        return replace(self, args=tuple(map(_copied, self.args)), kwargs=kwargs)

    @property
    def ids(self) -> Tensor | None:
        """Token ids [B, T], where the model is given any."""
        named = [self.kwargs[it] for it in _IDS if it in self.kwargs]
        return next((it for it in [*named, *self.args] if _is_ids(it)), None)

    @property
    def last(self) -> int:
        """The position of the last token that is no padding; -1 where nothing is said of padding."""
        mask = self.kwargs.get("attention_mask")
        if not isinstance(mask, Tensor) or mask.dim() != 2 or not bool(mask.any()):
            return -1
        return int(mask[0].nonzero()[-1])

    def repeated(self, times: int) -> Input:
        """Return a batch of the same sample: every tensor whose first axis counts one sample is repeated."""

        def more(value: Any) -> Any:
            if isinstance(value, Tensor) and value.dim() and value.shape[0] == 1:
                return value.repeat(times, *[1] * (value.dim() - 1))
            return value

        kwargs = {name: more(value) for name, value in self.kwargs.items()}
        return replace(self, args=tuple(map(more, self.args)), kwargs=kwargs)


def _copied(value: Any) -> Any:
    return copy.deepcopy(value) if hasattr(value, "get_seq_length") else value


def _is_ids(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 2 and value.dtype in (torch.int64, torch.int32)


def _is_list_of_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(it, int) for it in value)


def read_inputs(inputs: Any) -> list[Input]:
    """Return what each run is given.

    inputs: a list, one element an input: a tensor, a tuple of arguments, a mapping of named arguments, or a
        list of token ids. A tensor of ids [N, T], or a mapping as tokenizers return it, is N inputs.

    Raises: SoftlookupError where there is no input, or an element is none of these.

    >>> [it.args[0].shape for it in read_inputs(torch.zeros(2, 5, dtype=torch.long))]
    [torch.Size([1, 5]), torch.Size([1, 5])]
    """
    if isinstance(inputs, Mapping):
        elements: Sequence[Any] = _rows_of_mapping(inputs)
    elif isinstance(inputs, Tensor):
        elements = [row[None] for row in inputs] if _is_ids(inputs) else [inputs]
    elif isinstance(inputs, tuple) or _is_list_of_ids(inputs):
        elements = [inputs]
    else:
        elements = inputs if isinstance(inputs, Sequence) and not isinstance(inputs, str) else []
    if not elements:
        raise SoftlookupError(
            "experiments: there is nothing to give to the model.",
            expected="a list of inputs: tensors of ids [1, T], tuples or mappings of arguments",
            got="no input" if isinstance(inputs, (list, tuple, Mapping)) else type(inputs).__name__,
            hint="tokenizer(text, return_tensors='pt') makes an input of a text",
        )
    return [_read(it, number) for number, it in enumerate(elements)]


def _read(element: Any, number: int) -> Input:
    if isinstance(element, Input):
        return replace(element, number=number)
    if isinstance(element, Mapping):
        return Input((), dict(element), number, element)
    if _is_list_of_ids(element):
        return Input((torch.tensor([element]),), {}, number, element)
    if isinstance(element, tuple):
        return Input(element, {}, number, element)
    if isinstance(element, Tensor):
        ids = element[None] if element.dim() == 1 and not element.is_floating_point() else element
        return Input((ids,), {}, number, element)
    raise SoftlookupError(
        f"experiments: input {number} cannot be given to a model.",
        expected="a tensor, a tuple or mapping of arguments, or a list of token ids",
        got=type(element).__name__,
        hint="tokenizer(text, return_tensors='pt') makes an input of a text"
        if isinstance(element, str)
        else "",
    )


def changed_input(given: Input, change: Callable[[Any], Any]) -> Input:
    """Return an input after a function changed what the user handed over."""
    return replace(_read(change(given.given), given.number), number=given.number)


def _rows_of_mapping(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Take samples that were put into one batch apart; their padding stays, and its mask."""
    sizes = {it.shape[0] for it in given.values() if isinstance(it, Tensor) and it.dim()}
    if len(sizes) != 1 or sizes == {1}:
        return [dict(given)] if given else []
    return [
        {name: it[row : row + 1] if isinstance(it, Tensor) and it.dim() else it for name, it in given.items()}
        for row in range(sizes.pop())
    ]
