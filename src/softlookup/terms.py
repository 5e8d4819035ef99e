"""The words every other module speaks. Imports nothing of softlookup, and torch only for the type checker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor

#: The one glossary of axes and sizes: letter in a shape -> what it counts.
AXES = {
    "B": "batch: independent samples",
    "H": "query heads (num_heads)",
    "H_kv": "key/value heads (num_kv_heads); H is a multiple of it",
    "T_q": "queries: positions that look",
    "T_k": "keys: positions that are looked at",
    "d_head": "width of one query or key vector",
    "d_v": "width of one value vector",
    "d_model": "width of a token between layers, num_heads * d_head",
}

Corner = Literal["top-left", "bottom-right"]


class SoftlookupError(ValueError):
    """A request that cannot be carried out: what we were doing, expected, got, the sizes, what to try."""

    def __init__(
        self,
        doing: str,
        *,
        expected: str = "",
        got: str = "",
        sizes: dict[str, int] | None = None,
        hint: str = "",
    ) -> None:
        lines = [doing]
        if expected:
            lines.append(f"  expected: {expected}")
        if got:
            lines.append(f"  got:      {got}")
        if sizes:
            lines.append("  sizes:    " + ", ".join(f"{name}={size}" for name, size in sizes.items()))
        if hint:
            lines.append(f"  try:      {hint}")
        super().__init__("\n".join(lines))


class NoAttentionError(SoftlookupError):
    """Nothing in a file looks like attention, as far as it was looked into."""

    unseen = False  # True: something that may be attention could not be built, or there was no time left


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a hint that names the known words nearest to a word; ``otherwise`` where none is near.

    >>> did_you_mean("softmax-twise", ["softmax-twice", "scale-missing"])
    'did you mean softmax-twice?'
    """
    near = get_close_matches(word, list(known), n=3)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def refuse_unknown(names: Iterable[str], known: Sequence[str], whose: str) -> None:
    """Refuse names that are not among the known ones.

    whose: what has them, e.g. "attention: a contract"

    Raises: SoftlookupError with the nearest names.
    """
    for name in names:
        if name not in known:
            raise SoftlookupError(
                f"{whose} has no {name!r}.",
                expected=f"one of {', '.join(known)}",
                got=name,
                hint=did_you_mean(name, known),
            )


class MaskLike(Protocol):
    """Becomes a dense tensor once the lengths are known: bool (True = allowed) or an additive bias."""

    def dense(self, q_len: int, k_len: int, *, device: torch.device | str | None = None) -> Tensor:
        """Return [..., q_len, k_len]."""


@dataclass(frozen=True)
class Case:
    """One concrete attention problem: three tensors and every rule that was asked for.

    q: [..., H, T_q, d_head]   k: [..., H_kv, T_k, d_head]   v: [..., H_kv, T_k, d_v]
    allowed_mask: bool, broadcastable to [..., H, T_q, T_k], True = this query may look at this key
    additive_bias: float, broadcastable likewise, added to the scaled scores; -inf hides
    causal: hide keys after the query, counted from the first key ("top-left") or the last ("bottom-right")
    window: sliding window: how many keys a query sees, itself included, counted backwards
    window_ahead: the window reaches as far forward as it does backward
    document_ids: [B, T] packed documents: a query sees only keys of its own document
    scale: factor on the scores; None is 1 / sqrt(d_head)
    past: how many of the keys come from a cache and not from the queries' own tokens; None: there is no cache
    target_mask: bool [B, T_q], True = a real token of the target; it says nothing about the keys of a memory
    wiring: the projections around the lookup when a module is asked (checker/wiring.py)
    """

    q: Tensor
    k: Tensor
    v: Tensor
    allowed_mask: Tensor | None = None
    additive_bias: Tensor | None = None
    causal: Corner | None = None
    window: int | None = None
    window_ahead: bool = False
    document_ids: Tensor | None = None
    scale: float | None = None
    dropout_p: float = 0.0
    name: str = ""
    target_mask: Tensor | None = None
    past: int | None = None
    wiring: Any = None

    def but(self, **changes: Any) -> Case:
        """Return the same problem with some fields changed."""
        return replace(self, **changes)

    def double(self) -> Case:
        """Return the same problem in float64, for reference answers."""
        bias = None if self.additive_bias is None else self.additive_bias.double()
        return self.but(q=self.q.double(), k=self.k.double(), v=self.v.double(), additive_bias=bias)


