"""Half precision: right kernels stay clean in whatever order they round; a scale that is 1 % off is named."""

import math

import pytest
import torch
from torch.nn import functional

import softlookup
from softlookup import Contract

HALF = ("bfloat16", "float16")


def plain(q, k, v):
    return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1) @ v


def queries_scaled(q, k, v):
    return ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)).softmax(-1) @ v


def both_scaled(q, k, v):
    root = q.shape[-1] ** -0.25
    return ((q * root) @ (k * root).transpose(-2, -1)).softmax(-1) @ v


def scale_kept_in_half(q, k, v):
    scale = torch.tensor(q.shape[-1] ** -0.5, dtype=q.dtype)
    return (q @ k.transpose(-2, -1) * scale).softmax(-1) @ v


def softmax_in_float32(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return scores.float().softmax(-1).to(v.dtype) @ v


def all_in_float32(q, k, v):
    return plain(q.float(), k.float(), v.float()).to(q.dtype)


def fused(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v)


def exponentials_by_hand(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True) @ v


def divided_last(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers @ v / powers.sum(-1, keepdim=True)


RIGHT = (
    plain,
    queries_scaled,
    both_scaled,
    scale_kept_in_half,
    softmax_in_float32,
    all_in_float32,
    fused,
    exponentials_by_hand,
    divided_last,
)


def off_in_half(factor, attend):
    """Return attention that is right in float32, and in half precision has a scale that is off."""

    def wrong(q, k, v):
        return attend(q * factor if q.dtype.itemsize == 2 else q, k, v)

    def fused_kernel(q, k, v):
        scale = q.shape[-1] ** -0.5 * (factor if q.dtype.itemsize == 2 else 1.0)
        return functional.scaled_dot_product_attention(q, k, v, scale=scale)

    return fused_kernel if attend is fused else wrong


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("attend", RIGHT, ids=lambda attend: attend.__name__)
def test_a_right_kernel_is_clean_in_whatever_order_it_rounds(attend, dtype):
    assert softlookup.check(attend, Contract(dtype=dtype, layout="B H T d")).named() == []


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("factor", [1.01, 0.99])
@pytest.mark.parametrize("attend", [plain, fused], ids=lambda attend: attend.__name__)
def test_a_scale_that_is_one_percent_off_is_named_in_half_precision(attend, factor, dtype):
    wrong = off_in_half(factor, attend)
    assert softlookup.check(wrong, Contract(dtype=dtype, layout="B H T d")).named() == ["error-above-plain"]
