"""What interventions take from a recording: the call that goes with the one at hand, of the same sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from softlookup.experiments.intervention import At
from softlookup.recording import RecordedCall, Recording
from softlookup.terms import SoftlookupError


def need_recording(name: str, value: Any) -> Recording:
    """Return a recording.

    Raises: SoftlookupError for anything else.
    """
    if isinstance(value, Recording):
        return value
    raise SoftlookupError(
        f"{name}: there is no recording to take this from.",
        expected="a Recording",
        got=type(value).__name__,
        hint="softlookup.recording.record_attention(model, inputs)",
    )


def recorded_call(recording: Recording, at: At, *, same: tuple[str, ...]) -> RecordedCall:
    """Return the call of the same layer and number.

    same: the sizes that must agree: of "H", "T_q" and "T_k"

    Raises: SoftlookupError where it was not recorded, or has other sizes.
    """
    call = at.call
    calls = [it for it in recording.calls if it.call.layer == call.layer]
    if not calls:
        raise SoftlookupError(
            f"{at.words}: the recording has no layer {call.layer!r}.",
            expected="one of " + ", ".join(recording.layers),
            got=call.layer,
        )
    if len(calls) > 1 and torch._C._current_graph_task_id() != -1:
        raise SoftlookupError(
            f"{at.words}: a checkpoint computes {call.layer!r} again, and which of its calls this is does not"
            " show.",
            expected="a layer that is called once in a forward",
            got=f"{len(calls)} calls",
        )
    number = 0 if len(calls) == 1 else call.number
    found = recording.call(call.layer, number)
    ours, theirs = _sizes(call), _sizes(found.call)
    if any(ours[it] != theirs[it] for it in same):
        raise SoftlookupError(
            f"{at.words}: the recording of {call.layer or 'the model'} has other sizes.",
            expected=", ".join(f"{it}={ours[it]}" for it in same),
            got=", ".join(f"{it}={theirs[it]}" for it in same),
            hint="record inputs of the same length",
        )
    return found


def of_samples(recorded: RecordedCall, at: At, made: Callable[[int], Tensor]) -> Tensor:
    """[S, ...]: what is made of the recorded sample that goes with each sample at hand.

    Raises: SoftlookupError unless the recording has as many samples, or a single one, which goes with all.
    """
    recorded_size, size = recorded.call.batch_size, at.call.batch_size
    if recorded_size not in (1, size):
        raise SoftlookupError(
            f"{at.words}: the recording has another number of samples.",
            expected=f"{size}, or 1 for all",
            got=str(recorded_size),
        )
    kept = {it: made(it if recorded_size > 1 else 0) for it in set(at.samples.tolist())}
    return torch.stack([kept[it] for it in at.samples.tolist()]).to(at.samples.device)


def _sizes(call: Any) -> dict[str, int]:
    return {"H": call.num_heads, "T_q": call.q_len, "T_k": call.k_len}
