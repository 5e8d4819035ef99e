"""Alarms from records: every alarm file is asked, and what is not finite is traced to where it began."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from types import ModuleType

from softlookup.catalog import Entry, find_rule, model_rules
from softlookup.live.limits import Limits, Raised
from softlookup.live.past import Past
from softlookup.live.record import Alarm, Record

_UNRECOGNISED = "SL000"  # what no rule names


@lru_cache
def _files() -> tuple[tuple[Entry, ModuleType], ...]:
    return tuple((it, it.load()) for it in model_rules() if it.path.parent.name == "alarms")


def judge(record: Record, past: Past, limits: Limits) -> list[Alarm]:
    """Return the alarms that a record raises, each once a layer, head and rule."""
    layer, found = past.of(record), _spread_to(record, past)
    past.remember(record)
    for code, name, raised in _raised(record, past, limits):
        if (code, raised.head) in layer.said:
            continue
        layer.said.add((code, raised.head))
        found.append(_alarm(record, code, name, raised))
    return found


def settle(past: Past) -> list[Alarm]:
    """Return the alarm for NaN of a softmax that no call came after, in a model not known to replace it."""
    waiting, past.waiting = past.waiting, None
    return [] if waiting is None or past.replaces_nan else [_begun(waiting, past)]


def _spread_to(record: Record, past: Past) -> list[Alarm]:
    """Look in a call for NaN that an earlier softmax gave: many models write 0 over rows without keys."""
    waiting, past.waiting = past.waiting, None
    if waiting is None:
        return []
    if int(record.statistics.nan_count.max()) or record.not_finite_because:
        return [_begun(waiting, past)]
    past.replaces_nan = True
    return []


def _begun(record: Record, past: Past) -> Alarm:
    past.not_finite_since = record.call.step
    raised = _cause(record)
    return _alarm(record, raised.code, _name_of(raised), raised)


def _raised(record: Record, past: Past, limits: Limits) -> Iterator[tuple[str, str, Raised]]:
    for entry, file in _files():
        for raised in file.judge(record, past, limits):
            yield entry.code, entry.name, raised
    for raised in (*_not_finite(record, past), *_sums_off(record, limits)):
        yield raised.code, _name_of(raised), raised


def _not_finite(record: Record, past: Past) -> Iterator[Raised]:
    """The first call whose output holds NaN or inf, and why; what comes after it inherits it."""
    if record.finite or past.not_finite_since is not None:
        return
    if record.call.way == "softmax" and not int(record.statistics.nan_count.max()):
        past.waiting = record  # its weights, not yet what it answers
        return
    past.not_finite_since = record.call.step
    yield _cause(record)


def _cause(record: Record) -> Raised:
    empty = int(record.statistics.empty_rows.max())  # heads share their mask, mostly
    came_in = record.not_finite_because
    if came_in:
        words = f"NaN or inf is first seen here: it came in with the {came_in}"
        return Raised(None, float("nan"), words, _UNRECOGNISED)
    if empty:
        words = f"NaN or inf is first seen here: {empty} of the measured queries see no key at all"
        return Raised(None, float(empty), words, "SL401")
    words = "NaN or inf is first seen here, out of finite queries and keys"
    return Raised(None, float("nan"), words, _UNRECOGNISED)


def _name_of(raised: Raised) -> str:
    return "unrecognised" if raised.code == _UNRECOGNISED else find_rule(raised.code).name


def _sums_off(record: Record, limits: Limits) -> Iterator[Raised]:
    worst = record.statistics.moments["row_sum_error"].high[0]
    for head in (worst > limits.row_sum_error).nonzero()[:, 0].tolist():
        yield Raised(head, float(worst[head]), f"weights add up to 1 +- {float(worst[head]):.3g}", "SL702")


def _alarm(record: Record, code: str, name: str, raised: Raised) -> Alarm:
    call = record.call
    where = call.layer or "the model"
    head = "" if raised.head is None else f", head {raised.head}"
    words = f"{where}{head}, step {call.step}: {raised.words}"
    return Alarm(code, name, call.layer, raised.head, call.step, raised.value, words)
