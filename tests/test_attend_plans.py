"""The plans of attend: every visible pair once, no hidden one, few pieces; and what explain says of them."""

import copy
import json
import pickle

import pytest
import torch
from hypothesis import given, settings
from test_attend import MASKS, SIZES, assert_same_answers, dense, qkv, trees_and_lengths

from softlookup.fused import attend, attend_with_lse, attending, explain_path
from softlookup.fused.paths import PATHS
from softlookup.fused.pieces import Piece, Plan
from softlookup.fused.planning import plan_of_mask, plan_of_tensor
from softlookup.fused.running import run
from softlookup.fused.tiles import TensorTiles
from softlookup.masks import (
    alibi,
    causal,
    chunked,
    dilated,
    documents,
    padding,
    prefix_lm,
    sliding_window,
)
from softlookup.masks.numbered import with_number

B, H = SIZES[:2]


def sized(q_len, k_len, batch=B, heads=H):
    """Return q and k of these sizes that take no memory."""
    return [torch.zeros(1).expand(batch, heads, T, 8) for T in (q_len, k_len)]


def plan_of(mask, q_len, k_len, **sizes):
    if isinstance(mask, torch.Tensor):
        return plan_of_tensor(mask[(None,) * (4 - mask.dim())], *sized(q_len, k_len, **sizes))
    return plan_of_mask(mask, *sized(q_len, k_len, **sizes), empty_rows_allowed=True)


# What a plan covers


def shown_by(plan, batch=B, heads=H):
    """Return how often each pair is shown, and how often it is computed: int [batch, heads, T_q, T_k]."""
    shown = torch.zeros(batch, heads, plan.q_len, plan.k_len, dtype=torch.int64)
    computed = torch.zeros_like(shown)
    for piece in plan.pieces:
        seen = torch.ones(1, 1, piece.q_len, piece.k_len, dtype=torch.bool)
        if piece.shape == "tile":
            seen = plan.tiles.tile(piece, torch.zeros(1)) != -torch.inf
        cost = {"triangle": seen.tril(), "mirrored": seen.triu()}.get(piece.shape, torch.ones_like(seen))
        seen = seen & cost
        samples = list(range(batch) if piece.samples is None else piece.samples)
        for n in range(piece.count):
            start = piece.q_start + n * piece.q_step
            keys = torch.cat([torch.arange(*run) + n * piece.k_step for run in piece.runs])
            assert 0 <= start <= plan.q_len - piece.q_len
            assert 0 <= keys.min() <= keys.max() < plan.k_len
            rows = torch.arange(start, start + piece.q_len)[:, None]
            at = (torch.tensor(samples)[:, None, None], rows, keys)
            for total, part in ((shown, seen), (computed, cost)):
                total.movedim(1, -1)[at] += part.long().expand(len(samples), heads, -1, -1).movedim(1, -1)
    return shown, computed


def assert_covers(mask, q_len, k_len, batch=B, heads=H):
    """Hold a plan against the dense mask, and against what it says of itself."""
    plan = plan_of(mask, q_len, k_len, batch=batch, heads=heads)
    allowed = mask if isinstance(mask, torch.Tensor) else mask.dense(q_len, k_len)
    allowed = (allowed if allowed.dtype == torch.bool else allowed != -torch.inf).expand(
        batch, heads, q_len, k_len
    )
    shown, computed = shown_by(plan, batch, heads)
    assert torch.equal(shown, allowed.long()), "every visible pair is shown once, no hidden one ever"
    assert (computed.sum(dim=(0, 2, 3)) == plan.logits(batch)).all()
    path = explain_path(mask, q_len=q_len, k_len=k_len, batch=batch, heads=heads)
    if path.name in ("pieces", "read tensor"):
        assert path.logits == plan.logits(batch)
    if (allowed == allowed[:, :1]).all():
        assert path.visible == int(allowed[:, 0].sum())
    assert path.possible == batch * q_len * k_len


@pytest.mark.parametrize("corner", ["top-left", "bottom-right"])
@pytest.mark.parametrize("name", MASKS)
def test_a_plan_shows_every_visible_pair_once_and_no_hidden_one(name, corner):
    more_queries = [] if name in ("documents", "packed") else [(300, 70)]
    for q_len, k_len in ((300, 300), (70, 300), *more_queries):
        for mask in MASKS[name](k_len, corner):
            assert_covers(mask, q_len, k_len)


