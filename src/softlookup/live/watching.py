"""watch: what attention does inside a running model, call by call, without editing or slowing it down."""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.live.around import Around, layer_around
from softlookup.live.compiled_calls import tell
from softlookup.live.coverage import Coverage, attention_layers
from softlookup.live.door_files import Door, all_doors
from softlookup.live.limits import Limits
from softlookup.live.measuring_calls import Sampling, measure
from softlookup.live.outlet import Outlet
from softlookup.live.problem import Problem
from softlookup.live.record import Call, Record
from softlookup.live.rules_of_layers import Asked, RuleLike, rule_for
from softlookup.live.steps import Steps
from softlookup.live.tap import listeners, listening
from softlookup.live.trace import Trace
from softlookup.masks.accept import whole_number
from softlookup.terms import SoftlookupError


@contextmanager
def watch(
    model: nn.Module,
    *,
    rule: RuleLike = None,
    every: int = 1,
    layers: str | Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    queries: int | None = 128,
    limits: Limits | None = None,
    keep: int = 1000,
    on_record: Callable[[Record], None] | None = None,
    save_to: str | Path | None = None,
    log_to: Any = None,
    show: str | None = None,
) -> Iterator[Trace]:
    """Watch every call of attention inside a model while the block runs.

    model: any module; it is neither edited nor switched to another implementation, and its outputs and
        gradients are the same, bit for bit
    rule: who may look at whom, in self-attention: a mask of ``softlookup.masks``, or a dict from patterns of
        paths to masks, e.g. {"decoder.*": causal()}; weight on other keys is alarm SL901
    every: measure one step of so many; a step is one forward of the model, or what ends by ``trace.step()``
    layers: patterns of the paths that are measured, e.g. "model.layers.[0-3].*"; None: all
    heads: which heads are measured; None: all
    queries: measure at most so many queries of each call, other ones in every step; None: all of them
    limits: from where on something is an alarm
    keep: so many records are kept in ``trace.records``; ``trace.layers`` sums up all of them
    on_record: is called with every record as it comes
    save_to: folder of a trace on disk, for ``read_trace``: whole up to the last step, whatever ends the run
    log_to: a TensorBoard writer, a W&B run, mlflow, or a function of a dict and the step; or a list of such
    show: draw layers x heads on the terminal, by one number, e.g. "entropy_share"

    Yields: a Trace, whose ``alarms``, ``layers``, ``records`` and ``coverage`` fill while the model runs.

    Raises: SoftlookupError when ``model`` is no module, an option is no such number, nothing can be logged to
    ``log_to``, or ``save_to`` holds a trace already.

    >>> from softlookup.masks import causal
    >>> model = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    >>> with watch(model, rule=causal()) as trace, torch.no_grad():
    ...     _ = model(torch.randn(2, 6, 16))  # the mask was forgotten
    >>> trace.alarms[0].code, trace.coverage
    ('SL901', '1 of 1 attention layers seen, 1 calls measured')
    """
    if not isinstance(model, nn.Module):
        raise SoftlookupError(
            "watch: there is no model to watch.",
            expected="a torch.nn.Module",
            got=type(model).__name__,
            hint="watch(model), not its parameters or outputs",
        )
    whole_number("every", every, at_least=1)
    whole_number("keep", keep, at_least=1)
    if queries is not None:
        whole_number("queries", queries, at_least=1)
    patterns = [layers] if isinstance(layers, str) else layers
    coverage = Coverage([it for it in attention_layers(model) if _matches(it, patterns)])
    trace = Trace(coverage, limits or Limits(), keep=keep)
    outlet = None if save_to is log_to is show is None else Outlet(save_to=save_to, log_to=log_to, show=show)
    hearers = [it for it in (None if outlet is None else outlet.take, on_record) if it is not None]
    ear = _Ear(model, trace, coverage, rule, every, patterns, Sampling(queries, heads), hearers)
    with ExitStack() as stack:
        if outlet is not None:
            stack.enter_context(outlet.following(trace, {"model": type(model).__name__}))
            ear.steps.at_end.append(outlet.end_step)
            stack.callback(lambda: outlet.end_step(ear.steps.now))
        stack.enter_context(ear.steps.counting())
        stack.enter_context(listening(ear))
        trace.on_step = ear.steps.end
        yield trace


