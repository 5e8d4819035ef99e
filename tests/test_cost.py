import doctest
import json
import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as torch_attention
from torch.utils.flop_counter import FlopCounterMode

import softlookup.cost
import softlookup.path_cost
import softlookup.sdpa_backends
from softlookup import MultiHeadAttention, SoftlookupError, scaled_dot_product_attention
from softlookup.cli import main
from softlookup.cost import Workload, attention_cost, cost_json, cost_report
from softlookup.fused import attend
from softlookup.masks import Mask
from softlookup.masks.expression import read_mask_expression
from softlookup.path_cost import mask_cost, mask_report
from softlookup.sdpa_backends import Properties, choose_backend, read_reasons

torch.set_num_threads(1)

SMALL = Workload(batch=2, heads=6, tokens=10, head_dim=4, dtype="float32", kv_heads=2)
LARGE = Workload(batch=8, heads=32, tokens=8192, head_dim=128, dtype="bfloat16")


def small_tensors(workload):
    dtype = getattr(torch, workload.dtype)
    q = torch.zeros(workload.batch, workload.heads, workload.tokens, workload.head_dim, dtype=dtype)
    k = torch.zeros(workload.batch, workload.shared_heads, workload.tokens, workload.head_dim, dtype=dtype)
    return q, k, k.clone()


# The numbers, against tensors that exist and operations that were counted


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_bytes_are_those_of_real_tensors(dtype):
    workload = replace(SMALL, dtype=dtype, mask=True)
    q, k, v = small_tensors(workload)
    output, weights = scaled_dot_product_attention(q, k, v, enable_gqa=True)
    cost = attention_cost(workload)
    assert cost.logits == weights.numel()
    assert cost.score_matrix_bytes == weights.nbytes
    assert (cost.q_bytes, cost.k_bytes, cost.v_bytes) == (q.nbytes, k.nbytes, v.nbytes)
    assert cost.output_bytes == output.nbytes
    assert cost.mask_bytes == torch.ones(10, 10, dtype=torch.bool).nbytes


def test_flops_are_those_that_torch_counts():
    cost = attention_cost(SMALL)
    with FlopCounterMode(display=False) as counted:
        scaled_dot_product_attention(*small_tensors(SMALL), enable_gqa=True)
    assert cost.score_flops + cost.mix_flops == counted.get_total_flops()
    layer = MultiHeadAttention(cost.d_model, 6, num_kv_heads=2)
    x = torch.zeros(2, 10, cost.d_model)
    with FlopCounterMode(display=False) as counted:
        layer(x)
    assert cost.projection_flops + cost.score_flops + cost.mix_flops == counted.get_total_flops()
    assert cost.projection_parameters == sum(parameter.numel() for parameter in layer.parameters())


def test_causal_logits_are_counted_one_by_one():
    cost = attention_cost(replace(SMALL, causal=True))
    assert cost.visible_logits == 2 * 6 * int(torch.ones(10, 10).tril().sum())
    assert attention_cost(SMALL).visible_logits == cost.logits


def test_the_large_layer_of_the_manual():
    cost = attention_cost(LARGE)
    assert cost.logits == 8 * 32 * 8192**2
    assert cost.score_matrix_bytes == 32 * 2**30
    assert cost.q_bytes == cost.v_bytes == 512 * 2**20
    assert cost.fused_row_bytes == 8 * 2**20
    assert cost.avoided_traffic_bytes == 128 * 2**30  # scores and weights, each written and read
    assert cost.projection_parameters == 4 * 4096**2


def test_doubling_the_tokens_quadruples_the_scores_and_doubles_the_projections():
    facts = cost_json(SMALL)
    now, then = facts["cost"], facts["doubled_tokens"]
    for name in ("logits", "score_matrix_bytes", "score_flops", "mix_flops"):
        assert then[name] == 4 * now[name]
    assert then["projection_flops"] == 2 * now["projection_flops"]
    assert then["projection_parameters"] == now["projection_parameters"]


def test_more_heads_of_the_same_d_model_add_no_parameters_and_no_flops():
    few = attention_cost(Workload(2, 8, 64, 64))
    many = attention_cost(Workload(2, 16, 64, 32))
    assert few.projection_parameters == many.projection_parameters == 4 * 512**2
    assert few.score_flops == many.score_flops
    assert 2 * few.logits == many.logits


