"""For tests of one's own attention: a comparison that knows what rounding can do, and problems to draw."""

import math
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from softlookup import SoftlookupError
from softlookup.attention import STEPS
from softlookup.masks import make_causal_allowed_mask
from softlookup.terms import Case
from softlookup.testing import (
    Sizes,
    allowed_masks,
    assert_attention_close,
    assert_solves,
    attention_problems,
    in_layout,
    layouts,
    qkv,
    shapes,
)

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
QUICK = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def problem(*shape, seed=0, dtype=torch.float32):
    """q, k, v of one shape, by default [2, 4, 5, 8]."""
    random = torch.Generator().manual_seed(seed)
    shape = shape or (2, 4, 5, 8)
    return tuple(torch.randn(shape, generator=random, dtype=torch.float64).to(dtype) for _ in range(3))


def attend(q, k, v, allowed=None, *, factor=1.0, dim=-1):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) * factor
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    return scores.softmax(dim) @ v


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [0.1, 1, 40], ids=lambda size: f"scores x{size}")
def test_the_fused_kernel_is_close_in_every_dtype_and_at_every_size_of_scores(dtype, size):
    for seed in range(5):
        q, k, v = problem(2, 3, 37, 16, seed=seed, dtype=dtype)
        output = F.scaled_dot_product_attention(q * size, k, v, is_causal=True)
        assert_attention_close(output, q * size, k, v, causal=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_softmax_over_the_queries_is_not_close_in_any_dtype(dtype):
    q, k, v = problem(dtype=dtype)
    with pytest.raises(AssertionError, match="this is not the output of attention"):
        assert_attention_close(attend(q, k, v, dim=-2), q, k, v)


@pytest.mark.parametrize(
    ("dtype", "off"),
    [(torch.float64, 1e-5), (torch.float32, 1e-3), (torch.float16, 0.01), (torch.bfloat16, 0.02)],
    ids=str,
)
def test_a_scale_that_is_a_little_off_is_noticed(dtype, off):
    q, k, v = problem(2, 4, 64, 32, dtype=dtype)
    assert_attention_close(attend(q, k, v), q, k, v)
    with pytest.raises(AssertionError):
        assert_attention_close(attend(q, k, v, factor=1 + off), q, k, v)


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_what_is_close_does_not_depend_on_the_unit_of_the_values(size):
    q, k, v = problem()
    assert_attention_close(attend(q, k, v * size), q, k, v * size)
    with pytest.raises(AssertionError):
        assert_attention_close(attend(q, k, v * size, factor=1.001), q, k, v * size)


def test_masks_of_every_kind_are_understood():
    q, k, v = problem()
    allowed = torch.ones(5, 5).tril().bool()
    bias = torch.zeros(5, 5).masked_fill(~allowed, -math.inf)
    output = attend(q, k, v, allowed)
    for mask in (allowed, bias, make_causal_allowed_mask(5)):
        assert_attention_close(output, q, k, v, mask)
    with pytest.raises(AssertionError):
        assert_attention_close(output, q, k, v)


def test_causal_combines_with_a_mask_and_counts_from_the_corner_that_is_named():
    q, k, v = problem()
    q = q[:, :, :3]
    for corner, above in (("top-left", 0), ("bottom-right", 2)):
        allowed = torch.ones(3, 5).tril(above).bool()
        assert_attention_close(attend(q, k, v, allowed), q, k, v, causal=corner)
        keys = torch.tensor([True, False, True, True, True])
        assert_attention_close(attend(q, k, v, allowed & keys), q, k, v, keys, causal=corner)
    with pytest.raises(
        SoftlookupError, match=r"causal does not say which keys come later(.|\n)*T_q=3, T_k=5"
    ):
        assert_attention_close(attend(q, k, v), q, k, v, causal=True)


def test_grouped_heads_and_the_scale_are_taken_over():
    q, k, v = problem()
    few_k, few_v = k[:, :2], v[:, :2]
    output = F.scaled_dot_product_attention(q, few_k, few_v, scale=0.2, enable_gqa=True)
    assert_attention_close(output, q, few_k, few_v, scale=0.2)
    with pytest.raises(AssertionError):
        assert_attention_close(output, q, few_k, few_v)


@pytest.mark.parametrize("layout", ["B T H d", "T B H d", "H B d T"])
def test_tensors_may_come_in_another_layout(layout):
    q, k, v = problem()
    output, *inputs = (in_layout(tensor, layout) for tensor in (attend(q, k, v), q, k, v))
    assert_attention_close(output, *inputs, layout=layout)
    with pytest.raises(AssertionError):
        assert_attention_close(in_layout(attend(q, k, v, factor=2), layout), *inputs, layout=layout)


def test_tensors_without_heads_or_batch_are_attention_too():
    q, k, v = problem(5, 8)
    assert_attention_close(attend(q, k, v), q, k, v)
    wrong = attend(q, k, v).index_fill(0, torch.tensor(4), 9.0)
    with pytest.raises(AssertionError, match="worst row: query 4, which may see all 5 keys"):
        assert_attention_close(wrong, q, k, v)
    output, *inputs = (tensor[None].transpose(0, 1) for tensor in (attend(q, k, v), q, k, v))
    assert_attention_close(output, *inputs, layout="T B d")


def test_a_layout_that_does_not_fit_is_refused_in_words():
    q, k, v = problem()
    for layout in ("B T (H d)", "B T d", "B H d d"):
        with pytest.raises(SoftlookupError, match=r"layout .* does not fit(.|\n)*split folded axes first"):
            assert_attention_close(q, q, k, v, layout=layout)


def test_the_failure_names_the_worst_row_its_keys_and_both_corners():
    """With keys of zero every query takes the average of what it may see."""
    q, k = torch.ones(2, 2, 4, 3), torch.zeros(2, 2, 6, 3)
    v = torch.arange(6.0)[:, None] * torch.tensor([1.0, 10.0, 100.0, 0.0])
    v = v.expand(2, 2, 6, 4)
    allowed = torch.zeros(2, 1, 4, 6, dtype=torch.bool)
    allowed[..., 0], allowed[1, ..., 2, [1, 2, 5]] = True, True  # (0 + 1 + 2 + 5) / 4 is 2
    output = attend(q, k, v, allowed)
    output[1, 1, 2] += torch.tensor([0.0, 1.0, 0.5, 0.0])
    with pytest.raises(AssertionError) as failure:
        assert_attention_close(output, q, k, v, allowed)
    *head, titles, above, worst, below, advice = str(failure.value).splitlines()
    assert head == [
        "this is not the output of attention: float32 [2, 2, 4, 4]",
        "  largest error 1, mean 0.0234; the plain formula in float32: largest 0, mean 0",  # 1.5 / 64
        "  worst row: batch 1, head 1, query 2, which may see keys 0, 1, 2, 5 of 6",
        "  queries 1 to 3, features 0 to 2 around it:",
    ]
    assert titles.split() == ["yours", "right"]
    assert worst.split() == ["2.00", "21.00", "200.50", "2.00", "20.00", "200.00"]
    assert above.split() == below.split() == ["."] * 6  # they see key 0 alone, whose value is 0
    assert advice == "  try: softlookup.check(your_function), which names the wrong step"


def test_many_keys_are_counted_and_not_listed():
    q, k, v = problem(1, 1, 40, 8)
    wrong = attend(q, k, v).index_fill(2, torch.tensor(39), 9.0)
    with pytest.raises(AssertionError, match=r"query 39, which may see keys 0, 1, .*, 11 and 27 more of 40"):
        assert_attention_close(wrong, q, k, v, torch.arange(40) != 20)


def test_a_row_without_keys_is_not_compared_and_no_row_at_all_is_refused():
    q, k, v = problem()
    allowed = torch.ones(5, 5, dtype=torch.bool)
    allowed[3] = False
    for empty in (0.0, 7.0, math.nan):
        output = attend(q, k, v, allowed).index_fill(2, torch.tensor(3), empty)
        assert_attention_close(output, q, k, v, allowed)
    with pytest.raises(SoftlookupError, match="a query may look at no key"):
        assert_attention_close(output, q, k, v, torch.zeros_like(allowed))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nan_is_noticed_where_the_right_output_has_none(dtype):
    q, k, v = problem(dtype=dtype)
    output = attend(q, k, v)
    output[0, 1, 2, 3] = math.nan
    with pytest.raises(AssertionError, match=r"1 rows hold NaN or inf(.|\n)*batch 0, head 1, query 2"):
        assert_attention_close(output, q, k, v)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nan_that_a_query_looks_at_must_arrive_and_the_other_rows_are_still_compared(dtype):
    q, k, v = problem(dtype=dtype)
    v[0, 0, 4, 0] = math.nan
    allowed = torch.ones(5, 5).tril().bool()
    right = STEPS(Case(q, k, v, allowed))[0]
    assert_attention_close(right, q, k, v, allowed)
    with pytest.raises(AssertionError, match="do not pass on a NaN or inf that they may look at"):
        assert_attention_close(right.nan_to_num(), q, k, v, allowed)
    with pytest.raises(AssertionError, match="largest error"):
        assert_attention_close(right + torch.where(right.isnan(), 0, 1.0).to(dtype), q, k, v, allowed)


def test_the_worst_row_is_one_that_may_look_somewhere():
    q, k, v = problem()
    allowed = torch.ones(5, 5, dtype=torch.bool)
    allowed[3] = False
    output = attend(q, k, v, allowed).index_fill(2, torch.tensor(3), 99.0)
    output[0, 1, 2, 0] += 1
    with pytest.raises(AssertionError, match=r"largest error 1,(.|\n)*batch 0, head 1, query 2"):
        assert_attention_close(output, q, k, v, allowed)


def test_rows_for_which_the_plain_formula_overflows_are_left_out():
    q, k, v = problem(dtype=torch.float16)
    q[0, 0, 0], k[..., 0] = torch.tensor([20000.0, 0, 0, 0, 0, 0, 0, 0]), torch.arange(20.0, 25.0)
    plain = attend(q, k, v)
    assert plain[0, 0, 0].isnan().all()
    exact = attend(q.double(), k.double(), v.double()).half()
    for output in (plain, exact):
        assert_attention_close(output, q, k, v)
        wrong = output + torch.tensor([0, 0.5], dtype=torch.float16)[:, None, None, None]
        with pytest.raises(AssertionError, match="worst row: batch 1"):
            assert_attention_close(wrong, q, k, v)


def test_where_the_plain_formula_overflows_everywhere_nothing_can_be_said():
    q, k, v = problem(dtype=torch.float16)
    with pytest.raises(SoftlookupError, match=r"no row to compare(.|\n)*overflow in float16(.|\n)*float32"):
        assert_attention_close(v, q * 20000, k * 20000, v)


def test_another_shape_or_dtype_is_named():
    q, k, v = problem()
    with pytest.raises(AssertionError, match=r"shape \(2, 5, 32\), attention gives \(2, 4, 5, 8\)"):
        assert_attention_close(attend(q, k, v).transpose(1, 2).flatten(2), q, k, v)
    with pytest.raises(AssertionError, match="the output is float64, its queries are float32"):
        assert_attention_close(attend(q, k, v).double(), q, k, v)


def test_tensors_inside_a_graph_are_compared_and_left_alone():
    q, k, v = (tensor.requires_grad_() for tensor in problem())
    output = attend(q, k, v)
    assert_attention_close(output, q, k, v)
    output.sum().backward()
    assert q.requires_grad
    assert q.grad is not None


def test_comparing_needs_no_hypothesis():
    code = "import sys, softlookup.testing; print('hypothesis' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60) == "False\n"


@pytest.mark.parametrize(
    "strategy", [shapes, qkv, layouts, attention_problems, lambda: allowed_masks(Sizes())]
)
def test_without_hypothesis_a_strategy_says_what_to_install(strategy, monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.setitem(sys.modules, "hypothesis.strategies", None)
    with pytest.raises(SoftlookupError, match=r"not installed(.|\n)*pip install hypothesis"):
        strategy()


def axes(sizes):
    return (sizes.B, sizes.H, sizes.T_q, sizes.T_k, sizes.d_head, sizes.d_v)


def drawn(strategy, count=300):
    """Examples of a strategy, always the same."""
    examples = []

    @settings(max_examples=count, deadline=None, derandomize=True, database=None)
    @given(strategy)
    def collect(example):
        examples.append(example)

    collect()
    return examples


def test_the_axes_of_a_problem_are_most_often_all_different_and_sometimes_equal():
    examples = drawn(shapes())
    different = sum(len(set(axes(sizes))) == 6 for sizes in examples) / len(examples)
    assert 0.6 < different < 0.98
    assert any(sizes.B == sizes.H > 1 for sizes in examples)
    assert all(sizes.H_kv == sizes.H for sizes in examples)


def test_sizes_keep_to_what_is_asked():
    for sizes in drawn(shapes(grouped=True, same_lengths=True, same_widths=True), 50):
        assert sizes.H % sizes.H_kv == 0
        assert sizes.T_q == sizes.T_k
        assert sizes.d_head == sizes.d_v
    assert find(shapes(grouped=True), lambda sizes: sizes.H > sizes.H_kv > 1)


@QUICK
@given(st.data())
def test_numbers_are_short_and_the_same_in_every_dtype(data):
    sizes = Sizes(B=2, H=3, H_kv=3, T_q=5, T_k=7, d_head=8, d_v=4)
    q, k, v = data.draw(qkv(sizes, dtype=data.draw(st.sampled_from(DTYPES))))
    assert (q.shape, k.shape, v.shape) == ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4))
    for tensor in (q, k, v):
        assert torch.equal(tensor.double() * 8, (tensor.double() * 8).round())
        assert tensor.abs().max() <= 4


