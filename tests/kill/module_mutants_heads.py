"""SL3 in modules: heads, layout and projections: the bugs as patches."""

from patching import patch

PER_HEAD = {"weights": "per head"}
SEPARATE_SPLIT = """        q = q.view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        k = k.view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        v = v.view(B, T, self.num_heads, self.d_head).transpose(1, 2)
"""
SEPARATE_SCORE = "scores = torch.matmul(q, k.transpose(-2, -1))"
VIT_SPLIT = ".permute(2, 0, 3, 1, 4)"
VIT_MERGE = "x.transpose(1, 2).reshape(B, N, C)"
CROSS_SPLIT = """        q = q.reshape(b, n, h, -1).transpose(1, 2)
        k = k.reshape(b, m, h, -1).transpose(1, 2)
        v = v.reshape(b, m, h, -1).transpose(1, 2)
"""
MHA_FLAG = "        if self.batch_first:\n            query, key"

HEADS = {
    "heads-split-by-view": [
        patch(
            "alibi_causal",
            "x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)",
            "x.reshape(x.size(0), self.num_heads, x.size(1), self.d_head)",
        ),
        patch(
            "bert_like",
            "        return x.view(new_shape).permute(0, 2, 1, 3)",
            "        return x.view(x.size(0), self.num_attention_heads, -1, self.attention_head_size)",
        ),
        patch(
            "cached_causal",
            "x.view(x.size(0), x.size(1), self.num_heads, self.d_head).permute(0, 2, 1, 3)",
            "x.view(x.size(0), self.num_heads, x.size(1), self.d_head)",
        ),
        patch(
            "chunked_keys",
            "x.view(x.shape[0], x.shape[1], self.num_heads, self.d_head).transpose(1, 2)",
            "x.view(x.shape[0], self.num_heads, x.shape[1], self.d_head)",
        ),
    ],
    "heads-merged-by-view": [
        patch(
            "separate_projections", "context.transpose(1, 2).contiguous().view", "context.contiguous().view"
        ),
        patch("gpt_fused", "y.transpose(1, 2).contiguous().view", "y.contiguous().view"),
        patch("cross_attention", "out.transpose(1, 2).reshape", "out.reshape"),
        patch("post_norm_residual", "context.transpose(1, 2).contiguous().view", "context.contiguous().view"),
        patch("vit_qkv", "x.transpose(1, 2).reshape", "x.reshape"),
        patch("cached_causal", "a.permute(0, 2, 1, 3).contiguous().view", "a.contiguous().view"),
        patch("rotary_complex", "output.transpose(1, 2).reshape", "output.reshape"),
        patch("alibi_window", "out.permute(0, 2, 1, 3).reshape", "out.reshape"),
    ],
    "kv-heads-tiled": [
        patch(
            "grouped_rotary",
            "xk.repeat_interleave(self.n_rep, dim=1)",
            "xk.repeat(1, self.n_rep, 1, 1)",
            "xv.repeat_interleave(self.n_rep, dim=1)",
            "xv.repeat(1, self.n_rep, 1, 1)",
        ),
        patch(
            "grouped_window",
            "hidden_states[:, :, None, :, :].expand(B, kv_heads, n_rep, T, d)",
            "hidden_states[:, None, :, :, :].expand(B, n_rep, kv_heads, T, d)",
            shows="return hidden_states.reshape(",
        ),
        patch(
            "grouped_einsum",
            "reshape(B, T, self.H_kv, self.G, self.d_head)",
            "reshape(B, T, self.G, self.H_kv, self.d_head)",
            '"bqngd,bknd->bngqk"',
            '"bqgnd,bknd->bngqk"',
            '"bngqk,bknd->bqngd"',
            '"bngqk,bknd->bqgnd"',
            shows='"bqgnd,bknd->bngqk"',
        ),
    ],
    "heads-attend-to-heads": [
        patch(
            "grouped_einsum",
            '"bqngd,bknd->bngqk"',
            '"bqngd,bqkd->bqngk"',
            '"bngqk,bknd->bqngd"',
            '"bqngk,bqkd->bqngd"',
        ),
        patch(
            "vit_qkv",
            VIT_SPLIT,
            ".permute(2, 0, 1, 3, 4)",
            VIT_MERGE,
            "x.reshape(B, N, C)",
            shows="attn = q @ k",
        ),
        patch(
            "bert_like",
            "x.view(new_shape).permute(0, 2, 1, 3)",
            "x.view(new_shape)",
            "context_layer.permute(0, 2, 1, 3).flatten(-2)",
            "context_layer.flatten(-2)",
            "context_layer = F.scaled_dot_product_attention(",
            "context_layer = F.scaled_dot_product_attention(  # bug",
            shows="return x.view(new_shape)",
        ),
    ],
    "batch-sequence-swapped": [
        patch(
            "mha_like",
            MHA_FLAG,
            MHA_FLAG.replace("if self", "if not self"),
            "        if self.batch_first:\n            output",
            "        if not self.batch_first:\n            output",
            shows="attn = torch.bmm(q",
        ),
        patch(
            "vit_qkv",
            VIT_SPLIT,
            ".permute(2, 1, 3, 0, 4)",
            VIT_MERGE,
            "x.permute(2, 0, 1, 3).reshape(B, N, C)",
            shows="attn = q @ k",
        ),
        patch(
            "separate_projections",
            SEPARATE_SPLIT,
            SEPARATE_SPLIT.replace("transpose(1, 2)", "permute(1, 2, 0, 3)"),
            SEPARATE_SCORE,
            SEPARATE_SCORE + "  # bug",
            "context.transpose(1, 2).contiguous()",
            "context.permute(2, 0, 1, 3).contiguous()",
        ),
    ],
    "heads-summed": [
        patch(
            "head_list",
            "torch.cat([head(x) for head in self.heads], dim=-1)",
            "torch.stack([head(x) for head in self.heads]).sum(dim=0)",
            "nn.Linear(num_heads * head_size, n_embd)",
            "nn.Linear(head_size, n_embd)",
        ),
        patch("vit_qkv", VIT_MERGE, "x.sum(dim=1)", "nn.Linear(dim, dim)", "nn.Linear(head_dim, dim)"),
        patch(
            "cross_attention",
            "out.transpose(1, 2).reshape(b, n, -1)",
            "out.mean(dim=1)",
            "nn.Linear(inner_dim, dim)",
            "nn.Linear(dim_head, dim)",
        ),
        patch(
            "separate_projections",
            "context.transpose(1, 2).contiguous().view(B, T, d_model)",
            "context.mean(dim=1)",
            "self.out_proj = nn.Linear(d_model, d_model)",
            "self.out_proj = nn.Linear(self.d_head, d_model)",
        ),
    ],
    "weights-averaged": [
        patch(
            "separate_projections",
            "self.out_proj(context), weights",
            "self.out_proj(context), weights.mean(dim=1)",
            **PER_HEAD,
        ),
        patch(
            "post_norm_residual",
            "self.layer_norm(output), attn",
            "self.layer_norm(output), attn.mean(1)",
            **PER_HEAD,
        ),
        patch(
            "mha_like",
            "attn.view(B, self.num_heads, T_q, T_k) if",
            "attn.view(B, -1, T_q, T_k).mean(dim=1) if",
            **PER_HEAD,
        ),
        patch(
            "per_head_einsum",
            "self.w_out), weights",
            "self.w_out), weights.sum(dim=1) / weights.shape[1]",
            **PER_HEAD,
        ),
    ],
    "width-duplicated": [
        patch(
            "head_list", "head_size = n_embd // num_heads", "head_size = n_embd", shows="q = self.query(x)"
        ),
        patch(
            "per_head_einsum",
            "self.d_head = d_model // num_heads",
            "self.d_head = d_model",
            shows="q = torch.einsum(",
        ),
        patch(
            "grouped_window",
            "self.head_dim = hidden_size // num_attention_heads",
            "self.head_dim = hidden_size",
            shows="query_states = self.q_proj(",
        ),
        patch(
            "grouped_einsum",
            "self.d_head = d_model // num_heads",
            "self.d_head = d_model",
            shows="q = self.q(x).reshape(",
        ),
    ],
}

