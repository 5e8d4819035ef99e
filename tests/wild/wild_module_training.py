"""What it means for a wild module to answer rightly in training: dropout on the weights, and the same paths."""

import torch
import torch.nn.functional as F

from wild_checks import REAL, TRIANGLE, same
from wild_module_answers import HEADS, X, heads_of, lookup, merged


def dropped_in_training_only(want, *given):
    """A check: eval mode gives the answer, and training mode does not, since weights are dropped at rate 0.5."""

    def check(m):
        right = same(m(*given), want(m))
        return right and not same(m.train()(*given), want(m))

    return check


def drops_weights(names, given=(X,), x=(X, X, X), allowed=None):
    """A check: in training the output is that of weights dropped at rate 0.5, drawn from the same seed."""

    def check(m):
        q, k, v, out = (m.get_submodule(n) for n in names.split())
        q, k, v = (heads_of(layer(t)) for layer, t in zip((q, k, v), x))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = (scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)).softmax(-1)
        torch.manual_seed(2)
        want = out(merged(F.dropout(weights, 0.5) @ v))
        torch.manual_seed(2)
        return same(m.train()(*given), want) and same(m.eval()(*given), out(merged(weights @ v)))

    return check


def grouped_layers(m):
    k, v = (
        layer(X).unflatten(-1, (HEADS // 2, -1)).repeat_interleave(2, dim=2).flatten(2)
        for layer in (m.k_proj, m.v_proj)
    )
    return m.output_proj(lookup(m.q_proj(X), k, v, TRIANGLE))


def on_a_grid(m):
    """(batch, channels, 2, 3) as 6 points."""

    def points(layer, x):
        return layer(x.mT.unflatten(2, (2, 3))).flatten(2).mT

    mixed = lookup(points(m.q_proj, X), points(m.k_proj, X), points(m.v_proj, X))
    return points(m.proj, mixed).mT.unflatten(2, (2, 3))


def training_and_evaluation_agree(m):
    hidden = REAL.clone().logical_not()
    hidden[:, -1] = True  # a position that is padding in every sample
    with torch.no_grad():
        return same(m.eval()(X, hidden), m.train()(X, hidden)) and same(m.eval()(X), m.train()(X))
