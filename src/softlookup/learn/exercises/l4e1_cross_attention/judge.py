"""Who asks, and who answers.

Goal: Write `forward(query_states, memory_states, memory_mask=None)` of `CrossAttention`: the target's
tokens ask, the memory's tokens answer, and the memory's padding is hidden. Return the output and the
weights of each head. The four projections keep their names.

Checks: Every rule of `softlookup rules` that speaks of such a layer, by calling it with chosen weights;
then the shapes for a target of 4 and a memory of 7 tokens, and the numbers with padding.

Ask: Which of q, k and v are as long as the target, and which are as long as the memory?

Hint: Write down for q, k and v who gives them: who looks for something, who is found, and who carries the
content?

Hint: With lengths 4 and 7 the scores are (B, H, 4, 7): what does that say about q and k, and which length
must v have to be mixed by them?

Hint: The mask has one entry for each token of the memory, (B, 7). It needs two axes of size one, so that
its entries stand over the columns: for all heads, and for all rows.
"""

import torch

from softlookup.learn.mistakes import fault_of, shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Attends, Behaves, Computes
from softlookup.multihead import CrossAttention
from softlookup.terms import Contract

KIND = "write"
AS_GIVEN = "not-written"

_SIZES = {"d_model": 6, "num_heads": 2}
_LAYER = CrossAttention(d_model=6, num_heads=2).eval()
_MAKE = torch.Generator().manual_seed(6)
_WEIGHTS = {
    name: torch.randn(weight.shape, generator=_MAKE) / 2 for name, weight in _LAYER.named_parameters()
}
_LAYER.load_state_dict(_WEIGHTS)


@torch.no_grad()
def cross_attention(query_states, memory_states, memory_mask=None):
    return _LAYER(query_states, memory_states, memory_mask)


@shown_at("matmul", "einsum", "linear")
def roles_swapped(query_states, memory_states, memory_mask=None):
    """The memory asks and the target answers: there is one row for each token of the memory.

    Ask: How long is the output, as the target or as the memory?
    """
    return cross_attention(memory_states, query_states)


@shown_at("matmul", "einsum", "linear")
def memory_ignored(query_states, memory_states, memory_mask=None):
    """The target looks at itself.

    Ask: Does your output change when the memory does?
    """
    return cross_attention(query_states, query_states)


@shown_at("matmul", "einsum", "linear")
def target_ignored(query_states, memory_states, memory_mask=None):
    """The memory looks at itself.

    Ask: Does your output change when the target does?
    """
    return cross_attention(memory_states, memory_states, memory_mask)


def outputs_swapped(query_states, memory_states, memory_mask=None):
    """The two results come in the other order: the output first, then the weights.

    Ask: Which of them has one entry for each pair of tokens?
    """
    return cross_attention(query_states, memory_states, memory_mask)[::-1]


@shown_at("softmax", "mean", "sum")
def weights_averaged(query_states, memory_states, memory_mask=None):
    """The weights are averaged over the heads.

    Ask: What can no longer be seen once the maps of two heads are one?
    """
    output, weights = cross_attention(query_states, memory_states, memory_mask)
    return output, weights.mean(1)


def weights_missing(query_states, memory_states, memory_mask=None):
    """The output is right, but the weights are not returned.

    Ask: How would one look at where the target looked?
    """
    return cross_attention(query_states, memory_states, memory_mask)[0]


_MEMORY_MASK = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])


def _given(t_target, t_source, *masks):
    states = (torch.randn(2, length, 6, generator=_MAKE) for length in (t_target, t_source))
    return Given(*states, *masks, weights=_WEIGHTS)


_MISTAKES = (
    roles_swapped,
    memory_ignored,
    target_ignored,
    outputs_swapped,
    weights_averaged,
    weights_missing,
)
_FOUR_AND_SEVEN = _given(4, 7)


def _shapes(value):
    return [tuple(it.shape) for it in value] if isinstance(value, tuple) else tuple(value.shape)


def _seen_in_shapes(outcomes):
    """Return the fault that the lengths 4 and 7 show; what raises is left to the checker."""
    (yours,) = outcomes
    if yours.error or not isinstance(yours.value, (tuple, torch.Tensor)):
        return None
    its = _shapes(yours.value)
    mistakes = [it for it in _MISTAKES if _shapes(it(*_FOUR_AND_SEVEN.args)) == its]
    return fault_of(mistakes[0]) if mistakes else None


PARTS = (
    Behaves(
        "CrossAttention",
        [_FOUR_AND_SEVEN],
        _seen_in_shapes,
        "a target of 4 and a memory of 7 tokens give the weights (B, H, 4, 7)",
        _SIZES,
    ),
    Attends(
        "CrossAttention",
        Contract(
            mask="allowed",
            mask_shape="B T_k",
            causal="none",
            returns="output, weights",
            weights="per head",
        ),
        {"d_model": 24, "num_heads": 3},
        {"cross-values-from-target": "Who carries the content that the target wants to read?"},
    ),
    Computes(
        "CrossAttention",
        cross_attention,
        [_given(2, 3), _given(4, 7), _given(4, 7, _MEMORY_MASK), _given(7, 4), _given(5, 5)],
        _MISTAKES,
        _SIZES,
    ),
)
