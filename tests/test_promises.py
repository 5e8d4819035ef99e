"""``causal=True`` and the like: what a user means by a few words."""

import pytest
import torch
from torch import nn

from softlookup.promises import written_out
from softlookup.terms import Contract, SoftlookupError


def plain(q, k, v, mask=None):
    return v


def asked(q, k, v, is_causal=False):
    return v


class Flag(nn.Module):
    def __init__(self, d_model, causal=False):
        super().__init__()

    def forward(self, x):
        return x


class Both(Flag):
    def forward(self, x, is_causal=False):
        return x


@pytest.mark.parametrize(
    ("target", "causal", "init"),
    [
        (plain, "built-in", {}),
        (asked, "argument", {}),
        (nn.Identity(), "built-in", {}),
        (Flag, "built-in", {"causal": True}),
        (Both, "argument", {}),
        (Flag(8), "built-in", {}),
    ],
    ids=["call without", "call with", "instance", "constructor", "call and constructor", "built already"],
)
def test_causal_true_is_an_argument_where_there_is_one_and_else_built_in(target, causal, init):
    contract, arguments = written_out(target, {"causal": True}, {})
    assert (contract.causal, arguments) == (causal, init)


def test_what_the_user_gives_the_constructor_is_left_alone():
    given = {"d_model": 8, "causal": False}
    assert written_out(Flag, {"causal": True}, given)[1] == {"d_model": 8, "causal": False}
    given = {"d_model": 8}
    assert written_out(Flag, {"causal": True}, given)[1] == {"d_model": 8, "causal": True}
    assert given == {"d_model": 8}


def test_false_is_none_and_a_dtype_is_its_name():
    contract, _ = written_out(plain, {"causal": False, "mask": False, "dtype": torch.bfloat16}, {})
    assert contract == Contract(causal="none", mask="none", dtype="bfloat16")
    assert written_out(plain, {"dtype": "float16"}, {})[0].dtype == "float16"


def test_everything_else_is_a_field_of_the_contract():
    promised = {"layout": "B T H d", "mask": "blocked", "causal": "argument", "window": 4, "scale": 0.5}
    assert written_out(plain, promised, {})[0] == Contract(**promised)


@pytest.mark.parametrize("name", ["declared", "arguments", "cuasal"])
def test_what_nobody_promises_is_refused(name):
    with pytest.raises(SoftlookupError, match=f"a contract has no '{name}'"):
        written_out(plain, {name: True}, {})
