"""The one wrong line of every wild module, repaired; how the module is made; a check that only the repair passes."""

import wild_module_checks as checks
import wild_module_training as training
from wild_checks import KEYS, REAL, TRIANGLE, same
from wild_module_answers import CROSS, MEMORY, X, Y, Z, with_fused, with_layers, with_torch_layer
from wild_module_checks import is_layers, is_rotary

SMALL = {"d_model": 16, "num_heads": 4}
TORCH = {"d_model": 16, "nhead": 4}
WIDE = {"dim": 16, "num_heads": 4}
Q_K_V_O = "q_proj k_proj v_proj out_proj"

#: id: (the marked line, repaired; constructor arguments, or a function of the file's names that gives them; check)
REPAIRS = {
    "b041": (
        "attn_mask = src_mask.repeat_interleave(self.nhead, dim=0)",
        TORCH,
        checks.sequence_first_masked,
    ),
    "b042": (
        "extended_mask = extended_mask.repeat_interleave(self.n_head, dim=0)",
        {"d_model": 16, "n_head": 4},
        lambda m: same(m(X, REAL.long()), with_torch_layer(m.attn, X, KEYS)),
    ),
    "b044": (
        "attn_mask = padding_mask.unsqueeze(1).repeat(self.num_heads, seq_len, 1)",
        {"input_dim": 16, "num_heads": 4},
        is_layers("W_q W_k W_v W_o", allowed=KEYS, given=(X, ~REAL)),
    ),
    "b053": (
        "x, _ = self.self_attn(query=x, key=x, value=x, attn_mask=attn_mask, need_weights=False)",
        {"embed_dim": 16, "attention_heads": 4},
        checks.sequence_first_one_mask,
    ),
    "b057": (
        "return self.self_attn(src, src, src, attn_mask=src_mask, need_weights=False)[0]",
        TORCH,
        checks.mask_and_causal,
    ),
    "b059": (
        "scores = torch.softmax(scores if not use_causal_mask else scores.masked_fill("
        'torch.ones(scores.shape[-2:]).triu(1).bool(), -float("inf")), dim=-1)',
        {"num_heads": 4, "key_dim": 4},
        checks.causal_on_both_branches,
    ),
    "b068": ("if T > 1:", {"d_model": 16, "n_heads": 4}, checks.cached_prefill),
    "b072": (
        "return self.inter_attention(hidden_states, encoder_output)",
        {"hidden_size": 16, "num_attention_heads": 4},
        checks.cross_sees_everything,
    ),
    "b084": (
        "mask = self.mask[cur_pos : cur_pos + num_tokens, : cur_pos + num_tokens]",
        {"d_in": 16, "d_out": 16, "context_length": 32, "num_heads": 4},
        checks.cached_chunks,
    ),
    "b085": (
        "x = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=is_causal)",
        TORCH,
        checks.flag_is_causal,
    ),
    "b092": (
        "out, weights = self.attention(x, x, x, attn_mask=no_edge & ~lonely[:, None], need_weights=True)",
        {"embed_dim": 16, "num_heads": 4},
        checks.lonely_rows,
    ),
    "b108": ("self.sqrt_d = self.head_feats**0.5", {"feats": 16, "head": 4}, is_layers("q k v o")),
    "b109": (
        "attn_weights = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5",
        {"n_head": 4, "n_embed": 16, "context_length": 32},
        checks.list_of_heads,
    ),
    "b111": (
        "self.temper = d_k**0.5",
        {"n_head": 4, "d_model": 16, "d_k": 4, "d_v": 4},
        checks.a_weight_for_each_head,
    ),
    "b117": (
        "attn_output = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)",
        lambda names: {"config": names["OPTConfig"](hidden_size=16, num_attention_heads=4)},
        checks.both_implementations,
    ),
    "b123": (
        "x = F.scaled_dot_product_attention(q, k, v, scale=self.scale)",
        {**WIDE, "scale": 0.1},
        checks.own_scale_in_both_branches,
    ),
    "b125": (
        "q = q * (self.scale / default_scale)",
        {"dim": 16, "heads": 4, "dim_head": 4},
        checks.normed_in_both_branches,
    ),
    "b126": (
        "return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2).flatten(0, 1)",
        {"input_dim": 16, "num_heads": 4},
        is_layers("W_q W_k W_v W_o"),
    ),
    "b127": (
        "context = self.scaled_dot_product(*(t.view(batch, -1, self.num_head, self.dim_head).transpose(1, 2) "
        "for t in qkv)).transpose(1, 2).reshape(x.shape)",
        {"dim_model": 16, "num_head": 4},
        is_layers("fc_Q fc_K fc_V fc"),
    ),
    "b128": (
        "values = values.permute(0, 2, 1, 3).reshape(batch_size, sequence_length, hidden_dim)",
        {"hidden_dim": 16, "num_heads": 4},
        checks.fused_per_head,
    ),
    "b129": (
        "values = values.permute(0, 2, 1, 3).reshape(batch_size, target_length, self.d_model)",
        SMALL,
        checks.target_asks_source,
    ),
    "b130": ("out = heads.transpose(1, 2).reshape(batch, length, d_model)", SMALL, checks.channels_first),
    "b132": (
        "attn_output = attn_output.unflatten(0, (bsz, -1)).transpose(1, 2).reshape(bsz, tgt_len, self.embed_dim)",
        {"embed_dim": 16, "num_heads": 4, "batch_first": True},
        checks.either_layout,
    ),
    "b134": (
        "outputs = torch.cat(outputs.split(mb_size, dim=0), dim=-1)",
        {"n_head": 4, "d_model": 16},
        is_layers("w_qs w_ks w_vs proj"),
    ),
    "b135": (
        "context = context.permute(1, 2, 0, 3)",
        {"emb_dim": 16, "num_heads": 4},
        checks.a_layer_for_each_head,
    ),
    "b140": (
        "q, k, v = qkv.view(B, T, self.num_heads, 3, self.head_size).unbind(dim=3)",
        {"hidden_size": 16, "num_heads": 4},
        is_layers("query key value dense"),
    ),
    "b142": ("value = self.split_heads(self.v_proj(value))", SMALL, checks.keys_and_values_apart),
    "b143": (
        "v = v.reshape(bsz, seq_len, self.num_kv_heads, self.head_dim)",
        {"embed_dim": 16, "num_heads": 4, "num_kv_heads": 2},
        checks.grouped_fused,
    ),
    "b145": ("width = embed_dim", {"embed_dim": 16, "num_heads": 4}, checks.every_head_sees_every_feature),
    "b147": (
        "self.dense_o = nn.Linear(num_units, num_units)",
        {"num_units": 16, "num_heads": 4},
        checks.mixes_the_heads("dense_q dense_k dense_v", (X, Y, Z), (X, Y, Z), out="dense_o"),
    ),
    "b148": (
        "return self.out_proj(torch.cat([head(x) for head in self.heads], dim=-1))",
        {"d_in": 16, "d_out": 16, "context_length": 32, "num_heads": 4},
        checks.mixes_the_heads(checks.wrapped_heads, allowed=TRIANGLE, out="out_proj"),
    ),
    "b149": (
        "self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)",
        {"embed_dim": 16, "num_heads": 4, "bias": False},
        checks.no_bias_anywhere,
    ),
    "b156": (
        "angles = torch.cat((angles, angles), dim=-1)",
        {"n_embd": 16, "n_head": 4},
        is_rotary(lambda m: m.c_attn(X).chunk(3, -1), "c_proj", "halves"),
    ),
    "b158": (
        "halves = ((first, by_row), (second, by_column))",
        {"dim": 16, "num_heads": 2},
        checks.rows_and_columns,
    ),
    "b159": (
        "queries, keys = (self.pos_embed(t.transpose(1, 2)).transpose(1, 2) for t in (queries, keys))",
        {"dim": 16, "n_heads": 4},
        is_rotary(lambda m: m.in_proj(X).chunk(3, -1), "out_proj", "halves"),
    ),
    "b160": (
        "q, k = (self.rotary(t, seq_dimension=1) for t in (q, k))",
        WIDE,
        is_rotary(lambda m: (m.wq(X), m.wk(X), m.wv(X)), "wo", "neighbours", allowed=None),
    ),
    "b162": (
        "q, k = (apply_rotary_emb(t, *self.rotary(t)).transpose(1, 2) for t in (q.transpose(1, 2), k.transpose(1, 2)))",
        lambda names: {"config": names["GPTConfig"](n_embd=16, n_head=4)},
        is_rotary(lambda m: (m.c_q(X), m.c_k(X), m.c_v(X)), "c_proj", "halves"),
    ),
    "b173": ("img_mask[:, :, h, w] = 3 * row + column", WIDE, checks.shifted_windows),
    "b188": (
        "x = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_drop.p if self.training else 0.0)",
        {**WIDE, "attn_drop": 0.5},
        training.dropped_in_training_only(lambda m: with_fused(m, "qkv proj"), X),
    ),
    "b189": (
        "output = F.scaled_dot_product_attention(q, k, v, is_causal=True, "
        "dropout_p=self.attn_dropout if self.training else 0.0)",
        {"embed_dim": 16, "num_heads": 4, "num_kv_heads": 2, "attn_dropout": 0.5},
        training.dropped_in_training_only(training.grouped_layers, X),
    ),
    "b190": (
        "output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, "
        "dropout_p=self.dropout_rate if self.training else 0.0)",
        {"n_head": 4, "n_feat": 16, "dropout_rate": 0.5},
        training.dropped_in_training_only(
            lambda m: with_layers(
                m, "linear_q linear_k linear_v linear_out", (X, Y, Z), CROSS & MEMORY[:, None, None]
            ),
            *(X, Y, Z, CROSS & MEMORY[:, None]),
        ),
    ),
    "b191": (
        "out = F.scaled_dot_product_attention(q, k, v, dropout_p=self.drop_rate if self.training else 0.0)",
        {"in_channels": 16, "num_heads": 4, "drop_rate": 0.5},
        training.dropped_in_training_only(training.on_a_grid, X.mT.unflatten(2, (2, 3))),
    ),
    "b192": (
        "wei = self.dropout(F.softmax(wei, dim=-1))",
        {"n_embd": 16, "n_head": 4, "block_size": 32, "dropout": 0.5},
        training.drops_weights("query key value proj", allowed=TRIANGLE),
    ),
    "b195": (
        "attention = self.att_drop(normalized_weights) @ v",
        {"h_dim": 16, "max_T": 32, "n_heads": 4, "drop_p": 0.5},
        training.drops_weights("q_net k_net v_net proj_net", allowed=TRIANGLE),
    ),
    "b196": (
        "output = self.attn_drop(torch.softmax(scores, dim=-1)) @ v",
        {"embed_dim": 16, "num_heads": 4, "dropout": 0.5},
        training.drops_weights("query key value proj", (X, Y, Z, CROSS), (X, Y, Z), CROSS),
    ),
    "b198": (
        "return self.out_proj(attn), attn_weights if need_head_weights else attn_weights.mean(dim=0)",
        {"embed_dim": 16, "num_heads": 4},
        checks.weights_as_asked,
    ),
    "b199": (
        "self.encoder = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)",
        TORCH,
        training.training_and_evaluation_agree,
    ),
    "b200": (
        "return torch.nested.to_padded_tensor(packed, 0.0, output_size=src.shape)",
        TORCH,
        training.training_and_evaluation_agree,
    ),
    "b203": (
        "input_mask = mask if context is None else context_mask",
        {"dim": 16, "heads": 4, "dim_head": 4},
        checks.padding_of_the_context,
    ),
    "b204": (
        "return self.attention(x, encoder_output, encoder_output)",
        {"e_dim": 16, "n_heads": 4},
        checks.target_asks,
    ),
    "b210": (
        "self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)",
        TORCH,
        lambda m: same(m(X), with_torch_layer(m.self_attn, X)),
    ),
    "b211": (
        "self.attention = nn.MultiheadAttention(dim, num_heads, batch_first=True)",
        WIDE,
        checks.frames_of_one_clip,
    ),
}
