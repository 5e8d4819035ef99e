"""The line of a finding: what flows into the recorded calls, and what plain Python decides."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from softlookup.checker.call_steps import CALLS, step_lines
from softlookup.checker.calls import Call
from softlookup.checker.dataflow import Dataflow
from softlookup.checker.evidence import Observation
from softlookup.checker.locate import line_of
from softlookup.checker.target import LocalTarget
from softlookup.terms import Case

Q, K, V = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5), torch.randn(2, 3, 6, 7)
MASK = torch.ones(2, 1, 4, 6, dtype=torch.bool)
ROLES = {
    "q": "q",
    "k": "k",
    "v": "v",
    "mask": "mask",
    "causal": "causal",
    "window": "window",
    "scale": "scale",
}


@pytest.fixture
def locate(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a target, runs it and gives the text of the line found for some steps."""

    def text_of_line(body: str, *steps: str, above: str = "", probe: str = "masked", **given: object) -> str:
        target, seen, text = _run(tmp_path, body, above, probe, given)
        line = line_of(steps, seen, target.sketch, ROLES)
        assert line is not None
        return text.splitlines()[line - 1].strip()

    return text_of_line


@pytest.fixture
def flow_of(tmp_path: Path) -> Callable[..., Dataflow]:
    """Return a function that runs a target and follows its data."""
    return lambda body, **given: Dataflow(_run(tmp_path, body, "", "masked", given)[1])


def _run(
    folder: Path, body: str, above: str, probe: str, given: dict[str, object]
) -> tuple[LocalTarget, Observation, str]:
    header = "def attend(q, k, v, mask=None, causal=False, window=None, scale=None):\n"
    parts = [
        "import torch\n",
        textwrap.dedent(above),
        header + textwrap.indent(textwrap.dedent(body), "    "),
    ]
    text = "\n\n".join(parts)
    path = folder / "target.py"
    path.write_text(text)
    space: dict[str, object] = {}
    exec(compile(text, str(path), "exec"), space)
    attend: Any = space["attend"]
    target = LocalTarget(attend, "attend")
    answer = target.perform([Call(args=(Q, K, V), kwargs=given, record=True)])[0]
    assert answer.failure is None, answer.failure
    names: dict[int | str, str] = {0: "q", 1: "k", 2: "v"}
    serials = {serial: names.get(key, str(key)) for key, serial in answer.arguments.items()}
    seen = Observation(probe, Case(Q, K, V), answer.result, recorded=answer.recorded, serials=serials)
    return target, seen, text


PLAIN = """
    scores = q @ k.mT
    scores = scores / 2.0
    scores = scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(-1)
    return weights @ v
"""


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ("score", "scores = q @ k.mT"),
        ("scale", "scores = scores / 2.0"),
        ("hide", "scores = scores.masked_fill(~mask, -1e9)"),
        ("normalize", "weights = scores.softmax(-1)"),
        ("mix", "return weights @ v"),
    ],
)
def test_each_step_of_plain_attention_is_found(locate: Callable[..., str], step: str, line: str) -> None:
    assert locate(PLAIN, step, mask=MASK) == line


BY_HAND = """
    allowed = mask[:, :1].bool() * torch.ones(4, 6)
    k = k.repeat(1, 1, 1, 1)
    q = q.as_strided(q.shape, q.stride())
    bias = -torch.ones(4, 6)
    scores = q @ k.mT
    scores.add_(bias)
    scores[..., :1] = 0.0
    scores = scores * allowed
    powers = torch.exp(scores)
    total = powers.sum(-1, keepdim=True)
    total = total + 1
    weights = powers / total
    weights = weights.nan_to_num(0.0)
    weights = weights * 2.0
    weights = torch.dropout(weights, 0.1, True)
    weights = weights.softmax(-1)
    return weights @ v
"""


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ("turn", "allowed = mask[:, :1].bool() * torch.ones(4, 6)"),
        ("spread", "allowed = mask[:, :1].bool() * torch.ones(4, 6)"),
        ("join", "allowed = mask[:, :1].bool() * torch.ones(4, 6)"),
        ("repeat_kv_heads", "k = k.repeat(1, 1, 1, 1)"),
        ("restride", "q = q.as_strided(q.shape, q.stride())"),
        ("signed", "bias = -torch.ones(4, 6)"),
        ("hide", "scores.add_(bias)"),
        ("fill", "scores[..., :1] = 0.0"),
        ("bare exp", "powers = torch.exp(scores)"),
        ("exp", "powers = torch.exp(scores)"),
        ("sum", "total = powers.sum(-1, keepdim=True)"),
        ("last denominator", "total = total + 1"),
        ("last divide", "weights = powers / total"),
        ("settle", "weights = weights.nan_to_num(0.0)"),
        ("rescale", "weights = weights * 2.0"),
        ("drop", "weights = torch.dropout(weights, 0.1, True)"),
        ("softmax again", "weights = weights.softmax(-1)"),
    ],
)
def test_each_step_of_a_lookup_written_by_hand_is_found(
    locate: Callable[..., str], step: str, line: str
) -> None:
    assert locate(BY_HAND, step, mask=MASK) == line


