"""JAX, flax, Keras and ONNX on the CPU: `python -m pytest -m frameworks` with their extras installed."""

import importlib.util
import os

import pytest
import torch
from framework_targets import JAX, definitions, line_of
from torch import nn

import softlookup
from softlookup.checker.calling import WEIGHT
from softlookup.checker.calls import Backward, Call
from softlookup.checker.frameworks import callee_of
from softlookup.checker.target import LocalTarget, open_file

os.environ.setdefault("KERAS_BACKEND", "torch")

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]  # theirs, about odd sizes


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def tokens(length=5, width=32, seed=0):
    return torch.randn(2, length, width, generator=torch.Generator().manual_seed(seed))


def heads(length, width=8, seed=0):
    return torch.randn(2, 3, length, width, generator=torch.Generator().manual_seed(seed))


# JAX functions


@pytest.fixture(scope="module")
def in_jax(tmp_path_factory):
    return definitions(JAX, tmp_path_factory.mktemp("jax"), "written_in_jax")


@needs("jax")
@pytest.mark.parametrize(
    "name", ["right_attention", "RightAttention", "compiled_attention", "right_under_a_branch_attention"]
)
def test_right_attention_in_jax_is_clean(in_jax, name):
    target = getattr(in_jax, name)
    diagnosis = softlookup.check(target() if isinstance(target, type) else target)
    assert diagnosis.clean, diagnosis.findings


@needs("jax")
@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("unscaled_attention", "scale-missing", "return softmax(q @ xp.swapaxes(k, -1, -2)) @ v"),
        ("compiled_queries_attention", "softmax-over-queries", "axis=-2) @ v"),
    ],
)
def test_wrong_attention_in_jax_is_named_with_its_line(in_jax, name, rule, words):
    diagnosis = softlookup.check(getattr(in_jax, name))
    assert diagnosis.named() == [rule]
    assert diagnosis.findings[0].line == line_of(JAX, words)


WRONG_IN_LINEN = """
import jax
import jax.numpy as jnp
from flax import linen as nn


class SelfAttention(nn.Module):
    @nn.compact
    def __call__(self, x):
        q, k, v = (nn.DenseGeneral((2, 8), name=n)(x) for n in ("query", "key", "value"))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
        scores = scores / 8
        weights = jax.nn.softmax(scores, axis=-1)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
        return nn.DenseGeneral(x.shape[-1], axis=(-2, -1), name="out")(mixed)
"""


@needs("flax")
def test_a_wrong_linen_module_is_named_with_its_line(tmp_path):
    layer = definitions(WRONG_IN_LINEN, tmp_path, "wrong_in_linen").SelfAttention()
    diagnosis = softlookup.check(layer)
    assert diagnosis.named() == ["scale-not-rooted"]
    assert diagnosis.findings[0].line == line_of(WRONG_IN_LINEN, "scores / 8")


WRONG_IN_KERAS = """
import keras
from keras import ops


class SelfAttention(keras.layers.Layer):
    def __init__(self, num_heads=2, key_dim=8):
        super().__init__()
        self.num_heads, self.key_dim = num_heads, key_dim
        self.q_proj = keras.layers.Dense(16)
        self.k_proj = keras.layers.Dense(16)
        self.v_proj = keras.layers.Dense(16)
        self.out_proj = keras.layers.Dense(16)

    def heads(self, x):
        split = ops.reshape(x, (ops.shape(x)[0], ops.shape(x)[1], self.num_heads, self.key_dim))
        return ops.transpose(split, (0, 2, 1, 3))

    def call(self, x):
        q, k, v = self.heads(self.q_proj(x)), self.heads(self.k_proj(x)), self.heads(self.v_proj(x))
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
        scores = scores / self.key_dim
        weights = ops.softmax(scores, axis=-1)
        mixed = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))
        return self.out_proj(ops.reshape(mixed, (ops.shape(x)[0], ops.shape(x)[1], 16)))
"""


