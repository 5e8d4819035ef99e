"""Giving a mask switches the causal rule off.

Missed because: each rule works when it is tested alone; only a padded causal batch shows that the future is
visible.

Training: the model reads the next token whenever a batch has padding; the loss looks better than it is.

Ask: a batch with padding arrives in training: which of the two rules is still applied?

Fix: combine the rules instead of choosing one: `allowed_mask & causal_mask`.

Seen in: https://github.com/keras-team/keras/issues/23038 (the causal rule was lost on other branches),
https://github.com/huggingface/candle/pull/3632
"""

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("both asked", "overwritten", "hide", "normalize")


VARIANTS = ("a mask or bias", "a mask")  # a bias that is built in is there at every call


def visible(case: Case, variant: str) -> Tensor | None:
    given = case.allowed_mask is not None or (case.additive_bias is not None and variant == "a mask or bias")
    return all_rules(case.but(causal=None, window=None)) if given else all_rules(case)
