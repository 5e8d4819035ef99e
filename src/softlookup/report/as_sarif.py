"""A report as SARIF 2.1.0, which code hosts and editors read: one result for each finding and each note."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import softlookup
from softlookup import catalog
from softlookup.report.finding_parts import PAGELESS, line_in, path_in
from softlookup.report.rule_page import PARTS, introduction, seen_in
from softlookup.terms import Diagnosis, FileReport, Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_KINDS = {"function": "function", "module": "type", "cross": "type"}  # ours -> that of a logical location


def render(reports: Sequence[FileReport], sources: Mapping[str, str], root: str = "") -> str:
    """Return the text of one SARIF log with one run.

    sources: file -> its text, for the quoted lines and for fingerprints that survive moved lines
    root: the folder that the paths are to be seen from, the checkout

    Source: Static Analysis Results Interchange Format (SARIF) Version 2.1.0, OASIS Standard, 2020
    """
    results = _Results(sources, root)
    for report in reports:
        for diagnosis in report.diagnoses:
            for level, findings in (("error", diagnosis.findings), ("note", diagnosis.notes)):
                for finding in findings:
                    results.add(report, diagnosis, finding, level)
    driver = {
        "name": "softlookup",
        "version": softlookup.__version__,
        "semanticVersion": softlookup.__version__,
        "rules": list(results.rules.values()),
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results.results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


class _Results:
    """The results so far, and the rules that they name."""

    def __init__(self, sources: Mapping[str, str], root: str) -> None:
        self.sources = sources
        self.root = root
        self.rules: dict[str, dict[str, Any]] = {}
        self.results: list[dict[str, Any]] = []
        self.seen: Counter[str] = Counter()

    def add(self, report: FileReport, diagnosis: Diagnosis, finding: Finding, level: str) -> None:
        """Add one finding."""
        rule = f"variant-{finding.name}" if finding.code == "variant" else finding.code
        self.rules.setdefault(rule, _rule(rule, finding))
        fix = f" Fix: {finding.fix}" if finding.fix else ""
        path, line = path_in(self.root, report.file), line_in(diagnosis, finding)
        lines = self.sources.get(report.file, "").splitlines()
        text = lines[line - 1] if line <= len(lines) else ""
        region: dict[str, Any] = {"startLine": line} | ({"snippet": {"text": text}} if text else {})
        artifact = {"uri": quote(path), "uriBaseId": "%SRCROOT%"}
        if Path(path).is_absolute():
            artifact = {"uri": Path(path).as_uri()}  # outside the checkout
        target = {"fullyQualifiedName": diagnosis.name, "kind": _KINDS[diagnosis.kind]}
        self.results.append(
            {
                "ruleId": rule,
                "ruleIndex": list(self.rules).index(rule),
                "level": level,
                "message": {"text": f"{diagnosis.name}: {finding.summary}{fix}"},
                "locations": [
                    {
                        "physicalLocation": {"artifactLocation": artifact, "region": region},
                        "logicalLocations": [target],
                    }
                ],
                "partialFingerprints": {
                    "softlookup/v1": self._fingerprint(rule, path, diagnosis.name, text.strip())
                },
            }
        )

    def _fingerprint(self, *parts: str) -> str:
        """The same for the same finding after lines above it have come or gone; equal ones are numbered."""
        identity = "\n".join(parts)
        self.seen[identity] += 1
        return sha256(f"{identity}\n{self.seen[identity]}".encode()).hexdigest()


def _rule(identity: str, finding: Finding) -> dict[str, Any]:
    """Return the descriptor of one rule, with its page as help where it has one."""
    found = [it for it in (*catalog.rules(), *catalog.variants()) if finding.code == it.code]
    entry = next((it for it in found if it.name == finding.name), None)
    level = "note" if finding.code == "variant" else "error"
    rule = {"id": identity, "name": finding.name, "defaultConfiguration": {"level": level}}
    if entry is None:
        return rule | {"shortDescription": {"text": PAGELESS.get(finding.code, finding.summary)}}
    paragraphs = introduction(entry)
    return rule | {
        "shortDescription": {"text": entry.summary},
        "fullDescription": {"text": "\n\n".join(paragraphs)},
        "help": {"text": entry.page, "markdown": "\n\n".join(_markdown(entry))},
    }


def _markdown(entry: catalog.Entry) -> Iterator[str]:
    yield from introduction(entry)
    for title in PARTS:
        if words := entry.part(title):
            yield f"**{title}:** {words}"
    if reports := seen_in(entry):
        yield f"**Seen in:** {', '.join(reports)}"
