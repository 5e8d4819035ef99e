"""Maps of another run in the place of those of this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from softlookup.experiments.intervention import At, Intervention, Which, as_call
from softlookup.experiments.interventions.recorded_rows import need_recording, of_samples, recorded_call
from softlookup.recording import Recording


@dataclass(frozen=True, eq=False, repr=False)
class FrozenMap(Intervention):
    """The weights of a recording."""

    recording: Recording

    def normalize(self, at: At, weights: Tensor) -> Tensor:
        """Put the recorded weights in place."""
        recorded = recorded_call(self.recording, at, same=("H", "T_q", "T_k"))
        heads, queries = at.heads.tolist(), at.queries.tolist()
        return of_samples(recorded, at, lambda b: recorded.weights(b, heads, queries, dtype=weights.dtype))


def freeze_map(
    recording: Recording,
    *,
    layer: str | Sequence[str],
    head: Which = None,
    query: Which = None,
    sample: Which = None,
) -> FrozenMap:
    """Replace maps by those of another run: the model mixes its own values in the recorded shares.

    recording: of ``record_attention``, with as many samples, or one that goes with all; lengths must agree
    layer, head, query, sample: where, as in ``remove_source``

    Gradients reach the values and not the map.

    Raises: SoftlookupError for what is no recording; when the model runs, for one of other sizes.

    >>> from softlookup.recording import record_attention
    >>> import torch
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    >>> freeze_map(record_attention(model, torch.randn(1, 3, 8)), layer="self_attn", head=0)
    freeze_map(recording, layer='self_attn', head=0)
    """
    found = need_recording("freeze_map", recording)
    words = as_call("freeze_map", layer=layer, head=head, query=query, sample=sample)
    return FrozenMap(layer, head, query, sample, words.replace("(", "(recording, ", 1), found)
