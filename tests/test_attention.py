import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention as torch_attention

import softlookup.attention
from softlookup import SoftlookupError, scaled_dot_product_attention

torch.set_num_threads(1)

B, H, T_q, T_k, d_head, d_v = 2, 6, 4, 7, 8, 5
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


def draw_qkv(*leading, sizes=(T_q, T_k, d_head, d_v), kv_leading=None, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    q_len, k_len, width, v_width = sizes
    kv_leading = leading if kv_leading is None else kv_leading
    shapes = ((*leading, q_len, width), (*kv_leading, k_len, width), (*kv_leading, k_len, v_width))
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def draw_allowed(*shape, seed=0):
    """A random bool mask in which every row has a key."""
    allowed = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    allowed[..., 0] = True
    return allowed


def look_up_one_by_one(q, k, v, allowed):
    """Attention of one head as a double loop over queries and keys, in plain Python numbers."""
    outputs, weights = [], []
    for i, query in enumerate(q.tolist()):
        shares = []
        for j, key in enumerate(k.tolist()):
            dot = sum(a * b for a, b in zip(query, key, strict=True))
            shares.append(math.exp(dot / math.sqrt(len(query))) if allowed[i][j] else 0.0)
        shares = [share / sum(shares) for share in shares]
        weights.append(shares)
        columns = zip(*v.tolist(), strict=True)
        outputs.append([sum(s * x for s, x in zip(shares, column, strict=True)) for column in columns])
    return torch.tensor(outputs, dtype=torch.float64), torch.tensor(weights, dtype=torch.float64)


def assert_close(got, expected, dtype=torch.float64):
    torch.testing.assert_close(got, expected.to(got.dtype), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


# Against a double loop in plain Python, and against PyTorch


@pytest.mark.parametrize("masked", [False, True])
def test_the_answer_is_that_of_a_double_loop(masked):
    q, k, v = draw_qkv(B, 3)
    allowed = draw_allowed(B, 3, T_q, T_k) if masked else torch.ones(B, 3, T_q, T_k, dtype=torch.bool)
    output, weights = scaled_dot_product_attention(q, k, v, allowed if masked else None)
    for b in range(B):
        for h in range(3):
            expected = look_up_one_by_one(q[b, h], k[b, h], v[b, h], allowed[b, h].tolist())
            assert_close(output[b, h], expected[0])
            assert_close(weights[b, h], expected[1])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        ({"attention_mask": draw_allowed(B, 1, T_q, T_k)}, {"attn_mask": draw_allowed(B, 1, T_q, T_k)}),
        ({"attention_mask": torch.arange(7.0) - 3}, {"attn_mask": (torch.arange(7.0) - 3).expand(T_q, T_k)}),
        ({"is_causal": True}, {"is_causal": True}),
        ({"scale": 0.3}, {"scale": 0.3}),
    ],
    ids=["plain", "bool mask", "bias", "causal, top-left corner", "scale"],
)
def test_the_output_is_that_of_torch(ours, theirs):
    q, k, v = draw_qkv(B, H, dtype=torch.float32)
    output, _ = scaled_dot_product_attention(q, k, v, **ours)
    assert_close(output, torch_attention(q, k, v, **theirs), torch.float32)


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_neighbouring_query_heads_share_a_key_value_head(kv_heads):
    q, k, v = draw_qkv(B, H, kv_leading=(B, kv_heads))
    output, weights = scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert_close(output, torch_attention(q, k, v, enable_gqa=True))
    for head in range(H):
        shared = head // (H // kv_heads)
        alone = scaled_dot_product_attention(q[:, head], k[:, shared], v[:, shared])
        assert_close(weights[:, head], alone[1])


sizes = st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 8), st.integers(1, 8))
leadings = st.lists(st.integers(1, 3), max_size=3).map(tuple)


def draw_mask(kind, shape, broadcast, seed):
    """A mask of this kind whose axes in ``broadcast`` have size 1, or None."""
    if kind == "none":
        return None
    shape = tuple(1 if axis in broadcast else size for axis, size in enumerate(shape))
    allowed = draw_allowed(*shape, seed=seed)
    if kind == "bool":
        return allowed
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return bias.masked_fill(~allowed, -math.inf)


