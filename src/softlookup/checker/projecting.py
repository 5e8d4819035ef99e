"""The steps of a module before and after the lookup, on a case that is wired as the module is."""

from __future__ import annotations

from torch import Tensor

from softlookup.checker.wiring import picking, tokens_of
from softlookup.multihead import merge_heads as merge
from softlookup.terms import Case


def project(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """-> q [B, T_q, H * d_head], k and v [B, T_k, H_kv * d]: every input through its own projection."""
    tokens = tokens_of(case)
    return tokens.projected("q"), tokens.projected("k"), tokens.projected("v")


def split_heads(projected: Tensor, heads: int) -> Tensor:
    """[B, T, heads * d] -> [B, heads, T, d]: cut each token, then bring the heads forward."""
    B, T, _ = projected.shape
    return projected.view(B, T, heads, -1).transpose(1, 2)


def merge_heads(context: Tensor) -> Tensor:
    """[B, H, T_q, d_v] -> [B, T_q, H * d_v]: the way back."""
    return merge(context)


def project_out(merged: Tensor, case: Case) -> Tensor:
    """[B, T_q, H * d_v] -> [B, T_q, d_out]: here it picks the features of each head that are shown."""
    return merged @ picking(case.wiring).to(merged.dtype).T


def shown_heads(output: Tensor, case: Case) -> Tensor:
    """[B, T_q, d_out] -> [B, H, T_q, shown]: as heads again; a sum belongs to each of them."""
    wiring = case.wiring
    if wiring.heads_summed:
        return output[..., : wiring.shown].unsqueeze(1).expand(-1, wiring.num_heads, -1, -1)
    return split_heads(output[..., : wiring.num_heads * wiring.shown], wiring.num_heads)
