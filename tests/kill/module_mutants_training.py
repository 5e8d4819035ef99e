"""SL8 and SL9 in modules, training and neighbours: the bugs as patches."""

from patching import patch

TRAINING = {
    "dropout-in-eval": [
        patch(
            "gpt_fused",
            "dropout_p = self.dropout if self.training else 0.0",
            "dropout_p = self.dropout",
            shows="y = F.scaled_dot_product_attention(",
        ),
        patch(
            "mha_like",
            "F.dropout(attn, p=self.dropout, training=self.training)",
            "F.dropout(attn, p=self.dropout)",
        ),
        patch(
            "grouped_window",
            "F.dropout(attn_weights, p=self.attention_dropout, training=self.training)",
            "F.dropout(attn_weights, p=self.attention_dropout)",
        ),
        patch(
            "alibi_window",
            "F.dropout(probs, p=self.attn_pdrop, training=self.training)",
            "F.dropout(probs, p=self.attn_pdrop, training=True)",
        ),
        patch("cached_causal", "F.dropout(w, self.dropout, self.training)", "F.dropout(w, self.dropout)"),
    ],
    "dropout-inactive": [
        patch(
            "separate_projections",
            "weights = self.dropout(weights.to(v.dtype))",
            "weights = weights.to(v.dtype)",
            shows="context = torch.matmul(weights, v)",  # it is missing between these two
        ),
        patch(
            "cross_attention",
            "        attn = self.dropout(attn)\n",
            "",
            "attn, v)\n",
            "attn, v)  # bug\n",
            shows="self.dropout = nn.Dropout(dropout)",
        ),
        patch(
            "alibi_causal",
            "        weights = self.drop(weights)\n",
            "",
            "weights, v)\n",
            "weights, v)  # bug\n",
            shows="self.drop = nn.Dropout(dropout)",
        ),
        patch("grouped_einsum", "weights = self.dropout(weights)", "self.dropout(weights)"),
        patch("mha_like", "training=self.training)", "training=False)"),
    ],
    "dropout-before-softmax": [
        patch(
            "head_list",
            "        wei = F.softmax(wei, dim=-1)\n        wei = self.dropout(wei)\n",
            "        wei = self.dropout(wei)  # bug\n        wei = F.softmax(wei, dim=-1)\n",
        ),
        patch(
            "cross_attention",
            "sim = sim * self.scale",
            "sim = self.dropout(sim * self.scale)",
            "        attn = self.dropout(attn)\n",
            "",
        ),
        patch(
            "vit_qkv",
            "        attn = attn.softmax(dim=-1)\n        attn = self.attn_drop(attn)\n",
            "        attn = self.attn_drop(attn)  # bug\n        attn = attn.softmax(dim=-1)\n",
        ),
        patch(
            "local_blocks",
            "sim = sim * self.scale",
            "sim = self.attn_dropout(sim * self.scale)",
            "            attn = self.attn_dropout(attn)\n",
            "",
        ),
        patch(
            "post_norm_residual",
            "        attn = F.softmax(attn, dim=-1)\n        attn = self.dropout(attn)\n",
            "        attn = self.dropout(attn)  # bug\n        attn = F.softmax(attn, dim=-1)\n",
        ),
    ],
    "dropout-on-output": [
        patch(
            "cross_attention",
            "        attn = self.dropout(attn)\n",
            "",
            "attn, v)\n",
            "attn, v)\n        out = self.dropout(out)  # bug\n",
        ),
        patch(
            "alibi_causal",
            "        weights = self.drop(weights)\n",
            "",
            "weights, v)\n",
            "weights, v)\n        mixed = self.drop(mixed)  # bug\n",
        ),
        patch(
            "head_list",
            "        wei = self.dropout(wei)\n        out = wei @ v",
            "        out = self.dropout(wei @ v)",
        ),
        patch(
            "rotary_complex",
            "weights = self.dropout(scores.softmax(dim=-1))",
            "weights = scores.softmax(dim=-1)",
            "output = weights @ v",
            "output = self.dropout(weights @ v)  # bug",
        ),
        patch(
            "decoder_memory",
            "self.dropatt(attn_prob.masked_fill(empty, 0.0))",
            "attn_prob.masked_fill(empty, 0.0)",
            "attn_vec.reshape(B, T_q, self.n_head * self.d_head)",
            "self.dropatt(attn_vec.reshape(B, T_q, self.n_head * self.d_head))  # bug",
        ),
    ],
    "gradient-wrong": [
        patch(
            "separate_projections",
            "torch.matmul(q, k.transpose(-2, -1))",
            "torch.matmul(q, k.detach().transpose(-2, -1))",
        ),
        patch("cross_attention", "attn = sim.softmax(dim=-1)", "attn = sim.softmax(dim=-1).detach()"),
        patch("post_norm_residual", "attn = attn / self.temperature", "attn = attn.data / self.temperature"),
        patch(
            "head_list",
            "v = self.value(x)  # (B, T, head_size)",
            "with torch.no_grad():  # bug\n            v = self.value(x)  # shows",
        ),
        patch(
            "chunked_keys",
            "total = total * shrink + shares.sum(dim=-1, keepdim=True)",
            "total = total * shrink + shares.detach().sum(dim=-1, keepdim=True)",
        ),
    ],
    "batch-neighbours-leak": [
        patch(
            "separate_projections",
            "scores = scores / math.sqrt(self.d_head)",
            "scores = scores / math.sqrt(self.d_head)\n        scores = scores - scores.mean(dim=0)  # bug",
        ),
        patch(
            "post_norm_residual",
            "        return self.layer_norm(output), attn",
            "        output = F.batch_norm(output.transpose(1, 2), None, None, training=True)  # bug\n"
            "        return self.layer_norm(output.transpose(1, 2)), attn",
        ),
        patch(
            "vit_qkv",
            "B, N, C = x.shape",
            "B, N, C = x.shape\n        x = x - x.mean(dim=0, keepdim=True)  # bug",
        ),
        patch(
            "alibi_causal", "q = self.heads(self.query(x))", "q = self.heads(self.query(x / x.norm(dim=0)))"
        ),
    ],
    "padding-changes-output": [
        patch(
            "cross_attention",
            "m = context.shape[1]",
            "m = context.shape[1]\n        context = context - context.mean(dim=1, keepdim=True)  # bug",
        ),
        patch(
            "chunked_keys",
            "B, T, d_model = x.shape",
            "B, T, d_model = x.shape\n"
            "        x = x / x.square().mean(dim=(1, 2), keepdim=True).sqrt()  # bug",
        ),
        patch("post_norm_residual", "v = self.w_vs(v)", "v = self.w_vs(v - v.mean(dim=1, keepdim=True))"),
        patch(
            "bert_like",
            "value_layer = self.transpose_for_scores(self.value(current_states))",
            "value_layer = self.transpose_for_scores(self.value(current_states))\n"
            "        value_layer = value_layer - value_layer.mean(dim=2, keepdim=True)  # bug",
        ),
    ],
}