def test_at_the_balance_the_scores_cost_what_the_projections_cost():
    cost = attention_cost(replace(LARGE, kv_heads=8))
    there = attention_cost(replace(LARGE, kv_heads=8, tokens=int(cost.balance_tokens)))
    assert there.score_flops + there.mix_flops == there.projection_flops


# The choice of a kernel, against what really runs


def ran(properties, *, mask=None):
    """Names of the kernels that a real call used."""
    q = torch.zeros(1, properties.heads, properties.tokens, properties.head_dim)
    k = torch.zeros(1, properties.kv_heads, properties.tokens, properties.head_dim)
    with torch.profiler.profile() as profile:
        grouped = properties.heads != properties.kv_heads
        torch_attention(q, k, k, mask, properties.dropout_p, properties.causal, enable_gqa=grouped)
    return {event.key.removeprefix("aten::_scaled_dot_product_") for event in profile.key_averages()}


PLAIN = Properties(heads=4, kv_heads=4, tokens=16, head_dim=8, dtype="float32")


@pytest.mark.parametrize(
    ("properties", "chosen", "kernel"),
    [
        (PLAIN, "flash", "flash_attention_for_cpu"),
        (replace(PLAIN, causal=True), "flash", "flash_attention_for_cpu"),
        (replace(PLAIN, kv_heads=2), "flash", "flash_attention_for_cpu"),
        (replace(PLAIN, dropout_p=0.1), "math", "attention_math"),
        (replace(PLAIN, dropout_p=0.1, kv_heads=2), "math", "attention_math"),
    ],
    ids=["plain", "causal", "grouped", "dropout", "dropout, grouped"],
)
def test_the_kernel_that_is_named_is_the_one_that_runs_on_the_cpu(properties, chosen, kernel):
    assert choose_backend(properties).chosen == chosen
    assert kernel in ran(properties)


def test_a_mask_keeps_flash_on_the_cpu():
    mask = torch.ones(16, 16, dtype=torch.bool)
    assert choose_backend(replace(PLAIN, mask=True)).chosen == "flash"
    assert "flash_attention_for_cpu" in ran(PLAIN, mask=mask)


@pytest.mark.parametrize("mask", [False, True])
def test_kernels_are_tried_with_the_mask_that_was_asked_about(mask, monkeypatch):
    tried = []
    monkeypatch.setattr(
        softlookup.sdpa_backends, "torch_attention", lambda *given, **_: tried.append(given[3:6])
    )
    choose_backend(replace(PLAIN, mask=mask, causal=True))
    assert len(tried) == 3  # every kernel but the one that was picked
    for allowed, dropout_p, causal in tried:
        assert (allowed is not None, dropout_p, causal) == (mask, 0.0, not mask)


