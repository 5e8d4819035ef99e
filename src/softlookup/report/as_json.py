"""A report as JSON that other tools read: the keys, their order and their types stay as they are."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import softlookup
from softlookup.terms import Contract, Diagnosis, FileReport, Finding

#: Always present, null when unknown.
_CONTRACT = ("layout", "mask", "causal", "returns", "empty_rows", "scale")
#: Present only when they are known.
_CONTRACT_MORE = (
    "mask_shape",
    "corner",
    "self_visible",
    "window",
    "hidden_nan",
    "half",
    "weights",
    "max_score",
    "kv_heads",
    "dtype",
    "arguments",
)


def file_json(report: FileReport) -> dict[str, Any]:
    """Return the object of one file: softlookup, torch, file, targets, skipped."""
    return {
        "softlookup": softlookup.__version__,
        "torch": report.torch,
        "file": report.file,
        "targets": [_target(diagnosis) for diagnosis in report.diagnoses],
        "skipped": [{"name": it.name, "line": it.line, "reason": it.reason} for it in report.skipped],
    }


def render(reports: Sequence[FileReport], *, several: bool = False) -> str:
    """Return the text of one object for one file, or of ``{"files": [...]}`` when several files were given.

    Numbers that JSON cannot write are texts: "nan", "inf", "-inf".
    """
    files = [file_json(report) for report in reports]
    return json.dumps(_finite({"files": files} if several else files[0]), indent=2, allow_nan=False)


def _target(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "name": diagnosis.name,
        "kind": diagnosis.kind,
        "line": diagnosis.line,
        "contract": _contract(diagnosis.contract),
        "verdict": diagnosis.verdict,
        "findings": [_finding(finding) for finding in diagnosis.findings],
        "notes": [
            {"code": note.code, "name": note.name, "summary": note.summary} for note in diagnosis.notes
        ],
    }


def _contract(contract: Contract) -> dict[str, Any]:
    known = {name: getattr(contract, name) for name in _CONTRACT}
    known["scale"] = "1/sqrt(d_head)" if contract.scale is None else f"{contract.scale:g}"
    for name in _CONTRACT_MORE:
        if (value := getattr(contract, name)) is not None:
            known[name] = value
    if contract.declared:
        known["declared"] = sorted(contract.declared)
    return known


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "line": finding.line,
        "summary": finding.summary,
        "fix": finding.fix,
        "evidence": finding.evidence,
    }


def _finite(value: Any) -> Any:
    """Return the same value with NaN and infinities as texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
