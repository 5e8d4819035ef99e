"""What is right but not the plain formula is measured and noted: rotations, scales that were told, norms."""

import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import softlookup
from softlookup.checker.given_tables import FORMS, tables_by_role
from softlookup.checker.scales import declared_scale, unread_scale
from softlookup.checker.sketching import sketch_of
from softlookup.terms import Case

WIDTH, HEADS = 48, 6


class Projected(nn.Module):
    """Projections around a lookup that a subclass changes."""

    def __init__(self):
        super().__init__()
        self.num_heads = HEADS
        self.q_proj, self.k_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.v_proj, self.out_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def heads(self, x):
        parts = (p(x) for p in (self.q_proj, self.k_proj, self.v_proj))
        return [t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in parts]

    def mix(self, q, k, v):
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


class RotaryInside(Projected):
    """Attention with rotary positions; the rates are a buffer."""

    def __init__(self, rates):
        super().__init__()
        self.register_buffer("rates", rates)

    def forward(self, x):
        q, k, v = self.heads(x)
        angles = torch.arange(x.shape[1])[:, None] * self.rates
        return self.mix(rotated(q, angles), rotated(k, angles), v)


class RotaryGiven(Projected):
    """Attention with rotary positions that the model hands over."""

    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, x, freqs):
        q, k, v = self.heads(x)
        T, d = x.shape[1], q.shape[-1]
        if "angles" in self.form or "complex" in self.form:
            table = freqs.angle() if "complex" in self.form else freqs
            if isinstance(table, tuple) or table.is_complex() or (table > 4.5).any():
                raise TypeError("not a table of this kind")
        else:
            cos, sin = freqs
            table = torch.atan2(sin, cos)
        wanted = tables_by_role(Case(q, q, q))[f"rotary {self.form}"]
        if table.shape != (wanted[0] if isinstance(wanted, tuple) else wanted).shape:
            raise ValueError(f"shape {tuple(table.shape)}")
        angles = table[0] if table.dim() == 3 else table.reshape(T, -1)
        halves = "neighbours" not in self.form
        if angles.shape[-1] == d:
            angles = angles[:, : d // 2] if halves else angles[:, ::2]
        return self.mix(rotated(q, angles, halves), rotated(k, angles, halves), v)


class RotaryIfAsked(Projected):
    """Attention; rotary positions only when asked for."""

    def __init__(self, rotary=False):
        super().__init__()
        self.rotary = rotary

    def forward(self, x):
        q, k, v = self.heads(x)
        if self.rotary:
            angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)
            q, k = rotated(q, angles), rotated(k, angles)
        return self.mix(q, k, v)


class RotaryByHead(Projected):
    """Attention with rotary positions."""

    def forward(self, x):
        q, k, v = self.heads(x)
        angles = torch.arange(HEADS)[:, None, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)
        q, k = rotated(q, angles), rotated(k, angles)  # turned by head
        return self.mix(q, k, v)


class Scaled(Projected):
    """Attention whose scale may be told."""

    def __init__(self, scale=None):
        super().__init__()
        self.scale = (WIDTH // HEADS) ** -0.5 if scale is None else scale

    def forward(self, x):
        q, k, v = self.heads(x)
        return self.mix(q * self.scale * math.sqrt(q.shape[-1]), k, v)


class ScaleUnread(Scaled):
    """Attention whose scale is never read."""

    def __init__(self, scale=None):
        super().__init__()


class NormedTogether(Projected):
    """Attention; queries and keys are normed over all heads (q_norm, k_norm)."""

    def forward(self, x):
        q, k, v = self.heads(x)
        return self.mix(
            *(t / t.square().mean(dim=(1, 3), keepdim=True).sqrt().clamp(min=1e-9) for t in (q, k)), v
        )


class NormedThenTurned(Projected):
    """Each query and key is brought to a mean square of 1 and then rotated; the factors may be trained."""

    def __init__(self, wide=False, factor=1.0, turn=True):
        super().__init__()
        self.wide, self.turn = wide, turn
        width = WIDTH if wide else WIDTH // HEADS
        self.q_norm, self.k_norm = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        with torch.no_grad():
            self.q_norm.weight.copy_(torch.linspace(1.0, factor, width))

    def forward(self, x):
        q, k, v = self.heads(x)
        if self.wide:
            merged = ((self.q_norm, q), (self.k_norm, k))
            q, k = (
                norm(t.transpose(1, 2).flatten(2)).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                for norm, t in merged
            )
        else:
            q, k = self.q_norm(q), self.k_norm(k)
        angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)
        q = rotated(q, angles)
        return self.mix(q, rotated(k, angles) if self.turn else k, v)