def test_others_are_passed_over_or_refuse_with_the_true_reason():
    choice = choose_backend(PLAIN)
    assert choice.device == "cpu"
    assert choice.others == {
        "memory-efficient": "refuses: it has no kernel for the CPU",
        "cuDNN": "refuses: it has no kernel for the CPU",
        "math": "would run, but flash comes first",
    }
    assert "dropout" in choose_backend(replace(PLAIN, dropout_p=0.1)).others["flash"]
    for backend in (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        with sdpa_kernel(backend), pytest.raises(RuntimeError):
            torch_attention(*[torch.zeros(1, 1, 2, 2)] * 3)


def test_a_kernel_that_is_switched_off_is_said_to_be():
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        choice = choose_backend(PLAIN)
    finally:
        torch.backends.cuda.enable_flash_sdp(True)
    assert choice.chosen == "math"
    assert choice.others["flash"] == "would run, but is switched off in torch.backends.cuda"


def test_asking_leaves_the_switches_as_they_were():
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    try:
        choose_backend(PLAIN)
        assert not torch.backends.cuda.mem_efficient_sdp_enabled()
    finally:
        torch.backends.cuda.enable_mem_efficient_sdp(True)
    assert torch.backends.cuda.flash_sdp_enabled()


def test_the_math_kernel_refuses_a_mask_and_is_causal_together_as_the_report_says():
    q = torch.zeros(1, 1, 4, 4)
    with sdpa_kernel(SDPBackend.MATH), pytest.raises(RuntimeError, match="is_causal"):
        torch_attention(q, q, q, attn_mask=torch.ones(4, 4).bool(), is_causal=True)
    assert "the math kernel refuses attn_mask and is_causal" in cost_report(
        replace(SMALL, mask=True, causal=True)
    )
    assert "the math kernel refuses" not in cost_report(SMALL)


def test_asking_about_a_huge_layer_makes_no_huge_tensors(monkeypatch):
    seen = []
    real = torch.zeros
    monkeypatch.setattr(
        torch, "zeros", lambda *shape, **options: seen.append(shape) or real(*shape, **options)
    )
    cost_json(replace(LARGE, tokens=10**7 + 3, batch=10**6))
    assert seen
    assert max(math.prod(shape) for shape in seen) < 10**6
    assert all(shape[2] % 64 == (10**7 + 3) % 64 for shape in seen)


def test_reasons_are_read_from_the_part_about_this_kernel():
    said = [
        "Memory efficient kernel not used because: (Triggered internally at sdp_utils.cpp:1.)",
        "Memory Efficient attention has been runtime disabled. (Triggered internally at sdp_utils.h:2.)",
        "Flash attention kernel not used because: (Triggered internally at sdp_utils.cpp:3.)",
        "Expected query to be fp16 or bf16. (Triggered internally at sdp_utils.h:4.)",
        "Flash attention does not support a mask. (Triggered internally at sdp_utils.h:5.)",
        "CuDNN attention kernel not used because: (Triggered internally at sdp_utils.cpp:6.)",
        "CuDNN attention has been runtime disabled. (Triggered internally at sdp_utils.h:7.)",
    ]
    assert read_reasons(said, "flash") == [
        "Expected query to be fp16 or bf16.",
        "Flash attention does not support a mask.",
    ]
    assert read_reasons(said, "memory") == ["Memory Efficient attention has been runtime disabled."]
    assert read_reasons([], "flash") == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_flash_refuses_float32_and_says_so():
    choice = choose_backend(replace(PLAIN, head_dim=64), "cuda")
    assert choice.chosen != "flash"
    assert choice.others["flash"].startswith("refuses: ")


# What is shown


def test_the_report_says_the_numbers_and_the_kernel():
    report = cost_report(LARGE)
    for words in (
        "17,179,869,184",
        "32 GiB",
        "4.4 TFLOP",
        "67,108,864 parameters",
        "4 times as much",
        "64 GiB",
    ):
        assert words in report
    assert "on cpu would pick: flash" in report
    assert max(map(len, report.splitlines())) <= 100


def test_the_report_says_what_was_asked_for():
    report = cost_report(replace(SMALL, causal=True, mask=True))
    assert report.splitlines()[0].endswith("B=2, H=6, T=10, d_head=4, H_kv=2, causal, mask given")
    assert "55.0%" in report  # 55 of 100 logits lie on or below the diagonal
    assert "100 bytes" in report


def test_the_json_is_json():
    facts = json.loads(json.dumps(cost_json(SMALL)))
    assert facts["workload"]["kv_heads"] == 2
    assert facts["cost"]["logits"] == 1200
    assert facts["backend"]["chosen"] == "flash"
    assert facts["backend"]["torch"] == torch.__version__


# The way of attend with a mask in words

LONG = Workload(batch=2, heads=3, tokens=300, head_dim=8, dtype="float32")


@pytest.mark.parametrize(
    "text",
    [
        "causal",
        "causal & padding(300, 120)",
        "causal & sliding_window(20)",
        "dilated(5, 3)",
        "~causal | chunked(64)",
        "padding(300, 120) & alibi(3)",
    ],
)
def test_the_visible_logits_are_those_of_the_dense_mask(text):
    mask = read_mask_expression(text)
    hides = mask if isinstance(mask, Mask) else mask.mask
    shown = hides.dense(300, 300).expand(2, 3, 300, 300)
    cost = mask_cost(LONG, text)
    assert cost.visible_logits == int(shown.sum())
    assert cost.visible_logits <= cost.computed_logits <= shown.numel()
    assert cost.dense_mask_bytes == mask.dense(300, 300).nbytes
    assert not cost.makes_dense_mask


def test_the_path_and_its_calls_are_those_of_attend():
    q, k, v = small_tensors(LONG)
    path = attend.explain(q, k, v, read_mask_expression("causal & padding(300, 120)"))
    cost = mask_cost(LONG, "causal & padding(300, 120)")
    assert (cost.path, cost.reason, cost.calls) == (path.name, path.reason, path.calls)
    assert cost.computed_logits == 3 * path.logits


def test_dropout_makes_the_mask_after_all():
    cost = mask_cost(replace(LONG, dropout_p=0.1), "causal & sliding_window(20)")
    assert cost.makes_dense_mask
    assert cost.computed_logits == 2 * 3 * 300**2


def test_the_report_of_a_mask_says_path_reason_shares_and_memory():
    report = mask_report(replace(LONG, tokens=1000), "causal & padding(1000, 500)")
    assert "takes this path: pieces" in report
    #  500,500 pairs of the first sample; 125,250 + 500 * 500 of the second
    assert f"{3 * (500_500 + 375_250):,}" in report
    assert "43.8%" in report
    assert "1.91 MiB" in report  # two samples, 1,000 by 1,000 bools
    assert "causal() & padding([1000, 500])" in report
    assert "call        1 triangle: 1000 queries x 1000 keys" in report
    assert max(map(len, report.splitlines())) <= 100


def test_a_mask_that_shows_nothing_has_a_report():
    report = mask_report(LONG, "padding(0)")
    assert re.search(r"visible +0  0\.0%$", report, re.M)
    assert "times as many" not in report


def test_the_command_adds_the_way_of_attend_and_changes_nothing_else():
    sizes = ["cost", "--batch", "2", "--heads", "3", "--tokens", "300", "--head-dim", "8"]
    run = CliRunner().invoke
    plain, more = (run(main, [*sizes, *mask]).output for mask in ([], ["--attend", "causal"]))
    assert more.startswith(plain.rstrip())
    assert "takes this path: causal flag" in more
    plain, more = (
        json.loads(run(main, [*sizes, *mask, "--format", "json"]).output)
        for mask in ([], ["--attend", "causal"])
    )
    way = more.pop("attend")
    assert more == plain
    assert way["path"] == "causal flag"
    assert way["visible_logits"] == 2 * 3 * 300 * 301 // 2


@pytest.mark.parametrize(
    ("changes", "text", "words"),
    [
        ({}, "causl", "did you mean causal"),
        ({}, "padding(1, 2, 3)", "B = 3"),
        ({}, "documents([[0, 0, 1]])", "T_k = 3"),
        ({"causal": True}, "sliding_window(4)", "causal in the mask, not beside it"),
    ],
    ids=str,
)
def test_a_mask_that_cannot_be_is_refused(changes, text, words):
    with pytest.raises(SoftlookupError, match=words):
        mask_report(replace(LONG, **changes), text)


def test_numbers_do_not_need_torch():
    count = "from softlookup.cost import Workload, attention_cost; attention_cost(Workload(1, 1, 1, 1))"
    code = f"import sys; {count}; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 0}, "batch counts something"),
        ({"tokens": -1}, "tokens counts something"),
        ({"kv_heads": 4}, "heads a multiple of kv_heads"),
        ({"kv_heads": 0}, "kv_heads counts something"),
        ({"dtype": "float8"}, "float16, bfloat16, float32, float64"),
        ({"dropout_p": 2.0}, "dropout is a probability"),
    ],
    ids=str,
)
def test_a_layer_that_cannot_be_is_refused(changes, words):
    with pytest.raises(SoftlookupError, match=words):
        replace(SMALL, **changes)


@pytest.mark.parametrize("device", ["nosuch", "meta:x"])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(SoftlookupError, match=rf"device '{device}'"):
        cost_report(SMALL, device)


def test_the_projections_are_four_plain_linear_layers():
    layers = [module for module in MultiHeadAttention(24, 6).modules() if isinstance(module, nn.Linear)]
    assert (
        sum(layer.weight.numel() for layer in layers)
        == attention_cost(Workload(1, 6, 1, 4)).projection_parameters
    )


def test_the_examples_in_the_docstrings_run():
    for module in (softlookup.cost, softlookup.sdpa_backends, softlookup.path_cost):
        result = doctest.testmod(module)
        assert result.attempted >= 3
        assert result.failed == 0