@given(trees_and_lengths())
@settings(deadline=None, max_examples=100)
def test_a_plan_of_any_tree_shows_every_visible_pair_once(drawn):
    assert_covers(*drawn)


@pytest.mark.parametrize("kind", ["bool", "bool of few", "float", "float that hides"])
@pytest.mark.parametrize("shape", [(140, 150), (2, 1, 140, 150), (2, H, 140, 150), (2, 1, 1, 150), (140, 1)])
def test_a_plan_of_a_tensor_shows_every_visible_pair_once(kind, shape):
    mask = dense(shape, kind)
    assert_covers(mask[(None,) * (4 - mask.dim())], *SIZES[2:])


def test_wide_bands_are_covered_too():
    for mask in (sliding_window(1100), ~sliding_window(1100), sliding_window(1024, corner="bottom-right")):
        assert_covers(mask, 1700, 1800, batch=1, heads=1)


# What a plan is made of

EQUAL = torch.arange(4096)[None] // 512


@pytest.mark.parametrize(
    ("mask", "pieces", "share"),
    [
        # the beginning as one or two cuts, the even rest in one call (three where a wide band is cut)
        (sliding_window(256), 4, 1.6),
        (sliding_window(1024), 12, 1.3),
        # each document a call, or all in a few
        (documents(EQUAL), 1, 1.0),
        (documents(EQUAL) & causal(), 3, 1.01),
        (chunked(64), 1, 1.01),
        (chunked(512, "own and earlier chunks"), 8, 1.0),
        # one call a sample
        (padding([1000, 4096]), 2, 1.0),
        (causal("bottom-right"), 40, 1.2),
        (prefix_lm(512), 40, 1.2),
    ],
    ids=repr,
)
def test_usual_masks_need_few_calls_and_compute_little_that_is_hidden(mask, pieces, share):
    plan = plan_of(mask, 4096, 4096)
    path = explain_path(mask, q_len=4096, k_len=4096, batch=B, heads=H)
    assert len(plan.pieces) <= pieces
    assert path.logits <= share * path.visible


def some_piece(test):
    return lambda plan: any(map(test, plan.pieces))


#: What a plan may be made of, a mask that needs it, and a length.
KINDS = {
    "merged": (lambda plan: any(plan.seen_before), prefix_lm(400), 900),
    "folded": (some_piece(lambda piece: piece.count > 1), chunked(64), 200),
    "folded tiles": (
        some_piece(lambda piece: piece.count > 1 and piece.shape == "tile"),
        sliding_window(9),
        300,
    ),
    "samples that differ": (some_piece(lambda piece: piece.samples), causal() & padding([70, 400]), 400),
    "samples that lie apart": (
        some_piece(lambda piece: piece.samples == (0, 2)),
        padding([150, 400, 150]) & causal(),
        400,
    ),
    "samples together": (
        lambda plan: not some_piece(lambda piece: piece.samples)(plan),
        padding([20, 30, 25]) & sliding_window(3),
        40,
    ),
    "mirrored": (some_piece(lambda piece: piece.shape == "mirrored"), ~causal(), 300),
    "several runs": (some_piece(lambda piece: len(piece.runs) > 1), sliding_window(3) | padding(4), 300),
    "empty rows": (lambda plan: not plan.covers(1), ~causal() & padding(200), 300),
    "blocks": (lambda plan: "of its blocks of 128" in plan.reason, dilated(9, 3), 300),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_piece_gives_the_answers_and_gradients(kind):
    is_so, mask, T = KINDS[kind]
    batch = mask.sizes["B"] or 1
    assert is_so(plan_of(mask, T, T, batch=batch))
    assert_same_answers(qkv(T, T, batch), mask)


def test_a_query_that_is_empty_in_two_merged_pieces_stays_empty():
    mask = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 1]]).bool()[None, None]
    pieces = (Piece(0, 3, ((0, 2),), "tile"), Piece(0, 3, ((2, 4),), "tile"))
    q, k, v = (torch.randn(1, 1, T, 8, dtype=torch.float64) for T in (3, 4, 4))
    output, lse = run(q, k, v, Plan(pieces, TensorTiles(mask), 3, 4, ""), 1.0)
    scores = (q @ k.mT).masked_fill(~mask, -torch.inf)
    torch.testing.assert_close(lse, scores.logsumexp(-1))
    torch.testing.assert_close(output, scores.softmax(-1).nan_to_num(0.0) @ v)


# Which plan is remembered


