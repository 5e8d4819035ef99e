"""Where rows of maps come from: a tensor of weights, or a recorded call. Both give any rows, exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from softlookup.terms import MaskLike, SoftlookupError

#: What may explain rows that do not sum to one: a sink outside the keys takes weight; dropout takes and adds.
Explained = Literal["sink", "dropout"]


class MapLayer(Protocol):
    """The maps of one call of attention.

    name: path of the layer;  kind: "self", "cached" or "cross"
    half: weights in float16 or bfloat16, whose sums are coarser
    explained: what is known to explain rows that do not sum to one
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def num_heads(self) -> int: ...  # noqa: D102
    @property
    def q_len(self) -> int: ...  # noqa: D102
    @property
    def k_len(self) -> int: ...  # noqa: D102
    @property
    def half(self) -> bool: ...  # noqa: D102
    @property
    def explained(self) -> Explained | None: ...  # noqa: D102

    def seen(self, queries: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Return float32 [H, queries, T_k] weights, and who may be looked at: bool [H or 1, queries, T_k].

        None: unknown
        """


@dataclass(frozen=True, eq=False)
class TensorLayer:
    """Maps that lie there as a tensor.

    weights: [H, T_q, T_k]
    mask: bool [H or 1, T_q, T_k], or None
    """

    name: str
    weights: Tensor
    mask: Tensor | None = None
    kind: str = "self"
    explained: Explained | None = None

    @property
    def num_heads(self) -> int:
        """How many heads."""
        return self.weights.shape[0]

    @property
    def q_len(self) -> int:
        """How many queries."""
        return self.weights.shape[1]

    @property
    def k_len(self) -> int:
        """How many keys."""
        return self.weights.shape[2]

    @property
    def half(self) -> bool:
        """Whether the sums are coarse."""
        return self.weights.dtype in (torch.float16, torch.bfloat16)

    def seen(self, queries: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Return weights and mask: see ``MapLayer``."""
        at = _index(queries)
        return self.weights[:, at].float().cpu(), None if self.mask is None else self.mask[:, at].cpu()


class RecordedLayer:
    """Maps of a recorded call, computed from its queries and keys."""

    def __init__(self, recorded: Any, sample: int = 0) -> None:
        call = recorded.call
        self.name, self.kind = str(call.layer), str(call.kind)
        self.num_heads, self.q_len, self.k_len = call.num_heads, call.q_len, call.k_len
        self.half = False  # weights are computed anew, in float32
        self.explained: Explained | None = "sink"  # they come out of a softmax: only sinks take from a row
        self._recorded, self._sample = recorded, sample
        if not 0 <= sample < call.batch_size:
            raise SoftlookupError(
                f"view: {self.name or 'the model'} has no sample {sample}.",
                expected=f"0 to {call.batch_size - 1}",
                got=str(sample),
            )

        ends = [0, self.q_len - 1]
        scores = self._scores(ends)
        same = torch.equal(_softmax(scores, scores != -math.inf), self._weights(ends))
        self._has_sinks = not same  # they take from every row, and show in no score

    def seen(self, queries: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Return weights and mask: see ``MapLayer``. Both come from the scores, which are computed once."""
        scores = self._scores(queries)
        allowed = scores != -math.inf
        weights = self._weights(queries) if self._has_sinks else _softmax(scores, allowed)
        return weights.cpu(), one_for_all_heads(allowed.cpu())

    def _scores(self, queries: Sequence[int]) -> Tensor:
        found: Tensor = self._recorded.scores(sample=self._sample, queries=list(queries))
        return found

    def _weights(self, queries: Sequence[int]) -> Tensor:
        found: Tensor = self._recorded.weights(sample=self._sample, queries=list(queries))
        return found


def _softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Return weights of scores that are -inf where a key is hidden; 0 in rows without keys."""
    weights = scores.softmax(dim=-1)
    blind = ~allowed.any(dim=-1)
    return weights.masked_fill_(blind[..., None], 0.0) if bool(blind.any()) else weights


def tensor_layers(what: Any, mask: Tensor | MaskLike | None = None) -> list[MapLayer]:
    """Return the layers of a tensor [H, T_q, T_k], [L, H, T_q, T_k] or [T_q, T_k], or of several by name.

    A batch axis of size 1 before the heads, as models return it, is taken off.
    mask: who may look at whom in all of them

    Raises: SoftlookupError for another number of axes, an empty axis, or a mask that does not fit.
    """
    layers: list[MapLayer] = []
    for name, weights in _named(what):
        if weights.dim() == 4 and len(weights) == 1:
            weights = weights[0]
        if weights.dim() == 2:
            weights = weights[None]
        if weights.dim() != 3 or 0 in weights.shape:
            raise SoftlookupError(
                f"view: the weights{f' of {name}' if name else ''} are no maps.",
                expected="[H, T_q, T_k], or [L, H, T_q, T_k] for several layers, and no empty axis",
                got=str(list(weights.shape)),
                hint="of a batch, choose one sample: weights[0]",
            )
        if not weights.is_floating_point():
            raise SoftlookupError(
                f"view: the weights{f' of {name}' if name else ''} are no numbers of a softmax.",
                expected="floats",
                got=str(weights.dtype).removeprefix("torch."),
            )
        weights = weights.detach()
        kind = "self" if weights.shape[1] == weights.shape[2] else "cross"
        layers.append(TensorLayer(name, weights, _mask_of(weights, mask, name), kind))
    return layers


def _named(what: Any) -> list[tuple[str, Tensor]]:
    if isinstance(what, Tensor):
        several = what.dim() == 4
        return [(str(n), it) for n, it in enumerate(what)] if several else [("0", what)]
    pairs = list(what.items()) if hasattr(what, "items") else [(str(n), it) for n, it in enumerate(what)]
    for name, it in pairs:
        if not isinstance(it, Tensor):
            raise SoftlookupError(
                f"view: layer {name!r} holds no weights.", expected="a tensor", got=type(it).__name__
            )
    return [(str(name), it) for name, it in pairs]


def _mask_of(weights: Tensor, mask: Any, name: str) -> Tensor | None:
    """Return bool [H or 1, T_q, T_k]: as given, or read off a triangle of exact zeros; None: unknown."""
    H, q_len, k_len = weights.shape
    if mask is None:
        return _causal_if_seen(weights)
    dense = mask if isinstance(mask, Tensor) else mask.dense(q_len, k_len, device=weights.device)
    try:
        spread = dense.expand(H, q_len, k_len) if dense.dim() <= 3 else dense[0].expand(H, q_len, k_len)
    except RuntimeError:
        spread = None
    if spread is None or dense.dtype != torch.bool:
        raise SoftlookupError(
            f"view: allowed_mask does not fit the weights of {name}.",
            expected=f"bool that broadcasts to {[H, q_len, k_len]}, True = may be looked at",
            got=f"{str(dense.dtype).removeprefix('torch.')} {list(dense.shape)}",
        )
    return one_for_all_heads(spread)


def _causal_if_seen(weights: Tensor) -> Tensor | None:
    """Return the causal mask where every weight above the diagonal is exactly 0: nothing else does that.

    A query whose row is 0 in all heads sees no key.
    """
    _, q_len, k_len = weights.shape
    if q_len != k_len or q_len < 2 or bool(weights.triu(1).any()):
        return None
    sees = (weights != 0).any(dim=-1).any(dim=0)
    return torch.ones(1, q_len, k_len, dtype=torch.bool, device=weights.device).tril() & sees[:, None]


def one_for_all_heads(allowed: Tensor) -> Tensor:
    """Return [1, n, T_k] of a mask [H, n, T_k] that is the same for all heads."""
    same = len(allowed) > 1 and bool((allowed == allowed[:1]).all())
    return allowed[:1] if same else allowed


def refuse_invalid(
    layer: MapLayer,
    seen: tuple[Tensor, Tensor | None],
    queries: Sequence[int],
    explained: Explained | None,
) -> None:
    """Refuse rows that no softmax makes: NaN, negative, or of another sum than one.

    seen: rows [H, n, T_k] of these queries, and who may be looked at
    explained: "sink": a sum may be less than one; "dropout": it may be anything

    Raises: SoftlookupError with the layer, head, row and number.
    """
    rows, allowed = seen
    explained = explained or layer.explained
    sums = rows.sum(dim=-1)
    if bool(sums.isfinite().all()) and float(rows.min()) >= 0:
        off = (sums - 1).abs()
        fine = off <= (0.02 if layer.half else 1e-3)
        no_keys = sums == 0 if allowed is None else (sums == 0) & ~allowed.any(dim=-1)
        fine |= no_keys
        if explained == "sink":
            fine |= sums <= 1
        if explained == "dropout" or bool(fine.all()):
            return
        head, row = (int(it) for it in (~fine).nonzero()[0])
        raise _refused(
            layer,
            (head, queries[row]),
            "a row that sums to 1",
            f"a sum of {float(sums[head, row]):.6g}",
            'explained_by="sink" or "dropout" where one of these is why',
        )
    wrong = ~rows.isfinite() | (rows < 0)
    head, row, key = (int(it) for it in wrong.nonzero()[0])
    value = float(rows[head, row, key])
    hint = "scores were given for weights? apply softmax(dim=-1)" if value < 0 else ""
    if math.isnan(value):
        hint = "a row without visible keys gives NaN where a softmax is applied to -inf alone"
    raise _refused(layer, (head, queries[row]), "weights of 0 or more", f"{value:.6g} at key {key}", hint)


def _refused(layer: MapLayer, place: tuple[int, int], expected: str, got: str, hint: str) -> SoftlookupError:
    head, row = place
    return SoftlookupError(
        f"view: the map of layer {layer.name or '(the model)'}, head {head}, is invalid in row {row}.",
        expected=expected,
        got=got,
        hint=hint,
    )


def _index(queries: Sequence[int]) -> Any:
    """Return a slice where the queries are neighbours: it copies nothing."""
    if isinstance(queries, range) and queries.step == 1:
        return slice(queries.start, queries.stop)
    return list(queries)
