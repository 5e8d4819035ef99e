"""A module is blamed only for what is wrong under every reading of its mask, and of its unknown parts."""

import math

import pytest
import torch
from torch import nn

import softlookup

WIDTH, HEADS = 48, 6
TOLD, UNTOLD = ("q_proj", "k_proj", "v_proj", "out_proj"), ("alpha_", "beta_", "omega_", "delta_")


class SquashNorm(nn.Module):
    """A normalisation that nobody knows."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return torch.tanh(x) * self.gain


class Squashed(nn.Module):
    """Attention with an unusual norm of queries and keys, and a mask of which nothing is said."""

    def __init__(self, names=TOLD, mask="additive", wrong=""):
        super().__init__()
        self.num_heads, self.names, self.mask, self.wrong = HEADS, names, mask, wrong
        for name in names:
            setattr(self, name, nn.Linear(WIDTH, WIDTH))
        self.q_norm, self.k_norm = self.norms()

    def norms(self):
        return SquashNorm(WIDTH // HEADS), SquashNorm(WIDTH // HEADS)

    def lookup(self, x, mask):
        made = [getattr(self, name)(x) for name in self.names[:3]]
        q, k, v = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in made)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.wrong == "means":
            v = v - v.mean(dim=2, keepdim=True)
        scores = q @ k.transpose(-2, -1)
        if self.wrong != "scale":
            scores = scores / math.sqrt(q.shape[-1])
        if mask is not None:
            mask = mask[:, None] if mask.dim() == 3 else mask
            hidden = mask if self.mask == "hidden" else ~mask if self.mask == "allowed" else None
            scores = scores + mask if hidden is None else scores.masked_fill(hidden, -math.inf)
        mixed = self.normalised(scores) @ v
        return getattr(self, self.names[3])(mixed.transpose(1, 2).flatten(2))

    def normalised(self, scores):
        return scores.softmax(dim=-1)

    def forward(self, hidden_states, attention_mask=None):
        return self.lookup(hidden_states, attention_mask)


class SquashedByHand(Squashed):
    """The same without a part that could be handed through."""

    def norms(self):
        return torch.tanh, torch.tanh


class WithSinks(Squashed):
    """One more logit a head joins the softmax."""

    def __init__(self, **options):
        super().__init__(**options)
        self.sinks = nn.Parameter(torch.randn(HEADS))

    def normalised(self, scores):
        column = self.sinks[None, :, None, None].expand(*scores.shape[:-1], 1)
        return torch.cat([scores, column], dim=-1).softmax(dim=-1)[..., :-1]


class AddedToResidual(Squashed):
    """Adds what it is given to its output."""

    def norms(self):
        return nn.Identity(), nn.Identity()

    def forward(self, hidden_states, residual, attention_mask):
        return residual + self.lookup(hidden_states, attention_mask)


def checked(module):
    return softlookup.check(module.eval())


def long(value):
    """A case that takes as long as the one that every run has, and is met by fewer."""
    return pytest.param(value, marks=pytest.mark.long)


@pytest.mark.parametrize("mask", ["additive", long("hidden"), long("allowed")])
def test_an_unusual_norm_before_the_lookup_is_no_finding_however_the_mask_is_spelled(mask):
    diagnosis = checked(Squashed(mask=mask))
    assert diagnosis.named() == []
    assert any("q_norm was left out" in note.summary for note in diagnosis.notes)
    assert diagnosis.contract.mask == mask.replace("hidden", "blocked")


def test_sinks_behind_such_a_norm_are_noted():
    diagnosis = checked(WithSinks())
    assert diagnosis.named() == []
    assert "attention-sink" in [note.name for note in diagnosis.notes]


def test_a_module_of_whose_parts_no_name_tells_anything_is_judged_by_what_it_does():
    diagnosis = checked(SquashedByHand(UNTOLD))
    assert diagnosis.named() == []
    assert "Only its behaviour was checked" in diagnosis.notes[0].summary


def test_a_residual_that_is_handed_over_is_no_memory():
    diagnosis = checked(AddedToResidual())
    assert diagnosis.named() == []
    assert diagnosis.kind == "module"


@pytest.mark.parametrize("wrong", ["scale", long("means")])
def test_what_is_wrong_behind_an_unusual_norm_is_named(wrong):
    expected = {"scale": "scale-missing", "means": "padding-changes-output"}[wrong]
    assert checked(Squashed(wrong=wrong)).named() == [expected]


def test_what_is_wrong_beside_a_residual_is_named():
    assert checked(AddedToResidual(wrong="scale")).named() == ["scale-missing"]


def test_means_over_padding_are_named_although_nothing_else_is_known():
    assert checked(SquashedByHand(wrong="means")).named() == ["padding-changes-output"]
