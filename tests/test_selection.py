import pytest

from softlookup.selection import UNJUDGED, Selection, known_words, read_selection
from softlookup.terms import Contract, Diagnosis, Finding, SoftlookupError


def diagnosis(*codes, verdict="named"):
    findings = tuple(Finding(code, UNJUDGED.get(code, "some-rule"), "words") for code in codes)
    return Diagnosis("attend", "function", "w.py", 9, Contract(), verdict, findings)


def codes(diagnosed):
    return [found.code for found in diagnosed.findings]


def test_a_rule_is_chosen_by_its_code_its_name_or_the_beginning_of_its_code():
    for words in ("SL211", "sl211", "softmax-over-queries", "SL2", "SL21", "SL", "SL1,SL2", ["SL1", "SL211"]):
        assert read_selection(words).counts("SL211", "softmax-over-queries"), words
        assert not read_selection(ignore=words).counts("SL211", "softmax-over-queries"), words
    for words in ("SL212", "SL1", "softmax-over-heads"):
        assert not read_selection(words).counts("SL211", "softmax-over-queries"), words
        assert read_selection(ignore=words).counts("SL211", "softmax-over-queries"), words


def test_ignore_wins_over_select():
    both = read_selection("SL2", ignore="SL211")
    assert both.counts("SL212", "softmax-over-heads")
    assert not both.counts("SL211", "softmax-over-queries")


def test_what_could_not_be_judged_counts_unless_it_is_ignored():
    assert codes(read_selection("SL2").of(diagnosis("SL001", verdict="not-callable"))) == ["SL001"]
    assert codes(read_selection("SL2").of(diagnosis("SL000", verdict="unrecognised"))) == ["SL000"]
    assert read_selection(ignore="unrecognised").of(diagnosis("SL000", verdict="unrecognised")).clean


def test_the_verdict_follows_the_findings_that_are_left():
    found = diagnosis("SL000", "SL701", verdict="unrecognised")
    assert read_selection(ignore="SL000").of(found).verdict == "named"
    assert read_selection(ignore="SL7").of(found).verdict == "unrecognised"
    assert read_selection(ignore="SL").of(found).verdict == "clean"
    assert Selection().of(found) is found


@pytest.mark.parametrize("word", ["softmax-over-query", "SL999", "SLx", "nonsense"])
def test_a_word_that_is_no_rule_is_refused(word):
    with pytest.raises(SoftlookupError, match=f"^select: no rule is called '{word}'"):
        read_selection(["SL2", word])


def test_the_nearest_names_are_suggested():
    with pytest.raises(SoftlookupError, match="did you mean softmax-over-queries"):
        known_words("softmax-over-query", "tests")
