"""attend inside torch.compile, torch.func, autocast and inference_mode: the answers of a plain call."""

import gc
import shutil
from functools import partial

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from softlookup import SoftlookupError, scaled_dot_product_attention
from softlookup.fused import attend, attend_with_lse
from softlookup.fused.compiled import look_up_numbered, look_up_numbered_backward
from softlookup.fused.planning import plan_of_mask
from softlookup.fused.running import run
from softlookup.masks import alibi, causal, chunked, dilated, documents, padding, prefix_lm, sliding_window

MASKS = [
    None,
    causal(),
    causal("bottom-right") & padding([40, 100]),
    sliding_window(9),
    sliding_window(9) | padding(2),
    prefix_lm([3, 80]),
    documents(torch.arange(100).expand(2, 100) // 30) & causal(),
    chunked(32),
    dilated(3, 2),
    alibi(4) & causal(),
]
OPTIONS = {"fullgraph": True, "backend": "aot_eager"}


@pytest.fixture(autouse=True)
def forget_what_was_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def qkv(T=100, *lead, dtype=torch.float32):
    generator = torch.Generator().manual_seed(T)
    return [torch.randn(*lead, 2, 4, T, 8, generator=generator).to(dtype).requires_grad_() for _ in range(3)]


def with_gradients(function, *inputs):
    """Return the output of a function and the gradients of its inputs."""
    output = function(*inputs)
    return output, *torch.autograd.grad(output.sin().sum(), inputs)


def assert_close(found, wanted):
    for mine, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-5, atol=1e-5)


# torch.compile


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_a_compiled_call_is_one_graph_with_the_same_answers(mask):
    def layer(q, k, v):
        return attend(q * 2, k, v, mask) + 1

    compiled = torch.compile(layer, **OPTIONS)
    assert_close(with_gradients(compiled, *qkv()), with_gradients(layer, *qkv()))


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_the_log_sum_exp_is_compiled_too(mask):
    compiled = torch.compile(lambda q, k, v: attend_with_lse(q, k, v, mask), **OPTIONS)
    output, lse = compiled(*qkv())
    assert_close((output, lse), attend_with_lse(*qkv(), mask))
    assert output.requires_grad
    assert not lse.requires_grad


def test_a_new_mask_in_a_compiled_function_is_a_new_answer():
    compiled = torch.compile(attend, **OPTIONS)
    tensors = qkv()
    for mask in (sliding_window(3), sliding_window(4), causal(), None, padding([3, 5]), sliding_window(3)):
        found = with_gradients(partial(compiled, mask=mask), *tensors)
        assert_close(found, with_gradients(partial(attend, mask=mask), *tensors))


def test_lengths_may_stay_open_in_one_graph():
    mask, counter = sliding_window(9) & causal(), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(partial(attend, mask=mask), fullgraph=True, backend=counter)
    for T in (100, 120, 37, 300):
        tensors = qkv(T)
        for x in tensors:
            torch._dynamo.mark_dynamic(x, 2)
        assert_close(with_gradients(compiled, *tensors), with_gradients(partial(attend, mask=mask), *tensors))
        if T == 100:
            graphs = counter.frame_count
    assert counter.frame_count == graphs >= 1


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_tensor_may_be_the_mask_of_a_compiled_function(kind):
    some = torch.randn(4, 100, 100)
    allowed = (some < 0) | torch.eye(100, dtype=torch.bool) if kind == "bool" else some
    compiled = torch.compile(attend, **OPTIONS)
    for mask in (allowed, allowed.flip(-1).flip(-2)):
        found = with_gradients(partial(compiled, mask=mask), *qkv())
        assert_close(found, with_gradients(partial(attend, mask=mask), *qkv()))


def test_empty_rows_of_a_tensor_are_zero_when_compiled():
    hidden = torch.zeros(100, 100, dtype=torch.bool)
    assert (torch.compile(attend, **OPTIONS)(*qkv(), hidden) == 0).all()


def test_empty_rows_of_a_mask_are_refused_when_compiled_too():
    compiled = torch.compile(attend, **OPTIONS)
    with pytest.raises(SoftlookupError, match="400 of 800 rows are empty"):
        compiled(*qkv(), causal() & padding([0, 100]))
    output = compiled(*qkv(), causal() & padding([0, 100]), empty_rows="zero")
    assert (output[0] == 0).all()


@pytest.mark.parametrize(
    ("mask", "words"),
    [(padding([1, 2, 3]), "B = 3"), (alibi(3), "H = 3"), (documents(torch.zeros(2, 99).long()), "99")],
    ids=str,
)
def test_a_mask_of_other_sizes_is_refused_when_compiled_too(mask, words):
    with pytest.raises(SoftlookupError, match=words):
        torch.compile(attend, **OPTIONS)(*qkv(), mask)


def test_a_mask_that_died_is_named_when_its_number_is_used():
    mask, (q, k, v) = sliding_window(3), qkv()
    compiled = torch.compile(attend, **OPTIONS)
    output = compiled(q, k, v, mask)
    number = mask.number
    del mask
    gc.collect()
    with pytest.raises(SoftlookupError, match=f"(?s)is gone.*number {number}.*keep the mask on the module"):
        output.sum().backward()


def described(x):
    return x.shape, x.stride(), x.dtype


