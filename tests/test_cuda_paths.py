"""The ways of CUDA, as far as a CPU can go: what they are told is what the mask says.

No test here needs a GPU. The kernel of varlen_attn is replaced by one that is written out from its page, and
FlexAttention runs uncompiled. ``benchmarks/gpu.py`` is the check on a real one.
"""

import doctest
import math
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softlookup import SoftlookupError, scaled_dot_product_attention
from softlookup.fused import cuda, flex, segments
from softlookup.fused.cuda import Packed, attend_on_cuda, by_flag, by_varlen, packed_of
from softlookup.fused.flex import block_mask_of, flex_attention_of, mask_mod_of, score_mod_of
from softlookup.fused.segments import segments_of
from softlookup.masks import (
    Mask,
    alibi,
    causal,
    chunked,
    dilated,
    documents,
    packed,
    padding,
    padding_of,
    prefix_lm,
    sliding_window,
)
from softlookup.masks.spans import Spans, spans_of

FIND_VARLEN = cuda._varlen_attn.__wrapped__  # without its memory
IDS = torch.tensor([[4, 4, 4, 7, 7, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 3, 3, 5]])
MASKS = [
    causal(),
    causal("bottom-right"),
    padding([3, 9]),
    padding([4, 7], "left"),
    padding_of(IDS, pad_id=1),
    sliding_window(3),
    sliding_window(2, "lookback"),
    sliding_window(2, "each side"),
    dilated(2, 3),
    prefix_lm([2, 5]),
    documents(IDS),
    packed([0, 4, 5, 9]),
    chunked(4, "own chunk"),
    chunked(4),
    chunked(4, "own and earlier chunks"),
    documents(IDS) & causal(),
    causal() & padding([3, 9]),
    sliding_window(3) & padding([3, 8]),
    (documents(IDS) & causal()) | sliding_window(2),
    ~causal("bottom-right"),
]


@pytest.fixture(autouse=True)
def some_varlen_attn(monkeypatch):
    """Whatever torch is installed, there is a varlen_attn; tests that call it bring their own."""
    monkeypatch.setattr(cuda, "_varlen_attn", lambda: pytest.fail)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attention_inputs(q_len=9, k_len=9, heads=4, kv_heads=2):
    sizes = ((heads, q_len), (kv_heads, k_len), (kv_heads, k_len))
    return [numbers(2, h, t, 8, seed=n) for n, (h, t) in enumerate(sizes)]


def seen_in_window(q_len, k_len, window):
    """Bool [q_len, k_len] as flash-attention's page has it: the last query is at the last key."""
    here = torch.arange(q_len)[:, None] + k_len - q_len
    back = here - torch.arange(k_len)[None]
    left, right = window
    return ((left < 0) | (back <= left)) & ((right < 0) | (-back <= right))


def written_out_varlen(tensors, call, scale):
    """[queries, H, d], [keys, H_kv, d] -> output, log-sum-exp: one segment after another, by the steps."""
    q, k, v = tensors
    bounds = zip(
        *(bound.tolist() for b in (call.q_bounds, call.k_bounds) for bound in (b[:-1], b[1:])), strict=True
    )
    outputs, sums = [], []
    for q_start, q_stop, k_start, k_stop in bounds:
        rows, keys, values = (
            x.transpose(0, 1) for x in (q[q_start:q_stop], k[k_start:k_stop], v[k_start:k_stop])
        )
        keys, values = (x.repeat_interleave(len(rows) // len(x), 0) for x in (keys, values))
        assert rows.shape[1] <= call.longest[0]
        assert keys.shape[1] <= call.longest[1]
        scores = rows @ keys.transpose(1, 2) * scale
        scores = scores.masked_fill(~seen_in_window(*scores.shape[1:], call.window), -math.inf)
        outputs.append((scores.softmax(-1) @ values).transpose(0, 1))
        sums.append(scores.logsumexp(-1).transpose(0, 1))
    return torch.cat(outputs), torch.cat(sums).float()  # the kernel keeps it in float32


def truth(q, k, v, mask, scale):
    """The readable attention, and the log-sum-exp of its scores."""
    output, _ = scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=True, empty_rows="zero")
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).transpose(-2, -1) * scale
    if mask is not None:
        dense = mask.dense(q.shape[-2], k.shape[-2])
        scores = scores.masked_fill(~dense, -math.inf) if dense.dtype == torch.bool else scores + dense
    return output, scores.logsumexp(-1)


# Segments


