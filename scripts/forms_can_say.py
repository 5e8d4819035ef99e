"""Which kinds of masks every form of a convention can say, found by writing one of each."""

from __future__ import annotations

from collections.abc import Iterator

from raw_masks import random_mask

from softlookup.conventions.converting import write_mask
from softlookup.conventions.discover import Convention
from softlookup.conventions.spelling import Sizes, Spelling
from softlookup.masks import Mask
from softlookup.masks.expression import read_mask_expression
from softlookup.terms import SoftlookupError

_CAN_SAY = {
    "causal": "causal",
    "bottom-right causal": 'causal("bottom-right")',
    "right padding": "padding([3, 6])",
    "left padding": 'padding([3, 6], "left")',
    "causal and padding": "causal & padding([3, 6])",
    "a window": "sliding_window(3)",
    "documents": "documents([[0, 0, 1, 1, 1, 2], [4, 4, 4, 4, 4, 4]])",
    "packed in one row": "packed([0, 2, 6]) & causal",
}


def forms(convention: Convention) -> dict[str, list[str]]:
    """Return for every form which kinds of masks it can say; a tensor differs by sample, head and query."""
    return {
        form: [kind for kind, mask in _kinds() if _says(convention, form, mask)] for form in convention.forms
    }


def _kinds() -> Iterator[tuple[str, Mask]]:
    for kind, words in _CAN_SAY.items():
        yield kind, read_mask_expression(words)
    sizes = Sizes(6, 6, 2, 3)
    yield "any tensor", Mask.from_tensor(random_mask("T_q T_k", sizes))
    yield "one for each sample", Mask.from_tensor(random_mask("B 1 T_q T_k", sizes))
    yield "one for each head", Mask.from_tensor(random_mask("1 H T_q T_k", sizes))


def _says(convention: Convention, form: str, mask: Mask) -> bool:
    lengths = [(4, 6)] if getattr(mask, "name", "") == "causal_bottom_right" else [(6, 6)]
    written = [written_by(convention, form, mask, Sizes(*it, 2, 3)) for it in lengths]
    return all(it is not None and not it.lost for it in written)


def written_by(convention: Convention, form: str, mask: Mask, sizes: Sizes) -> Spelling | None:
    """Return what a form writes; None where it takes no such mask."""
    try:
        return write_mask(mask, f"{convention.name}[{form}]", sizes)
    except SoftlookupError:
        return None