def test_scores_divided_by_their_own_sum_take_the_place_of_a_softmax(locate: Callable[..., str]) -> None:
    body = "scores = q @ k.mT\nshares = scores / scores.sum(-1, keepdim=True)\nreturn shares @ v"
    assert locate(body, "share", "mix") == "shares = scores / scores.sum(-1, keepdim=True)"


def test_an_argument_changed_in_place_is_found(locate: Callable[..., str]) -> None:
    body = "mask.logical_not_()\nreturn (q @ k.mT).masked_fill(mask, -1e9).softmax(-1) @ v"
    assert locate(body, "inplace", "hide", mask=MASK.clone()) == "mask.logical_not_()"


def test_a_step_that_was_left_out_points_at_where_it_is_missing(locate: Callable[..., str]) -> None:
    assert (
        locate("weights = (q @ k.mT).softmax(-1)\nreturn weights @ v", "scale")
        == "weights = (q @ k.mT).softmax(-1)"
    )


def test_keys_that_stand_for_values_are_mixed(locate: Callable[..., str]) -> None:
    assert locate("weights = (q @ k.mT).softmax(-1)\nreturn weights @ k", "mix") == "return weights @ k"


def test_a_tensor_with_only_the_shape_of_q_is_about_masks(flow_of: Callable[..., Dataflow]) -> None:
    flow = flow_of("hidden = torch.zeros_like(q[..., :1])\nreturn (q @ k.mT + hidden).softmax(-1) @ v")
    assert [call.about_masks for call in flow.flows if call.op == "zeros_like"] == [True]


def test_scores_stay_scores_in_the_second_turn_of_a_loop(flow_of: Callable[..., Dataflow]) -> None:
    body = """
        out = []
        for b in range(2):
            scores = q[b] @ k[b].mT
            scores = scores.masked_fill(mask[b], -1.0)
            out.append(scores.softmax(-1) @ v[b])
        return torch.stack(out)
    """
    lines = step_lines(flow_of(body, mask=~MASK))
    assert len(lines["score"]) == len(lines["hide"]) == len(lines["mix"]) == 2


def test_what_led_to_a_call_comes_latest_first(flow_of: Callable[..., Dataflow]) -> None:
    flow = flow_of(PLAIN, mask=MASK)
    mix = next(call for call in flow.flows if CALLS["mix"](call))
    assert [call.op for call in flow.behind(mix)][:3] == ["softmax", "masked_fill", "bitwise_not"]


def test_a_result_that_is_thrown_away_is_found(locate: Callable[..., str]) -> None:
    body = PLAIN.replace("scores = scores.masked_fill", "scores.masked_fill")
    assert locate(body, "dropped", "hide", mask=MASK) == "scores.masked_fill(~mask, -1e9)"


def test_a_change_in_place_is_not_thrown_away(locate: Callable[..., str]) -> None:
    body = PLAIN.replace("scores = scores.masked_fill(~mask, -1e9)", "scores.masked_fill_(~mask, -1e9)")
    assert locate(body, "dropped", "normalize", mask=MASK) == "weights = scores.softmax(-1)"


