"""What a watch came to when its script has ended: for people, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from softlookup.report.plain_words import printable
from softlookup.report.watch_view import WatchPicture, watch_renderable

_PATH = 34  # columns
_ALARMS = 20  # listed


def summary_renderable(
    models: Sequence[tuple[str, Mapping[str, Any]]], failed: BaseException | None
) -> RenderableType:
    """Return coverage, a line for each layer, a map of entropies and the alarms, of every model.

    models: by name, what ``Trace.summary`` says
    """
    parts: list[RenderableType] = [part for name, facts in models for part in _model(name, facts)]
    if not models:
        parts.append(Text("no call of attention inside a model was seen"))
    if failed is not None:
        parts.append(Text(printable(f"the script failed: {type(failed).__name__}: {failed}")))
    return Group(*parts)


def _model(name: str, facts: Mapping[str, Any]) -> list[RenderableType]:
    layers, alarms = facts["layers"], facts["alarms"]
    title = f"{name}: {facts['steps']} steps; {facts['coverage']}"
    head = f"{'layer':<{_PATH}}heads  entropy/log n  largest score  first key"
    lines = [
        f"{printable(it['layer'] or '(the model)')[-_PATH + 1 :]:<{_PATH}}{it['heads']:>5}"
        f"{_mean(it['entropy_share']):>15.1%}{max(it['max_score']):>15.2f}{_mean(it['first_mass']):>11.1%}"
        for it in layers
    ]
    picture = WatchPicture(
        "entropy / log(visible keys), by layer and head",
        [(it["layer"] or "(the model)", it["entropy_share"]) for it in layers],
        worse="low",
        scale=(0.0, 1.0),
        step=facts["steps"],
    )
    said = [f"{it['code']} {it['name']}: {printable(it['words'])}" for it in alarms[:_ALARMS]]
    if len(alarms) > _ALARMS:
        said.append(f"and {len(alarms) - _ALARMS} more")
    parts: list[RenderableType] = [Text(title), Text("\n".join(["", head, *lines, ""]))]
    if layers:
        parts.append(watch_renderable(picture))
    return [*parts, Text("\n".join(["", *(said or ["no alarm"])]))]


def _mean(values: Sequence[float]) -> float:
    numbers = [it for it in values if it == it]
    return sum(numbers) / len(numbers) if numbers else float("nan")


def summary_json(
    models: Sequence[tuple[str, Mapping[str, Any]]], failed: BaseException | None
) -> dict[str, Any]:
    """Return the same as JSON values; numbers that are none become null."""
    return {
        "models": [{"model": name, **_plain(facts)} for name, facts in models],
        "failed": None if failed is None else f"{type(failed).__name__}: {failed}",
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(it) for key, it in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(it) for it in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return value
