"""Prove the corpus of modules: each file gives the answer of its definition in float64, with its weights.

The answer, the returned weights and the gradients of all parameters and inputs are compared, in two dtypes.
"""

import importlib.util
import json
import sys
from pathlib import Path

import proofs_first_half
import proofs_of_rotations
import proofs_of_states_and_weights
import proofs_of_uses
import proofs_second_half
import pytest
import torch
from inputs_of_modules import MEMORY, WIDTH, Problem, T
from torch import nn
from torch.nn import functional

HERE = Path(__file__).parent
EXPECTED = {
    entry["file"][:3]: entry for entry in json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
}
ATOL = {torch.float32: 5e-5, torch.float64: 5e-5}  # some add 1e-6 somewhere on purpose
CASES = (
    proofs_first_half.CASES
    | proofs_second_half.CASES
    | proofs_of_rotations.CASES
    | proofs_of_states_and_weights.CASES
    | proofs_of_uses.CASES
)


def load(key):
    name = f"right_modules_{key}"
    spec = importlib.util.spec_from_file_location(name, HERE / EXPECTED[key]["file"])
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look there
    spec.loader.exec_module(module)
    return getattr(module, EXPECTED[key]["target"])


def built(key, dtype):
    """Return the module in evaluation, every parameter stirred: zeros and ones at the start hide things."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        module = CASES[key][0](load(key)).train()
        if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
            tokens = {"m38": [torch.zeros(1, 2, MEMORY)] * 2}.get(key, [])
            module(torch.zeros(1, 2, WIDTH), *tokens)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape))
    return module.to(dtype).eval()


def listed(answer):
    return list(answer) if isinstance(answer, tuple) else [answer]


def gradients(answers, followed):
    answers = [a for a in answers if a.requires_grad]
    total = sum(
        (a.double() * torch.linspace(-1, 1, a.numel(), dtype=torch.float64).view(a.shape)).sum()
        for a in answers
    )
    return torch.autograd.grad(total, followed, allow_unused=True)


@pytest.mark.parametrize("dtype", ATOL, ids=str)
@pytest.mark.parametrize("key", sorted(CASES))
def test_the_module_gives_the_answer_the_weights_and_the_gradients_of_its_definition(key, dtype):
    module = built(key, dtype)
    problem = Problem(dtype)
    followed = [p for p in module.parameters() if p.requires_grad] + problem.followed()
    got, want = (listed(answer) for answer in CASES[key][1](module, problem))
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.double(), theirs, atol=ATOL[dtype], rtol=0)
    for mine, theirs in zip(gradients(got, followed), gradients(want, followed), strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine.double(), theirs.double(), atol=20 * ATOL[dtype], rtol=1e-3)


def test_every_file_is_expected_and_proved():
    assert set(CASES) == set(EXPECTED)
    assert {path.name for path in HERE.glob("m*.py")} == {entry["file"] for entry in EXPECTED.values()}


def test_every_trap_in_a_docstring_is_listed():
    for entry in EXPECTED.values():
        first = (HERE / entry["file"]).read_text(encoding="utf-8").split('"""')[1]
        assert ("Trap " + entry["trap"] in first) if entry.get("trap") else ("Trap" not in first)


def test_the_manual_path_is_the_fused_path(monkeypatch):
    fused = built("m01", torch.float64)
    monkeypatch.delattr(functional, "scaled_dot_product_attention")
    manual = built("m01", torch.float64)
    monkeypatch.undo()
    x = Problem(torch.float64).x
    assert (fused.flash, manual.flash) == (True, False)
    torch.testing.assert_close(manual(x), fused(x))


def test_tokens_one_by_one_with_a_cache_give_the_pass_over_the_whole():
    x = Problem(torch.float64).x
    given, kept, buffered, streamed = (built(key, torch.float64) for key in ("m36", "m37", "m61", "m72"))
    past, steps = None, {"m36": [], "m37": [], "m61": [], "m72": []}
    with torch.no_grad():
        for t in range(T):
            token = x[:, t : t + 1]
            out, past = given(token, past, use_cache=True)
            steps["m36"].append(out)
            steps["m37"].append(kept(token, use_cache=True))
            steps["m61"].append(buffered(token, start_pos=t))
            steps["m72"].append(streamed(token))
        torch.testing.assert_close(torch.cat(steps["m36"], 1), given(x)[0])
        torch.testing.assert_close(torch.cat(steps["m37"], 1), kept(x))
        torch.testing.assert_close(torch.cat(steps["m61"], 1), buffered(x))
        streamed.clear_cache()
        torch.testing.assert_close(torch.cat(steps["m72"], 1), streamed(x))
        kept.reset_cache()
        torch.testing.assert_close(kept(x, use_cache=True), kept(x))


def test_a_merged_update_answers_as_the_update_beside_the_weight():
    module = built("m39", torch.float64)
    x = Problem(torch.float64).x
    merged = module(x)
    before = module.q_proj.weight.detach().clone()
    apart = module.train()(x)
    torch.testing.assert_close(module.q_proj.weight + module.q_proj.update(), before)
    torch.testing.assert_close(apart, merged)
    torch.testing.assert_close(module.eval()(x), merged)


def test_a_folded_gain_answers_as_the_gain_beside_the_weight():
    module = built("m71", torch.float64)
    x = Problem(torch.float64).x
    folded = module(x)
    before = module.in_proj.weight.detach().clone()
    assert not module.train().folded
    torch.testing.assert_close(module.in_proj.weight * module.gain, before)
    torch.testing.assert_close(module(x), folded)
    torch.testing.assert_close(module.eval()(x), folded)


def test_dropout_acts_in_training_and_only_there():
    for key in sorted(CASES):
        module = built(key, torch.float32)
        first, again = (listed(CASES[key][1](module, Problem(torch.float32))[0])[0] for _ in range(2))
        assert torch.equal(first, again), key
        rates = [d.p for d in module.modules() if isinstance(d, nn.Dropout)] + [
            getattr(module, "dropout", 0.0)
        ]
        if any(isinstance(rate, float) and rate > 0 for rate in rates):
            trained = listed(CASES[key][1](module.train(), Problem(torch.float32))[0])[0]
            assert not torch.allclose(trained, first), key
