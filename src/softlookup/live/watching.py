"""watch: what attention does inside a running model, call by call, without editing or slowing it down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from softlookup.live.across_ranks import reducing
from softlookup.live.declared import Declare, declared_calls
from softlookup.live.ear import Asked, Ear
from softlookup.live.kept_answers import forget
from softlookup.live.limits import Limits
from softlookup.live.measuring_calls import Sampling
from softlookup.live.outlet import Outlet
from softlookup.live.record import Record
from softlookup.live.rules_of_layers import RuleLike
from softlookup.live.tap import listening
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
    queries: int | None = 64,
    declare: Mapping[str, Declare] | None = None,
    limits: Limits | None = None,
    keep: int = 1000,
    on_record: Callable[[Record], None] | None = None,
    save_to: str | Path | None = None,
    log_to: Any = None,
    show: str | None = None,
    reduce_every: int | None = None,
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
    declare: attention that no known function computes, by pattern of the path or name of the class: a
        function of (module, args, kwargs, output) that returns q, k and, where there are any, mask and scale
    limits: from where on something is an alarm
    keep: so many records are kept in ``trace.records``; ``trace.layers`` sums up all of them
    on_record: is called with every record as it comes
    save_to: folder of a trace on disk, for ``read_trace``: whole up to the last step, whatever ends the run
    log_to: a TensorBoard writer, a W&B run, mlflow, or a function of a dict and the step; or a list of such
    show: draw layers x heads on the terminal, by one number, e.g. "entropy_share"
    reduce_every: after so many steps ``trace.across_ranks`` of rank 0 gets what all ranks saw; no rank waits

    Yields: a Trace, whose ``alarms``, ``layers``, ``records`` and ``coverage`` fill while the model runs.

    Raises: SoftlookupError when ``model`` is no module, an option is no such number, nothing can be logged to
    ``log_to``, or ``save_to`` holds a trace already.

    >>> import torch
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
    asked = Asked(rule, every, patterns, Sampling(queries, heads), limits or Limits(), keep)
    outlet = None if save_to is log_to is show is None else Outlet(save_to=save_to, log_to=log_to, show=show)
    ear = Ear(model, asked)
    with ExitStack() as stack:
        stack.callback(forget)
        if outlet is not None:
            hand_on(ear, outlet, stack)
        if on_record is not None:
            ear.on_record.append(on_record)
        if reduce_every is not None:
            exchange = stack.enter_context(
                reducing(ear.trace, whole_number("reduce_every", reduce_every, at_least=1))
            )
            ear.on_record.append(exchange.take)
            ear.steps.at_end.append(exchange.end_step)
        if declare:
            ear.coverage.expect(stack.enter_context(declared_calls(model, declare, ear.heard_declared)))
        stack.enter_context(ear.steps.counting())
        stack.enter_context(listening(ear))
        yield ear.trace


def hand_on(ear: Ear, outlet: Outlet, stack: ExitStack) -> None:
    """Let an outlet have what an ear hears, step by step, until the stack is closed."""
    stack.enter_context(outlet.following(ear.trace, {"model": type(ear.model).__name__}))
    ear.on_record.append(outlet.take)
    ear.steps.at_end.append(outlet.end_step)
    stack.callback(lambda: outlet.end_step(ear.steps.now))
