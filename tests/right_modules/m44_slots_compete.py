"""Slot attention: the slots compete for every input, then each averages what it won. Trap f23."""

import torch
from torch import nn


class SlotAttentionStep(nn.Module):
    """One round of slot attention: softmax over the slots, then a weighted mean over the inputs."""

    def __init__(self, dim, eps=1e-8):
        super().__init__()
        self.eps = eps
        self.scale = dim**-0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.norm_input = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)

    def forward(self, slots, inputs):
        """slots: (B, num_slots, dim) ask, inputs: (B, N, dim) are looked at; returns the updates of the slots"""
        inputs = self.norm_input(inputs)
        q, k, v = self.to_q(self.norm_slots(slots)), self.to_k(inputs), self.to_v(inputs)
        dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
        attn = dots.softmax(dim=1) + self.eps
        attn = attn / attn.sum(dim=-1, keepdim=True)
        return torch.einsum("bjd,bij->bid", v, attn)
