"""The masks by the names one types. Each function picks a rule file and spells how it prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from softlookup.masks.accept import choice, ids, whole_number
from softlookup.masks.algebra import Mask
from softlookup.masks.bias import Bias
from softlookup.masks.discover import rule_file
from softlookup.masks.rule import spelled_rule
from softlookup.terms import Corner

#: One number for all samples, or one for each.
PerSample: TypeAlias = int | Sequence[int] | Tensor

_WINDOWS = {
    "keys": "window_counts_keys",
    "lookback": "window_counts_lookback",
    "each side": "window_each_side",
}
_CHUNKS = {
    "own chunk": "chunk_both_ways",
    "own chunk up to itself": "chunk_up_to_self",
    "own and earlier chunks": "chunk_and_earlier",
}


def causal(corner: Corner = "top-left") -> Mask:
    """Show each query the keys that are not after it.

    corner: when T_q and T_k differ, "top-left" starts the diagonal at key 0 (what torch's is_causal does),
    "bottom-right" ends it at the last key (what decoding with a key/value cache needs)

    Raises: SoftlookupError for another corner.

    >>> print(causal("bottom-right").draw(2, 4))
    1 1 1 .
    1 1 1 1
    """
    name = (
        "causal_top_left"
        if choice("corner", corner, ("top-left", "bottom-right")) == "top-left"
        else "causal_bottom_right"
    )
    return spelled_rule(name, _spell("causal", *([] if corner == "top-left" else [corner])))


def padding(lengths: PerSample, side: Literal["right", "left"] = "right") -> Mask:
    """Hide the padding of each sample, from the number of its real tokens.

    lengths: [B] real tokens of each sample, 0 to T_k
    side: where the padding is

    Raises: SoftlookupError for a negative length, another side, and later for a length beyond T_k.

    >>> padding([3, 5]).dense(5, 5).shape
    torch.Size([2, 1, 5, 5])
    """
    shown = [] if choice("side", side, ("right", "left")) == "right" else [side]
    return spelled_rule(f"padding_{side}", _spell("padding", _plain(lengths), *shown), lengths=lengths)


def padding_of(token_ids: Tensor, pad_id: int = 0) -> Mask:
    """Hide the keys whose token is ``pad_id``.

    token_ids: [B, T_k] integers

    Raises: SoftlookupError when token_ids is no integer tensor [B, T_k].

    >>> print(padding_of(torch.tensor([[12, 91, 0]])).draw(1, 3))
    1 1 .
    """
    shown = _spell("padding_of", token_ids, **({} if pad_id == 0 else {"pad_id": pad_id}))
    return spelled_rule("padding_token_ids", shown, token_ids=token_ids, pad_id=pad_id)


def sliding_window(
    window: int, counts: Literal["keys", "lookback", "each side"] = "keys", corner: Corner = "top-left"
) -> Mask:
    """Show each query the keys near it. Libraries count a window in three ways, so say what it counts.

    window: how many of what ``counts`` says
    counts: "keys" that are seen, the query's own included, causal; "lookback" keys before its own, causal, so
    window + 1 are seen; "each side" keys before and as many after, so 2 * window + 1 are seen
    corner: where queries stand among the keys when T_q and T_k differ, as in ``causal``

    Raises: SoftlookupError for a window that is too small, or another word in counts or corner.

    >>> masks = [sliding_window(2, counts) for counts in ("keys", "lookback", "each side")]
    >>> [mask.dense(9, 9)[0, 0, 4].sum().item() for mask in masks]
    [2, 3, 5]
    """
    name = _WINDOWS[choice("counts", counts, tuple(_WINDOWS))]
    shown = _spell("sliding_window", window, *([] if counts == "keys" else [counts]), **_corner(corner))
    return spelled_rule(name, shown, window=window, corner=corner)


def dilated(window: int, step: int, corner: Corner = "top-left") -> Mask:
    """Show each query ``window`` keys, its own and those before it at distances step, 2 * step, ...

    Raises: SoftlookupError for a window or step below 1, or another corner.

    >>> print(dilated(2, step=2).draw(4, 4).splitlines()[-1])
    . 1 . 1
    """
    shown = _spell("dilated", window, step=step, **_corner(corner))
    return spelled_rule("dilated_counts_keys", shown, window=window, step=step, corner=corner)


def prefix_lm(prefix_lengths: PerSample, corner: Corner = "top-left") -> Mask:
    """Show everybody the whole prefix, and after it only what is not later than the query.

    prefix_lengths: [B] keys in the prefix of each sample, 0 to T_k

    Raises: SoftlookupError for a negative length, another corner, and later for a length beyond T_k.

    >>> print(prefix_lm(2).draw(3, 3))
    1 1 .
    1 1 .
    1 1 1
    """
    shown = _spell("prefix_lm", _plain(prefix_lengths), **_corner(corner))
    return spelled_rule("prefix_then_causal", shown, prefix_lengths=prefix_lengths, corner=corner)


def documents(document_ids: Tensor, corner: Corner = "top-left") -> Mask:
    """Keep packed documents apart: a query sees the keys with its own document id, before and after it.

    document_ids: [B, T_k] integers

    Raises: SoftlookupError when document_ids is no integer tensor [B, T_k], and later for more queries than
    keys.

    >>> (documents(torch.tensor([[0, 0, 1]])) & causal()).explain(2, 1)
    'key 1 is hidden from query 2: documents([1, 3])'
    """
    shown = _spell("documents", document_ids, **_corner(corner))
    return spelled_rule("same_document", shown, document_ids=document_ids, corner=corner)


def packed(cu_seqlens: Sequence[int] | Tensor, corner: Corner = "top-left") -> Mask:
    """Keep packed documents apart, from cumulative lengths, in one row of T_k = cu_seqlens[-1] tokens.

    cu_seqlens: [documents + 1] rising from 0 to T_k

    Raises: SoftlookupError when they do not rise from 0, and later for another T_k.

    >>> packed([0, 2, 3]) & causal()
    packed([0, 2, 3]) & causal()
    """
    shown = _spell("packed", _plain(cu_seqlens), **_corner(corner))
    return spelled_rule("same_segment_cu_seqlens", shown, cu_seqlens=cu_seqlens, corner=corner)


def chunked(
    chunk_size: int,
    sees: Literal["own chunk", "own chunk up to itself", "own and earlier chunks"] = "own chunk up to itself",
    corner: Corner = "top-left",
) -> Mask:
    """Cut the sequence every ``chunk_size`` positions, and say which chunks a query sees.

    sees: "own chunk" both ways; "own chunk up to itself", chunked causal; "own and earlier chunks",
    block-causal

    Raises: SoftlookupError for a chunk_size below 1, or another word in sees or corner.

    >>> print(chunked(2).draw(3, 3))
    1 . .
    1 1 .
    . . 1
    """
    name = _CHUNKS[choice("sees", sees, tuple(_CHUNKS))]
    shown = _spell("chunked", chunk_size, *([] if name == "chunk_up_to_self" else [sees]), **_corner(corner))
    return spelled_rule(name, shown, chunk_size=chunk_size, corner=corner)


def alibi(num_heads: int, corner: Corner = "top-left") -> Bias:
    """Return the ALiBi bias: a key costs the head's slope for every position of distance. It hides nothing.

    corner: the same as in the mask that it is combined with

    Raises: SoftlookupError when num_heads is not at least 1, or for another corner.
    Source: Press, Smith and Lewis 2022, arXiv 2108.12409.

    >>> (alibi(8) & causal()).dense(5, 5).shape
    torch.Size([1, 8, 5, 5])
    """
    items = rule_file("linear_distance", "bias").complete({"num_heads": num_heads, "corner": corner})
    return Bias("linear_distance", items, _spell("alibi", num_heads, **_corner(corner)))


def make_causal_allowed_mask(seq_len: int, device: torch.device | str | None = None) -> Tensor:
    """Return the plain causal mask: bool [1, 1, T, T], True on and below the diagonal.

    Raises: SoftlookupError when seq_len is not a whole number of at least 1.

    >>> make_causal_allowed_mask(2).tolist()
    [[[[True, False], [True, True]]]]
    """
    return causal().dense(*[whole_number("seq_len", seq_len, at_least=1)] * 2, device=device)


def make_padding_allowed_mask(token_ids: Tensor, pad_id: int = 0) -> Tensor:
    """Return the plain padding mask: bool [B, 1, 1, T_k], True on real tokens. Combine with ``&``.

    token_ids: [B, T_k] integers

    Raises: SoftlookupError when token_ids is no integer tensor [B, T_k].

    >>> token_ids = torch.tensor([[12, 91, 33, 0, 0], [44, 17, 29, 81, 5]])
    >>> (make_causal_allowed_mask(5) & make_padding_allowed_mask(token_ids)).shape
    torch.Size([2, 1, 5, 5])
    """
    return (ids("token_ids", token_ids) != pad_id)[:, None, None, :]


def _corner(corner: Corner) -> dict[str, str]:
    return {} if corner == "top-left" else {"corner": corner}


def _plain(numbers: PerSample) -> Any:
    return numbers.tolist() if isinstance(numbers, Tensor) else numbers


def _spell(function: str, *arguments: Any, **named: Any) -> str:
    shown = [str(list(value.shape)) if isinstance(value, Tensor) else repr(value) for value in arguments]
    return f"{function}({', '.join([*shown, *(f'{name}={value!r}' for name, value in named.items())])})"
