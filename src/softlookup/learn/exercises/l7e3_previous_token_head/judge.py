"""A head with a known job.

Goal: Write `previous_token_fixture(seq_len)`: queries and keys (T, d), with a width d of your choice, with
which query i gives at least 0.999 to key i - 1 under the usual scale.

Checks: The weights for lengths from 1 to 64, with nothing hidden: the head has to do its job without the help
of the causal rule.

Ask: Which key should query 3 have its largest dot product with, and by how much must it lead after the
scale?

Hint: Give every key a direction of its own, as in 1.2. Which direction does query 3 ask for then?

Hint: Queries are the keys, one row further down; `torch.roll` moves rows. What may stand in the first row?

Hint: The scale divides by sqrt(d), and your d grows with the length when every key has a direction of its
own. A softmax over 64 keys gives 0.999 to one of them when its score leads by about 11.
"""

import torch

from softlookup.learn.mistakes import Fault
from softlookup.learn.outcomes import Given, Outcome, drawn
from softlookup.learn.parts import Behaves

KIND = "write"
AS_GIVEN = "not-written"

_LENGTHS = (4, 2, 3, 1, 9, 64)
_ENOUGH = 0.999
_MOST_DRAWN = 8


def _verdict(outcomes):
    """Return what is wrong with the first fixture that is not as promised."""
    found = (_wrong(outcome, seq_len) for outcome, seq_len in zip(outcomes, _LENGTHS, strict=True))
    return next((fault for fault in found if fault), None)


def _wrong(outcome, seq_len):
    where = f"previous_token_fixture({seq_len})"
    if outcome.error:
        words = f"{where} stops with {outcome.error}: {outcome.message.splitlines()[0]}"
        return Fault("raises", words, "Which line is it, and what are the shapes there?")
    pair = outcome.value
    if not isinstance(pair, (tuple, list)) or [type(it) for it in pair] != [torch.Tensor] * 2:
        return Fault("wrong-type", "Two tensors are promised: q and k.", "What stands behind your return?")
    q, k = pair
    if q.dim() != 2 or q.shape != k.shape or len(q) != seq_len:
        words = f"{where} gives q {tuple(q.shape)} and k {tuple(k.shape)}; promised is (T, d) for both."
        return Fault("wrong-shape", words, "How many queries are there, and how many keys?")
    weights = (q.float() @ k.float().T / q.shape[-1] ** 0.5).softmax(-1)
    if not weights.isfinite().all():
        words = "The weights are not finite: the numbers are too large for float32, or infinite themselves."
        return Fault(
            "not-finite", words, "By how much does one score have to lead, and is that a large number?"
        )
    # What is right without the causal rule is right with it: it only takes away keys that get almost nothing.
    return _wrong_row(weights)


def _wrong_row(weights):
    """Return what is wrong with the first row, after that of the first query, that reads another key."""
    seq_len = len(weights)
    due = torch.eye(seq_len).roll(-1, -1)
    due[0] = weights[0]  # it has no token before it
    shown = drawn(Outcome(weights), Outcome(due)) if seq_len <= _MOST_DRAWN else {}
    for i in range(1, seq_len):
        row, most = weights[i], int(weights[i].argmax())
        if row[i - 1] >= _ENOUGH:
            continue
        if row.max() - row.min() < 1e-6:
            words = f"Query {i} gives the same weight to every key."
            return Fault("mean-of-values", words, "What does it ask for that one key has?", evidence=shown)
        if most == i - 1:
            words = f"Query {i} gives only {row[i - 1]:.4f} to key {i - 1}, of {seq_len} keys."
            question = "By how much does that score lead, after the scale?"
            return Fault("query-too-weak", words, question, evidence=shown)
        name = {i: "own-token-read", i + 1: "next-token-read"}.get(most, "another-key-read")
        words = f"Query {i} reads key {most}, where nothing is hidden; it should read key {i - 1}."
        return Fault(name, words, f"Which row of k does row {i} of q look like?", evidence=shown)
    return None


PARTS = (
    Behaves(
        "previous_token_fixture",
        [Given(seq_len) for seq_len in _LENGTHS],
        _verdict,
        "every query reads the token before, with a mask or without",
    ),
)
