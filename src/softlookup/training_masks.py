"""The three masks of a training step, and the labels: they answer three questions and are never one tensor.

    data mask        [B, T]        is this token real, or padding?            for statistics and pooling
    attention mask   [B, 1, T, T]  may this query look at this key?           for attention
    loss mask        [B, T]        does the prediction made here count?       for the loss

A padded key is hidden by the attention mask, a padded target leaves through the loss mask: neither does the
work of the other. A prompt shows why: its tokens are real and looked at, and its targets need not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softlookup.masks import causal, padding_of
from softlookup.masks.accept import per_sample
from softlookup.terms import SoftlookupError


@dataclass(frozen=True)
class TrainingMasks:
    """What ``make_training_masks`` returns.

    data_mask: bool [B, T] True = a real token
    attention_allowed_mask: bool [B, 1, T, T] True = may look: the key is not after the query, and is real
    loss_mask: bool [B, T] True = the label at this place counts
    labels: int64 [B, T] the target, or ignore_index where the loss mask is False
    shifted: True when labels[:, t] is the token at t + 1, to be compared with logits[:, t] as they are
    ignore_index: what to pass to cross_entropy
    """

    data_mask: Tensor
    attention_allowed_mask: Tensor
    loss_mask: Tensor
    labels: Tensor
    shifted: bool
    ignore_index: int


def make_training_masks(
    token_ids: Tensor,
    pad_id: int = 0,
    *,
    lengths: Sequence[int] | Tensor | None = None,
    prompt_lengths: int | Sequence[int] | Tensor = 0,
    shift: bool = True,
    ignore_index: int = -100,
) -> TrainingMasks:
    """Turn token ids into data mask, attention mask, loss mask and labels of a causal language model.

    Shift exactly once. With ``shift=True`` the labels are shifted here: the label at t is the token at t + 1,
    for ``cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)`` on unsliced logits. With
    ``shift=False`` the label at t is the token at t, for models that shift inside when they are given labels
    (transformers' ``model(..., labels=...)``). The wrong choice trains on the token itself, or on the
    one after the next.

    token_ids: [B, T] integers, padded on the right or on the left
    pad_id: tokens with this id are padding
    lengths: [B] real tokens of each sample, padded on the right; give it when the padding id also occurs as a
    real token (an end-of-text token that doubles as padding), whose target would otherwise never be learnt
    prompt_lengths: [B] or one number: real tokens at the start of each sample whose targets do not count
    shift: see above

    With padding on the left the first queries see no key: pass ``empty_rows="zero"`` to the attention.

    Raises: SoftlookupError when token_ids is no integer tensor [B, T], when a sample is all padding, when
    lengths or prompt_lengths do not fit, when no target is left to count, or when ignore_index is a target.

    >>> masks = make_training_masks(torch.tensor([[12, 91, 33, 0, 0], [44, 17, 29, 81, 5]]))
    >>> masks.labels.tolist()
    [[91, 33, -100, -100, -100], [17, 29, 81, 5, -100]]
    >>> masks.attention_allowed_mask.shape
    torch.Size([2, 1, 5, 5])
    """
    real = _real_tokens(token_ids, pad_id, lengths)  # [B, T]
    T = token_ids.shape[1]
    counts = _targets(
        real, _numbers("prompt_lengths", prompt_lengths, token_ids)
    )  # [B, T] at the target's place
    labels = token_ids.to(torch.int64)
    if shift:  # move every target to the place that predicts it; the last place predicts nothing
        nothing = torch.zeros_like(counts[:, :1])
        counts, labels = torch.cat([counts[:, 1:], nothing], dim=1), labels.roll(-1, dims=1)
    _refuse_bad_targets(labels[counts], ignore_index)
    allowed = causal().dense(T, T, device=token_ids.device) & real[:, None, None, :]
    return TrainingMasks(
        real, allowed, counts, labels.masked_fill(~counts, ignore_index), shift, ignore_index
    )


def _targets(real: Tensor, prompt_lengths: Tensor) -> Tensor:
    """[B, T]: which tokens are targets: real, after a real token that predicts it, and not in the prompt."""
    predicted = torch.zeros_like(real)
    predicted[:, 1:] = real[:, 1:] & real[:, :-1]
    tokens_before = real.cumsum(dim=1) - 1  # of a real token: how many real tokens stand before it
    return predicted & (tokens_before >= prompt_lengths[:, None])


def _real_tokens(token_ids: Tensor, pad_id: int, lengths: Any) -> Tensor:
    """[B, T]: True on real tokens."""
    real = padding_of(token_ids, pad_id).dense(1, int(token_ids.shape[-1]))[:, 0, 0]
    if lengths is not None:
        positions = torch.arange(real.shape[1], device=real.device)
        real = positions < _numbers("lengths", lengths, token_ids)[:, None]
    empty = (~real.any(dim=1)).nonzero().flatten().tolist()
    if empty:
        raise SoftlookupError(
            "make_training_masks: a sample is all padding: it has no key to look at and nothing to learn.",
            expected="at least one real token in every sample",
            got=f"none in sample {', '.join(map(str, empty))}",
            hint=f"drop the sample, or check that pad_id = {pad_id} is the padding id of this tokenizer",
        )
    return real.contiguous()


def _numbers(name: str, value: int | Sequence[int] | Tensor, token_ids: Tensor) -> Tensor:
    """[B]: one whole number from 0 to T for each sample."""
    B, T = token_ids.shape
    numbers = torch.tensor(per_sample(name, value), device=token_ids.device)
    numbers = numbers.expand(B) if numbers.dim() == 0 else numbers
    if numbers.shape != (B,) or (numbers > T).any():
        raise SoftlookupError(
            f"make_training_masks: `{name}` does not fit the tokens.",
            expected=f"{B} whole numbers from 0 to {T}",
            got=str(numbers.tolist()),
            sizes={"B": B, "T": T},
        )
    return numbers


def _refuse_bad_targets(targets: Tensor, ignore_index: int) -> None:
    if not len(targets):
        raise SoftlookupError(
            "make_training_masks: no target is left to count: the mean loss over none is nan.",
            expected="at least one real token after another, outside the prompt",
            got="none in the whole batch",
        )
    if (targets == ignore_index).any():
        raise SoftlookupError(
            "make_training_masks: ignore_index is the id of a token that counts: its loss would be lost.",
            expected="a number that is no token id, such as -100",
            got=str(ignore_index),
        )
