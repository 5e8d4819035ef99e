"""SL2 in modules, the scale: the bugs as patches."""

from patching import patch

SEPARATE_SCALE = "        scores = scores / math.sqrt(self.d_head)\n"
HEAD_SCALE = "wei = wei * k.shape[-1] ** -0.5"
MHA_SCALE = "        attn = attn * self.head_dim**-0.5\n"
CROSS_SCORE = 'sim = einsum("b h i d, b h j d -> b h i j", q, k)\n'
CROSS_SCALE = "        sim = sim * self.scale\n"
POST_SCORE = "attn = torch.matmul(q, k.transpose(2, 3))\n"
POST_SCALE = "        attn = attn / self.temperature\n"
VIT_SCORE = "attn = q @ k.transpose(-2, -1)\n"
VIT_SCALE = "        attn = attn * self.scale\n"
VIT_SOFTMAX = "attn = attn.softmax(dim=-1)"
HEAD_SOFTMAX = "wei = F.softmax(wei, dim=-1)"

SCALE = {
    "scale-missing": [
        patch(
            "separate_projections",
            "scores = torch.matmul(q, k.transpose(-2, -1))\n" + SEPARATE_SCALE,
            "scores = torch.matmul(q, k.transpose(-2, -1))\n",
        ),
        patch(
            "mha_like",
            "attn = torch.bmm(q, k.transpose(1, 2))\n" + MHA_SCALE,
            "attn = torch.bmm(q, k.transpose(1, 2))\n",
        ),
        patch("cross_attention", CROSS_SCORE + CROSS_SCALE, CROSS_SCORE),
        patch("post_norm_residual", POST_SCORE + POST_SCALE, POST_SCORE),
        patch(
            "head_list",
            "wei = q @ k.transpose(-2, -1)  # (B, T, T)\n        " + HEAD_SCALE,
            "wei = q @ k.transpose(-2, -1)",
        ),
        patch("vit_qkv", VIT_SCORE + VIT_SCALE, VIT_SCORE),
        patch(
            "grouped_rotary",
            "scores = xq @ xk.mT\n        scores = scores * self.softmax_scale\n",
            "scores = xq @ xk.mT\n",
        ),
        patch("alibi_causal", '"bhqd,bhkd->bhqk", q, k)\n' + SEPARATE_SCALE, '"bhqd,bhkd->bhqk", q, k)\n'),
    ],
    "scale-not-rooted": [
        patch("separate_projections", "scores / math.sqrt(self.d_head)", "scores / self.d_head"),
        patch("cross_attention", "dim_head**-0.5)", "dim_head**-1)", shows="sim = sim * self.scale"),
        patch(
            "post_norm_residual", "temperature=d_k**0.5", "temperature=d_k", shows="attn = attn / self.temp"
        ),
        patch("head_list", "k.shape[-1] ** -0.5", "k.shape[-1] ** -1"),
        patch("cached_causal", "w / math.sqrt(self.d_head)", "w / self.d_head"),
    ],
    "scale-inverted": [
        patch("separate_projections", "scores / math.sqrt(self.d_head)", "scores * math.sqrt(self.d_head)"),
        patch(
            "vit_qkv",
            "head_dim**-0.5\n        self.qkv",
            "head_dim**0.5\n        self.qkv",
            shows="attn = attn * self.scale",
        ),
        patch("mha_like", "self.head_dim**-0.5", "self.head_dim**0.5"),
        patch("rotary_complex", "scores / self.d_head**0.5", "scores * self.d_head**0.5"),
    ],
    "scale-wrong-width": [
        patch("separate_projections", "math.sqrt(self.d_head)", "math.sqrt(d_model)"),
        patch("head_list", "k.shape[-1] ** -0.5", "C**-0.5"),
        patch("vit_qkv", "or head_dim**-0.5", "or dim**-0.5", shows="attn = attn * self.scale"),
        patch("mha_like", "self.head_dim**-0.5", "self.embed_dim**-0.5"),
        patch(
            "post_norm_residual",
            "temperature=d_k**0.5",
            "temperature=d_model**0.5",
            shows="attn = attn / self.temp",
        ),
        patch("lens_cross", "math.sqrt(q.shape[-1])", "math.sqrt(self.num_heads)"),
    ],
    "scale-doubled": [
        patch(
            "mha_like",
            "q = self._project(query, 0)",
            "q = self._project(query, 0) * self.head_dim**-0.5",
            "attn = attn * self.head_dim**-0.5",
            "attn = attn * self.head_dim**-0.5  # bug",
            shows="q = self._project(query, 0) *",
        ),
        patch(
            "cross_attention",
            "q = self.to_q(x)",
            "q = self.to_q(x) * self.scale",
            "sim = sim * self.scale",
            "sim = sim * self.scale  # bug",
            shows="q = self.to_q(x) *",
        ),
        patch(
            "head_list",
            "q = self.query(x)  # (B, T, head_size)",
            "q = self.query(x) * k.shape[-1] ** -0.5",
            HEAD_SCALE,
            HEAD_SCALE + "  # bug",
            shows="q = self.query(x) *",
        ),
        patch(
            "alibi_causal",
            "q = self.heads(self.query(x))",
            "q = self.heads(self.query(x)) / self.d_head**0.5",
            "scores = scores / math.sqrt(self.d_head)",
            "scores = scores / math.sqrt(self.d_head)  # bug",
            shows="q = self.heads(self.query(x)) /",
        ),
    ],
    "scale-after-softmax": [
        patch(
            "separate_projections",
            SEPARATE_SCALE,
            "",
            "self.dropout(weights.to(v.dtype))",
            "self.dropout(weights.to(v.dtype)) / math.sqrt(self.d_head)  # bug",
        ),
        patch("vit_qkv", VIT_SCALE, "", VIT_SOFTMAX, VIT_SOFTMAX + " * self.scale  # bug"),
        patch(
            "head_list",
            "        " + HEAD_SCALE + "\n",
            "",
            HEAD_SOFTMAX,
            HEAD_SOFTMAX + " * k.shape[-1] ** -0.5  # bug",
        ),
        patch(
            "mha_like",
            MHA_SCALE,
            "",
            "attn = attn.masked_fill(nowhere, 0.0)",
            "attn = attn.masked_fill(nowhere, 0.0) * self.head_dim**-0.5  # bug",
        ),
    ],
    "scale-hits-bias": [
        patch(
            "alibi_causal",
            SEPARATE_SCALE,
            "",
            "self.slopes.to(scores.dtype) * distance\n",
            "self.slopes.to(scores.dtype) * distance\n" + SEPARATE_SCALE[:-1] + "  # bug\n",
            shows="scores = scores - self.slopes",
        ),
        patch(
            "alibi_interleaved",
            "        attention_scores = attention_scores * self.inv_norm_factor\n",
            "",
            "attention_scores = attention_scores + alibi\n",
            "attention_scores = (attention_scores + alibi) * self.inv_norm_factor  # bug\n",
        ),
        patch(
            "alibi_window",
            "        scores = scores / math.sqrt(query.size(-1))\n",
            "",
            "scores = scores + self.bias(T, scores.dtype)\n",
            "scores = scores + self.bias(T, scores.dtype)\n"
            "        scores = scores / math.sqrt(query.size(-1))  # bug\n",
            shows="scores = scores + self.bias(",
        ),
        patch(
            "mha_like",
            MHA_SCALE,
            "",
            "            attn = attn + attn_mask\n",
            "            attn = attn + attn_mask\n" + MHA_SCALE[:-1] + "  # bug\n",
            shows="attn = attn + attn_mask",
        ),
    ],
    "scale-argument-ignored": [
        patch(
            "cross_attention",
            "default(scale, dim_head**-0.5)",
            "dim_head**-0.5",
            shows="sim = sim * self.scale",
        ),
        patch("vit_qkv", "qk_scale or head_dim**-0.5", "head_dim**-0.5", shows="attn = attn * self.scale"),
        patch(
            "grouped_rotary",
            "self.head_dim**-0.5 if softmax_scale is None else softmax_scale",
            "self.head_dim**-0.5",
            shows="scores = scores * self.softmax_scale",
        ),
        patch(
            "grouped_einsum",
            "        if scale is None:\n            scale = self.d_head**-0.5\n",
            "        scale = self.d_head**-0.5\n",
            shows="scores = scores * scale",
        ),
    ],
}
