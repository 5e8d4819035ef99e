"""NumPy, torch.compile and TorchScript: called with tensors, judged like all else, left as they were."""

import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from framework_targets import NUMPY, definitions, line_of
from torch import nn

import softlookup
from softlookup.checker.adapt import Adapter
from softlookup.checker.calling import WEIGHT
from softlookup.checker.calls import Backward, Call
from softlookup.checker.frameworks import callee_of, framework_of
from softlookup.checker.model_files import require_reader
from softlookup.checker.probes import suite
from softlookup.checker.target import LocalTarget, open_file
from softlookup.checker.written_with import library_of
from softlookup.terms import SoftlookupError

Q, K, V = (torch.randn(2, 3, n, 8, generator=torch.Generator().manual_seed(n)) for n in (4, 5, 5))


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ v


def attend_over_queries(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores.softmax(dim=-2) @ v


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_heads = 2
        self.inner = nn.Linear(8, 8, bias=False)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.drop(self.inner(x))


class ProjectedAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        projections = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (project(x).unflatten(-1, (2, 16)).transpose(1, 2) for project in projections)
        return self.out_proj(attend(q, k, v).transpose(1, 2).flatten(2))


@pytest.fixture(scope="module")
def in_numpy(tmp_path_factory):
    return definitions(NUMPY, tmp_path_factory.mktemp("numpy"), "written_in_numpy")


def scripted(thing):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated, and still in use
        return torch.jit.script(thing)


def traced(thing, example):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(thing, example)


def compiled(thing):
    return torch.compile(thing, backend="eager")


# NumPy


@pytest.mark.parametrize("name", ["right_attention", "RightAttention"])
def test_right_attention_in_numpy_is_clean(in_numpy, name):
    target = getattr(in_numpy, name)
    diagnosis = softlookup.check(target() if isinstance(target, type) else target)
    assert diagnosis.clean, diagnosis.findings


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("unscaled_attention", "scale-missing", "return softmax(q @ xp.swapaxes(k, -1, -2)) @ v"),
        ("TransposedAttention", "softmax-over-queries", "xp.sum(powers, axis=-2, keepdims=True), v)"),
    ],
)
def test_wrong_attention_in_numpy_is_named_with_its_line(in_numpy, name, rule, words):
    target = getattr(in_numpy, name)
    diagnosis = softlookup.check(target() if isinstance(target, type) else target)
    assert diagnosis.named() == [rule]
    assert diagnosis.findings[0].line == line_of(NUMPY, words)


WRONG_IN_NUMPY = """
import numpy as np


def softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def not_rooted(q, k, v, mask=None):
    scores = q @ np.swapaxes(k, -1, -2)
    scores = scores / q.shape[-1]
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    return softmax(scores) @ v


def over_queries(q, k, v):
    scores = np.einsum("bhqd,bhkd->bhqk", q, k)
    scores = scores / np.sqrt(q.shape[-1])
    weights = softmax(scores, axis=-2)
    return np.einsum("bhqk,bhkd->bhqd", weights, v)


def masked_late(q, k, v, mask=None):
    weights = softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    if mask is not None:
        weights = np.where(mask, weights, 0.0)
    return weights @ v


def next_token(q, k, v, causal=False):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if causal:
        i, j = np.arange(scores.shape[-2])[:, None], np.arange(scores.shape[-1])[None, :]
        scores = np.where(j <= i + 1, scores, -1e30)
    return softmax(scores) @ v
"""


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("not_rooted", "scale-not-rooted", "scores = scores / q.shape[-1]"),
        ("over_queries", "softmax-over-queries", "softmax(scores, axis=-2)"),
        ("masked_late", "mask-after-softmax", "np.where(mask, weights, 0.0)"),
        ("next_token", "next-token-visible", "np.where(j <= i + 1, scores"),
    ],
)
def test_a_wrong_step_that_cannot_be_recorded_is_read_in_the_text(tmp_path, name, rule, words):
    target = getattr(definitions(WRONG_IN_NUMPY, tmp_path, f"numpy_{name}"), name)
    diagnosis = softlookup.check(target)
    assert diagnosis.named() == [rule]
    assert diagnosis.findings[0].line == line_of(WRONG_IN_NUMPY, words)


