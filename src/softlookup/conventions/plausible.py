"""What speaks against a reading of a mask: things that hardly any attention does, found in its entries.

A reading is marks and what they mean: see ``marks``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softlookup.conventions.marks import Marks, first_and_last
from softlookup.conventions.recognising import recognise
from softlookup.masks import Given, Mask

_SAMPLED = 64  # rows that are asked one by one
_LONG_DIAGONAL = 16  # entries that are hardly all alike by chance
_RULES_EXPLAIN_ALL = 4  # of fewer queries and keys some rule explains most masks
_SMALL = 1 << 24  # entries of a mask that is looked at as a whole


def against(marks: Marks) -> list[str]:
    """Return sentences that speak against this reading; none where it is what attention does."""
    found = [_nothing_seen(marks)]
    if marks.by_query and not _rows_alike(marks):
        square = (_own_key_hidden, _only_later, _only_itself)
        found += [ask(marks) for ask in (square if marks.square else (_ever_fewer,))]
    return [sentence for sentence in found if sentence]


def _nothing_seen(marks: Marks) -> str:
    blind = ~marks.seeing.any(dim=-1)  # [B, H]
    if not bool(blind.any()):
        return ""
    if bool(blind.all()):
        return "no query would see any key"
    sample, head = blind.nonzero()[0].tolist()
    which = f"sample {sample}" if blind.shape[0] > 1 else f"head {head}"
    return f"{which} would see nothing at all"


def _rows_alike(marks: Marks) -> bool:
    first = marks.marked[..., :1, :]
    quick = marks.marked[..., -1:, :], marks.marked[..., marks.marked.shape[-2] // 2, :][..., None, :]
    if any(not torch.equal(first, row) for row in quick):
        return False
    return torch.equal(marks.marked, first.expand_as(marks.marked))


def _own_key_hidden(marks: Marks) -> str:
    hidden = ~marks.beside(0)  # [B, H, T]
    if not bool(hidden.any()) or _own_keys_by_chance(marks):
        return ""
    at = hidden.nonzero()
    for batch, head, query in at[: _SAMPLED // 4].tolist():
        if bool(marks.visible(batch, head, slice(None), query).any()):
            return f"query {query} would not see its own key, which other queries see"
    wrong = (hidden & marks.seen).nonzero()
    return (
        f"query {int(wrong[0, 2])} would not see its own key, which other queries see" if len(wrong) else ""
    )


def _own_keys_by_chance(marks: Marks) -> bool:
    """Say whether few queries see no own key, in a mask whose opposite is as sound and no rules explain.

    There may be as many queries as keys by chance, and then no key is a query's own.
    """
    opposite = marks.opposite()
    T = marks.marked.shape[-1]
    if T >= _LONG_DIAGONAL or _only_later(opposite) or _only_itself(opposite):
        return False
    heads = (head[:, None] for head in opposite.visible().unbind(dim=1))
    return T < _RULES_EXPLAIN_ALL or not all(_by_positions(recognise(head)) for head in heads)


def _only_itself(marks: Marks) -> str:
    beside = (marks.beside(step) for step in (-1, 1))
    if any(bool(it.any()) for it in beside):
        return ""
    T = marks.marked.shape[-1]
    rows = _some_rows(marks)
    others = torch.arange(T) != rows[:, None]
    if bool((marks.visible(slice(None), slice(None), rows) & others).any()):
        return ""
    return "queries would see nothing but themselves"


def _only_later(marks: Marks) -> str:
    if bool(marks.beside(-1).any()):
        return ""
    T = marks.marked.shape[-1]
    rows = _some_rows(marks)
    shown = marks.visible(slice(None), slice(None), rows)
    earlier = torch.arange(T) < rows[:, None]
    later = torch.arange(T) > rows[:, None]
    if bool((shown & earlier).any()) or not bool((shown & later).any()):
        return ""
    return "queries would see later keys and no earlier one"


def _ever_fewer(marks: Marks) -> str:
    q_len = marks.marked.shape[-2]
    rows = torch.linspace(0, q_len - 1, min(q_len, _SAMPLED), dtype=torch.float64).long()
    shown = marks.visible(slice(None), slice(None), rows)
    if bool(shown.all(dim=-1).any()):
        return ""  # the opposite has a query without keys, which is no better
    if not bool(shown.any(dim=-1).all()):
        shown = shown[..., shown.any(dim=-1).all(dim=0).all(dim=0), :]
        rows = rows[: shown.shape[-2]]
    if len(rows) < 2:
        return ""
    first, last = first_and_last(shown)
    rising = bool((first.diff(dim=-1) == rows.diff()).all())
    return (
        "later queries would see fewer and fewer keys"
        if rising and bool((last.diff(dim=-1) == 0).all())
        else ""
    )


def _some_rows(marks: Marks) -> Tensor:
    """Return the queries to ask one by one: all, or some of a large mask."""
    T = marks.marked.shape[-1]
    return torch.arange(T) if marks.marked.numel() <= _SMALL else torch.linspace(0, T - 1, _SAMPLED).long()


def _by_positions(mask: Mask | None) -> bool:
    """Say whether a mask is made of rules, at least one of them about queries."""
    return mask is not None and "T_q" in mask.axes and not any(isinstance(it, Given) for it in mask.leaves())
