"""attention_mask of two axes, as an encoder of transformers takes it, e.g. BertModel.

    attention_mask: int64 [2, 3], 1 = may look
    1 1 1
    1 1 .

In its words: attention_mask is [B, T_k], 1 for tokens that are not masked and 0 for padding, as a tokenizer
returns it; encoder_attention_mask says the same of the tokens that a decoder looks across at. It is cast to
bool, whatever its dtype: every number but 0 shows its key, so a float mask of 0 and -inf, which is meant to
be added, shows just what it should hide. One row for several samples is refused, and so are one and three
axes; a mask of four axes goes to the layers as it is. Where nothing is masked, no mask is made at all.

Lost when written: all but hidden keys, which are the same for all queries and heads of a sample.

Lost when read: nothing. The query rows of padding see the real keys, and mean nothing; position_ids are
another argument, which this one does not touch.
"""

from __future__ import annotations

from torch import Tensor

from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.transformers_calls import attend_by, encoder_mask
from softlookup.conventions.transformers_keys import (
    IN_FOUR_AXES,
    keys_alone,
    keys_seen,
    read_keys,
    written_keys,
)
from softlookup.masks import Mask

NAME = "transformers"
ALSO = ("transformers attention_mask", "transformers 2-D", "transformers encoder", "hf")
WORDS = "transformers 5.24.0"
CALL = "model(input_ids, {})"
TAKES = (
    Takes("attention_mask", "allowed", "int", ("B T_k",)),
    Takes("attention_mask", "allowed", "bool", ("B T_k",)),
    Takes("attention_mask", "allowed", "float", ("B T_k",)),
)
NEEDS = ("transformers",)


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``attention_mask``."""
    found = take_known(arguments, ("attention_mask",), NAME)
    return Reading(read_keys(found["attention_mask"], sizes, NAME))


def as_keys(mask: Mask, sizes: Sizes) -> Spelling:
    """Integers [B, T_k], 1 = keep; without an argument where nothing is hidden."""
    keys = keys_alone(mask, sizes, causal=False)
    if keys is not None:
        return Spelling(written_keys(keys, sizes))
    return Spelling(written_keys(keys_seen(mask, sizes), sizes), (f"all but hidden keys: {IN_FOUR_AXES}",))


FORMS = {"2-D": as_keys}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Make the layers' mask as a model does, and attend by ``sdpa``, its default."""
    made = encoder_mask(q, k, arguments.get("attention_mask"), "sdpa")
    return attend_by("sdpa", (q, k, v), made)
