"""Modules with many optional masks, and modules that clear the rows of padding."""

import torch
from torch import nn

import softlookup

H, D = 3, 8


class ClearsPadding(nn.Module):
    """Self-attention. mask: [B, T] bool, True = a real token; padding returns zeros."""

    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(H * D, H * D) for _ in range(4))

    def forward(self, x, mask=None, prompt=None, prompt_mask=None):
        keys = x if prompt is None else torch.cat([prompt, x], dim=1)
        q = self.to_q(x).unflatten(-1, (H, D)).transpose(1, 2)
        k, v = (p(keys).unflatten(-1, (H, D)).transpose(1, 2) for p in (self.to_k, self.to_v))
        scores = q @ k.transpose(-2, -1) / D**0.5
        if prompt_mask is not None:
            scores = scores.masked_fill(~torch.cat([prompt_mask, mask], dim=1)[:, None, None], -torch.inf)
        elif mask is not None:
            scores = scores.masked_fill(self.hidden(mask), -torch.inf)
        y = self.to_out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return y if mask is None else y * mask[..., None]

    def hidden(self, mask):
        return ~mask[:, None, None]


class HidesQueries(ClearsPadding):
    """Self-attention. mask: [B, T] bool, True = a real token; padding returns zeros."""

    def hidden(self, mask):
        return torch.zeros_like(mask[:, None, None])


class ReadsNoTable(ClearsPadding):
    """Self-attention; rotary_pos_emb: a pair that no other library knows, or None."""

    def forward(self, x, rotary_pos_emb=None):
        if rotary_pos_emb is not None:
            angles, growth = rotary_pos_emb
            x = x * (growth**-1.0).sum() * 0 + x + 0 * angles.sum()
        return super().forward(x)


def checked(module):
    torch.manual_seed(0)
    return softlookup.check(module.eval())


def test_rows_of_padding_that_are_cleared_raise_no_alarm_and_a_mask_of_what_is_not_given_is_left_out():
    diagnosis = checked(ClearsPadding())
    assert diagnosis.named() == []
    assert "prompt_mask" not in diagnosis.contract.arguments


def test_rows_of_padding_that_are_cleared_hide_no_padding_that_others_see():
    assert checked(HidesQueries()).named() != []


def test_a_table_of_positions_that_makes_no_numbers_is_left_out():
    diagnosis = checked(ReadsNoTable())
    assert diagnosis.named() == []
    assert "unused=rotary_pos_emb" in diagnosis.contract.arguments


class MarksQueries(ClearsPadding):
    """Self-attention. mask: [B, T] bool, True = a real token; rows of padding look nowhere."""

    def forward(self, x, mask=None, causal=False):
        q, k, v = (p(x).unflatten(-1, (H, D)).transpose(1, 2) for p in (self.to_q, self.to_k, self.to_v))
        scores = q @ k.transpose(-2, -1) / D**0.5
        allowed = self.allowed(mask, torch.ones_like(scores, dtype=torch.bool), causal)
        scores = scores.masked_fill(~allowed, -1e9)
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def allowed(self, mask, everything, causal):
        if mask is not None:
            everything = everything & mask[:, None, None] & mask[:, None, :, None]
        return everything.tril() if causal else everything


class ForgetsPadding(MarksQueries):
    """Self-attention. mask: [B, T] bool, True = a real token, a key that may be looked at."""

    def allowed(self, mask, everything, causal):
        if causal:
            return everything.tril()
        return everything if mask is None else everything & mask[:, None, None]


class CutsPadding(ClearsPadding):
    """Self-attention. mask: [B, T] bool, True = a real token; padding returns zeros."""

    def forward(self, x, mask=None):
        y = super().forward(x, mask)
        if mask is None or self.training:
            return y
        return y[:, : int(mask.sum(dim=1).max())] if not mask[:, -1].any() else y


def test_rows_of_padding_that_look_at_real_keys_elsewhere_are_no_excuse_for_a_mask_that_causal_switches_off():
    assert "padding-of-both-sides" in {note.name for note in checked(MarksQueries()).notes}
    assert checked(ForgetsPadding()).named() == ["mask-dropped-with-causal"]


def test_a_path_that_cuts_padding_off_the_end_disagrees_with_the_one_that_does_not():
    assert checked(CutsPadding()).named() == ["path-mismatch"]
