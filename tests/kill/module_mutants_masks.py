"""SL1 in modules, the given mask: the bugs as patches."""

from patching import patch

SEPARATE_HIDE = "scores = scores.masked_fill(hidden, -math.inf)"
CROSS_HIDE = "sim = sim.masked_fill("
MHA_HIDE = "attn = attn.masked_fill(blocked, -math.inf)"
GPT_LOOK = "y = F.scaled_dot_product_attention("
PER_HEAD_HIDE = "logits = logits.masked_fill("
SCORES_HIDE = "scores = scores.masked_fill("
POST_HIDE = "attn = attn.masked_fill("
POST_FILL = "attn = attn.masked_fill(mask == 0, torch.finfo(attn.dtype).min)"
CROSS_FILL = """            max_neg_value = -torch.finfo(sim.dtype).max
            sim = sim.masked_fill(~context_mask, max_neg_value)
"""
SEPARATE_FILL = """            hidden = ~mask.bool()
            scores = scores.masked_fill(hidden, -math.inf)
"""
WINDOW_HIDE = "attn_weights = attn_weights.masked_fill(~(visible"

MASKS = {
    "mask-ignored": [
        patch("separate_projections", SEPARATE_HIDE, SEPARATE_HIDE.split(" = ")[1]),
        patch("cross_attention", "sim = sim.masked_fill(~context_mask", "sim.masked_fill(~context_mask"),
        patch("post_norm_residual", "attn = attn.masked_fill(mask", "attn.masked_fill(mask"),
        patch("gpt_fused", "visible = visible & real", "visible & real", shows=GPT_LOOK),
        patch(
            "grouped_rotary",
            "visible = visible & attention_mask",
            "visible & attention_mask",
            shows=SCORES_HIDE,
        ),
        patch(
            "per_head_einsum",
            "allowed = allowed & allowed_mask",
            "allowed & allowed_mask",
            shows=PER_HEAD_HIDE,
        ),
    ],
    "mask-inverted": [
        patch("separate_projections", "~mask.bool()", "mask.bool()", shows=SEPARATE_HIDE),
        patch("cross_attention", "masked_fill(~context_mask", "masked_fill(context_mask"),
        patch("post_norm_residual", "mask == 0", "mask != 0"),
        patch("gpt_fused", "real = attention_mask.bool()", "real = ~attention_mask.bool()", shows=GPT_LOOK),
        patch("mha_like", "padding = key_padding_mask.", "padding = (~key_padding_mask).", shows=MHA_HIDE),
        patch("grouped_rotary", "visible & attention_mask", "visible & ~attention_mask", shows=SCORES_HIDE),
        patch("alibi_causal", "blocked | padding_mask", "blocked | ~padding_mask", shows=SCORES_HIDE),
        patch(
            "lens_cross",
            "shown = memory[b, :real]",
            "shown = memory[b, :real] if memory_lens is None else memory[b, real:]",
            shows="scores = torch.bmm(q",
        ),
    ],
    "mask-after-softmax": [
        patch(
            "separate_projections",
            "            " + SEPARATE_HIDE + "\n",
            "",
            "weights = self.dropout(weights.to(v.dtype))",
            "if mask is not None:\n"
            "            weights = weights.masked_fill(hidden, 0.0)  # bug\n"
            "        weights = self.dropout(weights.to(v.dtype))",
        ),
        patch(
            "cross_attention",
            CROSS_FILL,
            "",
            "attn = sim.softmax(dim=-1)",
            "attn = sim.softmax(dim=-1)\n"
            "        if exists(context_mask):\n"
            "            attn = attn * context_mask  # bug",
        ),
        patch(
            "post_norm_residual",
            "        if mask is not None:\n            " + POST_FILL + "\n",
            "",
            "attn = F.softmax(attn, dim=-1)",
            "attn = F.softmax(attn, dim=-1)\n"
            "        if mask is not None:\n"
            "            attn = attn.masked_fill(mask == 0, 0.0)  # bug",
        ),
        patch(
            "per_head_einsum",
            "        logits = logits.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)\n",
            "",
            "weights = weights.masked_fill(empty, 0.0)",
            "weights = weights.masked_fill(~allowed, 0.0)  # bug",
        ),
    ],
    "mask-added-as-number": [
        patch("separate_projections", SEPARATE_FILL, "            scores = scores + mask  # bug\n"),
        patch("cross_attention", CROSS_FILL, "            sim = sim + context_mask.to(sim.dtype)  # bug\n"),
        patch("post_norm_residual", POST_FILL, "attn = attn + mask"),
        patch(
            "grouped_window",
            "            visible = visible & attention_mask[:, None, None, :].bool()\n",
            "            attention_mask = attention_mask[:, None, None, :]\n",
            "attn_weights = attn_weights * self.scaling",
            "attn_weights = attn_weights * self.scaling\n"
            "        if attention_mask is not None:\n"
            "            attn_weights = attn_weights + attention_mask  # bug",
        ),
    ],
    "mask-multiplies-scores": [
        patch("separate_projections", SEPARATE_FILL, "            scores = scores * mask  # bug\n"),
        patch("cross_attention", CROSS_FILL, "            sim = sim * context_mask  # bug\n"),
        patch("post_norm_residual", POST_FILL, "attn = attn * mask"),
        patch(
            "head_list", 'wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))', "wei * self.tril[:T, :T]"
        ),
    ],
    "mask-fill-too-weak": [
        patch("separate_projections", "masked_fill(hidden, -math.inf)", "masked_fill(hidden, -1e-9)"),
        patch(
            "cross_attention", "-torch.finfo(sim.dtype).max", "-torch.finfo(sim.dtype).tiny", shows=CROSS_HIDE
        ),
        patch("post_norm_residual", "torch.finfo(attn.dtype).min", "1e-9"),
        patch("head_list", 'float("-inf")', "-10.0"),
    ],
    "mask-hides-queries": [
        patch("gpt_fused", "real[:, None, None, :]", "real[:, None, :, None]", shows=GPT_LOOK),
        patch(
            "grouped_rotary",
            "attention_mask[:, None, None, :]",
            "attention_mask[:, None, :, None]",
            shows=SCORES_HIDE,
        ),
        patch(
            "alibi_causal",
            "padding_mask[:, None, None, :]",
            "padding_mask[:, None, :, None]",
            shows=SCORES_HIDE,
        ),
        patch(
            "chunked_keys",
            "allowed = allowed & key_mask[:, None, :]",
            "allowed = allowed & key_mask[:, :, None]",
            "            v = v.masked_fill(~key_mask[:, None, :, None], 0.0)  # 0 * nan would be nan\n",
            "",
            shows=SCORES_HIDE,
        ),
        patch(
            "alibi_interleaved",
            "attention_mask[:, None, None, :]",
            "attention_mask[:, None, :, None]",
            shows="attention_scores = attention_scores.masked_fill(",
        ),
    ],
    "mask-shared-across-batch": [
        patch("gpt_fused", "real[:, None, None, :]", "real[:1, None, None, :]", shows=GPT_LOOK),
        patch(
            "cross_attention",
            "context_mask.reshape(b, 1, 1, m)",
            "context_mask[:1].reshape(1, 1, 1, m)",
            shows=CROSS_HIDE,
        ),
        patch("alibi_causal", "padding_mask[:, None, None, :]", "padding_mask[0]", shows=SCORES_HIDE),
        patch(
            "mha_like",
            "key_padding_mask.repeat_interleave(self.num_heads, dim=0)",
            "key_padding_mask[:1].repeat(B * self.num_heads, 1)",
            shows=MHA_HIDE,
        ),
        patch("lens_cross", "int(memory_lens[b])", "int(memory_lens[0])", shows="shown = memory[b, :real]"),
    ],
    "mask-batch-head-order": [
        patch(
            "mha_like",
            "key_padding_mask.repeat_interleave(self.num_heads, dim=0)",
            "key_padding_mask.repeat(self.num_heads, 1)",
            shows=MHA_HIDE,
        ),
        patch(
            "cross_attention",
            "context_mask.reshape(b, 1, 1, m)",
            "context_mask.repeat(h, 1).reshape(b, h, 1, m)",
            shows=CROSS_HIDE,
        ),
        patch(
            "post_norm_residual",
            "mask = mask.unsqueeze(1)",
            "mask = mask.repeat(n_head, 1, 1).view(sz_b, n_head, -1, len_k)",
            shows=POST_HIDE,
        ),
        patch(
            "bert_like",
            "attention_mask[:, None, None, :].bool()",
            "attention_mask.repeat(self.num_attention_heads, 1).bool()  # bug\n"
            "            by_head = (-1, self.num_attention_heads, 1, key_layer.size(2))\n"
            "            attention_mask = attention_mask.view(by_head)",
            shows="context_layer = F.scaled_dot_product_attention(",
        ),
    ],
    "zero-scores-hidden": [
        patch(
            "separate_projections",
            SEPARATE_FILL,
            "            scores = scores * mask\n"
            "            scores = scores.masked_fill(scores == 0, -math.inf)  # bug\n",
        ),
        patch(
            "post_norm_residual",
            POST_FILL,
            "attn = attn * mask\n"
            "            attn = attn.masked_fill(attn == 0, torch.finfo(attn.dtype).min)  # bug",
        ),
        patch(
            "cross_attention",
            CROSS_FILL,
            CROSS_FILL.replace(
                "sim = sim.masked_fill(~context_mask, max_neg_value)",
                "sim = sim * context_mask\n            sim = sim.masked_fill(sim == 0, max_neg_value)  # bug",
            ),
        ),
        patch(
            "head_list",
            'wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))',
            'wei = wei * self.tril[:T, :T]\n        wei = wei.masked_fill(wei == 0, float("-inf"))  # bug',
        ),
    ],
    "integer-mask-negated-bitwise": [
        patch("separate_projections", "~mask.bool()", "(~mask).bool()", shows=SEPARATE_HIDE),
        patch("post_norm_residual", "masked_fill(mask == 0,", "masked_fill((~mask).bool(),"),
        patch(
            "gpt_fused", "real = attention_mask.bool()", "real = ~(~attention_mask).bool()", shows=GPT_LOOK
        ),
        patch(
            "grouped_window",
            "attention_mask[:, None, None, :].bool()",
            "~(~attention_mask[:, None, None, :]).bool()",
            shows=WINDOW_HIDE,
        ),
    ],
    "caller-mask-changed": [
        patch("separate_projections", "~mask.bool()", "mask.logical_not_().bool()"),
        patch("cross_attention", "masked_fill(~context_mask", "masked_fill(context_mask.logical_not_()"),
        patch(
            "grouped_window",
            "attention_mask[:, None, None, :].bool()",
            "(attention_mask.logical_not_() == 0)[:, None, None, :]",
        ),
        patch("post_norm_residual", "output = output + residual", "output = residual.add_(output)"),
        patch(
            "per_head_einsum",
            "allowed = allowed & allowed_mask",
            "allowed_mask &= allowed  # bug\n            allowed = allowed_mask",
        ),
    ],
    "memory-mask-misplaced": [
        patch(
            "bert_like",
            "            attention_mask = encoder_attention_mask\n",
            "",
            "attention_mask = attention_mask[:, None, None, :].bool()",
            "attention_mask = attention_mask[:, None, None, :].bool()  # bug",
            shows="current_states = encoder_hidden_states",
        ),
        patch(
            "decoder_memory",
            "        if memory_key_padding_mask is not None:\n            hidden = memory_key_padding_mask\n",
            "        if tgt_key_padding_mask is not None:\n"
            "            hidden = tgt_key_padding_mask  # bug\n",
            shows="attn_score = attn_score.masked_fill(hidden",
        ),
        patch(
            "lens_cross",
            "T_k if memory_lens is None else int(memory_lens[b])",
            "T_k if query_lens is None else int(query_lens[b])",
            shows="shown = memory[b, :real]",
        ),
    ],
}