def dense_of(groups, batch, q_len, k_len):
    dense = torch.zeros(batch, q_len, k_len, dtype=torch.bool)
    for window, members in groups.items():
        assert members == sorted(members), "in the order of their queries"
        for sample, q_start, q_stop, k_start, k_stop in members:
            place = dense[sample, q_start:q_stop, k_start:k_stop]
            assert not dense[sample, q_start:q_stop].any(), "no query stands in two segments"
            place[:] = seen_in_window(q_stop - q_start, k_stop - k_start, window)
            assert place.any(-1).all(), "no segment holds a query without keys"
    return dense


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_segments_show_what_the_mask_shows(mask):
    spans = spans_of(mask, 9, 9)
    groups = None if spans is None else segments_of(spans, 2)
    if groups is not None:
        assert torch.equal(dense_of(groups, 2, 9, 9), mask.dense(9, 9).expand(2, 1, 9, 9)[:, 0])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
@settings(max_examples=300, deadline=None)
def test_any_intervals_are_cut_right_or_not_at_all(intervals):
    ends = torch.tensor([(min(pair), max(pair)) if pair[0] != pair[1] else (5, 5) for pair in intervals])
    spans = Spans(ends[:, 0][None, None], ends[:, 1][None, None], 5)
    groups = segments_of(spans, 1)
    if groups is not None:
        dense = (torch.arange(5) >= ends[:, :1]) & (torch.arange(5) < ends[:, 1:])
        assert torch.equal(dense_of(groups, 1, len(ends), 5)[0], dense)


@pytest.mark.parametrize(
    ("mask", "windows"),
    [
        (causal(), [(-1, 0)]),
        (padding([3, 9]), [(-1, -1)]),
        (documents(IDS) & causal(), [(-1, 0)]),
        (documents(IDS), [(-1, -1)]),
        (sliding_window(3), [(2, 0)]),
        (causal() & padding([3, 9]), [(-1, 0), (-1, -1)]),
        (sliding_window(2, "each side"), [(4, 0), (2, -1)]),
        (prefix_lm([2, 5]), [(-1, -1), (-1, 0)]),
    ],
    ids=repr,
)
def test_common_masks_need_few_windows(mask, windows):
    assert sorted(segments_of(spans_of(mask, 9, 9), 2)) == sorted(windows)


def test_a_long_document_is_one_segment_also_under_a_window():
    (found,) = segments_of(spans_of(sliding_window(16) & packed([0, 100, 256]), 256, 256), 1).values()
    assert [segment[1:] for segment in found] == [(0, 100, 0, 100), (100, 256, 100, 256)]


def test_two_intervals_a_query_are_no_segments():
    assert segments_of(spans_of(~sliding_window(2, "each side"), 9, 9), 1) is None


