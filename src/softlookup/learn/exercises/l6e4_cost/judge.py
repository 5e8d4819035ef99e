"""What it costs.

Goal: Fill in `FACTORS`, then write `score_count(batch, heads, tokens)`,
`score_bytes(batch, heads, tokens, bits=32)` and `longest(budget, batch, heads, bits=32)`: the number of
scores of one layer, their bytes, and the number of tokens whose scores just fit.

Checks: The four factors, which are worked out here; the three functions on small numbers, on numbers of real
models, and where the budget is used up exactly.

Ask: What are the four axes of the scores, and which sizes of a model are not among them?

Hint: Write down the shape of the scores of a whole batch with its heads. How many numbers does a tensor of
that shape hold?

Hint: d_model is cut into heads of d_head numbers, and d_head is summed over in each dot product: it makes a
score dearer to compute, but not larger.

Hint: The longest length is a root, rounded down: try the number itself and the one after it. Floating-point
roots of large numbers can be off by one; `math.isqrt` is exact.
"""

import math

from softlookup.cost import Workload, attention_cost
from softlookup.learn.mistakes import Fault
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes, Says

KIND = "write"
AS_GIVEN = "not-written"

_BEFORE = {"batch": 2, "heads": 4, "tokens": 12, "head_dim": 8}
_AFTER = {
    "twice the tokens": {"tokens": 24},
    "half the width d_model, with as many heads": {"head_dim": 4},
    "twice the heads, with the same d_model": {"heads": 8, "head_dim": 4},
    "a quarter of the tokens in a batch four times as large": {"batch": 8, "tokens": 3},
}
_QUESTIONS = {
    "twice the tokens": "How many rows are there then, and how long is each of them?",
    "half the width d_model, with as many heads": "Which axis of (B, H, T, T) gets shorter?",
    "twice the heads, with the same d_model": "Is a head that is half as wide half as many scores?",
    "a quarter of the tokens in a batch four times as large": "How large is one map, and how many are there?",
}
_EMPTY = dict.fromkeys(_AFTER, 0)


def _logits(sizes):
    return attention_cost(Workload(**sizes)).logits


def _wrong_factor(said):
    if not isinstance(said, dict):
        return Fault("no-factors", "FACTORS is no dict of plain numbers any more: write 0.5, and not 1 / 2.")
    for change, sizes in _AFTER.items():
        factor = said.get(change)
        if not factor:
            return Fault("not-predicted", f"{change}: no factor is given yet.", _QUESTIONS[change])
        if not isinstance(factor, (int, float)):
            words = f"{change}: a factor is a number, such as 1 or 0.5, and not {factor!r}."
            return Fault("wrong-type", words, _QUESTIONS[change])
        if not math.isclose(factor, _logits(_BEFORE | sizes) / _logits(_BEFORE), rel_tol=0.01):
            return Fault("factor-wrong", f"{change}: the factor is not {factor:.4g}.", _QUESTIONS[change])
    return None


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def square_missing(batch, heads, tokens):
    """One score for each token is counted; every token is compared with all of them.

    Ask: How many rows and how many columns has one map?
    """
    return batch * heads * tokens


def heads_missing(batch, heads, tokens):
    """One map for each sample is counted.

    Ask: Do the heads share one map?
    """
    return batch * tokens**2


def batch_missing(batch, heads, tokens):
    """The maps of one sample are counted.

    Ask: Does a sample look at the tokens of another one, or has each its own maps?
    """
    return heads * tokens**2


def everything_squared(batch, heads, tokens):
    """Everything is squared, not only the number of tokens.

    Ask: Does head 0 compare itself with head 1?
    """
    return (batch * heads * tokens) ** 2


def doubled_instead_of_squared(batch, heads, tokens):
    """The tokens count twice, which is less than their square.

    Ask: 10 queries meet 10 keys: how many pairs are these?
    """
    return batch * heads * tokens * 2


def half_counted(batch, heads, tokens):
    """Only the lower triangle is counted. Without a causal rule every pair counts.

    Ask: Which queries may look ahead, if nobody forbids it?
    """
    return batch * heads * tokens * (tokens + 1) // 2


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def bits_in_place_of_bytes(batch, heads, tokens, bits=32):
    """This is the number of bits.

    Ask: How many bits has a byte?
    """
    return score_count(batch, heads, tokens) * bits


def bits_ignored(batch, heads, tokens, bits=32):
    """Each number takes four bytes here, whatever its size is.

    Ask: What is the argument `bits` for?
    """
    return score_count(batch, heads, tokens) * 4