def test_strided_tensors_hold_the_same_numbers():
    q, _, _ = find(qkv(strided=True), lambda qkv: not qkv[0].is_contiguous())
    assert q.transpose(1, 2).is_contiguous()
    assert all(tensors[0].is_contiguous() for tensors in drawn(qkv(), 20))


@pytest.mark.parametrize("causal", [None, "top-left", "bottom-right"])
@pytest.mark.parametrize("mask_axes", ["B H T_q T_k", "B 1 1 T_k", "T_q T_k", "1 1 T_q T_k"])
def test_every_query_keeps_a_key_under_all_rules_together(mask_axes, causal):
    examples = drawn(attention_problems(mask_axes=mask_axes, causal=causal), 40)
    masked = [case for case in examples if case.allowed_mask is not None]
    assert 0 < len(masked) < len(examples)
    for case in masked:
        assert STEPS.visible(case).any(dim=-1).all()
        assert case.allowed_mask.dim() == len(mask_axes.split())
    assert any(not case.allowed_mask.all() for case in masked)


def test_rows_without_keys_come_only_when_they_are_asked_for():
    strategy = attention_problems(empty_rows=True)
    case = find(strategy, lambda it: it.allowed_mask is not None and not it.allowed_mask.any(-1).all())
    assert not STEPS.visible(case).any(dim=-1).all()