@pytest.mark.parametrize("widths", [(2, 3, 4), (2, 3, 4, 5)])
def test_three_windows_are_the_most(widths):
    ends = torch.tensor([(row, row + width) for width in widths for row in range(3)])
    groups = segments_of(Spans(ends[:, 0][None, None], ends[:, 1][None, None], 9), 1)
    assert groups is None if len(widths) > 3 else list(groups) == [(1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize("mask", MASKS, ids=repr)
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_calls_of_varlen_put_together_are_the_readable_attention(mask, kv_heads, monkeypatch):
    monkeypatch.setattr(cuda, "_one_call", written_out_varlen)
    q, k, v = attention_inputs(kv_heads=kv_heads)
    calls = packed_of(mask, q.half(), k.half(), v.half())
    if calls is None:
        pytest.skip("this mask goes another way: its intervals are not a few windows")
    output, lse = by_varlen(q, k, v, calls, 0.3)
    expected, expected_lse = truth(q, k, v, mask, 0.3)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-6, atol=1e-6)


def test_varlen_is_given_what_its_page_asks_for(monkeypatch):
    seen = {}

    def recorded(*tensors, **options):
        seen.update(tensors=tensors, options=options)
        return tensors[0], torch.zeros(tensors[0].shape[1], tensors[0].shape[0])

    monkeypatch.setattr(cuda, "_varlen_attn", lambda: recorded)
    varlen = SimpleNamespace(AuxRequest=lambda lse: lse)
    monkeypatch.setattr(cuda, "import_module", {"torch.nn.attention.varlen": varlen}.get)
    q, k, v = (x.half() for x in attention_inputs())
    output, lse = by_varlen(q, k, v, packed_of(documents(IDS) & causal(), q, k, v), 0.3)
    rows, keys, _, q_bounds, k_bounds, longest_q, longest_k = seen["tensors"]
    assert (rows.shape, keys.shape) == ((18, 4, 8), (18, 2, 8))
    assert q_bounds.dtype == k_bounds.dtype == torch.int32
    assert q_bounds.tolist() == [0, 3, 5, 9, 15, 17, 18]
    assert (longest_q, longest_k, seen["options"]["window_size"]) == (6, 6, (-1, 0))
    assert seen["options"]["enable_gqa"]
    assert torch.equal(output, q)
    assert lse.shape == (2, 4, 9)


def test_gradients_flow_through_gathered_rows(monkeypatch):
    monkeypatch.setattr(cuda, "_one_call", written_out_varlen)
    mask = sliding_window(3) & padding([3, 8])
    q, k, v = (x.requires_grad_() for x in attention_inputs())
    calls = packed_of(mask, q.half(), k.half(), v.half())
    assert len(calls) > 1
    ours = torch.autograd.grad(by_varlen(q, k, v, calls, 0.3)[0].sum(), (q, k, v))
    expected = torch.autograd.grad(truth(q, k, v, mask, 0.3)[0].sum(), (q, k, v))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("dtype", "width", "mask"),
    [
        (torch.float32, 8, causal()),
        (torch.float16, 12, causal()),
        (torch.float16, 264, causal()),
        (torch.float16, 8, alibi(4)),
        (torch.float16, 8, torch.ones(1, 1, 9, 9, dtype=torch.bool)),
        (torch.float16, 8, None),
        (torch.float16, 8, dilated(2, 3)),
    ],
    ids=str,
)
def test_what_the_flash_kernel_does_not_take_is_not_sent_to_varlen(dtype, width, mask):
    q = torch.zeros(2, 4, 9, width, dtype=dtype)
    assert packed_of(mask, q, q, q) is None


@pytest.mark.parametrize(
    ("varlen_attn", "taken"),
    [
        (lambda query, key, value, *, scale=None, window_size=(-1, -1), enable_gqa=False: None, True),
        (lambda query, key, value, is_causal=False, return_aux=None: None, False),  # torch 2.10
        (None, False),
    ],
    ids=["with windows", "without windows", "missing"],
)
def test_only_a_varlen_attn_with_windows_and_groups_is_used(varlen_attn, taken, monkeypatch):
    def imported(name):
        if varlen_attn is None:
            raise ImportError(name)
        return SimpleNamespace(varlen_attn=varlen_attn)

    monkeypatch.setattr(cuda, "import_module", imported)
    assert (FIND_VARLEN() is not None) == taken


# FlexAttention


@pytest.mark.parametrize("mask", [*MASKS, Mask.from_tensor(IDS[:, None, :, None] > 3), None], ids=repr)
def test_the_predicate_for_one_entry_is_the_entry_of_the_mask(mask):
    dense = (torch.ones(1, 1, 9, 9).bool() if mask is None else mask.dense(9, 9)).expand(2, 3, 9, 9)
    mod = mask_mod_of(mask, 9, 9)
    for places in (
        (None, None, None, 0),
        (None, None, 0, None),
        (None, 0, None, None),
        (0, None, None, None),
    ):
        mod = torch.vmap(mod, in_dims=places)  # as create_block_mask does
    assert torch.equal(mod(*map(torch.arange, dense.shape)), dense)


@pytest.mark.parametrize("mask", [*MASKS, None, IDS[:, None, :, None] > IDS[:, None, None] - 1], ids=str)
@pytest.mark.parametrize("block", [2, 3, 4])
def test_the_blocks_are_those_of_pytorch(mask, block, monkeypatch):
    from torch.nn.attention.flex_attention import create_block_mask

    monkeypatch.setattr(flex, "_BLOCK", block)
    ours = block_mask_of(mask, 9, 9, device="cpu")
    theirs = create_block_mask(mask_mod_of(mask, 9, 9), 2, 1, 9, 9, device="cpu", BLOCK_SIZE=block)
    for name in ("kv_num_blocks", "full_kv_num_blocks", "q_num_blocks", "full_q_num_blocks"):
        assert torch.equal(getattr(ours, name).expand_as(getattr(theirs, name)), getattr(theirs, name)), name
    assert torch.equal(ours.to_dense().expand_as(theirs.to_dense()), theirs.to_dense())
    assert ours.shape[-2:] == theirs.shape[-2:]


