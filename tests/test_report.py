"""What people and tools are shown: every word of a diagnosis arrives, whatever the terminal can do."""

import io
import json

import pytest
from rich.console import Console

from softlookup.catalog import find_rule, rules
from softlookup.report import as_json, plain_words, rule_page, terminal
from softlookup.report.matrices import as_matrix, beside
from softlookup.terms import Contract, Diagnosis, FileReport, Finding, Skipped

SOURCE = "\n".join(f"line {number} of the source" for number in range(1, 41))
WEIGHTS = {"yours": [[1.0, 0.0], [0.75, 0.75]], "right": [[1.0, 0.0], [0.5, 0.5]]}


def a_finding(**changes):
    fields = {
        "code": "SL211",
        "name": "softmax-over-queries",
        "summary": "the softmax runs over the queries",
        "line": 20,
        "fix": "normalise over the keys",
        "consequence": "early positions starve",
        "evidence": {"case": "B=1 H=1 T_q=2 T_k=2", "weights": WEIGHTS, "largest_error": 0.25},
    }
    return Finding(**{**fields, **changes})


def a_report(*findings, notes=(), verdict="named", contract=None, skipped=()):
    contract = contract or Contract(layout="B H T d", mask="allowed", declared=frozenset({"mask"}))
    diagnosis = Diagnosis("attend", "function", "w.py", 9, contract, verdict, findings, notes)
    return FileReport("w.py", (diagnosis,), skipped, "2.13.0")


def shown(report, width=80, source=SOURCE, **console):
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False, **console).print(
        terminal.file_renderable(report, source)
    )
    return out.getvalue()


def test_a_finding_shows_its_place_cause_consequence_fix_and_page():
    text = shown(a_report(a_finding()))
    for words in (
        "w.py:9",
        "SL211 softmax-over-queries  line 20",
        "the softmax runs over the queries",
        "early positions starve",
        "normalise over the keys",
        "softlookup explain softmax-over-queries",
        "largest error  0.25",
        "B=1 H=1 T_q=2 T_k=2",
    ):
        assert words in text


def test_the_wrong_line_is_marked_between_two_lines_before_and_two_after():
    excerpt = [line for line in shown(a_report(a_finding())).splitlines() if " | line" in line]
    assert [line.strip()[:4] for line in excerpt] == ["18 |", "19 |", "> 20", "21 |", "22 |"]


@pytest.mark.parametrize("line", [1, 40])
def test_an_excerpt_at_the_edge_of_the_file_keeps_to_the_file(line):
    excerpt = [row for row in shown(a_report(a_finding(line=line))).splitlines() if " | line" in row]
    assert len(excerpt) == 3
    assert sum(row.strip().startswith(f"> {line} ") or f"> {line} " in row for row in excerpt) == 1


def test_a_line_that_the_source_no_longer_has_is_left_out():
    assert " | " not in shown(a_report(a_finding(line=99)))


def test_declared_and_measured_are_told_apart():
    declared, measured = plain_words.describe(
        Contract(mask="blocked", window=4, causal="built-in", declared=frozenset({"mask", "window"}))
    )
    assert declared == ["mask: True is hidden", "window of 4 keys, itself included"]
    assert measured == ["always causal"]


def test_every_field_of_the_contract_has_words():
    silent = {"arguments", "declared"}  # the call has a line of its own
    assert set(plain_words._WORDS) | silent == set(Contract.__dataclass_fields__)


def test_what_was_skipped_is_shown_with_the_reason():
    text = shown(a_report(verdict="clean", skipped=(Skipped("main", 33, "takes no tensors"),)))
    assert "main (line 33)  takes no tensors" in text


def test_notes_are_not_findings():
    note = Finding("SL402", "empty-row-uniform", "an empty row averages every value")
    report = a_report(verdict="clean", notes=(note,))
    assert "empty-row-uniform: an empty row averages every value" in shown(report)
    assert terminal.closing_line([report]).plain == "1 target, clean, 1 note"


def test_the_closing_line_counts_targets_and_findings():
    reports = [a_report(a_finding(), a_finding()), a_report(verdict="clean")]
    assert terminal.closing_line(reports).plain == "2 targets, 2 findings"


def test_nothing_found_to_check_is_not_called_clean():
    assert "clean" not in terminal.closing_line([FileReport("w.py", ())]).plain


def test_rows_that_do_not_sum_to_one_show_their_sums():
    text = shown(a_report(a_finding()))
    assert "0.75  0.75  sum 1.50" in text


def test_rows_that_all_sum_to_one_show_no_sums():
    lines = beside(("a", "b"), [[1.0, 0.0], [0.3, 0.7]], [[1.0, 0.0], [0.5, 0.5]], sums=True)
    assert "sum" not in "\n".join(lines)


def test_weight_on_a_hidden_key_is_starred_without_colour():
    lines = beside(("yours", "right"), [[0.6, 0.4]], [[1.0, 0.0]], sums=True)
    assert lines[1].split() == ["0.60", "0.40*", "1.00", "."]