def test_a_file_in_numpy_is_checked_in_the_child(in_numpy):
    with open_file(in_numpy.__file__) as session:
        assert "right_attention" in [sketch.name for sketch in session.sketches()]
        (answer,) = session.target("right_attention").perform([Call((Q, K, V))])
    torch.testing.assert_close(answer.result, attend(Q, K, V))


def test_numpy_answers_in_the_dtype_of_the_tensors(in_numpy):
    for dtype in (torch.float32, torch.float64):
        call = Call((Q.to(dtype), K.to(dtype), V.to(dtype)))
        (answer,) = LocalTarget(in_numpy.right_attention).perform([call])
        assert answer.result.dtype == dtype


def test_numpy_has_no_half_precision_and_no_gradients_and_says_so(in_numpy):
    half = tuple(tensor.bfloat16() for tensor in (Q, K, V))
    backward = Backward((), torch.ones(2, 3, 4, 8), (0,))
    answers = LocalTarget(in_numpy.right_attention).perform([Call(half), Call((Q, K, V), backward=backward)])
    assert "half precision is not judged in NumPy" in answers[0].failure.message
    assert "NumPy computes no gradients" in answers[1].failure.message
    assert not callee_of(in_numpy.right_attention).differentiable


def asks_for_gradients(target):
    plan = Adapter(target, softlookup.Contract()).plans()[0]
    return any(probe.backward for probe in suite(plan.abilities, torch.float32))


def test_gradients_are_asked_only_of_what_can_pass_them_on(in_numpy):
    assert asks_for_gradients(LocalTarget(attend))
    assert not asks_for_gradients(LocalTarget(in_numpy.right_attention))
    with open_file(in_numpy.__file__) as session:
        assert not asks_for_gradients(session.target("right_attention"))


def test_gradients_are_not_asked_of_a_module_that_cannot_pass_them_on():
    target = LocalTarget(ProjectedAttention())
    assert asks_for_gradients(target)
    target._sketch = replace(target.sketch, differentiable=False)
    assert not asks_for_gradients(target)


def test_an_array_that_is_changed_in_place_is_seen():
    def spoil(q, k, v):
        q *= np.float32(2.0)
        return v

    (answer,) = LocalTarget(spoil).perform([Call((Q, K, V))])
    assert answer.changed == (0,)


def test_random_numbers_of_numpy_follow_the_seed_and_leave_its_state_alone():
    def draw(q, k, v):
        return np.random.rand(4)

    np.random.seed(7)
    expected = np.random.rand()
    np.random.seed(7)
    first, again, other = LocalTarget(draw).perform([Call((Q, K, V), seed=seed) for seed in (1, 1, 2)])
    assert torch.equal(first.result, again.result)
    assert not torch.equal(first.result, other.result)
    assert np.random.rand() == expected


def test_views_that_run_backwards_come_back_as_tensors():
    def flip(q, k, v):
        return {"out": np.flip(q, -1), "pair": (np.float32(3.0), [v])}

    (answer,) = LocalTarget(flip).perform([Call((Q, K, V))])
    assert torch.equal(answer.result["out"], Q.flip(-1))
    assert float(answer.result["pair"][0]) == 3.0
    assert torch.equal(answer.result["pair"][1][0], V)


# With which library code computes


def test_annotations_say_with_which_library_code_computes():
    def by_annotation(q: "np.ndarray") -> "np.ndarray":
        return q

    assert library_of(by_annotation) == "numpy"
    assert library_of(attend) == "torch"


def test_torch_code_that_takes_numbers_from_numpy_stays_torch():
    def scaled(q, k, v):
        return (q @ k.transpose(-2, -1) / np.sqrt(q.shape[-1])).softmax(-1) @ v

    assert framework_of(scaled) is None
    assert softlookup.check(scaled).clean