def test_a_plan_is_made_once_for_each_mask_and_size():
    mask, other = sliding_window(9), sliding_window(9)
    plan = plan_of(mask, 300, 300)
    assert plan_of(mask, 300, 300) is plan
    assert plan_of(mask, 300, 301) is not plan
    assert plan_of(mask, 300, 300, batch=3) is not plan
    assert plan_of(other, 300, 300) is not plan
    assert plan_of(sliding_window(8), 300, 300).pieces != plan.pieces


@pytest.mark.parametrize("mask", [causal(), padding([3, 5]) & ~causal(), alibi(2) & causal()], ids=repr)
@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda mask: pickle.loads(pickle.dumps(mask))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_of_a_mask_has_a_number_of_its_own(mask, again):
    twin = again(mask)
    assert twin == mask
    assert twin.number != mask.number
    assert with_number(twin.number) is twin
    assert with_number(mask.number) is mask


# Which way is taken


def ways_of(monkeypatch):
    """Note each way that is chosen."""
    taken, choose = [], attending.choose

    def noting(problem):
        taken.append(choose(problem)[0])
        return choose(problem)

    monkeypatch.setattr(attending, "choose", noting)
    return taken


def test_every_way_of_the_table_is_taken(monkeypatch):
    taken = ways_of(monkeypatch)
    q = torch.randn(2, 4, 20, 8)
    learned = torch.zeros(20, 20, requires_grad=True)
    more = torch.randn(2, 4, 24, 8)  # where q, k and v are alike, a glance is enough
    attend(q, more, more)
    attend(q, more, more, causal())
    for mask in (sliding_window(3), dense((20, 20), "bool"), learned):
        attend(q, q, q, mask, empty_rows="zero")
    attend(q, q, q, dropout_p=0.1)
    attend(q, q[:, :, :0], q[:, :, :0], empty_rows="zero")
    attend(q[:, :, :0], q, q)
    attend(*[q.to("meta")] * 3, sliding_window(3), empty_rows="zero")
    torch.vmap(lambda mask: attend(q, q, q, mask))(torch.ones(3, 20, 20, dtype=torch.bool))
    reachable = [way for way in PATHS if way.name != "CUDA"]  # test_cuda_paths.py
    assert {id(way) for way in taken} == {id(way) for way in reachable}


@pytest.mark.parametrize(
    ("mask", "name", "words"),
    [
        (None, "one call", "no mask"),
        (causal(), "causal flag", "is_causal"),
        (causal("bottom-right"), "causal flag", "both corners are one"),
        (sliding_window(9), "pieces", "few runs of keys"),
        (dilated(3, 2), "pieces", "of its blocks of 128"),
        (alibi(H), "pieces", "of its blocks of 128"),
        (causal().dense(300, 300), "read tensor", "few runs of keys"),
        (torch.rand(300, 300) < 0.5, "whole mask", "a mask tensor"),
        (torch.zeros(300, 300, requires_grad=True), "whole mask", "needs a gradient"),
    ],
    ids=lambda value: "",
)
def test_explain_names_the_way_and_says_why(mask, name, words):
    q, k, v = (torch.randn(B, H, 300, 8) for _ in range(3))
    path = attend.explain(q, k, v, mask)
    assert path.name == name
    assert words in path.reason
    assert json.loads(json.dumps(path.as_dict()))["calls"] == list(path.calls)
    assert all(type(value) in (str, int, list) for value in path.as_dict().values())
    assert str(path).startswith(f"{name}: ")
    assert path == explain_path(mask, q_len=300, k_len=300, batch=B, heads=H, d_head=8)


def test_explain_counts_pairs_of_the_whole_batch():
    path = explain_path(causal() & padding([2, 4]), q_len=4, k_len=4, batch=2)
    assert (path.visible, path.possible) == ((1 + 2 + 2 + 2) + (1 + 2 + 3 + 4), 32)
    assert explain_path(causal(), q_len=4, k_len=4, dropout_p=0.1).logits == 16
    assert "53.1%" in str(path)


def test_what_a_glance_tells_is_what_the_table_says(monkeypatch):
    taken = ways_of(monkeypatch)
    q, k, v = torch.randn(3, 2, 4, 20, 8)
    for mask in (None, causal(), causal("bottom-right")):
        at_a_glance = attend(q, k, v, mask)
        assert not taken
        by_the_table, _ = attend_with_lse(q, k, v, mask)
        assert torch.equal(at_a_glance, by_the_table)
        assert len(taken) == 1
        taken.clear()
