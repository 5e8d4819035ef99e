"""From one library's mask to another's: read to who may look at whom, and written from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from softlookup.conventions.discover import Convention, find_convention
from softlookup.conventions.spelling import Reading, Sizes, Spelling
from softlookup.conventions.tensors import everything
from softlookup.masks import Bias, Mask
from softlookup.terms import SoftlookupError


def convert(
    mask: Any,
    *,
    target: str,
    source: str = "allowed_mask",
    q_len: int | None = None,
    k_len: int | None = None,
    batch_size: int | None = None,
    num_heads: int | None = None,
    lossy: bool = False,
) -> dict[str, Any]:
    """Return the keyword arguments with which another library sees what this mask shows.

    mask: a Mask of ``softlookup.masks``, a tensor or array as ``source`` takes it, or a dict of several
    arguments of it, e.g. ``{"attn_mask": ..., "key_padding_mask": ...}``
    target: a name of ``convention_names()``, or one with a form, "F.scaled_dot_product_attention[additive]";
    without it the cheapest form is written that says all: a flag, lengths, a BlockMask, or else a tensor
    source: whose mask it is; without it bool with True = may look. A Mask needs none.
    q_len, k_len, batch_size, num_heads: T_q, T_k, B and H, where the mask itself does not say them
    lossy: leave out what the target cannot say; it then shows more than the mask, never less

    What is returned may share memory with the mask.

    Raises: SoftlookupError for an unknown name, a mask that source cannot mean, sizes that are missing or do
    not fit, and for what would be lost.

    >>> from softlookup.masks import causal, padding
    >>> convert(causal(), target="F.scaled_dot_product_attention", q_len=5, k_len=5)
    {'is_causal': True}
    >>> convert(padding([2, 3]), target="nn.MultiheadAttention", q_len=3, k_len=3)
    {'key_padding_mask': tensor([[False, False,  True],
            [False, False, False]])}
    """
    given = Sizes(q_len, k_len, batch_size, num_heads)
    reading = read_mask(mask, source, given)
    written = write_mask(reading.mask, target, sizes_of(reading.mask, given))
    lost = [*(f"read as {source}: {words}" for words in reading.lost), *written.lost]
    if lost and not lossy:
        raise refuse_loss(target, lost)
    return written.arguments


def read_mask(mask: Any, source: str, sizes: Sizes) -> Reading:
    """Return who may look at whom, from a Mask or from what ``source`` is given.

    Raises: SoftlookupError as ``convert`` does.
    """
    if isinstance(mask, Mask):
        return Reading(mask)
    if isinstance(mask, Bias):
        visible = everything() if mask.mask is None else mask.mask
        return Reading(visible, (f"the bias {mask.spelled}: it changes weights and hides nothing",))
    convention, _ = find_convention(source)
    main = convention.takes[0].argument
    return convention.read(mask if isinstance(mask, Mapping) else {main: mask}, sizes)


def write_mask(mask: Mask, target: str, sizes: Sizes) -> Spelling:
    """Return the cheapest spelling that says all of a mask; where none does, the last form and what is lost.

    Raises: SoftlookupError when a size is missing or the target is unknown.
    """
    convention, form = find_convention(target)
    if form is not None:
        return convention.forms[form](mask, sizes)
    for writer in convention.forms.values():
        spelling = writer(mask, sizes)
        if not spelling.lost:
            return spelling
    return spelling


def refuse_loss(target: str, lost: Iterable[str]) -> SoftlookupError:
    """Return the refusal of a mask of which a target says only a part."""
    return SoftlookupError(
        f"convert: {target} cannot say all of this mask.",
        expected="a mask that can be said, or lossy=True, which leaves out what is lost",
        got="lost: " + "; ".join(lost),
        hint=_other_forms(target),
    )


def sizes_of(mask: Mask | Bias, given: Sizes) -> Sizes:
    """Return the sizes that were given, filled up with those that the mask fixes.

    Raises: SoftlookupError when the two contradict each other.
    """
    fields = {"q_len": "T_q", "k_len": "T_k", "batch_size": "B", "num_heads": "H"}
    for field, axis in fields.items():
        said, own = getattr(given, field), mask.sizes[axis]
        if said is not None and own is not None and said != own:
            raise SoftlookupError(
                "masks: the mask is for another size.",
                expected=f"{field}={said}",
                got=f"{axis} = {own} in the mask",
            )
        given = replace(given, **{field: own if said is None else said})
    return given


def _other_forms(target: str) -> str:
    convention: Convention = find_convention(target)[0]
    return (
        f"another form: {', '.join(f'{convention.name}[{it}]' for it in convention.forms)}"
        if len(convention.forms) > 1
        else ""
    )
