"""faithfulness: does a row of an attention map say which keys matter?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.experiments.intervening import intervene
from softlookup.experiments.metrics import fitting_metric, read_metric
from softlookup.experiments.one_input import Input, read_inputs
from softlookup.experiments.removing import Removal, measured_row
from softlookup.experiments.slopes import AddedToRow, row_slopes
from softlookup.experiments.verdicts import Verdict, verdict_on
from softlookup.recording import RecordedCall, record_attention
from softlookup.terms import SoftlookupError, did_you_mean


def faithfulness(
    model: nn.Module,
    inputs: Any,
    *,
    layer: str | int,
    head: int,
    query: int | Sequence[int] = -1,
    metric: Any = None,
    how: Removal | None = None,
) -> Verdict:
    """Say whether the weights of one head and query predict what removing their keys does.

    inputs: as ``effect`` takes them
    layer: its path, or its number among the layers of attention, from 0
    query: its position, counted from the end if negative; one for all inputs or one each
    metric: as ``effect`` takes it; None: the KL divergence of the predictions at all positions where the
        output has logits, else how far the output moves
    how: how many keys, random orders and shuffles, and the level of the intervals

    A key is removed in two ways. *Hidden*: before the softmax, so that its weight goes to the other keys.
    *Silenced*: its share is taken out, and the others keep their weights. Only what both show counts:

    - "faithful": the ranking of keys by weight goes with both effects (rank correlation of at least 0.5, its
      interval above 0, and better than shuffled weights), hiding the most weighted keys first does more than
      other orders, and a uniform row does not give the same.
    - "misleading": a heavy key gives nothing (silenced, nothing changes; by itself, it is as no key at
      all), while a lighter key gives something; or keys with more weight matter less. A decoy, with weight
      on a value of no length, is found so: hiding it alone would not do, for that changes the output by
      handing its weight to others.
    - "not shown": everything else. A row in which no removal changes anything, such as that of a sink, has no
      part in what is measured, so that its weights are neither right nor wrong. Keys that hold the same
      value are removed together: one of them alone is replaced by the other.

    The verdict is about these inputs, this query and this metric.

    Raises: SoftlookupError when there is no such layer, head or query, or the metric does not fit the output.

    >>> import torch, softlookup
    >>> from softlookup.experiments import faithfulness
    >>> _ = torch.manual_seed(0)
    >>> model = softlookup.MultiHeadAttention(8, num_heads=2).eval()
    >>> print(faithfulness(model, [torch.randn(1, 1, 8)], layer=0, head=1).words)
    not shown: the query sees one key, so that nothing is ranked
    """
    given = read_inputs(inputs)
    how = Removal() if how is None else how
    if not isinstance(how, Removal):
        raise SoftlookupError(
            "faithfulness: `how` cannot be used.", expected="Removal(...)", got=type(how).__name__
        )
    how = how.for_inputs(len(given))
    measured = None if metric is None else read_metric(metric)
    rows = []
    path = layer
    with intervene(model):  # replacements stay in place from run to run
        for it in given:
            call, output, place = _recorded(model, it, layer, head, query)
            path, measured = call.call.layer, measured or fitting_metric(output, "all")
            rows.append(measured_row(model, it, call, place, (measured, how)))
    assert measured is not None
    return verdict_on(rows, (str(path), head), measured.size_words, how.resampling)


@dataclass(frozen=True, eq=False)
class RowGradients:
    """How what is measured moves with each weight of a row. All float64 [T_k].

    gradient: along each weight; of a distance, which is flat where nothing is changed, how fast it starts to
        grow, without a sign;  product: attention x gradient
    """

    weights: Tensor
    gradient: Tensor
    product: Tensor


def attention_gradients(
    model: nn.Module,
    inputs: Any,
    *,
    layer: str | int,
    head: int,
    query: int | Sequence[int] = -1,
    metric: Any = None,
) -> tuple[RowGradients, ...]:
    """Return the gradient of what is measured by the weights of one row, an entry an input.

    inputs, layer, head, query, metric: as in ``faithfulness``

    A gradient says what a small change of a weight would do, not what removing its key does: hold it against
    ``faithfulness``, which does so. The model and its own gradients stay as they are.

    Raises: as ``faithfulness``; SoftlookupError for a metric without a gradient.

    >>> import torch, softlookup
    >>> from softlookup.experiments import attention_gradients
    >>> _ = torch.manual_seed(0)
    >>> model = softlookup.MultiHeadAttention(8, num_heads=2).eval()
    >>> (row,) = attention_gradients(model, [torch.randn(1, 5, 8)], layer=0, head=1)
    >>> row.product.shape
    torch.Size([5])
    """
    measured = None if metric is None else read_metric(metric)
    found = []
    with intervene(model):
        for it in read_inputs(inputs):
            call, output, (head_, query_) = _recorded(model, it, layer, head, query)
            measured = measured or fitting_metric(output, "all")
            weights = call.weights(heads=[head_], queries=[query_])[0, 0].double().cpu()
            added = torch.zeros(len(weights), requires_grad=True)
            row = AddedToRow(call.call.layer, head_, query_, added)
            slopes = row_slopes(model, it, row, measured, seed=0)
            if slopes is None:
                raise SoftlookupError(
                    f"attention_gradients: the metric {measured.name!r} has no gradient.",
                    expected="a tensor that was computed from the output of the model",
                    got="a number without one",
                )
            found.append(RowGradients(weights, slopes, weights * slopes))
    return tuple(found)


def _recorded(
    model: nn.Module, given: Input, layer: str | int, head: int, query: int | Sequence[int]
) -> tuple[RecordedCall, Any, tuple[int, int]]:
    """The call of the layer, what the model returned, and head and query counted from the start."""
    fresh = given.fresh()
    recording = record_attention(model, *fresh.args, **fresh.kwargs)
    path = _path(recording.layers, layer)
    calls = [call for call in recording.calls if call.call.layer == path]
    return calls[0], recording.output, _row_of(calls, head, query, given)


def _path(layers: Sequence[str], layer: str | int) -> str:
    """The path of a layer, which may be given by its number."""
    if isinstance(layer, str) and layer in layers:
        return layer
    if isinstance(layer, int) and -len(layers) <= layer < len(layers):
        return layers[layer]
    raise SoftlookupError(
        "experiments: the model has no such layer of attention.",
        expected=f"a number below {len(layers)}, or one of {', '.join(layers)}",
        got=repr(layer),
        hint=did_you_mean(str(layer), layers),
    )


def _row_of(
    calls: Sequence[RecordedCall], head: int, query: int | Sequence[int], given: Input
) -> tuple[int, int]:
    """Head and query, counted from the start."""
    call = calls[0].call
    if len(calls) > 1 or call.batch_size != 1:
        raise SoftlookupError(
            f"experiments: {call.layer!r} is not called once for one sample.",
            expected="one call of the layer in a forward, and one sample an input",
            got=f"{len(calls)} calls of {call.batch_size} samples",
        )
    wanted = query if isinstance(query, int) else query[given.number]
    for name, number, size in (("head", head, call.num_heads), ("query", wanted, call.q_len)):
        least = -size if name == "query" else 0
        if not least <= number < size:
            raise SoftlookupError(
                f"experiments: {call.layer!r} has no such {name} for input {given.number}.",
                expected=f"{least}..{size - 1}",
                got=str(number),
            )
    return head, wanted % call.q_len
