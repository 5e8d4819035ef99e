"""Three ways to test attention with softlookup. Run: pytest examples/test_attention.py."""

import math

import pytest
import torch
from hypothesis import given, settings

from softlookup.testing import assert_solves, attention_problems


def attend(q, k, v, allowed_mask=None):
    """q: [B, H, T_q, d_head], k: [B, H, T_k, d_head], v: [B, H, T_k, d_v]; allowed_mask: True = may look."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, H, T_q, T_k]
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return scores.softmax(dim=-1) @ v  # [B, H, T_q, d_v]


def test_attend_is_right(attention_check):
    """Fails with the report: rule, line, weights beside the right ones, fix."""
    attention_check(attend, mask="allowed", causal=False)


@pytest.mark.attention(target=attend, mask="allowed", per="family")
def test_attend_in_families():
    """One test for each family of rules; the check runs once."""


@settings(deadline=None, max_examples=50)
@given(attention_problems(dtypes=(torch.float32, torch.bfloat16)))
def test_attend_solves_every_problem(problem):
    """Compares with float64, as closely as the dtype of the problem allows."""
    output = attend(problem.q, problem.k, problem.v, problem.allowed_mask)
    assert_solves(output, problem)
