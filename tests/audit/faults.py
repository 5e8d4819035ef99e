"""Faults planted in tiny models, each for the length of a block. ``replaced`` puts back what was there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack, contextmanager

import torch
from torch.nn import functional

from softlookup.auditing.planting import replaced


def cache_of(named):
    return named.get("cache", named.get("past_key_values"))


def length_of(named):
    given = named.get("input_ids")
    return (named["inputs_embeds"] if given is None else given).shape[1]


@contextmanager
def masked_by(model, allowed: Callable, layers=(0, 1), untouched=lambda: False):
    """Let the attention of a Llama see what ``allowed(i, j, real)`` says: bool from positions [T_q, 1] and
    [T_k].

    real: bool [B, 1, T_k]: which keys are no padding, or None;  untouched: says when a call is left as it is
    """

    def change(number):
        def attended(right, hidden_states, **named):
            if untouched():
                return right(hidden_states, **named)
            earlier = 0 if cache_of(named) is None else cache_of(named).get_seq_length(number)
            T = hidden_states.shape[1]
            i, j = earlier + torch.arange(T)[:, None], torch.arange(earlier + T)
            given = named.get("attention_mask")
            real = None if given is None else visible(given)[:, 0, -1:]
            see = allowed(i, j, real)
            mask = torch.zeros(see.shape).masked_fill(~see, -1e9)
            named["attention_mask"] = mask[None, None] if mask.dim() == 2 else mask[:, None]
            return right(hidden_states, **named)

        return attended

    with ExitStack() as planted:
        for number in layers:
            planted.enter_context(replaced(model.model.layers[number].self_attn, change(number)))
        yield


def visible(mask):
    return mask if mask.dtype == torch.bool else mask > -1


def mask_dropped(model):
    return masked_by(model, lambda i, j, real: (i >= 0) & (j >= 0))


def mask_dropped_in_layer_1(model):
    return masked_by(model, lambda i, j, real: (i >= 0) & (j >= 0), layers=(1,))


def mask_inverted(model):
    return masked_by(model, lambda i, j, real: j > i)


def next_token_visible(model):
    return masked_by(model, lambda i, j, real: j <= i + 1)


def padding_mask_ignored(model):
    """Take every token for a real one."""

    def forward(right, *arguments, **named):
        mask = named.get("attention_mask")
        if mask is not None and mask.dim() == 2:
            named["attention_mask"] = torch.ones_like(mask)
        return right(*arguments, **named)

    return replaced(model.base_model, forward)


@contextmanager
def padding_mask_on_queries(model):
    """Hide the rows of padded queries where the columns of padded keys are meant."""
    real = None

    def forward(right, *arguments, **named):
        nonlocal real
        mask = named.get("attention_mask")
        real = mask.bool()[:, -length_of(named) :] if mask is not None and mask.dim() == 2 else None
        return right(*arguments, **named) if real is None else without_mask(right, *arguments, **named)

    def without_mask(right, *arguments, **named):
        return right(*arguments, **{**named, "attention_mask": torch.ones_like(named["attention_mask"])})

    def allowed(i, j, _):
        return j <= i if real is None else (j <= i) & real[:, :, None]

    with replaced(model.model, forward), masked_by(model, allowed, untouched=lambda: real is None):
        yield


@contextmanager
def position_stuck(model):
    """Let every token after the prompt stand where the first of them does."""
    read = 0

    def forward(right, *arguments, **named):
        nonlocal read
        cache = cache_of(named)
        if cache is None or cache.get_seq_length() == 0:
            read = length_of(named)
        elif named.get("position_ids") is None:
            named["position_ids"] = torch.full((1, named["input_ids"].shape[1]), read)
        return right(*arguments, **named)

    with replaced(model.base_model, forward):
        yield


def packed_leak(model):
    """Hand a mask of ones where there is none, which switches packing off."""

    def forward(right, input_ids=None, **named):
        if named.get("position_ids") is not None and named.get("attention_mask") is None:
            named["attention_mask"] = torch.ones_like(input_ids)
        return right(input_ids=input_ids, **named)

    return replaced(model.model, forward)


def neighbours_averaged(model):
    """Take the mean over the batch in the MLP of layer 1."""

    def forward(right, x):
        out = right(x)
        return out - out.mean(0, keepdim=True)

    return replaced(model.model.layers[1].mlp, forward)


def dropout_in_eval(model):
    return replaced(
        model.model.layers[0].mlp, lambda right, x: functional.dropout(right(x), 0.1, training=True)
    )


def dropout_inactive(model):
    """Let the attention of layer 0 think that it is never in training."""

    def forward(right, *arguments, **named):
        attention = model.model.layers[0].self_attn
        training, attention.training = attention.training, False
        try:
            return right(*arguments, **named)
        finally:
            attention.training = training

    return replaced(model.model.layers[0].self_attn, forward)


def gradient_leaks(model):
    """Send a gradient of every token to the last one, with no effect on the answers."""

    def forward(right, x):
        out = right(x)
        last = out[:, -1:]
        return out + (last - last.detach())

    return replaced(model.model.layers[1].mlp, forward)


def sums_lose_digits(model):
    """Add a large number and take it away again: nothing in float32, half the digits in bfloat16."""

    def forward(right, x):
        out = right(x)
        return (out + 100) - 100 if out.dtype == torch.bfloat16 else out

    return replaced(model.model.layers[1].mlp, forward)


def eager_forgets_scale(model):
    """Let eager attention use another scale than sdpa."""

    def forward(right, *arguments, **named):
        attention = model.model.layers[1].self_attn
        scale = attention.scaling
        if attention.config._attn_implementation == "eager":
            attention.scaling = scale * 2
        try:
            return right(*arguments, **named)
        finally:
            attention.scaling = scale

    return replaced(model.model.layers[1].self_attn, forward)


def mask_of_the_first_sample(model):
    """Use the padding mask of sample 0 for all samples."""

    def forward(right, *arguments, **named):
        mask = named.get("attention_mask")
        if mask is not None and mask.dim() == 2:
            named["attention_mask"] = mask[:1].expand_as(mask)
        return right(*arguments, **named)

    return replaced(model.base_model, forward)


def nan_in_layer(model):
    return replaced(model.model.layers[1].mlp, lambda right, x: right(x) + torch.full((), float("nan")))


def chunks_see_their_future(model):
    """With keys in the cache, let the tokens of a chunk see each other both ways."""
    cached = False

    def forward(right, *arguments, **named):
        nonlocal cached
        cache = cache_of(named)
        cached = cache is not None and cache.get_seq_length() > 0
        return right(*arguments, **named)

    stack = ExitStack()
    stack.enter_context(replaced(model.model, forward))
    stack.enter_context(masked_by(model, lambda i, j, real: (i + j) >= 0, untouched=lambda: not cached))
    return stack


def bert_padding_mask_on_queries(model):
    """As above, in an encoder: rows of padding are hidden, columns stay visible."""

    def attended(right, hidden_states, attention_mask=None, **named):
        if attention_mask is not None:
            rows = visible(attention_mask)[:, :, -1:].transpose(2, 3)
            attention_mask = torch.zeros(rows.shape).masked_fill(~rows, -1e9)
            attention_mask = attention_mask.expand(-1, -1, -1, hidden_states.shape[1])
        return right(hidden_states, attention_mask=attention_mask, **named)

    return replaced(model.encoder.layer[0].attention, attended)


def gpt2_position_stuck(model):
    """Look up position 0 for whatever is read with a cache, one token at a time."""
    return replaced(model.transformer.wpe, lambda right, ids: right(ids if ids.shape[-1] > 1 else ids * 0))


def nanogpt_sees_everything(model):
    def attended(right, x):
        attention = model.h[1].attn
        B, T, C = x.shape
        q, k, v = (it.view(B, T, 4, -1).transpose(1, 2) for it in attention.c_attn(x).split(C, 2))
        y = functional.scaled_dot_product_attention(q, k, v)
        return attention.c_proj(y.transpose(1, 2).reshape(B, T, C))

    return replaced(model.h[1].attn, attended)


def encoder_mean_over_tokens(model):
    """Take the mean over all tokens, padding too, before layer 1 of nn.TransformerEncoder."""
    return replaced(
        model.layers[1],
        lambda right, src, *more, **named: right(src - src.mean(0, keepdim=True), *more, **named),
    )


def bart_source_padding_seen(model):
    """Let cross-attention of layer 0 look at the padding of the source."""

    def attended(right, *arguments, **named):
        if named.get("attention_mask") is not None:
            named["attention_mask"] = torch.zeros_like(named["attention_mask"], dtype=torch.float)
        return right(*arguments, **named)

    return replaced(model.model.decoder.layers[0].encoder_attn, attended)


def bart_cross_attention_causal(model):
    return replaced(model.model.decoder.layers[1].encoder_attn, causal_across)


def t5_cross_attention_causal(model):
    return replaced(model.decoder.block[0].layer[1].EncDecAttention, causal_across)


def whisper_cross_attention_causal(model):
    return replaced(model.model.decoder.layers[0].encoder_attn, causal_across)


def causal_across(right, *arguments, **named):
    """Let no query see a later key, counted from the first of both."""
    given = inspect.signature(right).bind(*arguments, **named).arguments
    hidden_states, source = given["hidden_states"], given["key_value_states"]
    name = "mask" if "mask" in given else "attention_mask"
    seen = torch.ones(hidden_states.shape[1], source.shape[1], dtype=torch.bool).tril()[None, None]
    if given.get(name) is not None:
        seen = visible(given[name]) & seen
    given |= given.pop("kwargs", {}) | {name: torch.zeros(seen.shape).masked_fill(~seen, -1e9)}
    return right(**given)


def t5_labels_not_shifted(model):
    return replaced(model, lambda right, labels: labels, method="_shift_right")


def empty_rows_are_nan(model):
    """Give NaN for tokens that may look nowhere in layer 0; layer 1 spreads it."""

    def attended(right, hidden_states, **named):
        output, *rest = right(hidden_states, **named)
        mask = named.get("attention_mask")
        if mask is not None and mask.shape[-2] == output.shape[1]:
            empty = (~visible(mask)).all(-1)[:, 0]
            output = output.masked_fill(empty[..., None], float("nan"))
        return (output, *rest)

    return replaced(model.model.layers[0].self_attn, attended)