def test_axes_that_no_mask_has_are_refused():
    for wrong in ("T_k T_q", "B T_k", "B H T_q T_k d", ""):
        with pytest.raises(SoftlookupError, match="these are not the axes of a mask"):
            allowed_masks(Sizes(), wrong)


def test_a_mask_shrinks_to_one_hidden_key():
    mask = find(allowed_masks(Sizes()), lambda allowed: not allowed.all())
    assert int((~mask).sum()) == 1


def test_a_problem_shrinks_to_the_smallest_sizes_that_all_differ():
    case = find(attention_problems(), lambda case: case.q.shape[1] >= 2)
    assert sorted([*case.q.shape, case.k.shape[2], case.v.shape[3]]) == [1, 2, 3, 4, 5, 6]
    assert case.allowed_mask is None


@QUICK
@given(attention_problems(shapes(grouped=True), dtypes=DTYPES, strided=True))
def test_a_right_implementation_solves_every_problem(case):
    output = F.scaled_dot_product_attention(case.q, case.k, case.v, case.allowed_mask, enable_gqa=True)
    assert_solves(output, case)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda case: attend(case.q, case.k, case.v, case.allowed_mask, factor=0.9),
        lambda case: attend(case.q, case.k, case.v, case.allowed_mask, dim=-2),
        lambda case: attend(case.q, case.k, case.v),
        lambda case: attend(case.q, case.k, case.v, case.allowed_mask).roll(1, dims=0),
    ],
    ids=["scale", "softmax axis", "mask ignored", "samples swapped"],
)
def test_problems_are_found_that_a_wrong_implementation_does_not_solve(wrong):
    @settings(deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(attention_problems())
    def solve(case):
        assert_solves(wrong(case).nan_to_num(), case)

    with pytest.raises(AssertionError, match="this is not the output of attention"):
        solve()


@QUICK
@given(layouts(), qkv(Sizes()))
def test_a_drawn_layout_orders_the_axes(layout, tensors):
    q = in_layout(tensors[0], layout)
    sizes = dict(zip("BHTd", tensors[0].shape, strict=True))
    assert tuple(q.shape) == tuple(sizes[axis] for axis in layout.split())


def test_a_layout_without_all_axes_is_refused():
    for layout in ("B T d", "B H T d d"):
        with pytest.raises(SoftlookupError, match="in_layout: the axes do not fit"):
            in_layout(torch.zeros(2, 3, 5, 8), layout)
