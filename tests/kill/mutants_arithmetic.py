"""SL2, scale, softmax and mix: the bugs as patches."""

from patching import patch

MANUAL_TOTAL = "total = exps.sum(dim=-1, keepdim=True)"
EINSUM_DEFAULT = "    if scale is None:\n        scale = 1 / math.sqrt(q.shape[-1])\n"
WITH_SCALE_DEFAULT = "    if scale is None:\n        scale = q.shape[-1] ** -0.5\n"
LOOPS_SOFTMAX = "shares = torch.softmax(scores, dim=0)"
FINAL_DIVISION = "total.masked_fill(total == 0, 1.0)\n    return"

ARITHMETIC = {
    "scale-missing": [
        patch(
            "matmul_bthd",
            "scores = q @ k.transpose(-2, -1)\n    scores = scores / d**0.5\n",
            "scores = q @ k.transpose(-2, -1)\n",
        ),
        patch(
            "loops",
            "scores = keys[seen] @ query[b, h, i]\n                scores = scores / math.sqrt(d)\n",
            "scores = keys[seen] @ query[b, h, i]\n",
        ),
        patch(
            "class_wrapped",
            "scores = q.matmul(k.transpose(2, 3))\n        scores = scores.div(math.sqrt(d))\n",
            "scores = q.matmul(k.transpose(2, 3))\n",
        ),
        patch(
            "einsum_bhtd",
            EINSUM_DEFAULT,
            "",
            'scores = torch.einsum("bhid,bhjd->bhij", q, k)\n    scores = scores * scale\n',
            'scores = torch.einsum("bhid,bhjd->bhij", q, k)  # bug\n'
            "    if scale is not None:\n"
            "        scores = scores * scale\n",
        ),
        patch(
            "grouped",
            'torch.einsum("bngqd,bnkd->bngqk", query, key)\n    scores = scores * d**-0.5\n',
            'torch.einsum("bngqd,bnkd->bngqk", query, key)\n',
        ),
        patch(
            "folded_bmm",
            "scores = torch.bmm(q, k.transpose(1, 2))\n    scores = scores / math.sqrt(d)\n",
            "scores = torch.bmm(q, k.transpose(1, 2))\n",
        ),
        patch(
            "with_bias",
            "logits = torch.matmul(q, k.transpose(-1, -2))\n    logits = logits / math.sqrt(q.size(-1))\n",
            "logits = torch.matmul(q, k.transpose(-1, -2))\n",
        ),
    ],
    "scale-not-rooted": [
        patch("matmul_bthd", "scores / d**0.5", "scores / d"),
        patch("loops", "scores / math.sqrt(d)", "scores / d"),
        patch(
            "chunked_online_softmax",
            "1 / math.sqrt(q.shape[-1]) if",
            "1 / q.shape[-1] if",
            shows="scores = scores * factor",
        ),
        patch("with_scale", "q.shape[-1] ** -0.5", "q.shape[-1] ** -1", shows="scores = scores * scale"),
        patch("manual_softmax", "scores / math.sqrt(queries.shape[-1])", "scores / queries.shape[-1]"),
        patch("class_wrapped", "scores.div(math.sqrt(d))", "scores.div(d)"),
    ],
    "scale-inverted": [
        patch("matmul_bthd", "scores / d**0.5", "scores * d**0.5"),
        patch("folded_bmm", "scores / math.sqrt(d)", "scores * math.sqrt(d)"),
        patch(
            "einsum_bhtd",
            "scale = 1 / math.sqrt(q.shape[-1])",
            "scale = math.sqrt(q.shape[-1])",
            shows="scores = scores * scale",
        ),
        patch("windowed", "scores / math.sqrt(d)", "scores * math.sqrt(d)"),
    ],
    "scale-wrong-width": [
        patch("matmul_bthd", "scores / d**0.5", "scores / T_k**0.5"),
        patch("class_wrapped", "scores.div(math.sqrt(d))", "scores.div(math.sqrt(q.size(1) * d))"),
        patch("folded_bmm", "scores / math.sqrt(d)", "scores / math.sqrt(d_v)"),
        patch("loops", "scores / math.sqrt(d)", "scores / math.sqrt(H)"),
        patch("manual_softmax", "math.sqrt(queries.shape[-1])", "math.sqrt(queries.shape[-2])"),
    ],
    "scale-doubled": [
        patch(
            "matmul_bthd",
            "q = q.transpose(1, 2)\n",
            "q = q.transpose(1, 2) / d**0.5\n",
            "scores = scores / d**0.5",
            "scores = scores / d**0.5  # bug",
            shows="q = q.transpose(1, 2) / d**0.5",
        ),
        patch(
            "class_wrapped",
            "scores = q.matmul(k.transpose(2, 3))",
            "scores = q.div(math.sqrt(d)).matmul(k.transpose(2, 3))",
            "scores = scores.div(math.sqrt(d))",
            "scores = scores.div(math.sqrt(d))  # bug",
            shows="scores = q.div",
        ),
        patch(
            "folded_bmm",
            "q = q.reshape(B * H, T_q, d)",
            "q = q.reshape(B * H, T_q, d) / math.sqrt(d)",
            "scores = scores / math.sqrt(d)",
            "scores = scores / math.sqrt(d)  # bug",
            shows="q = q.reshape(B * H, T_q, d) /",
        ),
    ],
    "scale-after-softmax": [
        patch(
            "matmul_bthd",
            "    scores = scores / d**0.5\n",
            "",
            "weights = scores.softmax(-1)",
            "weights = scores.softmax(-1) / d**0.5  # bug",
        ),
        patch(
            "class_wrapped",
            "        scores = scores.div(math.sqrt(d))\n",
            "",
            "weights = scores.softmax(dim=-1)",
            "weights = scores.softmax(dim=-1).div(math.sqrt(d))  # bug",
        ),
        patch(
            "folded_bmm",
            "    scores = scores / math.sqrt(d)\n",
            "",
            "weights = weights.masked_fill(empty, 0.0)",
            "weights = weights.masked_fill(empty, 0.0) / math.sqrt(d)  # bug",
        ),
    ],
    "scale-hits-bias": [
        patch(
            "with_bias",
            "    logits = logits / math.sqrt(q.size(-1))\n    logits = logits + bias\n",
            "    logits = logits + bias\n    logits = logits / math.sqrt(q.size(-1))  # bug\n",
            shows="logits = logits + bias",
        ),
        patch(
            "grouped",
            "    scores = scores * d**-0.5\n",
            "",
            "        scores = scores + attn_bias\n",
            "        scores = scores + attn_bias\n    scores = scores * d**-0.5  # bug\n",
            shows="scores = scores + attn_bias",
        ),
        patch(
            "alibi",
            "    scores = scores / d**0.5\n    scores = scores + bias\n",
            "    scores = scores + bias\n    scores = scores / d**0.5  # bug\n",
            shows="scores = scores + bias",
        ),
    ],
    "scale-argument-ignored": [
        patch(
            "einsum_bhtd",
            EINSUM_DEFAULT,
            "    scale = 1 / math.sqrt(q.shape[-1])\n",
            shows="scores = scores * scale",
        ),
        patch(
            "with_scale",
            WITH_SCALE_DEFAULT,
            "    scale = q.shape[-1] ** -0.5\n",
            shows="scores = scores * scale",
        ),
        patch(
            "chunked_online_softmax",
            "1 / math.sqrt(q.shape[-1]) if scale is None else scale",
            "1 / math.sqrt(q.shape[-1])",
            shows="scores = scores * factor",
        ),
    ],
    "softmax-over-queries": [
        patch("einsum_bhtd", "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=-2)"),
        patch("matmul_bthd", "scores.softmax(-1)", "scores.softmax(-2)"),
        patch("folded_bmm", "torch.softmax(scores, dim=2)", "torch.softmax(scores, dim=1)"),
        patch("class_wrapped", "scores.softmax(dim=-1)", "scores.softmax(dim=2)"),
        patch("unpadded", "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=1)"),
        patch("with_bias", "torch.softmax(logits, dim=-1)", "torch.softmax(logits, dim=-2)"),
    ],
    "softmax-over-heads": [
        patch("einsum_bhtd", "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=1)"),
        patch("matmul_bthd", "scores.softmax(-1)", "scores.softmax(1)"),
        patch("class_wrapped", "scores.softmax(dim=-1)", "scores.softmax(dim=1)"),
        patch("unpadded", "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=0)"),
    ],
    "softmax-over-batch": [
        patch("einsum_bhtd", "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=0)"),
        patch("matmul_bthd", "scores.softmax(-1)", "scores.softmax(0)"),
        patch("with_bias", "torch.softmax(logits, dim=-1)", "torch.softmax(logits, dim=0)"),
    ],
    "softmax-without-max": [
        patch("manual_softmax", "exps = torch.exp(wide - top)", "exps = torch.exp(wide)"),
        patch("loops", LOOPS_SOFTMAX, "exps = torch.exp(scores)\n                shares = exps / exps.sum()"),
        patch(
            "einsum_bhtd",
            "weights = torch.softmax(scores, dim=-1)",
            "weights = scores.exp()  # bug\n    weights = weights / weights.sum(dim=-1, keepdim=True)",
        ),
        patch(
            "chunked_online_softmax",
            "shrink = torch.exp(highest - base)",
            "shrink = torch.ones_like(base)",
            "shares = torch.exp(scores - base)",
            "shares = torch.exp(scores)  # bug",
        ),
    ],
    "softmax-twice": [
        patch(
            "einsum_bhtd",
            "weights = torch.softmax(scores, dim=-1)",
            "weights = torch.softmax(torch.softmax(scores, dim=-1), dim=-1)",
        ),
        patch(
            "matmul_bthd",
            "weights = scores.softmax(-1)",
            "weights = scores.softmax(-1)\n    weights = weights.softmax(-1)  # bug",
        ),
        patch(
            "class_wrapped",
            "weights = scores.softmax(dim=-1)",
            "weights = scores.softmax(dim=-1).softmax(dim=-1)",
        ),
        patch(
            "folded_bmm",
            "weights = torch.softmax(scores, dim=2)",
            "weights = torch.softmax(torch.softmax(scores, dim=2), dim=2)",
        ),
    ],
    "softmax-denominator-plus-one": [
        patch("manual_softmax", MANUAL_TOTAL, "total = exps.sum(dim=-1, keepdim=True) + torch.exp(-top)"),
        patch(
            "chunked_online_softmax",
            FINAL_DIVISION,
            "(total + torch.exp(-highest)).masked_fill(total == 0, 1.0)\n    return",
        ),
        patch(
            "loops",
            LOOPS_SOFTMAX,
            "shares = torch.softmax(torch.cat([scores, scores.new_zeros(1)]), dim=0)[:-1]",
        ),
    ],
    "scores-transposed": [
        patch("einsum_bhtd", '"bhid,bhjd->bhij", q, k', '"bhid,bhjd->bhji", q, k'),
        patch("matmul_bthd", "scores = q @ k.transpose(-2, -1)", "scores = k @ q.transpose(-2, -1)"),
        patch("class_wrapped", "q.matmul(k.transpose(2, 3))", "k.matmul(q.transpose(2, 3))"),
        patch("folded_bmm", "torch.bmm(q, k.transpose(1, 2))", "torch.bmm(k, q.transpose(1, 2))"),
    ],
    "keys-used-as-values": [
        patch("einsum_bhtd", '"bhij,bhjd->bhid", weights, v', '"bhij,bhjd->bhid", weights, k'),
        patch("matmul_bthd", "output = weights @ v", "output = weights @ k"),
        patch("class_wrapped", "weights.matmul(v)", "weights.matmul(k)"),
        patch("loops", "outputs.append(shares @ values[seen])", "outputs.append(shares @ keys[seen])"),
        patch("unpadded", "weights @ values", "weights @ keys"),
    ],
    "weights-transposed": [
        patch("einsum_bhtd", '"bhij,bhjd->bhid", weights, v', '"bhji,bhjd->bhid", weights, v'),
        patch("matmul_bthd", "output = weights @ v", "output = weights.transpose(-2, -1) @ v"),
        patch("class_wrapped", "weights.matmul(v)", "weights.transpose(2, 3).matmul(v)"),
        patch("with_bias", "torch.matmul(probs, v)", "torch.matmul(probs.transpose(-1, -2), v)"),
    ],
    "softmax-missing": [
        patch(
            "einsum_bhtd",
            "scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)",
            "scores.masked_fill(~allowed, 0.0)",
            "weights = torch.softmax(scores, dim=-1)",
            "weights = scores  # bug",
        ),
        patch(
            "folded_bmm",
            "hidden & ~empty, -math.inf",
            "hidden, 0.0",
            "torch.softmax(scores, dim=2)",
            "scores / scores.sum(dim=2, keepdim=True)  # bug",
        ),
        patch("loops", LOOPS_SOFTMAX, "shares = scores"),
        patch("unpadded", "torch.softmax(scores, dim=-1)", "scores / scores.sum(dim=-1, keepdim=True)"),
    ],
}
