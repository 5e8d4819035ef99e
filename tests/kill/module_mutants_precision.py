"""SL7 in modules, precision, layouts in memory and paths: the bugs as patches."""

from patching import patch

VIT_PATH = """        if not self.training:  # bug
            attn = attn * self.scale
"""
MHA_FAST = """        if not need_weights:  # shows
            scale = self.head_dim**-0.5
            q = q * scale  # bug
            dropout_p = self.dropout if self.training else 0.0
            bias = torch.zeros_like(blocked, dtype=q.dtype).masked_fill(blocked, -math.inf)
            if attn_mask is not None and attn_mask.dtype != torch.bool:
                bias = bias + attn_mask
            output = F.scaled_dot_product_attention(q, k, v, bias, dropout_p)  # shows
            output = self.out_proj(output.transpose(0, 1).reshape(T_q, B, self.embed_dim))
            return (output.transpose(0, 1) if self.batch_first else output), None
        attn = torch.bmm(q, k.transpose(1, 2))
"""
HALF = {"dtype": "float16"}

PRECISION = {
    "mask-overflows-half": [
        # Its docstring wants zeros for empty rows; with this fill they average, which is declared here.
        patch(
            "separate_projections",
            "masked_fill(hidden, -math.inf)",
            "masked_fill(hidden, -1e9)",
            empty_rows="uniform",
            **HALF,
        ),
        patch(
            "cross_attention", "-torch.finfo(sim.dtype).max", "-1e9", shows="sim = sim.masked_fill(", **HALF
        ),
        patch("head_list", 'float("-inf")', "-1e9", **HALF),
        patch("post_norm_residual", "torch.finfo(attn.dtype).min", "-1e9", **HALF),
        patch(
            "cached_causal", "w = torch.where(seen, w, -math.inf)", "w = w.masked_fill(~seen, -1e9)", **HALF
        ),
    ],
    "error-above-plain": [
        patch(
            "chunked_keys",
            "wide = torch.promote_types(x.dtype, torch.float32)",
            "wide = x.dtype",
            shows="output = output * shrink",
            dtype="bfloat16",
        ),
        patch(
            "separate_projections",
            "wide = scores.to(torch.promote_types(scores.dtype, torch.float32))",
            "wide = scores",
            "total = exps.sum(dim=-1, keepdim=True)",
            "total = 0 * top\n"
            "        for exp in exps.split(1, dim=-1):\n"
            "            total = total + exp  # bug",
            dtype="bfloat16",
        ),
        patch(
            "head_list",
            "out = wei @ v",
            "out = torch.zeros_like(v)\n"
            "        for j in range(T):\n"
            "            out = out + wei[:, :, j, None] * v[:, j, None, :]  # bug",
            dtype="bfloat16",
        ),
    ],
    "non-contiguous-misread": [
        patch(
            "separate_projections",
            "B, T, d_model = x.shape",
            "B, T, d_model = x.shape\n        x = x.as_strided(x.shape, (T * d_model, d_model, 1))  # bug",
        ),
        patch(
            "vit_qkv",
            "B, N, C = x.shape",
            "B, N, C = x.shape\n        x = x.as_strided((B, N, C), (N * C, C, 1))  # bug",
        ),
        patch(
            "cross_attention",
            "m = context.shape[1]",
            "m = context.shape[1]\n"
            "        width = context.shape[2]\n"
            "        context = torch.as_strided(context, context.shape, (m * width, width, 1))  # bug",
        ),
        patch(
            "head_list",
            "        out = torch.cat(",
            "        x = torch.as_strided(x, x.shape, (x.shape[1] * x.shape[2], x.shape[2], 1))  # bug\n"
            "        out = torch.cat(",
        ),
    ],
    "block-remainder-dropped": [
        patch(
            "chunked_keys",
            "range(0, T, self.block)",
            "range(0, T - T % self.block, self.block)",
            shows="scores = q.to(wide) @",
        ),
        patch(
            "local_blocks",
            "outs = []",
            "outs = torch.zeros_like(v)",
            "range(0, n, block):",
            "range(0, n - n % block, block):  # bug",
            "outs.append(attn @ v[:, :, first:stop])",
            "outs[:, :, start:stop] = attn @ v[:, :, first:stop]",
            "out = torch.cat(outs, dim=2)",
            "out = outs",
            shows="outs[:, :, start:stop] =",
        ),
        patch(
            "vit_qkv",
            "x = attn @ v\n",
            "x = v.new_zeros(v.shape)\n"
            "        for block in range(N // 4):  # bug\n"
            "            rows = slice(4 * block, 4 * block + 4)\n"
            "            x[:, :, rows] = attn[:, :, rows] @ v\n",
            shows="x[:, :, rows] =",
        ),
    ],
    "path-mismatch": [
        patch(
            "gpt_fused",
            "(q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))",
            "q @ k.transpose(-2, -1)",
            shows="if self.flash:",
        ),
        patch(
            "bert_like",
            "scores = scores / math.sqrt(self.attention_head_size)",
            "scores = scores / self.attention_head_size",
            shows="if output_attentions:",
        ),
        patch("mha_like", "        attn = torch.bmm(q, k.transpose(1, 2))\n", MHA_FAST),
        patch("vit_qkv", "        attn = attn * self.scale\n", VIT_PATH, shows="attn = attn * self.scale"),
        patch(
            "cross_attention",
            "sim = sim * self.scale",
            "sim = sim * (self.scale**2 if self.training else self.scale)",
        ),
    ],
}
