"""attend against the readable attention: every mask, tensor, layout and dtype, with gradients."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from softlookup import Mask, masks, scaled_dot_product_attention
from softlookup.fused import attend
from softlookup.masks import (
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

CORNERS = ("top-left", "bottom-right")
CHUNKS = ("own chunk", "own chunk up to itself", "own and earlier chunks")
H = 4


def qkv(q_len, k_len, batch=2, kv_heads=2, width=8, **options):
    """Return q [batch, H, q_len, width] and k, v [batch, kv_heads, k_len, width], in float64 if not told."""
    generator = torch.Generator().manual_seed(q_len + k_len)
    return [
        torch.randn(batch, heads, length, width, generator=generator, dtype=torch.float64).to(**options)
        for heads, length in ((H, q_len), (kv_heads, k_len), (kv_heads, k_len))
    ]


def answers(function, tensors, mask, **options):
    """Return the output and the gradients of q, k and v."""
    leaves = [x.detach().requires_grad_() for x in tensors]
    found = function(*leaves, mask, enable_gqa=True, empty_rows="zero", **options)
    output = found[0] if isinstance(found, tuple) else found
    onto = torch.linspace(-1, 1, output.numel()).view_as(output)
    return output.detach(), *torch.autograd.grad(output, leaves, onto.to(output.dtype).sin())


def assert_same_answers(tensors, mask, **options):
    found = answers(attend, tensors, mask, **options)
    wanted = answers(scaled_dot_product_attention, tensors, mask, **options)
    for name, mine, right in zip(("output", "q.grad", "k.grad", "v.grad"), found, wanted, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-9, atol=1e-9, msg=lambda text, n=name: f"{n}: {text}")


# Masks


def ids(k_len):
    """Documents of the same length; in the second sample they come back."""
    at = torch.arange(k_len)
    return torch.stack([at // 37, at // 50 % 3])


#: Of each builder (and complements, products, unions of them) masks for k_len keys, with a corner.
MASKS = {
    "causal": lambda k, corner: [causal(corner), ~causal(corner)],
    "window": lambda k, corner: [sliding_window(n, corner=corner) for n in (1, 9, 90, k + 5)],
    "lookback": lambda k, corner: [sliding_window(n, "lookback", corner) for n in (0, 30)],
    "each side": lambda k, corner: [sliding_window(n, "each side", corner) for n in (0, 20)],
    "outside of a window": lambda k, corner: [~sliding_window(20, "each side", corner)],
    "prefix": lambda k, corner: [prefix_lm(5, corner), prefix_lm([3, k], corner)],
    "own chunk": lambda k, corner: [chunked(n, "own chunk", corner) for n in (16, 45)],
    "chunk up to itself": lambda k, corner: [chunked(n, corner=corner) for n in (3, 64)],
    "earlier chunks": lambda k, corner: [chunked(n, "own and earlier chunks", corner) for n in (7, 60)],
    "dilated": lambda k, corner: [dilated(4, 3, corner), ~dilated(4, 3, corner) & causal(corner)],
    "documents": lambda k, corner: [documents(ids(k), corner), documents(ids(k), corner) & causal(corner)],
    "packed": lambda k, corner: [packed([0, 7, 7, k // 2, k], corner) & sliding_window(9, corner=corner)],
    "alibi": lambda k, corner: [alibi(H, corner), alibi(H, corner) & causal(corner) & padding([9, k])],
    "padding": lambda k, corner: [
        part & whole
        for part in (padding([9, k]), padding([k - 3, 0], "left"), masks.padding_of(ids(k), pad_id=1))
        for whole in (causal(corner), padding(k - 1))
    ],
    "sink and window": lambda k, corner: [(sliding_window(20, corner=corner) | padding(4)) & causal(corner)],
    "sample by sample": lambda k, corner: [causal(corner) & padding([5, k]) | sliding_window(3, "each side")],
}


@pytest.mark.parametrize("corner", CORNERS)
@pytest.mark.parametrize(("q_len", "k_len"), [(100, 100), (40, 150), (150, 40)])
@pytest.mark.parametrize("name", MASKS)
def test_every_mask_gives_the_answers_of_the_readable_attention(name, q_len, k_len, corner):
    if name in ("documents", "packed") and q_len > k_len:
        pytest.skip("documents: there are no ids for more queries than keys")
    for mask in MASKS[name](k_len, corner):
        assert_same_answers(qkv(q_len, k_len), mask)


#: Where blocks and triangles of the plans begin and end.
LENGTHS = (1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513)


@pytest.mark.parametrize(("batch", "T"), [*product([1, 3], LENGTHS), (1, 1100)])
def test_no_length_at_the_edge_of_a_block_is_cut_wrongly(batch, T):
    lengths = [T, 1 + T // 2, max(1, T - 1)][:batch]
    for mask in (
        causal("bottom-right") & padding(lengths),
        sliding_window(64),
        sliding_window(65) & padding(lengths, "left"),
        chunked(128),
        ~causal(),
    ):
        assert_same_answers(qkv(T, T, batch, width=4), mask)


@pytest.mark.parametrize(
    ("mask", "q_len", "k_len"),
    [
        (sliding_window(1024), 1700, 1700),
        (sliding_window(1100, corner="bottom-right"), 600, 1800),
        (~sliding_window(700, "each side"), 1500, 1500),
    ],
    ids=repr,
)
def test_bands_that_are_cut_into_triangles_give_the_same_answers(mask, q_len, k_len):
    assert_same_answers(qkv(q_len, k_len, batch=1, width=4), mask)


def leaves(k_len):
    """Masks of one rule, for two samples."""
    corner, number = st.sampled_from(CORNERS), st.sampled_from([1, 2, 7, 64, 130])
    count = st.sampled_from([0, 1, k_len // 2, k_len])
    counts = st.one_of(count, st.lists(count, min_size=2, max_size=2))
    cuts = st.lists(st.integers(0, k_len), max_size=4).map(lambda cut: [0, *sorted(cut), k_len])
    rows = st.lists(st.booleans(), min_size=2, max_size=2).map(
        lambda bits: Mask.from_tensor(torch.tensor(bits).view(2, 1, 1, 1))
    )
    return st.one_of(
        st.builds(causal, corner),
        st.builds(padding, counts, st.sampled_from(["right", "left"])),
        st.builds(sliding_window, number, st.sampled_from(["keys", "lookback", "each side"]), corner),
        st.builds(prefix_lm, counts, corner),
        st.builds(packed, cuts, corner),
        st.builds(
            chunked,
            number,
            st.sampled_from(["own chunk", "own chunk up to itself", "own and earlier chunks"]),
        ),
        st.builds(dilated, number, st.integers(2, 5)),
        rows,
    )


@st.composite
def trees_and_lengths(draw):
    k_len = draw(st.sampled_from([1, 5, 65, 140, 300]))
    part = st.recursive(
        leaves(k_len),
        lambda part: st.one_of(
            st.builds(lambda a, b: a & b, part, part),
            st.builds(lambda a, b: a | b, part, part),
            part.map(lambda a: ~a),
        ),
        max_leaves=5,
    )
    return draw(part), draw(st.sampled_from([n for n in (1, 4, 65, 140, 300) if n <= k_len])), k_len


@given(trees_and_lengths())
@settings(deadline=None, max_examples=120)
def test_products_unions_and_complements_give_the_same_answers(drawn):
    mask, q_len, k_len = drawn
    assert_same_answers(qkv(q_len, k_len, width=4), mask)


# Tensors

SIZES = (2, H, 140, 150)
SHAPES = [
    shape
    for axes in range(5)
    for shape in product(*((1, size) for size in SIZES[4 - axes :]))
    if shape[:1] != (1,) or axes == 4
]


def dense(shape, kind):
    """A mask of whole blocks and single entries, so that some blocks are hidden and some are whole."""
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    coarse = torch.rand([-(-size // 64) for size in shape], generator=generator) < 0.6
    for axis, size in enumerate(shape):
        coarse = coarse.repeat_interleave(64, axis).narrow(axis, 0, size)
    allowed = coarse ^ (torch.rand(shape, generator=generator) < 0.001)
    bias = torch.randn(shape, generator=generator, dtype=torch.float64)
    return {
        "bool": allowed,
        "float": bias,
        "float that hides": bias.masked_fill(~allowed, -math.inf),
        "bool of few": torch.rand(shape, generator=generator) < 0.02,
    }[kind]


@pytest.mark.parametrize("kind", ["bool", "bool of few", "float", "float that hides"])
def test_a_tensor_of_any_shape_that_broadcasts_gives_the_same_answers(kind):
    for shape in SHAPES:
        assert_same_answers(qkv(*SIZES[2:]), dense(shape, kind))


def test_a_structured_mask_made_dense_gives_the_same_answers():
    for build in (causal(), sliding_window(9) & padding([9, 100]), dilated(3, 2), alibi(H) & causal()):
        assert_same_answers(qkv(100, 100), build.dense(100, 100))


def test_heads_may_see_different_parts_of_the_same_blocks():
    blocks = chunked(128, "own chunk").dense(400, 400)
    mask = blocks & (causal().dense(400, 400) | (torch.arange(H).view(1, H, 1, 1) == 0))
    assert_same_answers(qkv(400, 400, width=4), mask)
    assert_same_answers(qkv(400, 400, width=4), Mask.from_tensor(mask) & ~padding(3))


def test_a_bias_that_needs_a_gradient_gets_it():
    tensors, bias = qkv(9, 9), torch.randn(H, 9, 9, dtype=torch.float64, requires_grad=True)
    grads = [
        torch.autograd.grad(f(*tensors, bias, enable_gqa=True)[..., :1].sin().sum(), bias)[0]
        for f in (attend, lambda *a, **o: scaled_dot_product_attention(*a, **o)[0])
    ]
    torch.testing.assert_close(*grads)


# Layouts and dtypes

#: Of each way one, and one whose samples differ.
FIVE = [None, causal(), sliding_window(5), padding([3, 20]), dilated(3, 2)]


@pytest.mark.parametrize("mask", [None, causal(), sliding_window(5), dilated(3, 2), alibi(1)], ids=repr)
@pytest.mark.parametrize("lead", [(), (3,), (2, 3, 1)], ids=str)
def test_any_leading_axes_give_the_same_answers(mask, lead):
    if isinstance(mask, masks.Bias) and lead == (3,):
        mask = alibi(3)
    assert_same_answers([torch.randn(*lead, 20, 8, dtype=torch.float64) for _ in range(3)], mask)


@pytest.mark.parametrize("kind", ["mask", "tensor"])
def test_a_mask_of_samples_belongs_to_the_last_axis_before_the_heads(kind):
    mask = padding([3, 20]) & causal()
    mask = mask if kind == "mask" else mask.dense(20, 20)
    assert_same_answers([torch.randn(3, 2, H, 20, 8, dtype=torch.float64) for _ in range(3)], mask)


@pytest.mark.parametrize(
    "mask", [None, causal(), sliding_window(5), padding([3, 20]), dilated(3, 2)], ids=repr
)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("v_width", [3, 8, 12])
def test_shared_heads_and_wider_or_narrower_values_give_the_same_answers(mask, kv_heads, v_width):
    q, k, _ = qkv(20, 20, kv_heads=kv_heads)
    assert_same_answers((q, k, qkv(20, 20, kv_heads=kv_heads, width=v_width)[2]), mask)


LAYOUTS = {
    "heads last": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "width first": lambda x: x.mT.contiguous().mT,
    "every second position": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
    "one sample for all": lambda x: x[:1].expand_as(x),
    "part of a wider tensor": lambda x: torch.cat([x, x], dim=-1)[..., 8:],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "mask", [None, causal(), sliding_window(5), padding([3, 20]), dilated(3, 2)], ids=repr
)
def test_any_layout_in_memory_gives_the_same_answers(mask, layout):
    tensors = qkv(20, 20)
    for which in range(3):
        assert_same_answers([LAYOUTS[layout](x) if n == which else x for n, x in enumerate(tensors)], mask)


@pytest.mark.parametrize("mask", [None, causal(), sliding_window(5), chunked(7)], ids=repr)
@pytest.mark.parametrize("scale", [0.0, -1.0, 0.3, 2])
def test_any_scale_gives_the_same_answers(mask, scale):
    assert_same_answers(qkv(20, 20), mask, scale=scale)


def by_the_flag(q, k, v, mask, **_):
    """PyTorch's kernel alone: on some processors its gradients are six times as far off as the formula's."""
    return functional.scaled_dot_product_attention(q, k, v, is_causal=mask is not None, enable_gqa=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "mask",
    [None, causal(), prefix_lm([150, 20]) | sliding_window(3), sliding_window(100), dilated(9, 3), alibi(H)],
    ids=repr,
)
def test_the_error_is_that_of_the_plain_formula_or_the_kernel_in_the_same_dtype(mask, dtype):
    tensors = qkv(300, 300, dtype=dtype)
    right = answers(scaled_dot_product_attention, [x.double() for x in tensors], mask)
    plain = answers(scaled_dot_product_attention, tensors, mask)
    flagged = mask is None or mask == causal()  # all that the flag of the kernel can say
    kernel = answers(by_the_flag, tensors, mask) if flagged else plain
    for mine, *others, exact in zip(answers(attend, tensors, mask), plain, kernel, right, strict=True):
        assert mine.dtype == dtype
        least = torch.finfo(dtype).eps * exact.abs().max()
        error, *usual = ((x - exact).abs().max() for x in (mine, *others))
        assert error <= 2 * max(usual) + 4 * least
