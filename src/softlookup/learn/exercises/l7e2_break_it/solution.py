"""7.2 Predict it: break it on purpose.

A check that has never failed may be a check that cannot fail. So break the attention of 7.1 on purpose,
in eight ways, and say for each of them which of the four facts fails FIRST, or "none" where all of them
hold. Write your predictions before you run anything; `softlookup learn check` then holds them against
what happens. Afterwards `python FILE` shows every measurement.
"""

import inspect
import math

import torch
import torch.nn.functional as F

PREDICTIONS = {
    "softmax-over-dim-2": "rows-sum-to-one",
    "tril-to-triu": "future-is-zero",
    "diagonal-hidden": "rows-sum-to-one",
    "diagonal-plus-one": "future-is-zero",
    "hidden-with-minus-9": "future-is-zero",
    "zeroed-after-softmax": "rows-sum-to-one",
    "keys-in-place-of-values": "same-as-fused",
    "mean-in-place-of-heads": "shapes",
}


def attention(q, k, v):
    """Return output (B, H, T, d_head) and weights (B, H, T, T); q, k, v: (B, H, T, d_head)."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones_like(scores).tril().bool()  # (B, H, T, T)
    scores = scores.masked_fill(~allowed, -math.inf)  # (B, H, T, T)
    weights = torch.softmax(scores, dim=-1)  # (B, H, T, T)
    return weights @ v, weights


#: change -> the code that goes, the code that comes
CHANGES = {
    "softmax-over-dim-2": ("torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=-2)"),
    "tril-to-triu": (".tril()", ".triu()"),
    "diagonal-hidden": (".tril()", ".tril(-1)"),
    "diagonal-plus-one": (".tril()", ".tril(1)"),
    "hidden-with-minus-9": ("-math.inf", "-9"),
    "zeroed-after-softmax": (
        "scores = scores.masked_fill(~allowed, -math.inf)  # (B, H, T, T)\n"
        "    weights = torch.softmax(scores, dim=-1)",
        "weights = torch.softmax(scores, dim=-1).masked_fill(~allowed, 0)",
    ),
    "keys-in-place-of-values": ("return weights @ v", "return weights @ k"),
    "mean-in-place-of-heads": ("return weights @ v, weights", "return weights @ v, weights.mean(dim=1)"),
}


# The four facts, in the order in which they are asked. Each returns whether it holds, and what it measured.


def shapes(q, k, v, output, weights):
    """The output is (B, H, T, d_head) and the weights are (B, H, T, T)."""
    due = q.shape, (*q.shape[:-1], q.size(-2))
    words = f"output {tuple(output.shape)}, weights {tuple(weights.shape)}"
    return (output.shape, weights.shape) == due, words


def rows_sum_to_one(q, k, v, output, weights):
    """The weights of every query sum to one."""
    sums = weights.sum(dim=-1)
    words = f"the rows sum to {sums.min():.4f} ... {sums.max():.4f}"
    return torch.allclose(sums, torch.ones_like(sums)), words


def future_is_zero(q, k, v, output, weights):
    """No query gives any weight to a key after it."""
    most = weights.triu(1).max().item()
    return most == 0, f"the largest weight on the future is {most:.4g}"


def same_as_fused(q, k, v, output, weights):
    """The output is that of torch's own causal attention."""
    apart = (output - F.scaled_dot_product_attention(q, k, v, is_causal=True)).abs().max().item()
    return apart < 1e-6, f"the outputs are at most {apart:.7f} apart"


FACTS = {
    "shapes": shapes,
    "rows-sum-to-one": rows_sum_to_one,
    "future-is-zero": future_is_zero,
    "same-as-fused": same_as_fused,
}


def measured(change):
    """Return (fact, whether it holds, what it measured) up to the first that fails."""
    goes, comes = CHANGES[change]
    made = dict(globals())
    exec(inspect.getsource(attention).replace(goes, comes), made)
    torch.manual_seed(123)
    B, H, T, d_head = 2, 3, 6, 4
    q, k, v = torch.randn(3, B, H, T, d_head).unbind(0)
    output, weights = made["attention"](q, k, v)
    found = []
    for name, fact in FACTS.items():
        found.append((name, *fact(q, k, v, output, weights)))
        if not found[-1][1]:
            break
    return found


if __name__ == "__main__":
    for change in CHANGES:
        print(change)
        for name, holds, words in measured(change):
            print(f"  {'ok   ' if holds else 'FAILS'} {name}: {words}")
