"""The heads are concatenated and returned: no output projection mixes them.

Missed because: with d_model = H * d the shape is right without it.

Training: each head writes into its own slice of the residual stream; heads never exchange what they found.

Ask: which weight mixes what the heads have found?

Fix: end with the projection: `return self.out_proj(merged)`.

Seen in: https://github.com/Kyubyong/transformer/issues/117, https://github.com/rasbt/LLMs-from-scratch/pull/68
"""

import re

from softlookup.checker.evidence import Evidence, Judgement, same

LINE = ("returned", "last")
NEEDS_FORWARD = True


def judge(evidence: Evidence) -> Judgement | None:
    """Where a weight for it exists it must count; where none exists, the words must promise one."""
    seen, turned = evidence.probe("plain"), evidence.probe("out-negated")
    if seen is None or seen.output is None or seen.case.wiring is None:
        return None
    wiring = seen.case.wiring
    if not wiring.out:
        sketch = evidence.sketch
        if wiring.num_heads == 1 or sketch is None:
            return None
        words = f"{sketch.name} {sketch.doc}"
        promised = bool(_PROMISES.search(words)) and not _ELSEWHERE.search(words)
        text = "The heads are concatenated and returned; there is no output projection."
        return Judgement({"num_heads": wiring.num_heads}, wrong=promised, summary=text, seen_in=seen)
    if turned is None or turned.output is None or not same(seen.output, turned.output):
        return None
    text = "The output projection has weights and is never applied."
    return Judgement({"weight": wiring.out[0].parameter}, summary=text, seen_in=seen)


_PROMISES = re.compile(
    r"multi[-_ ]?head|\bmha\b|output projection|concat[^.\n]{0,40}(project|linear)|w_?o\b", re.I
)
_ELSEWHERE = re.compile(
    r"output (layer|projection)[^.\n]{0,80}(class|elsewhere|not here|another|caller)|without (an )?output",
    re.I,
)
