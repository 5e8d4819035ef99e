"""SL2 in modules, softmax and mix: the bugs as patches."""

from patching import patch

VIT_SOFTMAX = "attn = attn.softmax(dim=-1)"
HEAD_SOFTMAX = "wei = F.softmax(wei, dim=-1)"
EXP_OVER_SUM = "weights = logits.exp()  # bug\n        weights = weights / weights.sum(dim=-1, keepdim=True)"

SOFTMAX = {
    "softmax-over-queries": [
        patch("cross_attention", "sim.softmax(dim=-1)", "sim.softmax(dim=-2)"),
        patch("post_norm_residual", "F.softmax(attn, dim=-1)", "F.softmax(attn, dim=2)"),
        patch("head_list", HEAD_SOFTMAX, "wei = F.softmax(wei, dim=1)"),
        patch("vit_qkv", VIT_SOFTMAX, "attn = attn.softmax(dim=-2)"),
        patch("mha_like", "masked_fill(nowhere, 0.0), dim=-1)", "masked_fill(nowhere, 0.0), dim=1)"),
        patch("lens_cross", "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=1)"),
    ],
    "softmax-over-heads": [
        patch("cross_attention", "sim.softmax(dim=-1)", "sim.softmax(dim=1)"),
        patch("post_norm_residual", "F.softmax(attn, dim=-1)", "F.softmax(attn, dim=1)"),
        patch("vit_qkv", VIT_SOFTMAX, "attn = attn.softmax(dim=1)"),
        patch("lens_cross", "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=0)"),
    ],
    "softmax-over-batch": [
        patch("cross_attention", "sim.softmax(dim=-1)", "sim.softmax(dim=0)"),
        patch("post_norm_residual", "F.softmax(attn, dim=-1)", "F.softmax(attn, dim=0)"),
        patch("head_list", HEAD_SOFTMAX, "wei = F.softmax(wei, dim=0)"),
        patch("vit_qkv", VIT_SOFTMAX, "attn = attn.softmax(0)"),
    ],
    "softmax-without-max": [
        patch("separate_projections", "exps = torch.exp(wide - top)", "exps = torch.exp(wide)"),
        patch(
            "vit_qkv",
            VIT_SOFTMAX,
            "attn = attn.exp()  # bug\n        attn = attn / attn.sum(dim=-1, keepdim=True)",
        ),
        patch(
            "head_list",
            HEAD_SOFTMAX,
            "exps = torch.exp(wei)  # bug\n        wei = exps / exps.sum(-1, keepdim=True)",
        ),
        patch("per_head_einsum", "weights = logits.softmax(dim=-1)", EXP_OVER_SUM),
    ],
    "softmax-twice": [
        patch("cross_attention", "attn = sim.softmax(dim=-1)", "attn = sim.softmax(dim=-1).softmax(dim=-1)"),
        patch("vit_qkv", VIT_SOFTMAX, VIT_SOFTMAX + "\n        attn = attn.softmax(dim=-1)  # bug"),
        patch("head_list", HEAD_SOFTMAX, HEAD_SOFTMAX + "\n        wei = F.softmax(wei, -1)  # bug"),
        patch(
            "mha_like",
            "attn = F.softmax(attn.masked_fill(nowhere, 0.0), dim=-1)",
            "attn = F.softmax(F.softmax(attn.masked_fill(nowhere, 0.0), dim=-1), dim=-1)",
        ),
    ],
    "softmax-denominator-plus-one": [
        patch(
            "separate_projections",
            "total = exps.sum(dim=-1, keepdim=True)",
            "total = exps.sum(dim=-1, keepdim=True) + torch.exp(-top)",
        ),
        patch(
            "chunked_keys",
            "output = output / total.masked_fill(total == 0, 1.0)",
            "output = output / (total + torch.exp(-highest)).masked_fill(total == 0, 1.0)",
        ),
        patch(
            "vit_qkv",
            VIT_SOFTMAX,
            "attn = torch.nn.functional.pad(attn, (0, 1)).softmax(dim=-1)[..., :-1]",
            "import torch.nn as nn",
            "import torch\nimport torch.nn as nn",
        ),
        patch("head_list", HEAD_SOFTMAX, "wei = F.softmax(F.pad(wei, (0, 1)), dim=-1)[..., :-1]"),
    ],
    "softmax-missing": [
        patch(
            "vit_qkv",
            VIT_SOFTMAX + "\n        attn = self.attn_drop(attn)",
            "attn = self.attn_drop(attn)",
            shows="x = attn @ v",
        ),
        patch("lens_cross", "torch.softmax(scores, dim=-1)", "scores / scores.sum(dim=-1, keepdim=True)"),
        patch("head_list", HEAD_SOFTMAX, "wei = wei / wei.sum(dim=-1, keepdim=True)", 'float("-inf")', "0.0"),
        patch(
            "local_blocks",
            "attn = sim.softmax(dim=-1)",
            "attn = sim",
            'float("-inf")',
            "0.0",
            shows="outs.append(attn @ v",
        ),
    ],
}

MIX = {
    "scores-transposed": [
        patch(
            "separate_projections",
            "torch.matmul(q, k.transpose(-2, -1))",
            "torch.matmul(k, q.transpose(-2, -1))",
        ),
        patch("alibi_causal", '"bhqd,bhkd->bhqk", q, k', '"bhqd,bhkd->bhqk", k, q'),
        patch("head_list", "wei = q @ k.transpose(-2, -1)  # (B, T, T)", "wei = k @ q.transpose(-2, -1)"),
        patch("grouped_rotary", "scores = xq @ xk.mT", "scores = xk @ xq.mT"),
    ],
    "keys-used-as-values": [
        patch("separate_projections", "torch.matmul(weights, v)", "torch.matmul(weights, k)"),
        patch("cached_causal", "a = torch.matmul(w, v)", "a = torch.matmul(w, k)"),
        patch("head_list", "out = wei @ v", "out = wei @ k"),
        patch("mha_like", "torch.bmm(attn, v)", "torch.bmm(attn, k)"),
    ],
    "weights-transposed": [
        patch(
            "separate_projections", "torch.matmul(weights, v)", "torch.matmul(weights.transpose(-2, -1), v)"
        ),
        patch("vit_qkv", "x = attn @ v", "x = attn.transpose(-2, -1) @ v"),
        patch("head_list", "out = wei @ v", "out = wei.transpose(1, 2) @ v"),
        patch("alibi_causal", '"bhqk,bhkd->bqhd", weights, v', '"bhkq,bhkd->bqhd", weights, v'),
    ],
}
