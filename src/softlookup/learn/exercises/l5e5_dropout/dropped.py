"""What dropout did to the weights of one call in training mode, and what may be wrong with it."""

import math

import torch

from softlookup.learn.mistakes import shown_at

P = 0.25
DROPS = ("dropout", "bernoulli", "rand", "rand_like", "dropout1d", "dropout2d", "feature_dropout", "mul")


def attend(q, k, v):
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
    return weights @ v, weights


class Seen:
    """What became of the weights of a call in training mode, beside those without dropout."""

    def __init__(self, given, value):
        self.v = given.args[2]
        self.plain_output, self.plain = attend(*given.args)
        self.output, self.weights = value
        self.zero = self.weights == 0
        self.share = self.zero.float().mean().item()
        kept = ~self.zero
        self.factor = (self.weights[kept] / self.plain[kept]).median().item() if kept.any() else 0.0

        self.rows_sum_to_one = _same(self.weights.sum(-1), torch.ones(()))
        self.nothing_dropped = _same(self.weights, self.plain)

    def numbers(self):
        """Return what is seen, in numbers."""
        rows = self.weights.sum(-1)
        return {
            "probability": f"{P}",
            "weights that are 0": f"{self.share:.1%}",
            "the others, beside what they were": f"times {self.factor:.2f}",
            "rows sum to": f"{rows.min().item():.2f} to {rows.max().item():.2f}",
        }


def _same(yours, right):
    return torch.allclose(yours, right, rtol=1e-4, atol=1e-5)


@shown_at(*DROPS, "softmax")
def dropout_inactive(seen):
    """Nothing is dropped in training mode.

    Ask: How many weights are 0 when you call the layer after `train()`?
    """
    return seen.nothing_dropped and _same(seen.output, seen.plain_output)


@shown_at(*DROPS)
def dropout_on_output(seen):
    """The output is dropped, the weights are not: every key is still read.

    Ask: What does a dropped feature of the output say about the keys?
    """
    return seen.nothing_dropped and bool((seen.output == 0).any())


@shown_at(*DROPS)
def dropped_elsewhere(seen):
    """None of the returned weights is dropped, and yet the output is not their mix of the values.

    Ask: Which tensor goes into the dropout, which ones go into the product, and which one is returned?
    """
    return seen.nothing_dropped


@shown_at(*DROPS)
def dropout_before_softmax(seen):
    """Scores are dropped, not weights: no weight is 0, and every row still sums to one.

    Ask: Which weight does the softmax give to a score of 0?
    """
    return seen.share == 0 and seen.rows_sum_to_one


@shown_at("div", "truediv", "softmax", "sum", "normalize")
def rows_normalised_again(seen):
    """After dropping, the rows are brought back to a sum of one: where one key is left, it gets all.

    Ask: On average over many calls, is a weight still what it was?
    """
    return seen.share > 0 and seen.rows_sum_to_one


@shown_at(*DROPS)
def whole_keys_dropped(seen):
    """Whole columns are dropped: no query of a head, or of all of them, sees these keys.

    Ask: How many coins are tossed for T_q queries and T_k keys?
    """
    return bool((seen.zero.all(-2) | ~seen.zero.any(-2)).all())


@shown_at(*DROPS)
def whole_queries_dropped(seen):
    """Whole rows are dropped: such a query reads nothing at all.

    Ask: How many coins are tossed for T_q queries and T_k keys?
    """
    return bool((seen.zero.all(-1) | ~seen.zero.any(-1)).all())


@shown_at(*DROPS)
def one_pattern_for_all(seen):
    """Every head, or every sample, loses the same weights.

    Ask: How many coins are tossed for B samples and H heads?
    """
    maps = seen.zero.flatten(0, -3)
    return len(maps) > 1 and bool((maps == maps[0]).all())


@shown_at(*DROPS, "lt", "gt", "__lt__", "__gt__")
def kept_and_dropped_swapped(seen):
    """What should be kept is dropped: 1 - p of the weights are 0.

    Ask: P = 0.25: which share of the weights should be left?
    """
    return abs(seen.share - (1 - P)) < 0.05


@shown_at(*DROPS)
def wrong_probability(seen):
    """Another share of the weights is 0 than was asked for.

    Ask: How is the probability of the constructor handed on?
    """
    return abs(seen.share - P) > 0.05


@shown_at(*DROPS)
def kept_not_rescaled(seen):
    """What is kept stays as it was: on average the weights shrink in training, and not in use.

    Ask: By how much must the kept ones grow, so that the mean stays the same?
    """
    return abs(seen.factor - 1) < 0.02


@shown_at(*DROPS, "div", "truediv")
def wrong_factor(seen):
    """What is kept is rescaled by another factor than one that keeps the mean.

    Ask: Out of four weights one is dropped: by how much must the other three grow?
    """
    return abs(seen.factor - 1 / (1 - P)) > 0.02


@shown_at("matmul", "einsum")
def output_not_dropped(seen):
    """The weights that are returned are not those that mixed the output.

    Ask: Which tensor is multiplied with the values, and which one is returned?
    """
    return not _same(seen.output, seen.weights @ seen.v)


#: In this order: the first that holds is what is said.
IN_TRAINING = (
    dropout_inactive,
    dropout_on_output,
    dropped_elsewhere,
    dropout_before_softmax,
    rows_normalised_again,
    whole_queries_dropped,
    whole_keys_dropped,
    one_pattern_for_all,
    kept_and_dropped_swapped,
    wrong_probability,
    kept_not_rescaled,
    wrong_factor,
    output_not_dropped,
)
