"""Faults that are planted in a tiny Llama are named, with the first wrong layer; the untouched model is clean."""

import pytest
from tiny_models import transformers_model

import softlookup
from softlookup import catalog

pytest.importorskip("transformers", reason="the faults are planted in a Llama of transformers")

RULES = [entry for entry in catalog.model_rules() if entry.path.parent.parent.name == "auditing"]


@pytest.mark.parametrize("entry", RULES, ids=lambda entry: entry.code)
def test_a_fault_of_whole_models_is_named_and_nothing_else(entry):
    model = transformers_model("llama")
    with entry.load().plant(model):
        assert softlookup.audit(model).named() == [entry.name]
    assert softlookup.audit(model).clean


@pytest.mark.parametrize("entry", RULES, ids=lambda entry: entry.code)
def test_a_page_says_why_it_is_missed_and_how_it_is_fixed(entry):
    assert all(entry.part(title) for title in ("Missed because", "Training", "Ask", "Fix", "Seen in"))
    assert entry.part("Ask").endswith("?")
    assert softlookup.explain(entry.code) == f"{entry.code} {entry.name}\n\n{entry.page}"


def test_rules_of_whole_models_are_no_hypotheses_of_the_checker():
    assert not {entry.code for entry in catalog.model_rules()} & {entry.code for entry in catalog.rules()}
    assert {entry.code for entry in RULES} == {
        *("SL503", "SL505", "SL601", "SL603", "SL806", "SL807", "SL808"),
    }
