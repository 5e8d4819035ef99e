"""The corpus itself: right files are right, each patch fits, and each mutant shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from driving import STYLES, cases, expected, load
from module_mutants import MUTANTS as MODULE_MUTANTS
from mutants import EXPECT_UNRECOGNISED, FAMILIES, MUTANTS, PAIRS, build, build_all, mutant_of
from observing import Seen, differ, gradients, in_dtype, loudness, observe, same, with_hidden_nan
from patching import FOLDER, accepted_lines, apply, lines_with, patch, source

from softlookup.terms import Case

torch.set_num_threads(1)
ALL = [(rule, m.style) for rule, patches in (MUTANTS | EXPECT_UNRECOGNISED).items() for m in patches]
#: Rules of which fewer than three styles make sense: the argument or layout they misread exists in two files.
FEWER_STYLES = {"documents-leak": 2, "alibi-sign-flipped": 2, "heads-attend-to-heads": 2}


# ---- the right files


def test_every_style_file_is_driven() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(STYLES)


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_style_answers_like_pytorch(name: str, dtype: torch.dtype) -> None:
    style, module = STYLES[name], load(FOLDER / f"{name}.py")
    for case in cases(style):
        case = in_dtype(case, dtype)
        outputs, weights = style.call(module, case)
        right = expected(case, style)
        tolerance = 1e-10 if dtype == torch.float64 else 1e-4
        for output in outputs:
            assert torch.allclose(output, right, rtol=tolerance, atol=tolerance / 10), case.name
        if weights is not None:
            heads = case.v.repeat_interleave(case.q.shape[1] // case.v.shape[1], dim=1)
            assert torch.allclose(weights @ heads, right, rtol=tolerance, atol=tolerance / 10), case.name


@pytest.mark.parametrize("name", STYLES)
def test_a_style_has_pytorchs_gradients_and_leaves_its_inputs_alone(name: str) -> None:
    style, module = STYLES[name], load(FOLDER / f"{name}.py")
    for case in cases(style):
        case = in_dtype(case, torch.float64)
        seen = observe(module, style, case)
        right = gradients(expected, case, style)
        assert not seen.changed, case.name
        for mine, theirs in zip(seen.gradients, right, strict=True):
            assert torch.isfinite(mine).all(), case.name
            assert torch.allclose(mine, theirs, rtol=1e-8, atol=1e-9), case.name


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_style_keeps_half_precision_as_exact_as_the_plain_formula(name: str, dtype: torch.dtype) -> None:
    style, module = STYLES[name], load(FOLDER / f"{name}.py")
    for case in cases(style):
        case = in_dtype(case, dtype)
        right = expected(in_dtype(case, torch.float64), style)
        for output in style.call(module, case)[0]:
            assert output.dtype == dtype
            assert (output.double() - right).abs().max() < 16 * torch.finfo(dtype).eps * (
                1 + loudness(case)
            ), case.name


@pytest.mark.parametrize("name", [name for name, style in STYLES.items() if "isolated" in style.features])
def test_an_isolating_style_keeps_hidden_nan_out(name: str) -> None:
    style, module = STYLES[name], load(FOLDER / f"{name}.py")
    for case in cases(style):
        poisoned = with_hidden_nan(case)
        if poisoned is not None:
            output = style.call(module, poisoned)[0][0]
            if case.document_ids is not None:  # its own document may see the last key
                output = output.mT[..., case.document_ids[0] != case.document_ids[0, -1]][:1]
            assert torch.isfinite(output).all(), case.name


# ---- the patches


def test_every_rule_has_mutants_among_functions_or_modules() -> None:
    catalogue = (Path(__file__).parents[2] / "src/softlookup/checker/rules").glob("sl*.py")
    names = {path.stem.split("_", 1)[1].replace("_", "-") for path in catalogue}
    wild = json.loads((Path(__file__).parents[1] / "wild" / "expected_modules.json").read_text())
    reports = {name for entry in wild for name in (entry["expect"], *entry.get("accept", ()))}
    shown = {*MUTANTS, *MODULE_MUTANTS} | reports
    assert names <= shown, names - shown


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_written_in_three_styles_or_more(family: str) -> None:
    assert len({m.style for patches in FAMILIES[family].values() for m in patches}) >= 3


@pytest.mark.parametrize("rule", MUTANTS)
def test_every_rule_is_written_in_three_styles_where_three_can_hold_it(rule: str) -> None:
    styles = [m.style for m in MUTANTS[rule]]
    assert len(set(styles)) == len(styles)
    assert len(styles) >= FEWER_STYLES.get(rule, 3)


@pytest.mark.parametrize(("rule", "style"), ALL)
def test_a_patch_fits_once_and_marks_one_line(rule: str, style: str, tmp_path: Path) -> None:
    path, line = build(rule, style, tmp_path)
    assert path.read_text().splitlines()[line - 1].endswith("# bug")
    assert line in accepted_lines(path)
    assert re.sub(r"  # (bug|shows)", "", path.read_text()) != source(style)


def test_a_patch_that_fits_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="expected once"):
        apply(source("loops"), patch("loops", "positions", "places"))


@pytest.mark.parametrize(("rule", "style"), ALL)
def test_a_mutant_can_be_told_from_the_right_file(rule: str, style: str, tmp_path: Path) -> None:
    right, wrong = load(FOLDER / f"{style}.py"), load(build(rule, style, tmp_path)[0])
    dtype = mutant_of(rule, style).dtype or "float32"
    assert differ(right, wrong, STYLES[style], dtype), f"{rule} in {style} changes nothing"


@pytest.mark.parametrize(("rules", "style"), PAIRS)
def test_a_pair_shows_more_than_either_bug(rules: tuple[str, str], style: str, tmp_path: Path) -> None:
    path, lines = build_all(rules, style, tmp_path)
    assert len(lines) == 2
    assert lines_with(path.read_text(), "# bug") == list(lines)
    both = load(path)
    for rule in rules:
        alone = load(build(rule, style, tmp_path)[0])
        assert differ(alone, both, STYLES[style]), f"{rule} hides the other bug"


def test_low_precision_sums_are_far_beyond_the_plain_formula(tmp_path: Path) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 16) for n in (8, 512, 512))
    case = Case(q / 4, k / 4, v + 1, name="long")
    exact = expected(in_dtype(case, torch.float64), STYLES["einsum_bhtd"])
    half = in_dtype(case, torch.bfloat16)
    plain = (half.q @ half.k.mT / 4).softmax(-1) @ half.v
    floor = (plain.double() - exact).abs().mean()
    for mutant in MUTANTS["error-above-plain"]:
        style = STYLES[mutant.style]
        right = style.call(load(FOLDER / f"{mutant.style}.py"), half)[0][0]
        wrong = style.call(load(build("error-above-plain", mutant.style, tmp_path)[0]), half)[0][0]
        assert (right.double() - exact).abs().mean() < 1.5 * floor, mutant.style
        assert (wrong.double() - exact).abs().mean() > 3 * floor, mutant.style


def watched(rule: str, tmp_path: Path) -> list[tuple[Case, Seen, Seen]]:
    """Return every case with what the right file and the mutant of this rule show, over all styles."""
    found = []
    for mutant in MUTANTS[rule]:
        style, right = STYLES[mutant.style], load(FOLDER / f"{mutant.style}.py")
        wrong = load(build(rule, mutant.style, tmp_path)[0])
        seen = [(case, observe(right, style, case), observe(wrong, style, case)) for case in cases(style)]
        assert rule in QUIET or not all(same(one, other) for _, one, other in seen), mutant.style
        found += seen
    return found


#: Rules that the plain cases in float32 do not show: they take strides or half precision.
QUIET = {"non-contiguous-misread", "mask-overflows-half"}


def test_nan_of_empty_rows_stays_in_empty_rows(tmp_path: Path) -> None:
    for case, right, wrong in watched("empty-row-nan", tmp_path):
        nan = wrong.tensors[0].isnan().any(dim=-1)
        assert (right.tensors[0][nan] == 0).all(), case.name
        assert torch.allclose(wrong.tensors[0][~nan], right.tensors[0][~nan]), case.name


def test_nan_gradients_stand_behind_finite_outputs(tmp_path: Path) -> None:
    for case, right, wrong in watched("empty-row-nan-gradient", tmp_path):
        assert torch.allclose(wrong.tensors[0], right.tensors[0], atol=1e-6), case.name
        assert same(right, wrong) or any(g.isnan().any() for g in wrong.gradients), case.name


def test_wrong_gradients_stand_behind_right_outputs(tmp_path: Path) -> None:
    for case, right, wrong in watched("gradient-wrong", tmp_path):
        assert torch.equal(wrong.tensors[0], right.tensors[0]), case.name


def test_changed_inputs_are_seen(tmp_path: Path) -> None:
    assert any(
        wrong.changed and not right.changed for _, right, wrong in watched("caller-mask-changed", tmp_path)
    )


@pytest.mark.parametrize("rule", sorted(QUIET))
def test_what_takes_strides_or_half_precision_is_right_otherwise(rule: str, tmp_path: Path) -> None:
    for case, right, wrong in watched(rule, tmp_path):
        assert same(right, wrong), case.name
