"""A memory whose default is None although the module raises without it: self-attention is forward(x, x)."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import softlookup

H, D = 3, 8


class AsksTwice(nn.Module):
    """Attention of x to y; for self-attention both are the same.

    x: [B, T, d]
    y: [B, S, d]; may be left out only beside a cache
    """

    def __init__(self, is_causal=True):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = (nn.Linear(H * D, H * D) for _ in range(4))
        self.is_causal = is_causal

    def forward(self, x, y=None):
        if y is None:
            raise ValueError("y is needed without a cache")
        q, k, v = (
            layer(t).unflatten(-1, (H, D)).transpose(1, 2)
            for layer, t in ((self.q_proj, x), (self.k_proj, y), (self.v_proj, y))
        )
        scores = self.scored(q, k)
        if self.is_causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
        return self.output_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def scored(self, q, k):
        return q @ k.mT / D**0.5


class WithoutScale(AsksTwice):
    __doc__ = AsksTwice.__doc__

    def scored(self, q, k):
        return q @ k.mT


def checked(module):
    torch.manual_seed(0)
    return softlookup.check(module.eval())


def test_the_target_is_given_as_its_own_memory():
    diagnosis = checked(AsksTwice())
    assert diagnosis.clean
    assert (diagnosis.kind, diagnosis.contract.causal) == ("module", "built-in")
    assert "x=y" in diagnosis.contract.arguments


def test_a_bug_shows_where_the_target_is_its_own_memory():
    assert checked(WithoutScale()).named() == ["scale-missing"]


def test_the_target_is_its_own_memory_also_where_nothing_tells_for_which_use_it_was_built():
    diagnosis = checked(AsksTwice(is_causal=False))
    assert (diagnosis.clean, diagnosis.kind) == (True, "module")
    assert checked(WithoutScale(is_causal=False)).named() == ["scale-missing"]


def test_the_target_is_its_own_memory_also_where_only_its_behaviour_can_be_judged():
    module = AsksTwice()
    weight_norm(module.q_proj)  # weights that are computed cannot be chosen
    diagnosis = checked(module)
    assert diagnosis.clean
    assert diagnosis.contract.causal == "built-in"
