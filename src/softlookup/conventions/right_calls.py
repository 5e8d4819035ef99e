"""The call that is right for each API, as an expression on ``mask`` in plain PyTorch."""

from __future__ import annotations

from softlookup.conventions.candidates import Candidate, takes_axes
from softlookup.conventions.converting import write_mask
from softlookup.conventions.discover import Convention, conventions
from softlookup.conventions.meanings import in_four_axes
from softlookup.conventions.spelling import Sizes, Takes
from softlookup.conventions.tensors import given
from softlookup.terms import SoftlookupError

_QUICK = 1 << 16  # entries of a mask that every API is asked about
_ARRAYS = {"jax", "flax", "keras", "onnx", "mlx"}
_SOURCES = {
    ("allowed", "bool"): "allowed_mask",
    ("blocked", "bool"): "blocked_mask",
    ("allowed", "int"): "1 = keep",
    ("allowed", "float"): "1 = keep",
    ("blocked", "int"): "1 = hide",
    ("blocked", "float"): "1 = hide",
    ("additive", "float"): "additive_bias",
}


def calls_for(best: Candidate, sizes: Sizes) -> dict[str, str]:
    """Return for each API the call that sees what ``best`` shows, or why there is none."""
    if (best.kind, best.dtype) not in _SOURCES:
        return _of_structure(best)
    return {
        it.name: _call(it, best, sizes)
        for it in conventions()
        if it.name == "allowed_mask" or not it.file.startswith("plain_")  # those are nobody's call
    }


def _of_structure(best: Candidate) -> dict[str, str]:
    """Calls for lengths, bounds and ids, which ``softlookup.masks`` has builders for."""
    builders = {"lengths": "padding(mask)", "bounds": "packed(mask)", "document ids": "documents(mask)"}
    if best.kind not in builders:
        return {}
    made = f"softlookup.masks.{builders[best.kind]}"
    return {
        it.name: it.call.format(f'**softlookup.convert({made}, target="{it.name}", q_len=T_q, k_len=T_k)')
        for it in conventions()
    }


def _call(convention: Convention, best: Candidate, sizes: Sizes) -> str:
    """Return the call with the first argument that can say it, or with ``convert`` where none is a tensor."""
    for takes in convention.takes:
        expression = _expression(takes, best, sizes.num_heads)
        if expression is not None:
            if _ARRAYS & set(convention.needs):
                expression = (f"({expression})" if expression[0] == "~" else expression) + ".numpy()"
            return convention.call.format(f"{takes.argument}={expression}")
    lost = _lost(convention, best, sizes)
    if lost:
        return f"cannot say it; lost: {lost}"
    source = _SOURCES[best.kind, best.dtype]
    index = "" if best.axes == "T_q T_k" else in_four_axes(best.axes, sizes.num_heads)
    heads = f", num_heads={sizes.num_heads or 'num_heads'}"
    arguments = f'**softlookup.convert(mask{index}, source="{source}", target="{convention.name}"{heads})'
    return convention.call.format(arguments)


def _lost(convention: Convention, best: Candidate, sizes: Sizes) -> str:
    """Return what this API could not carry, as far as it can be found without long work."""
    if best.marks is None or best.marks.marked.numel() > _QUICK:
        return ""
    mask = given(best.marks.visible())
    shape = best.marks.marked.shape
    k_len = shape[-1]
    q_len = shape[-2] if shape[-2] > 1 else sizes.q_len or k_len
    full = Sizes(q_len, k_len, shape[0], sizes.num_heads or shape[1])
    try:
        return "; ".join(write_mask(mask, convention.name, full).lost)
    except SoftlookupError:  # a size that nobody said
        return ""


def _expression(takes: Takes, best: Candidate, num_heads: int | None) -> str | None:
    """Return the mask as this argument wants it; None when it has not these axes or numbers."""
    if takes.dtype != "bool" and (takes.meaning, takes.dtype) != (best.kind, best.dtype):
        return None  # flags for it would do, and there is an argument for flags or none at all
    index = _index(takes, best.axes, num_heads)
    if index is None:
        return None
    if (takes.meaning, takes.dtype) == (best.kind, best.dtype):
        return f"mask{index}"
    if best.kind == "additive":
        return f"(mask {'>' if takes.meaning == 'allowed' else '<='} -9000){index}"
    if best.dtype == "bool":
        return f"~mask{index}"
    one = (takes.meaning == "allowed") == (best.kind == "allowed")
    return f"(mask == {int(one)}){index}"


def _index(takes: Takes, axes: str, num_heads: int | None) -> str | None:
    """Return what brings axes into a shape that the argument takes; "" when it takes them as they are."""
    if takes_axes(takes, axes):
        return ""
    four = in_four_axes(axes, num_heads)
    general = "B 1 1 T_k" if axes == "B T_k" else axes
    if takes.broadcast and "B H T_q T_k" in takes.shapes and axes != "T_k":
        return four
    names = general.split()
    if "B T_k" in takes.shapes and (axes == "B T_k" or (names[-3:-1] == ["1", "1"] and len(names) == 4)):
        return "" if axes == "B T_k" else "[:, 0, 0]"
    if "T_q T_k" in takes.shapes and len(names) == 4 and names[:2] == ["1", "1"] and names[2] == "T_q":
        return "[0, 0]"
    return None
