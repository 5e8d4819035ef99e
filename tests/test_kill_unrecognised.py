"""Wrong code of no known kind is never called clean, and never given a name."""

import pytest
from checker_corpus import UNKNOWN, killed


@pytest.mark.parametrize(("kind", "style"), UNKNOWN)
def test_wrong_code_of_no_known_kind_is_unrecognised(kind, style):
    diagnosis, _ = killed((kind,), style)
    assert [finding.code for finding in diagnosis.findings] == ["SL000"]
    assert diagnosis.verdict == "unrecognised"