def test_a_difference_smaller_than_two_decimals_gets_more():
    lines = beside(("yours", "right"), [[0.5002]], [[0.5000]], sums=False)
    assert lines[1].split() == ["0.50020", "0.50000"]


def test_matrices_stack_where_they_do_not_fit_beside_each_other():
    lines = beside(("yours", "right"), [[0.5] * 6], [[0.25] * 6], sums=False, width=40)
    assert lines[0] == "yours"
    assert lines[2] == "right"


def test_a_large_matrix_is_cut_with_dots():
    lines = beside(("a", "b"), [[1.0] * 20] * 20, [[1.0] * 20] * 20, sums=False, width=200)
    assert len(lines) == 10
    assert lines[1].count("...") == 2
    assert lines[-1].split() == ["...", "..."]


@pytest.mark.parametrize("value", [None, [], [[]], [1, 2], [[1], [1, 2]], [["x"]], {"a": 1}])
def test_what_is_no_matrix_is_not_drawn(value):
    assert as_matrix(value) is None


def test_evidence_that_is_no_matrix_does_not_stop_the_report():
    text = shown(a_report(a_finding(evidence={"weights": {"yours": None, "right": [[1.0]]}, "kept": [1, 2]})))
    assert "kept" in text
    assert "1, 2" in text


def test_escape_sequences_of_the_checked_file_never_reach_the_terminal():
    source = SOURCE.replace("line 20 of", "\x1b[2J\x1b[31m\u202e of")
    text = shown(a_report(a_finding(summary="bad \x1b[2J words")), source=source)
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize("width", [30, 60, 120])
def test_no_line_is_wider_than_the_terminal(width):
    source = SOURCE.replace("line 20", "x" * 300)
    text = shown(a_report(a_finding()), width=width, source=source)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert "xxx...\n" in text  # and what was cut is said to be cut


def test_our_own_signs_are_ascii():
    text = shown(a_report(a_finding(), skipped=(Skipped("main", 33, "takes no tensors"),)))
    assert text.isascii()


def test_json_has_exactly_the_promised_keys_in_order():
    data = json.loads(as_json.render([a_report(a_finding(), notes=(a_finding(code="SL402"),))]))
    assert list(data) == ["softlookup", "torch", "file", "targets", "skipped"]
    (target,) = data["targets"]
    assert list(target) == ["name", "kind", "line", "contract", "verdict", "findings", "notes"]
    assert list(target["contract"]) == [
        "layout", "mask", "causal", "returns", "empty_rows", "scale", "declared",
    ]  # fmt: skip
    assert list(target["findings"][0]) == ["code", "name", "line", "summary", "fix", "evidence"]
    assert list(target["notes"][0]) == ["code", "name", "summary"]


def test_json_states_the_values_it_was_given():
    data = json.loads(as_json.render([a_report(a_finding())]))
    assert data["torch"] == "2.13.0"
    assert data["targets"][0]["contract"]["mask"] == "allowed"
    assert data["targets"][0]["contract"]["scale"] == "1/sqrt(d_head)"
    assert data["targets"][0]["findings"][0]["evidence"]["weights"] == WEIGHTS


def test_json_has_further_contract_keys_only_when_they_are_known():
    contract = Contract(window=4, scale=0.5)
    data = as_json.file_json(a_report(verdict="clean", contract=contract))
    assert data["targets"][0]["contract"]["window"] == 4
    assert data["targets"][0]["contract"]["scale"] == "0.5"
    assert "corner" not in data["targets"][0]["contract"]


def test_json_writes_nan_as_text_because_json_has_no_nan():
    text = as_json.render([a_report(a_finding(evidence={"output": [[float("nan"), float("-inf")]]}))])
    assert json.loads(text, parse_constant=pytest.fail)["targets"][0]["findings"][0]["evidence"] == {
        "output": [["nan", "-inf"]]
    }


def test_json_of_several_files_is_a_list_under_files():
    data = json.loads(as_json.render([a_report(verdict="clean")] * 2, several=True))
    assert list(data) == ["files"]
    assert [file["file"] for file in data["files"]] == ["w.py", "w.py"]


def test_a_page_has_the_reason_the_fix_and_each_report_on_a_line_of_its_own():
    out = io.StringIO()
    drawing = {"case": "T_q=2 T_k=2", "of": "weights", "wrong": [[0.75, 0.25]], "right": [[0.5, 0.5]]}
    Console(file=out, width=50, color_system=None).print(
        rule_page.page_renderable(find_rule("SL211"), drawing), crop=False
    )
    text = out.getvalue()
    assert "Missed because" in text
    assert "Fix" in text
    assert "0.75  0.25      0.50  0.50" in text
    assert "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146\n" in text


@pytest.mark.parametrize("entry", rules(), ids=lambda entry: entry.name)
def test_the_page_of_a_rule_loses_no_words(entry):
    kept = [*rule_page.introduction(entry), *(entry.part(title) for title in rule_page.PARTS)]
    kept += rule_page.seen_in(entry)
    words = " ".join(kept).replace(",", " ").split()
    written = entry.page.replace(",", " ")
    for title in (*rule_page.PARTS, "Seen in"):
        written = written.replace(f"{title}:", " ")
    assert words == written.split()
