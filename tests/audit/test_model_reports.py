"""Public reports that only whole models show: each planted model misbehaves, and is named or says why not."""

import json
from pathlib import Path

import pytest
import torch
from planted_reports import REPORTS

import softlookup

pytestmark = pytest.mark.long
pytest.importorskip("transformers", reason="some reports are about models of transformers")

ENTRIES = json.loads((Path(__file__).parent / "model_reports.json").read_text(encoding="utf-8"))
PLANTED = [entry for entry in ENTRIES if entry["planted"]]
BY_ID = {entry["id"]: entry for entry in ENTRIES}
COMPILED = ("b238",)  # asked once, below: compiling takes many seconds


def each(entries):
    return pytest.mark.parametrize("entry", entries, ids=[entry["id"] for entry in entries])


AUDITED = each([it for it in PLANTED if it["id"] not in (*COMPILED, "b205")])  # the last cannot be called
WATCHED = each([it for it in PLANTED if REPORTS[it["id"]].call])


def test_every_report_has_an_entry_and_every_planting_one():
    assert len({entry["id"].split()[0] for entry in ENTRIES}) == 32
    assert {entry["id"] for entry in PLANTED} == set(REPORTS)


@each(ENTRIES)
def test_a_report_is_named_by_the_rule_that_is_expected_or_says_why_not(entry):
    named = {*entry["audit"], *entry["watch"], *entry.get("noted", ())}
    assert (entry["expected"] in named) != bool(entry.get("why"))


@each([it for it in PLANTED if it["id"] not in COMPILED])
def test_a_planted_model_misbehaves_as_reported_and_its_twin_does_not(entry):
    planted = REPORTS[entry["id"]]
    assert planted.shows(planted.wrong())
    assert not planted.shows(planted.right())


@AUDITED
def test_an_audit_names_the_planted_fault_and_nothing_in_its_twin(entry):
    planted = REPORTS[entry["id"]]
    answer = softlookup.audit(planted.wrong(), **planted.audit)
    assert [it.code for it in answer.findings] == entry["audit"]
    assert set(entry.get("noted", ())) <= {it.code for it in answer.notes}
    assert softlookup.audit(planted.right(), **planted.audit).clean


@WATCHED
def test_a_watch_names_the_planted_fault_in_every_layer_that_has_it_and_nothing_in_its_twin(entry):
    planted = REPORTS[entry["id"]]
    codes = []
    for model in (planted.wrong(), planted.right()):
        with softlookup.watch(model, rule=planted.rule) as trace, torch.no_grad():
            planted.call(model)
        assert "not observable" not in trace.coverage
        codes.append({alarm.code for alarm in trace.alarms})
    assert codes == [set(entry["watch"]), set()]


@pytest.mark.parametrize(
    ("report", "layer"),
    [
        ("b067", "layers.0.attention"),
        ("b165", "layers.1.attention"),
        ("b224", "model.layers.0.self_attn"),
        ("b227", "layers.0.attention"),
        ("b071", "layers.0.cross_attention"),
    ],
)
def test_an_audit_names_the_first_layer_that_is_wrong(report, layer):
    planted = REPORTS[report]
    assert softlookup.audit(planted.wrong(), **planted.audit).findings[0].layer == layer


def test_a_watch_names_the_cross_attention_whose_mask_is_the_targets():
    planted = REPORTS["b202"]
    model = planted.wrong()
    with softlookup.watch(model, rule=planted.rule) as trace, torch.no_grad():
        planted.call(model)
    assert {alarm.layer for alarm in trace.alarms} == {"layers.0.cross_attention", "layers.1.cross_attention"}


def test_an_audit_says_of_a_model_that_it_could_not_be_called():
    planted = REPORTS["b205"]
    with pytest.raises(softlookup.SoftlookupError, match="could not be called"):
        softlookup.audit(planted.wrong(), **planted.audit)


def test_a_path_that_raises_when_it_is_compiled_is_told_in_failed():
    planted = REPORTS["b238"]
    wrong = planted.wrong()
    if not planted.shows(wrong):
        pytest.skip("this compiler takes a scale that is a tensor, or there is none")
    answer = softlookup.audit(wrong, **planted.audit)
    assert "BackendCompilerFailed" in answer.failed["compiled paths"]
