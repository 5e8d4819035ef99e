"""attend row by row: log-sum-exps, queries without keys, and what is refused in words."""

import copy
import math
import re

import pytest
import torch

from softlookup import Mask, SoftlookupError, scaled_dot_product_attention
from softlookup.fused import attend, attend_with_lse, explain_path
from softlookup.masks import (
    Bias,
    alibi,
    causal,
    chunked,
    dilated,
    documents,
    packed,
    padding,
    prefix_lm,
    sliding_window,
)

B, H, T_Q, T_K = 2, 4, 140, 150


def qkv(q_len=T_Q, k_len=T_K, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(B, H, T, 8, generator=generator, dtype=dtype) for T in (q_len, k_len, k_len)]


def some(*shape, share=0.5):
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) < share


def shown(mask):
    """Say in the name of a test which mask it is for."""
    return str(list(mask.shape)) if isinstance(mask, torch.Tensor) else repr(mask)


# The log-sum-exp


@pytest.mark.parametrize(
    "mask",
    [
        None,
        causal(),
        causal("bottom-right") & padding([9, T_K], "left"),
        ~causal(),
        sliding_window(20) | padding(4),
        dilated(3, 2) & ~causal(),
        alibi(H) & causal(),
        some(B, H, T_Q, T_K, share=0.02),
        torch.linspace(-3, 3, T_K, dtype=torch.float64),
        torch.zeros(T_Q, T_K, dtype=torch.float64).masked_fill(some(T_Q, T_K), -math.inf),
    ],
    ids=shown,
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_log_sum_exp_is_that_of_the_written_out_scores(mask, dtype):
    q, k, v = qkv(dtype=dtype)
    scores = q.double() @ k.double().mT / 8**0.5
    written = mask.dense(T_Q, T_K) if isinstance(mask, (Mask, Bias)) else mask
    if written is not None and written.dtype == torch.bool:
        scores = scores.masked_fill(~written, -math.inf)
    elif written is not None:
        scores = scores + written
    output, lse = attend_with_lse(q, k, v, mask, empty_rows="zero")
    assert lse.dtype == dtype
    torch.testing.assert_close(lse.double(), scores.logsumexp(-1), rtol=1e-5, atol=1e-5)
    assert torch.equal((lse == -math.inf), (output == 0).all(-1))


@pytest.mark.parametrize(
    "mask",
    [None, causal(), sliding_window(20) | padding(4), alibi(H), padding([9, 99]), some(99, 99)],
    ids=shown,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_output_beside_the_log_sum_exp_has_the_same_bits(mask, dtype):
    q, k, v = qkv(99, 99, dtype)
    assert torch.equal(attend_with_lse(q, k, v, mask)[0], attend(q, k, v, mask))


def test_the_log_sum_exp_has_the_leading_axes_of_q_and_no_gradient():
    q, k, v = (torch.randn(3, 1, 2, T, 8, requires_grad=True) for T in (5, 6, 6))
    output, lse = attend_with_lse(q, k, v, sliding_window(2))
    assert (output.shape, lse.shape) == ((3, 1, 2, 5, 8), (3, 1, 2, 5))
    assert output.requires_grad
    assert not lse.requires_grad


def test_dropout_drops_weights_and_has_no_log_sum_exp():
    q, k, _ = qkv(30, 30)
    v = torch.ones_like(k)
    for mask in (None, causal(), sliding_window(9)):
        output, lse = attend_with_lse(q, k, v, mask, dropout_p=0.5)
        assert lse is None
        assert not torch.allclose(output, v)
        assert 0.8 < output.mean() < 1.2


# Queries without keys

#: Masks of [2, 4, 20, 20] that leave some queries without a key.
EMPTY = [
    causal() & padding([5, 20], "left"),
    padding([0, 20]),
    ~causal(),
    dilated(3, 2) & ~causal(),
    alibi(H) & causal() & padding([0, 20]),
    alibi(H) & ~causal(),
    sliding_window(3) & padding(4),
    causal() & some(1, H, 20, 20, share=0.2),
    some(20, 20, share=0.1),
    some(B, 1, 1, 20, share=0.5) & (torch.arange(B).view(B, 1, 1, 1) > 0),
    torch.zeros(H, 20, 20).masked_fill(some(H, 20, 20, share=0.9), -math.inf),
    torch.full((20, 20), -math.inf),
]


def message(function, *inputs):
    with pytest.raises(SoftlookupError) as caught:
        function(*inputs)
    return str(caught.value)


@pytest.mark.parametrize("mask", EMPTY, ids=shown)
def test_a_query_without_keys_is_named_in_the_words_of_the_readable_attention(mask):
    inputs = qkv(20, 20, torch.float32)
    assert message(attend, *inputs, mask) == message(scaled_dot_product_attention, *inputs, mask)


@pytest.mark.parametrize("mask", EMPTY, ids=shown)
def test_a_query_without_keys_returns_zero_and_moves_nothing(mask):
    q, k, v = (x.requires_grad_() for x in qkv(20, 20))
    output, lse = attend_with_lse(q, k, v, mask, empty_rows="zero")
    dense = mask if isinstance(mask, torch.Tensor) else mask.dense(20, 20)
    hidden = ~dense if dense.dtype == torch.bool else dense == -math.inf
    empty = hidden.all(-1).expand(B, H, 20)
    assert empty.any()
    assert (output[empty] == 0).all()
    assert (lse == -math.inf).equal(empty)
    grads = torch.autograd.grad(output.sin().sum(), (q, k, v))
    assert all(grad.isfinite().all() for grad in grads)
    assert (grads[0][empty] == 0).all()
    grads = torch.autograd.grad(attend(q, k, v, mask, empty_rows="zero")[empty].sum(), (q, k, v))
    assert all((grad == 0).all() for grad in grads)


@pytest.mark.parametrize(
    "mask",
    [None, causal(), causal("bottom-right"), sliding_window(2), padding([0, 0]), dilated(2, 2), some(5, 0)],
    ids=shown,
)
def test_without_any_keys_every_query_is_empty(mask):
    inputs = qkv(5, 0)
    output = attend(*inputs, mask, empty_rows="zero")
    assert torch.equal(output, torch.zeros(B, H, 5, 8, dtype=torch.float64))
    assert message(attend, *inputs, mask) == message(scaled_dot_product_attention, *inputs, mask)


@pytest.mark.parametrize(
    "mask",
    [
        None,
        causal(),
        causal("bottom-right"),
        sliding_window(2),
        padding([2, 5]),
        documents(torch.zeros(2, 5, dtype=torch.int64)),
        dilated(2, 2),
        alibi(H) & causal(),
        some(0, 5),
        torch.zeros(1, 5),
    ],
    ids=shown,
)
@pytest.mark.parametrize("batch", [0, 2])
def test_without_queries_or_samples_there_is_nothing_to_answer(mask, batch):
    if batch == 0 and isinstance(mask, Mask) and mask.sizes["B"]:
        pytest.skip("a mask of two samples does not fit none")
    q, k, v = (x[:batch].requires_grad_() for x in qkv(0, 5))
    output = attend(q, k, v, mask)
    assert output.shape == (batch, H, 0, 8)
    assert all((grad == 0).all() for grad in torch.autograd.grad(output.sum(), (q, k, v)))


# Refusals

X = torch.zeros(B, H, 20, 8)


@pytest.mark.parametrize(
    "inputs",
    [
        (X, X[..., :4], X),
        (X, X, X[:, :, :5]),
        (X, X[:, :2], X[:, :2]),
        (X, X, X.double()),
        (X.int(), X.int(), X.int()),
        (X[0, 0, 0], X, X),
        ("q", X, X),
        (X, X, X, torch.ones(20, 20, dtype=torch.int64)),
        (X, X, X, torch.ones(20, 19, dtype=torch.bool)),
        (X, X, X, torch.ones(2, 20, dtype=torch.bool)),
        (X, X, X, "causal"),
    ],
)
def test_bad_inputs_are_refused_in_the_words_of_the_readable_attention(inputs):
    assert message(attend, *inputs) == message(scaled_dot_product_attention, *inputs)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dropout_p": 2.0}, "dropout is a probability"),
        ({"dropout_p": -0.1}, "dropout is a probability"),
        ({"empty_rows": "nan"}, "empty_rows says"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(SoftlookupError, match=words):
        attend(X, X, X, **options)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (padding([3, 4, 5]), "B = 3"),
        (padding([3, 4, 5]) & dilated(2, 2), "B = 3"),
        (alibi(3), "H = 3"),
        (alibi(H) & padding([3, 4, 5]), "B = 3"),
        (Mask.from_tensor(some(1, 3, 20, 20)), "H = 3"),
        (Mask.from_tensor(some(21, 20)), "21"),
        (documents(torch.zeros(2, 21, dtype=torch.int64)), "21"),
        (packed([0, 4, 21]), "21"),
        (padding(21), "21"),
        (prefix_lm(21), "21"),
        (alibi(H) & padding(21), "21"),
        (dilated(2, 2) & padding(21), "21"),
    ],
    ids=lambda value: shown(value) if not isinstance(value, str) else "",
)
@pytest.mark.parametrize("dropout_p", [0.0, 0.1])
def test_a_mask_of_other_sizes_is_refused_with_both_sizes(mask, words, dropout_p):
    for ask in (attend, attend.explain):
        with pytest.raises(SoftlookupError, match=re.escape(words)):
            ask(X, X, X, mask, dropout_p=dropout_p)
    with pytest.raises(SoftlookupError, match=re.escape(words)):
        explain_path(mask, q_len=20, k_len=20, batch=B, heads=H, dropout_p=dropout_p)


@pytest.mark.parametrize("mask", [None, causal(), sliding_window(5), dilated(3, 2)], ids=repr)
def test_a_second_derivative_is_refused_and_not_left_out(mask):
    q = torch.randn(1, 1, 9, 8, requires_grad=True)
    loss = attend(q, q, q, mask).sum() + q.pow(2).sum()
    (grad,) = torch.autograd.grad(loss, q, create_graph=True)
    with pytest.raises((RuntimeError, NotImplementedError), match="derivative"):
        torch.autograd.grad(grad.sum(), q)


# What stays as it was


def state():
    flags = torch.backends.cuda
    return (
        torch.get_num_threads(),
        torch.get_rng_state().tolist(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        (flags.flash_sdp_enabled(), flags.mem_efficient_sdp_enabled(), flags.math_sdp_enabled()),
    )


@pytest.mark.parametrize(
    "mask",
    [None, causal(), causal() & padding([5, 20]), sliding_window(3), chunked(4), alibi(H), *EMPTY],
    ids=shown,
)
def test_inputs_masks_and_the_state_of_torch_stay_as_they_were(mask):
    tensors = [x.requires_grad_() for x in qkv(20, 20)]
    if isinstance(mask, torch.Tensor):
        tensors.append(mask)
    before = [x.detach().clone() for x in tensors]
    mask_before, state_before = copy.deepcopy(mask), state()
    output, lse = attend_with_lse(*tensors[:3], mask, empty_rows="zero")
    saved = output.detach().clone(), lse.clone()
    output.sum().backward()
    assert state() == state_before
    assert all(torch.equal(x, y) for x, y in zip(tensors, before, strict=True))
    assert all(x._version == 0 for x in tensors[:3])
    assert torch.equal(output, saved[0])
    assert torch.equal(lse, saved[1])
    if not isinstance(mask, torch.Tensor):
        assert mask == mask_before
