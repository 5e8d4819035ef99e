"""SL3 and SL4, layout and rows that may look nowhere: the bugs as patches."""

from patching import patch

PER_HEAD = {"weights": "per head"}
LOOPS_VISIBLE_ONLY = """                seen = allowed.nonzero()[:, 0]
                scores = keys[seen] @ query[b, h, i]
                scores = scores / math.sqrt(d)
                shares = torch.softmax(scores, dim=0)
                outputs.append(shares @ values[seen])
                rows.append(shares.new_zeros(T_k).scatter(0, seen, shares))
"""
LOOPS_ALL_KEYS = """                scores = keys @ query[b, h, i]
                scores = scores / math.sqrt(d)
                scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
                shares = torch.softmax(scores, dim=0) * allowed
                outputs.append(shares @ values)  # bug
                rows.append(shares)
"""
UNPADDED_ALL_KEYS = """        keys, values = k[b], v[b]
        scores = q[b] @ keys.transpose(-2, -1)
        scores = scores / math.sqrt(q.shape[-1])
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[b], torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        if key_padding_mask is not None:
            weights = weights.masked_fill(key_padding_mask[b], 0.0)
        samples.append(weights @ values)  # bug
"""
UNPADDED_LOOP = """        keys, values = k[b], v[b]
        if key_padding_mask is not None:
            real = ~key_padding_mask[b]
            keys, values = keys[:, real], values[:, real]
        scores = q[b] @ keys.transpose(-2, -1)
        scores = scores / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores, dim=-1)
        samples.append(weights @ values)
"""
DOCUMENT_LOOP = """            there = here
            scores = q[b][:, here] @ k[b][:, there].transpose(-2, -1)
            scores = scores / math.sqrt(q.shape[-1])
"""
DOCUMENT_ALL_KEYS = """            there = torch.arange(q.shape[2], device=q.device)
            scores = q[b][:, here] @ k[b][:, there].transpose(-2, -1)
            scores = scores / math.sqrt(q.shape[-1])
            scores = scores.masked_fill(document_ids[b] != document, -math.inf)
"""
MATMUL_HIDE = """    scores = torch.where(blocked, torch.full_like(scores, float("-inf")), scores)
    scores = torch.where(nowhere, torch.zeros_like(scores), scores)
"""
MATMUL_HEADS_FIRST = "    q = q.transpose(1, 2)\n    k = k.transpose(1, 2)\n    v = v.transpose(1, 2)\n"
FAST_HEADS_FIRST = "q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)"

LAYOUT = {
    "kv-heads-tiled": [
        patch(
            "einsum_bhtd",
            "k.repeat_interleave(group, dim=1)",
            "k.repeat(1, group, 1, 1)",
            "v.repeat_interleave(group, dim=1)",
            "v.repeat(1, group, 1, 1)",
        ),
        patch("loops", "head = h // group", "head = h % H_kv", shows="scores = keys[seen] @ query[b, h, i]"),
        patch(
            "grouped",
            "query = query.reshape(B, H_kv, H // H_kv, T_q, d)",
            "query = query.reshape(B, H // H_kv, H_kv, T_q, d)",
            '"bngqd,bnkd->bngqk"',
            '"bgnqd,bnkd->bgnqk"',
            "weights = weights.reshape(B, H_kv, H // H_kv, T_q, T_k)",
            "weights = weights.reshape(B, H // H_kv, H_kv, T_q, T_k)",
            '"bngqk,bnkd->bngqd"',
            '"bgnqk,bnkd->bgnqd"',
            shows='"bgnqd,bnkd->bgnqk"',
        ),
        patch(
            "chunked_online_softmax",
            "torch.repeat_interleave(k, q.shape[1] // k.shape[1], dim=1)",
            "k.repeat(1, q.shape[1] // k.shape[1], 1, 1)",
            "torch.repeat_interleave(v, q.shape[1] // v.shape[1], dim=1)",
            "v.repeat(1, q.shape[1] // v.shape[1], 1, 1)",
        ),
    ],
    "heads-attend-to-heads": [
        patch(
            "matmul_bthd",
            MATMUL_HEADS_FIRST,
            "",
            "scores = q @ k.transpose(-2, -1)",
            "scores = q @ k.transpose(-2, -1)  # bug",
            "return output.transpose(1, 2), weights",
            "return output, weights",
        ),
        patch(
            "fast_path",
            "    " + FAST_HEADS_FIRST + "\n",
            "",
            "output = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed_mask)\n"
            "        return output.transpose(1, 2)",
            "output = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed_mask)  # bug\n"
            "        return output",
            "return output.transpose(1, 2), weights",
            "return output, weights",
        ),
    ],
    "batch-sequence-swapped": [
        patch(
            "with_scale",
            "scores = torch.bmm(q, k.transpose(1, 2))",
            "q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)\n"
            "    scores = torch.bmm(q, k.transpose(1, 2))  # bug",
            "return torch.bmm(weights, v), weights",
            "return torch.bmm(weights, v).transpose(0, 1), weights",
        ),
        patch(
            "fast_path",
            FAST_HEADS_FIRST,
            "q, k, v = q.permute(1, 2, 0, 3), k.permute(1, 2, 0, 3), v.permute(1, 2, 0, 3)",
            "        return output.transpose(1, 2)\n",
            "        return output.permute(2, 0, 1, 3)\n",
            "return output.transpose(1, 2), weights",
            "return output.permute(2, 0, 1, 3), weights",
            shows="output = F.scaled_dot_product_attention(",
        ),
        patch(
            "matmul_bthd",
            MATMUL_HEADS_FIRST,
            "    q = q.permute(1, 2, 0, 3)\n    k = k.permute(1, 2, 0, 3)\n    v = v.permute(1, 2, 0, 3)\n",
            "return output.transpose(1, 2), weights",
            "return output.permute(2, 0, 1, 3), weights",
            shows="scores = q @ k.transpose(-2, -1)",
        ),
    ],
    "weights-averaged": [
        patch(
            "matmul_bthd",
            "return output.transpose(1, 2), weights",
            "return output.transpose(1, 2), weights.mean(dim=1)",
            **PER_HEAD,
        ),
        patch("class_wrapped", "return output, weights", "return output, weights.mean(1)", **PER_HEAD),
        patch(
            "loops",
            "weights = torch.stack(rows).view(B, H, T_q, T_k)",
            "weights = torch.stack(rows).view(B, H, T_q, T_k).sum(dim=1) / H",
            **PER_HEAD,
        ),
    ],
}