def test_a_mask_that_is_forgotten_is_found_where_its_name_is_given_anew(locate: Callable[..., str]) -> None:
    body = """
        allowed = torch.ones(4, 6).bool()
        allowed = allowed.tril()
        allowed = mask.expand(2, 3, 4, 6)
        return (q @ k.mT).masked_fill(~allowed, -1e9).softmax(-1) @ v
    """
    assert locate(body, "overwritten", mask=MASK) == "allowed = mask.expand(2, 3, 4, 6)"


@pytest.mark.parametrize("test", ["if causal and mask is None:", "elif causal:"])
def test_a_test_that_asks_about_the_mask_and_the_causal_rule_is_found(
    locate: Callable[..., str], test: str
) -> None:
    before = (
        ""
        if test.startswith("if")
        else "if mask is not None:\n    scores = scores.masked_fill(~mask, -1e9)\n"
    )
    body = f"scores = q @ k.mT\n{before}{test}\n    scores = scores.tril()\nreturn scores.softmax(-1) @ v"
    assert locate(body, "both asked", "hide", mask=MASK) == test


def test_the_rule_in_a_function_of_the_same_file_is_found_there(locate: Callable[..., str]) -> None:
    above = (
        "def later(T_q, T_k):\n    i, j = torch.arange(T_q)[:, None], torch.arange(T_k)\n    return j > i\n"
    )
    assert (
        locate("return (q @ k.mT).masked_fill(later(4, 6), -1e9).softmax(-1) @ v", "visible", above=above)
        == "return j > i"
    )


def test_a_rule_that_is_always_let_in_is_found_at_its_test(locate: Callable[..., str]) -> None:
    body = "s = q @ k.mT\nif True:\n    s = s + torch.ones(4, 6).triu(1)\nreturn s.softmax(-1) @ v"
    assert locate(body, "unwanted") == "if True:"


def test_of_two_comparisons_the_one_with_the_window_is_found(locate: Callable[..., str]) -> None:
    body = """
        i, j = torch.arange(4)[:, None], torch.arange(6)
        past = j <= i
        near = j > i - window
        return (q @ k.mT).masked_fill(~(past & near), -1e9).softmax(-1) @ v
    """
    assert locate(body, "window", window=2) == "near = j > i - window"


def test_a_comparison_with_what_is_worked_out_from_the_window_is_found(locate: Callable[..., str]) -> None:
    body = """
        i, j = torch.arange(4)[:, None], torch.arange(6)
        first = i - window
        past = j <= i
        near = j > first
        return (q @ k.mT).masked_fill(~(past & near), -1e9).softmax(-1) @ v
    """
    assert locate(body, "window", window=2) == "near = j > first"


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ("scale = 0.5", "scale = 0.5"),
        ("if scale is None:\n    scale = 0.5", "scores = q @ k.mT * scale"),
        ("scale = scale or 0.5", "scores = q @ k.mT * scale"),
    ],
)
def test_an_argument_is_given_anew_only_where_nothing_asks_about_it(
    locate: Callable[..., str], first: str, found: str
) -> None:
    body = f"{first}\nscores = q @ k.mT * scale\nreturn scores.softmax(-1) @ v"
    assert locate(body, "scale rebound", "scale", scale=0.1) == found


def test_keys_picked_by_indices_are_found_where_the_indices_were_made(locate: Callable[..., str]) -> None:
    body = "there = torch.arange(3)\nreturn (q @ k[:, :, there].mT).softmax(-1) @ v[:, :, there]"
    assert locate(body, "picked", "hide") == "there = torch.arange(3)"


def test_keys_picked_by_a_plain_number_are_found_where_the_number_was_worked_out(
    locate: Callable[..., str],
) -> None:
    body = "last = 4 - 1\nreturn (q @ k[:, :, :last].mT).softmax(-1) @ v[:, :, :last]"
    assert locate(body, "visible") == "last = 4 - 1"


@pytest.mark.parametrize("rounded", ["for i in range(4 // 3):", "for i in range(0, 4 - 4 % 3, 3):"])
def test_rounded_bounds_of_a_loop_are_found(locate: Callable[..., str], rounded: str) -> None:
    body = f"out = torch.zeros(2, 3, 4, 7)\n{rounded}\n    out = out + (q @ k.mT).softmax(-1) @ v\nreturn out"
    assert locate(body, "blocks", "score") == rounded


