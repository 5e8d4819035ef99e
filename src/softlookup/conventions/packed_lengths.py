"""Packed documents as lengths: what cumulative lengths and ids of documents come to."""

from __future__ import annotations

from itertools import groupby, pairwise

from torch import Tensor


def document_lengths(
    cu_seqlens: tuple[int, ...] | None, document_ids: Tensor | None
) -> list[list[int]] | None:
    """Return the lengths of the documents of each sample, one list for all where they are alike.

    [] when nothing is packed.

    cu_seqlens: cumulative lengths, the same for all samples
    document_ids: [B or 1, T]

    None when the tokens of a document do not lie side by side.

    >>> document_lengths((0, 2, 5), None)
    [[2, 3]]
    >>> import torch
    >>> document_lengths(None, torch.tensor([[7, 7, 4], [1, 2, 1]])) is None
    True
    """
    if cu_seqlens is None and document_ids is None:
        return []
    ids = document_ids.tolist() if document_ids is not None else [[0] * (cu_seqlens or (0,))[-1]]
    cut = cu_seqlens or (0, len(ids[0]))
    segments = [n for n, (start, stop) in enumerate(pairwise(cut)) for _ in range(start, stop)]
    found = []
    for row in ids:
        runs = [(label, sum(1 for _ in run)) for label, run in groupby(zip(segments, row, strict=True))]
        if len({label for label, _ in runs}) < len(runs):
            return None
        found.append([length for _, length in runs])
    return found
