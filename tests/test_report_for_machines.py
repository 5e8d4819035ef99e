"""Reports that tools read: SARIF held to its published schema, GitHub lines, and a page of its own."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest

from softlookup.catalog import find_rule, rules, variants
from softlookup.report import as_github, as_html, as_sarif
from softlookup.terms import Contract, Diagnosis, FileReport, Finding, Skipped

SCHEMA = json.loads((Path(__file__).parent / "data" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
SOURCE = "import torch\n\n\ndef attend(q, k, v):\n    return q.softmax(-2) @ v\n"
WEIGHTS = {"yours": [[1.0, 0.0], [0.75, 0.75]], "right": [[0.5, 0.5], [0.5, 0.5]]}
EVIL = '<script>alert("1")</script>'


def a_finding(**changes):
    fields = {
        "code": "SL211",
        "name": "softmax-over-queries",
        "summary": "the softmax runs over the queries",
        "line": 5,
        "fix": "normalise over the keys",
        "evidence": {"case": "T_q=2", "weights": WEIGHTS, "largest_error": 0.25},
    }
    return Finding(**{**fields, **changes})


def a_report(*findings, file="src/w.py", name="attend", notes=(), skipped=(), line=4):
    verdict = "named" if findings else "clean"
    contract = Contract(layout="B H T d", mask="allowed", declared=frozenset({"mask"}))
    diagnosis = Diagnosis(name, "function", file, line, contract, verdict, findings, notes)
    return FileReport(file, (diagnosis,), skipped, "2.13.0")


def sarif(*reports, source=SOURCE, root=""):
    """Return the log, after the published schema has accepted it."""
    log = json.loads(as_sarif.render(reports, {report.file: source for report in reports}, root))
    jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(log)
    return log


def results(*reports, **more):
    return sarif(*reports, **more)["runs"][0]["results"]


def fingerprint(*reports, **more):
    return results(*reports, **more)[0]["partialFingerprints"]["softlookup/v1"]


# --- SARIF ---


def test_the_schema_refuses_what_is_no_log():
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(SCHEMA).validate({"version": "2.1.0", "runs": [{"results": [{}]}]})


def test_a_run_without_findings_is_a_log_with_no_results():
    assert results() == []


@pytest.mark.parametrize("entry", [*rules(), *variants()], ids=lambda entry: entry.name)
def test_sarif_of_every_rule_and_variant_fits_the_schema_and_carries_its_page(entry):
    found = a_finding(code=entry.code, name=entry.name)
    report = a_report(notes=(found,)) if entry.code == "variant" else a_report(found)
    (rule,) = sarif(report)["runs"][0]["tool"]["driver"]["rules"]
    assert rule["name"] == entry.name
    assert rule["shortDescription"]["text"] == entry.summary
    assert rule["help"]["text"] == entry.page
    assert entry.part("Fix") in rule["help"]["markdown"]


@pytest.mark.parametrize(("code", "name"), [("SL000", "unrecognised"), ("SL001", "not-callable")])
def test_a_finding_without_a_page_has_a_rule_that_does_not_speak_of_one_file(code, name):
    (rule,) = sarif(a_report(a_finding(code=code, name=name)))["runs"][0]["tool"]["driver"]["rules"]
    assert rule["id"] == code
    assert rule["shortDescription"]["text"] not in {"", a_finding().summary}


def test_a_finding_is_an_error_with_its_line_and_a_note_is_a_note():
    note = a_finding(code="SL402", name="empty-row-uniform", line=None)
    error, noted = results(a_report(a_finding(), notes=(note,)))
    assert (error["ruleId"], error["level"]) == ("SL211", "error")
    assert (noted["ruleId"], noted["level"]) == ("SL402", "note")
    region = error["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 5, "snippet": {"text": "    return q.softmax(-2) @ v"}}


def test_a_finding_without_a_line_points_at_its_target():
    (result,) = results(a_report(a_finding(line=None)))
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 4


def test_a_finding_beyond_the_source_has_no_snippet():
    (result,) = results(a_report(a_finding(line=99)))
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 99}


def test_two_findings_of_one_rule_share_its_descriptor():
    other = a_finding(code="SL201", name="scale-missing")
    run = sarif(a_report(a_finding(), other), a_report(a_finding(), file="b.py"))["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["SL211", "SL201"]
    assert [result["ruleIndex"] for result in run["results"]] == [0, 1, 0]


def test_addresses_are_relative_to_the_checkout_and_quoted():
    (result,) = results(a_report(a_finding(), file="/repo/my src/größe#1.py"), root="/repo")
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "my%20src/gr%C3%B6%C3%9Fe%231.py", "uriBaseId": "%SRCROOT%"}


def test_a_file_outside_the_checkout_keeps_its_whole_address():
    (result,) = results(a_report(a_finding(), file="/else where/w.py"), root="/repo")
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "file:///else%20where/w.py"}


def test_a_fingerprint_survives_moved_lines_and_changes_with_the_line_itself():
    before = fingerprint(a_report(a_finding()))
    moved = fingerprint(a_report(a_finding(line=7)), source="# a\n# b\n" + SOURCE)
    assert moved == before
    assert fingerprint(a_report(a_finding()), source=SOURCE.replace("    return", "\treturn")) == before
    assert fingerprint(a_report(a_finding()), source=SOURCE.replace("-2", "1")) != before
    assert fingerprint(a_report(a_finding(), name="other")) != before


def test_equal_findings_have_fingerprints_of_their_own():
    twice = results(a_report(a_finding(), a_finding()))
    assert len({result["partialFingerprints"]["softlookup/v1"] for result in twice}) == 2


# --- GitHub ---


def test_a_finding_is_an_error_line_of_github_and_a_note_a_notice():
    note = a_finding(code="SL402", name="empty-row-uniform", line=None, fix="")
    error, notice = as_github.render([a_report(a_finding(), notes=(note,))]).splitlines()
    assert error == (
        "::error file=src/w.py,line=5,title=SL211 softmax-over-queries"
        "::attend: the softmax runs over the queries%0AFix: normalise over the keys"
    )
    assert notice.startswith("::notice file=src/w.py,line=4,title=SL402 empty-row-uniform::attend: ")


def test_github_lines_escape_what_would_end_a_property_or_a_line():
    report = a_report(a_finding(summary="50% of\r\n::error::a, b", fix=""), file="a,b:c%.py")
    (line,) = as_github.render([report]).splitlines()
    assert line == (
        "::error file=a%2Cb%3Ac%25.py,line=5,title=SL211 softmax-over-queries"
        "::attend: 50%25 of%0D%0A::error::a, b"
    )


def test_github_paths_are_seen_from_the_checkout():
    assert "file=src/w.py," in as_github.render([a_report(a_finding(), file="/repo/src/w.py")], "/repo")


def test_nothing_found_is_no_github_line():
    assert as_github.render([a_report()]) == ""


# --- HTML ---


class Page(HTMLParser):
    """Collects the elements that are open when the page ends, every tag, attribute and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in {"meta", "link", "img", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"{tag} closes something else"

    def handle_data(self, data):
        self.texts.append(data)


def html(*reports, source=SOURCE, ignored=0):
    return as_html.render(reports, {report.file: source for report in reports}, ignored)


def test_every_element_of_the_page_is_closed():
    skipped = (Skipped("main", 9, "takes no tensors"),)
    note = a_finding(code="SL402", name="empty-row-uniform")
    assert Page(html(a_report(a_finding(), notes=(note,), skipped=skipped), a_report())).open == []


def test_the_page_shows_verdict_contract_source_matrices_facts_and_the_rule():
    page = Page(html(a_report(a_finding(), skipped=(Skipped("main", 9, "takes no tensors"),))))
    text = " ".join(page.texts)
    for words in (
        "1 target, 1 finding",
        "mask: True may be looked at",
        "queries as (B H T d)",
        "> 5 |     return q.softmax(-2) @ v",
        "yours",
        "0.75",
        "sum 1.50",
        "largest error",
        "normalise over the keys",
        find_rule("SL211").part("Missed because"),
        "takes no tensors",
    ):
        assert words in text


def test_weight_on_one_side_only_is_marked_by_a_sign_and_not_by_colour_alone():
    assert '<td class="cell odd" style="--part: 35%">0.50*</td>' in html(a_report(a_finding()))


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_cells_that_are_no_number_are_written(value):
    evidence = {"weights": {"yours": [[value]], "right": [[1.0]]}}
    assert f'style="--part: 0%">{value}</td>' in html(a_report(a_finding(evidence=evidence)))


def test_nothing_of_the_checked_file_becomes_markup():
    finding = a_finding(
        summary=EVIL,
        fix=EVIL,
        name=EVIL,
        consequence=EVIL,
        evidence={EVIL: EVIL, "case": EVIL, "weights": WEIGHTS},
    )
    note = a_finding(name=EVIL, summary=EVIL)
    report = a_report(finding, file=EVIL, name=EVIL, notes=(note,), skipped=(Skipped(EVIL, 1, EVIL),))
    page = Page(html(report, report, source=f"\n\n\n\n{EVIL}\x1b\u202e\n"))
    assert "script" not in page.tags
    assert page.texts.count(EVIL) > 5
    assert not re.search("[\x1b\u202e]", "".join(page.texts))


def test_the_page_loads_nothing_and_runs_nothing():
    page = Page(html(a_report(a_finding())))
    names = {name for name, _ in page.attributes}
    assert not {"src", "srcset", "action"} & names
    assert not {name for name in names if name.startswith("on")}
    assert not {"script", "link", "iframe", "img"} & set(page.tags)
    assert "url(" not in html(a_report(a_finding()))
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_links_of_the_page_lead_to_public_reports_or_inside_the_page():
    page = Page(html(a_report(a_finding()), a_report()))
    identities = {value for name, value in page.attributes if name == "id"}
    for address in (value for name, value in page.attributes if name == "href"):
        assert address.startswith("https://") or address.removeprefix("#") in identities


def test_the_page_has_colours_for_light_and_for_dark():
    assert "@media (prefers-color-scheme: dark)" in html(a_report())


def test_the_page_says_how_many_findings_were_ignored():
    assert "1 target, clean, 3 ignored" in html(a_report(), ignored=3)
