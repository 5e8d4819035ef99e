"""The right modules behind the corpus: held against a plain computation in float64 with their own weights."""

from __future__ import annotations

import pytest
import torch
from module_asks import asks, other_neighbours, other_padding
from module_driving import STYLES
from module_observing import (
    close,
    evaluated,
    kept,
    leaks_nan,
    observe,
    real_queries,
    right_module,
    same_outputs,
    seen_right,
    trained,
)
from patching import MODULES

torch.set_num_threads(1)
DROPPING = [name for name, style in STYLES.items() if style.training]
PADDED = [name for name, style in STYLES.items() if "keys" in style.can]
ISOLATED = [name for name, style in STYLES.items() if "isolated" in style.can]


def test_every_style_file_is_driven() -> None:
    assert {path.stem for path in MODULES.glob("*.py")} == set(STYLES)


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_style_answers_like_the_plain_computation_with_its_weights(name: str, dtype: torch.dtype) -> None:
    style = STYLES[name]
    exact = dtype == torch.float64 and not style.rotary and not style.bias  # both compute angles in float32
    tolerance = 1e-9 if exact else 1e-3
    for ask in asks(style):
        ask = ask.to(dtype)
        layer = style.build(right_module(name), ask)
        right, right_weights = style.right(layer, ask)
        real = real_queries(name, ask)
        outputs, weights = style.call(layer, ask)
        for output in outputs:
            assert torch.allclose(output.double()[real], right[real], rtol=tolerance, atol=tolerance), (
                ask.name
            )
        if weights is not None:
            rows = real[:, None].expand(weights.shape[:3])
            assert torch.allclose(
                weights.double()[rows], right_weights[rows], rtol=tolerance, atol=tolerance
            ), ask.name


@pytest.mark.parametrize("name", STYLES)
def test_a_style_has_the_plain_computations_gradients_and_leaves_its_inputs_alone(name: str) -> None:
    style = STYLES[name]
    for ask, seen in zip(asks(style), seen_right(name), strict=True):
        assert not seen.failure and not seen.changed, ask.name  # noqa: PT018
        leaves = [x.double().requires_grad_() for x in (ask.x, ask.memory) if x is not None]
        exact = ask.to(torch.float64).but(**dict(zip(("x", "memory"), leaves, strict=False)))
        real = real_queries(name, ask)
        slope = torch.linspace(-1, 2, seen.outputs[0].numel()).view(seen.outputs[0].shape) * real[..., None]
        right = style.right(style.build(right_module(name), exact), exact)[0]
        expected = torch.autograd.grad((right * slope).sum(), leaves)
        inputs = [x.clone().requires_grad_() for x in (ask.x, ask.memory) if x is not None]
        asked = ask.but(**dict(zip(("x", "memory"), inputs, strict=False)))
        for output in style.call(style.build(right_module(name), asked), asked)[0]:
            found = torch.autograd.grad((output * slope).sum(), inputs, retain_graph=True)
            for mine, theirs in zip(found, expected, strict=True):
                loud = 1e-3 * float(theirs.abs().max())
                assert torch.allclose(mine.double(), theirs, rtol=1e-3, atol=1e-3 + loud), ask.name


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_style_runs_in_half_precision(name: str, dtype: torch.dtype) -> None:
    style = STYLES[name]
    for ask in asks(style):
        if "large" in ask.name:
            continue  # the scores themselves are rounded to whole numbers
        half = ask.to(dtype)
        layer = style.build(right_module(name), half)
        right = style.right(layer, half)[0][real_queries(name, ask)]
        for output in style.call(layer, half)[0]:
            assert output.dtype == dtype
            error = (output.double()[real_queries(name, ask)] - right).abs().max()
            assert error < 40 * torch.finfo(dtype).eps * (1 + right.abs().max()), ask.name


@pytest.mark.parametrize("name", STYLES)
def test_a_style_reads_strided_inputs_and_does_not_mix_samples(name: str) -> None:
    style = STYLES[name]
    for ask, plain, strided in zip(asks(style), seen_right(name), seen_right(name, True), strict=True):
        assert same_outputs(plain, strided), ask.name
        moved = observe(style, right_module(name), other_neighbours(ask))
        assert close(plain.outputs[0][0], moved.outputs[0][0]), ask.name


@pytest.mark.parametrize("name", PADDED)
def test_padding_does_not_reach_real_tokens(name: str) -> None:
    style = STYLES[name]
    for ask, seen in zip(asks(style), seen_right(name), strict=True):
        padded = other_padding(ask)
        if padded is not None:
            assert kept(name, ask, seen, observe(style, right_module(name), padded)), ask.name


@pytest.mark.parametrize("name", ISOLATED)
def test_an_isolating_style_keeps_hidden_nan_out(name: str) -> None:
    assert not leaks_nan(name, right_module(name))


@pytest.mark.parametrize("name", DROPPING)
def test_dropout_is_active_in_training_alone_and_right_on_average(name: str) -> None:
    style = STYLES[name]
    ask = asks(style)[0]
    many = ask.but(x=ask.x[:1].expand(4000, -1, -1))
    if ask.memory is not None:
        many = many.but(memory=ask.memory[:1].expand(4000, -1, -1))
    eval_output = evaluated(style, right_module(name), many, 1)[0]
    assert torch.equal(eval_output, evaluated(style, right_module(name), many, 2)[0])
    output = trained(style, right_module(name), many)
    assert not close(output, eval_output)
    if name != "post_norm_residual":  # the mean of norms is not the norm of the mean
        spread = output.std(dim=0).max()
        assert (output.mean(dim=0) - eval_output[0]).abs().max() < 5 * spread / 4000**0.5
    assert close(trained(style, right_module(name), ask, rate=0.0), seen_right(name)[0].outputs[0])