def test_a_gradient_is_cut_where_it_is_needed_and_not_at_the_maximum(locate: Callable[..., str]) -> None:
    body = """
        scores = q @ k.mT
        top = scores.detach().amax(-1, keepdim=True)
        powers = (scores - top).exp()
        total = powers.sum(-1, keepdim=True).detach()
        return powers / total @ v
    """
    assert locate(body, "cut", "score").startswith("total =")


def test_a_backward_written_by_hand_is_found_where_the_gradients_of_q_and_k_part(
    locate: Callable[..., str],
) -> None:
    above = """
        class Lookup(torch.autograd.Function):
            @staticmethod
            def forward(ctx, q, k, v):
                return (q @ k.mT).softmax(-1) @ v

            @staticmethod
            def backward(ctx, grad):
                q, k, v, weights = ctx.saved_tensors
                grad_scores = weights * (grad @ v.mT)
                grad_q = grad_scores @ k
                grad_k = grad_scores.mT @ q
                return grad_q, grad_k, weights.mT @ grad
    """
    assert (
        locate("return Lookup.apply(q, k, v)", "cut", above=above) == "grad_scores = weights * (grad @ v.mT)"
    )


def test_the_mean_over_heads_and_the_mean_over_samples_are_told_apart(locate: Callable[..., str]) -> None:
    body = """
        scores = q @ k.mT
        scores = scores - scores.mean(0)
        weights = scores.softmax(-1)
        return weights @ v, weights.mean(1)
    """
    assert locate(body, "over samples", "score") == "scores = scores - scores.mean(0)"
    assert locate(body, "average", "normalize") == "return weights @ v, weights.mean(1)"


def test_a_sum_that_is_rounded_after_every_term_is_found(locate: Callable[..., str]) -> None:
    body = """
        powers = (q @ k.mT).exp()
        total = 0 * powers[..., :1]
        for j in range(6):
            total = total + powers[..., j : j + 1]
        return powers / total @ v
    """
    assert locate(body, "running sum", "normalize") == "total = total + powers[..., j : j + 1]"


def test_a_step_of_which_only_the_name_is_left_is_found(locate: Callable[..., str]) -> None:
    assert (
        locate("scores = q @ k.mT\nweights = scores\nreturn weights @ v", "alias", "mix")
        == "weights = scores"
    )


def test_two_paths_part_at_the_test_of_their_switch(locate: Callable[..., str]) -> None:
    body = "scores = q @ k.mT\nif causal:\n    scores = scores * 1.0\nreturn scores.softmax(-1) @ v"
    assert locate(body, "parting", "score", probe="path-plain-causal") == "if causal:"
    assert locate(body, "parting", "score", probe="plain") == "scores = q @ k.mT"


def test_q_k_and_v_in_one_tensor_are_told_apart_by_their_products(tmp_path: Path) -> None:
    packed = torch.randn(2, 4, 15)

    def attend(qkv: Tensor) -> Tensor:
        q, k, v = qkv.chunk(3, dim=-1)
        return (q @ k.mT).softmax(-1) @ v

    answer = LocalTarget(attend, "attend").perform([Call(args=(packed,), record=True)])[0]
    seen = Observation(
        "plain",
        Case(Q, K, V),
        recorded=answer.recorded,
        serials=dict.fromkeys(answer.arguments.values(), "qkv"),
    )
    assert [call.starts for call in Dataflow(seen).flows if call.op == "matmul"] == ["scores", ""]


def test_without_a_file_the_text_of_the_target_itself_is_read(tmp_path: Path) -> None:
    target, seen, text = _run(
        tmp_path, PLAIN.replace("scores = scores.masked", "scores.masked"), "", "masked", {"mask": MASK}
    )
    sketch = target.sketch
    Path(sketch.file).unlink()
    line = line_of(("dropped",), seen, sketch, ROLES)
    assert line is not None
    assert text.splitlines()[line - 1].strip() == "scores.masked_fill(~mask, -1e9)"
