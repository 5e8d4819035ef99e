"""What looks wrong and is right is not flagged: PyTorch's function, ours, and traps that others fell into."""

import pytest
import torch
from checker_corpus import diagnosis_of, entries
from torch.nn.functional import scaled_dot_product_attention as fused

import softlookup
from softlookup.terms import Contract

#: Trap -> what people take for a bug, and the right files that do it. The numbers are those of expected.json.
TRAPS = {
    "f01": ("causal counted from the last key, with a cache", ["r27"]),
    "f02": ("causal counted from the first key", ["r28"]),
    "f04": ("a row without keys returns the mean of all values", ["r41"]),
    "f05": ("hidden keys are filled with -100 or -10000", ["r19", "r40"]),
    "f07": ("the fourth root of d on q and on k", ["r32"]),
    "f08": ("the scale is on q, before the product", ["r31"]),
    "f10": ("the scale comes from another width", ["r34"]),
    "f11": ("normalised queries and keys with a temperature of their own", ["r53"]),
    "f13": ("weights sum to less than 1: a sink, or softmax1", ["r50", "r51"]),
    "f14": ("rotary positions in halves, or in neighbours", ["r63", "r64"]),
    "f16": ("triu(diagonal=1) as what to drop, tril == 0", ["r24", "r26"]),
    "f17": ("strictly causal, and so declared", ["r59"]),
    "f19": ("a linear bias without the query's index", ["r58"]),
    "f20": ("keys times queries, transposed", ["r61"]),
    "f22": ("a packed projection in the order of the heads", ["r62"]),
    "f23": ("softmax over the queries: slot attention", ["r54"]),
    "f25": ("gradients summed in any order", ["r65"]),
    "f26": ("weights averaged over heads", ["r60"]),
    "f28": ("heads last, or grouped", ["r03", "r37"]),
    "f29": ("the running normaliser of causal linear attention", ["r56"]),
}
RIGHT = {entry["file"][:3]: entry for entry in entries("right")}
DTYPES = ("float64", "float32", "bfloat16", "float16")


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_not_flagged(trap):
    _, files = TRAPS[trap]
    assert {file: diagnosis_of(RIGHT[file], "right").named() for file in files} == {
        file: [] for file in files
    }


def test_every_right_file_that_shows_a_trap_is_listed_under_it():
    shown = {(entry["trap"], file) for file, entry in RIGHT.items() if "trap" in entry}
    assert shown == {(trap, file) for trap, (_, files) in TRAPS.items() for file in files}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "function",
    [fused, softlookup.scaled_dot_product_attention],
    ids=["torch", "ours"],
)
def test_the_function_that_everybody_compares_with_is_clean(function, dtype):
    diagnosis = softlookup.check(function, Contract(dtype=dtype))
    assert diagnosis.named() == []
    assert diagnosis.clean


def by_torch(q, k, v, attn_mask=None, is_causal=False, scale=None):
    """Wrap the fused call as most code bases do; attn_mask: [B, 1, T_q, T_k] bool, True = may look."""
    if is_causal:
        causal = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        attn_mask = causal if attn_mask is None else attn_mask & causal
    return fused(q, k, v, attn_mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1])


def by_us(q, k, v, allowed_mask=None, is_causal=False, scale=None):
    """Hand everything on; rows without a key are zeros."""
    grouped = q.shape[1] != k.shape[1]
    return softlookup.scaled_dot_product_attention(
        q, k, v, allowed_mask, scale=scale, is_causal=is_causal, enable_gqa=grouped, empty_rows="zero"
    )


def by_padding(q, k, v, key_padding_mask=None):
    """Attend with one head. q, k, v: [B, T, d]; key_padding_mask: [B, T_k], True = padding."""
    blocked = None if key_padding_mask is None else key_padding_mask[:, None]
    return fused(q, k, v, None if blocked is None else ~blocked)


@pytest.mark.parametrize("function", [by_torch, by_us, by_padding])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_wrapper_with_every_argument_is_clean(function, dtype):
    assert softlookup.check(function, Contract(dtype=dtype)).named() == []


def earlier_keys_only(q, k, v, is_causal=True):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if is_causal:
        earlier = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(-1)
        earlier[0, 0] = True
        scores = scores.masked_fill(~earlier, -torch.inf)
    return scores.softmax(-1) @ v


def test_strictly_causal_is_self_hidden_unless_the_contract_declares_it():
    assert softlookup.check(earlier_keys_only).named() == ["self-hidden"]
    diagnosis = softlookup.check(earlier_keys_only, Contract(self_visible=False))
    assert diagnosis.named() == []
    assert "strictly-causal" in [note.name for note in diagnosis.notes]
