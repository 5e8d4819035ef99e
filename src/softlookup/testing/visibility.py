"""Assert who may look at whom, for tests and notebooks: a failure says why, and draws the row.

A mask is a ``Mask``, bool with True = may look, or with ``source`` what another library is given, also
several of its arguments in a dict: ``source="nn.MultiheadAttention"``. Where sample and head are not said,
all must do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from softlookup.masks.accept import choice, ids
from softlookup.terms import Corner, SoftlookupError
from softlookup.testing.drawn_rows import drawn_row, listed
from softlookup.testing.looked_at import INVERTED, Looked, Place, first_row, look


def assert_allowed(
    mask: Any,
    *,
    query: int,
    key: int,
    batch: int | None = None,
    head: int | None = None,
    q_len: int | None = None,
    k_len: int | None = None,
    source: str | None = None,
) -> None:
    """Assert that a query may look at a key.

    mask: see above   batch, head: which sample and head; None: in all of them
    q_len, k_len: where the mask does not fix them; without them the smallest that hold query and key

    Raises: AssertionError that says what hides the key and draws the row. SoftlookupError for what is no mask
    or no place in it.

    >>> from softlookup.masks import causal
    >>> assert_allowed(causal(), query=3, key=2)
    """
    __tracebackhide__ = True
    looked = look(mask, source, (q_len, k_len), (query, (key,)))
    only = torch.arange(looked.k_len) == key
    looked.compare(Place(query, batch, head), lambda row: ~row & only, f"should see key {key}")


def assert_hidden(
    mask: Any,
    *,
    query: int,
    key: int,
    batch: int | None = None,
    head: int | None = None,
    q_len: int | None = None,
    k_len: int | None = None,
    source: str | None = None,
) -> None:
    """Assert that a query may not look at a key. Everything else is as in ``assert_allowed``.

    Raises: AssertionError that draws the row. SoftlookupError for what is no mask or no place in it.

    >>> from softlookup.masks import causal
    >>> assert_hidden(causal(), query=3, key=4)
    """
    __tracebackhide__ = True
    looked = look(mask, source, (q_len, k_len), (query, (key,)))
    only = torch.arange(looked.k_len) == key
    looked.compare(Place(query, batch, head), lambda row: row & only, f"should not see key {key}")


def assert_row(
    mask: Any,
    *,
    query: int,
    keys: Iterable[int],
    batch: int | None = None,
    head: int | None = None,
    q_len: int | None = None,
    k_len: int | None = None,
    source: str | None = None,
) -> None:
    """Assert that a query sees exactly these keys. Everything else is as in ``assert_allowed``.

    Raises: AssertionError that draws the row with what is missing and what is too much. SoftlookupError for
    what is no mask or no place in it.

    >>> from softlookup.masks import causal, sliding_window
    >>> assert_row(causal(), query=3, keys=[0, 1, 2, 3])
    >>> assert_row(sliding_window(2), query=3, keys=[2, 3])
    """
    __tracebackhide__ = True
    wanted_keys = tuple(keys)
    looked = look(mask, source, (q_len, k_len), (query, wanted_keys))
    wanted = torch.zeros(looked.k_len, dtype=torch.bool)
    wanted[list(wanted_keys)] = True
    says = f"should see {listed(wanted)} and nothing else"
    looked.compare(Place(query, batch, head), lambda row: row ^ wanted, says)


def assert_causal(
    mask: Any,
    *,
    corner: Corner = "top-left",
    q_len: int | None = None,
    k_len: int | None = None,
    source: str | None = None,
) -> None:
    """Assert that no query sees a later key, in any sample and head.

    corner: where the diagonal starts when T_q and T_k differ, as in ``softlookup.masks.causal``
    q_len, k_len: where the mask does not fix them

    Raises: AssertionError that names the first such query and draws its row. SoftlookupError for what is no
    mask, or lengths that nobody said.

    >>> assert_causal(torch.ones(4, 4).tril().bool())
    >>> assert_causal(torch.ones(2, 4).tril(2).bool(), corner="bottom-right")
    """
    __tracebackhide__ = True
    choice("corner", corner, ("top-left", "bottom-right"))
    looked = look(mask, source, (q_len, k_len))
    own = {"top-left": 0, "bottom-right": looked.k_len - looked.q_len}
    distance = torch.arange(looked.k_len) - torch.arange(looked.q_len)[:, None]  # [T_q, T_k]
    later = distance > own[corner]
    found = first_row(looked.dense & later)
    if found is None:
        return
    batch, head, query = found
    row = looked.dense[batch, head, query]
    beyond = row & later[query]
    lines = [
        f"{looked.named(query, batch, head)} sees later keys: its own is key {query + own[corner]}, "
        f"and it sees {listed(beyond)}",
        *drawn_row(row, mark=beyond.nonzero()[:, 0].tolist(), label="later"),
    ]
    other: Corner = "bottom-right" if corner == "top-left" else "top-left"
    if not bool((looked.dense & (distance > own[other])).any()):
        lines.append(f"it is causal with corner={other!r}")
    elif looked.looks_inverted and not bool((~looked.dense & later).any()):
        lines.append(INVERTED)
    raise AssertionError("\n  ".join(lines))


def assert_hides_padding(mask: Any, token_ids: Tensor, pad_id: int = 0, *, source: str | None = None) -> None:
    """Assert that no query sees a padded key of its sample, and that some query sees each real key.

    mask: as above; where it does not fix T_q, there are as many queries as keys
    token_ids: [B, T_k] integers; those that are ``pad_id`` are padding

    Raises: AssertionError that names the sample and the key, and says when the mask hides padded queries
    instead, hides real tokens, or is the same for samples of different padding. SoftlookupError for what is
    no mask, or does not fit the tokens.

    >>> from softlookup.masks import padding
    >>> assert_hides_padding(padding([3, 4]), torch.tensor([[12, 91, 33, 0], [44, 17, 29, 81]]))
    """
    __tracebackhide__ = True
    real = (ids("token_ids", token_ids) != pad_id).cpu()  # [B, T_k]
    shape = tuple(getattr(mask, "shape", ()))
    if source is None and shape == tuple(real.shape) and shape[0] != shape[1]:
        raise SoftlookupError(
            "assert_hides_padding: two axes are queries and keys.",
            expected="[T_q, T_k] or [B, H, T_q, T_k]",
            got=f"{list(real.shape)}, as in token_ids: samples and keys",
            hint="mask[:, None, None, :], or source='nn.MultiheadAttention' for a key_padding_mask in a dict",
        )
    looked = look(mask, source, (None, real.shape[1]), square=True)
    if len(looked.dense) not in (1, len(real)):
        raise SoftlookupError(
            "assert_hides_padding: mask and tokens do not belong together.",
            expected=f"B = {len(real)} in the mask, as in token_ids, or 1",
            got=f"B = {len(looked.dense)}",
        )
    visible = looked.dense.expand(len(real), -1, -1, -1)
    found = first_row(visible & ~real[:, None, None, :])
    if found is not None:
        sample, head, query = found
        row = visible[sample, head, query]
        at = row & ~real[sample]
        lines = [
            f"query {query} of sample {sample} sees padding: {listed(at)}",
            *drawn_row(row, mark=at.nonzero()[:, 0].tolist(), label="padding"),
            *_likely_reason(looked, visible, real),
        ]
        raise AssertionError("\n  ".join(lines))
    unseen = _unseen(visible, real)
    if bool(unseen.any()):
        sample = int(unseen.any(dim=-1).nonzero()[0])
        at = unseen[sample]
        lines = [
            f"sample {sample}: no query sees {listed(at)}, and they are no padding",
            *drawn_row(real[sample] & ~at, mark=at.nonzero()[:, 0].tolist(), label="real"),
        ]
        raise AssertionError("\n  ".join(lines))


def _likely_reason(looked: Looked, visible: Tensor, real: Tensor) -> list[str]:
    """Say why padding is seen, where it shows: [B, H, T_q, T_k] and which keys are real, [B, T_k]."""
    hidden, padded = ~visible, ~real[:, None, None, :]
    opposite_passes = not bool((hidden & padded).any()) and not bool(_unseen(hidden, real).any())
    if looked.is_unsaid_tensor and opposite_passes:
        return [INVERTED]
    if len(looked.dense) == 1 and torch.equal(visible[0, 0], real):
        return ["it is [B, T_k] and was read as [T_q, T_k], for B = T_q: mask[:, None, None, :]"]
    rows = looked.q_len == looked.k_len and torch.equal(visible.any(dim=1).any(dim=-1), real)
    if rows and not bool(real.all()):
        return ["it hides the rows of padded queries; their columns must be hidden: mask[:, None, None, :]"]
    if len(looked.dense) == 1 and bool((real != real[:1]).any()):
        return ["the mask is the same for all samples, and their padding differs: it needs an axis [B, ...]"]
    return []


def _unseen(visible: Tensor, real: Tensor) -> Tensor:
    """Return which real keys no query sees: [B, T_k]."""
    return real & ~visible.any(dim=1).any(dim=1)
