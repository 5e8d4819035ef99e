"""The lock on false alarms: families of transformers, made tiny and otherwise untouched, audited and watched.

What is found was read in the source of the model, and is listed with its reason; all others are clean.
"""

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers", reason="the families are those of transformers")

from many_families import built_tiny, families  # needs transformers

import softlookup
from softlookup.auditing.subject import subject_of
from softlookup.masks import causal

pytestmark = pytest.mark.long

ALARMS = {  # for the reasons that stand beside their findings; a random CPM-Ant has scores above 100
    "bert-generation": {"SL901"},
    "cpmant": {"SL901", "SL903"},
}
KNOWN = json.loads((Path(__file__).parent / "families_with_findings.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("family", sorted(families()))
def test_an_untouched_family_has_no_finding_but_those_that_were_read_in_its_source(family):
    model = built_tiny(family)
    if isinstance(model, str):
        pytest.skip(model)
    try:
        subject = subject_of(model, None, None, packed=False, compiled=False)
        result = softlookup.audit(model)
    except softlookup.SoftlookupError as refused:
        pytest.skip(str(refused).replace("\n", " "))
    known = KNOWN.get(family, {"codes": []})
    assert sorted({it.code for it in result.findings}) == known["codes"], result.findings
    rule = causal() if subject.causal and subject.source is None else None
    with torch.no_grad(), softlookup.watch(model, rule=rule) as trace:
        subject.ask(subject.question())
        subject.ask(subject.question(subject.tokens[:, :5]))
    assert {it.code for it in trace.alarms} == ALARMS.get(family, set()), trace.alarms


def test_every_listed_family_is_one_and_says_why():
    assert set(KNOWN) <= set(families())
    assert all(it["codes"] and it["why"] for it in KNOWN.values())
