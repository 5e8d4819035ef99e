"""What a run of a model came to, and how far a changed run lies from it.

A model that predicts tokens or classes has logits: the difference of the two likeliest, and the divergence of
the whole distribution. An encoder without a head has only its final hidden states: their distance, pooled
over the tokens as sentence encoders do it, and token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from softlookup.model_texts import vocabulary_size
from softlookup.terms import SoftlookupError

Kind = Literal["tokens", "classes", "states"]

MEANS: dict[Kind, str] = {
    "tokens": "Measured are the logits over the vocabulary at one position",
    "classes": "Measured are the logits over the classes",
    "states": "This model has no logits: effects are distances between its final hidden states",
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a model returned.

    values: [T, V] logits of tokens, [1, C] of classes, or [T, d] hidden states
    written: where they are in the output, as Python, e.g. "output.logits"
    """

    kind: Kind
    values: Tensor
    written: str = "output"

    def at(self, position: int) -> Tensor:
        """Return the logits at a position; those over classes have none."""
        return self.values[0 if self.kind == "classes" else position]


def outcome_of(model: nn.Module, output: Any) -> Outcome:
    """Read logits or hidden states of the first sample out of what a model returned; float32, on the CPU.

    Raises: SoftlookupError when there is neither.
    """
    named = output if isinstance(output, Mapping) else {}
    logits, states = named.get("logits"), named.get("last_hidden_state")
    written = "output.logits" if logits is not None else "output.last_hidden_state"
    if logits is None and states is None:
        several = isinstance(output, (tuple, list)) and len(output) > 0
        first, written = (output[0], "output[0]") if several else (output, "output")
        if isinstance(first, Tensor) and first.dim() in (2, 3) and first.is_floating_point():
            is_logits = first.dim() == 2 or first.shape[-1] == vocabulary_size(model)
            logits, states = (first, None) if is_logits else (None, first)
    if logits is not None:
        kind: Kind = "tokens" if logits.dim() == 3 else "classes"
        return Outcome(kind, _first(logits if logits.dim() == 3 else logits[:, None]), written)
    if states is not None:
        return Outcome("states", _first(states), written)
    raise SoftlookupError(
        "lab: what this model returns could not be read.",
        expected="logits [B, T, V] or [B, C], or hidden states [B, T, d]",
        got=type(output).__name__,
    )


def _first(values: Tensor) -> Tensor:
    return values[0].detach().to("cpu", torch.float32)


def compared(before: Outcome, after: Outcome, at: int, name: Callable[[int], str]) -> dict[str, Any]:
    """Return the numbers by which a changed run differs from the unchanged one.

    at: the position whose prediction is compared;  name: what a token or a class is called
    """
    if before.kind == "states":
        return _states_compared(before.values, after.values)
    old, new = before.at(at), after.at(at)
    if not bool(new.isfinite().all()):
        raise SoftlookupError("lab: the changed run gave NaN or inf.", got="logits that are not finite")
    log_old, log_new = old.log_softmax(-1), new.log_softmax(-1)
    best, second = old.topk(min(2, len(old))).indices[[0, -1]].tolist()
    return {
        "kind": before.kind,
        "before": top_predictions(log_old, log_new, name),
        "after": top_predictions(log_new, log_old, name),
        "pair": [name(best), name(second)],
        "logit_difference": [float(old[best] - old[second]), float(new[best] - new[second])],
        "kl_nats": max(0.0, float((log_old.exp() * (log_old - log_new)).sum())),
        "identical": bool(torch.equal(before.values, after.values)),
    }


def top_predictions(
    log_p: Tensor, log_other: Tensor, name: Callable[[int], str], most: int = 6
) -> list[dict[str, Any]]:
    """Return the likeliest tokens or classes: its name, and its probability here and in the other run."""
    found = log_p.topk(min(most, len(log_p))).indices.tolist()
    return [
        {"id": it, "token": name(it), "p": float(log_p[it].exp()), "other": float(log_other[it].exp())}
        for it in found
    ]


def _states_compared(old: Tensor, new: Tensor) -> dict[str, Any]:
    pooled_old, pooled_new = old.mean(0), new.mean(0)
    by_token = (new - old).norm(dim=-1) / old.norm(dim=-1).clamp_min(1e-12)
    return {
        "kind": "states",
        "cosine_distance": pooled_distance(old, new),
        "pooled_change": float((pooled_new - pooled_old).norm() / pooled_old.norm().clamp_min(1e-12)),
        "by_token": [float(it) for it in by_token],
        "identical": bool(torch.equal(old, new)),
    }


def pooled_distance(old: Tensor, new: Tensor) -> float:
    """Return one minus the cosine of two mean-pooled sets of hidden states, [T, d] each."""
    a, b = old.double().mean(0), new.double().mean(0)
    return max(0.0, 1.0 - float(a @ b / (a.norm() * b.norm()).clamp_min(1e-30)))
