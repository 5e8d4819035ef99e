"""Calls of torch's attention modules, found by what a class assigned to ``self.attn``, and their masks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from softlookup.lint.source import Source, argument
from softlookup.lint.values import reaching

#: Module -> its mask parameters and their positions, in each of which True hides.
_MASKS: dict[str, dict[str, int | None]] = {
    "MultiheadAttention": {"key_padding_mask": 3, "attn_mask": 5},
    "TransformerEncoderLayer": {"src_mask": 1, "src_key_padding_mask": 2},
    "TransformerEncoder": {"mask": 1, "src_key_padding_mask": 2},
    "TransformerDecoderLayer": {
        "tgt_mask": 2, "memory_mask": 3, "tgt_key_padding_mask": 4, "memory_key_padding_mask": 5,
    },
    "TransformerDecoder": {
        "tgt_mask": 2, "memory_mask": 3, "tgt_key_padding_mask": 4, "memory_key_padding_mask": 5,
    },
    "Transformer": {
        "src_mask": 2, "tgt_mask": 3, "memory_mask": 4, "src_key_padding_mask": 5, "tgt_key_padding_mask": 6,
        "memory_key_padding_mask": 7,
    },
}  # fmt: skip


def masks_given_to_modules(source: Source) -> Iterator[tuple[str, str, ast.expr]]:
    """Yield the module, the parameter and the mask of every call of a torch attention module."""
    for call in source.calls:
        name = _module(source, call)
        for parameter, position in _MASKS.get(name, {}).items():
            if (mask := argument(call, parameter, position)) is not None:
                yield f"nn.{name}", parameter, mask
        if source.called(call) == "multi_head_attention_forward" and "torch" in source.dotted(call.func):
            for parameter in ("key_padding_mask", "attn_mask"):
                if (mask := argument(call, parameter)) is not None:
                    yield "F.multi_head_attention_forward", parameter, mask


def _module(source: Source, call: ast.Call) -> str:
    """Return the name of torch's module that is called, "" for anything else."""
    kinds = source.submodule_kinds(call)
    if isinstance(call.func, ast.Name):
        values = [it.value for it in reaching(source, call.func)]
        kinds = [source.dotted(it.func) for it in values if isinstance(it, ast.Call)]
    found = {kind for kind in kinds if kind.startswith(("torch.nn.", "nn.", "torch.nn.modules."))}
    if len(found) != 1 or len(set(kinds)) != 1:
        return ""
    return found.pop().rpartition(".")[2]
