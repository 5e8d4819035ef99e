"""identify: never a wrong single answer on masks as they are really made."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_masks import labelled

from softlookup import SoftlookupError, identify
from softlookup.conventions import convert

LABELLED = list(labelled())
LOWER = torch.ones(6, 6).tril().bool()


def test_there_are_enough_masks_of_different_kinds():
    assert len(LABELLED) >= 250
    assert len({name for name, *_ in LABELLED}) == len(LABELLED)


@pytest.mark.parametrize(
    ("tensor", "sizes", "kind", "axes"), [it[1:] for it in LABELLED], ids=[it[0] for it in LABELLED]
)
def test_the_answer_is_right_or_it_cannot_be_told(tensor, sizes, kind, axes):
    found = identify(tensor, **sizes)
    if found.answer is not None:
        assert (found.answer.kind, found.answer.axes) == (kind, axes)
    assert (kind, axes) in {(it.kind, it.axes) for it in found.candidates}


def test_most_of_them_can_be_told():
    told = sum(identify(tensor, **sizes).answer is not None for _, tensor, sizes, *_ in LABELLED)
    assert told / len(LABELLED) > 0.7


@given(
    seed=st.integers(0, 10_000),
    q_len=st.integers(1, 7),
    k_len=st.integers(1, 7),
    visible=st.sampled_from([0.3, 0.7, 0.95]),
)
@settings(max_examples=300, deadline=None)
def test_masks_in_which_everybody_sees_itself_are_never_called_the_opposite(seed, q_len, k_len, visible):
    allowed = torch.rand(2, 1, q_len, k_len, generator=torch.Generator().manual_seed(seed)) < visible
    allowed |= torch.eye(q_len, k_len, dtype=torch.bool)
    allowed[..., 0] = True  # every query sees something, also where there are more of them than keys
    for tensor, wrong in ((allowed, "blocked"), (~allowed, "allowed")):
        answer = identify(tensor).answer
        assert answer is None or answer.kind != wrong


@pytest.mark.parametrize("name", ["causal", "padding", "both"])
def test_the_opposite_mask_gets_the_opposite_answer(name):
    real = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]).bool()[:, None, None]
    allowed = {"causal": LOWER[None, None], "padding": real, "both": LOWER & real}[name]
    assert identify(allowed).answer.kind == "allowed"
    assert identify(~allowed).answer.kind == "blocked"


HERE = torch.arange(6)[:, None] - torch.arange(6)
OWN_KEY_HIDDEN = HERE != 0  # as in LSA and SAITS, where nobody looks at itself
TOO_LITTLE = {
    "nobody sees itself": OWN_KEY_HIDDEN,
    "only earlier keys": HERE > 0,
    "only keys two or more before": HERE > 1,
    "only later keys and itself": HERE <= 0,
    "from the query's place to the end, more keys than queries": torch.ones(4, 7).triu().bool(),
}


@pytest.mark.parametrize("name", TOO_LITTLE)
def test_what_two_readings_could_mean_gets_no_single_answer(name):
    for mask in (TOO_LITTLE[name], ~TOO_LITTLE[name]):
        assert identify(mask[None, None]).answer is None


def test_numbers_that_go_up_by_one_are_positions_or_the_bounds_of_decoding():
    found = identify(torch.arange(6))
    assert found.answer is None
    assert {it.kind for it in found.possible} >= {"bounds", "token ids"}


@given(seed=st.integers(0, 10_000), size=st.integers(1, 12), visible=st.sampled_from([0.3, 0.7, 0.9]))
@settings(max_examples=300, deadline=None)
def test_queries_of_another_sequence_are_never_called_the_opposite(seed, size, visible):
    """As many queries as keys by chance: no key is a query's own."""
    allowed = torch.rand(2, 1, size, size, generator=torch.Generator().manual_seed(seed)) < visible
    allowed[..., 0] |= ~allowed.any(-1)
    for tensor, wrong in ((allowed, "blocked"), (~allowed, "allowed")):
        answer = identify(tensor).answer
        some_sample_hides_nothing = bool(allowed.all(-1).all(-1).any())
        assert answer is None or answer.kind != wrong or some_sample_hides_nothing


def test_padding_alone_cannot_be_told_until_a_sample_is_full():
    found = identify(torch.tensor([[True, True, False]]), batch_size=1, k_len=3, q_len=3)
    assert found.answer is None
    assert "cannot tell" in str(found)
    assert (
        identify(torch.tensor([[True, True, False], [True] * 3]), batch_size=2, q_len=3).answer.kind
        == "allowed"
    )


