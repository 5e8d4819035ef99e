"""Attention written anew in plain tensors [B, H, T_q, T_k], with one thing done otherwise.

Nothing of softlookup is used here. ``Reference`` takes the place of the function by which a family of
transformers attends when it is "eager", and computes the layer that an experiment is about by hand.
"""

import contextlib
import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1] / "live"))

NOWHERE = float("-inf")


def attention_by_hand(q, k, v, added, scaling, change):
    """Return what heads find, their weights and who was seen. added: mask and biases, or None."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    v = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * scaling
    if added is not None:
        scores = scores + added
    seen = scores > -1e4
    scores = scores.masked_fill(~seen, NOWHERE)
    if change.of_outputs:
        return change.outputs(_mixed(scores.softmax(-1).nan_to_num(0.0), v)), seen
    return change(scores, v), seen


def _mixed(weights, v):
    return torch.einsum("bhij,bhjd->bhid", weights, v)


class Change:
    """Nothing done otherwise."""

    of_outputs = False

    def __call__(self, scores, v):
        return _mixed(self.weights(self.scores(scores)), v)

    def scores(self, scores):
        return scores

    def weights(self, scores):
        return scores.softmax(-1).nan_to_num(0.0)


class Keeping(Change):
    """Nothing done otherwise, and the weights kept."""

    def weights(self, scores):
        self.kept = super().weights(scores)
        return self.kept


class WithoutKey(Change):
    """Key ``key`` is gone for one head."""

    def __init__(self, key, head):
        self.key, self.head = key, head

    def scores(self, scores):
        scores = scores.clone()
        scores[:, self.head, :, self.key] = NOWHERE
        return scores


class Scaled(Change):
    """The scores of one head, times a factor."""

    def __init__(self, factor, head):
        self.factor, self.head = factor, head

    def scores(self, scores):
        return torch.stack(
            [scores[:, h] * (self.factor if h == self.head else 1.0) for h in range(scores.shape[1])], dim=1
        )


class Uniform(Change):
    """One head looks at all that it sees alike."""

    def __init__(self, head):
        self.head = head

    def weights(self, scores):
        weights = super().weights(scores).clone()
        for b in range(len(weights)):
            for i in range(weights.shape[2]):
                seen = scores[b, self.head, i] > NOWHERE
                weights[b, self.head, i] = seen.to(weights) / max(int(seen.sum()), 1)
        return weights


class PreviousToken(Change):
    """One head looks at the nearest seen token before its own."""

    def __init__(self, head):
        self.head = head

    def weights(self, scores):
        weights = super().weights(scores).clone()
        ahead = scores.shape[3] - scores.shape[2]
        for b in range(len(weights)):
            for i in range(weights.shape[2]):
                seen = [j for j in range(scores.shape[3]) if scores[b, self.head, i, j] > NOWHERE]
                before = [j for j in seen if j < i + ahead]
                weights[b, self.head, i] = 0.0
                if before or i + ahead in seen:
                    weights[b, self.head, i, before[-1] if before else i + ahead] = 1.0
        return weights


class Given(Change):
    """One head has weights that are given: [B, H, T_q, T_k]."""

    def __init__(self, given, head):
        self.given, self.head = given, head

    def weights(self, scores):
        weights = super().weights(scores).clone()
        weights[:, self.head] = self.given[:, self.head].to(weights)
        return weights


class GivenMask(Change):
    """One head sees what is given: bool [B, H, T_q, T_k]."""

    def __init__(self, given, head):
        self.given, self.head = given, head

    def scores(self, scores):
        scores = scores.clone()
        scores[:, self.head] = scores[:, self.head].masked_fill(~self.given[:, self.head], NOWHERE)
        return scores


class Outputs(Change):
    """What one head found, replaced: by ``of``, a function of it [B, T_q, d_v]."""

    of_outputs = True

    def __init__(self, of, head):
        self.of, self.head = of, head

    def outputs(self, old):
        parts = [self.of(old[:, h]) if h == self.head else old[:, h] for h in range(old.shape[1])]
        return torch.stack(parts, dim=1)


class Reference:
    """Stands for the eager attention of a family: does one layer by hand, and keeps what it saw of it.

    module: of transformers, where the family's eager function lives;  layer: the module of the layer
    """

    def __init__(self, module, layer, change=None):
        self.module, self.layer, self.change = module, layer, change or Change()
        self.heads = self.seen = None

    def __call__(self, module, query, key, value, attention_mask, scaling=None, position_bias=None, **kwargs):
        if module is not self.layer:
            return self.original(
                module,
                query,
                key,
                value,
                attention_mask,
                scaling=scaling,
                **({} if position_bias is None else {"position_bias": position_bias}),
                **kwargs,
            )
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        added = position_bias
        if attention_mask is not None:
            added = attention_mask if added is None else attention_mask + added
        self.heads, self.seen = attention_by_hand(query, key, value, added, scaling, self.change)
        return self.heads.transpose(1, 2).contiguous(), None

    @contextlib.contextmanager
    def in_place(self):
        """Attend in this way while the block runs."""
        self.original = self.module.eager_attention_forward
        self.module.eager_attention_forward = self
        try:
            yield self
        finally:
            self.module.eager_attention_forward = self.original


def first_tensor(output):
    """The main tensor of what a model returned."""
    if isinstance(output, torch.Tensor):
        return output
    return output[0] if isinstance(output, tuple) else next(iter(output.values()))