@needs("keras")
def test_a_wrong_keras_layer_is_named_with_its_line(tmp_path):
    layer = definitions(WRONG_IN_KERAS, tmp_path, "wrong_layer_in_keras").SelfAttention()
    diagnosis = softlookup.check(layer)
    assert diagnosis.named() == ["scale-not-rooted"]
    assert diagnosis.findings[0].line == line_of(WRONG_IN_KERAS, "scores / self.key_dim")


@needs("jax")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_jax_computes_in_the_dtype_of_the_tensors(in_jax, dtype):
    q, k, v = (heads(n).to(dtype) for n in (4, 5, 5))
    (answer,) = LocalTarget(in_jax.RightAttention()).perform([Call((q, k, v))])
    assert answer.result.dtype == dtype
    exact = nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert (answer.result.double() - exact).abs().max() < 20 * torch.finfo(dtype).eps


@needs("jax")
def test_gradients_of_jax_are_those_of_torch(in_jax):
    q, k, v = heads(4), heads(5, seed=1), heads(5, seed=2)
    cotangent = heads(4, seed=3)
    call = Call((q, k, v), backward=Backward((), cotangent, (0, 1, 2)))
    (answer,) = LocalTarget(in_jax.compiled_attention).perform([call])
    leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
    output = nn.functional.scaled_dot_product_attention(*leaves)
    expected = torch.autograd.grad((output * cotangent).sum(), leaves)
    for place in range(3):
        torch.testing.assert_close(answer.gradients[place], expected[place], rtol=1e-4, atol=1e-5)
    assert callee_of(in_jax.compiled_attention).differentiable


@needs("jax")
def test_a_file_in_jax_is_checked_in_the_child(in_jax):
    with open_file(in_jax.__file__, timeout=300) as session:
        names = [sketch.name for sketch in session.sketches()]
        (answer,) = session.target("compiled_attention").perform([Call((heads(4), heads(5), heads(5)))])
    assert {"right_attention", "compiled_attention"} <= set(names)
    exact = nn.functional.scaled_dot_product_attention(heads(4), heads(5), heads(5))
    torch.testing.assert_close(answer.result, exact, rtol=1e-4, atol=1e-5)


# Modules: flax and Keras


def linen_layer():
    from flax import linen

    return linen.MultiHeadDotProductAttention(num_heads=4)


def linen_layer_of_two():
    from flax import linen

    return linen.MultiHeadAttention(num_heads=4, dropout_rate=0.5)


def nnx_layer():
    from flax import nnx

    return nnx.MultiHeadAttention(num_heads=4, in_features=32, dropout_rate=0.5, rngs=nnx.Rngs(0))


def keras_layer():
    import keras

    return keras.layers.MultiHeadAttention(num_heads=4, key_dim=8, dropout=0.5)


def keras_layer_already_built():
    layer = keras_layer()
    layer(tokens(), tokens())
    return layer


MODULES = [
    pytest.param(make, marks=needs(*packages), id=make.__name__)
    for make, packages in (
        (linen_layer, ("jax", "flax")),
        (linen_layer_of_two, ("jax", "flax")),
        (nnx_layer, ("jax", "flax")),
        (keras_layer, ("keras",)),
        (keras_layer_already_built, ("keras",)),
    )
]


@pytest.fixture(params=MODULES)
def module(request):
    return request.param()


def last(module):
    return "attention_output" if type(module).__module__.startswith("keras") else "out"


def expected_output(module, weights, x):
    """Compute the layer by its definition; kernels are [d_model, H, d_head], the last [H, d_head, d_out]."""
    q, k, v = (
        torch.einsum("btm,mhd->bhtd", x, weights[f"{name}.kernel"]) + weights[f"{name}.bias"][:, None]
        for name in ("query", "key", "value")
    )
    output = nn.functional.scaled_dot_product_attention(q, k, v)
    merged = torch.einsum("bhtd,hdm->btm", output, weights[f"{last(module)}.kernel"])
    return merged + weights[f"{last(module)}.bias"]


