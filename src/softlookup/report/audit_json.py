"""An audit as JSON that other tools read: the keys, their order and their types stay as they are."""

from __future__ import annotations

import json
import math
from typing import Any

import softlookup
from softlookup.audited import Audit, Number


def audit_object(audit: Audit, path: str = "") -> dict[str, Any]:
    """Return the object. A number that JSON cannot write is a text: "nan", "inf"."""
    return {
        "softlookup": softlookup.__version__,
        "path": path,
        "model": audit.model,
        "called": audit.how,
        "sizes": audit.sizes,
        "verdict": audit.verdict,
        "findings": [
            {
                "code": it.code,
                "name": it.name,
                "check": it.check,
                "layer": it.layer,
                "summary": it.words,
                "fix": it.fix,
                "measured": {name: _writable(value) for name, value in it.measured.items()},
            }
            for it in audit.findings
        ],
        "notes": [{"code": it.code, "check": it.check, "summary": it.words} for it in audit.notes],
        "asked": list(audit.asked),
        "not_asked": audit.not_asked,
        "failed": audit.failed,
        "seconds": audit.seconds,
    }


def json_of(audit: Audit, path: str = "") -> str:
    """Return the text of the object."""
    return json.dumps(audit_object(audit, path), indent=2, allow_nan=False)


def _writable(value: Number) -> Number:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
