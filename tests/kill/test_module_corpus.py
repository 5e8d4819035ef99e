"""The corpus of modules: each patch fits, and each mutant shows what it should."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
import torch
from driving import load
from module_asks import asks, other_neighbours, other_padding
from module_calls import Ask
from module_driving import STYLES
from module_mutants import MUTANTS, PAIRS_ACROSS, build, build_all, mutant_of
from module_observing import (
    close,
    evaluated,
    kept,
    leaks_nan,
    observe,
    real_queries,
    right_module,
    same_gradients,
    same_outputs,
    seen_right,
    trained,
    watched,
)
from module_plain import allowed_of
from patching import MODULES, accepted_lines, apply, patch, source

torch.set_num_threads(1)
ALL = [(rule, mutant.style) for rule, patches in MUTANTS.items() for mutant in patches]

#: Rules that do not show in the outputs of one plain call in eval mode, and how they show instead.
SHOWN_BY = {
    "gradient-wrong": "gradients",
    "empty-row-nan-gradient": "gradients",
    "weights-averaged": "weights",
    "caller-mask-changed": "inputs",
    "dropout-in-eval": "repetition",
    "dropout-inactive": "training",
    "dropout-before-softmax": "training",
    "dropout-on-output": "training",
    "non-contiguous-misread": "strides",
    "mask-overflows-half": "half",
    "error-above-plain": "error",
    "hidden-nan-leaks": "hidden nan",
    "batch-neighbours-leak": "neighbours",
    "padding-changes-output": "padding",
    "path-mismatch": "paths",
}


def wrong_module(rule: str, style: str, folder: Path) -> ModuleType:
    return load(build(rule, style, folder)[0])


def test_every_rule_that_a_module_can_show_has_mutants() -> None:
    catalogue = (Path(__file__).parents[2] / "src/softlookup/checker/rules").glob("sl*.py")
    names = {path.stem.split("_", 1)[1].replace("_", "-") for path in catalogue}
    # These take a model, or a sequence of calls: the catalogue of rules marks them M alone.
    for_models = {"rope-offset-ignored", "left-padding-shifts-positions", "cache-mask-misaligned"}
    assert names - for_models <= set(MUTANTS), names - for_models - set(MUTANTS)


@pytest.mark.parametrize("rule", MUTANTS)
def test_every_rule_is_written_in_three_styles_or_more(rule: str) -> None:
    styles = [mutant.style for mutant in MUTANTS[rule]]
    assert len(set(styles)) == len(styles)
    assert len(styles) >= 3


@pytest.mark.parametrize(("rule", "style"), ALL)
def test_a_patch_fits_once_and_marks_one_line(rule: str, style: str, tmp_path: Path) -> None:
    path, line = build(rule, style, tmp_path)
    text = path.read_text()
    marked = text.splitlines()[line - 1]
    assert marked.endswith("# bug")
    assert marked.removesuffix("# bug").strip()
    assert line in accepted_lines(path)
    assert re.sub(r"  # (bug|shows)", "", text) != source(style, MODULES)
    compile(text, str(path), "exec")


def test_a_patch_that_fits_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="expected once"):
        apply(source("vit_qkv", MODULES), patch("vit_qkv", "self.scale", "self.factor"))


FORWARD = [(rule, style) for rule, style in ALL if rule not in SHOWN_BY]


def shown_by(respect: str) -> list[tuple[str, str]]:
    return [(rule, style) for rule, style in ALL if SHOWN_BY.get(rule) == respect]


@pytest.mark.parametrize(("rule", "style"), FORWARD)
def test_a_mutant_answers_otherwise(rule: str, style: str, tmp_path: Path) -> None:
    wrong = wrong_module(rule, style, tmp_path)
    assert any(
        not seen.failure and not same_outputs(seen, right)
        for seen, right in zip(watched(style, wrong), seen_right(style), strict=True)
    ), "no ask runs and differs"


@pytest.mark.parametrize(("rule", "style"), shown_by("gradients"))
def test_a_wrong_gradient_stands_behind_a_right_output(rule: str, style: str, tmp_path: Path) -> None:
    wrong = watched(style, wrong_module(rule, style, tmp_path), backward=True)
    expected = seen_right(style, backward=True)
    for ask, seen, right in zip(asks(STYLES[style]), wrong, expected, strict=True):
        assert same_outputs(seen, right), ask.name
    broken = [seen for seen, right in zip(wrong, expected, strict=True) if not same_gradients(seen, right)]
    assert broken
    if rule == "empty-row-nan-gradient":
        assert all(any(g.isnan().any() for g in (seen.gradients or {}).values()) for seen in broken)


@pytest.mark.parametrize(("rule", "style"), shown_by("weights"))
def test_averaged_weights_have_no_head_axis(rule: str, style: str, tmp_path: Path) -> None:
    for seen, right in zip(
        watched(style, wrong_module(rule, style, tmp_path)), seen_right(style), strict=True
    ):
        assert same_outputs(seen, right)
        assert seen.weights is not None
        assert right.weights is not None
        assert close(seen.weights, right.weights.mean(dim=1))


@pytest.mark.parametrize(("rule", "style"), shown_by("inputs"))
def test_a_changed_input_is_seen(rule: str, style: str, tmp_path: Path) -> None:
    wrong = watched(style, wrong_module(rule, style, tmp_path))
    assert any(seen.changed for seen in wrong)
    for seen, right in zip(wrong, seen_right(style), strict=True):
        assert seen.failure or same_outputs(seen, right)


@pytest.mark.parametrize(("rule", "style"), shown_by("repetition"))
def test_dropout_in_eval_gives_two_answers(rule: str, style: str, tmp_path: Path) -> None:
    wrong, ask = wrong_module(rule, style, tmp_path), asks(STYLES[style])[0]
    one, other = (evaluated(STYLES[style], wrong, ask, seed)[0] for seed in (1, 2))
    assert not close(one, other)


@pytest.mark.parametrize(("rule", "style"), shown_by("training"))
def test_misplaced_dropout_shows_in_training_alone(rule: str, style: str, tmp_path: Path) -> None:
    wrong, ask = wrong_module(rule, style, tmp_path), asks(STYLES[style])[0]
    for seen, right in zip(watched(style, wrong), seen_right(style), strict=True):
        assert same_outputs(seen, right)
    output = trained(STYLES[style], wrong, ask)
    assert not close(output, trained(STYLES[style], right_module(style), ask))
    assert close(output, seen_right(style)[0].outputs[0]) == (rule == "dropout-inactive")


@pytest.mark.parametrize(("rule", "style"), shown_by("strides"))
def test_strides_alone_are_misread(rule: str, style: str, tmp_path: Path) -> None:
    wrong = wrong_module(rule, style, tmp_path)
    for ask, seen, right in zip(asks(STYLES[style]), watched(style, wrong), seen_right(style), strict=True):
        assert same_outputs(seen, right), ask.name
        assert not same_outputs(observe(STYLES[style], wrong, ask, strided=True), right), ask.name


@pytest.mark.parametrize(("rule", "style"), shown_by("half"))
def test_a_fill_too_large_for_float16_fails_there_alone(rule: str, style: str, tmp_path: Path) -> None:
    wrong = wrong_module(rule, style, tmp_path)
    failed = []
    for ask, right in zip(asks(STYLES[style]), seen_right(style), strict=True):
        real = real_queries(style, ask) & allowed_of(STYLES[style], ask).any(dim=-1)[:, 0]
        seen = observe(STYLES[style], wrong, ask)
        assert close(seen.outputs[0][real], right.outputs[0][real]), ask.name
        half = observe(STYLES[style], wrong, ask.to(torch.float16))
        failed.append(bool(half.failure) or not half.outputs[0][real].isfinite().all())
    assert any(failed)


@pytest.mark.parametrize(("rule", "style"), shown_by("error"))
def test_sums_in_bfloat16_lose_more_than_the_plain_formula(rule: str, style: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    driven = STYLES[style]
    options = {"block_size": 600} if style == "head_list" else {}
    long = Ask("long", torch.randn(1, 600, driven.d_model) + 1, options=options).to(torch.bfloat16)
    errors = []
    for module in (right_module(style), wrong_module(rule, style, tmp_path)):
        layer = driven.build(module, long)
        right = driven.right(layer, long)[0]
        errors.append(float((driven.call(layer, long)[0][0].double() - right).detach().abs().mean()))
    assert errors[1] > 2 * errors[0]


@pytest.mark.parametrize(("rule", "style"), shown_by("hidden nan"))
def test_hidden_nan_comes_through(rule: str, style: str, tmp_path: Path) -> None:
    wrong = wrong_module(rule, style, tmp_path)
    assert leaks_nan(style, wrong)
    for seen, right in zip(watched(style, wrong), seen_right(style), strict=True):
        assert same_outputs(seen, right)


@pytest.mark.parametrize(("rule", "style"), shown_by("neighbours"))
def test_a_neighbour_changes_the_first_sample(rule: str, style: str, tmp_path: Path) -> None:
    wrong, ask = wrong_module(rule, style, tmp_path), asks(STYLES[style])[0]
    one, other = (observe(STYLES[style], wrong, asked) for asked in (ask, other_neighbours(ask)))
    assert not close(one.outputs[0][0], other.outputs[0][0])


@pytest.mark.parametrize(("rule", "style"), shown_by("padding"))
def test_what_lies_in_the_padding_changes_real_tokens(rule: str, style: str, tmp_path: Path) -> None:
    wrong = wrong_module(rule, style, tmp_path)
    padded = [(ask, other) for ask in asks(STYLES[style]) if (other := other_padding(ask)) is not None]
    seen = [(ask, *(observe(STYLES[style], wrong, it) for it in (ask, other))) for ask, other in padded]
    assert not all(kept(style, ask, one, other) for ask, one, other in seen)


@pytest.mark.parametrize(("rule", "style"), shown_by("paths"))
def test_one_of_two_paths_is_right(rule: str, style: str, tmp_path: Path) -> None:
    driven, ask = STYLES[style], asks(STYLES[style])[0]
    wrong, right = wrong_module(rule, style, tmp_path), seen_right(style)[0].outputs[0]
    layer = driven.build(wrong, ask)
    paths = [*driven.call(layer, ask)[0], driven.call(layer.train(), _without_dropout(layer, ask))[0][0]]
    assert any(close(path, right) for path in paths)
    assert not all(close(path, right) for path in paths)


@pytest.mark.parametrize(("rules", "style"), PAIRS_ACROSS)
def test_a_pair_shows_more_than_either_bug(rules: tuple[str, str], style: str, tmp_path: Path) -> None:
    path, lines = build_all(rules, style, tmp_path)
    assert len(lines) == 2
    both = watched(style, load(path))
    for rule in rules:
        alone = watched(style, wrong_module(rule, style, tmp_path))
        assert any(
            not seen.failure and not same_outputs(seen, single)
            for seen, single in zip(both, alone, strict=True)
        ), f"{rule} hides the other bug"


def test_there_are_twelve_pairs_of_rules_from_different_steps() -> None:
    assert len({frozenset(rules) for rules, _ in PAIRS_ACROSS}) >= 12
    for rules, style in PAIRS_ACROSS:
        assert all(mutant_of(rule, style) for rule in rules)


def _without_dropout(layer: torch.nn.Module, ask: Ask) -> Ask:
    for part in layer.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return ask
