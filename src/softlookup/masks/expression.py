"""A mask in words, ``causal & padding([5, 3])``: what Python would make of it, read and never run.

    mask      name | name(argument, ...) | ~mask | mask & mask | mask | mask | (mask)
    argument  whole number | "words in quotes" | [argument, ...] | name=argument

The names are the builders of ``softlookup.masks``, found by what they return, so a new builder can be written
here at once. ``&`` binds tighter than ``|``, and ``~`` tightest, as in Python. Everything else is refused, at
its place.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, get_args, get_origin

import torch

from softlookup.masks import builders
from softlookup.masks.algebra import Mask
from softlookup.masks.bias import Bias
from softlookup.masks.discover import rule_file, rule_names
from softlookup.masks.rule import visibility
from softlookup.masks.written_text import EXAMPLE, WrittenText
from softlookup.terms import SoftlookupError, did_you_mean

Builder: TypeAlias = Callable[..., Mask | Bias]

_LARGEST = 2**31 - 1  # no position lies beyond
_MOST_HEADS = 2**16  # a builder makes one number for each


def read_mask_expression(text: str) -> Mask | Bias:
    """Return the mask (or the bias) that a text builds.

    A name without brackets is called without arguments; ids [B, T_k] are lists in a list; where a builder
    takes one number for each sample, several numbers do without the list.

    Raises: SoftlookupError that shows the place of what cannot be read, is unknown, or is refused by a
    builder; also for a text that is too long or too deeply nested.

    >>> read_mask_expression("causal & padding([5, 3])")
    causal() & padding([5, 3])
    >>> read_mask_expression('~sliding_window(4, "each side") | documents([[0, 0, 1]])')
    ~sliding_window(4, 'each side') | documents([1, 3])
    >>> read_mask_expression("alibi(8) & causal & paddin(3)")
    Traceback (most recent call last):
        ...
    softlookup.terms.SoftlookupError: masks: no mask is called 'paddin'.
      alibi(8) & causal & paddin(3)
                          ^^^^^^
      expected: causal, padding, padding_of, ...
      try:      did you mean padding or padding_of?
    """
    written = WrittenText(text)
    return _Reader(written).mask(written.tree())


class _Reader:
    """One text on the way to its mask."""

    def __init__(self, written: WrittenText) -> None:
        self.written = written

    # Masks

    def mask(self, node: ast.expr) -> Mask | Bias:
        match node:
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
                return self.combined(node, self.mask(left), self.mask(right))
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                part = self.mask(operand)
                if isinstance(part, Mask):
                    return ~part
                raise self.no_mask(operand)
            case ast.Name(id=name):
                return self.built(node, name, ast.Call(node, [], []))
            case ast.Call(func=ast.Name(id=name)):
                return self.built(node, name, node)
        expected = 'names with & | ~ between them, numbers and "words" in brackets'
        raise self.written.refused(node, expected=expected, hint=_hint(node))

    def combined(self, node: ast.BinOp, left: Mask | Bias, right: Mask | Bias) -> Mask | Bias:
        both = isinstance(node.op, ast.BitAnd)
        try:
            if isinstance(left, Mask) and isinstance(right, Mask):
                return left & right if both else left | right
            if both and isinstance(left, Mask):
                return right & left
            if both and isinstance(right, Mask):
                return left & right
        except SoftlookupError as error:
            raise self.written.at(node, error) from None
        raise self.no_mask(node.right if isinstance(left, Mask) else node.left)

    def built(self, node: ast.expr, name: str, call: ast.Call) -> Mask | Bias:
        known = _builders()
        if name not in known:
            doing, near = f"masks: no mask is called {name!r}.", did_you_mean(name, known)
            raise self.written.refused(call.func, doing, expected=", ".join(known), hint=near)
        signature = _signatures()[name]
        try:
            bound = signature.bind(*self.positional(call, signature), **self.named(call, signature))
        except TypeError as error:
            raise self.other_arguments(node, name, error) from None
        given = zip(signature.parameters, bound.args, strict=False)  # what has a default may be left out
        arguments = [self.argument(*it) for it in given]
        further = {word: self.argument(word, value) for word, value in bound.kwargs.items()}
        try:
            return known[name](*arguments, **further)
        except SoftlookupError as error:
            raise self.written.at(node, error) from None
        except TypeError as error:  # visibility takes any name, also one that no parameter can have
            raise self.other_arguments(node, name, error) from None

    # Arguments

    def positional(self, call: ast.Call, signature: inspect.Signature) -> Iterator[ast.expr]:
        """Yield the arguments without a name; several numbers are the list that a first parameter takes."""
        first = next(iter(signature.parameters.values()))
        numbers = [it for it in call.args if isinstance(it, ast.Constant) and isinstance(it.value, int)]
        several = len(numbers) > 1 and numbers == call.args[: len(numbers)] and _takes_several(first)
        if several:
            where = {name: getattr(numbers[0], name) for name in ("lineno", "col_offset")}
            yield ast.List([*numbers], ast.Load(), **where, end_col_offset=numbers[-1].end_col_offset)
        yield from call.args[len(numbers) if several else 0 :]

    def named(self, call: ast.Call, signature: inspect.Signature) -> dict[str, ast.expr]:
        named: dict[str, ast.expr] = {}
        known = [it.name for it in signature.parameters.values() if it.kind is it.POSITIONAL_OR_KEYWORD]
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg in named:
                raise self.written.refused(keyword.value, expected="name=argument, each name once")
            if known and keyword.arg not in known:
                doing = f"masks: no argument is called {keyword.arg!r} here."
                near = did_you_mean(keyword.arg, known)
                raise self.written.refused(keyword, doing, expected=", ".join(known), hint=near)
            named[keyword.arg] = keyword.value
        return named

    def argument(self, name: str, node: ast.expr) -> Any:
        value = self.value(node)
        if name == "num_heads" and isinstance(value, int) and value > _MOST_HEADS:
            raise self.written.refused(node, expected=f"at most {_MOST_HEADS:,} heads")
        if name not in _names_of_ids():
            return value
        rows = value if isinstance(value, list) else [value]
        whole = all(isinstance(row, list) and all(isinstance(it, int) for it in row) for row in rows)
        if not whole or len({len(row) for row in rows}) != 1:
            raise self.written.refused(
                node,
                f"masks: `{name}` cannot be used.",
                expected="[B, T_k], for each sample a list of whole numbers, all equally long",
                hint="[[0, 0, 1]] is one sample of three tokens",
            )
        return torch.tensor(rows, dtype=torch.int64)

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool) and number <= _LARGEST:
                return number
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int()) as number):
                return -self.value(number)
            case ast.Constant(value=str(words)):
                return words
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [self.value(part) for part in parts]
        bare = re.fullmatch(r"[A-Za-z][A-Za-z -]*", written := self.written.of(node))
        raise self.written.refused(
            node,
            "masks: this argument cannot be read.",
            expected=f'a whole number up to {_LARGEST:,}, "words" in quotes, or a list of these',
            hint=f'in quotes: "{written}"' if bare else "",
        )

    # Refusals

    def no_mask(self, node: ast.expr) -> SoftlookupError:
        doing = "masks: a bias hides nothing, so it takes masks with & and does nothing else."
        return self.written.refused(node, doing, expected="a mask", hint="alibi(8) & causal")

    def other_arguments(self, node: ast.expr, name: str, error: TypeError) -> SoftlookupError:
        parameters = _signatures()[name].parameters.values()
        doing = f"masks: {name} is called with other arguments."
        expected = f"{name}({', '.join(map(_spelled, parameters))})"
        return self.written.refused(node, doing, expected=expected, got=str(error))


@lru_cache
def _builders() -> dict[str, Builder]:
    """Return every function that builds a mask or a bias, by name."""
    found = {
        name: it
        for name, it in vars(builders).items()
        if inspect.isfunction(it) and it.__annotations__.get("return") in ("Mask", "Bias")
    }
    return {**found, "visibility": visibility}


@lru_cache
def _signatures() -> dict[str, inspect.Signature]:
    return {name: inspect.signature(builder, eval_str=True) for name, builder in _builders().items()}


@lru_cache
def _names_of_ids() -> frozenset[str]:
    """Return the names of the parameters that are tensors [B, T_k]."""
    return frozenset(name for rule in rule_names() for name in rule_file(rule).per_token)


def _takes_several(parameter: inspect.Parameter) -> bool:
    """Say whether a parameter takes a list of numbers, such as one for each sample."""
    return any(get_origin(part) is Sequence for part in get_args(parameter.annotation))


def _spelled(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return "parameter=..., ..."
    return parameter.name + ("" if parameter.default is parameter.empty else f"={parameter.default!r}")


def _hint(node: ast.expr) -> str:
    """Say what is written instead of something that people write."""
    match node:
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return "& | ~ instead of and, or, not"
        case ast.Attribute() | ast.Call(func=ast.Attribute()):
            return "the name of the mask alone, without its module"
    return EXAMPLE
