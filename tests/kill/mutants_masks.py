"""SL1, the given mask: the bugs as patches."""

from patching import patch

EINSUM_HIDE = "scores = scores.masked_fill(~allowed, -math.inf)"
LOOPS_SCORE = "scores = keys[seen] @ query[b, h, i]"
CLASS_HIDE = 'scores = scores.masked_fill(blocked & ~nowhere, float("-inf"))'
MATMUL_HIDE = 'scores = torch.where(blocked, torch.full_like(scores, float("-inf")), scores)'

MASKS = {
    "mask-ignored": [
        patch(
            "einsum_bhtd",
            "    if allowed_mask is not None:\n        allowed = allowed & allowed_mask\n",
            "",
            "scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)",
            "scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)  # bug",
        ),
        patch(
            "loops",
            "everything = everything & allowed_mask",
            "everything.logical_and(allowed_mask)",
            shows=LOOPS_SCORE,
        ),
        patch(
            "manual_softmax",
            "scores = scores.masked_fill(hidden, -math.inf)",
            "scores.masked_fill(hidden, -math.inf)",
        ),
        patch(
            "with_scale",
            "scores = scores.masked_fill(hidden & ~empty, -math.inf)",
            "scores.masked_fill(hidden & ~empty, -math.inf)",
        ),
        patch(
            "unpadded",
            "keys, values = keys[:, real], values[:, real]",
            "keys[:, real], values[:, real]",
            shows="scores = q[b] @ keys",
        ),
    ],
    "mask-inverted": [
        patch("einsum_bhtd", "allowed & allowed_mask", "allowed & ~allowed_mask", shows=EINSUM_HIDE),
        patch("matmul_bthd", "blocked | blocked_mask", "blocked | ~blocked_mask", shows=MATMUL_HIDE),
        patch(
            "class_wrapped",
            "key_padding_mask[:, None, None, :].bool()",
            "~key_padding_mask[:, None, None, :].bool()",
            shows=CLASS_HIDE,
        ),
        patch(
            "folded_bmm",
            "hidden = allowed_mask == 0",
            "hidden = allowed_mask != 0",
            shows="scores = scores.masked_fill(",
        ),
        patch(
            "autograd_function",
            "torch.tril(allowed)",
            "torch.triu(allowed)",
            shows="scores = scores.masked_fill(~allowed",
        ),
        patch(
            "unpadded",
            "real = ~key_padding_mask[b]",
            "real = key_padding_mask[b]",
            shows="scores = q[b] @ keys",
        ),
    ],
    "mask-after-softmax": [
        patch(
            "einsum_bhtd",
            "    scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)\n",
            "",
            "weights = weights.masked_fill(empty, 0.0)",
            "weights = weights.masked_fill(~allowed, 0.0)  # bug",
        ),
        patch(
            "matmul_bthd",
            '    scores = torch.where(blocked, torch.full_like(scores, float("-inf")), scores)\n',
            "",
            "weights = torch.where(nowhere, torch.zeros_like(weights), weights)",
            "weights = torch.where(blocked, torch.zeros_like(weights), weights)  # bug",
        ),
        patch(
            "class_wrapped",
            '        scores = scores.masked_fill(blocked & ~nowhere, float("-inf"))\n',
            "",
            "weights = weights.masked_fill(nowhere, 0.0)",
            "weights = weights * ~blocked  # bug",
        ),
        patch(
            "with_scale",
            "        scores = scores.masked_fill(hidden & ~empty, -math.inf)\n",
            "",
            "weights = weights.masked_fill(empty, 0.0)",
            "weights = weights.masked_fill(hidden, 0.0)  # bug",
        ),
    ],
    "mask-added-as-number": [
        patch(
            "einsum_bhtd",
            "    if allowed_mask is not None:\n        allowed = allowed & allowed_mask\n",
            "",
            "scores = scores * scale",
            "scores = scores * scale\n"
            "    if allowed_mask is not None:\n"
            "        scores = scores + allowed_mask.to(scores.dtype)  # bug",
        ),
        patch(
            "manual_softmax",
            "        hidden = ~allowed_mask.bool()\n        scores = scores.masked_fill(hidden, -math.inf)",
            "        scores = scores + allowed_mask  # bug",
        ),
        patch(
            "folded_bmm",
            "scores = scores.masked_fill(hidden & ~empty, -math.inf)",
            "scores = scores + allowed_mask.repeat_interleave(H, dim=0)",
        ),
        patch(
            "with_scale",
            "scores = scores.masked_fill(hidden & ~empty, -math.inf)",
            "scores = scores + key_mask[:, None, :].to(scores.dtype)",
        ),
    ],
    "mask-multiplies-scores": [
        patch(
            "einsum_bhtd",
            "scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)",
            "scores * allowed",
        ),
        patch(
            "manual_softmax",
            "        hidden = ~allowed_mask.bool()\n        scores = scores.masked_fill(hidden, -math.inf)",
            "        scores = scores * allowed_mask  # bug",
        ),
        patch(
            "folded_bmm",
            "scores = scores.masked_fill(hidden & ~empty, -math.inf)",
            "scores = scores * ~hidden",
        ),
        patch(
            "with_scale",
            "scores = scores.masked_fill(hidden & ~empty, -math.inf)",
            "scores = scores * key_mask[:, None, :]",
        ),
    ],
    "mask-fill-too-weak": [
        patch("einsum_bhtd", "masked_fill(~allowed, -math.inf)", "masked_fill(~allowed, -10.0)"),
        patch("manual_softmax", "scores.masked_fill(hidden, -math.inf)", "scores.masked_fill(hidden, 1e-9)"),
        patch("folded_bmm", "hidden & ~empty, -math.inf", "hidden & ~empty, -5.0"),
        patch("matmul_bthd", 'torch.full_like(scores, float("-inf"))', "torch.full_like(scores, -1.0)"),
    ],
    "mask-hides-queries": [
        patch(
            "einsum_bhtd",
            "allowed & allowed_mask",
            "allowed & allowed_mask.transpose(-2, -1)",
            shows=EINSUM_HIDE,
        ),
        patch(
            "class_wrapped",
            "key_padding_mask[:, None, None, :]",
            "key_padding_mask[:, None, :, None]",
            shows=CLASS_HIDE,
        ),
        patch(
            "with_scale",
            "~key_mask[:, None, :]",
            "~key_mask[:, :, None]",
            shows="scores = scores.masked_fill(",
        ),
    ],
    "mask-shared-across-batch": [
        patch("einsum_bhtd", "allowed & allowed_mask", "allowed & allowed_mask[:1]", shows=EINSUM_HIDE),
        patch(
            "class_wrapped",
            "key_padding_mask[:, None, None, :]",
            "key_padding_mask[:1, None, None, :]",
            shows=CLASS_HIDE,
        ),
        patch(
            "with_scale",
            "~key_mask[:, None, :]",
            "~key_mask[:1, None, :]",
            shows="scores = scores.masked_fill(",
        ),
        patch("unpadded", "~key_padding_mask[b]", "~key_padding_mask[0]", shows="scores = q[b] @ keys"),
    ],
    "mask-batch-head-order": [
        patch(
            "folded_bmm",
            "hidden.repeat_interleave(H, dim=0)",
            "hidden.repeat(H, 1, 1)",
            shows="scores = scores.masked_fill(",
        ),
        patch(
            "class_wrapped",
            "blocked = blocked | key_padding_mask[:, None, None, :].bool()",
            "by_head = key_padding_mask.repeat(q.size(1), 1)  # bug\n"
            "            blocked = blocked | by_head.view(-1, q.size(1), 1, T).bool()",
            shows=CLASS_HIDE,
        ),
        patch("einsum_bhtd", "allowed & allowed_mask", "allowed & allowed_mask[:, 0]", shows=EINSUM_HIDE),
    ],
    "zero-scores-hidden": [
        patch(
            "einsum_bhtd",
            "scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)",
            "scores = scores * allowed\n"
            "    scores = scores.masked_fill((scores == 0) & ~empty, -math.inf)  # bug",
        ),
        patch(
            "folded_bmm",
            "scores = scores.masked_fill(hidden & ~empty, -math.inf)",
            "scores = scores * ~hidden\n"
            "        scores = scores.masked_fill((scores == 0) & ~empty, -math.inf)  # bug",
        ),
        patch(
            "manual_softmax",
            "        hidden = ~allowed_mask.bool()\n        scores = scores.masked_fill(hidden, -math.inf)",
            "        scores = scores * allowed_mask\n"
            "        scores = scores.masked_fill(scores == 0, -math.inf)  # bug",
        ),
    ],
    "integer-mask-negated-bitwise": [
        patch(
            "folded_bmm",
            "hidden = allowed_mask == 0",
            "hidden = (~allowed_mask).bool()",
            shows="scores = scores.masked_fill(",
        ),
        patch(
            "manual_softmax",
            "hidden = ~allowed_mask.bool()",
            "hidden = (~allowed_mask).bool()",
            shows="scores = scores.masked_fill(hidden",
        ),
        patch(
            "class_wrapped",
            "blocked | key_padding_mask[:, None, None, :].bool()",
            "blocked | ~(~key_padding_mask).bool()[:, None, None, :]",
            shows=CLASS_HIDE,
        ),
    ],
    "caller-mask-changed": [
        patch("folded_bmm", "hidden = allowed_mask == 0", "hidden = allowed_mask.logical_not_().bool()"),
        patch("with_bias", "bias = bias + attn_bias", "bias = attn_bias.add_(bias)"),
        patch(
            "matmul_bthd",
            "scores = q @ k.transpose(-2, -1)\n    scores = scores / d**0.5",
            "scores = q.div_(d**0.5) @ k.transpose(-2, -1)",
        ),
        patch(
            "einsum_bhtd",
            "        allowed = allowed & allowed_mask",
            "        allowed_mask &= allowed  # bug\n        allowed = allowed_mask",
        ),
    ],
}