def lay_out(tensor, layout):
    """The same values, stored in another order."""
    if layout == "transposed":
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "every second":
        return torch.stack([tensor, torch.full_like(tensor, math.nan)], dim=-1).flatten(-2)[..., ::2]
    return tensor


@settings(max_examples=150, deadline=None)
@given(
    leading=leadings,
    sizes=sizes,
    dtype=st.sampled_from(sorted(TOLERANCE, key=str)),
    kind=st.sampled_from(["none", "bool", "bias"]),
    broadcast=st.sets(st.integers(0, 4)),
    layout=st.sampled_from(["as it is", "transposed", "every second"]),
    causal=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_shape_mask_dtype_and_layout_agrees_with_torch(
    leading, sizes, dtype, kind, broadcast, layout, causal, seed
):
    q, k, v = draw_qkv(*leading, sizes=sizes, dtype=dtype, seed=seed)
    mask = draw_mask(kind, (*leading, sizes[0], sizes[1]), broadcast, seed)
    strided = [lay_out(tensor, layout) for tensor in (q, k, v)]
    output, weights = scaled_dot_product_attention(*strided, mask, is_causal=causal)

    both = torch.ones(sizes[0], sizes[1]).tril().bool() if causal else torch.ones(sizes[0], sizes[1]).bool()
    bias = torch.zeros(*leading, sizes[0], sizes[1], dtype=torch.float64).masked_fill(~both, -math.inf)
    if kind == "bool":
        bias = bias.masked_fill(~mask, -math.inf)
    elif kind == "bias":
        bias = bias + mask.to(dtype).double()
    expected = torch_attention(q.double(), k.double(), v.double(), attn_mask=bias)
    assert output.shape == (*leading, sizes[0], sizes[3])
    assert output.dtype == weights.dtype == dtype
    assert_close(output, expected, dtype)
    assert (weights[(bias == -math.inf).expand_as(weights)] == 0).all()
    assert_close(weights.double().sum(-1), torch.ones(*leading, sizes[0]), dtype)


def test_a_mask_of_four_axes_serves_tensors_without_heads():
    q, k, v = draw_qkv(B)
    allowed = draw_allowed(1, 1, T_q, T_k)
    output, _ = scaled_dot_product_attention(q, k, v, allowed)
    assert_close(output, scaled_dot_product_attention(q, k, v, allowed[0, 0])[0])


def test_causal_combines_with_a_mask():
    q, k, v = draw_qkv(B, H, sizes=(5, 5, d_head, d_v))
    allowed = draw_allowed(B, 1, 5, 5)
    _, weights = scaled_dot_product_attention(q, k, v, allowed, is_causal=True)
    visible = allowed & torch.ones(5, 5).tril().bool()
    assert torch.equal(weights > 0, visible.expand(B, H, 5, 5))


class Even:
    """A mask object of somebody else: knows nothing but ``dense``."""

    def dense(self, q_len, k_len, *, device=None):
        return (torch.arange(k_len, device=device) % 2 == 0).expand(q_len, k_len)


class Slope:
    def dense(self, q_len, k_len, *, device=None):
        return -torch.arange(k_len, device=device).float().expand(q_len, k_len)


def test_a_mask_object_is_made_dense_for_these_lengths():
    q, k, v = draw_qkv(B, H)
    for mask in (Even(), Slope()):
        output, _ = scaled_dot_product_attention(q, k, v, mask)
        assert_close(output, scaled_dot_product_attention(q, k, v, mask.dense(T_q, T_k))[0])
    assert (scaled_dot_product_attention(q, k, v, Even())[1][..., 1::2] == 0).all()


def test_our_own_masks_are_understood():
    from softlookup.masks import causal, padding

    q, k, v = draw_qkv(B, H, sizes=(5, 5, d_head, d_v))
    mask = causal() & padding([3, 5])
    _, weights = scaled_dot_product_attention(q, k, v, mask)
    assert torch.equal(weights > 0, mask.dense(5, 5).expand(B, H, 5, 5))


def test_a_bias_is_added_after_scaling():
    q, k, v = draw_qkv(B, H)
    bias = torch.randn(T_q, T_k, dtype=torch.float64)
    _, weights = scaled_dot_product_attention(q, k, v, bias, scale=0.1)
    assert_close(weights, (q @ k.transpose(-2, -1) * 0.1 + bias).softmax(dim=-1))


def test_nothing_that_is_handed_over_changes():
    q, k, v = draw_qkv(B, H)
    k[:, :, 1], v[:, :, 2] = math.nan, math.inf
    allowed = draw_allowed(B, 1, T_q, T_k)
    before = [tensor.clone() for tensor in (q, k, v, allowed)]
    scaled_dot_product_attention(q, k, v, allowed, is_causal=True, empty_rows="zero")
    for tensor, copy in zip((q, k, v, allowed), before, strict=True):
        assert torch.equal(tensor.nan_to_num(7.0), copy.nan_to_num(7.0))


# Gradients


@pytest.mark.parametrize("case", ["plain", "mask", "causal", "empty rows", "bias", "grouped"])
def test_gradients_are_those_of_finite_differences(case):
    q, k, v = draw_qkv(2, 4, sizes=(3, 4, 3, 2), kv_leading=(2, 2) if case == "grouped" else None)
    allowed = draw_allowed(2, 1, 3, 4)
    if case == "empty rows":
        allowed[1, :, 2] = False
    bias = torch.randn(4, 3, 4, dtype=torch.float64, requires_grad=True)
    mask = {"mask": allowed, "empty rows": allowed, "bias": bias}.get(case)
    options = {"is_causal": case == "causal", "enable_gqa": case == "grouped", "empty_rows": "zero"}
    inputs = [tensor.requires_grad_() for tensor in (q, k, v)] + ([bias] if case == "bias" else [])
    assert torch.autograd.gradcheck(
        lambda q, k, v, *biases: scaled_dot_product_attention(q, k, v, *(biases or (mask,)), **options),
        inputs,
    )


def test_second_derivatives_are_right():
    q, k, v = (tensor.requires_grad_() for tensor in draw_qkv(1, sizes=(2, 3, 2, 2)))
    assert torch.autograd.gradgradcheck(
        lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True)[0], (q, k, v)
    )


