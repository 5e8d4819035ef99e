"""SL1, the rules of position: causal, window and packed documents: the bugs as patches."""

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
MATMUL_RULES = """    if causal:
        blocked = blocked | ~torch.ones(T_q, T_k, dtype=torch.bool, device=q.device).tril(T_k - T_q)
    if blocked_mask is not None:
        blocked = blocked | blocked_mask
"""

CAUSAL = {
    "future-visible": [
        patch("einsum_bhtd", "allowed = allowed.tril(diagonal", "allowed.tril(diagonal", shows=EINSUM_HIDE),
        patch(
            "loops",
            "allowed & (positions <= i)\n                if window",
            "allowed & (positions <= T_k)\n                if window",
            shows=LOOPS_SCORE,
        ),
        patch(
            "class_wrapped",
            "torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)",
            "torch.zeros(T, T, dtype=torch.bool, device=q.device)",
            shows=CLASS_HIDE,
        ),
        patch(
            "manual_softmax",
            "scores = scores.masked_fill(~visible, -math.inf)",
            "scores.masked_fill(~visible, -math.inf)",
        ),
    ],
    "next-token-visible": [
        patch("einsum_bhtd", "diagonal=T_k - T_q)", "diagonal=T_k - T_q + 1)", shows=EINSUM_HIDE),
        patch(
            "loops",
            "allowed & (positions <= i)\n                if window",
            "allowed & (positions <= i + 1)\n                if window",
            shows=LOOPS_SCORE,
        ),
        patch(
            "chunked_online_softmax",
            "allowed & (j <= i)",
            "allowed & (j <= i + 1)",
            shows=CHUNKED_HIDE,
        ),
        patch("class_wrapped", ".triu(1)", ".triu(2)", shows=CLASS_HIDE),
        patch("with_bias", "triu(diagonal=1)", "triu(diagonal=2)", shows="logits = logits + bias"),
    ],
    "self-hidden": [
        patch(
            "einsum_bhtd",
            "diagonal=T_k - T_q)",
            "diagonal=T_k - T_q - 1)",
            shows=EINSUM_HIDE,
            self_visible=True,
        ),
        patch(
            "loops",
            "allowed & (positions <= i)\n                if window",
            "allowed & (positions < i)\n                if window",
            shows=LOOPS_SCORE,
            self_visible=True,
        ),
        patch(
            "chunked_online_softmax",
            "allowed & (j <= i)",
            "allowed & (j < i)",
            shows=CHUNKED_HIDE,
            self_visible=True,
        ),
        patch("class_wrapped", ".triu(1)", ".triu(0)", shows=CLASS_HIDE, self_visible=True),
    ],
    "causal-top-left": [
        patch(
            "einsum_bhtd",
            "allowed.tril(diagonal=T_k - T_q)",
            "allowed.tril()",
            shows=EINSUM_HIDE,
            corner="bottom-right",
        ),
        patch(
            "chunked_online_softmax",
            "[:, None] + (T_k - T_q)",
            "[:, None]",
            shows="allowed = allowed & (j <= i)",
            corner="bottom-right",
        ),
        patch("matmul_bthd", ".tril(T_k - T_q)", ".tril()", shows=MATMUL_HIDE, corner="bottom-right"),
    ],
    "causal-dropped-with-mask": [
        patch(
            "einsum_bhtd",
            EINSUM_RULES,
            "    if allowed_mask is not None:\n"
            "        allowed = allowed_mask  # bug\n"
            "    elif is_causal:  # shows\n"  # an "if" here, and a join: as right a repair
            "        allowed = allowed.tril(diagonal=T_k - T_q)\n",
            shows=EINSUM_HIDE,
        ),
        patch(
            "manual_softmax",
            "    if is_causal:\n",
            "    if is_causal and allowed_mask is None:\n",
            shows="scores = scores.masked_fill(hidden, -math.inf)",
        ),
        patch(
            "autograd_function",
            "allowed = torch.logical_and(allowed, allowed_mask)",
            "allowed = allowed_mask.expand(*q.shape[:-1], k.shape[-2])",
            shows="scores = scores.masked_fill(~allowed",
        ),
        patch(
            "with_bias",
            "    if attn_bias is not None:\n        bias = bias + attn_bias",
            "    if attn_bias is not None:\n        bias = attn_bias  # bug",
            shows="logits = logits + bias",
        ),
    ],
    "mask-dropped-with-causal": [
        patch(
            "einsum_bhtd",
            EINSUM_RULES,
            EINSUM_RULES.replace("    if allowed_mask", "    elif allowed_mask").replace(
                "not None:", "not None:  # bug"
            ),
            shows=EINSUM_HIDE,
        ),
        patch(
            "loops",
            "if allowed_mask is not None:",
            "if allowed_mask is not None and not is_causal:",
            shows=LOOPS_SCORE,
        ),
        patch(
            "matmul_bthd",
            MATMUL_RULES,
            MATMUL_RULES.replace("    if blocked_mask", "    elif blocked_mask").replace(
                "not None:", "not None:  # bug"
            ),
            shows=MATMUL_HIDE,
        ),
        patch(
            "manual_softmax",
            "    if allowed_mask is not None:",
            "    if allowed_mask is not None and not is_causal:",
            shows="scores = scores.masked_fill(~visible, -math.inf)",
        ),
    ],
    "window-off-by-one": [
        patch(
            "windowed",
            "visible = (j <= i) & (j > i - window)",
            "visible = (j <= i) & (j >= i - window)",
            "max(0, start - window + 1)",
            "max(0, start - window)",
            shows="scores = scores.masked_fill(",
        ),
        patch("loops", "(positions > i - window)", "(positions > i - window + 1)", shows=LOOPS_SCORE),
        patch("chunked_online_softmax", "(i - j < window)", "(i - j <= window)", shows=CHUNKED_HIDE),
    ],
    "window-ignored": [
        patch(
            "windowed",
            "window = T if window is None else window",
            "window = T",
            shows="scores = scores.masked_fill(",
        ),
        patch(
            "loops",
            "allowed = allowed & (positions > i - window)",
            "allowed & (positions > i - window)  # bug",
            "if is_causal or window is not None:",
            "if is_causal:",
            shows=LOOPS_SCORE,
        ),
        patch(
            "chunked_online_softmax",
            "        if window is not None:\n            allowed = allowed & (i - j < window)\n",
            "",
            "if causal or window is not None:",
            "if causal:",
            CHUNKED_HIDE,
            CHUNKED_HIDE + "  # bug",
        ),
    ],
    "documents-leak": [
        patch(
            "packed_documents",
            "allowed = allowed & same[:, None]",
            "allowed & same[:, None]",
            shows="scores = scores.masked_fill(",
        ),
        patch(
            "packed_by_document",
            "there = here",
            "there = torch.arange(q.shape[2], device=q.device)",
            shows="scores = q[b][:, here]",
        ),
    ],
    "causal-unwanted": [
        patch(
            "einsum_bhtd",
            "    if is_causal:\n        allowed = allowed.tril(diagonal=T_k - T_q)",
            "    allowed = allowed.tril(diagonal=T_k - T_q)  # bug",
            shows=EINSUM_HIDE,
        ),
        patch("loops", "everything[b, h, i]", "everything[b, h, i] & (positions <= i)", shows=LOOPS_SCORE),
        patch(
            "matmul_bthd",
            "    if causal:\n        blocked =",
            "    if causal is not None:\n        blocked =",
            shows=MATMUL_HIDE,
        ),
        patch(
            "manual_softmax",
            "    if is_causal:\n",
            "    if True:\n",
            shows="scores = scores.masked_fill(~visible",
        ),
    ],
}
