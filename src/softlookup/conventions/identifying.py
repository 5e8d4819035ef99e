"""What a mask of unknown origin is: every meaning it can have, ranked, and what would go wrong with it.

A single answer is given only where the entries contradict all others; dtype and shape alone rank, and never
decide what True means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softlookup.conventions.candidates import Candidate, candidates_of
from softlookup.conventions.dangers import dangers_of
from softlookup.conventions.meanings import Numbers
from softlookup.conventions.recognising import recognise
from softlookup.conventions.right_calls import calls_for
from softlookup.conventions.spelling import Sizes
from softlookup.conventions.tensors import as_tensor
from softlookup.masks import Mask
from softlookup.terms import SoftlookupError

_TAKERS_SHOWN = 6


@dataclass(frozen=True, eq=False)
class Identification:
    """What a tensor can be.

    candidates: the possible ones first
    structure: the rules that show exactly what the best candidate shows, or None
    dangers: what goes wrong silently with a mask like this
    calls: for each API the call that is right, when the best candidate is what it is
    """

    shape: tuple[int, ...]
    dtype: str
    candidates: tuple[Candidate, ...]
    structure: Mask | None
    dangers: tuple[str, ...]
    calls: dict[str, str]

    @property
    def possible(self) -> tuple[Candidate, ...]:
        """The candidates that nothing speaks against."""
        return tuple(it for it in self.candidates if not it.against)

    @property
    def answer(self) -> Candidate | None:
        """The only possible candidate; None when it cannot be told."""
        return self.possible[0] if len(self.possible) == 1 else None

    @property
    def meaning(self) -> str | None:
        """What an entry means, where all possible candidates agree on that."""
        kinds = {it.kind for it in self.possible}
        return kinds.pop() if len(kinds) == 1 else None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as values of JSON."""
        return {
            "shape": list(self.shape),
            "dtype": self.dtype,
            "answer": None if self.answer is None else self.answer.words,
            "meaning": self.meaning,
            "structure": None if self.structure is None else repr(self.structure),
            "candidates": [
                {"kind": it.kind, "axes": it.axes, "words": it.words, "possible": not it.against,
                 "against": list(it.against), "taken_by": list(it.taken_by)}
                for it in self.candidates
            ],
            "dangers": list(self.dangers),
            "calls": self.calls,
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [f"{self.dtype} {list(self.shape)}: {self._verdict()}"]
        if self.structure is not None:
            lines.append(f"  it shows exactly what {self.structure!r} shows")
        lines.append("candidates")
        for it in self.candidates:
            lines.append(f"  {it.words}" + (f"   no: {'; '.join(it.against)}" if it.against else ""))
            if it.taken_by and not it.against:
                more = len(it.taken_by) - _TAKERS_SHOWN
                shown = ", ".join(it.taken_by[:_TAKERS_SHOWN]) + (f" and {more} more" if more > 0 else "")
                lines.append(f"      as it is for {shown}")
        if self.dangers:
            lines += ["dangers", *(f"  {it}" for it in self.dangers)]
        if self.calls:
            lines.append(
                "the right calls" + ("" if self.answer else f", if it is: {self.candidates[0].words}")
            )
            lines += [f"  {name}\n      {call}" for name, call in self.calls.items()]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.answer is not None:
            return self.answer.words
        if not self.candidates:
            return "no mask that any API takes"
        told = self.possible or self.candidates
        likelier = "cannot tell: " + " or ".join(it.words for it in told[:3])
        return likelier + ("; every reading has something against it" if not self.possible else "")


def identify(
    mask: Any,
    *,
    q_len: int | None = None,
    k_len: int | None = None,
    batch_size: int | None = None,
    num_heads: int | None = None,
) -> Identification:
    """Say what a mask of unknown origin is: what an entry means, its axes, its dangers, and the right calls.

    mask: a tensor or array of any dtype and of up to four axes; it is not changed, and no float copy is made
    q_len, k_len, batch_size, num_heads: T_q, T_k, B and H, where they are known: they tell axes apart

    ``answer`` is the only meaning that nothing in the entries speaks against; None where several are left.

    Raises: SoftlookupError for what is no tensor, is empty, or has more than four axes.

    >>> import torch
    >>> found = identify(torch.ones(6, 6).triu(1).bool(), q_len=6, k_len=6)
    >>> found.answer.words
    'True = hidden, [T_q, T_k]'
    >>> found.structure
    causal()
    >>> found.calls["F.scaled_dot_product_attention"]
    'F.scaled_dot_product_attention(q, k, v, attn_mask=~mask)'
    """
    tensor = as_tensor(mask, "identify")
    if not 1 <= tensor.dim() <= 4 or not tensor.numel():
        raise SoftlookupError(
            "identify: this is no mask.",
            expected="one to four axes, none of them empty",
            got=str(list(tensor.shape)),
        )
    sizes = Sizes(q_len, k_len, batch_size, num_heads)
    here = tensor.cpu()
    numbers = Numbers.of(here)
    found = candidates_of(here, numbers, sizes)
    best = found[0] if found else None
    return Identification(
        tuple(tensor.shape),
        str(tensor.dtype).removeprefix("torch."),
        tuple(found),
        _structure(best),
        tuple(dangers_of(here, numbers, best)),
        {} if best is None else calls_for(best, sizes),
    )


def _structure(best: Candidate | None) -> Mask | None:
    if best is None or best.marks is None or best.against:
        return None
    marks = best.marks
    return recognise(marks.marked, hides=marks.hides)