def test_the_sketch_of_a_module_lists_weights_parts_and_settings(module):
    sketch = LocalTarget(module).sketch
    shapes = {weight.name: weight.shape for weight in sketch.weights}
    for name in ("query", "key", "value"):
        assert shapes[f"{name}.kernel"] == (32, 4, 8)
        assert shapes[f"{name}.bias"] == (4, 8)
    assert shapes[f"{last(module)}.kernel"] == (4, 8, 32)
    assert all(weight.trained for weight in sketch.weights)
    assert {"query", "key", "value", last(module)} <= sketch.parts.keys()
    assert sketch.settings["num_heads"] == 4
    assert sketch.parameters[0].name in {"inputs_q", "query"}


def test_a_module_computes_with_its_own_weights(module):
    target = LocalTarget(module)
    (answer,) = target.perform([Call((tokens(), tokens()))])
    expected = expected_output(module, target.own_weights(), tokens())
    torch.testing.assert_close(answer.result, expected, rtol=1e-4, atol=1e-5)


def test_a_call_with_other_weights_uses_them_and_leaves_the_module_as_it_was(module):
    target = LocalTarget(module)
    own = target.own_weights()
    other = {name: torch.randn(tensor.shape) / 3 for name, tensor in own.items()}
    call = Call((tokens(), tokens()))
    before, changed, after = target.perform([call, Call(call.args, weights=other), call])
    torch.testing.assert_close(changed.result, expected_output(module, other, tokens()), rtol=1e-4, atol=1e-5)
    assert torch.equal(before.result, after.result)
    assert all(torch.equal(tensor, own[name]) for name, tensor in target.own_weights().items())


