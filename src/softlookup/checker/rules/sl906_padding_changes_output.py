"""Padding that is hidden changes the output of the real tokens.

Missed because: the mask is right, and looks at the keys only; a statistic over the whole sequence counts the
padding as well.

Training: what a sentence means depends on how long the others of its batch are.

Ask: the same sentence beside a longer one: which number is taken over padded positions too?

Fix: take means, maxima and norms within a token, or over real tokens only.

Seen in: none of the collected reports as such; by a mask without effect in
https://github.com/espnet/espnet/pull/1273
"""

from collections.abc import Callable

from torch import Tensor

from softlookup.checker.evidence import Evidence, Judgement, same
from softlookup.terms import Case

LINE = ("over tokens", "project", "score")
FOLLOWS_OTHERS = True
EXPLAINS = "padding"
ALONE = True


def around(run: Callable[[Case], tuple[Tensor, Tensor]], case: Case) -> tuple[Tensor, Tensor]:
    return run(case.but(v=case.v - case.v.mean(dim=-2, keepdim=True)))  # over every token, real or not


def judge(evidence: Evidence) -> Judgement | None:
    """The same real tokens, without padding and with blank tokens after them that nobody may look at."""
    short, long = evidence.probe("unpadded"), evidence.probe("padded")
    if short is None or long is None or short.output is None or long.output is None:
        return None
    if evidence.wiring is None or not evidence.repeats:  # with q, k and v at hand a lookup says more
        return None
    if evidence.samples_mix:  # the padding of one sample then meets the tokens of another
        return None
    real, T_q = short.real_rows, short.case.q.shape[-2]
    expected = [evidence.steps(seen.case)[0][:, :, :T_q][real] for seen in (short, long)]
    if same(short.output[real], long.output[:, :, :T_q][real]) or not same(*expected):
        return None
    moved = float((short.output[real] - long.output[:, :, :T_q][real]).abs().max())
    return Judgement({"real tokens move by": moved}, seen_in=long)