class Bounded(Projected):
    """Attention with a bias; what bounds the scores, and by how much, is said in no known word."""

    def __init__(self, hides=False):
        super().__init__()
        self.limit, self.laser_softclamp_value, self.hides = 5.0, 15.0, hides  # the second one is never used

    def forward(self, x, attn_bias=None):
        q, k, v = self.heads(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if self.hides:  # bounded as well: a hidden key is only made less likely
            later = torch.arange(x.shape[1])[:, None] < torch.arange(x.shape[1])
            scores = scores.masked_fill(later, -math.inf)
        scores = bounded(scores if attn_bias is None else scores + attn_bias, self.limit)
        return self.out_proj((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


def bounded(scores, limit):
    return (scores / limit).tanh() * limit


def rotated(x, angles, halves=True):
    a, b = x.chunk(2, dim=-1) if halves else (x[..., ::2], x[..., 1::2])
    turned = (a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos())
    return torch.cat(turned, dim=-1) if halves else torch.stack(turned, dim=-1).flatten(-2)


def note(diagnosis, name):
    found = [n for n in diagnosis.notes if n.name == name]
    assert found, f"{name} is not noted: {[n.name for n in diagnosis.notes]}"
    return str(found[0].evidence.get("measured"))


@pytest.mark.parametrize("base", [10000.0, 3217.0])
def test_the_base_of_a_rotation_is_stated_although_no_word_names_it(base):
    diagnosis = softlookup.check(RotaryInside(base ** (-torch.arange(0, 8, 2) / 8)))
    assert diagnosis.named() == []
    said = re.search(r"base=([\d.]+)", note(diagnosis, "rotary-positions"))
    assert float(said[1]) == pytest.approx(base, rel=1e-3)


#: One of each kind, and every shape.
SOME_FORMS = ("halves T d", "each pair once 1 1 T d", "neighbours 1 T 1 d", "complex T d", "angles T d")


@pytest.mark.parametrize("form", SOME_FORMS)
def test_a_given_table_of_rotations_is_found_in_its_form(form):
    assert form in FORMS
    diagnosis = softlookup.check(RotaryGiven(form))
    assert diagnosis.named() == []
    pairing = "neighbours" if "neighbours" in form else "halves"
    assert f"pairing='{pairing}'" in note(diagnosis, "rotary-positions")


def test_a_rotation_that_was_not_asked_for_is_not_missed():
    assert softlookup.check(RotaryIfAsked()).named() == []


def test_a_rotation_by_head_has_no_effect_and_is_named_at_its_call():
    diagnosis = softlookup.check(RotaryByHead())
    assert diagnosis.named() == ["rope-wrong-axis"]
    line = next(
        n
        for n, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if text.endswith("# turned by head")
    )
    assert diagnosis.findings[0].line == line


def test_a_scale_that_the_constructor_was_told_is_no_bug():
    assert softlookup.check(Scaled(1.0)).named() == []
    assert declared_scale(sketch_of(Scaled(0.21))) == 0.21


def test_a_scale_that_the_class_works_out_declares_nothing():
    assert declared_scale(sketch_of(Scaled())) is None


def test_an_argument_for_the_scale_that_nobody_reads_is_named():
    assert unread_scale(sketch_of(ScaleUnread())) == "scale"
    assert unread_scale(sketch_of(Scaled())) is None
    assert softlookup.check(ScaleUnread()).named() == ["scale-argument-ignored"]


def test_a_norm_over_all_heads_is_noted_with_its_temperature():
    diagnosis = softlookup.check(NormedTogether())
    assert diagnosis.named() == []
    assert "all heads together" in note(diagnosis, "qk-norm")


@pytest.mark.parametrize("wide", [False, True], ids=["each head", "all heads together"])
def test_a_norm_before_rotary_positions_is_noted_with_them(wide):
    diagnosis = softlookup.check(NormedThenTurned(wide))
    assert diagnosis.named() == []
    measured = note(diagnosis, "qk-norm")
    assert ("all heads together" in measured) == wide
    assert "pairing='halves', base=10000" in measured


def test_trained_factors_of_such_a_norm_change_nothing():
    assert softlookup.check(NormedThenTurned(factor=3.0)).named() == []


def test_rotated_queries_beside_keys_that_are_not_rotated_are_blamed_behind_a_norm_too():
    assert not softlookup.check(NormedThenTurned(turn=False)).clean


def test_a_cap_on_scores_and_bias_is_measured_whatever_it_is_called():
    diagnosis = softlookup.check(Bounded())
    assert diagnosis.named() == []
    assert float(note(diagnosis, "softcap")) == 5.0


def test_a_cap_over_hidden_keys_is_never_clean():
    assert not softlookup.check(Bounded(hides=True), softlookup.Contract(causal="built-in")).clean