def test_gradients_reach_arguments_and_weights(module):
    target = LocalTarget(module)
    weights = {name: tensor.clone() for name, tensor in target.own_weights().items()}
    asked = Backward((), torch.ones(2, 5, 32), (0, WEIGHT + "value.kernel"))
    call = Call((tokens(), tokens(seed=1)), weights=weights, backward=asked)
    (answer,) = target.perform([call])
    x = tokens().requires_grad_()
    kernel = weights["value.kernel"].clone().requires_grad_()
    q = torch.einsum("btm,mhd->bhtd", x, weights["query.kernel"]) + weights["query.bias"][:, None]
    memory = tokens(seed=1)
    k = torch.einsum("btm,mhd->bhtd", memory, weights["key.kernel"]) + weights["key.bias"][:, None]
    v = torch.einsum("btm,mhd->bhtd", memory, kernel) + weights["value.bias"][:, None]
    output = nn.functional.scaled_dot_product_attention(q, k, v)
    total = torch.einsum("bhtd,hdm->btm", output, weights[f"{last(module)}.kernel"]).sum()
    expected = torch.autograd.grad(total, [x, kernel])
    torch.testing.assert_close(answer.gradients[0], expected[0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(answer.gradients[WEIGHT + "value.kernel"], expected[1], rtol=1e-3, atol=1e-4)


def test_dropout_follows_mode_and_seed(module):
    if "dropout_rate" in vars(module) and module.dropout_rate == 0:
        pytest.skip("this layer was made without dropout")
    x = (tokens(), tokens())
    calls = [Call(x, training=True, seed=seed) for seed in (1, 1, 2)] + [Call(x), Call(x, seed=5)]
    first, again, other, still, calm = LocalTarget(module).perform(calls)
    assert torch.equal(first.result, again.result)
    assert not torch.equal(first.result, other.result)
    assert torch.equal(still.result, calm.result)
    assert not torch.equal(first.result, still.result)


def test_a_weight_that_a_module_does_not_have_is_said(module):
    call = Call((tokens(), tokens()), weights={"no.kernel": torch.ones(1)})
    (answer,) = LocalTarget(module).perform([call])
    assert "no weight is called no.kernel; there are" in answer.failure.message


@needs("jax", "flax")
def test_linen_weights_follow_the_width_of_the_inputs():
    target = LocalTarget(linen_layer())
    answers = target.perform([Call((tokens(),)), Call((tokens(width=16),))])
    assert [answer.result.shape[-1] for answer in answers] == [32, 16]


@needs("jax", "flax")
def test_what_linen_keeps_beside_parameters_is_a_weight_that_is_not_trained():
    import jax.numpy as jnp
    from flax import linen

    class Counting(linen.Module):
        @linen.compact
        def __call__(self, x):
            seen = self.variable("counts", "seen", lambda: jnp.zeros((3,)))
            seen.value = seen.value + 1
            return linen.Dense(4)(x) + seen.value[0]

    target = LocalTarget(Counting())
    first, second = target.perform([Call((tokens(),)), Call((tokens(),))])
    assert torch.equal(first.result, second.result)
    assert {w.name: w.trained for w in target.sketch.weights}["counts/seen"] is False


@needs("keras")
def test_parts_of_a_keras_layer_are_called_by_their_attributes():
    import keras

    class Mine(keras.layers.Layer):
        def __init__(self, width):
            super().__init__()
            self.q_proj = keras.layers.Dense(width)
            self.others = [keras.layers.Dense(width), keras.layers.Dense(width, name="named")]

        def call(self, x):
            return self.others[1](self.others[0](self.q_proj(x)))

    layer = Mine(6)
    target = LocalTarget(layer)
    target.perform([Call((tokens(),))])
    kernels = [name for name in target.own_weights() if name.endswith("kernel")]
    assert kernels == ["q_proj.kernel", "others.0.kernel", "named.kernel"]
    assert target.sketch.doc == ""


@needs("keras")
def test_keras_layers_that_draw_by_a_seed_of_their_own_follow_that_of_the_call():
    import keras

    calls = [Call((tokens(),), training=True, seed=seed) for seed in (1, 1, 2)]
    first, again, other = LocalTarget(keras.layers.GaussianNoise(1.0)).perform(calls)
    assert torch.equal(first.result, again.result)
    assert not torch.equal(first.result, other.result)


@needs("keras")
def test_keras_on_another_backend_is_refused_with_what_to_set(monkeypatch):
    import keras

    layer = keras_layer()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(softlookup.SoftlookupError, match="KERAS_BACKEND=torch"):
        LocalTarget(layer)


@needs("keras")
def test_functions_on_keras_ops_are_judged_with_lines(tmp_path):
    text = (
        "from keras import ops\n\n\n"
        "def attention(q, k, v):\n"
        "    scores = ops.matmul(q, ops.swapaxes(k, -1, -2)) / q.shape[-1] ** 0.5\n"
        "    return ops.matmul(ops.softmax(scores, axis={axis}), v)\n"
    )
    right = definitions(text.format(axis=-1), tmp_path, "right_in_keras")
    wrong = definitions(text.format(axis=-2), tmp_path, "wrong_in_keras")
    assert softlookup.check(right.attention).clean
    diagnosis = softlookup.check(wrong.attention)
    assert diagnosis.named() == ["softmax-over-queries"]
    assert diagnosis.findings[0].line == 6


# ONNX

GRAPH = """
<ir_version: 10, opset_import: ["": 20]>
attention (float[batch, heads, queries, width] q, float[batch, heads, keys, width] k,
           float[batch, heads, keys, value_width] v, bool[batch, heads, queries, keys] allowed_mask)
       => (float[batch, heads, queries, value_width] output)
<float half = {{0.5}}, float hidden = {{-inf}}>
{{
    shape = Shape <start: int = 3, end: int = 4> (q)
    width = Cast <to: int = 1> (shape)
    root = Pow (width, half)
    turned = Transpose <perm: ints = [0, 1, 3, 2]> (k)
    scores = MatMul (q, turned)
    scaled = Div (scores, root)
    masked = Where (allowed_mask, scaled, hidden)
    weights = Softmax <axis: int = {axis}> (masked)
    output = MatMul (weights, v)
}}
"""


def onnx_file(folder, axis):
    import onnx

    path = folder / f"attention_{'right' if axis == -1 else 'wrong'}.onnx"
    onnx.save(onnx.parser.parse_model(GRAPH.format(axis=axis)), path)
    return path


@needs("onnx")
@pytest.mark.parametrize("runtime", [True, False], ids=["onnxruntime", "reference"])
def test_an_onnx_model_in_memory_is_judged(runtime, monkeypatch):
    import sys

    import onnx

    if runtime and importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("not installed: onnxruntime")
    if not runtime:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert softlookup.check(onnx.parser.parse_model(GRAPH.format(axis=-1))).clean
    wrong = softlookup.check(onnx.parser.parse_model(GRAPH.format(axis=-2)))
    assert wrong.named() == ["softmax-over-queries"]
    assert not wrong.findings[0].line


@needs("onnx")
def test_an_onnx_file_is_checked_like_any_other(tmp_path):
    from click.testing import CliRunner

    from softlookup.cli import main

    right = CliRunner().invoke(main, ["check", str(onnx_file(tmp_path, -1)), "--timeout", "300"])
    assert right.exit_code == 0, right.output
    assert "attention_right  clean" in right.output
    wrong = CliRunner().invoke(main, ["check", str(onnx_file(tmp_path, -2)), "--timeout", "300"])
    assert wrong.exit_code == 1, wrong.output
    assert "softmax-over-queries" in wrong.output


@needs("onnx")
def test_the_constants_of_an_onnx_model_are_weights_that_a_call_may_choose():
    import numpy as np
    import onnx
    from onnx import numpy_helper

    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20]>\n'
        "layer (float[batch, tokens, 4] x) => (float[batch, tokens, 3] y)\n"
        "{ raw = MatMul (x, kernel)\n moved = Add (raw, bias)\n y = Mul (moved, table) }"
    )
    arrays = {"kernel": np.ones((4, 3)), "bias": np.zeros(3), "table": np.full(3, 2.0)}
    for name, array in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    target = LocalTarget(model)
    assert {(w.name, w.shape, w.trained) for w in target.sketch.weights} == {
        ("kernel", (4, 3), True),
        ("bias", (3,), True),
        ("table", (3,), False),
    }
    x = tokens(width=4)
    calls = [Call((x,)), Call((x,), weights={"kernel": torch.zeros(4, 3), "bias": torch.ones(3)}), Call((x,))]
    own, other, again = target.perform(calls)
    torch.testing.assert_close(own.result, 2 * x.sum(-1, keepdim=True).expand(2, 5, 3))
    torch.testing.assert_close(other.result, torch.full((2, 5, 3), 2.0))
    assert torch.equal(own.result, again.result)
    assert not callee_of(model).differentiable


@needs("onnx", "onnxscript")
def test_what_torch_exports_to_onnx_is_judged():
    class Attention(nn.Module):
        def forward(self, q, k, v):
            return (q @ k.transpose(-2, -1)).softmax(-1) @ v

    size = torch.export.Dim
    names = ("batch", "heads", "queries", "keys", "width", "value_width")
    b, h, tq, tk, d, dv = (size(name, min=1, max=4096) for name in names)
    exported = torch.onnx.export(
        Attention().eval(),
        (heads(4), heads(5), heads(5, 6)),
        dynamic_shapes={
            "q": {0: b, 1: h, 2: tq, 3: d},
            "k": {0: b, 1: h, 2: tk, 3: d},
            "v": {0: b, 1: h, 2: tk, 3: dv},
        },
        dynamo=True,
        verbose=False,
    )
    assert softlookup.check(exported).named() == ["scale-missing"]
