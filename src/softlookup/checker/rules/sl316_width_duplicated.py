"""Every head gets the full d_model instead of d_model / H.

Missed because: it works, and trains: it is only H times as large.

Training: H times the weights and the work of the layer that was meant; comparisons with it mean nothing.

Ask: how do the parameters grow when the number of heads doubles?

Fix: cut the width: `d_head = d_model // num_heads`.

Seen in: none of the collected reports.
"""

import re

from softlookup.checker.evidence import Evidence, Judgement

LINE = ("split", "project queries")
#: An argument of the constructor that lets the caller choose the width of a head.
_CHOOSES = re.compile(r"(d|dim)_?(head|k|v|qk|key)|head_(dim|size|width)|config|cfg|args", re.I)


def judge(evidence: Evidence) -> Judgement | None:
    """Heads as wide as the input, when nothing lets the caller choose their width."""
    wiring, sketch = evidence.wiring, evidence.sketch
    if wiring is None or sketch is None or wiring.num_heads == 1 or wiring.d_head != wiring.q[0].width:
        return None
    if any(_CHOOSES.fullmatch(parameter.name) for parameter in sketch.init_parameters):
        return None
    return Judgement({"d_head": wiring.d_head, "d_model": wiring.q[0].width, "num_heads": wiring.num_heads})