def _matches(path: str, patterns: Sequence[str] | None) -> bool:
    return patterns is None or any(fnmatch.fnmatchcase(path, it) for it in patterns)


@dataclass(eq=False)
class _Ear:
    """Hears of every call in the process, and measures those of one model."""

    model: nn.Module
    trace: Trace
    coverage: Coverage
    rule: RuleLike
    every: int
    patterns: Sequence[str] | None
    sampling: Sampling
    on_record: Sequence[Callable[[Record], None]]
    paths: dict[int, str] = field(default_factory=dict)
    modules: dict[int, nn.Module] = field(default_factory=dict)

    def __post_init__(self) -> None:
        inner = getattr(self.model, "_orig_mod", self.model)  # what torch.compile wraps
        for path, module in inner.named_modules():
            self.paths[id(module)], self.modules[id(module)] = path, module
        self.steps = Steps(self.model, self.trace, self.every)
        self._lock = threading.Lock()

    def wants(self) -> bool:
        return self.steps.measured and torch._C._current_graph_task_id() == -1  # else a checkpoint, again

    def heard(self, door: Door, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
        around = layer_around(self.paths)
        if around is not None:
            self._look(door, args, kwargs, output, around)

    def heard_compiled(
        self, door: str, modules: tuple[int, ...], given: Mapping[str, Any], output: Tensor
    ) -> None:
        """Hear of a call in compiled code, where the compiler knows the modules around it."""
        known = [it for it in modules if it in self.paths]
        if known and self.wants():
            around = Around(self.paths[known[-1]], self.modules[known[-1]])
            self._look(next(it for it in all_doors() if it.name == door), (), given, output, around)

    def _look(
        self, door: Door, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around
    ) -> None:
        if not _matches(around.path, self.patterns):
            return
        with self._lock:
            try:
                why = _not_observable((*args, *kwargs.values()))
                if why:
                    self.coverage.refused[why] += 1
                    return
                problem = door.read(args, kwargs, output, around)
                if problem is not None and problem.q_len * problem.k_len * problem.batch_size > 0:
                    self._measure(problem, door, around)
            except Exception as error:  # a watch must never end the run that it watches
                self.coverage.refused[
                    f"{around.path}: {type(error).__name__}: {str(error).splitlines()[0]}"
                ] += 1

    def _measure(self, problem: Problem, door: Door, around: Around) -> None:
        number = self.steps.number_of(around.path)
        if number is None:
            return
        kind: Any = "cross" if around.cross else "cached" if problem.q_len < problem.k_len else "self"
        call = Call(
            self.steps.now,
            around.path,
            number,
            door.name,
            kind,
            around.layer.training,
            problem.batch_size,
            problem.num_heads,
            problem.num_kv_heads,
            problem.q_len,
            problem.k_len,
        )
        asked: Asked = rule_for(self.rule, call, problem)
        sampling = Sampling(self.sampling.queries, self.sampling.heads, call.step)
        statistics, queries = measure(problem, sampling, asked.rule, first_position=asked.first_position)
        finite, because = _finite(problem)
        record = Record(call, statistics, queries, finite, because, asked.not_asked)
        self.coverage.seen[around.path] += 1
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


def _finite(problem: Problem) -> tuple[bool, str]:
    """Whether the output holds neither NaN nor inf; if not, what came in with it."""
    if problem.output is None or bool(problem.output.detach().sum().isfinite()):
        return True, ""
    if bool(problem.output.detach().isfinite().all()):
        return True, ""  # the sum alone was too large
    wrong = [name for name, it in problem.sources.items() if not bool(it.detach().isfinite().all())]
    return False, " and ".join(it for it in wrong if it != "scores")


def _heard_compiled(door: str, modules: tuple[int, ...], given: dict[str, Any], output: Tensor) -> None:
    for listener in listeners():
        if isinstance(listener, _Ear):
            listener.heard_compiled(door, modules, given, output)


tell(_heard_compiled)
