"""Hears of every call of attention in the process, and measures those inside one model."""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.live.around import Around, layer_around
from softlookup.live.coverage import Coverage, attention_layers
from softlookup.live.door_files import Door, all_doors
from softlookup.live.heads_by_rank import share_of_heads
from softlookup.live.kept_answers import forget
from softlookup.live.limits import Limits
from softlookup.live.measuring_calls import Sampling, measure
from softlookup.live.naming_calls import call_of
from softlookup.live.problem import Problem, from_products
from softlookup.live.record import Record
from softlookup.live.rules_of_layers import DeclaredRules, RuleLike
from softlookup.live.steps import Steps
from softlookup.live.trace import Trace


@dataclass(frozen=True)
class Asked:
    """What is asked of a model: see ``watch``."""

    rule: RuleLike = None
    every: int = 1
    patterns: Sequence[str] | None = None
    sampling: Sampling = field(default_factory=Sampling)
    limits: Limits = field(default_factory=Limits)
    keep: int = 1000

    def wants_layer(self, path: str) -> bool:
        """Say whether a layer is measured."""
        return self.patterns is None or any(fnmatch.fnmatchcase(path, it) for it in self.patterns)


class Ear:
    """Hears of every call in the process, and measures those of one model."""

    def __init__(self, model: nn.Module, asked: Asked) -> None:
        self.model, self.asked = model, asked
        inner = getattr(model, "_orig_mod", model)  # what torch.compile wraps
        self.paths: dict[int, str] = {}
        self.modules: dict[int, nn.Module] = {}
        for path, module in inner.named_modules():
            self.paths[id(module)], self.modules[id(module)] = path, module
        self.coverage = Coverage([it for it in attention_layers(inner) if asked.wants_layer(it)])
        self.trace = Trace(self.coverage, asked.limits, keep=asked.keep)
        self.steps = Steps(model, self.trace, asked.every)
        self.steps.at_end.append(lambda step: forget())
        self.trace.on_step = self.steps.end
        self.on_record: list[Callable[[Record], None]] = []
        self._rules = DeclaredRules(asked.rule)
        self._lock = threading.Lock()

    def wants(self) -> bool:
        """See ``Listener``."""
        return self.steps.measured and torch._C._current_graph_task_id() == -1  # else a checkpoint, again

    def heard(self, door: Door, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
        """See ``Listener``."""
        around = layer_around(self.paths)
        if around is not None:
            self._look(door, args, kwargs, output, around)

    def heard_compiled(
        self, door: str, modules: tuple[int, ...], given: Mapping[str, Any], output: Tensor
    ) -> None:
        """See ``Listener``."""
        known = [it for it in modules if it in self.paths]
        if known and self.wants():
            around = Around(self.paths[known[-1]], self.modules[known[-1]])
            self._look(next(it for it in all_doors() if it.name == door), (), given, output, around)

    def heard_declared(
        self, path: str, module: nn.Module, declared: Callable[[], Mapping[str, Any]], output: Any
    ) -> None:
        """Hear of a call of a module that the user has declared to be attention."""
        if self.wants():
            result = output[0] if isinstance(output, tuple) else output
            self._look_at(
                lambda: from_products(**declared(), output=result), "declared", Around(path, module)
            )

    def _look(
        self, door: Door, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around
    ) -> None:
        if self.asked.wants_layer(around.path):
            why = _not_observable((*args, *kwargs.values()))
            if why:
                self.coverage.refused[why] += 1
            else:
                self._look_at(lambda: door.read(args, kwargs, output, around), door.name, around)

    def _look_at(self, read: Callable[[], Problem | None], way: str, around: Around) -> None:
        with self._lock:
            try:
                problem = read()
                if problem is not None and problem.q_len * problem.k_len * problem.batch_size > 0:
                    self._measure(problem, way, around)
            except Exception as error:  # a watch must never end the run that it watches
                words = str(error).splitlines()[:1]
                self.coverage.refused[f"{around.path}: {type(error).__name__}: {''.join(words)}"] += 1

    def _measure(self, problem: Problem, way: str, around: Around) -> None:
        number = self.steps.number_of(around.path)
        if number is None:
            return
        call = call_of(problem, around, way, step=self.steps.now, number=number)
        outside = way == "softmax" and bool(self.coverage.expected) and self.coverage.outside(around.path)
        promised = self._rules.asked_of(call, problem, called_attention=not outside)
        sampling = replace(self.asked.sampling, turn=call.step)
        statistics, queries = measure(
            problem, sampling, promised.rule, first_position=promised.first_position
        )
        finite, because = _finite(problem, around)
        record = Record(call, statistics, queries, finite, because, promised.not_asked)
        self.coverage.seen[around.path] += 1
        if around.path not in self.trace.shares:
            self.trace.shares[around.path] = share_of_heads(around.layer, problem)
        self.trace.add(record)
        for tell_it in self.on_record:
            tell_it(record)


def _not_observable(values: Sequence[Any]) -> str:
    """Why tensors cannot be looked at, or ""."""
    for it in values:
        if not isinstance(it, Tensor):
            continue
        if torch._C._functorch.is_functorch_wrapped_tensor(it):
            return "inside vmap or another transform of torch.func"
        if it.is_meta or type(it) not in (Tensor, nn.Parameter):
            return f"a tensor of type {type(it).__name__}" if not it.is_meta else "a tensor without numbers"
    return ""


def _finite(problem: Problem, around: Around) -> tuple[bool, str]:
    """Whether the output holds neither NaN nor inf; if not, what came in with it.

    Masks are added to scores, and hide NaN in them: what the layer was given tells.
    """
    if problem.output is None or bool(problem.output.detach().sum().isfinite()):
        return True, ""
    if bool(problem.output.detach().isfinite().all()):
        return True, ""  # the sum alone was too large
    came = {name: it for name, it in problem.sources.items() if name != "scores"}
    given = around.given if "scores" in problem.sources else None
    if given is not None and given.is_floating_point():
        came["hidden states"] = given
    return False, " and ".join(name for name, it in came.items() if not bool(it.detach().isfinite().all()))
