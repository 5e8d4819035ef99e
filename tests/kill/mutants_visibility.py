"""SL1, who may look at whom: the bugs as patches."""

from patching import patch

EINSUM_HIDE = "scores = scores.masked_fill(~allowed, -math.inf)"
LOOPS_SCORE = "scores = keys[seen] @ query[b, h, i]"
CHUNKED_HIDE = "scores = scores.masked_fill(~allowed, -math.inf)"
CLASS_HIDE = 'scores = scores.masked_fill(blocked & ~nowhere, float("-inf"))'
MATMUL_HIDE = 'scores = torch.where(blocked, torch.full_like(scores, float("-inf")), scores)'

EINSUM_RULES = """    if is_causal:
        allowed = allowed.tril(diagonal=T_k - T_q)
    if allowed_mask is not None:
        allowed = allowed & allowed_mask
"""
LOOPS_MASK = """    if allowed_mask is not None:
        everything = everything & allowed_mask
"""
CHUNKED_RULES = """        if allowed_mask is not None:
            allowed = allowed & allowed_mask[..., start:stop]
        if causal:
            allowed = allowed & (j <= i)
"""
MATMUL_RULES = """    if causal:
        blocked = blocked | ~torch.ones(T_q, T_k, dtype=torch.bool, device=q.device).tril(T_k - T_q)
    if blocked_mask is not None:
        blocked = blocked | blocked_mask
"""
MANUAL_RULES = """    if allowed_mask is not None:
        hidden = ~allowed_mask.bool()
        scores = scores.masked_fill(hidden, -math.inf)
    if is_causal:
        visible"""

