"""What the models of transformers say about who sees whom, as masks that keep their structure.

A model asks AttentionMaskInterface once a forward for the mask of its layers and hands over a function of
(sample, head, query, key), made of parts that transformers names. Parts that are known become rules of
``softlookup.masks``; of anything else the dense mask is made, as for "sdpa".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache, reduce
from operator import and_
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from softlookup.conventions.tensors import both, everything, shows_all
from softlookup.masks import Mask, causal, chunked, documents, padding, sliding_window
from softlookup.terms import Corner, SoftlookupError

#: may query q look at key k: (sample, head, q, k) -> bool, on index tensors
_MaskFunction: TypeAlias = Callable[..., Any]

_SUMS = {torch.ops.aten.add, torch.ops.aten.add_, torch.ops.aten.sub, torch.ops.aten.mul, torch.ops.aten.rsub}


class RuleMask(Tensor):
    """A bool tensor [B, 1, T_q, T_k] that is a rule still: its entries are made when somebody reads them.

    Models hand their mask from layer to layer and some cut or combine it on the way. What is done to it is
    done to the dense mask, and yields a plain tensor.
    """

    rule: Mask
    #: What comes of it is a plain tensor.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, rule: Mask, shape: Sequence[int], device: torch.device | str = "cpu") -> RuleMask:
        """Make a tensor that has a shape and no storage."""
        made: RuleMask = torch.Tensor._make_wrapper_subclass(
            cls, shape, dtype=torch.bool, device=torch.device(device)
        )
        made.rule = rule
        return made

    def dense(self) -> Tensor:
        """Return the mask as a plain tensor, bool [B, 1, T_q, T_k]."""
        q_len, k_len = self.shape[-2:]
        return self.rule.dense(q_len, k_len, device=self.device).expand(self.shape)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run any operation on the dense mask; refuse to add it up as numbers, which would hide nothing."""
        if func.overloadpacket in _SUMS and any(
            isinstance(x, Tensor) and x.is_floating_point() for x in args
        ):
            raise _own_attention("a layer that adds its mask to scores")
        args, kwargs = tree_map_only(RuleMask, RuleMask.dense, (args, kwargs or {}))
        return func(*args, **kwargs)


def mask_for_layers(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    **options: Any,
) -> Tensor:
    """Return the mask of the layers, bool [B, 1, T_q, T_k], as a ``RuleMask`` where its parts are known.

    It is never None: "no mask" is said by layers that have none, and never stands for causal.

    Raises: SoftlookupError for a model with attention of its own, which would add a bool mask to its scores.
    """
    from transformers.masking_utils import prepare_padding_mask, sdpa_mask

    config = options.get("config")
    if (
        config is not None
        and not torch.compiler.is_compiling()
        and _attends_by_itself(cast("Hashable", type(config)))
    ):
        raise _own_attention(f"a model of {type(config).__name__}")
    keys = prepare_padding_mask(options.get("attention_mask"), kv_length, kv_offset)
    rule = None
    if isinstance(q_offset, int) and not _only_traced(keys):
        rule = _rule_of(options.get("mask_function"), (q_length, kv_length), (q_offset, kv_offset))
    if rule is None:
        options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        dense: Tensor = sdpa_mask(batch_size, q_length, kv_length, q_offset, kv_offset, **options)
        return dense
    if keys is not None:
        shown = _shown(keys[:, kv_offset : kv_offset + kv_length])
        rule = shown if shows_all(rule) else both(rule, shown)
    return RuleMask(rule, (batch_size, 1, q_length, kv_length), options.get("device", "cpu"))


@lru_cache(maxsize=256)
def _attends_by_itself(config_class: Hashable) -> bool:
    """Say whether the models of a configuration are known not to ask AttentionInterface.

    transformers lets them carry any registered name, and asks the mask interface for their mask.
    """
    from transformers import PreTrainedModel

    found = [it for it in _all_subclasses(PreTrainedModel) if it.config_class is config_class]
    for model_class in found:
        model_class._can_set_attn_implementation()
    # What it answers is kept where the source could be read, and only then.
    return bool(found) and all(
        getattr(model_class, "_can_set_attn_implementation_cached_value", None) is False
        for model_class in found
    )


def _all_subclasses(of: type) -> Iterator[Any]:
    subclass: Any
    for subclass in of.__subclasses__():
        yield subclass
        yield from _all_subclasses(subclass)


