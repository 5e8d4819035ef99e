"""SL1 in modules, the rules of position: causal, window and packed documents: the bugs as patches."""

from patching import patch

GPT_LOOK = "y = F.scaled_dot_product_attention("
GROUPED_HIDE = "scores = scores.masked_fill("
MHA_HIDE = "attn = attn.masked_fill(blocked, -math.inf)"
PER_HEAD_HIDE = "logits = logits.masked_fill("
ALIBI_HIDE = "scores = scores.masked_fill("
CACHED_HIDE = "w = torch.where(seen, w, -math.inf)"
CHUNKED_HIDE = "scores = scores.masked_fill("
MHA_RULES = """        if is_causal:
            blocked = blocked | torch.ones_like(blocked).triu(T_k - T_q + 1)
        if key_padding_mask is not None:
"""
PER_HEAD_RULES = """        if is_causal:
            allowed = allowed.tril(T_k - T_q)
        if allowed_mask is not None:
            allowed = allowed & allowed_mask
"""

CAUSAL = {
    "future-visible": [
        patch(
            "gpt_fused", "torch.tril(torch.ones(config", "torch.ones_like(torch.ones(config", shows=GPT_LOOK
        ),
        patch("grouped_rotary", "device=x.device).tril()", "device=x.device)", shows=GROUPED_HIDE),
        patch("head_list", "wei = wei.masked_fill(self", "wei.masked_fill(self"),
        patch("alibi_causal", "blocked = distance < 0", "blocked = distance < -T", shows=ALIBI_HIDE),
        patch("rotary_complex", "device=x.device).tril()", "device=x.device)", shows=GROUPED_HIDE),
        patch("cached_causal", "w = torch.where(seen, w, -math.inf)", "torch.where(seen, w, -math.inf)"),
        patch("mha_like", "blocked = blocked | torch.ones_like", "blocked | torch.ones_like", shows=MHA_HIDE),
    ],
    "next-token-visible": [
        patch(
            "gpt_fused",
            "config.block_size, dtype=torch.bool))",
            "config.block_size, dtype=torch.bool), 1)",
            shows=GPT_LOOK,
        ),
        patch(
            "head_list",
            "torch.ones(block_size, block_size))",
            "torch.ones(block_size, block_size), diagonal=1)",
            shows="wei = wei.masked_fill(",
        ),
        patch("grouped_rotary", "device=x.device).tril()", "device=x.device).tril(1)", shows=GROUPED_HIDE),
        patch("alibi_causal", "blocked = distance < 0", "blocked = distance < -1", shows=ALIBI_HIDE),
        patch("cached_causal", "tril(diagonal=T_k - T_q)", "tril(diagonal=T_k - T_q + 1)", shows=CACHED_HIDE),
        patch("mha_like", "triu(T_k - T_q + 1)", "triu(T_k - T_q + 2)", shows=MHA_HIDE),
    ],
    "self-hidden": [
        patch(
            "gpt_fused",
            "config.block_size, dtype=torch.bool))",
            "config.block_size, dtype=torch.bool), -1)",
            shows=GPT_LOOK,
            self_visible=True,
        ),
        patch(
            "grouped_rotary",
            "device=x.device).tril()",
            "device=x.device).tril(-1)",
            shows=GROUPED_HIDE,
            self_visible=True,
        ),
        patch(
            "alibi_causal",
            "blocked = distance < 0",
            "blocked = distance <= 0",
            shows=ALIBI_HIDE,
            self_visible=True,
        ),
        patch("mha_like", "triu(T_k - T_q + 1)", "triu(T_k - T_q)", shows=MHA_HIDE, self_visible=True),
        patch(
            "per_head_einsum",
            "tril(T_k - T_q)",
            "tril(T_k - T_q - 1)",
            shows=PER_HEAD_HIDE,
            self_visible=True,
        ),
    ],
    "causal-top-left": [
        patch("mha_like", "triu(T_k - T_q + 1)", "triu(1)", shows=MHA_HIDE, corner="bottom-right"),
        patch("per_head_einsum", "tril(T_k - T_q)", "tril()", shows=PER_HEAD_HIDE, corner="bottom-right"),
        patch(
            "cached_causal",
            "tril(diagonal=T_k - T_q)",
            "tril(diagonal=0)",
            shows=CACHED_HIDE,
            corner="bottom-right",
        ),
    ],
    "causal-dropped-with-mask": [
        patch(
            "gpt_fused",
            "visible = visible & real[:, None, None, :]",
            "visible = real[:, None, None, :]",
            shows=GPT_LOOK,
        ),
        patch("grouped_rotary", "visible & attention_mask", "attention_mask", shows=GROUPED_HIDE),
        patch("alibi_causal", "blocked | padding_mask", "padding_mask", shows=ALIBI_HIDE),
        patch(
            "alibi_interleaved",
            "allowed & attention_mask",
            "attention_mask",
            shows="attention_scores = attention_scores.masked_fill(",
        ),
        patch(
            "per_head_einsum", "if is_causal:", "if is_causal and allowed_mask is None:", shows=PER_HEAD_HIDE
        ),
        patch("mha_like", "if is_causal:", "if is_causal and key_padding_mask is None:", shows=MHA_HIDE),
    ],
    "mask-dropped-with-causal": [
        patch(
            "mha_like",
            MHA_RULES,
            MHA_RULES.replace("if key", "elif key").replace("None:", "None:  # bug"),
            shows=MHA_HIDE,
        ),
        patch(
            "per_head_einsum",
            PER_HEAD_RULES,
            PER_HEAD_RULES.replace("if allowed", "elif allowed").replace("None:", "None:  # bug"),
            shows=PER_HEAD_HIDE,
        ),
        patch(
            "chunked_keys",
            "if key_mask is not None:",
            "if key_mask is not None and not is_causal:",
            shows=CHUNKED_HIDE,
        ),
    ],
    "window-off-by-one": [
        patch(
            "grouped_window",
            "j > i - self.sliding_window",
            "j >= i - self.sliding_window",
            shows="attn_weights = attn_weights.masked_fill(~(visible",
        ),
        patch(
            "alibi_window",
            "distance >= self.window_size",
            "distance > self.window_size",
            shows="scores = scores + self.bias(",
        ),
        patch(
            "local_blocks",
            "i - j < self.window_size",
            "i - j < self.window_size - 1",
            shows="sim = sim.masked_fill(",
        ),
    ],
    "window-ignored": [
        patch(
            "grouped_window",
            "visible = (j <= i) & (j > i - self.sliding_window)",
            "visible = j <= i",
            shows="attn_weights = attn_weights.masked_fill(~(visible",
        ),
        patch(
            "alibi_window",
            "bias = bias.masked_fill(distance >=",
            "bias.masked_fill(distance >=",
            shows="scores = scores + self.bias(",
        ),
        patch(
            "local_blocks",
            "visible = (j <= i) & (i - j < self.window_size)",
            "visible = j <= i",
            "first = max(0, start - self.window_size + 1)",
            "first = 0",
            shows="sim = sim.masked_fill(",
        ),
    ],
    "documents-leak": [
        patch("grouped_einsum", "scores = scores.masked_fill(~same", "scores.masked_fill(~same"),
        patch("rotary_complex", "allowed = allowed & same", "allowed & same", shows=GROUPED_HIDE),
        patch(
            "chunked_keys",
            "allowed = allowed & (document_ids",
            "allowed.logical_and(document_ids",
            shows=CHUNKED_HIDE,
        ),
    ],
    "causal-unwanted": [
        patch(
            "separate_projections",
            "scores = scores / math.sqrt(self.d_head)",
            "scores = scores / math.sqrt(self.d_head)\n"
            "        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)  # bug\n"
            "        scores = scores.masked_fill(future, -math.inf)  # shows",
            causal="none",
        ),
        patch(
            "vit_qkv",
            "attn = attn * self.scale",
            "attn = attn * self.scale\n"
            '        attn = attn + attn.new_full((N, N), float("-inf")).triu(1)  # bug',
            causal="none",
        ),
        patch("mha_like", "if is_causal:", "if is_causal is not None:", shows=MHA_HIDE),
        patch(
            "per_head_einsum",
            "        if is_causal:\n            allowed",
            "        allowed",
            shows=PER_HEAD_HIDE,
        ),
        patch(
            "chunked_keys",
            "        if is_causal:\n            allowed",
            "        allowed",
            shows=CHUNKED_HIDE,
        ),
    ],
}
