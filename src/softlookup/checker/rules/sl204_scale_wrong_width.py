"""Scores are divided by the root of another size than d_head: d_model, num_heads, a length, d_v.

Missed because: any constant near the right one trains; the softmax is only too flat or too sharp.

Training: logits have the wrong variance; heads start too uniform (d_model) or saturated (num_heads).

Fix: `scores / math.sqrt(q.shape[-1])`, the width of one head's query.

Seen in: https://github.com/lucidrains/vit-pytorch/issues/65, https://github.com/chelsea0x3b/dfdx/issues/171
"""

VARIANTS = ("d_model", "num_heads", "T_q", "T_k", "d_v")


def scale(scores, case, variant):
    heads = case.q.shape[-3]
    size = {
        "d_model": heads * case.q.shape[-1],
        "num_heads": heads,
        "T_q": case.q.shape[-2],
        "T_k": case.k.shape[-2],
        "d_v": case.v.shape[-1],
    }[variant]
    return scores / size**0.5