# What is hidden stays hidden, be it broken


BROKEN = pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
PLACES = pytest.mark.parametrize("places", ["k", "v", "kv"])


def forward_and_backward(tensors, rows, **options):
    """The output of some rows, and the gradients of q, k and v when only these rows have a loss."""
    q, k, v = (tensor.clone().requires_grad_() for tensor in tensors)
    output = scaled_dot_product_attention(q, k, v, **options)[0][..., rows, :]
    (output * torch.linspace(-1, 1, output.numel()).view(output.shape)).sum().backward()
    return [output.detach(), q.grad, k.grad, v.grad]


@BROKEN
@PLACES
@pytest.mark.parametrize("leading", [(), (3,), (2, 3), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("whole", [True, False], ids=["whole vector", "one number"])
def test_a_broken_hidden_key_or_value_changes_nothing(value, places, leading, whole):
    q, k, v = draw_qkv(*leading)
    allowed = torch.ones(T_q, T_k, dtype=torch.bool)
    allowed[:, 3] = False
    expected = forward_and_backward((q, k, v), slice(None), attention_mask=allowed)
    for place in places:
        {"k": k, "v": v}[place][..., 3, slice(None) if whole else 1] = value
    got = forward_and_backward((q, k, v), slice(None), attention_mask=allowed)
    for ours, theirs in zip(got, expected, strict=True):
        assert_close(ours, theirs)


@BROKEN
@PLACES
def test_rows_before_a_broken_key_do_not_learn_of_it(value, places):
    q, k, v = draw_qkv(2, 3, sizes=(5, 5, 4, 3))
    early = slice(0, 3)
    expected = forward_and_backward((q, k, v), early, is_causal=True)
    for place in places:
        {"k": k, "v": v}[place][..., 3, :] = value
    got = forward_and_backward((q, k, v), early, is_causal=True)
    for ours, theirs in zip(got, expected, strict=True):
        assert_close(ours, theirs)


def test_a_hidden_value_that_is_huge_does_not_overflow_into_gradients():
    q, k, v = draw_qkv(2, 3, sizes=(5, 5, 64, 64), dtype=torch.float16)
    v[..., 3, :] = 6e4
    got = forward_and_backward((q, k, v), slice(0, 3), is_causal=True)
    assert all(tensor.isfinite().all() for tensor in got)


def test_a_broken_key_that_is_visible_is_not_hushed_up():
    q, k, v = draw_qkv(2, 3, sizes=(5, 5, 4, 3))
    k[0, 1, 3] = math.nan
    output, weights = scaled_dot_product_attention(q, k, v, is_causal=True)
    lost = torch.zeros(2, 3, 5, dtype=torch.bool)
    lost[0, 1, 3:] = True
    assert torch.equal(output.isnan().all(-1), lost)
    assert torch.equal(weights.isnan().all(-1), lost)
    assert torch.equal(output.isnan().any(-1), lost)


def test_a_broken_value_that_is_visible_spoils_its_own_column():
    q, k, v = draw_qkv(sizes=(3, 3, 4, 3))
    v[1, 2], v[2, 0] = math.inf, math.nan
    output, _ = scaled_dot_product_attention(q, k, v, is_causal=True)
    assert output.isfinite().tolist() == [[True, True, True], [True, True, False], [False, True, False]]
    assert output[1, 2] == math.inf


# Rows that may look nowhere


def test_a_row_without_keys_is_named():
    q, k, v = draw_qkv(B, H)
    allowed = torch.ones(B, H, T_q, T_k, dtype=torch.bool)
    allowed[1, 4, 2] = allowed[1, 5, 0] = False
    with pytest.raises(
        SoftlookupError, match="2 of 48 rows are empty, the first is batch 1, head 4, query 2"
    ):
        scaled_dot_product_attention(q, k, v, allowed)


def test_a_sample_that_is_all_padding_is_named():
    q, k, v = draw_qkv(B, H)
    allowed = torch.tensor([[True] * T_k, [False] * T_k])[:, None, None]
    with pytest.raises(
        SoftlookupError, match=r"24 of 48 .* every query of batch 1 is empty: is it all padding"
    ):
        scaled_dot_product_attention(q, k, v, allowed)


@pytest.mark.parametrize(
    ("leading", "words"),
    [
        ((), "the first is query 2"),
        ((3,), "the first is batch 0, query 2"),
        ((3, 2), "the first is batch 0, head 0, query 2"),
        ((3, 2, 2), "the first is axis 0 at 0, axis 1 at 0, head 0, query 2"),
        ((1, 3, 2, 2), "the first is axis 0 at 0, axis 1 at 0, axis 2 at 0, head 0, query 2"),
    ],
    ids=str,
)
def test_an_empty_row_is_named_with_any_number_of_axes(leading, words):
    q, k, v = draw_qkv(*leading)
    allowed = torch.ones(T_q, T_k, dtype=torch.bool)
    allowed[2] = False
    with pytest.raises(SoftlookupError, match=words):
        scaled_dot_product_attention(q, k, v, allowed)


def test_causal_and_padding_can_leave_a_row_empty_together():
    q, k, v = draw_qkv(B, H, sizes=(5, 5, d_head, d_v))
    left_padding = torch.tensor([[True] * 5, [False, False, True, True, True]])[:, None, None]
    scaled_dot_product_attention(q, k, v, left_padding)
    with pytest.raises(
        SoftlookupError, match="12 of 60 rows are empty, the first is batch 1, head 0, query 0"
    ):
        scaled_dot_product_attention(q, k, v, left_padding, is_causal=True)


@pytest.mark.parametrize("bias", [False, True])
def test_empty_rows_return_zeros_and_finite_gradients(bias):
    q, k, v = (tensor.requires_grad_() for tensor in draw_qkv(B, H))
    allowed = draw_allowed(B, 1, T_q, T_k)
    allowed[1, 0, 2] = False
    mask = torch.zeros(B, 1, T_q, T_k).masked_fill(~allowed, -math.inf) if bias else allowed
    output, weights = scaled_dot_product_attention(q, k, v, mask, empty_rows="zero")
    assert (output[1, :, 2] == 0).all()
    assert (weights[1, :, 2] == 0).all()
    assert_close(weights.sum(-1)[0], torch.ones(H, T_q))
    output.sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (q, k, v))
    assert (q.grad[1, :, 2] == 0).all()


def test_no_keys_at_all_is_a_row_without_keys():
    q, k, v = draw_qkv(B, H, sizes=(T_q, 0, d_head, d_v))
    with pytest.raises(SoftlookupError, match="48 of 48 rows are empty"):
        scaled_dot_product_attention(q, k, v)
    output, weights = scaled_dot_product_attention(q, k, v, empty_rows="zero")
    assert torch.equal(output, torch.zeros(B, H, T_q, d_v, dtype=torch.float64))
    assert weights.shape == (B, H, T_q, 0)


def test_no_queries_and_no_samples_are_no_error():
    q, k, v = draw_qkv(B, H, sizes=(0, T_k, d_head, d_v))
    assert scaled_dot_product_attention(q, k, v, torch.zeros(1, T_k).bool())[0].shape == (B, H, 0, d_v)
    q, k, v = draw_qkv(0, H)
    assert scaled_dot_product_attention(q, k, v, torch.zeros(1, T_k).bool())[0].shape == (0, H, T_q, d_v)


def test_a_fill_that_overflows_in_float16_is_seen_as_hiding():
    q, k, v = draw_qkv(B, H, dtype=torch.float16)
    bias = torch.zeros(T_q, T_k)
    bias[1] = torch.finfo(torch.float32).min
    with pytest.raises(SoftlookupError, match="the first is batch 0, head 0, query 1"):
        scaled_dot_product_attention(q, k, v, bias)


# Dropout


def test_dropout_zeroes_weights_and_scales_up_the_rest():
    q, k, v = draw_qkv(B, H, sizes=(30, 40, d_head, d_v))
    _, whole = scaled_dot_product_attention(q, k, v)
    torch.manual_seed(0)
    output, dropped = scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    kept = dropped != 0
    assert 0.7 < kept.double().mean() < 0.8  # 14400 weights: three quarters, give or take 0.4 %
    assert_close(dropped[kept], whole[kept] / 0.75)
    assert_close(output, dropped @ v)


# What is refused, in words


def refuse(words, *, q=(B, H, T_q, d_head), k=(B, H, T_k, d_head), v=(B, H, T_k, d_v), mask=None, **options):
    tensors = [torch.zeros(shape) if isinstance(shape, tuple) else shape for shape in (q, k, v)]
    with pytest.raises(SoftlookupError) as error:
        scaled_dot_product_attention(*tensors, mask, **options)
    for word in words:
        assert word in str(error.value), f"{word!r} is not in:\n{error.value}"


def test_another_width_of_keys_is_refused():
    refuse(["d_head 8 in q and 9 in k", "B=2, H=6, T_q=4, T_k=7, d_head=8"], k=(B, H, T_k, 9))


def test_a_transposed_key_is_recognised():
    refuse(["k.transpose(-2, -1)"], k=(B, H, d_head, T_k), v=(B, H, d_head, d_v))


def test_a_width_of_zero_is_refused():
    refuse(["at least 1"], q=(B, H, T_q, 0), k=(B, H, T_k, 0))


def test_another_number_of_values_is_refused():
    refuse(["7 keys and 8 values"], v=(B, H, T_k + 1, d_v))


def test_other_heads_of_values_are_refused():
    refuse(["(2, 6) in k and (2, 3) in v"], v=(B, 3, T_k, d_v))


def test_shared_heads_must_be_asked_for():
    refuse(["(2, 6) in q and (2, 2) in k", "enable_gqa=True"], k=(B, 2, T_k, d_head), v=(B, 2, T_k, d_v))


def test_another_batch_is_refused_even_where_it_would_broadcast():
    refuse(["(2, 6) in q and (1, 6) in k", "k.expand"], k=(1, H, T_k, d_head), v=(1, H, T_k, d_v))
    refuse(["(4,) in q and (2,) in k"], q=(4, T_q, d_head), k=(2, T_k, d_head), v=(2, T_k, d_v))


@pytest.mark.parametrize("kv_leading", [(B, 4), (B, 12), (1, 2), (2,), (B, 0)], ids=str)
def test_heads_that_do_not_divide_are_refused(kv_leading):
    k, v = (*kv_leading, T_k, d_head), (*kv_leading, T_k, d_v)
    refuse(["H a multiple of H_kv", str(kv_leading)], k=k, v=v, enable_gqa=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_numbers_that_are_not_real_are_refused(dtype):
    refuse([f"k has dtype {dtype}", "k.float()"], k=torch.zeros(B, H, T_k, d_head, dtype=dtype))


def test_mixed_dtypes_are_refused():
    refuse(["differ in dtype", "v: torch.float64"], v=torch.zeros(B, H, T_k, d_v, dtype=torch.float64))


def test_mixed_devices_are_refused():
    refuse(["differ in device", "k: meta"], k=torch.zeros(B, H, T_k, d_head, device="meta"))


def test_what_is_no_tensor_is_refused():
    refuse(["q is not a tensor", "list"], q=[[1.0]])


def test_a_single_vector_is_refused():
    refuse(["q has no axis for positions", "q[None, :]"], q=(d_head,))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_a_mask_of_integers_is_refused_and_told_what_to_write(dtype):
    mask = torch.ones(T_q, T_k, dtype=dtype)
    refuse([str(dtype), "attention_mask.bool()", "attention_mask == 0"], mask=mask)


def test_a_mask_of_complex_numbers_is_refused():
    refuse(["torch.complex64"], mask=torch.ones(T_q, T_k, dtype=torch.complex64))


def test_a_mask_that_is_no_tensor_is_refused():
    refuse(["attention_mask is no mask", "list"], mask=[[True]])


@pytest.mark.parametrize(
    "shape", [(T_q, T_k + 1), (T_q + 1, T_k), (3, 1, T_q, T_k), (2, B, H, T_q, T_k)], ids=str
)
def test_a_mask_that_does_not_broadcast_is_refused_with_the_sizes(shape):
    words = ["(2, 6, 4, 7)", str(shape), "B=2, H=6, T_q=4, T_k=7", "the last axis of a mask counts keys"]
    refuse(words, mask=torch.ones(shape, dtype=torch.bool))


def test_a_mask_of_keys_is_recognised():
    refuse(["attention_mask[:, None, None, :]"], mask=torch.ones(B, T_k, dtype=torch.bool))
    three = {"q": (B, T_q, d_head), "k": (B, T_k, d_head), "v": (B, T_k, d_v)}
    refuse(["attention_mask[:, None, :]"], mask=torch.ones(B, T_k, dtype=torch.bool), **three)


@pytest.mark.parametrize("dropout_p", [-0.1, 1.1, math.nan])
def test_a_dropout_that_is_no_probability_is_refused(dropout_p):
    refuse(["dropout is a probability", str(dropout_p)], dropout_p=dropout_p)


def test_an_unknown_rule_for_empty_rows_is_refused():
    refuse(["'raise' or 'zero'", "'nan'"], empty_rows="nan")


def test_the_refusals_are_value_errors():
    with pytest.raises(ValueError, match="dot product"):
        scaled_dot_product_attention(torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(2, 4))


def test_the_examples_in_the_docstrings_run():
    result = doctest.testmod(softlookup.attention)
    assert result.attempted >= 4
    assert result.failed == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_mask_moves_to_the_device_of_the_scores():
    q, k, v = (tensor.cuda() for tensor in draw_qkv(B, H, dtype=torch.float32))
    allowed = draw_allowed(B, 1, T_q, T_k)
    output, _ = scaled_dot_product_attention(q, k, v, allowed, is_causal=True)
    expected = torch_attention(q, k, v, attn_mask=(allowed & torch.ones(T_q, T_k).tril().bool()).cuda())
    assert_close(output, expected, torch.float32)
