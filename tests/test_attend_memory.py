"""The memory of attend: no tensor of queries by keys is made where a mask keeps its structure."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from softlookup.fused import attend
from softlookup.masks import (
    alibi,
    causal,
    chunked,
    dilated,
    documents,
    packed,
    padding,
    padding_of,
    prefix_lm,
    sliding_window,
)


class LargestResult(TorchDispatchMode):
    """Note the entries of the largest memory that an operation returns; a view counts as what it looks at.

    What a kernel of PyTorch needs inside is not seen: blocks of its own, for each thread.
    """

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        answer = function(*args, **(kwargs or {}))
        for x in answer if isinstance(answer, (tuple, list)) else [answer]:
            if isinstance(x, torch.Tensor):
                self.entries = max(self.entries, x.untyped_storage().nbytes() // x.itemsize)
        return answer


LONG = torch.arange(4096)


@pytest.mark.parametrize(
    ("mask", "rows"),  # so many rows of 4096 entries at most
    [
        *[(mask, 128) for mask in (None, causal(), causal("bottom-right") & padding(4000), ~causal())],
        *[(sliding_window(n, how), 128) for n in (1, 256, 1500) for how in ("keys", "lookback", "each side")],
        *[(mask, 128) for mask in (padding(3000), padding(3000, "left"), padding_of(LONG[None] % 4000))],
        *[(prefix_lm(n), 128) for n in (3, 3000)],
        *[(documents(LONG[None] // n) & causal(), 128) for n in (100, 512, 3000)],
        *[
            (mask, 128)
            for mask in (packed([0, 7, 4096]), chunked(64), chunked(1000, "own and earlier chunks"))
        ],
        *[(mask, 128) for mask in (sliding_window(64) | padding(4), ~sliding_window(64) & causal())],
        *[(mask, 512) for mask in (dilated(9, 64), dilated(64, 64), alibi(1), alibi(1) & sliding_window(64))],
    ],
    ids=repr,
)
def test_no_tensor_of_queries_by_keys_is_made_forward_or_backward(mask, rows):
    q, k, v = (torch.randn(1, 1, 4096, 8, requires_grad=True) for _ in range(3))
    with LargestResult() as largest:
        attend(q, k, v, mask, empty_rows="zero").sum().backward()
    assert 4096 * 8 <= largest.entries <= rows * 4096


def test_the_largest_result_sees_a_tensor_of_queries_by_keys():
    q = torch.randn(1, 1, 512, 8, requires_grad=True)
    with LargestResult() as largest:
        attend(q, q, q, causal().dense(512, 512).float().requires_grad_()).sum().backward()
    assert largest.entries >= 512 * 512


class WrittenTwice(TorchDispatchMode):
    """Count operations in place, and those into views that show one number in memory several times."""

    in_place = twice = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function._schema.name.endswith("_") and isinstance(args[0], torch.Tensor):
            places = torch.zeros((), dtype=torch.int64)
            for size, stride in zip(args[0].shape, args[0].stride(), strict=True):
                places = places[..., None] + torch.arange(size) * stride
            self.in_place += 1
            self.twice += places.unique().numel() < places.numel()
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "mask", [sliding_window(9), sliding_window(150), sliding_window(40, "each side")], ids=repr
)
def test_no_number_is_written_twice_at_once_where_folded_pieces_share_keys(mask):
    q, k, v = (torch.randn(1, 2, 600, 4, requires_grad=True) for _ in range(3))
    with WrittenTwice() as written:
        attend(q, k, v, mask).sum().backward()
    assert written.in_place > 0
    assert written.twice == 0