@pytest.mark.parametrize("mask", MASKS[2:], ids=repr)
@pytest.mark.parametrize("layout", ["contiguous", "heads last"])
def test_the_operators_keep_the_promises_that_a_compiler_relies_on(mask, layout):
    q, k, v = (x.detach() for x in qkv())
    if layout == "heads last":
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    plan = plan_of_mask(mask, q, k, empty_rows_allowed=False)
    output, lse = run(q, k, v, plan, 0.3)
    calls = {
        look_up_numbered: (q, k, v, mask.number, 0.3, False),
        look_up_numbered_backward: (output, q, k, v, output, lse, mask.number, 0.3),
    }
    for operator, inputs in calls.items():
        if layout == "heads last":  # the layout of a model; slow
            torch.library.opcheck(operator, inputs)
        real = operator(*inputs)
        with torch._subclasses.FakeTensorMode() as mode:
            fake = operator(*(mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs))
        for mine, promised in zip(real, fake, strict=True):
            assert described(mine) == described(promised)


@pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")),
    reason="inductor needs a C++ compiler",
)
def test_inductor_compiles_it_forward_and_backward():
    mask = sliding_window(9)

    def layer(q, k, v):
        return attend(q, k, v, mask) * 2

    assert_close(with_gradients(torch.compile(layer, fullgraph=True), *qkv()), with_gradients(layer, *qkv()))


# torch.func


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_vmap_over_problems_gives_the_answers_one_by_one(mask):
    tensors = [x.detach() for x in qkv(100, 3)]
    found = torch.vmap(lambda q, k, v: attend(q, k, v, mask))(*tensors)
    assert_close(found, [attend(*each, mask) for each in zip(*tensors, strict=True)])


def test_vmap_over_queries_alone_or_another_axis_gives_the_same_answers():
    q, k, v = (x.detach() for x in qkv(100, 3))
    for mask in (None, causal(), sliding_window(9), padding([3, 9])):
        each = torch.vmap(partial(attend, mask=mask), in_dims=(0, None, 3), out_dims=1)
        found = each(q, k[0], v.movedim(0, 3))
        assert_close(found.movedim(1, 0), [attend(q[n], k[0], v[n], mask) for n in range(3)])


@pytest.mark.parametrize("mask", MASKS, ids=repr)
@pytest.mark.filterwarnings("error:There is a performance drop")
def test_vmap_of_a_gradient_gives_the_gradients_one_by_one(mask):
    tensors = [x.detach() for x in qkv(100, 3)]

    def loss(q, k, v):
        return attend(q, k, v, mask).sin().sum()

    found = torch.vmap(torch.func.grad(loss, argnums=(0, 1, 2)))(*tensors)
    for n, each in enumerate(zip(*tensors, strict=True)):
        alone = with_gradients(partial(attend, mask=mask), *map(leaf, each))[1:]
        assert_close([grad[n] for grad in found], alone)


def leaf(x):
    return x.clone().requires_grad_()


def test_a_mask_may_differ_along_the_axis_of_vmap():
    q, k, v = (x.detach() for x in qkv(20, 3))
    allowed = torch.rand(3, 20, 20, generator=torch.Generator().manual_seed(0)) < 0.5
    found = torch.vmap(attend)(q, k, v, allowed)
    assert_close(found, [attend(q[n], k[n], v[n], allowed[n], empty_rows="zero") for n in range(3)])
    grads = torch.vmap(torch.func.grad(lambda *inputs: attend(*inputs).sin().sum()))(q, k, v, allowed)
    for n in range(3):
        alone = partial(attend, mask=allowed[n], empty_rows="zero")
        assert_close([grads[n]], with_gradients(alone, *map(leaf, (q[n], k[n], v[n])))[1:2])


# Modes


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_under_autocast_the_answer_is_that_of_the_lower_dtype(mask):
    q, k, v = qkv()
    with torch.autocast("cpu", torch.bfloat16):
        output = attend(q, k, v, mask)
    assert output.dtype == torch.bfloat16
    assert torch.equal(output, attend(*(x.bfloat16() for x in (q, k, v)), mask))
    grads = torch.autograd.grad(output.float().sin().sum(), (q, k, v))
    right = with_gradients(lambda *x: scaled_dot_product_attention(*x, mask)[0], q, k, v)[1:]
    for mine, exact in zip(grads, right, strict=True):
        assert mine.dtype == torch.float32
        assert (mine - exact).abs().max() < 0.05 * exact.abs().max()


def test_autocast_leaves_float64_alone():
    with torch.autocast("cpu", torch.bfloat16):
        assert attend(*qkv(dtype=torch.float64), sliding_window(3)).dtype == torch.float64


@pytest.mark.parametrize("mask", MASKS, ids=repr)
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_without_gradients_the_bits_are_the_same(mask, mode):
    with mode():
        output = attend(*qkv(), mask)
        compiled = torch.compile(lambda q, k, v: attend(q, k, v, mask), **OPTIONS)(*qkv())
    assert not output.requires_grad
    assert torch.equal(output, attend(*qkv(), mask))
    assert torch.equal(output, compiled)


def test_inputs_of_inference_mode_are_looked_at_outside_of_it():
    with torch.inference_mode():
        q, k, v = (x.detach() for x in qkv())
        mask = documents(torch.arange(100).expand(2, 100) // 30)
    assert attend(q, k, v, mask).shape == q.shape
