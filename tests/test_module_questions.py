"""Questions to modules beyond one call of one length: two lengths, two calls, a switch of the constructor."""

import pytest
import torch
from torch import nn

import softlookup
from softlookup.checker.abilities import Abilities
from softlookup.checker.cases import CaseBuilder
from softlookup.checker.wiring import Slot, Wiring, tokens_of


class _Projected(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=bias)
        self.k_proj = nn.Linear(d_model, d_model, bias=bias)
        self.v_proj = nn.Linear(d_model, d_model, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=self.bias_of_output(bias))

    def bias_of_output(self, bias):
        return bias

    def heads(self, x, length):
        return x.view(x.shape[0], length, self.num_heads, -1).transpose(1, 2)

    def lookup(self, x, memory, length, **rules):
        q = self.heads(self.q_proj(x), x.shape[1])
        k, v = (self.heads(proj(memory), length) for proj in (self.k_proj, self.v_proj))
        return self.out_proj(
            nn.functional.scaled_dot_product_attention(q, k, v, **rules).transpose(1, 2).flatten(2)
        )


class TargetLengthForKeys(_Projected):
    """x: (B, T_q, d_model)   memory: (B, T_k, d_model)"""

    def forward(self, x, memory):
        return self.lookup(x, memory, x.shape[1])


class OneLengthAsPromised(_Projected):
    """x: (B, T, d_model)   memory: (B, T, d_model)"""

    def forward(self, x, memory):
        return self.lookup(x, memory, x.shape[1])


class OwnLengthForKeys(_Projected):
    """x: (B, T_q, d_model)   memory: (B, T_k, d_model)"""

    def forward(self, x, memory):
        return self.lookup(x, memory, memory.shape[1])


class Remembering(_Projected):
    """Causal self-attention that continues what it was given before. x: (B, T, d_model)"""

    past = None

    def shown(self, new, total):
        return torch.ones(new, total, dtype=torch.bool).tril(total - new)

    def forward(self, x, use_cache=False):
        memory = x
        if use_cache:
            memory = x if self.past is None else torch.cat([self.past, x], dim=1)
            self.past = memory
        shown = self.shown(x.shape[1], memory.shape[1])
        return self.lookup(x, memory, memory.shape[1], attn_mask=shown)


class RemembersAndLooksAhead(Remembering):
    """Causal self-attention that continues what it was given before. x: (B, T, d_model)"""

    def shown(self, new, total):
        shown = torch.ones(new, total, dtype=torch.bool)
        return shown.tril() if self.past is None else shown


class OutputKeepsItsBias(_Projected):
    """x: (B, T, d_model)"""

    def __init__(self, d_model, num_heads, bias=True):
        """bias: give the input and output projections a bias"""
        super().__init__(d_model, num_heads, bias)

    def bias_of_output(self, bias):
        return True

    def forward(self, x):
        return self.lookup(x, x, x.shape[1])


class BiasReachesAll(_Projected):
    """x: (B, T, d_model)"""

    def __init__(self, d_model, num_heads, bias=True):
        """bias: give the input and output projections a bias"""
        super().__init__(d_model, num_heads, bias)

    def forward(self, x):
        return self.lookup(x, x, x.shape[1])


def test_a_memory_that_must_be_as_long_as_the_target_is_reported_with_its_line():
    diagnosis = softlookup.check(TargetLengthForKeys(48, 6))
    assert diagnosis.verdict == "not-callable"
    assert "as many source tokens as target tokens" in diagnosis.findings[0].summary
    assert diagnosis.findings[0].line == _Projected.heads.__code__.co_firstlineno + 1


def test_one_length_for_both_inputs_is_only_noted_where_the_words_say_so():
    diagnosis = softlookup.check(OneLengthAsPromised(48, 6))
    assert diagnosis.verdict == "clean"
    assert any("as many source tokens" in note.summary for note in diagnosis.notes)


def test_a_memory_of_its_own_length_is_clean():
    diagnosis = softlookup.check(OwnLengthForKeys(48, 6))
    assert diagnosis.verdict == "clean"
    assert not any("as many source tokens" in note.summary for note in diagnosis.notes)


def test_a_module_that_remembers_earlier_calls_is_asked_in_two_pieces():
    assert softlookup.check(RemembersAndLooksAhead(48, 6)).named() == ["cache-mask-misaligned"]
    assert softlookup.check(Remembering(48, 6)).named() == []


def test_what_a_module_remembered_while_it_was_asked_is_gone_afterwards():
    module = Remembering(48, 6)
    softlookup.check(module)
    assert module.past is None


def test_a_switch_for_biases_that_stops_halfway_is_reported():
    diagnosis = softlookup.check(OutputKeepsItsBias, init={"bias": False})
    assert diagnosis.verdict == "unrecognised"
    assert "stops halfway" in diagnosis.findings[0].summary


@pytest.mark.parametrize("bias", [True, False])
def test_a_switch_for_biases_that_all_projections_follow_is_clean(bias):
    assert softlookup.check(BiasReachesAll, init={"bias": bias}).named() == []


def test_dense_tokens_are_projected_to_the_same_queries_keys_and_values():
    square = Slot("weight", (48, 48), 1, tuple(range(48)), tuple(range(48)))
    wiring = Wiring(6, 6, 8, 8, (square,), (square,), (square,), d_out=48)
    build = CaseBuilder(Abilities(wiring=wiring, rectangular=False), torch.float64)
    case = build.case(1, build.sizes())
    plain, dense = tokens_of(case), tokens_of(case.but(wiring=wiring.but(dense=True)))
    assert (plain.x == 0).any()
    assert not (dense.x == 0).any()
    for role in "qkv":
        torch.testing.assert_close(dense.projected(role), plain.projected(role))
