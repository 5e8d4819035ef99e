"""2.5 Predict it: one line is changed.

Below is scaled dot-product attention, and eight changes of a single line. After each change five invariants
are asked, one after another. Say for each change which of them fails FIRST, or "none" where all of them hold.
Write your predictions before you run anything; `softlookup learn check` then holds them against what happens.
Afterwards `python FILE` shows every measurement.
"""

import inspect
import math

import torch
import torch.nn.functional as F

PREDICTIONS = {
    "no-scale": "same-as-fused",
    "softmax-over-dim-2": "rows-sum-to-one",
    "no-softmax": "rows-sum-to-one",
    "dot-T": "shapes",
    "exp-by-hand": "large-scores-are-finite",
    "divided-by-sum": "weights-are-shares",
    "keys-mixed": "shapes",
    "einsum": "none",
}


def attention(q, k, v):
    """Return the output and the weights; q: (B, T_q, d_k)   k: (B, T_k, d_k)   v: (B, T_k, d_v)."""
    scores = q @ k.transpose(-2, -1)  # (B, T_q, T_k)
    scores = scores / math.sqrt(q.size(-1))  # (B, T_q, T_k)
    weights = torch.softmax(scores, dim=-1)  # (B, T_q, T_k)
    output = weights @ v  # (B, T_q, d_v)
    return output, weights


#: change -> the code that goes, the code that comes
CHANGES = {
    "no-scale": ("scores / math.sqrt(q.size(-1))", "scores"),
    "softmax-over-dim-2": ("torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=-2)"),
    "no-softmax": ("torch.softmax(scores, dim=-1)", "scores"),
    "dot-T": ("q @ k.transpose(-2, -1)", "q @ k.T"),
    "exp-by-hand": ("torch.softmax(scores, dim=-1)", "scores.exp() / scores.exp().sum(-1, keepdim=True)"),
    "divided-by-sum": ("torch.softmax(scores, dim=-1)", "scores / scores.sum(-1, keepdim=True)"),
    "keys-mixed": ("weights @ v", "weights @ k"),
    "einsum": ("q @ k.transpose(-2, -1)", 'torch.einsum("bqd,bkd->bqk", q, k)'),
}


# The invariants, in the order in which they are asked. Each returns whether it holds, and what it measured.


def shapes(attend, q, k, v):
    """The call runs; the output is (B, T_q, d_v) and the weights are (B, T_q, T_k)."""
    try:
        output, weights = attend(q, k, v)
    except RuntimeError as error:
        return False, f"it stops: {str(error).splitlines()[0]}"
    due = (*q.shape[:-1], v.size(-1)), (*q.shape[:-1], k.size(-2))
    return (output.shape, weights.shape) == due, f"output {tuple(output.shape)}, weights {tuple(weights.shape)}"


def rows_sum_to_one(attend, q, k, v):
    """The weights of every query sum to one."""
    sums = attend(q, k, v)[1].sum(-1)
    return torch.allclose(sums, torch.ones_like(sums)), f"the rows sum to {sums.min():.4f} ... {sums.max():.4f}"


def weights_are_shares(attend, q, k, v):
    """No weight is below zero or above one."""
    weights = attend(q, k, v)[1]
    words = f"the weights lie between {weights.min():.4f} and {weights.max():.4f}"
    return bool(((weights >= 0) & (weights <= 1)).all()), words


def large_scores_are_finite(attend, q, k, v):
    """There is no NaN and no infinity when all dot products are 100 times as large."""
    finite = attend(q * 100, k, v)[1].isfinite()
    return bool(finite.all()), f"{int((~finite).sum())} of {finite.numel()} weights are NaN or infinite"


def same_as_fused(attend, q, k, v):
    """The output is that of torch's own fused attention."""
    apart = (attend(q, k, v)[0] - F.scaled_dot_product_attention(q, k, v)).abs().max().item()
    return apart < 1e-5, f"the outputs are at most {apart:.6f} apart"


INVARIANTS = {
    "shapes": shapes,
    "rows-sum-to-one": rows_sum_to_one,
    "weights-are-shares": weights_are_shares,
    "large-scores-are-finite": large_scores_are_finite,
    "same-as-fused": same_as_fused,
}


def changed(change):
    """Return attention with one change made."""
    goes, comes = CHANGES[change]
    made = dict(globals())
    exec(inspect.getsource(attention).replace(goes, comes), made)
    return made["attention"]


def measured(change):
    """Return (invariant, whether it holds, what it measured) up to the first that fails."""
    torch.manual_seed(2)
    q, k, v = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)
    found = []
    for name, invariant in INVARIANTS.items():
        found.append((name, *invariant(changed(change), q, k, v)))
        if not found[-1][1]:
            break
    return found


if __name__ == "__main__":
    for change in CHANGES:
        print(change)
        for name, holds, words in measured(change):
            print(f"  {'ok   ' if holds else 'FAILS'} {name}: {words}")
