"""The words of the watch: a call of attention that was seen, what was measured of it, and an alarm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from softlookup.statistics import Statistics

#: "self": queries and keys of one sequence. "cached": the same, with keys of earlier calls. "cross": keys of
#: another sequence.
Kind = Literal["self", "cached", "cross"]


@dataclass(frozen=True)
class Call:
    """One call of attention inside a model.

    step: forwards of the watched model before it;  number: calls of the same layer before it in that step
    layer: path of the module, e.g. "model.layers.3.self_attn"; "" is the watched model itself
    way: where it was seen, e.g. "scaled_dot_product_attention", "softmax"
    """

    step: int
    layer: str
    number: int
    way: str
    kind: Kind
    training: bool
    batch_size: int
    num_heads: int
    num_kv_heads: int
    q_len: int
    k_len: int


@dataclass(frozen=True, eq=False)
class Record:
    """What was measured of one call.

    statistics: over all samples, [1, H], on the CPU; of ``queries`` queries, spread over all of them
    finite: whether the output of the call holds neither NaN nor inf
    not_finite_because: what came in with NaN or inf, e.g. "keys"
    rule_not_asked: why the declared rule could not be compared with this call; "" where it was, or none is
    """

    call: Call
    statistics: Statistics
    queries: int
    finite: bool = True
    not_finite_because: str = ""
    rule_not_asked: str = ""


@dataclass(frozen=True)
class Alarm:
    """Something that is wrong in a running model, or goes wrong.

    code, name: the rule, e.g. SL903 scores-exploding;  head: None where all heads of the layer are meant
    value: the number that raised it;  words: one sentence, with the layer, the head and the cause
    """

    code: str
    name: str
    layer: str
    head: int | None
    step: int
    value: float
    words: str


@dataclass(frozen=True, eq=False)
class FromRanks:
    """What the ranks of a distributed run had measured since the last time, when rank 0 looked.

    step: of rank 0;  ranks: those that had something to tell, of ``of`` ranks
    layers: by path, over all samples of these ranks, [1, H];  left_out: by path, why ranks do not merge there
    """

    step: int
    ranks: tuple[int, ...]
    of: int
    layers: dict[str, Statistics]
    left_out: dict[str, str]
