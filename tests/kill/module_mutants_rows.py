"""SL4 and SL5 in modules: rows that may look nowhere, and positions: the bugs as patches."""

from patching import patch

PER_HEAD_FILL = ".masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)"
LENS_CUT = """            real = T_k if memory_lens is None else int(memory_lens[b])
            shown = memory[b, :real]
"""
LENS_ALL = """            real = T_k if memory_lens is None else int(memory_lens[b])
            shown = memory[b]
"""
LENS_SOFTMAX = "            weights = torch.softmax(scores, dim=-1)\n"
LENS_HIDE = """            late = torch.arange(T_k, device=memory.device) >= real
            weights = torch.softmax(scores.masked_fill(late, torch.finfo(scores.dtype).min), dim=-1)
            weights = weights.masked_fill(late, 0.0)
"""

EMPTY_ROWS = {
    "empty-row-nan": [
        patch(
            "separate_projections",
            "weights = exps / total.masked_fill(total == 0, 1.0)",
            "weights = exps / total",
            empty_rows="zero",
        ),
        patch(
            "per_head_einsum",
            PER_HEAD_FILL,
            ".masked_fill(~allowed, -math.inf)",
            "        weights = weights.masked_fill(empty, 0.0)\n",
            "",
            shows="weights = logits.softmax(dim=-1)",
            empty_rows="zero",
        ),
        patch(
            "alibi_causal",
            "blocked & ~nowhere",
            "blocked",
            "        weights = weights.masked_fill(nowhere, 0.0)\n",
            "",
            shows="weights = torch.softmax(scores",
            empty_rows="zero",
        ),
        patch(
            "grouped_rotary",
            "~(visible | nowhere)",
            "~visible",
            "        probs = probs.masked_fill(nowhere, 0.0)\n",
            "",
            shows="probs = F.softmax(scores",
            empty_rows="zero",
        ),
    ],
    "empty-row-uniform": [
        patch(
            "per_head_einsum",
            PER_HEAD_FILL,
            ".masked_fill(~allowed, torch.finfo(logits.dtype).min)",
            "        weights = weights.masked_fill(empty, 0.0)\n",
            "",
            shows="weights = logits.softmax(dim=-1)",
            empty_rows="zero",
        ),
        patch(
            "alibi_window",
            "        probs = probs.masked_fill(nowhere, 0.0)\n",
            "",
            "torch.softmax(scores.masked_fill(nowhere, 0.0), dim=-1)",
            "torch.softmax(scores.masked_fill(nowhere, 0.0), dim=-1)  # bug",
            shows="scores = scores.masked_fill(~key_padding_mask",
            empty_rows="zero",
        ),
        patch(
            "grouped_rotary",
            '~(visible | nowhere), float("-inf")',
            "~visible, torch.finfo(scores.dtype).min",
            "        probs = probs.masked_fill(nowhere, 0.0)\n",
            "",
            shows="probs = F.softmax(scores",
            empty_rows="zero",
        ),
        patch(
            "mha_like",
            "        attn = attn.masked_fill(nowhere, 0.0)\n",
            "",
            "attn = F.softmax(attn.masked_fill(nowhere, 0.0), dim=-1)",
            "attn = F.softmax(attn.masked_fill(nowhere, 0.0), dim=-1)  # bug",
            shows="attn = attn.masked_fill(blocked",
            empty_rows="zero",
        ),
    ],
    "empty-row-nan-gradient": [
        patch(
            "per_head_einsum",
            "logits = logits" + PER_HEAD_FILL,
            "logits = logits + torch.zeros_like(logits).masked_fill(~allowed, -math.inf)",
            shows="weights = logits.softmax(",
        ),
        patch(
            "grouped_rotary",
            'scores = scores.masked_fill(~(visible | nowhere), float("-inf"))',
            "scores = scores + torch.zeros_like(scores).masked_fill(~visible, -torch.inf)",
            shows="probs = F.softmax(scores",
        ),
        patch(
            "mha_like",
            "attn = attn.masked_fill(blocked, -math.inf)",
            "attn = attn + torch.zeros_like(attn).masked_fill(blocked, -math.inf)",
            "F.softmax(attn.masked_fill(nowhere, 0.0), dim=-1)",
            "F.softmax(attn, dim=-1)",
            shows="attn = F.softmax(attn, dim=-1)",
        ),
        patch(
            "alibi_window",
            "torch.softmax(scores.masked_fill(nowhere, 0.0), dim=-1)",
            "torch.softmax(scores, dim=-1)",
        ),
    ],
    "hidden-nan-leaks": [
        patch(
            "decoder_memory",
            "        head_v = head_v.masked_fill(hidden[:, :, None, None], 0.0)  # 0 * nan would be nan\n"
            "        attn_vec =",
            "        attn_vec =",
            hidden_nan="isolated",
        ),
        patch(
            "chunked_keys",
            "            v = v.masked_fill(~key_mask[:, None, :, None], 0.0)  # 0 * nan would be nan\n",
            "",
            "output = output * shrink + shares @ v[:, :, here].to(wide)",
            "output = output * shrink + shares @ v[:, :, here].to(wide)  # bug",
            hidden_nan="isolated",
        ),
        patch(
            "lens_cross",
            LENS_CUT,
            LENS_ALL,
            LENS_SOFTMAX,
            LENS_HIDE,
            "mixed = torch.bmm(weights, v)",
            "mixed = torch.bmm(weights, v)  # bug",
            hidden_nan="isolated",
        ),
    ],
}

