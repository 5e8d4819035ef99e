"""Keys that are easy to read.

Goal: Write `make_fixture(wanted, num_keys)`: queries, keys and values with which query i reads value
wanted[i] and nothing else, correct to 0.001. Keys have nothing in common with each other; row j of the
values is [j, 10 * j].

Checks: The shapes, the keys, the values, and the output of softmax(q @ k.T) @ v for several lists.

Ask: Which dot product must be the largest for each query, and by how much, before the softmax gives it
almost everything?

Hint: A matrix whose rows have nothing in common: 1 on the diagonal, 0 everywhere else.

Hint: A query that equals one of these keys has the dot product 1 with it and 0 with the others. Print the
softmax of [1, 0, 0]: how much goes to the other keys?

Hint: Make the query longer and longer: softmax of [10, 0, 0], of [20, 0, 0]. The key that fits gets all but
0.001 once exp(length) is large beside the number of keys.
"""

import torch

from softlookup.learn.mistakes import Fault
from softlookup.learn.outcomes import Given, Outcome, drawn
from softlookup.learn.parts import Behaves

KIND = "write"
AS_GIVEN = "not-written"

_WANTED = (([2, 0, 3], 4), ([1, 0], 2), ([4, 4, 0, 1, 2, 3], 5), ([7], 64))


def _verdict(outcomes):
    """Return what is wrong with the first fixture that is not as promised."""
    found = (_wrong(outcome, *it) for outcome, it in zip(outcomes, _WANTED, strict=True))
    return next((fault for fault in found if fault), None)


def _wrong(outcome, wanted, num_keys):
    where = f"make_fixture({wanted}, {num_keys})"
    if outcome.error:
        words = f"{where} stops with {outcome.error}: {outcome.message.splitlines()[0]}"
        return Fault("raises", words, "Which line is it, and what are the shapes there?")
    fixture = outcome.value
    if not isinstance(fixture, (tuple, list)) or [type(it) for it in fixture] != [torch.Tensor] * 3:
        words = "Three tensors are promised: q, k and v."
        return Fault("wrong-type", words, "What stands behind your return?")
    due = {"q": (len(wanted), num_keys), "k": (num_keys, num_keys), "v": (num_keys, 2)}
    for (name, shape), tensor in zip(due.items(), fixture, strict=True):
        if tensor.shape != shape:
            words = f"{name} has the shape {tuple(tensor.shape)} in {where}; promised is {shape}."
            return Fault("wrong-shape", words, f"What is one row of {name}, and how many of them are there?")
    q, k, v = (tensor.double() for tensor in fixture)
    return _wrong_keys(k) or _wrong_values(v) or _wrong_queries(q, k, v, wanted)


def _wrong_keys(k):
    products = k @ k.T
    if (products.diagonal() == 0).any():
        words = "There is a key of zeros only: its dot product with every query is 0."
        return Fault("key-is-zero", words, "With which query could it ever be found?", result=1)
    if (products - products.diagonal().diag()).abs().max() > 1e-6:
        i, j = (products - products.diagonal().diag()).abs().gt(1e-6).nonzero()[0].tolist()
        words = f"Keys {i} and {j} have something in common: their dot product is {products[i, j]:.4g}."
        return Fault(
            "keys-overlap", words, "What does a query that asks for one of them find as well?", result=1
        )
    return None


def _wrong_values(v):
    j = torch.arange(len(v), dtype=v.dtype)
    if torch.equal(v, torch.stack([j, 10 * j], -1)):
        return None
    if len({tuple(row) for row in v.tolist()}) < len(v):
        words = "Two rows of the values are equal: an output does not say which of them was read."
        return Fault("values-alike", words, "What should be different in every row of v?", result=2)
    row = int((v != torch.stack([j, 10 * j], -1)).any(-1).nonzero()[0])
    words = f"Row {row} of the values is {v[row].tolist()}; row j should be [j, 10 * j]."
    return Fault("wrong-values", words, "Which number does the first row have: 0 or 1?", result=2)


def _wrong_queries(q, k, v, wanted):
    weights = torch.softmax((q.float() @ k.float().T), -1).double()
    if not weights.isfinite().all():
        words = "The softmax of q @ k.T is not finite: the numbers are too large for float32."
        return Fault(
            "not-finite", words, "How large does a query have to be, and how large is too large?", result=0
        )
    output = weights @ v
    shown = drawn(Outcome(output), Outcome(v[wanted]))
    for i, key in enumerate(wanted):
        most = int(weights[i].argmax())
        if weights[i].max() - weights[i].min() < 1e-9:
            words = f"Query {i} gives the same weight to every key."
            question = "What is the dot product of this query with each key?"
            return Fault("mean-of-values", words, question, evidence=shown, result=0)
        if most != key:
            words = f"Query {i} gives the most weight to key {most}; it should read key {key}."
            question = "Which row of k does this query look like?"
            return Fault("another-key-read", words, question, evidence=shown, result=0)
        if (output[i] - v[key]).abs().max() > 1e-3:
            words = f"Query {i} gives only {weights[i, key]:.5f} to key {key} of {len(k)}."
            question = "By how much must one dot product lead, with many other keys?"
            return Fault("query-too-weak", words, question, evidence=shown, result=0)
    return None


PARTS = (
    Behaves(
        "make_fixture",
        [Given(wanted, num_keys) for wanted, num_keys in _WANTED],
        _verdict,
        "every query reads exactly its value",
    ),
)
