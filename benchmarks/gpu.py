"""The same questions on a GPU: bfloat16, T up to 65536, beside SDPA's own kernels and compiled FlexAttention.

    python benchmarks/gpu.py                 a few minutes; writes benchmarks/results/gpu.json
    python benchmarks/gpu.py --only window --longest 16384
    python benchmarks/gpu.py --rehearse      runs the same lines on a CPU, in float32 and small: no figures

Right first: every way of every mask is compared with the readable attention in float64, outputs, log-sum-exps
and gradients, and so are the statistics; what is wrong is listed, not timed, and makes the exit status 1.
Written without a GPU at hand: what it finds decides which paths attend() takes on CUDA.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import problems
import torch
import turns
from attend_time import compiled_flex
from problems import Problem
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

from softlookup import scaled_dot_product_attention as readable
from softlookup.fused import attend
from softlookup.fused.cuda import attend_on_cuda, plain
from softlookup.masks import Bias, Mask, alibi, causal

HEADS, KV_HEADS = 16, 4
LENGTHS = (4096, 16384, 65536)
LONGEST_DENSE = 16384  # a bool mask of 65536 x 65536 is 4 GiB
OURS, DIRECT = "attend", "attend_on_cuda"
#: Twice what rounding the inputs and the weights to this type costs, for numbers of unit scale.
NEAR = {torch.bfloat16: 4e-2, torch.float32: 1e-4}

MASKS: dict[str, Callable[[int], Mask | Tensor | Bias | None]] = {
    **problems.PATHS,
    "window each side": problems.window_each_side,
    "torn blocks": problems.torn_blocks,
    "bottom-right": lambda tokens: causal("bottom-right"),
    "alibi": lambda tokens: alibi(HEADS) & causal(),
    "causal and padding": lambda tokens: problems.causal_padding(tokens, batch=2),
}


def problem_of(
    name: str, tokens: int, device: torch.device, dtype: torch.dtype, kv_heads: int = HEADS
) -> Problem:
    """Return a problem on the device; "causal and padding" has two samples."""
    mask = MASKS[name](tokens)
    made = problems.problem(
        mask.to(device) if isinstance(mask, Tensor) else mask,
        tokens,
        batch=2 if name == "causal and padding" else 1,
        heads=HEADS,
        dtype=dtype,
    )
    q, k, v = (x.to(device) for x in (made.q, made.k, made.v))
    return Problem(q, k[:, :kv_heads].contiguous(), v[:, :kv_heads].contiguous(), made.mask)


def scale_of(problem: Problem) -> float:
    """Return the usual scale."""
    return 1 / math.sqrt(problem.q.shape[-1])


def with_attend(problem: Problem) -> Tensor:
    """The public door."""
    return attend(problem.q, problem.k, problem.v, problem.mask, enable_gqa=True)


def directly(problem: Problem, *, with_lse: bool = False) -> tuple[Tensor, Tensor | None]:
    """The ways of CUDA, also where attend() does not take them yet."""
    return attend_on_cuda(problem.q, problem.k, problem.v, problem.mask, scale_of(problem), with_lse=with_lse)


def by_kernel(kernel: SDPBackend) -> Callable[[Problem], Tensor]:
    """Return SDPA, causal by its flag, by one of its kernels."""

    def call(problem: Problem) -> Tensor:
        with sdpa_kernel(kernel):
            return sdpa(problem.q, problem.k, problem.v, is_causal=True)

    return call


def with_dense_mask(problem: Problem) -> Tensor:
    """SDPA, whatever kernel takes the mask."""
    return sdpa(problem.q, problem.k, problem.v, problem.dense)


def knows_log_sum_exp(problem: Problem) -> bool:
    """The operators behind F, which tell the log-sum-exp of masks that are a flag, exist on CUDA only."""
    flagged = plain(problem.mask, problem.q.shape[-2], problem.k.shape[-2])
    return problem.q.is_cuda or not flagged or problem.q.shape[1] != problem.k.shape[1]


def wrong_about(problem: Problem) -> list[str]:
    """Return in what a small problem's answers differ from the readable attention's in float64."""
    needs = problem.requiring_gradients()
    exact = [x.detach().double().requires_grad_() for x in (problem.q, problem.k, problem.v)]
    truth, weights = readable(*exact, problem.mask, enable_gqa=True)
    upstream = torch.ones_like(truth)
    expected = torch.autograd.grad(truth, exact, upstream)
    near, wrong = NEAR[problem.q.dtype], []
    ways = {OURS: with_attend, DIRECT: lambda it: directly(it)[0]}
    if knows_log_sum_exp(problem):
        ways["with log-sum-exp"] = lambda it: directly(it, with_lse=True)[0]
    for name, way in ways.items():
        differentiable = problem.q.is_cuda or name == OURS  # FlexAttention has no gradients on a CPU
        try:
            output = way(needs if differentiable else problem)
            answers = {"output": (output, truth)}
            if differentiable:
                grads = torch.autograd.grad(output, (needs.q, needs.k, needs.v), upstream.to(output))
                pairs = zip(grads, expected, strict=True)
                answers |= {f"gradient of {x}": pair for x, pair in zip("qkv", pairs, strict=True)}
            for what, (ours, theirs) in answers.items():
                # Gradients of k and v are sums over queries: what counts is the error beside their size.
                far = (ours.double() - theirs).abs().max().item() / max(1.0, theirs.abs().max().item())
                if not far < near:
                    wrong.append(f"{name}: {what} {far:.2g} away")
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:160]}")
    return wrong + wrong_log_sum_exp(problem, weights)


def wrong_log_sum_exp(problem: Problem, weights: Tensor) -> list[str]:
    """Return whether the log-sum-exp is not the one that gives the exact weights of some visible key."""
    if isinstance(problem.mask, Bias) or not knows_log_sum_exp(problem):
        return []
    try:
        _, lse = directly(problem, with_lse=True)
    except Exception:
        return []  # said already
    share, key = weights.max(dim=-1)  # [B, H, T]
    k = problem.k.repeat_interleave(problem.q.shape[1] // problem.k.shape[1], dim=1).double()
    seen = k.gather(2, key[..., None].expand(*key.shape, k.shape[-1]))
    exact = (problem.q.double() * seen).sum(-1) * scale_of(problem) - share.log()
    if lse is None or lse.shape != exact.shape:
        return [f"log-sum-exp: {None if lse is None else list(lse.shape)}, expected {list(exact.shape)}"]
    far = (lse.double() - exact).abs().max().item()
    return [] if far < NEAR[problem.q.dtype] else [f"log-sum-exp: {far:.2g} away"]


def wrong_statistics(device: torch.device, dtype: torch.dtype, tokens: int) -> list[str]:
    """Return in what the statistics differ from those of the weights in float64."""
    from softlookup.statistics.observing import observe

    problem = problem_of("causal", tokens, device, dtype)
    _, weights = readable(*(x.double() for x in (problem.q, problem.k, problem.v)), problem.mask)
    try:
        _, found = observe(problem.q, problem.k, problem.v, problem.mask)
    except Exception as error:
        return [f"observe: {type(error).__name__}: {str(error).splitlines()[0][:160]}"]
    entropy = -(weights * weights.clamp_min(1e-300).log()).sum(-1).mean(-1)
    wrong = []
    for name, exact in (("entropy_nats", entropy), ("first_mass", weights[..., 0].mean(-1))):
        far = (getattr(found, name).double() - exact).abs().max().item()
        if not far < NEAR[dtype]:
            wrong.append(f"observe: {name} {far:.2g} away")
    return wrong


def times(name: str, tokens: int, device: torch.device, dtype: torch.dtype, rounds: int) -> dict[str, Any]:
    """Return the times of each way that runs, forward and with the backward pass."""
    problem = problem_of(name, tokens, device, dtype)
    ways: dict[str, Callable[[Problem], Any]] = {OURS: with_attend, DIRECT: lambda it: directly(it)[0]}
    if device.type == "cuda":
        kernels = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
        ways |= {f"SDPA causal, {kernel}": by_kernel(backend) for kernel, backend in kernels.items()}
        if not isinstance(problem.mask, Bias) and tokens <= LONGEST_DENSE:
            try:
                ways["FlexAttention, compiled"], _ = compiled_flex(problem)
            except Exception as error:
                print(f"    FlexAttention does not run: {str(error).splitlines()[0][:120]}")
    if problem.mask is not None and tokens <= LONGEST_DENSE and not isinstance(problem.mask, Bias):
        ways["SDPA, dense mask"] = with_dense_mask
    if name == "causal":
        from softlookup.statistics.observing import observe

        ways["observe"] = lambda it: observe(it.q, it.k, it.v, it.mask)[0]
    found: dict[str, Any] = {}
    for title, make in (("forward", _forward), ("forward + backward", _forward_and_backward)):
        if title == "forward + backward" and device.type != "cuda":
            continue
        calls = {way: make(call, problem) for way, call in ways.items()}
        seconds = turns.seconds_in_turns(
            {way: call for way, call in calls.items() if _runs(way, call)}, rounds
        )
        found[title] = {way: turns.spread([1000 * s for s in each], 3) for way, each in seconds.items()}
    return found


def _runs(way: str, call: Callable[[], Any]) -> bool:
    try:
        call()
    except Exception as error:
        print(f"    {way} does not run: {str(error).splitlines()[0][:120]}")
        return False
    return True


def _forward(way: Callable[[Problem], Any], problem: Problem) -> Callable[[], None]:
    def call() -> None:
        with torch.no_grad():
            way(problem)
        _wait(problem)

    return call


def _forward_and_backward(way: Callable[[Problem], Any], problem: Problem) -> Callable[[], None]:
    needs, upstream = problem.requiring_gradients(), torch.ones_like(problem.q)

    def call() -> None:
        torch.autograd.grad(way(needs), (needs.q, needs.k, needs.v), upstream)
        _wait(problem)

    return call


def _wait(problem: Problem) -> None:
    if problem.q.is_cuda:
        torch.cuda.synchronize()


def compare(names: list[str], tokens: int, device: torch.device, dtype: torch.dtype) -> dict[str, list[str]]:
    """Print what is right and return what is wrong, for each mask with equal and with grouped heads."""
    found = {}
    for name in names:
        for kv_heads in (HEADS, KV_HEADS):
            problem = problem_of(name, tokens, device, dtype, kv_heads)
            found[f"{name}, {kv_heads} key/value heads"] = wrong_about(problem)
    found["statistics"] = wrong_statistics(device, dtype, tokens)
    for title, wrong in found.items():
        print(f"{title}: {'right' if not wrong else 'WRONG: ' + '; '.join(wrong)}")
    return {title: wrong for title, wrong in found.items() if wrong}


def show(found: dict[str, Any]) -> None:
    """Print the times of one mask."""
    for title, ways in found.items():
        for way, ms in ways.items():
            print(f"  {title:18} {way:26} {ms['median']:10.3f} ms ({ms['low']:.3f} to {ms['high']:.3f})")


def main() -> None:
    """Compare, measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="only the masks whose name contains this")
    parser.add_argument("--longest", type=int, default=LENGTHS[-1])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rehearse", action="store_true", help="on a CPU, small: its figures say nothing")
    parser.add_argument("--json", type=Path, default=turns.RESULTS / "gpu.json")
    asked = parser.parse_args()
    if not torch.cuda.is_available() and not asked.rehearse:
        sys.exit(
            "gpu.py: PyTorch sees no CUDA device here. On a machine with one, run the same command;\n"
            "to see that the script itself runs, add --rehearse; the CPU's figures are attend_time.py's."
        )
    device = torch.device("cpu" if asked.rehearse else "cuda")
    dtype = torch.float32 if asked.rehearse else torch.bfloat16
    facts = turns.machine()
    if device.type == "cuda":
        facts |= {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    print(turns.line_of(facts))
    small = 256 if asked.rehearse else 1024
    names = [name for name in MASKS if asked.only in name]
    wrong = compare(names, small, device, dtype)
    result: dict[str, Any] = {"machine": facts, "dtype": str(dtype), "heads": HEADS, "wrong": wrong}
    result["milliseconds"] = {}
    right = [name for name in names if not any(title.startswith(f"{name},") for title in wrong)]
    for tokens in (small,) if asked.rehearse else [n for n in LENGTHS if n <= asked.longest]:
        for name in right:
            if name.endswith("blocks") and tokens > LONGEST_DENSE:
                continue  # it is a dense tensor
            print(f"\n{name}, T {tokens}")
            found = times(name, tokens, device, dtype, asked.rounds)
            result["milliseconds"][f"{name}, T {tokens}"] = found
            show(found)
    if not asked.rehearse:
        print("\nwritten to", turns.write(result, asked.json))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