POSITIONS = {
    "rope-pairing-mixed": [
        patch(
            "grouped_rotary",
            "angles = torch.cat([angles, angles], dim=-1)  # channel i pairs with channel i + head_dim / 2",
            "angles = angles.repeat_interleave(2, dim=-1)",
            shows="return x * cos + rotate_half(x) * sin",
        ),
        patch(
            "grouped_window",
            "torch.outer(position, inv_freq).repeat_interleave(2, dim=-1)",
            "torch.outer(position, inv_freq).repeat(1, 2)",
            shows="return x * angles.cos()",
        ),
        patch(
            "rotary_complex",
            "q, k = apply_rotary(q), apply_rotary(k)",
            "k = k.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)  # bug\n"
            "        q, k = apply_rotary(q), apply_rotary(k)  # shows",
        ),
    ],
    "rope-wrong-axis": [
        patch(
            "grouped_rotary",
            "        xq, xk = self.rotate(xq), self.rotate(xk)\n"
            "        xq, xk, xv = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)\n",
            "        xq, xk, xv = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)\n"
            "        xq, xk = self.rotate(xq), self.rotate(xk)  # bug\n",
            shows="T = x.shape[1]\n        cos",
        ),
        patch(
            "grouped_window",
            "torch.arange(x.shape[2], device=x.device).float()",
            "torch.arange(x.shape[1], device=x.device).float()",
            "torch.outer(position, inv_freq).repeat_interleave(2, dim=-1)",
            "torch.outer(position, inv_freq).repeat_interleave(2, dim=-1)[:, None]",
            shows="return x * angles.cos()",
        ),
        patch(
            "rotary_complex",
            "        q, k = apply_rotary(q), apply_rotary(k)\n"
            "        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)\n",
            "        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)\n"
            "        q, k = apply_rotary(q), apply_rotary(k)  # bug\n",
        ),
    ],
    "alibi-sign-flipped": [
        patch("alibi_causal", "scores - self.slopes", "scores + self.slopes"),
        patch(
            "alibi_interleaved",
            "offset = index[None, :] - index[:, None]  # key position minus query position: 0 or less",
            "offset = index[:, None] - index[None, :]",
            "allowed = offset <= 0",
            "allowed = offset >= 0",
            shows="attention_scores = attention_scores + alibi",
        ),
        patch(
            "alibi_window",
            "bias = -distance.abs()",
            "bias = distance.abs()",
            shows="scores = scores + self.bias(",
        ),
    ],
}
