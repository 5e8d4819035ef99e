"""Slots compete for the inputs: softmax over the slots, then a mean over the inputs. Trap f23."""

import torch


def slot_attention_step(q, k, v, eps=1e-8):
    """One step of slot attention. q: (b, slots, d)   k, v: (b, inputs, d).

    The softmax runs over the slots, then the weights of a slot are renormalised over the inputs.
    """
    dots = torch.einsum("bid,bjd->bij", q, k) * q.shape[-1] ** -0.5
    attn = dots.softmax(dim=1) + eps
    attn = attn / attn.sum(dim=-1, keepdim=True)
    return torch.einsum("bjd,bij->bid", v, attn)
