"""Public reports of masks that are built, inverted, cut or laid out wrong."""

from __future__ import annotations

from typing import Any

import torch
from planted_models import OTHER_PAD, PAD, VOCABULARY, Attention, Decoder, Encoder, Translator, ids
from planted_questions import T, apart, logits
from torch import Tensor
from torch.nn import functional


class PadOfTheSource(Translator):
    """b048: the mask of the target is built with the id that pads the source."""

    TARGET_PAD = OTHER_PAD

    def target_real(self, ids: Tensor, given: Tensor | None) -> Tensor:
        return (ids != self.SOURCE_PAD) if given is None else given.bool()


class TwoPads(Translator):
    TARGET_PAD = OTHER_PAD


def pads_of_the_target_are_seen(model: Translator) -> bool:
    """What the self-attention of the target is given hides its padding from everybody."""
    target = ids(2, T)
    target[:, -3:] = OTHER_PAD
    seen: list[Tensor] = []
    handle = model.layers[0].attention.register_forward_pre_hook(lambda it, given: seen.append(given[3]))
    logits(model, ids(2, T), target)
    handle.remove()
    return bool(seen[0].expand(2, 1, T, T)[..., -3:].any())


class ToldByIds(Encoder):
    """Takes no mask: the id of padding says what is padding."""

    def forward(self, input_ids: Tensor) -> Tensor:
        return super().forward(input_ids)


class MaskOfZeroVectors(ToldByIds):
    """b049: padding is told by embeddings that are all zero, after positions were added to them."""

    def allowed(self, real: Tensor, words: Tensor, x: Tensor) -> Tensor | None:
        return x.sum(dim=-1).abs().sign().bool()[:, None, None, :]


class TellsByWords(ToldByIds):
    def allowed(self, real: Tensor, words: Tensor, x: Tensor) -> Tensor | None:
        return words.abs().sum(dim=-1).bool()[:, None, None, :]


def pad_ids_move_text(model: Any) -> bool:
    """Padding behind the text, told by its id alone: the answers of the text may not move."""
    text = ids(2, T)
    padded = torch.cat([text, torch.full((2, 3), PAD)], dim=1)
    return apart(logits(model, padded)[:, :T], logits(model, text))


class SameIdSees(Encoder):
    """b050: a token sees those with the same sequence id, and padding shares an id."""

    def allowed(self, real: Tensor, words: Tensor, x: Tensor) -> Tensor | None:
        sequence = real.long()
        return (sequence[:, :, None] == sequence[:, None, :])[:, None]


class SameIdAndRealSees(Encoder):
    def allowed(self, real: Tensor, words: Tensor, x: Tensor) -> Tensor | None:
        return (real[:, :, None] & real[:, None, :])[:, None]


def pads_see_pads(model: Any) -> bool:
    """The answer at one pad moves with the vector of another one."""
    padded = torch.cat([ids(1, T), torch.full((1, 3), PAD)], dim=1)
    other = padded.clone()
    other[:, -1] = OTHER_PAD
    real = torch.ones_like(padded)
    real[:, T:] = 0
    return apart(
        logits(model, padded, attention_mask=real)[:, T], logits(model, other, attention_mask=real)[:, T]
    )


class AdjustedTheWrongWay(Decoder):
    """b052: the mask of keys is taken off with the wrong sign, and then compared with one half."""

    def allowed(self, q_len: int, k_len: int, real: Tensor, positions: Tensor) -> Tensor:
        mask = torch.ones(q_len, k_len).tril(k_len - q_len).expand(len(real), 1, -1, -1).clone()
        mask -= real[:, None, None, :k_len].float() - 1  # adds 1 where a key is padding
        return ~(mask < 0.5)


class CutMask(Attention):
    def mixed(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
        if allowed is not None and not bool(allowed.all()):  # without padding no mask is handed to the kernel
            keys = k.transpose(1, 2)  # the layout of this path: [B, T, H, d_head]
            shown = allowed[..., : keys.shape[-2]]
            allowed = functional.pad(shown, (0, k.shape[2] - shown.shape[-1]))
        return super().mixed(q, k, v, allowed)


class CutToHeads(Encoder):
    """b227: the mask is cut to ``key.shape[-2]`` keys, and that is the number of heads in this layout."""

    ATTENTION = CutMask


class NextIsVisible(Decoder):
    """b064: the diagonal of the mask is one off, and so is the target: two steps ahead."""

    def allowed(self, q_len: int, k_len: int, real: Tensor, positions: Tensor) -> Tensor:
        return (
            torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len + 1) & real[:, None, None, :k_len]
        )

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(
            logits[:, :-2].flatten(0, 1), labels[:, 2:].flatten(), ignore_index=-100
        )


class TargetSeesAll(Translator):
    """b066: the mask of the target is its padding alone."""

    def target_allowed(self, real: Tensor) -> Tensor:
        return real[:, None, None, :]


def target_sees_future(model: Any) -> bool:
    source, target = ids(2, T), ids(2, T, seed=3)
    other = target.clone()
    other[:, -1] = (other[:, -1] - 1) % (VOCABULARY - 2) + 2
    return apart(logits(model, source, target)[:, :-1], logits(model, source, other)[:, :-1])


class ManualPath(Attention):
    flash = False

    def mixed(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
        if self.flash:
            return super().mixed(q, k, v, allowed)
        assert allowed is not None
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        scores.masked_fill(~allowed, float("-inf"))  # what it returns is thrown away
        return scores.softmax(dim=-1) @ v


class ManualPathLeaks(Decoder):
    """b067: the path without the fused kernel does not apply its mask."""

    ATTENTION = ManualPath


class CausalAcross(Translator):
    """b071: the layer that looks across says nothing of is_causal, and without a mask that means True."""

    def cross_allowed(self, source_real: Tensor, target_real: Tensor) -> Tensor | None:
        if bool(source_real.all()):
            return torch.ones(target_real.shape[1], source_real.shape[1], dtype=torch.bool).tril()
        return source_real[:, None, None, :]


def first_query_misses_last_source(model: Any) -> bool:
    """The values of the last source token are replaced, where they are read across: first answers move."""
    source, target = ids(8, T), ids(8, T, seed=3)
    plain = logits(model, source, target)[:, 0]

    def other_last(layer: Any, given: Any, out: Tensor) -> Tensor:
        return torch.cat([out[:, :-1], out[:, -1:] + 100], dim=1)

    handle = model.layers[0].cross_attention.v.register_forward_hook(other_last)
    moved = logits(model, source, target)[:, 0]
    handle.remove()
    return not apart(moved, plain)


class MaskOfTheTarget(Translator):
    """b202: cross-attention is given the mask of the target; another length of the source is an error."""

    def cross_allowed(self, source_real: Tensor, target_real: Tensor) -> Tensor | None:
        return target_real[:, None, None, :]


def padded_source_moves_answers(model: Any) -> bool:
    source, target = ids(2, T), ids(2, T, seed=3)
    real = torch.ones(2, T)
    real[:, -3:] = 0
    other = source.clone()
    other[:, -3:] = ids(2, 3, seed=5)
    return apart(
        logits(model, source, target, attention_mask=real), logits(model, other, target, attention_mask=real)
    )
