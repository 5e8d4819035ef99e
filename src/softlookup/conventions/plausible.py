"""What speaks against a reading of a mask: things that hardly any attention does, found in its entries.

A reading is a tensor of marks and what a mark means: visible, or hidden (``inverse``). No copy is made, and
of a large mask most questions are answered from eight entries at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from softlookup.conventions.recognising import recognise
from softlookup.conventions.tensors import as_words
from softlookup.masks import Given, Mask

_ALL_ONES = 0x0101010101010101
_SAMPLED = 64  # rows that are asked one by one
_QUICK = 16  # queries that are asked before all of them are
_LONG_DIAGONAL = 16  # entries that are hardly all alike by chance
_RULES_EXPLAIN_ALL = 3  # of fewer queries and keys some rule explains most masks
_SMALL = 1 << 24  # entries of a mask that is looked at as a whole


@dataclass(frozen=True, eq=False)
class Marks:
    """Marks [B or 1, H or 1, T_q or 1, T_k or 1], bool, and whether a mark hides."""

    marked: Tensor
    inverse: bool

    def visible(self, *place: slice | Tensor | int) -> Tensor:
        """Return what a part of the mask shows, as a copy where a mark hides."""
        part = self.marked[place]
        return ~part if self.inverse else part

    @cached_property
    def seeing(self) -> Tensor:
        """Bool [B, H, T_q]: which queries see some key."""
        words = as_words(self.marked)
        if words is None:
            return ~self.marked.all(dim=-1) if self.inverse else self.marked.any(dim=-1)
        return words.amin(dim=-1) != _ALL_ONES if self.inverse else words.amax(dim=-1) != 0

    @cached_property
    def seen(self) -> Tensor:
        """Bool [B, H, T_k]: which keys some query sees."""
        numbers = self.marked.view(torch.uint8)
        return numbers.amin(dim=-2) == 0 if self.inverse else numbers.amax(dim=-2) != 0

    @property
    def by_query(self) -> bool:
        """Say whether there is an axis of queries."""
        return self.marked.shape[-2] > 1

    @property
    def square(self) -> bool:
        """Say whether there are as many queries as keys, and more than one."""
        return self.marked.shape[-2] == self.marked.shape[-1] > 1

    def against(self) -> list[str]:
        """Return sentences that speak against this reading; none where it is what attention does."""
        found = [self._nothing_seen()]
        if self.by_query and not self._rows_alike():
            square = (self._own_key_hidden, self._only_later, self._only_itself)
            found += [ask() for ask in (square if self.square else (self._ever_fewer,))]
        return [sentence for sentence in found if sentence]

    def _nothing_seen(self) -> str:
        blind = ~self.seeing.any(dim=-1)  # [B, H]
        if not bool(blind.any()):
            return ""
        if bool(blind.all()):
            return "no query would see any key"
        sample, head = blind.nonzero()[0].tolist()
        which = f"sample {sample}" if blind.shape[0] > 1 else f"head {head}"
        return f"{which} would see nothing at all"

    def _rows_alike(self) -> bool:
        first = self.marked[..., :1, :]
        quick = self.marked[..., -1:, :], self.marked[..., self.marked.shape[-2] // 2, :][..., None, :]
        if any(not torch.equal(first, row) for row in quick):
            return False
        return torch.equal(self.marked, first.expand_as(self.marked))

    def _own_key_hidden(self) -> str:
        hidden = ~(self.marked.diagonal(dim1=-2, dim2=-1) ^ self.inverse)  # [B, H, T]
        if not bool(hidden.any()) or self._own_keys_by_chance():
            return ""
        at = hidden.nonzero()
        for batch, head, query in at[: _SAMPLED // 4].tolist():
            if bool(self.visible(batch, head, slice(None), query).any()):
                return f"query {query} would not see its own key, which other queries see"
        wrong = (hidden & self.seen).nonzero()
        return (
            f"query {int(wrong[0, 2])} would not see its own key, which other queries see"
            if len(wrong)
            else ""
        )

    def _own_keys_by_chance(self) -> bool:
        """Say whether few queries see no own key, in a mask whose opposite is as sound and no rules explain.

        There may be as many queries as keys by chance, and then no key is a query's own.
        """
        opposite = Marks(self.marked, not self.inverse)
        T = self.marked.shape[-1]
        if T >= _LONG_DIAGONAL or opposite._only_later() or opposite._only_itself():
            return False
        heads = (head[:, None] for head in opposite.visible().unbind(dim=1))
        return T < _RULES_EXPLAIN_ALL or not all(_by_positions(recognise(head)) for head in heads)

    def _only_itself(self) -> str:
        beside = (self.marked.diagonal(step, dim1=-2, dim2=-1) ^ self.inverse for step in (-1, 1))
        if any(bool(it.any()) for it in beside):
            return ""
        T = self.marked.shape[-1]
        rows = torch.arange(T) if self.marked.numel() <= _SMALL else torch.linspace(0, T - 1, _SAMPLED).long()
        others = torch.arange(T) != rows[:, None]
        if bool((self.visible(slice(None), slice(None), rows) & others).any()):
            return ""
        return "queries would see nothing but themselves"

    def _only_later(self) -> str:
        if bool((self.marked.diagonal(-1, dim1=-2, dim2=-1) ^ self.inverse).any()):
            return ""
        T = self.marked.shape[-1]
        rows = torch.arange(T) if self.marked.numel() <= _SMALL else torch.linspace(0, T - 1, _SAMPLED).long()
        shown = self.visible(slice(None), slice(None), rows)
        earlier = torch.arange(T) < rows[:, None]
        later = torch.arange(T) > rows[:, None]
        if bool((shown & earlier).any()) or not bool((shown & later).any()):
            return ""
        return "queries would see later keys and no earlier one"

    def _ever_fewer(self) -> str:
        q_len, k_len = self.marked.shape[-2:]
        rows = torch.linspace(0, q_len - 1, min(q_len, _SAMPLED), dtype=torch.float64).long()
        shown = self.visible(slice(None), slice(None), rows)
        if bool(shown.all(dim=-1).any()):
            return ""  # the opposite has a query without keys, which is no better
        if not bool(shown.any(dim=-1).all()):
            shown = shown[..., shown.any(dim=-1).all(dim=0).all(dim=0), :]
            rows = rows[: shown.shape[-2]]
        if len(rows) < 2:
            return ""
        first = shown.to(torch.uint8).argmax(dim=-1)
        last = k_len - 1 - shown.flip(-1).to(torch.uint8).argmax(dim=-1)
        rising = bool((first.diff(dim=-1) == rows.diff()).all())
        return (
            "later queries would see fewer and fewer keys"
            if rising and bool((last.diff(dim=-1) == 0).all())
            else ""
        )


def _by_positions(mask: Mask | None) -> bool:
    """Say whether a mask is made of rules, at least one of them about queries."""
    return mask is not None and "T_q" in mask.axes and not any(isinstance(it, Given) for it in mask.leaves())