def _own_attention(got: str) -> SoftlookupError:
    return SoftlookupError(
        'attn_implementation="softlookup": this model does not ask for it.',
        expected="a model whose layers take their attention from transformers' AttentionInterface",
        got=f"{got}, with attention of its own",
        hint='attn_implementation="eager" or "sdpa"',
    )


def _only_traced(keys: Tensor | None) -> bool:
    """Say whether a graph is being recorded: values cannot be read then, and a rule is no tensor of it."""
    from transformers.utils.import_utils import is_tracing

    return torch.compiler.is_compiling() or bool(is_tracing(keys))


def _rule_of(
    function: _MaskFunction | None, lengths: tuple[int, int], offsets: tuple[int, int]
) -> Mask | None:
    """Return what a mask function says, or None where some part of it is not known.

    lengths: T_q and T_k;  offsets: index of the first query, and of the first key
    """
    q_len, k_len = lengths
    ahead = offsets[0] - offsets[1]
    if ahead not in (0, k_len - q_len):
        return None
    corner: Corner = "top-left" if ahead == 0 else "bottom-right"
    listed = list(_parts(function))
    parts = dict(listed)
    rules = _rules(parts, corner, first_key=offsets[1])
    if rules is None or len(parts) != len(listed):  # two parts of one kind: only one of them was read
        return None
    if list(parts) == ["causal_mask_function"] and q_len == 1 and ahead == k_len - 1:
        return everything()  # the last token sees all
    return reduce(and_, rules) if rules else everything()


def _rules(parts: dict[str, dict[str, Any]], corner: Corner, first_key: int) -> list[Mask] | None:
    """Return the rules that hold together, from parts by name; None where a part is not known."""
    left = set(parts) - {"bidirectional_mask_function"}
    rules = []
    if "sliding_window_overlay" in left and "causal_mask_function" in left:
        window = parts["sliding_window_overlay"]["sliding_window"]
        rules.append(sliding_window(window, corner=corner))
        left -= {"sliding_window_overlay", "causal_mask_function"}
    if "chunked_overlay" in left and "causal_mask_function" in left and "remapped" not in parts:
        chunk = parts["chunked_overlay"]
        if first_key or chunk["left_padding"].any():  # chunks are counted from another key than the first
            return None
        rules.append(chunked(chunk["chunk_size"], corner=corner))
        left -= {"chunked_overlay", "causal_mask_function"}
    if "causal_mask_function" in left:
        rules.append(causal(corner))
    if "sliding_window_bidirectional_overlay" in left:
        window = parts["sliding_window_bidirectional_overlay"]["sliding_window"]
        rules.append(sliding_window(window, "each side", corner=corner))
    if "packed_sequence_mask_function" in left:
        rules.append(documents(parts["packed_sequence_mask_function"]["packed_sequence_mask"]))
        left -= {"remapped"}  # inside a document, positions are as far apart as indices
    known = {"causal_mask_function", "sliding_window_bidirectional_overlay", "packed_sequence_mask_function"}
    return rules if left <= known else None


def _parts(function: _MaskFunction | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parts that must all allow a key: the name of what made each, and what it was given."""
    if function is None:
        yield "causal_mask_function", {}
        return
    made_by = getattr(function, "__qualname__", "?").partition(".")[0]
    if getattr(function, "__module__", "") != "transformers.masking_utils":
        made_by = "somebody else's"
    cells = (
        zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        if hasattr(function, "__code__")
        else ()
    )
    given = {name: cell.cell_contents for name, cell in cells}
    if made_by == "and_masks":
        for part in given["mask_functions"]:
            yield from _parts(part)
    elif made_by == "remap_positions_for_packed_sequence":
        yield "remapped", {}
        yield from _parts(given["mask_function"])
    else:
        yield made_by, given


def _shown(keys: Tensor) -> Mask:
    """Bool [B, T_k], True = shown, as padding on one side where it is that."""
    if keys.all():
        return everything()
    lengths = keys.sum(dim=-1)
    places = torch.arange(keys.shape[-1], device=keys.device)
    if torch.equal(keys, places < lengths[:, None]):
        return padding(lengths)
    if torch.equal(keys, places >= keys.shape[-1] - lengths[:, None]):
        return padding(lengths, "left")
    return Mask.from_tensor(keys[:, None, None, :])
