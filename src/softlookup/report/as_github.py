"""A report as GitHub workflow commands: each finding becomes an annotation on its line of a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from softlookup.report.finding_parts import line_in, path_in
from softlookup.terms import Diagnosis, FileReport, Finding

_IN_MESSAGES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES = _IN_MESSAGES | str.maketrans({":": "%3A", ",": "%2C"})


def render(reports: Sequence[FileReport], root: str = "") -> str:
    """Return one ``::error`` for each finding and one ``::notice`` for each note.

    root: the folder that the paths are to be seen from, the checkout

    Source: the workflow commands of GitHub Actions, and the escapes of its toolkit
    """
    return "\n".join(
        _command(kind, diagnosis, finding, path_in(root, report.file))
        for report in reports
        for diagnosis in report.diagnoses
        for kind, findings in (("error", diagnosis.findings), ("notice", diagnosis.notes))
        for finding in findings
    )


def _command(kind: str, diagnosis: Diagnosis, finding: Finding, path: str) -> str:
    properties = {
        "file": path,
        "line": str(line_in(diagnosis, finding)),
        "title": f"{finding.code} {finding.name}",
    }
    words = ",".join(f"{key}={value.translate(_IN_PROPERTIES)}" for key, value in properties.items())
    message = f"{diagnosis.name}: {finding.summary}" + (f"\nFix: {finding.fix}" if finding.fix else "")
    return f"::{kind} {words}::{message.translate(_IN_MESSAGES)}"
