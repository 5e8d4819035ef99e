"""The corpus itself: right files are right, each patch fits, and each mutant can be told from the right file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from driving import STYLES, Style, cases, expected, load
from mutants import EXPECT_UNRECOGNISED, FAMILIES, MUTANTS, PAIRS, accepted_lines, build, build_all, mutant_of
from patching import STYLES as FOLDER
from patching import Mutant, apply, lines_with, patch, source
from torch import Tensor

from softlookup.terms import Case

torch.set_num_threads(1)
ALL = [(rule, m.style) for rule, patches in (MUTANTS | EXPECT_UNRECOGNISED).items() for m in patches]
#: Rules of which fewer than three styles make sense: the argument they misread exists in two files.
FEWER_STYLES = {"documents-leak": 2, "alibi-sign-flipped": 2}


def in_dtype(case: Case, dtype: torch.dtype) -> Case:
    bias = None if case.additive_bias is None else case.additive_bias.to(dtype)
    return case.but(q=case.q.to(dtype), k=case.k.to(dtype), v=case.v.to(dtype), additive_bias=bias)


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
            assert (output.double() - right).abs().max() < 16 * torch.finfo(dtype).eps * (1 + loudness(case)), case.name


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


def test_every_rule_that_a_function_can_show_has_mutants() -> None:
    catalogue = (Path(__file__).parents[2] / "src/softlookup/checker/rules").glob("sl*.py")
    names = {path.stem.split("_", 1)[1].replace("_", "-") for path in catalogue}
    assert names <= set(MUTANTS), names - set(MUTANTS)


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
    assert differences(right, wrong, STYLES[style], mutant_of(rule, style)), f"{rule} in {style} changes nothing"


@pytest.mark.parametrize(("rules", "style"), PAIRS)
def test_a_pair_shows_more_than_either_bug(rules: tuple[str, str], style: str, tmp_path: Path) -> None:
    path, lines = build_all(rules, style, tmp_path)
    assert len(lines) == 2
    assert lines_with(path.read_text(), "# bug") == list(lines)
    both = load(path)
    for rule in rules:
        alone = load(build(rule, style, tmp_path)[0])
        assert differences(alone, both, STYLES[style], mutant_of(rule, style)), f"{rule} hides the other bug"


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


# ---- what can be seen of one file


@dataclass(frozen=True)
class Seen:
    """Everything one call shows: outputs and weights, gradients, whether it changed its inputs, or how it failed."""

    tensors: tuple[Tensor, ...] = ()
    gradients: tuple[Tensor, ...] = ()
    changed: bool = False
    failure: str = ""


def observe(module: object, style: Style, case: Case, *, strided: bool = False) -> Seen:
    case = copied(case, strided)
    before = copied(case, False)
    torch.manual_seed(1)
    try:
        outputs, weights = style.call(module, case)  # type: ignore[arg-type]
        run = gradients(lambda c, s: sum(style.call(module, c)[0]), copied(before, strided), style)  # type: ignore
    except (RuntimeError, IndexError, ValueError) as error:
        return Seen(failure=type(error).__name__)
    fields = ("q", "k", "v", "allowed_mask", "additive_bias")
    pairs = [(getattr(case, name), getattr(before, name)) for name in fields if getattr(before, name) is not None]
    changed = not all(torch.equal(now.nan_to_num(), then.nan_to_num()) for now, then in pairs)
    scale = 1 / len(outputs)
    return Seen((*outputs, *([] if weights is None else [weights])), tuple(g * scale for g in run), changed)


def copied(case: Case, strided: bool) -> Case:
    def copy(x: Tensor | None) -> Tensor | None:
        if x is None:
            return None
        return x.mT.contiguous().mT if strided and x.dim() > 2 else x.clone()

    names = ("q", "k", "v", "allowed_mask", "additive_bias")
    return case.but(**{name: copy(getattr(case, name)) for name in names})


def gradients(run: object, case: Case, style: Style) -> tuple[Tensor, ...]:
    leaves = [x.clone().requires_grad_() for x in (case.q, case.k, case.v)]
    q, k, v = (x * 1 for x in leaves)  # not leaves: an in-place change is seen, not refused
    output = run(case.but(q=q, k=k, v=v), style)  # type: ignore[operator]
    torch.manual_seed(2)
    if not output.requires_grad:
        return tuple(torch.zeros_like(x) for x in leaves)
    grads = torch.autograd.grad((output * torch.randn(output.shape)).sum(), leaves, allow_unused=True)
    return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True))


def with_hidden_nan(case: Case) -> Case | None:
    """Return the case with NaN in keys that nobody may see, or None when every key has a viewer.

    Of packed documents the last key is taken: nobody outside its document may see it.
    """
    if case.document_ids is not None:
        last = torch.arange(case.k.shape[2])[:, None] == case.k.shape[2] - 1
        return case.but(k=case.k.masked_fill(last, torch.nan), v=case.v.masked_fill(last, torch.nan))
    if case.allowed_mask is None or case.allowed_mask.shape[2] != 1:
        return None
    hidden = ~case.allowed_mask[:, :, 0, :, None].bool()
    return case.but(k=case.k.masked_fill(hidden, torch.nan), v=case.v.masked_fill(hidden, torch.nan))


def loudness(case: Case) -> float:
    return float((case.q.double() @ case.k.double().repeat_interleave(case.q.shape[1] // case.k.shape[1], 1).mT).abs().max())


def differences(right: object, wrong: object, style: Style, mutant: Mutant) -> list[str]:
    """Return the cases in which the two files can be told apart."""
    found = []
    dtype = getattr(torch, mutant.dtype or "float32")
    for case in cases(style):
        loud = case.but(q=case.q * 1000)
        poisoned = with_hidden_nan(case)
        views = [(case, False), (case, True), (loud, False), *([] if poisoned is None else [(poisoned, False)])]
        for asked, strided in views:
            asked = in_dtype(asked, dtype)
            mine, theirs = observe(right, style, asked, strided=strided), observe(wrong, style, asked, strided=strided)
            if not same(mine, theirs):
                found.append(asked.name)
    return found


def same(one: Seen, other: Seen) -> bool:
    if (one.failure, one.changed) != (other.failure, other.changed):
        return False
    pairs = [(one.tensors, other.tensors), (one.gradients, other.gradients)]
    return all(
        len(a) == len(b) and all(x.shape == y.shape and close(x, y) for x, y in zip(a, b, strict=True)) for a, b in pairs
    )


def close(x: Tensor, y: Tensor) -> bool:
    return torch.allclose(x.double(), y.double(), rtol=1e-4, atol=1e-5, equal_nan=True)
