"""Find the rules of this folder by file name, so that adding a mask is adding one file."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softlookup.masks.predicate import Index
from softlookup.terms import SoftlookupError


class RuleFile:
    """One rule file, with what it leaves out filled in: see ``predicate``."""

    def __init__(self, name: str) -> None:
        self.name = name
        module = import_module(f"softlookup.masks.{name}")
        self.is_bias = hasattr(module, "bias")
        self.answer: Callable[..., Index] = module.bias if self.is_bias else module.allowed
        self.page: str = inspect.getdoc(module) or ""
        self.per_sample: tuple[str, ...] = getattr(module, "PER_SAMPLE", ())
        self.per_token: tuple[str, ...] = getattr(module, "PER_TOKEN", ())
        self.per_head: tuple[str, ...] = getattr(module, "PER_HEAD", ())
        self.keys_only: bool = getattr(module, "KEYS_ONLY", False)
        self.parameters: Callable[..., dict[str, Any]] = getattr(module, "parameters", dict)
        self.fixed_k_len: Callable[..., int] | None = getattr(module, "fixed_k_len", None)
        self.check_lengths: Callable[..., None] | None = getattr(module, "check_lengths", None)
        self.always_sees: Callable[..., frozenset[str]] = getattr(
            module, "always_sees", lambda **_: frozenset()
        )
        self.span: Callable[..., tuple[Index, Index]] | None = getattr(module, "span", None)
        self.intervals: Callable[..., tuple[Tensor, Tensor] | None] | None = getattr(
            module, "intervals", None
        )

    def complete(self, given: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        """Return the parameters checked and complete, in the file's order.

        Raises: SoftlookupError for a parameter that is missing, unknown, or refused by the file.
        """
        takes = list(inspect.signature(self.parameters).parameters) if self.parameters is not dict else []
        needs = [name for name in takes if self._required(name)]
        if set(given) - set(takes) or set(needs) - set(given):
            raise SoftlookupError(
                f"masks: {self.name} is called with other parameters.",
                expected=", ".join(takes) or "no parameter",
                got=", ".join(given) or "no parameter",
            )
        return tuple(self.parameters(**given).items())

    def _required(self, name: str) -> bool:
        return inspect.signature(self.parameters).parameters[name].default is inspect.Parameter.empty

    def sizes(self, values: dict[str, Any]) -> dict[str, int | None]:
        """Return the sizes that the parameters fix: None where any size will do."""
        batch = [len(values[name]) for name in self.per_sample if isinstance(values[name], tuple)]
        batch += [values[name].shape[0] for name in self.per_token]
        heads = [len(values[name]) for name in self.per_head]
        k_len = self.fixed_k_len(**values) if self.fixed_k_len else None
        return {"B": _only(batch), "H": _only(heads), "T_q": None, "T_k": k_len}

    def on(self, values: dict[str, Any], i: Tensor, j: Tensor, q_len: int, k_len: int) -> Tensor:
        """Return the answer for ``i: [q, 1]``, ``j: [1, k]``, broadcastable to [B or 1, H or 1, q, k]."""
        ready = dict(values)
        for name in self.per_sample:
            if isinstance(values[name], tuple):  # [B] -> [B, 1, 1, 1]
                ready[name] = torch.tensor(values[name], device=i.device)[:, None, None, None]
        for name in self.per_head:  # [H] -> [1, H, 1, 1]
            ready[name] = torch.tensor(values[name], device=i.device)[None, :, None, None]
        for name in self.per_token:  # [B, T_k] -> [B, 1, T_k]
            ready[name] = values[name].to(i.device)[:, None]
        answer: Tensor = self.answer(i, j, q_len=q_len, k_len=k_len, **ready)
        return answer


def _only(sizes: list[int]) -> int | None:
    """A size of 1 broadcasts: it fixes nothing."""
    return next((size for size in sizes if size != 1), None)


@lru_cache
def rule_names(kind: str = "allowed") -> tuple[str, ...]:
    """Return the names of all rules: the files here that define ``allowed``, or ``bias`` for ``kind="bias"``.

    >>> "causal_top_left" in rule_names(), rule_names("bias")
    (True, ('linear_distance',))
    """
    return tuple(
        path.stem
        for path in sorted(Path(__file__).parent.glob("[a-z]*.py"))
        if any(
            isinstance(node, ast.FunctionDef) and node.name == kind
            for node in ast.parse(path.read_text("utf-8")).body
        )
    )


@lru_cache
def rule_file(name: str, kind: str = "allowed") -> RuleFile:
    """Return the rule with this name.

    Raises: SoftlookupError when there is none, with the nearest names.
    """
    names = rule_names(kind)
    if name not in names:
        near = get_close_matches(name, names, n=2)
        raise SoftlookupError(
            f"masks: no rule is called {name!r}.",
            expected=" or ".join(near) if near else "one of " + ", ".join(names),
            got=repr(name),
        )
    return RuleFile(name)