@pytest.mark.parametrize(
    "mask",
    [
        None,
        causal(),
        documents(IDS) & causal(),
        causal() & padding([3, 9]),
        dilated(2, 3),
        alibi(4) & causal(),
        alibi(4),
    ],
    ids=repr,
)
def test_flex_attention_is_the_readable_attention(mask):
    q, k, v = (x.float() for x in attention_inputs())
    output, lse = flex_attention_of(q, k, v, mask, 0.3)
    expected, expected_lse = truth(q, k, v, mask, 0.3)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(lse, expected_lse, rtol=0, atol=1e-5)


def test_a_bias_is_added_to_the_score_of_its_head():
    bias = alibi(3, "bottom-right")
    add = score_mod_of(bias, 2, 4)
    dense = bias.dense(2, 4)
    for head, i, j in ((0, 0, 0), (1, 1, 0), (2, 0, 3)):
        at = [torch.tensor(n) for n in (0, head, i, j)]
        assert add(torch.tensor(10.0), *at) == 10 + dense[0, head, i, j]


def test_each_mask_has_compiled_code_of_its_own():
    first, second = causal(), causal("bottom-right")
    runs = [flex._compiled(mask.number) for mask in (first, second, first)]
    codes = [id(run._torchdynamo_orig_callable.__code__) for run in runs]
    assert codes[0] == codes[2] != codes[1]


def test_a_mask_is_prepared_once_and_a_tensor_each_time():
    flex._prepared.cache_clear()
    q, k, v = (x.float() for x in attention_inputs())
    mask = causal()
    for _ in range(2):
        flex_attention_of(q, k, v, mask, 0.3)
    assert (flex._prepared.cache_info().hits, flex._prepared.cache_info().misses) == (1, 1)
    flex_attention_of(q, k, v, mask.dense(9, 9), 0.3)
    assert flex._prepared.cache_info().misses == 1


def test_what_is_no_mask_has_no_predicate():
    with pytest.raises(SoftlookupError, match="no mask"):
        mask_mod_of("causal", 3, 3)


# The choice


@pytest.mark.parametrize(
    "mask", [None, causal(), causal("bottom-right"), sliding_window(3), alibi(4)], ids=repr
)
@pytest.mark.parametrize("with_lse", [False, True])
@pytest.mark.parametrize("q_len", [9, 5])
def test_whatever_way_is_taken_the_answer_is_the_same(mask, with_lse, q_len, monkeypatch):
    monkeypatch.setattr(cuda, "by_flag", without_cuda_operators)
    q, k, v = (x.float() for x in attention_inputs(q_len=q_len))
    output, lse = attend_on_cuda(q, k, v, mask, 0.3, with_lse=with_lse)
    expected, expected_lse = truth(q, k, v, mask, 0.3)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-5)
    if with_lse:
        torch.testing.assert_close(lse, expected_lse, rtol=0, atol=1e-5)


def without_cuda_operators(*tensors, with_lse, **options):
    """The operators that tell the log-sum-exp exist on CUDA only: here FlexAttention tells it."""
    return None if with_lse else by_flag(*tensors, with_lse=False, **options)


def test_causal_goes_by_the_flag_only_where_its_corner_is_the_flags():
    assert cuda.plain(causal(), 3, 5)
    assert cuda.plain(causal("bottom-right"), 5, 5)
    assert not cuda.plain(causal("bottom-right"), 3, 5)
    assert not cuda.plain(sliding_window(3), 5, 5)


def test_bounds_and_places_count_across_samples():
    q = torch.zeros(2, 1, 3, 8, dtype=torch.float16)
    (call,) = packed_of(padding([2, 3]), q, q, q)
    assert isinstance(call, Packed)
    assert call.rows is None
    assert call.keys.tolist() == [0, 1, 3, 4, 5]
    assert (call.q_bounds.tolist(), call.k_bounds.tolist(), call.longest) == ([0, 3, 6], [0, 2, 5], (3, 3))


def test_importing_needs_neither_varlen_nor_flex_attention():
    code = (
        "import sys, torch\n"
        "for name in ('varlen', 'flex_attention'): sys.modules[f'torch.nn.attention.{name}'] = None\n"
        "from softlookup.fused.cuda import packed_of\n"
        "from softlookup.masks import causal\n"
        "q = torch.zeros(1, 1, 3, 8).half()\n"
        "print(packed_of(causal(), q, q, q))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout == "None\n", done.stderr


@pytest.mark.parametrize("module", [segments, flex, cuda], ids=lambda module: module.__name__)
def test_the_examples_run(module):
    assert doctest.testmod(module, extraglobs={"torch": torch}).failed == 0
