"""What it means for a wild module to answer rightly, one check for each kind of call."""

import torch
import torch.nn.functional as F

from wild_checks import KEYS, REAL, TRIANGLE, B, S, T, same
from wild_module_answers import (
    CROSS,
    HEADS,
    MEMORY,
    PER_SAMPLE,
    SOME,
    WIDTH,
    X,
    Y,
    Z,
    heads_of,
    lookup,
    rotary,
    turned,
    with_fused,
    with_layers,
    with_torch_layer,
)


def is_layers(names, x=(X, X, X), allowed=None, given=None, **options):
    """A check: module(*given) is attention through these layers. `given` is x[0], unless told otherwise."""
    given = (x[0],) if given is None else given
    return lambda m: same(m(*given), with_layers(m, names, x, allowed, **options))


def is_fused(names, allowed=None, given=(X,), **options):
    return lambda m: same(m(*given), with_fused(m, names, allowed=allowed, **options))


def sequence_first_masked(m):
    return same(
        m(X.transpose(0, 1), ~PER_SAMPLE).transpose(0, 1),
        with_torch_layer(m.self_attn, X, PER_SAMPLE[:, None]),
    )


def sequence_first_one_mask(m):
    return same(m(X.transpose(0, 1), ~SOME).transpose(0, 1), with_torch_layer(m.self_attn, X, SOME))


def mask_and_causal(m):
    """Alone and together, and under no_grad, where torch may take another path."""

    def right():
        return (
            same(m(X, ~SOME), with_torch_layer(m.self_attn, X, SOME))
            and same(m(X, is_causal=True), with_torch_layer(m.self_attn, X, TRIANGLE))
            and same(m(X, ~SOME, is_causal=True), with_torch_layer(m.self_attn, X, SOME & TRIANGLE))
        )

    with torch.no_grad():
        return right() and torch.enable_grad()(right)()


def causal_on_both_branches(m):
    names = "query_dense key_dense value_dense output_dense"
    out, weights = m(X, use_causal_mask=True, return_attention_scores=True)
    want = with_layers(m, names, allowed=TRIANGLE)
    full, _ = m(X, return_attention_scores=True)
    rows = torch.allclose(weights.sum(-1), torch.ones(())) and not weights[..., ~TRIANGLE].any()
    return (
        rows
        and same(out, want)
        and same(m(X, use_causal_mask=True), want)
        and same(full, with_layers(m, names))
    )