@dataclass(frozen=True)
class Contract:
    """What a target promises: how it is called and what its arguments mean.

    Fields given by the user, or read from clear names and docstrings, are *declared* and are held against the
    target; all others are measured and only stated. See ``declared``.
    """

    layout: str | None = None  # axes of q, e.g. "B H T d", "B T H d", "B T d", "T d"
    mask: Literal["allowed", "blocked", "additive", "none"] | None = None
    mask_shape: str | None = None  # axes of the mask, e.g. "B 1 T_q T_k", "T_q T_k", "B T_k"
    causal: Literal["argument", "built-in", "none"] | None = None
    corner: Corner | None = None  # where the causal diagonal starts when T_q != T_k
    self_visible: bool | None = None  # False: strictly causal, a query does not see its own key
    window: int | None = None  # keys seen, self included
    scale: float | None = None  # a constant factor; None is 1 / sqrt(d_head)
    returns: str | None = None  # "output", "output, weights", "weights, output", "dict"
    empty_rows: Literal["nan", "zero", "uniform", "raises"] | None = None
    hidden_nan: Literal["isolated", "leaks"] | None = None
    weights: Literal["per head", "averaged"] | None = None
    max_score: float | None = None  # largest |score| in use; a finite fill must stay beyond it
    half: bool | None = None  # runs in float16 as well
    kv_heads: Literal["equal", "grouped"] | None = None
    dtype: str | None = None  # dtype the target is judged in, e.g. "bfloat16"; None is float32
    arguments: str | None = None  # how it is called, e.g. "q, k, v, mask=mask"
    declared: frozenset[str] = field(default=frozenset())

    def declares(self, name: str) -> bool:
        """Say whether this field was declared rather than measured."""
        return name in self.declared


#: Fields of a contract that a user may promise; the others are found out.
PROMISES = tuple(it.name for it in fields(Contract) if it.name not in {"declared", "arguments"})


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or (as a note) one thing that was measured and is worth knowing."""

    code: str
    name: str
    summary: str
    line: int | None = None
    fix: str = ""
    consequence: str = ""  # what it does to training
    evidence: dict[str, Any] = field(default_factory=dict)  # JSON values only


Verdict = Literal["clean", "named", "unrecognised", "not-callable"]


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """Return what these findings come to: a target that was not run, or not explained, before all names."""
    codes = {finding.code for finding in findings}
    if "SL001" in codes:
        return "not-callable"
    return "unrecognised" if "SL000" in codes else "named" if codes else "clean"


@dataclass(frozen=True)
class Diagnosis:
    """What one target turned out to be: its contract, the verdict, findings (wrong) and notes (measured)."""

    name: str
    kind: Literal["function", "module", "cross"]
    file: str
    line: int | None
    contract: Contract
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()

    @property
    def clean(self) -> bool:
        """True when nothing wrong was found."""
        return self.verdict == "clean"

    def named(self) -> list[str]:
        """Return the names of the findings, in order."""
        return [finding.name for finding in self.findings]


@dataclass(frozen=True)
class Skipped:
    """A definition in the file that was looked at and not checked, with the reason."""

    name: str
    line: int | None
    reason: str


@dataclass(frozen=True)
class FileReport:
    """What was found out about one file: what was checked, what was skipped, and by which torch."""

    file: str
    diagnoses: tuple[Diagnosis, ...]
    skipped: tuple[Skipped, ...] = ()
    torch: str = ""  # version of the torch that ran the targets, "" when nothing ran

    @property
    def clean(self) -> bool:
        """True when something was checked and every target is clean."""
        return bool(self.diagnoses) and all(diagnosis.clean for diagnosis in self.diagnoses)