def test_numpy_code_beside_torch_is_numpy():
    def helped(x):
        return np.exp(x - x.max(-1, keepdims=True))

    def attention(q, k, v):
        powers = np.exp(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
        return powers / powers.sum(-1, keepdims=True) @ v

    assert library_of(helped) == "numpy"
    assert library_of(attention) == "numpy"


# torch.compile


def test_compiled_attention_is_judged_with_the_line_of_what_was_compiled():
    assert softlookup.check(compiled(attend)).clean
    wrong = softlookup.check(torch.compile(attend_over_queries, backend="aot_eager"))
    assert wrong.named() == ["softmax-over-queries"]
    assert wrong.findings[0].line == attend_over_queries.__code__.co_firstlineno + 2


def test_steps_are_noted_in_what_was_compiled_and_answers_come_from_the_compiler():
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    def fresh(q, k, v):
        return (q @ k.transpose(-2, -1)).softmax(dim=-1) @ v

    target = LocalTarget(torch.compile(fresh, backend=backend))
    (noted,) = target.perform([Call((Q, K, V), record=True)])
    assert not graphs
    assert "softmax" in [one.op for one in noted.recorded]
    (answer,) = target.perform([Call((Q, K, V))])
    assert graphs
    torch.testing.assert_close(answer.result, noted.result)


# Modules: torch.compile and TorchScript

MODULES = {
    "compiled": compiled,
    "scripted": scripted,
    "traced": lambda layer: traced(layer.eval(), torch.zeros(2, 3, 8)),
}


@pytest.fixture(params=MODULES)
def layer_and_module(request):
    layer = Layer()
    return layer, MODULES[request.param](layer)


def test_the_sketch_of_a_compiled_or_scripted_module_shows_what_it_was_made_of(layer_and_module):
    _, module = layer_and_module
    sketch = LocalTarget(module).sketch
    assert sketch.name == "Layer"
    assert [parameter.name for parameter in sketch.parameters] == ["x"]
    assert [(w.name, w.shape, w.trained) for w in sketch.weights] == [
        ("inner.weight", (8, 8), True),
        ("calls", (1,), False),
    ]
    assert {"inner", "drop"} <= sketch.parts.keys()
    assert "neural network modules" not in sketch.doc


@pytest.mark.parametrize("make", [compiled, scripted], ids=["compiled", "scripted"])
def test_the_settings_of_a_module_are_seen(make):
    assert LocalTarget(make(Layer())).sketch.settings["num_heads"] == 2


def test_a_call_with_other_weights_uses_them_and_leaves_the_module_as_it_was(layer_and_module):
    layer, module = layer_and_module
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    was_training = module.training
    x = torch.randn(2, 3, 8)
    other = torch.randn(8, 8)
    target = LocalTarget(module)
    assert target.own_weights().keys() == {"inner.weight", "calls"}
    changed, plain = target.perform([Call((x,), weights={"inner.weight": other}), Call((x,))])
    torch.testing.assert_close(changed.result, x @ other.T)
    torch.testing.assert_close(plain.result, x @ before["inner.weight"].T)
    assert all(torch.equal(tensor, before[name]) for name, tensor in layer.state_dict().items())
    assert module.training == was_training
    assert isinstance(layer.inner.weight, nn.Parameter)


def test_gradients_reach_the_weights_of_one_call(layer_and_module):
    _, module = layer_and_module
    x, other = torch.randn(2, 3, 8), torch.randn(8, 8)
    backward = Backward((), torch.ones(2, 3, 8), (0, WEIGHT + "inner.weight"))
    call = Call((x,), weights={"inner.weight": other}, backward=backward)
    (answer,) = LocalTarget(module).perform([call])
    torch.testing.assert_close(answer.gradients[0], other.sum(0).expand(2, 3, 8))
    torch.testing.assert_close(
        answer.gradients[WEIGHT + "inner.weight"], x.sum((0, 1)).expand(8, 8), rtol=1e-4, atol=1e-5
    )


def test_a_module_runs_in_another_dtype_for_one_call(layer_and_module):
    layer, module = layer_and_module
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    (answer,) = LocalTarget(module).perform([Call((x,), dtype="float64")])
    assert answer.result.dtype == torch.float64
    assert layer.inner.weight.dtype == torch.float32


@pytest.mark.parametrize("make", [compiled, scripted], ids=["compiled", "scripted"])
def test_training_mode_holds_for_one_call_and_follows_the_seed(make):
    module = make(Layer().eval())
    x = torch.randn(2, 3, 8)
    still, first, again, other = LocalTarget(module).perform(
        [
            Call((x,)),
            Call((x,), training=True, seed=1),
            Call((x,), training=True, seed=1),
            Call((x,), training=True, seed=2),
        ]
    )
    assert torch.equal(first.result, again.result)
    assert not torch.equal(first.result, other.result)
    assert still.result.all()
    assert not module.training


def test_a_weight_that_a_scripted_module_does_not_have_is_said():
    (answer,) = LocalTarget(scripted(Layer())).perform([Call((torch.zeros(2, 3, 8),), weights={"no": Q})])
    assert "no weight is called no; there are inner.weight, calls" in answer.failure.message


# TorchScript functions


@pytest.mark.parametrize("make", [scripted, lambda f: traced(f, (Q, K, V))], ids=["scripted", "traced"])
def test_scripted_attention_is_judged_with_the_line_of_the_function(make):
    assert softlookup.check(make(attend)).clean
    wrong = softlookup.check(make(attend_over_queries))
    assert wrong.named() == ["softmax-over-queries"]
    assert wrong.kind == "function"
    assert wrong.name == "attend_over_queries"
    assert wrong.findings[0].line == attend_over_queries.__code__.co_firstlineno + 2


def test_the_parameters_of_a_scripted_function_are_those_of_its_schema():
    text = "def attention(q: Tensor, causal: bool = False, scale: float = 0.5):\n    return q * scale\n"
    attention = torch.jit.CompilationUnit(text).attention  # made of text: there is no Python function
    shown = [(p.name, p.required, p.default) for p in LocalTarget(attention).sketch.parameters]
    assert shown == [("q", True, ""), ("causal", False, "False"), ("scale", False, "0.5")]


def test_what_a_file_compiled_or_scripted_itself_is_its_own_and_what_it_imported_is_not(tmp_path):
    (tmp_path / "compiled_elsewhere.py").write_text(
        "import torch\n@torch.jit.script\ndef foreign_attention(q, k, v):\n    return v\n"
    )
    path = tmp_path / "compiled_here.py"
    path.write_text(
        "import torch\n"
        "from compiled_elsewhere import foreign_attention\n"
        "def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:\n"
        "    return (q @ k.transpose(-2, -1)).softmax(dim=-1) @ v\n"
        "scripted_attention = torch.jit.script(attend)\n"
        "compiled_attention = torch.compile(attend, backend='eager')\n"
        "other = torch.compile(torch.nn.functional.softmax, backend='eager')\n"
    )
    with open_file(path) as session:
        names = [sketch.name for sketch in session.sketches()]
    assert names == ["attend", "scripted_attention", "compiled_attention"]


# What is missing, and what is said


def test_the_example_of_the_page_prints_what_it_says(tmp_path):
    page = (Path(__file__).parent.parent / "docs/how-to/other-frameworks.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.S)[1]
    path = tmp_path / "example.py"
    path.write_text(code)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == code.strip().rpartition("# ")[2]


def test_a_model_file_without_its_reader_names_the_extra(monkeypatch):
    monkeypatch.setattr("softlookup.checker.model_files.find_spec", lambda name: None)
    with pytest.raises(SoftlookupError, match=r"pip install softlookup\[onnx\]"):
        require_reader("model.onnx")


def test_recognising_imports_no_framework():
    code = (
        "import sys, torch\n"
        "from softlookup.checker.frameworks import framework_of\n"
        "framework_of(lambda q, k, v: v); framework_of(torch.nn.Linear(2, 2))\n"
        "print(sorted({'jax', 'flax', 'keras', 'onnx', 'onnxruntime'} & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "[]\n"
