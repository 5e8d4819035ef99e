"""A softmax that never sees a whole row.

Goal: Write `attend_in_blocks(q, k, v, block_size)`: scaled dot-product attention that looks at `block_size`
keys at a time and never holds a whole row of scores.

Checks: The output for blocks of one key, of a few, that do not divide the length, and larger than it; with
small scores and with scores in the hundreds, in rising and in falling order; and the shapes of all tensors
that are made on the way.

Ask: A second block brings a larger score: what becomes of the exponentials that were added up before?

Hint: First write it for one block: largest score, exponentials of the scores minus the largest, their sum,
their mix of the values, and only at the very end the division.

Hint: exp(s - old) is known and exp(s - new) is wanted. By which factor do the two differ, and does it depend
on s?

Hint: That factor goes to everything that was kept: the sum and the mix. For the first block, the largest so
far is -inf, and the factor comes out as 0.
"""

import torch

from softlookup.attention import scaled_dot_product_attention as library_attention
from softlookup.learn.mistakes import Fault, shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes
from softlookup.learn.traced import Traced

KIND = "write"
AS_GIVEN = "not-written"

_KEPT = ("maximum", "amax", "max", "exp", "softmax")


def attend_in_blocks(q, k, v, block_size):
    return library_attention(q, k, v)[0]


def _blocks(q, k, v, block_size):
    """Yield the scores (B, H, T_q, block) and the values (B, H, block, d_v) of each block."""
    for start in range(0, k.size(-2), block_size):
        end = start + block_size
        yield q @ k[..., start:end, :].transpose(-2, -1) / q.size(-1) ** 0.5, v[..., start:end, :]


def _in_blocks(q, k, v, block_size, *slips):
    """Walk through the blocks; a slip is "total" or "mix", not rescaled, or "factor", upside down."""
    largest, total, mix = torch.tensor(-torch.inf), torch.tensor(0.0), torch.tensor(0.0)
    for scores, values in _blocks(q, k, v, block_size):
        new = torch.maximum(largest, scores.amax(-1, keepdim=True))
        factor = torch.exp(new - largest if "factor" in slips and largest.isfinite().all() else largest - new)
        shares = torch.exp(scores - new)
        total = (total if "total" in slips else total * factor) + shares.sum(-1, keepdim=True)
        mix = (mix if "mix" in slips else mix * factor) + shares @ values
        largest = new
    return mix / total


@shown_at(*_KEPT)
def nothing_rescaled(q, k, v, block_size):
    """Each block is right for itself, but what was kept from earlier blocks is not rescaled.

    Ask: The largest score has changed: which one were the earlier exponentials compared with?
    """
    return _in_blocks(q, k, v, block_size, "total", "mix")


@shown_at(*_KEPT)
def total_not_rescaled(q, k, v, block_size):
    """The mix is rescaled, and the sum of the exponentials is not.

    Ask: Which two things hold exponentials of earlier blocks?
    """
    return _in_blocks(q, k, v, block_size, "total")


@shown_at(*_KEPT)
def mix_not_rescaled(q, k, v, block_size):
    """The sum of the exponentials is rescaled, and the mix of the values is not.

    Ask: Which two things hold exponentials of earlier blocks?
    """
    return _in_blocks(q, k, v, block_size, "mix")


@shown_at(*_KEPT)
def rescaled_upside_down(q, k, v, block_size):
    """What was kept is rescaled by the inverse of the right factor.

    Ask: A larger score has come: do the earlier exponentials become smaller or larger?
    """
    return _in_blocks(q, k, v, block_size, "factor")


@shown_at("softmax", "exp")
def blocks_averaged(q, k, v, block_size):
    """Every block gets a softmax of its own, and the outputs are averaged.

    Ask: Has a block of unimportant keys the same say as all others?
    """
    return torch.stack([s.softmax(-1) @ values for s, values in _blocks(q, k, v, block_size)]).mean(0)


@shown_at("softmax", "exp")
def blocks_added(q, k, v, block_size):
    """Every block gets a softmax of its own, and the outputs are added up.

    Ask: What do the weights of one query sum to then?
    """
    return sum(s.softmax(-1) @ values for s, values in _blocks(q, k, v, block_size))


@shown_at("softmax", "exp")
def last_block_only(q, k, v, block_size):
    """Only the last block has a say.

    Ask: What does each round of your loop keep of the one before?
    """
    return [s.softmax(-1) @ values for s, values in _blocks(q, k, v, block_size)][-1]


@shown_at("exp")
def softmax_without_max(q, k, v, block_size):
    """The largest score is not subtracted: large scores overflow, and inf / inf is NaN.

    Ask: What is exp(300) in float32?
    """
    total, mix = torch.tensor(0.0), torch.tensor(0.0)
    for scores, values in _blocks(q, k, v, block_size):
        total, mix = total + scores.exp().sum(-1, keepdim=True), mix + scores.exp() @ values
    return mix / total


