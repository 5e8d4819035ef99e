"""What a head found, replaced before the heads merge: by zeros, by its mean, by what it found elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from softlookup.experiments.fast_paths import without_fast_paths
from softlookup.experiments.intervention import At, Intervention, Which, as_call, positions
from softlookup.experiments.interventions.recorded_rows import of_samples, recorded_call
from softlookup.masks.accept import choice
from softlookup.recording import RecordedCall, Recording, record_attention
from softlookup.terms import SoftlookupError

How = Literal["zero", "mean", "resample"]


@dataclass(frozen=True, eq=False, repr=False)
class AblatedHead(Intervention):
    """Outputs of heads replaced. reference: recordings, or inputs of which they are made"""

    how: How
    reference: Any = None
    from_sample: int | None = None
    _means: dict[str, Tensor] = field(default_factory=dict)

    @property
    def any_part(self) -> bool:
        """Whether it is right for parts of the output that are added up: 0 is."""
        return self.how == "zero"

    def prepared(self, model: nn.Module) -> AblatedHead:
        """Record the reference, where inputs were given."""
        if self.how == "zero" or _are_recordings(self.reference):
            return self
        with without_fast_paths():  # which do not show what heads found
            recording = _run(self.reference, lambda *args, **kwargs: record_attention(model, *args, **kwargs))
        return replace(self, reference=(recording,), _means={})

    def mix(self, at: At, outputs: Tensor) -> Tensor:
        """Put something else in the place of what the heads found."""
        if self.how == "zero":
            return torch.zeros_like(outputs)
        if self.how == "mean":
            mean = self._mean_of(at).to(outputs)[at.heads]  # [h, d_v]
            return mean[None, :, None].expand(outputs.shape)
        recorded = recorded_call(self.reference[0], at, same=("H", "T_q"))
        found = _outputs(recorded.outputs, at)
        if self.from_sample is not None:
            if self.from_sample >= len(found):
                raise SoftlookupError(
                    f"{at.words}: the recording has no such sample.",
                    expected=f"0 to {len(found) - 1}",
                    got=str(self.from_sample),
                )
            found = found[self.from_sample][None].expand(at.call.batch_size, -1, -1, -1)
            return found.to(outputs)[at.index()]
        return of_samples(recorded, at, lambda b: found[b][at.heads.cpu()[:, None], at.queries.cpu()]).to(
            outputs
        )

    def _mean_of(self, at: At) -> Tensor:
        """[H, d_v]: of what the heads found over all samples and queries that saw a key."""
        layer = at.call.layer
        if layer not in self._means:
            recorded_call(self.reference[0], at, same=("H",))
            calls = [it for recording in self.reference for it in recording.calls if it.call.layer == layer]
            sums, counts = zip(*(_sum_over_queries(it, at) for it in calls), strict=True)
            self._means[layer] = torch.stack(sums).sum(dim=0) / torch.stack(counts).sum(dim=0)
        return self._means[layer]


def ablate(
    *,
    layer: str | Sequence[str],
    head: Which = None,
    query: Which = None,
    sample: Which = None,
    how: How = "zero",
    reference: Any = None,
    from_sample: int | None = None,
) -> AblatedHead:
    """Ablate heads: replace what they found, [d_v] for each query, before the heads merge.

    layer, head, query, sample: where, as in ``remove_source``; head=None: all heads of the layer
    how: "zero": by zeros. "mean": by the mean of each head over all samples and positions of the reference,
        which keeps what a head adds always. "resample": by what the head found at the same position of
        another input, which keeps its distribution as well
    reference: for "mean" and "resample": a Recording (for "mean" also several), or the inputs of one
        forward, which are recorded as the block begins
    from_sample: for "resample": one sample of the reference for all; None: its sample i for sample i

    Raises: SoftlookupError for another ``how``, or one that has no reference; when the model runs, for a
    reference of other sizes, or one that does not show what the heads found.

    >>> ablate(layer="model.layers.3.self_attn", head=2)
    ablate(layer='model.layers.3.self_attn', head=2)
    """
    how_: Any = choice("how", how, ("zero", "mean", "resample"))
    if (how == "zero") != (reference is None):
        raise SoftlookupError(
            f'ablate: how="{how}" '
            + ("needs no reference." if how == "zero" else "needs to know what the head found elsewhere."),
            expected="no reference"
            if how == "zero"
            else "reference=a Recording, or the inputs of one forward",
            got="a reference" if how == "zero" else "none",
            hint='how="mean" or "resample"' if how == "zero" else "softlookup.recording.record_attention",
        )
    if from_sample is not None and (how != "resample" or positions("from_sample", from_sample) is None):
        raise SoftlookupError(
            "ablate: from_sample picks the sample of a resample ablation.", expected='how="resample"', got=how
        )
    several = isinstance(reference, (list, tuple)) and _are_recordings(tuple(reference))
    if several and how == "resample" and len(reference) != 1:
        raise SoftlookupError(
            "ablate: a resample ablation takes what one recording holds.",
            expected="one Recording",
            got=f"{len(reference)}",
        )
    kept = tuple(reference) if several else (reference,) if isinstance(reference, Recording) else reference
    words = as_call("ablate", layer=layer, head=head, query=query, sample=sample)
    if how != "zero":
        words = (
            words[:-1]
            + f", how={how!r}, reference=reference"
            + (")" if from_sample is None else f", from_sample={from_sample})")
        )
    return AblatedHead(layer, head, query, sample, words, how_, kept, from_sample)


def _are_recordings(reference: Any) -> bool:
    several = isinstance(reference, tuple) and bool(reference)
    return several and all(isinstance(it, Recording) for it in reference)


def _sum_over_queries(recorded: RecordedCall, at: At) -> tuple[Tensor, Tensor]:
    """[H, d_v] and [H, 1]: what the heads found, added up over queries that saw a key, and how many did."""
    found = _outputs(recorded.outputs, at).double()
    saw = torch.stack([recorded.allowed(b).any(dim=-1) for b in range(len(found))])  # [B, H, T_q]
    return (found * saw[..., None]).sum(dim=(0, 2)), saw.sum(dim=(0, 2))[:, None]


def _run(inputs: Any, call: Callable[..., Any]) -> Any:
    if isinstance(inputs, Tensor):
        return call(inputs)
    if hasattr(inputs, "keys"):
        return call(**inputs)
    if isinstance(inputs, (list, tuple)):
        return call(*inputs)
    raise SoftlookupError(
        "ablate: the reference cannot be used.",
        expected="a Recording, or the inputs of one forward: a tensor, a tuple, or a mapping of arguments",
        got=type(inputs).__name__,
    )


def _outputs(outputs: Tensor | None, at: At) -> Tensor:
    if outputs is None:
        raise SoftlookupError(
            f"{at.words}: the recording does not show what heads of {at.call.layer or 'the model'} found.",
            expected="a recording of calls that show it",
            got="a fast path of torch from tokens to tokens, or weights that meet values more than once",
            hint="record inside `with intervene(model):`, which switches the fast paths off",
        )
    return outputs
