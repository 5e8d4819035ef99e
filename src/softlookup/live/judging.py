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
    return [] if waiting is None or past.replaces_nan else _empty_rows(waiting, past)


def _spread_to(record: Record, past: Past) -> list[Alarm]:
    """Look in a call for NaN that an earlier softmax gave in rows without keys: many models write over it."""
    waiting, past.waiting = past.waiting, None
    if waiting is None:
        return []
    if int(record.statistics.nan_count.max()) or record.not_finite_because:
        return _empty_rows(waiting, past)
    past.replaces_nan = True
    return []


def _empty_rows(record: Record, past: Past) -> list[Alarm]:
    past.not_finite_since = record.call.step
    empty = int(record.statistics.empty_rows.max())  # heads share their mask, mostly
    words = f"NaN or inf is first seen here: {empty} of the measured queries see no key at all"
    return [_alarm(record, "SL401", find_rule("SL401").name, Raised(None, float(empty), words, "SL401"))]


def _raised(record: Record, past: Past, limits: Limits) -> Iterator[tuple[str, str, Raised]]:
    for entry, file in _files():
        for raised in file.judge(record, past, limits):
            yield entry.code, entry.name, raised
    for raised in (*_not_finite(record, past), *_sums_off(record, limits)):
        name = "unrecognised" if raised.code == _UNRECOGNISED else find_rule(raised.code).name
        yield raised.code, name, raised


def _not_finite(record: Record, past: Past) -> Iterator[Raised]:
    """The first call whose output holds NaN or inf, and why; what comes after it inherits it."""
    if record.finite or past.not_finite_since is not None:
        return
    empty, came_in = int(record.statistics.empty_rows.max()), record.not_finite_because
    if record.call.way == "softmax" and empty and not int(record.statistics.nan_count.max()):
        past.waiting = record
        return
    past.not_finite_since = record.call.step
    if came_in:
        yield Raised(
            None, float("nan"), f"NaN or inf is first seen here: it came in with the {came_in}", _UNRECOGNISED
        )
    elif empty:
        words = f"NaN or inf is first seen here: {empty} of the measured queries see no key at all"
        yield Raised(None, float(empty), words, "SL401")
    else:
        yield Raised(
            None, float("nan"), "NaN or inf is first seen here, out of finite queries and keys", _UNRECOGNISED
        )


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