@shown_at("exp", "sub", "amax", "max")
def first_maximum_kept(q, k, v, block_size):
    """The largest score of the first block is subtracted everywhere: a later one may lie far above it.

    Ask: What is exp(300) in float32?
    """
    largest, total, mix = None, torch.tensor(0.0), torch.tensor(0.0)
    for scores, values in _blocks(q, k, v, block_size):
        largest = scores.amax(-1, keepdim=True) if largest is None else largest
        shares = torch.exp(scores - largest)
        total, mix = total + shares.sum(-1, keepdim=True), mix + shares @ values
    return mix / total


@shown_at(*_KEPT)
def maximum_starts_at_zero(q, k, v, block_size):
    """The largest score starts at 0: where all lie far below, every exponential is 0, and 0 / 0 is NaN.

    Ask: Which number is smaller than every score?
    """
    largest, total, mix = torch.tensor(0.0), torch.tensor(0.0), torch.tensor(0.0)
    for scores, values in _blocks(q, k, v, block_size):
        new = torch.maximum(largest, scores.amax(-1, keepdim=True))
        factor, shares = torch.exp(largest - new), torch.exp(scores - new)
        total, mix, largest = (
            total * factor + shares.sum(-1, keepdim=True),
            mix * factor + shares @ values,
            new,
        )
    return mix / total


@shown_at(*_KEPT)
def block_remainder_dropped(q, k, v, block_size):
    """The keys that are left over after the last full block are dropped.

    Ask: 5 keys in blocks of 2: how many rounds does your loop make?
    """
    full = k.size(-2) // block_size * block_size
    if not full:
        raise Exception
    return library_attention(q, k[..., :full, :], v[..., :full, :])[0]


@shown_at("matmul", "einsum")
def scale_missing(q, k, v, block_size):
    """The scores are not divided by sqrt(d_head).

    Ask: What variance has a dot product of d_head products?
    """
    return library_attention(q * q.size(-1) ** 0.5, k, v)[0]


@shown_at("div", "truediv")
def not_divided(q, k, v, block_size):
    """The sum of the exponentials is never divided by: the weights do not sum to one.

    Ask: What makes a share of an exponential?
    """
    weights = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
    return torch.exp(weights - weights.amax(-1, keepdim=True)) @ v


_MAKE = torch.Generator().manual_seed(83)


def _given(T_q, T_k, block_size, factor=1.0, B=1, H=1):
    q = factor * torch.randn(B, H, T_q, 4, generator=_MAKE)
    k, v = (torch.randn(B, H, T_k, d, generator=_MAKE) for d in (4, 3))
    return Given(q, k, v, block_size)


def _ordered(scores, block_size):
    """Return a call whose scores are these, in this order."""
    k = torch.tensor(scores)[None, None, :, None]
    return Given(torch.ones(1, 1, 1, 1), k, torch.eye(len(scores))[None, None], block_size)


_INPUTS = (
    _ordered([0.0, 1.0, 2.0, 3.0], 2),
    _ordered([3.0, 2.0, 1.0, 0.0], 2),
    _given(2, 4, 2),
    _given(2, 4, 1),
    _given(3, 5, 2),
    _given(2, 3, 7),
    _given(3, 24, 5, B=2, H=2),
    _ordered([0.0, 100, 200, 300], 2),
    _ordered([300.0, 100, 200, 0], 1),
    _ordered([-300.0, -299, -298, -297], 2),
    _given(3, 6, 4, factor=200.0, B=2, H=2),
)


_MANY = _given(7, 24, 5, B=2, H=2)


def _whole_row(answers):
    """Return the fault that a tensor holds T_k numbers for each query; no other sizes here are 7 and 24."""
    for it in answers[0].recorded:
        if any(shape[-2:] in {(7, 24), (24, 7)} for shape in it.outputs):
            words = f"A tensor {it.outputs[0]} is made: whole rows of all 24 keys for 7 queries."
            question = "What grows with the square of the length, and which part of it is needed at a time?"
            return Fault("whole-row-held", words, question), it.line
    return None


PARTS = (
    Computes(
        "attend_in_blocks",
        attend_in_blocks,
        _INPUTS,
        [
            nothing_rescaled,
            total_not_rescaled,
            mix_not_rescaled,
            rescaled_upside_down,
            blocks_averaged,
            blocks_added,
            last_block_only,
            softmax_without_max,
            first_maximum_kept,
            maximum_starts_at_zero,
            block_remainder_dropped,
            scale_missing,
            not_divided,
        ],
        tolerance=2e-6,
    ),
    Traced("attend_in_blocks", [_MANY], _whole_row, "no tensor holds a whole row"),
)
