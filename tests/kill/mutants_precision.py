"""SL5 to SL9 as far as a function can show them: the bugs as patches."""

from patching import patch

PRECISION = {
    "mask-overflows-half": [
        patch(
            "einsum_bhtd",
            "scores.masked_fill(~allowed, -math.inf)",
            "scores.masked_fill(~allowed, -1e9)",
            dtype="float16",
        ),
        patch("class_wrapped", 'float("-inf")', "-1e9", dtype="float16"),
        patch(
            "matmul_bthd",
            'torch.full_like(scores, float("-inf"))',
            "torch.full_like(scores, -1e9)",
            dtype="float16",
        ),
        patch("with_scale", "hidden & ~empty, -math.inf", "hidden & ~empty, -1e9", dtype="float16"),
    ],
    "error-above-plain": [
        patch(
            "chunked_online_softmax",
            "wide = torch.promote_types(q.dtype, torch.float32)",
            "wide = q.dtype",
            shows="output = output * shrink",
            dtype="bfloat16",
        ),
        patch(
            "loops",
            "outputs.append(shares @ values[seen])",
            "mixed = values[0] * 0\n"
            "                for share, j in zip(shares, seen):\n"
            "                    mixed = mixed + share * values[j]  # bug\n"
            "                outputs.append(mixed)",
            dtype="bfloat16",
        ),
        patch(
            "manual_softmax",
            "wide = scores.to(torch.promote_types(scores.dtype, torch.float32))",
            "wide = scores",
            "total = exps.sum(dim=-1, keepdim=True)",
            "total = 0 * top\n    for exp in exps.split(1, dim=-1):\n        total = total + exp  # bug",
            dtype="bfloat16",
        ),
    ],
    "non-contiguous-misread": [
        patch(
            "einsum_bhtd",
            "T_q, T_k = q.shape[-2], k.shape[-2]",
            'q = q.as_strided(q.shape, torch.empty(q.shape, device="meta").stride())  # bug\n'
            "    T_q, T_k = q.shape[-2], k.shape[-2]",
        ),
        patch(
            "folded_bmm",
            "k = k.reshape(B * H, T_k, d)",
            "k = torch.as_strided(k, (B * H, T_k, d), (T_k * d, d, 1))",
        ),
        patch(
            "matmul_bthd",
            "d = q.shape[-1]\n",
            "d = q.shape[-1]\n"
            "    B, T, H, d_v = v.shape\n"
            "    v = torch.as_strided(v, v.shape, (T * H * d_v, H * d_v, d_v, 1))  # bug\n",
        ),
    ],
    "block-remainder-dropped": [
        patch(
            "chunked_online_softmax",
            "range(0, T_k, block)",
            "range(0, T_k - T_k % block, block)",
            shows="scores = q.to(wide) @",
        ),
        patch(
            "windowed",
            "output = []",
            "output = torch.zeros_like(v)",
            "for start in range(0, T, block):",
            "for start in range(0, T - T % block, block):  # bug",
            "output.append(torch.matmul(weights, v[:, :, first:stop]))",
            "output[:, :, start:stop] = torch.matmul(weights, v[:, :, first:stop])",
            "return torch.cat(output, dim=2)",
            "return output",
            shows="output[:, :, start:stop] =",
        ),
        patch(
            "with_bias",
            "    probs = probs.masked_fill(nowhere, 0.0)\n    return torch.matmul(probs, v)",
            "    probs = probs.masked_fill(nowhere, 0.0)\n"
            "    output = torch.zeros(*q.shape[:-1], v.size(-1), dtype=q.dtype, device=q.device)\n"
            "    for block in range(T_q // 4):  # bug\n"
            "        rows = slice(4 * block, 4 * block + 4)\n"
            "        output[..., rows, :] = torch.matmul(probs[..., rows, :], v)\n"
            "    return output",
            shows="output[..., rows, :] =",
        ),
    ],
    "path-mismatch": [
        patch(
            "fast_path",
            "scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])",
            "scores = q @ k.transpose(-2, -1)",
            shows="if not need_weights:",  # where the paths part: nothing says which of them is meant
        ),
        patch(
            "class_wrapped",
            "scores = scores.div(math.sqrt(d))",
            "scores = scores.div(d if self.training else math.sqrt(d))",
        ),
        patch(
            "einsum_bhtd",
            "    allowed = torch.ones(",
            "    if allowed_mask is None and not is_causal:  # shows\n"
            "        scale = scale**2  # bug\n"
            "        return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)\n"
            "    allowed = torch.ones(",
            shows="return torch.nn.functional.scaled_dot_product_attention(",
        ),
    ],
}

TRAINING = {
    "alibi-sign-flipped": [
        patch(
            "alibi",
            "bias = -slopes[:, None, None] * distance",
            "bias = slopes[:, None, None] * distance",
            shows="scores = scores + bias",
        ),
        patch(
            "alibi_slopes",
            "logits = logits - penalty",
            "logits = logits + penalty",
            shows="penalty = alibi_slopes",  # a minus on either line
        ),
    ],
    "dropout-in-eval": [
        patch("class_wrapped", "F.dropout(weights, self.dropout, self.training)", "F.dropout(weights, 0.1)"),
        patch(
            "einsum_bhtd",
            "weights = weights.masked_fill(empty, 0.0)",
            "weights = torch.dropout(weights.masked_fill(empty, 0.0), 0.1, True)",
        ),
        patch(
            "with_bias", "torch.matmul(probs, v)", "torch.matmul(torch.nn.functional.dropout(probs, 0.2), v)"
        ),
    ],
    "gradient-wrong": [
        patch("autograd_function", "weights * (grad_weights - inner)", "weights * grad_weights"),
        patch("einsum_bhtd", "scores = scores * scale", "scores = scores.detach() * scale"),
        patch(
            "manual_softmax",
            "exps / total.masked_fill(total == 0, 1.0)",
            "exps / total.detach().masked_fill(total == 0, 1.0)",
        ),
        patch(
            "folded_bmm",
            "weights = weights.masked_fill(empty, 0.0)",
            "weights = weights.masked_fill(empty, 0.0).detach()",
        ),
    ],
    "batch-neighbours-leak": [
        patch(
            "einsum_bhtd",
            "scores = scores * scale",
            "scores = scores * scale\n    scores = scores - scores.mean(dim=0, keepdim=True)  # bug",
        ),
        patch(
            "class_wrapped",
            "scores = scores.div(math.sqrt(d))",
            "scores = scores.div(math.sqrt(d)) - scores.div(math.sqrt(d)).mean(0)",
        ),
        patch(
            "with_bias",
            "logits = logits / math.sqrt(q.size(-1))",
            "logits = logits / math.sqrt(q.size(-1))\n    logits = logits - logits.mean(0)  # bug",
        ),
    ],
}
