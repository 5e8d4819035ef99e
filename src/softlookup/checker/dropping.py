"""What training mode does to the shares: they are solved for, there are fewer keys than features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from softlookup.checker.evidence import Evidence, Observation

_ZERO = 1e-7


@dataclass(frozen=True)
class Dropped:
    """One output in training mode, taken apart."""

    seen: Observation
    weights: Tensor  # [B, H, T_q, T_k] shares without dropout
    shares: Tensor  # [B, H, T_q, T_k] shares that this output shows, from its features that are not 0
    zero_features: Tensor  # [B, H, T_q] features that are exactly 0
    unchanged: bool
    finite: bool

    @property
    def shares_dropped(self) -> bool:
        """Some share is 0 that is none, or the shares keep other proportions."""
        ratio = (self.shares / self.weights.clamp(min=1e-9))[self.weights > 1e-4]
        return bool((ratio.max() - ratio.min()) > 1e-2 * ratio.abs().max())

    @property
    def rows_sum_to_one(self) -> bool:
        """The shares of every row sum to one, as they do after a softmax and not after dropout."""
        return torch.allclose(self.shares.sum(-1), self.shares.new_ones(()), atol=1e-3)


def taken_apart(evidence: Evidence) -> list[Dropped]:
    """Return each output in training mode; none when the target has no dropout, or cannot be solved for."""
    found = []
    for seen in evidence.probes("training-"):
        if seen.output is None:
            continue
        case = seen.case.double()
        eval_output, weights = evidence.steps(case)
        output = seen.output.double()
        finite = bool(output.isfinite().all())
        if case.v.shape[-1] < case.k.shape[-2] + 2 or not eval_output.isfinite().all():
            continue
        values = case.v.repeat_interleave(case.q.shape[1] // case.v.shape[1], dim=1)  # [B, H, T_k, d_v]
        zero = (output.abs() < _ZERO) & (eval_output.abs() > _ZERO)
        shares = _solved(output.nan_to_num(0.0), values, zero)
        unchanged = torch.allclose(output, eval_output, rtol=1e-3, atol=1e-4)
        found.append(Dropped(seen, weights, shares, zero.sum(-1), unchanged, finite))
    return found


def _solved(output: Tensor, values: Tensor, zero: Tensor) -> Tensor:
    """[B, H, T_q, T_k]: least-squares shares of every row, from the features that are not 0."""
    kept = (~zero).double()[..., None]  # [B, H, T_q, d_v, 1]
    system = values.transpose(-2, -1)[:, :, None] * kept  # [B, H, T_q, d_v, T_k]
    shares: Tensor = torch.linalg.pinv(system) @ (output[..., None] * kept)
    return shares[..., 0]


def dropped_after_projection(evidence: Evidence) -> bool:
    """Say whether features are 0 even behind an output projection that mixes all of them."""
    seen = [s for s in evidence.probes("mixed-training-") if s.output is not None]
    return any(bool((s.output.abs() < _ZERO).any()) for s in seen if s.output is not None)