@pytest.mark.parametrize("size", [5, 6, 9])
def test_samples_of_one_more_token_each_are_no_causal_mask_where_the_batch_is_as_large(size):
    """Lengths 1, 2, ... n of n samples are the triangle of n queries: only q_len can tell."""
    samples = torch.arange(size) < torch.arange(1, size + 1)[:, None]
    for mask, kind in ((samples, "allowed"), (~samples, "blocked"), (samples.long(), "allowed")):
        for sizes in ({}, {"q_len": size, "k_len": size}):
            found = identify(mask, batch_size=size, **sizes)
            assert found.answer is None
            assert {(kind, "T_q T_k"), (kind, "B T_k")} <= {(it.kind, it.axes) for it in found.possible}
    assert identify(samples, batch_size=size, q_len=size + 1).answer.axes == "B T_k"
    assert identify(samples, batch_size=size + 1).answer.axes == "T_q T_k"


@pytest.mark.parametrize("shape", [(5, 7), (1, 1, 5, 7), (1, 3, 5, 5)])
def test_weights_of_attention_are_not_called_a_bias(shape):
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(0)).softmax(-1)
    for dtype in (torch.float32, torch.bfloat16):
        found = identify(weights.to(dtype))
        assert found.answer is None
        assert "every row sums to one, as the weights of attention do" in str(found)
    assert identify(weights * 2).candidates[0].against == ()


def test_queries_or_samples_are_told_apart_by_sizes():
    square = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]).bool()
    assert identify(square, batch_size=4, k_len=4, q_len=9).answer.axes == "B T_k"


def test_the_rules_behind_a_mask_are_named():
    hidden = ~(LOWER & torch.tensor([True] * 4 + [False] * 2))[None, None]
    assert repr(identify(hidden).structure) == "causal() & padding(4)"


DANGERS = {
    "added to scores this hides nothing": LOWER.float(),
    "two such fills add up to -inf": torch.zeros(6, 6).masked_fill(~LOWER, torch.finfo(torch.float32).min),
    "becomes -inf in float16": torch.zeros(6, 6).masked_fill(~LOWER, -1e9),
    "see no key": LOWER[None, None] & torch.tensor([False] + [True] * 5),
    "queries see the future": torch.ones(6, 6).triu().bool()[None, None],
    "masks queries": torch.tensor([1, 1, 1, 0]).bool()[None, None, :, None].expand(1, 1, 4, 4),
    "broadcasts silently as [T_q, T_k]": LOWER,
    "handed to the wrong one|given to the wrong one": LOWER,
    "refuses integers": LOWER.long(),
    "take all weight": LOWER.float() * 1e9,
    "nan": torch.tensor([[0.0, math.nan], [0.0, 0.0]]),
    "three axes are": LOWER.expand(3, 6, 6),
}


@pytest.mark.parametrize("words", DANGERS)
def test_each_danger_is_said(words):
    said = " ".join(identify(DANGERS[words]).dangers)
    assert any(it in said for it in words.split("|"))


def test_a_plain_mask_has_no_other_danger_than_its_two_meanings():
    assert len(identify(LOWER[None, None]).dangers) == 1


def test_the_share_of_the_weight_is_that_of_equal_scores():
    flags = torch.tensor([[1.0, 1.0, 1.0, 0.0]])
    weight = torch.softmax(flags, -1)[0, 3]
    assert f"{weight:.0%} of the weight" in identify(flags).dangers[0]


TARGETS = [
    "F.scaled_dot_product_attention",
    "nn.MultiheadAttention",
    "jax.nn.dot_product_attention",
    "TransformerEngine",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("tensor", "sizes"), [it[1:3] for it in LABELLED[::4]], ids=[it[0] for it in LABELLED[::4]]
)
def test_the_right_call_shows_what_the_mask_shows(target, tensor, sizes):
    found = identify(tensor, **sizes)
    call = found.calls.get(target, "")
    if "(q, k, v, " not in call or "convert" in call:
        pytest.skip(f"no plain expression for this mask: {call or found.candidates[0].words}")
    text = call.partition("(q, k, v, ")[2][:-1]
    if "num_heads" in text:
        pytest.skip("the number of heads is not known")
    arguments = eval(f"dict({text})", {"mask": tensor, "torch": torch})
    visible = found.candidates[0].marks.visible()
    read = convert(
        arguments,
        source=target,
        target="allowed_mask",
        q_len=visible.shape[2] if visible.shape[2] > 1 else 5,
        k_len=visible.shape[3],
        num_heads=sizes.get("num_heads", visible.shape[1]),
        batch_size=visible.shape[0],
        lossy=True,
    )["allowed_mask"]
    assert bool((read == visible).all())


def test_json_says_the_same():
    facts = identify(LOWER).as_dict()
    assert facts["meaning"] == "allowed"
    assert facts["candidates"][0]["possible"]


def test_nothing_of_the_tensor_is_changed():
    mask = LOWER.clone()
    identify(mask)
    assert torch.equal(mask, LOWER)


@pytest.mark.parametrize(
    "bad", [torch.zeros(0, 4), torch.ones(1, 1, 1, 1, 1), torch.tensor(True), object(), "causal"]
)
def test_what_is_no_mask_is_refused(bad):
    with pytest.raises(SoftlookupError):
        identify(bad)
