"""nn.MultiheadAttention with its options, each on and off."""

from itertools import product
from typing import Any

from row_of_a_package import MEMORY, WIDTH, H, Row, memory, tokens
from torch import nn

OPTIONS = ("bias", "add_bias_kv", "add_zero_attn", "other_widths", "batch_first", "dropout")
EVERY_COMBINATION = list(product((False, True), repeat=len(OPTIONS)))
#: Eight of the 64, in which any two options take all four pairs of values.
ANY_TWO = [(a, b, c, a ^ b, a ^ c, b ^ c) for a, b, c in product((False, True), repeat=3)]


def multihead_row(chosen: tuple[bool, ...]) -> Row:
    """Return the row of one combination.

    add_zero_attn adds a key and a value of zeros: a sink whose logit is zero. add_bias_kv adds a learned key
    and value, which every query sees whatever the masks say. Both come after the keys that are given.
    """
    on = dict(zip(OPTIONS, chosen, strict=True))
    width = MEMORY if on["other_widths"] else WIDTH

    def build() -> nn.Module:
        widths = {"kdim": MEMORY, "vdim": MEMORY} if on["other_widths"] else {}
        flags = {name: on[name] for name in ("bias", "add_bias_kv", "add_zero_attn", "batch_first")}
        return nn.MultiheadAttention(WIDTH, H, dropout=0.25 * on["dropout"], **flags, **widths)

    def call(module: nn.Module) -> Any:
        inputs = [tokens(), memory(width), memory(width)]
        if on["batch_first"]:
            return module(*inputs)
        output, weights = module(*(x.transpose(0, 1) for x in inputs))
        return output.transpose(0, 1), weights

    words = ", ".join(name for name in OPTIONS if on[name]) or "none"
    return Row(words, build, call, note="attention-sink" if on["add_zero_attn"] else None)


PAIRWISE = [multihead_row(chosen) for chosen in ANY_TWO]
THE_REST = [multihead_row(chosen) for chosen in EVERY_COMBINATION if chosen not in ANY_TWO]


def in_keys_of_20_and_values_of_12() -> nn.Module:
    return nn.MultiheadAttention(24, 3, kdim=20, vdim=12, add_bias_kv=True)


def sequence_first(module: nn.Module) -> Any:
    inputs = tokens(24), memory(20), memory(12)
    return module(*(x.transpose(0, 1) for x in inputs))


#: Few heads: the rounding of single rows must not pass for a scale that is off.
OTHER_SIZES = [Row("three heads, keys of 20, values of 12", in_keys_of_20_and_values_of_12, sequence_first)]