VISIBILITY = {
    "future-visible": [
        patch("einsum_bhtd", "allowed = allowed.tril(diagonal", "allowed.tril(diagonal", shows=EINSUM_HIDE),
        patch("loops", "allowed & (positions <= i)\n                if window", "allowed & (positions <= T_k)\n                if window", shows=LOOPS_SCORE),
        patch("class_wrapped", "torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)", "torch.zeros(T, T, dtype=torch.bool, device=q.device)", shows=CLASS_HIDE),
        patch("manual_softmax", "scores = scores.masked_fill(~visible, -math.inf)", "scores.masked_fill(~visible, -math.inf)"),
    ],
    "next-token-visible": [
        patch("einsum_bhtd", "diagonal=T_k - T_q)", "diagonal=T_k - T_q + 1)", shows=EINSUM_HIDE),
        patch("loops", "allowed & (positions <= i)\n                if window", "allowed & (positions <= i + 1)\n                if window", shows=LOOPS_SCORE),
        patch("chunked_online_softmax", "        if causal:\n            allowed = allowed & (j <= i)", "        if causal:\n            allowed = allowed & (j <= i + 1)  # bug", shows=CHUNKED_HIDE),
        patch("class_wrapped", ".triu(1)", ".triu(2)", shows=CLASS_HIDE),
        patch("with_bias", "triu(diagonal=1)", "triu(diagonal=2)", shows="logits = logits + bias"),
    ],
    "self-hidden": [
        patch("einsum_bhtd", "diagonal=T_k - T_q)", "diagonal=T_k - T_q - 1)", shows=EINSUM_HIDE, self_visible=True),
        patch("loops", "allowed & (positions <= i)\n                if window", "allowed & (positions < i)\n                if window", shows=LOOPS_SCORE, self_visible=True),
        patch("chunked_online_softmax", "        if causal:\n            allowed = allowed & (j <= i)", "        if causal:\n            allowed = allowed & (j < i)  # bug", shows=CHUNKED_HIDE, self_visible=True),
        patch("class_wrapped", ".triu(1)", ".triu(0)", shows=CLASS_HIDE, self_visible=True),
    ],
    "causal-top-left": [
        patch("einsum_bhtd", "allowed.tril(diagonal=T_k - T_q)", "allowed.tril()", shows=EINSUM_HIDE, corner="bottom-right"),
        patch("chunked_online_softmax", "[:, None] + (T_k - T_q)", "[:, None]", shows=CHUNKED_HIDE, corner="bottom-right"),
        patch("matmul_bthd", ".tril(T_k - T_q)", ".tril()", shows=MATMUL_HIDE, corner="bottom-right"),
    ],
    "mask-ignored": [
        patch("einsum_bhtd", "    if allowed_mask is not None:\n        allowed = allowed & allowed_mask\n", "", "scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)", "scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)  # bug"),
        patch("loops", "everything = everything & allowed_mask", "everything.logical_and(allowed_mask)", shows=LOOPS_SCORE),
        patch("manual_softmax", "scores = scores.masked_fill(hidden, -math.inf)", "scores.masked_fill(hidden, -math.inf)"),
        patch("with_scale", "scores = scores.masked_fill(hidden & ~empty, -math.inf)", "scores.masked_fill(hidden & ~empty, -math.inf)"),
        patch("unpadded", "keys, values = keys[:, real], values[:, real]", "keys[:, real], values[:, real]", shows="scores = q[b] @ keys"),
    ],
    "mask-inverted": [
        patch("einsum_bhtd", "allowed & allowed_mask", "allowed & ~allowed_mask", shows=EINSUM_HIDE),
        patch("matmul_bthd", "blocked | blocked_mask", "blocked | ~blocked_mask", shows=MATMUL_HIDE),
        patch("class_wrapped", "key_padding_mask[:, None, None, :].bool()", "~key_padding_mask[:, None, None, :].bool()", shows=CLASS_HIDE),
        patch("folded_bmm", "hidden = allowed_mask == 0", "hidden = allowed_mask != 0", shows="scores = scores.masked_fill("),
        patch("autograd_function", "torch.tril(allowed)", "torch.triu(allowed)", shows="scores = scores.masked_fill(~allowed"),
        patch("unpadded", "real = ~key_padding_mask[b]", "real = key_padding_mask[b]", shows="scores = q[b] @ keys"),
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
            "scores = scores * scale\n    if allowed_mask is not None:\n        scores = scores + allowed_mask.to(scores.dtype)  # bug",
        ),
        patch("manual_softmax", "        hidden = ~allowed_mask.bool()\n        scores = scores.masked_fill(hidden, -math.inf)", "        scores = scores + allowed_mask  # bug"),
        patch("folded_bmm", "scores = scores.masked_fill(hidden & ~empty, -math.inf)", "scores = scores + allowed_mask.repeat_interleave(H, dim=0)"),
        patch("with_scale", "scores = scores.masked_fill(hidden & ~empty, -math.inf)", "scores = scores + key_mask[:, None, :].to(scores.dtype)"),
    ],
    "mask-multiplies-scores": [
        patch("einsum_bhtd", "scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)", "scores * allowed"),
        patch("manual_softmax", "        hidden = ~allowed_mask.bool()\n        scores = scores.masked_fill(hidden, -math.inf)", "        scores = scores * allowed_mask  # bug"),
        patch("folded_bmm", "scores = scores.masked_fill(hidden & ~empty, -math.inf)", "scores = scores * ~hidden"),
        patch("with_scale", "scores = scores.masked_fill(hidden & ~empty, -math.inf)", "scores = scores * key_mask[:, None, :]"),
    ],
    "mask-fill-too-weak": [
        patch("einsum_bhtd", "masked_fill(~allowed, -math.inf)", "masked_fill(~allowed, -10.0)"),
        patch("manual_softmax", "scores.masked_fill(hidden, -math.inf)", "scores.masked_fill(hidden, 1e-9)"),
        patch("folded_bmm", "hidden & ~empty, -math.inf", "hidden & ~empty, -5.0"),
        patch("matmul_bthd", 'torch.full_like(scores, float("-inf"))', "torch.full_like(scores, -1.0)"),
    ],
    "mask-hides-queries": [
        patch("einsum_bhtd", "allowed & allowed_mask", "allowed & allowed_mask.transpose(-2, -1)", shows=EINSUM_HIDE),
        patch("class_wrapped", "key_padding_mask[:, None, None, :]", "key_padding_mask[:, None, :, None]", shows=CLASS_HIDE),
        patch("with_scale", "~key_mask[:, None, :]", "~key_mask[:, :, None]", shows="scores = scores.masked_fill("),
    ],
    "mask-shared-across-batch": [
        patch("einsum_bhtd", "allowed & allowed_mask", "allowed & allowed_mask[:1]", shows=EINSUM_HIDE),
        patch("class_wrapped", "key_padding_mask[:, None, None, :]", "key_padding_mask[:1, None, None, :]", shows=CLASS_HIDE),
        patch("with_scale", "~key_mask[:, None, :]", "~key_mask[:1, None, :]", shows="scores = scores.masked_fill("),
        patch("unpadded", "~key_padding_mask[b]", "~key_padding_mask[0]", shows="scores = q[b] @ keys"),
    ],
    "mask-batch-head-order": [
        patch("folded_bmm", "hidden.repeat_interleave(H, dim=0)", "hidden.repeat(H, 1, 1)", shows="scores = scores.masked_fill("),
        patch("class_wrapped", "key_padding_mask[:, None, None, :]", "key_padding_mask[None, :, None, :]", shows=CLASS_HIDE),
        patch("packed_documents", "same[:, None]", "same[None]", shows="scores = scores.masked_fill("),
    ],
    "causal-dropped-with-mask": [
        patch("einsum_bhtd", EINSUM_RULES, "    if allowed_mask is not None:\n        allowed = allowed_mask  # bug\n    elif is_causal:\n        allowed = allowed.tril(diagonal=T_k - T_q)\n", shows=EINSUM_HIDE),
        patch("loops", "if is_causal:", "if is_causal and allowed_mask is None:", shows=LOOPS_SCORE),
        patch("chunked_online_softmax", CHUNKED_RULES, CHUNKED_RULES.replace("if causal:", "elif causal:  # bug"), shows=CHUNKED_HIDE),
        patch("with_bias", "    if attn_bias is not None:\n        bias = bias + attn_bias", "    if attn_bias is not None:\n        bias = attn_bias  # bug", shows="logits = logits + bias"),
    ],
    "mask-dropped-with-causal": [
        patch("einsum_bhtd", EINSUM_RULES, EINSUM_RULES.replace("    if allowed_mask", "    elif allowed_mask").replace("not None:", "not None:  # bug"), shows=EINSUM_HIDE),
        patch("loops", "if allowed_mask is not None:", "if allowed_mask is not None and not is_causal:", shows=LOOPS_SCORE),
        patch("matmul_bthd", MATMUL_RULES, MATMUL_RULES.replace("    if blocked_mask", "    elif blocked_mask").replace("not None:", "not None:  # bug"), shows=MATMUL_HIDE),
        patch("manual_softmax", "    if allowed_mask is not None:", "    if allowed_mask is not None and not is_causal:", shows="scores = scores.masked_fill(~visible, -math.inf)"),
    ],
    "window-off-by-one": [
        patch("windowed", "visible = (j <= i) & (j > i - window)", "visible = (j <= i) & (j >= i - window)", "max(0, start - window + 1)", "max(0, start - window)", shows="scores = scores.masked_fill("),
        patch("loops", "(positions > i - window)", "(positions > i - window + 1)", shows=LOOPS_SCORE),
        patch("chunked_online_softmax", "(i - j < window)", "(i - j <= window)", shows=CHUNKED_HIDE),
    ],
    "window-ignored": [
        patch("windowed", "window = T if window is None else window", "window = T", shows="scores = scores.masked_fill("),
        patch("loops", "allowed = allowed & (positions <= i) & (positions > i - window)", "allowed & (positions <= i) & (positions > i - window)", shows=LOOPS_SCORE),
        patch("chunked_online_softmax", "        if window is not None:\n            allowed = allowed & (j <= i) & (i - j < window)\n", "", CHUNKED_HIDE, CHUNKED_HIDE + "  # bug"),
    ],
    "zero-scores-hidden": [
        patch("einsum_bhtd", "scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)", "scores = scores * allowed\n    scores = scores.masked_fill((scores == 0) & ~empty, -math.inf)  # bug"),
        patch("folded_bmm", "scores = scores.masked_fill(hidden & ~empty, -math.inf)", "scores = scores * ~hidden\n        scores = scores.masked_fill((scores == 0) & ~empty, -math.inf)  # bug"),
        patch("manual_softmax", "        hidden = ~allowed_mask.bool()\n        scores = scores.masked_fill(hidden, -math.inf)", "        scores = scores * allowed_mask\n        scores = scores.masked_fill(scores == 0, -math.inf)  # bug"),
    ],
    "integer-mask-negated-bitwise": [
        patch("folded_bmm", "hidden = allowed_mask == 0", "hidden = (~allowed_mask).bool()", shows="scores = scores.masked_fill("),
        patch("manual_softmax", "hidden = ~allowed_mask.bool()", "hidden = (~allowed_mask).bool()", shows="scores = scores.masked_fill(hidden"),
        patch("class_wrapped", "blocked | key_padding_mask[:, None, None, :].bool()", "blocked | ~(~key_padding_mask).bool()[:, None, None, :]", shows=CLASS_HIDE),
    ],
    "documents-leak": [
        patch("packed_documents", "allowed = allowed & same[:, None]", "allowed & same[:, None]", shows="scores = scores.masked_fill("),
        patch("packed_by_document", "there = here", "there = torch.arange(q.shape[2], device=q.device)", shows="scores = q[b][:, here]"),
    ],
    "causal-unwanted": [
        patch("einsum_bhtd", "    if is_causal:\n        allowed = allowed.tril(diagonal=T_k - T_q)", "    allowed = allowed.tril(diagonal=T_k - T_q)  # bug", shows=EINSUM_HIDE),
        patch("loops", "everything[b, h, i]", "everything[b, h, i] & (positions <= i)", shows=LOOPS_SCORE),
        patch("matmul_bthd", "    if causal:\n        blocked =", "    if causal is not None:\n        blocked =", shows=MATMUL_HIDE),
        patch("manual_softmax", "    if is_causal:\n", "    if True:\n", shows="scores = scores.masked_fill(~visible"),
    ],
    "caller-mask-changed": [
        patch("folded_bmm", "hidden = allowed_mask == 0", "hidden = allowed_mask.logical_not_().bool()"),
        patch("with_bias", "bias = bias + attn_bias", "bias = attn_bias.add_(bias)"),
        patch("matmul_bthd", "scores = q @ k.transpose(-2, -1)\n    scores = scores / d**0.5", "scores = q.div_(d**0.5) @ k.transpose(-2, -1)"),
        patch("einsum_bhtd", "        allowed = allowed & allowed_mask", "        allowed_mask &= allowed  # bug\n        allowed = allowed_mask"),
    ],
}