PROJECTIONS = {
    "fused-qkv-misread": [
        patch("gpt_fused", "q, k, v = self.c_attn(x).split", "q, v, k = self.c_attn(x).split"),
        patch("cross_attention", "k, v = self.to_kv(context).chunk", "v, k = self.to_kv(context).chunk"),
        patch(
            "mha_like",
            "self._project(key, 1)",
            "self._project(key, 2)",
            "self._project(value, 2)",
            "self._project(value, 1)",
            shows="v = self._project(value, 1)",
        ),
        patch("vit_qkv", "qkv[0], qkv[1], qkv[2]", "qkv[0], qkv[2], qkv[1]", shows="qkv = self.qkv(x)"),
        patch(
            "alibi_interleaved",
            "view(B, T, self.num_heads, 3, self.head_dim)",
            "view(B, T, 3, self.num_heads, self.head_dim)",
            "fused_qkv.permute(3, 0, 2, 1, 4)",
            "fused_qkv.permute(2, 0, 3, 1, 4)",
            shows="query_layer, key_layer, value_layer =",
        ),
        patch(
            "rotary_complex",
            "view(B, T, 3, self.num_heads, self.d_head).unbind(dim=2)",
            "view(B, T, self.num_heads, 3, self.d_head).unbind(dim=3)",
        ),
        patch("decoder_memory", "head_k, head_v = torch.chunk", "head_v, head_k = torch.chunk"),
        patch(
            "alibi_window",
            "self.Wqkv(x).chunk(3, dim=2)",
            "(self.Wqkv(x)[..., s : s + d_model] for s in (0, d_model, d_model))",
        ),
    ],
    "output-projection-missing": [
        patch(
            "separate_projections",
            "return self.out_proj(context), weights",
            "return context, weights",
            shows="context = context.transpose(1, 2)",
        ),
        patch(
            "gpt_fused",
            "self.resid_dropout(self.c_proj(y))",
            "self.resid_dropout(y)",
            shows="y = y.transpose(1, 2)",
        ),
        patch(
            "vit_qkv",
            "        x = self.proj(x)\n        return self.proj_drop(x)",
            "        return self.proj_drop(x)",
            shows="x = x.transpose(1, 2)",
        ),
        patch("head_list", "self.dropout(self.proj(out))", "self.dropout(out)", shows="out = torch.cat("),
        patch("cached_causal", "self.to_output(a), (k, v)", "a, (k, v)", shows="a = a.permute("),
        patch(
            "grouped_rotary",
            "return self.wo(output.transpose(1, 2).flatten(2))",
            "return output.transpose(1, 2).flatten(2)",
        ),
    ],
    "value-unprojected": [
        patch("separate_projections", "v = self.v_proj(x)", "v = x", shows="v = v.view("),
        patch("alibi_causal", "self.heads(self.value(x))", "self.heads(x)"),
        patch("bert_like", "self.value(current_states)", "current_states"),
        patch("cached_causal", "self._heads(self.to_value(x))", "self._heads(x)"),
        patch("mha_like", "v = self._project(value, 2)", "v = value", shows="v = v.contiguous().view("),
    ],
    "projection-reused": [
        patch("separate_projections", "self.k_proj(x)", "self.q_proj(x)"),
        patch("post_norm_residual", "self.w_ks(k)", "self.w_qs(k)"),
        patch("bert_like", "self.value(current_states)", "self.key(current_states)"),
        patch("cached_causal", "self.to_value(x)", "self.to_key(x)"),
        patch("head_list", "v = self.value(x)", "v = self.key(x)"),
        patch(
            "alibi_causal",
            "q = self.heads(self.query(x))",
            "q = self.heads(self.key(x))",
            shows="k = self.heads(self.key(x))",
        ),
    ],
    "cross-values-from-target": [
        patch("mha_like", "self._project(value, 2)", "self._project(query, 2)"),
        patch("post_norm_residual", "v = self.w_vs(v)", "v = self.w_vs(residual)"),
        patch("bert_like", "self.value(current_states)", "self.value(hidden_states)"),
        patch(
            "per_head_einsum",
            'v = torch.einsum("bte,hed->bhtd", source',
            'v = torch.einsum("bte,hed->bhtd", inputs',
        ),
        patch("lens_cross", "v = self.split(self.W_v(shown))", "v = self.split(self.W_v(queries[b]))"),
    ],
}
