"""attention_mask of two axes, as a decoder of transformers takes it, e.g. LlamaForCausalLM.

    attention_mask: int64 [2, 3], 1 = may look
    1 1 1
    1 1 .

In its words: the model hides later tokens by itself, and attention_mask says nothing but padding: [B, T_k],
1 for tokens that are not masked, 0 for padding on either side, cast to bool whatever its dtype. With a
cache it covers past and new tokens together, and a query stands behind all that is cached, so causal ends
at the last key; a mask that is too short is filled up with 0, which hides the newest keys. is_causal=False
lets all tokens see each other. Without mask and cache, position_ids that do not go up by 1 begin a new
document, which sees nothing of those before. A mask of four axes goes to the layers as it is: causal is not
added to it.

Lost when written: all but causal from the last key, which the last query stands at, and hidden keys.

Lost when read: nothing. position_ids are another argument, which this one does not touch: generate() counts
them from the mask, a call of the model does not, so left padding shifts them.
"""

from __future__ import annotations

from torch import Tensor

from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.transformers_calls import attend_by, decoder_mask
from softlookup.conventions.transformers_keys import (
    IN_FOUR_AXES,
    hides_what_is_later,
    keys_alone,
    keys_seen,
    read_keys,
    written_keys,
)
from softlookup.masks import AllOf, Mask, causal

NAME = "transformers decoder"
ALSO = ("transformers causal", "transformers 2-D causal")
WORDS = "transformers 5.24.0"
CALL = "model(input_ids, {})"
TAKES = (
    Takes("attention_mask", "allowed", "int", ("B T_k",)),
    Takes("attention_mask", "allowed", "bool", ("B T_k",)),
    Takes("attention_mask", "allowed", "float", ("B T_k",)),
)
NEEDS = ("transformers",)
CAUSAL = {"is_causal": True}


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``attention_mask``, under causal unless ``is_causal`` is False."""
    found = take_known(arguments, ("attention_mask", "is_causal"), NAME)
    keys = read_keys(found["attention_mask"], sizes, NAME)
    if found["is_causal"] is False:
        return Reading(keys)
    corner = causal("bottom-right")
    return Reading(corner if found["attention_mask"] is None else AllOf.of(corner, keys))


def as_keys(mask: Mask, sizes: Sizes) -> Spelling:
    """Integers [B, T_k], 1 = keep; ``is_causal=False`` only where later tokens are to be seen."""
    q_len, k_len = sizes.of("q_len", "a decoder"), sizes.of("k_len", "a decoder")
    if q_len > k_len:
        return Spelling(
            {**written_keys(keys_seen(mask, sizes), sizes), "is_causal": False},
            ("queries beyond the keys: a decoder's keys are its own tokens and those before",),
        )
    keys = keys_alone(mask, sizes, causal=True)
    if keys is not None:
        return Spelling(written_keys(keys, sizes))
    keys = keys_alone(mask, sizes, causal=False)
    if keys is not None:
        return Spelling({**written_keys(keys, sizes), "is_causal": False})
    shown = written_keys(keys_seen(mask, sizes), sizes)
    if not hides_what_is_later(mask, sizes):
        shown["is_causal"] = False
    return Spelling(shown, (f"all but causal from the last key and hidden keys: {IN_FOUR_AXES}",))


FORMS = {"2-D": as_keys}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Make the layers' mask as a model with a cache does, and attend by ``sdpa``, its default."""
    is_causal = arguments.get("is_causal") is not False
    made = decoder_mask(q, k, arguments.get("attention_mask"), "sdpa", is_causal=is_causal)
    return attend_by("sdpa", (q, k, v), made, is_causal=is_causal)
