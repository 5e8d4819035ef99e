"""Every head has matrices of its own, kept as one parameter (head, d_model, d_head)."""

import einops
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.W_Q = nn.Parameter(torch.empty((cfg.n_heads, cfg.d_model, cfg.d_head)))
        self.W_K = nn.Parameter(torch.empty((cfg.n_heads, cfg.d_model, cfg.d_head)))
        self.W_V = nn.Parameter(torch.empty((cfg.n_heads, cfg.d_model, cfg.d_head)))
        self.W_O = nn.Parameter(torch.empty((cfg.n_heads, cfg.d_head, cfg.d_model)))
        self.b_Q = nn.Parameter(torch.zeros((cfg.n_heads, cfg.d_head)))
        self.b_K = nn.Parameter(torch.zeros((cfg.n_heads, cfg.d_head)))
        self.b_V = nn.Parameter(torch.zeros((cfg.n_heads, cfg.d_head)))
        self.b_O = nn.Parameter(torch.zeros((cfg.d_model)))
        for weight in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.normal_(weight, std=0.3)
        self.register_buffer("IGNORE", torch.tensor(float("-inf")))

    def forward(self, normalized_resid_pre):
        """normalized_resid_pre: (batch, posn, d_model); returns the same shape; causal."""
        q = torch.einsum("bpm,hmd->bphd", normalized_resid_pre, self.W_Q) + self.b_Q
        k = torch.einsum("bpm,hmd->bphd", normalized_resid_pre, self.W_K) + self.b_K
        v = torch.einsum("bpm,hmd->bphd", normalized_resid_pre, self.W_V) + self.b_V
        attn_scores = einops.einsum(q, k, "b q h d, b k h d -> b h q k") / self.cfg.d_head**0.5
        pattern = self.apply_causal_mask(attn_scores).softmax(dim=-1)
        z = einops.einsum(v, pattern, "b k h d, b h q k -> b q h d")
        return einops.einsum(z, self.W_O, "b q h d, h d m -> b q m") + self.b_O

    def apply_causal_mask(self, attn_scores):
        mask = torch.triu(torch.ones(attn_scores.size(-2), attn_scores.size(-1)), diagonal=1).bool()
        return attn_scores.masked_fill(mask.to(attn_scores.device), self.IGNORE)