def numbers_in_place_of_bytes(batch, heads, tokens, bits=32):
    """This is the number of scores, not of their bytes.

    Ask: How many bytes does one float32 take?
    """
    return score_count(batch, heads, tokens)


def bytes_as_float(batch, heads, tokens, bits=32):
    """The number is right, but it is a float: bytes are counted.

    Ask: Which of the two divisions of Python gives an integer?
    """
    return float(score_bytes(batch, heads, tokens, bits))


def weights_counted_too(batch, heads, tokens, bits=32):
    """Twice the scores are counted. The weights are a second matrix, but here the scores are asked for.

    Ask: Does the question speak of the scores, or of all that a layer keeps?
    """
    return 2 * score_bytes(batch, heads, tokens, bits)


def longest(budget, batch, heads, bits=32):
    return math.isqrt(budget * 8 // (bits * batch * heads))


def root_missing(budget, batch, heads, bits=32):
    """This is how many scores fit into one map, not how many tokens.

    Ask: A map of 100 scores: how many tokens does it belong to?
    """
    return budget * 8 // (bits * batch * heads)


def first_that_does_not_fit(budget, batch, heads, bits=32):
    """This length is one too large: its scores no longer fit.

    Ask: Does your loop return the last length that fits, or the one at which it noticed?
    """
    return longest(budget, batch, heads, bits) + 1


def exact_fit_refused(budget, batch, heads, bits=32):
    """Where the scores fill the budget exactly, one token too few is returned.

    Ask: Do 64 bytes fit into 64 bytes?
    """
    return max(longest(budget - 1, batch, heads, bits), 0)


def rounded_up(budget, batch, heads, bits=32):
    """Where the root is no whole number it is rounded up, and the scores no longer fit.

    Ask: You have room for 3.9 tokens: how many fit?
    """
    return math.ceil(math.sqrt(root_missing(budget, batch, heads, bits)))


def rounded_to_the_nearest(budget, batch, heads, bits=32):
    """The root is rounded to the nearest number, which may be too large.

    Ask: You have room for 3.9 tokens: how many fit?
    """
    return round(math.sqrt(root_missing(budget, batch, heads, bits)))


def length_as_float(budget, batch, heads, bits=32):
    """It is a float; a number of tokens is an integer.

    Ask: Can a sentence have 3.9 tokens?
    """
    return math.sqrt(root_missing(budget, batch, heads, bits))


def linear_in_the_budget(budget, batch, heads, bits=32):
    """The budget is divided as if twice the bytes were room for twice the tokens.

    Ask: Which budget do twice the tokens need?
    """
    return budget // score_bytes(batch, heads, 1, bits)


def sizes_forgotten(budget, batch, heads, bits=32):
    """Batch and heads have no influence: there is room for one map only.

    Ask: How many maps must fit side by side?
    """
    return math.isqrt(budget * 8 // bits)


def bits_of_float32_only(budget, batch, heads, bits=32):
    """Each number takes four bytes here, whatever its size is.

    Ask: What is the argument `bits` for?
    """
    return longest(budget, batch, heads)


PARTS = (
    Says("FACTORS", _wrong_factor, _EMPTY),
    Computes(
        "score_count",
        score_count,
        [Given(1, 1, 3), Given(2, 3, 5), Given(8, 32, 8192), Given(4, 1, 7)],
        [
            square_missing,
            heads_missing,
            batch_missing,
            everything_squared,
            doubled_instead_of_squared,
            half_counted,
        ],
    ),
    Computes(
        "score_bytes",
        score_bytes,
        [
            Given(1, 1, 3),
            Given(2, 3, 5, 16),
            Given(8, 32, 8192, 16),
            Given(1, 2, 4, bits=64),
            Given(1, 1, 4, 8),
        ],
        [
            bits_in_place_of_bytes,
            bits_ignored,
            numbers_in_place_of_bytes,
            bytes_as_float,
            weights_counted_too,
        ],
    ),
    Computes(
        "longest",
        longest,
        [
            Given(36, 1, 1),
            Given(35, 1, 1),
            Given(900, 3, 5),
            Given(1000, 3, 5, 16),
            Given(2**20, 2, 4, 16),
            Given(2**26 - 1, 1, 2, bits=16),
            Given(7, 1, 2),
        ],
        [
            first_that_does_not_fit,
            exact_fit_refused,
            rounded_up,
            rounded_to_the_nearest,
            length_as_float,
            sizes_forgotten,
            bits_of_float32_only,
            root_missing,
        ],
    ),
)