EMPTY_ROWS = {
    "empty-row-nan": [
        patch(
            "einsum_bhtd",
            ".masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)",
            ".masked_fill(~allowed, -math.inf)",
            "    weights = weights.masked_fill(empty, 0.0)\n",
            "",
            shows="weights = torch.softmax(scores",
            empty_rows="zero",
        ),
        patch(
            "matmul_bthd",
            "    scores = torch.where(nowhere, torch.zeros_like(scores), scores)\n"
            "    weights = scores.softmax(-1)\n"
            "    weights = torch.where(nowhere, torch.zeros_like(weights), weights)\n",
            "    weights = scores.softmax(-1)\n",
            shows="scores = torch.where(blocked",
            empty_rows="zero",
        ),
        patch(
            "class_wrapped",
            "blocked & ~nowhere",
            "blocked",
            "        weights = weights.masked_fill(nowhere, 0.0)\n",
            "",
            shows="weights = scores.softmax(dim=-1)",
            empty_rows="zero",
        ),
        patch(
            "chunked_online_softmax",
            "output = output / total.masked_fill(total == 0, 1.0)",
            "output = output / total",
            empty_rows="zero",
        ),
    ],
    "empty-row-uniform": [
        patch(
            "einsum_bhtd",
            "    weights = torch.softmax(scores, dim=-1)\n    weights = weights.masked_fill(empty, 0.0)\n",
            "    weights = torch.softmax(scores, dim=-1)\n",
            shows=".masked_fill(empty, 0.0)",
            empty_rows="zero",
        ),
        patch(
            "folded_bmm",
            "hidden & ~empty, -math.inf",
            "hidden, torch.finfo(scores.dtype).min",
            "    weights = weights.masked_fill(empty, 0.0)\n",
            "",
            shows="weights = torch.softmax(scores",
            empty_rows="zero",
        ),
        patch(
            "class_wrapped",
            'blocked & ~nowhere, float("-inf")',
            "blocked, torch.finfo(scores.dtype).min",
            "        weights = weights.masked_fill(nowhere, 0.0)\n",
            "",
            shows="weights = scores.softmax(dim=-1)",
            empty_rows="zero",
        ),
    ],
    "empty-row-nan-gradient": [
        patch(
            "einsum_bhtd",
            "scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)",
            "scores = scores + torch.zeros_like(scores).masked_fill(~allowed, -math.inf)",
            shows="weights = torch.softmax(scores",
        ),
        patch(
            "matmul_bthd",
            MATMUL_HIDE,
            '    scores = scores - torch.where(blocked, float("inf"), 0.0).to(scores.dtype)\n',
            shows="weights = scores.softmax(-1)",
        ),
        patch(
            "with_bias",
            "    logits = logits.masked_fill(nowhere, 0.0)\n",
            "",
            "logits = logits + bias",
            "logits = logits + bias  # bug",
            shows="probs = torch.softmax(logits",
        ),
        patch(
            "grouped",
            "torch.softmax(scores.masked_fill(nowhere, 0.0), dim=-1)",
            "torch.softmax(scores, dim=-1)",
        ),
    ],
    "hidden-nan-leaks": [
        patch("loops", LOOPS_VISIBLE_ONLY, LOOPS_ALL_KEYS, hidden_nan="isolated"),
        patch("unpadded", UNPADDED_LOOP, UNPADDED_ALL_KEYS, hidden_nan="isolated"),
        patch(
            "packed_by_document",
            DOCUMENT_LOOP,
            DOCUMENT_ALL_KEYS,
            "weights @ v[b][:, there])",
            "weights @ v[b][:, there])  # bug",
            hidden_nan="isolated",
        ),
    ],
}