def cached_prefill(m):
    want = with_fused(m, "qkv proj", allowed=TRIANGLE)
    nothing = torch.empty(B, HEADS, 0, WIDTH // HEADS)
    first, cache = m(X[:, :4], (nothing, nothing))
    rest, _ = m(X[:, 4:], cache)
    return same(m(X), want) and same(torch.cat((first, rest), 1), want)


def cached_chunks(m):
    want = with_layers(m, "W_query W_key W_value out_proj", allowed=TRIANGLE)
    chunks = [m(part, use_cache=True) for part in X.split([3, 2, 1], dim=1)]
    return same(m(X), want) and same(torch.cat(chunks, 1), want)


def cross_sees_everything(m):
    layer = m.inter_attention
    k, v = layer.key_value(Y).chunk(2, -1)
    return same(m(X, Y), layer.proj(lookup(layer.query_layer(X), k, v)))


def flag_is_causal(m):
    return is_fused("in_proj out_proj", TRIANGLE, (X, True))(m) and is_fused("in_proj out_proj")(m)


def lonely_rows(m):
    """Zeros for the row without a key, and a gradient that is a number."""
    edges = SOME.clone()
    edges[2] = False
    out, weights = m(X, ~edges)
    want = with_torch_layer(m.attention, X, edges).masked_fill(~edges.any(-1)[:, None], 0.0)
    out.sum().backward()
    finite = all(bool(p.grad.isfinite().all()) for p in m.parameters())
    return finite and same(out, want) and not weights[:, 2].any()


def list_of_heads(m):
    q, k, v = (
        torch.cat([getattr(head, name)(X) for head in m.heads], -1) for name in ("query", "key", "value")
    )
    return same(m(X), m.proj(lookup(q, k, v, TRIANGLE)))


def a_weight_for_each_head(m):
    q, k, v = (torch.cat([x @ w for w in ws], -1) for x, ws in ((X, m.w_qs), (Y, m.w_ks), (Z, m.w_vs)))
    mask = CROSS.expand(B, T, S)
    return same(m(X, Y, Z, ~mask), m.proj(lookup(q, k, v, CROSS))) and same(
        m(X, Y, Z), m.proj(lookup(q, k, v))
    )


def both_implementations(m):
    want = with_layers(m, "q_proj k_proj v_proj out_proj", allowed=TRIANGLE)
    fused = m(X)
    m.config._attn_implementation = "eager"
    return same(fused, want) and same(m(X), want)


def own_scale_in_both_branches(m):
    want = with_fused(m, "qkv proj", scale=0.1)
    fused = m(X)
    m.fused_attn = False
    return same(fused, want) and same(m(X), want)


def normed_in_both_branches(m):
    q, k = (F.normalize(layer(X).unflatten(-1, (HEADS, -1)), dim=-1).flatten(2) for layer in (m.to_q, m.to_k))
    want = m.to_out(lookup(q, k, m.to_v(X), scale=10.0))
    plain = m(X)
    m.flash = True
    return same(plain, want) and same(m(X), want)


def fused_per_head(m):
    """One layer: q, k, v of head 0, then of head 1, and so on; with and without padding."""
    q, k, v = (part.flatten(2) for part in m.qkv_proj(X).unflatten(-1, (HEADS, 3, -1)).unbind(3))
    return same(m(X, REAL), m.o_proj(lookup(q, k, v, KEYS))) and same(m(X), m.o_proj(lookup(q, k, v)))


def target_asks_source(m):
    k, v = (part.flatten(2) for part in m.kv_layer(Y).unflatten(-1, (HEADS, 2, -1)).unbind(3))
    bias = torch.zeros(T, S).masked_fill(~CROSS, -torch.inf)
    return same(m(Y, X, bias), m.linear_layer(lookup(m.q_layer(X), k, v, CROSS)))


def channels_first(m):
    q, k, v = (X @ torch.cat(list(weights), -1) for weights in (m.Wqs, m.Wks, m.Wvs))
    return same(m(X.mT).mT, lookup(q, k, v) @ m.Wo)


def either_layout(m):
    want = with_layers(m, "qlinear klinear vlinear out_proj", (X, Y, Z), MEMORY[:, None, None])
    got = m(X, Y, Z, ~MEMORY)
    m.batch_first = False
    turned = (x.transpose(0, 1) for x in (X, Y, Z))
    return same(m(*turned, ~MEMORY).transpose(0, 1), want) and same(got, want)


def a_layer_for_each_head(m):
    q, k, v = (torch.cat([p(X) for p in projs], -1) for projs in (m.q_projs, m.k_projs, m.v_projs))
    return same(m(X), m.output_proj(lookup(q, k, v)))


def keys_and_values_apart(m):
    names = "q_proj k_proj v_proj o_proj"
    masked = same(m(X, Y, Z, CROSS.long()[None].expand(B, T, S)), with_layers(m, names, (X, Y, Z), CROSS))
    return masked and same(m(X, Y, Z), with_layers(m, names, (X, Y, Z)))


def grouped_fused(m):
    q, k, v = m.qkv_proj(X).split((WIDTH, WIDTH // 2, WIDTH // 2), -1)
    k, v = (x.unflatten(-1, (HEADS // 2, -1)).repeat_interleave(2, dim=2).flatten(2) for x in (k, v))
    return same(m(X), m.output_proj(lookup(q, k, v, TRIANGLE)))


def every_head_sees_every_feature(m):
    changed = X.clone()
    changed[..., -1] += 1.0  # a feature of the last head's slice
    if same(m.project(m.values, X)[:, :, 0], m.project(m.values, changed)[:, :, 0]):
        return False
    want = with_layers(m, "queries keys values fc_out", (X, Y, Z), MEMORY[:, None, None])
    return same(m(Z, Y, X, MEMORY.long()), want)


def mixes_the_heads(names, given=(X,), x=(X, X, X), allowed=None, out=None):
    """A check: the output is that of a layer `out` over the heads, and not the heads themselves."""

    def check(m):
        q, k, v = names(m) if callable(names) else (m.get_submodule(n)(t) for n, t in zip(names.split(), x))
        heads = lookup(q, k, v, allowed)
        return not same(m(*given), heads) and same(m(*given), m.get_submodule(out)(heads))

    return check


def wrapped_heads(m):
    return [torch.cat([getattr(h, n)(X) for h in m.heads], -1) for n in ("W_query", "W_key", "W_value")]


def no_bias_anywhere(m):
    return not m(torch.zeros_like(X)).any() and is_fused("in_proj out_proj")(m)


def is_rotary(project, out, pairs, allowed=TRIANGLE):
    return lambda m: same(m(X), m.get_submodule(out)(rotary(*project(m), allowed, pairs)))


def rows_and_columns(m):
    """Two heads of width 8 on a grid of 2 x 3 patches."""
    patch = torch.arange(T)

    def turn(x):
        halves = x.unflatten(-1, (2, -1)).chunk(2, -1)
        angles = [torch.outer(place, 100.0 ** -(torch.arange(2) / 2)) for place in (patch // 3, patch % 3)]
        return torch.cat([turned(h, a, "halves") for h, a in zip(halves, angles)], -1).flatten(2)

    q, k, v = m.qkv(X).chunk(3, -1)
    return same(m(X), m.proj(lookup(turn(q), turn(k), v, heads=2)))


def shifted_windows(m):
    """Every token of an 8 x 8 image against every other: same window after the roll, and no edge in between."""
    side, shift = 8, 2
    image = torch.randn(B, WIDTH, side, side)
    place = (torch.arange(side) - shift) % side  # of a row or column after the roll
    name = (place // 4) * 2 + (torch.arange(side) < shift)  # window, and whether it came from the other edge
    region = (name[:, None] * 100 + name[None, :]).flatten()
    tokens = image.flatten(2).mT
    want = with_fused(m, "qkv proj", tokens, region[:, None] == region[None, :])
    return same(m(image), want.mT.unflatten(2, (side, side)))


def weights_as_asked(m):
    query, key, value = (x.transpose(0, 1) for x in (X, Y, Z))
    names = "q_proj k_proj v_proj out_proj"
    q, k = heads_of(m.q_proj(X)), heads_of(m.k_proj(Y))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~MEMORY[:, None, None], -torch.inf).softmax(-1)
    out, mean = m(query, key, value, ~MEMORY)
    _, each = m(query, key, value, ~MEMORY, need_head_weights=True)
    right = same(out.transpose(0, 1), with_layers(m, names, (X, Y, Z), MEMORY[:, None, None]))
    return right and same(mean, weights.mean(1)) and same(each, weights.transpose(0, 1))


def padding_of_the_context(m):
    names = "to_q to_k to_v to_out"
    own = same(m(X, mask=REAL), with_layers(m, names, allowed=KEYS))
    equal = X.flip(0)  # as long as x, so that the wrong mask fits too
    want = with_layers(m, names, (X, equal, equal), REAL.flip(0)[:, None, None])
    return (
        own
        and same(m(X, equal, REAL, REAL.flip(0)), want)
        and same(m(X, Y), with_layers(m, names, (X, Y, Y)))
    )


def target_asks(m):
    return same(m(X, Y), with_layers(m.attention, "W_Q W_K W_V W_O", (X, Y, Y)))


def frames_of_one_clip(m):
    return same(m(X), X + with_torch_layer(m.attention, m.norm(X)))
