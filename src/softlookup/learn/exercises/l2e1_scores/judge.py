"""Scores for a batch.

Goal: Write `scores_of(q, k)`: queries (B, T_q, d) and keys (B, T_k, d) become scores (B, T_q, T_k): in every
sample the dot product of each query with each key.

Checks: The scores of several batches, with other numbers of queries than of keys and with as many.

Ask: What are the two axes that have to change places, and which one has to stay where it is?

Hint: For one sample it is q @ k.T, as in lesson 1.

Hint: `@` multiplies the last two axes and leaves all axes in front of them alone: for every sample
(T_q, d) @ (d, T_k) is wanted.

Hint: `transpose(-2, -1)` swaps the last two axes of a tensor, however many stand in front.
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"

_PRODUCTS = ("matmul", "bmm", "einsum", "baddbmm")


def scores_of(q, k):
    return q @ k.transpose(-2, -1)


@shown_at(*_PRODUCTS)
def scores_transposed(q, k):
    """Keys stand in the rows and queries in the columns.

    Ask: Whose row is it: that of the one who asks, or of the one who is found?
    """
    return k @ q.transpose(-2, -1)


@shown_at(*_PRODUCTS)
def keys_not_transposed(q, k):
    """Queries are multiplied by the keys as they lie, with one key in each row.

    Ask: Over which axis of the queries, and over which of the keys, does your product sum?
    """
    return q @ k


@shown_at("__get__", "t", "mT", "permute", *_PRODUCTS)
def all_axes_reversed(q, k):
    """All axes of the keys are turned round, the batch as well: samples and numbers get mixed up.

    Ask: What is the shape of your keys when they meet the queries, and where has the batch gone?
    """
    return q @ k.permute(2, 1, 0)


@shown_at("view", "reshape")
def view_in_place_of_transpose(q, k):
    """The shape (B, d, T_k) is right, but the numbers were poured into it in the order in which they lay.

    Ask: Take a matrix with 2 rows and 3 columns: which numbers stand in row 0 after your step?
    """
    return q @ k.reshape(k.size(0), k.size(2), k.size(1))


@shown_at(*_PRODUCTS, "sum")
def batch_summed(q, k):
    """The samples are added up: there is one matrix for the whole batch.

    Ask: May a query of one sample meet a key of another one?
    """
    return torch.einsum("bqd,bkd->qk", q, k)


@shown_at(*_PRODUCTS, "sum")
def keys_of_another_sample(q, k):
    """All queries meet the keys of the first sample.

    Ask: Which sample do the keys of your second matrix come from?
    """
    return q @ k[0].T


@shown_at("mul", "sum")
def features_not_summed(q, k):
    """The numbers are multiplied, but their products are not added up: a score is one number.

    Ask: How many axes does your result have?
    """
    return q[:, :, None] * k[:, None]


@shown_at("sum", "mul", "einsum")
def own_key_only(q, k):
    """Query i only meets key i; all other pairs are missing.

    Ask: How many scores does one sample need when it has 3 queries and 5 keys?
    """
    return (q * k).sum(-1)


@shown_at("div", "truediv", "mul", *_PRODUCTS)
def scale_applied(q, k):
    """The scores are scaled: that comes in the next exercise; here they are taken as they are.

    Ask: Which line changes the dot products?
    """
    return q @ k.transpose(-2, -1) / q.size(-1) ** 0.5


@shown_at("softmax")
def softmax_applied(q, k):
    """These are weights already: the dot products themselves are asked for.

    Ask: Which line changes the dot products?
    """
    return torch.softmax(q @ k.transpose(-2, -1), -1)


@shown_at("normalize", "cosine_similarity", "div", "truediv", *_PRODUCTS)
def cosine_in_place_of_dot(q, k):
    """The vectors are brought to length one first: a dot product keeps their lengths.

    Ask: What should become of the scores of a query that is twice as long?
    """
    q, k = torch.nn.functional.normalize(q, dim=-1), torch.nn.functional.normalize(k, dim=-1)
    return q @ k.transpose(-2, -1)


@shown_at("cdist", "sub", "pow", "sum", "norm")
def distance_in_place_of_dot(q, k):
    """These are distances: they are small where query and key fit.

    Ask: What is your score of a query and a key that are equal?
    """
    return torch.cdist(q, k)


_MAKE = torch.Generator().manual_seed(3)


def _given(b, t_q, t_k, d):
    return Given(torch.randn(b, t_q, d, generator=_MAKE), torch.randn(b, t_k, d, generator=_MAKE))


PARTS = (
    Computes(
        "scores_of",
        scores_of,
        [_given(2, 2, 3, 2), _given(3, 4, 4, 2), _given(3, 3, 3, 3), _given(1, 5, 2, 4), _given(2, 1, 4, 3)],
        [
            scores_transposed,
            keys_not_transposed,
            all_axes_reversed,
            view_in_place_of_transpose,
            batch_summed,
            keys_of_another_sample,
            features_not_summed,
            own_key_only,
            scale_applied,
            softmax_applied,
            cosine_in_place_of_dot,
            distance_in_place_of_dot,
        ],
    ),
)
