"""Who saw whom in another run, in the place of who would see whom in this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from softlookup.experiments.intervention import At, Intervention, Which, as_call
from softlookup.experiments.interventions.recorded_rows import need_recording, of_samples, recorded_call
from softlookup.recording import Recording


@dataclass(frozen=True, eq=False, repr=False)
class FrozenMask(Intervention):
    """The visibility of a recording."""

    recording: Recording

    def visible(self, at: At, allowed: Tensor) -> Tensor:
        """Put the recorded visibility in place."""
        recorded = recorded_call(self.recording, at, same=("H", "T_q", "T_k"))
        heads, queries = at.heads.tolist(), at.queries.tolist()
        return of_samples(recorded, at, lambda b: recorded.allowed(b, heads, queries))


def freeze_mask(
    recording: Recording,
    *,
    layer: str | Sequence[str] = "*",
    head: Which = None,
    query: Which = None,
    sample: Which = None,
) -> FrozenMask:
    """Replace the mask by that of another run; scores, and so weights, are those of this one.

    recording, layer, head, query, sample: as in ``freeze_map``

    What the recorded mask shows and the model hides can be shown only where the model computes attention by
    one function: softmax that is written by hand is given scores that are gone.

    Raises: SoftlookupError for what is no recording; when the model runs, for one of other sizes, and for a
    mask that shows what such a model hid.
    """
    found = need_recording("freeze_mask", recording)
    words = as_call("freeze_mask", layer=layer, head=head, query=query, sample=sample)
    return FrozenMask(layer, head, query, sample, words.replace("(", "(recording, ", 1), found)
