"""Each lint finds the lines of its file in tests/lint that end in ``# wrong``, and no other line there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from softlookup.lint.discover import lints
from softlookup.lint.running import lint_text

TESTS = Path(__file__).parent
CORPUS = TESTS / "lint"
REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
LINTS = {it.name: it for it in lints()}
LEAST_PRECISION = 0.9
#: Public reports that the text shows: the file that writes one afresh -> the lint, and the words of the line.
REPORTS = {
    "b001_softmax_over_queries": ("softmax-not-over-keys", "softmax"),
    "b004_softmax_dim_minus_two": ("softmax-not-over-keys", "softmax"),
    "b006_softmax_on_transposed_map": ("softmax-not-over-keys", "softmax"),
    "b018_fill_lost_its_sign": ("fill-too-small", "full_like"),
    "b019_fill_is_minus_epsilon": ("fill-too-small", "epsilon"),
    "b023_fill_result_discarded": ("mask-result-discarded", "masked_fill"),
    "b024_fill_result_discarded_in_class": ("mask-result-discarded", "masked_fill"),
    "b025_rows_without_media_not_zeroed": ("mask-result-discarded", "masked_fill"),
    "b027_drop_triangle_used_as_keep": ("blocked-mask-given-to-sdpa", "scaled_dot_product_attention"),
    "b028_key_padding_mask_as_attn_mask": ("blocked-mask-given-to-sdpa", "scaled_dot_product_attention"),
    "b036_tilde_on_uint8": ("integer-mask-negated", "~mask"),
    "b074_decode_step_top_left": ("causal-flag-with-one-query", "is_causal"),
    "b099_fill_does_not_fit_half": ("fill-overflows-half", "masked_fill"),
    "b128_values_reshaped_in_place_of_permuted": ("heads-merged-without-transpose", "reshape"),
    "b129_course_code_reshapes_the_heads": ("heads-merged-without-transpose", "reshape"),
    "b188_fused_branch_drops_in_eval": ("dropout-not-gated", "dropout_p"),
    "b189_dropout_promised_for_training_only": ("dropout-not-gated", "dropout_p"),
    "b190_speech_encoder_drops_when_decoding": ("dropout-not-gated", "dropout_p"),
    "b191_drop_rate_on_the_sphere": ("dropout-not-gated", "dropout_p"),
}


def lines_found(text, lint):
    return {it.line for it in lint_text(text, [lint])[0]}


def lines_marked(text):
    return {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# wrong")}


def corpus(name):
    return (CORPUS / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", LINTS)
def test_a_lint_finds_the_wrong_lines_and_leaves_the_right_twins_alone(name):
    text = corpus(name)
    marked = lines_marked(text)
    assert len(marked) >= 3
    assert lines_found(text, LINTS[name]) == marked


@pytest.mark.parametrize("report", REPORTS)
def test_a_public_report_written_afresh_is_found(report):
    text = (TESTS / "wild" / f"{report}.py").read_text(encoding="utf-8")
    name, words = REPORTS[report]
    ((line, lint),) = {(it.line, it.lint) for it in lint_text(text, lints())[0]}
    assert lint == name
    assert any(words in it for it in text.splitlines()[max(0, line - 3) : line])


@pytest.mark.parametrize("folder", ["right", "right_modules"])
def test_right_implementations_have_no_hit(folder):
    files = sorted((TESTS / folder).rglob("*.py"))
    assert len(files) > 10
    hits = {path.name: lint_text(path.read_text(encoding="utf-8"), lints())[0] for path in files}
    assert {name: found for name, found in hits.items() if found} == {}


@pytest.mark.parametrize("name", LINTS)
def test_every_lint_has_a_page_with_a_fix_and_a_report(name):
    lint = LINTS[name]
    assert len(lint.summary) <= 110
    assert lint.summary.endswith(".")
    for part in ("Missed because", "Fix", "Seen in"):
        assert lint.part(part), f"{name} has no paragraph {part}"
    assert "https://" in lint.part("Seen in")


def test_every_corpus_file_belongs_to_a_lint():
    assert {path.stem.replace("_", "-") for path in CORPUS.glob("*.py")} == set(LINTS)


def test_every_hit_on_real_packages_has_been_read():
    hits = json.loads((REFERENCE / "lint-on-real-packages.json").read_text(encoding="utf-8"))["hits"]
    assert hits
    for hit in hits:
        assert hit["right"] in (True, False), f"{hit['file']}:{hit['line']} has no verdict"
        assert hit["why"].endswith("."), f"{hit['file']}:{hit['line']} has no sentence"
        assert hit["lint"] in LINTS


def test_lints_that_are_on_are_right_in_nine_of_ten_hits_on_real_packages():
    hits = json.loads((REFERENCE / "lint-on-real-packages.json").read_text(encoding="utf-8"))["hits"]
    shipped = [hit for hit in hits if LINTS[hit["lint"]].by_default]
    assert sum(hit["right"] for hit in shipped) >= LEAST_PRECISION * len(shipped)
    for name in {hit["lint"] for hit in shipped}:
        own = [hit["right"] for hit in shipped if hit["lint"] == name]
        assert sum(own) >= LEAST_PRECISION * len(own), name


def test_at_least_twenty_packages_were_read():
    packages = json.loads((REFERENCE / "lint-on-real-packages.json").read_text(encoding="utf-8"))["packages"]
    assert len(packages) >= 20
    assert all(it["version"] and it["files"] for it in packages.values())


def test_the_pages_are_those_that_the_code_and_the_verdicts_give():
    script = REFERENCE.parent.parent / "scripts" / "write_lint_docs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
