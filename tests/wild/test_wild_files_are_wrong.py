"""Prove the corpus itself: each file answers wrongly as it stands, and rightly once its one marked line is repaired.

So nothing else in a file is wrong, and a checker that names something else there is mistaken.
"""

import ast
import json
import math
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
EXPECTED = {entry["id"]: entry for entry in json.loads((HERE / "expected.json").read_text(encoding="utf-8"))}
MARK = "  # bug"

B, H, T, S, D = 2, 4, 6, 7, 8  # S keys in the cross cases
torch.manual_seed(0)
Q, K, V = (torch.randn(B, H, T, D) for _ in range(3))  # self-attention, heads first
X, Y, Z = torch.randn(B, H, T, D), torch.randn(B, H, S, D), torch.randn(B, H, S, 5)  # cross, d_v of its own
K2, V2 = torch.randn(B, 2, T, D), torch.randn(B, 2, T, D)  # two key/value heads
REAL = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]]).bool()  # padding on the right
LEFT = REAL.flip(-1)
KEYS = REAL[:, None, None, :]
TRIANGLE = torch.ones(T, T).tril().bool()
SOME = torch.rand(B, 1, T, T).gt(0.4) | torch.eye(T).bool()  # every row has a key
EMPTY = SOME.clone()
EMPTY[0, :, 2] = False


def attend(q, k, v, allowed=None, scale=None, bias=0.0):
    scores = (q @ k.mT).double() * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    return (scores.softmax(-1).nan_to_num(0.0) @ v.double()).to(v.dtype)


def same(got, want, atol=1e-5):
    got = got[0] if isinstance(got, tuple) else got
    return got.shape == want.shape and torch.allclose(got.to(want.dtype), want, atol=atol)


def heads_last(*tensors):
    return [x.transpose(1, 2) for x in tensors]


def first_head(*tensors):
    return [x[:, 0] for x in tensors]


def plain(f):
    return same(f(Q, K, V), attend(Q, K, V))


def cross(f):
    return same(f(X, Y, Z), attend(X, Y, Z))


def plain_heads_last(f):
    return same(f(*heads_last(Q, K, V)), attend(Q, K, V).transpose(1, 2))


def channels_first(f):
    q, k, v = first_head(X, Y, Z)
    return same(f(q.mT, k.mT, v.mT), attend(q, k, v).mT)


def large_scores(f):
    return cross(f) and same(f(100 * X, 100 * Y, Z), attend(100 * X, 100 * Y, Z), atol=1e-3)


def large_scores_without_batch(f):
    q, k, v = X[0, 0] * 100, Y[0, 0] * 100, Z[0, 0]
    return same(f(q, k, v), attend(q, k, v), atol=1e-3)


def as_exact_as_the_plain_formula(f):
    torch.manual_seed(1)
    q, k, v = (torch.randn(4, 16, 4, 32).bfloat16() for _ in range(3))
    exact = attend(*(x.transpose(1, 2).double() for x in (q, k, v))).transpose(1, 2)
    qh, kh, vh = heads_last(q, k, v)
    formula = ((qh @ kh.mT / q.shape[-1] ** 0.5).softmax(-1) @ vh).transpose(1, 2)
    return (f(q, k, v) - exact).abs().mean() < 1.5 * (formula - exact).abs().mean()


def with_mask(mask, allowed, *, keyword=None, lay=list, back=lambda x: x, rows=None):
    """Call f(q, k, v, mask) in a layout; compare the rows that are real."""

    def check(f):
        q, k, v = lay((Q, K, V))
        got = f(q, k, v, **{keyword: mask}) if keyword else f(q, k, v, mask)
        got = got[0] if isinstance(got, tuple) else got
        want = back(attend(Q, K, V, allowed))
        return same(got, want) if rows is None else same(got[rows], want[rows])

    return check


def one_head(mask, allowed, keyword=None):
    return with_mask(mask, allowed, keyword=keyword, lay=lambda qkv: first_head(*qkv), back=lambda x: x[:, 0])


def swapped(x):
    return x.transpose(1, 2)


def zero_queries(f):
    q, k, v = first_head(torch.zeros_like(Q), K, V)
    return same(f(q, k, v), attend(q, k, v, TRIANGLE))


def very_negative_scores(f):
    q, k, v = Q.abs() * 1000, -K.abs() * 1000, V
    return same(f(*heads_last(q, k, v)), attend(q, k, v, TRIANGLE).transpose(1, 2), atol=1e-3)


def equal_batch_and_heads(f, mask, allowed):
    q, k, v = (x[:, :B] for x in (Q, K, V))
    return same(f(q, k, v, mask), attend(q, k, v, allowed))


def window(f):
    seen = TRIANGLE & ~torch.ones(T, T).tril(-3).bool()
    return same(f(Q, K, V, window_size=3), attend(Q, K, V, seen)) and same(
        f(Q, K, V, SOME | seen, window_size=3), attend(Q, K, V, (SOME | seen) & seen)
    )


def second_call(f):
    mask = REAL.float()
    f(Q, K, V, mask)
    return same(f(Q, K, V, mask), attend(Q, K, V, KEYS))


def causal(f, lay=lambda q, k, v: (q, k, v), back=lambda x: x):
    return same(f(*lay(Q, K, V)), back(attend(Q, K, V, TRIANGLE)))


def cached(f, lay=lambda q, k, v: (q, k, v), back=lambda x: x, **options):
    q, k, v = Q[:, :, :2], K, Q + V
    allowed = torch.ones(2, T).tril(T - 2).bool()
    return same(f(*lay(q, k, v), **options), back(attend(q, k, v, allowed)))


def in_half(check):
    """Right in float32, and with the same numbers in float16 right to the precision of float16."""

    def both(f):
        return check(f, torch.float32, 1e-5) and check(f, torch.float16, 2e-2)

    return both


@in_half
def padding_in_half(f, dtype, atol):
    q, k, v = first_head(*(x.to(dtype) for x in (Q, K, V)))
    return same(f(q, k, v, ~REAL), attend(q, k, v, KEYS[:, 0]), atol)


@in_half
def causal_in_half(f, dtype, atol):
    q, k, v = (x.to(dtype) for x in (Q, K, V))
    return same(f(q, k, v), attend(q, k, v, TRIANGLE), atol)


@in_half
def mask_in_half(f, dtype, atol):
    q, k, v = (x.to(dtype) for x in (Q, K, V))
    return same(f(*heads_last(q, k, v), SOME[:, 0]), attend(q, k, v, SOME).transpose(1, 2), atol)


def empty_rows_uniform(f, lay, back):
    want = attend(Q, K, V, TRIANGLE & LEFT[:, None, None])
    want[0, :, :2] = V[0].mean(-2, keepdim=True)
    return same(f(*lay(Q, K, V), LEFT), back(want))


def finite_gradients(f, mask):
    q, k, v = (x.clone().requires_grad_() for x in (Q, K, V))
    out = f(q, k, v, mask)
    out.sum().backward()
    right = same(out, attend(Q, K, V, EMPTY[0]))
    return right and all(bool(torch.isfinite(x.grad).all()) for x in (q, k, v))


def hidden_nan(f):
    v = V.masked_fill(~KEYS.mT, math.nan)
    return same(f(Q, K, v, REAL), attend(Q, K, V, KEYS))


def grouped(f, lay=lambda q, k, v: (q, k, v), back=lambda x: x, allowed=None):
    k, v = (x.repeat_interleave(2, dim=1) for x in (K2, V2))
    return same(f(*lay(Q, K2, V2)), back(attend(Q, k, v, allowed)))


def alibi(f, slopes, heads, lay=lambda q, k, v: (q, k, v), back=lambda x: x):
    q, k, v = (torch.randn(B, heads, T, D) for _ in range(3))
    distance = torch.arange(T)[None, :] - torch.arange(T)[:, None]
    bias = torch.tensor(slopes)[:, None, None] * distance
    return same(f(*lay(q, k, v)), back(attend(q, k, v, TRIANGLE, bias=bias)))


def linear(f, phi, is_causal):
    q, k = phi(Q).double(), phi(K).double()
    weights = q @ k.mT
    weights = weights.tril() if is_causal else weights
    want = (weights / weights.sum(-1, keepdim=True) @ V.double()).float()
    return same(swapped(f(*heads_last(Q, K, V))), want) if is_causal else same(f(Q, K, V), want)


#: id: (the marked line, repaired; a check that only the repaired file passes)
REPAIRS = {
    "b001": ("attn = attn.softmax(dim=2)", plain_heads_last),
    "b003": ("weights = torch.softmax(scores, dim=-1)", cross),
    "b004": ("attn = dots.softmax(dim=-1)", cross),
    "b006": ("attention = torch.softmax(energy, dim=1)", channels_first),
    "b007": ("exps = torch.exp(scores - scores.amax(dim=-1, keepdim=True))", large_scores),
    "b008": ("e = torch.exp(s - (queries @ keys.T / q.shape[1] ** 0.5).amax(1, keepdim=True))", large_scores_without_batch),
    "b010": ("probs = torch.softmax(scores, dim=-1, dtype=torch.float32)", as_exact_as_the_plain_formula),
    "b011": ("attn = attn * attn_mask / (attn * attn_mask).sum(-1, keepdim=True)", with_mask(KEYS, KEYS)),
    "b012": (
        "weights = torch.softmax(scores.masked_fill(~source_mask[:, None], -torch.inf), dim=-1)",
        one_head(REAL, KEYS),
    ),
    "b013": ("att = torch.softmax(scores.masked_fill(~valid[:, None, :], -torch.inf), dim=2)", one_head(REAL, KEYS)),
    "b015": (
        "logits = logits.masked_fill(instance_mask[:, None, :] == 0, -torch.inf)",
        one_head(REAL.long(), KEYS, keyword="instance_mask"),
    ),
    "b017": ('scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))', zero_queries),
    "b018": ("logits = torch.where(mask, logits, torch.full_like(logits, -torch.inf))", with_mask(SOME, SOME)),
    "b019": ("score = score.masked_fill(mask == 0, -math.inf)", with_mask(SOME.long(), SOME)),
    "b020": ("scores = scores.masked_fill(future, -torch.inf)", very_negative_scores),
    "b021": ("scores = torch.where(keep == 0, -torch.inf, scores)", with_mask(KEYS.long(), KEYS)),
    "b023": ("scores = scores.masked_fill(mask, min_value)", with_mask(REAL[:, None].long(), KEYS)),
    "b024": ("score = score.masked_fill(~present, value=-math.inf)", with_mask(REAL, KEYS)),
    "b025": ("out = out.masked_fill(text_without_media[:, None, :, None], 0.0)", with_mask(EMPTY[:, 0], EMPTY)),
    "b026": ("attention_mask = attention_mask", with_mask((~SOME).float() * torch.finfo(Q.dtype).min, SOME)),
    "b027": ("return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=~mask)", causal),
    "b028": (
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=None if attn_mask is None else ~attn_mask)",
        with_mask(~REAL, KEYS),
    ),
    "b029": ("sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)", with_mask(REAL, KEYS)),
    "b031": ("scores = scores + mask.to(wide)", with_mask(torch.zeros(T, T).masked_fill(~TRIANGLE, -math.inf), TRIANGLE)),
    "b032": ("attn_weights = attn_weights.masked_fill(~attention_mask, -torch.inf)", with_mask(SOME, SOME)),
    "b033": (
        "scores = scores.masked_fill(pad, -torch.inf)",
        lambda f: with_mask(~REAL, KEYS)(f) and with_mask((~REAL).float() * -1e30, KEYS)(f),
    ),
    "b036": ("drop = mask == 0", one_head(SOME[:, 0].to(torch.uint8), SOME)),
    "b037": ("extended = (1.0 - mask.to(q.dtype)) * torch.finfo(q.dtype).min", with_mask(REAL, KEYS)),
    "b038": ("score = score.masked_fill(~src_mask[:, None, None, :], -10000.0)", with_mask(REAL, KEYS)),
    "b039": ("attn = attn + minus[:, None, :]", one_head(REAL.float(), KEYS)),
    "b045": (
        "sim = sim.masked_fill(~mask[:, None], -torch.finfo(sim.dtype).max)",
        lambda f: equal_batch_and_heads(f, SOME[:, 0], SOME),
    ),
    "b046": ('mask = rearrange(mask, "b j -> b 1 1 j")', lambda f: equal_batch_and_heads(f, REAL, KEYS)),
    "b060": (
        "return F.scaled_dot_product_attention(query, key, value) if window_size is None else "
        "dot_product_attention(query, key, value, is_causal=True, window_size=window_size)",
        window,
    ),
    "b062": ("mask = (mask - 1.0) * 1e4", second_call),
    "b063": (
        "rows, cols = torch.triu_indices(t, t, offset=1)",
        lambda f: causal(f, lambda *qkv: [x.flatten(0, 1) for x in qkv], lambda x: x.flatten(0, 1)),
    ),
    "b070": (
        "visible = torch.ones(q_len, k_len, dtype=torch.bool).tril(diagonal=k_len - q_len)",
        lambda f: cached(f, lambda *qkv: [x[0] for x in qkv], lambda x: x[0]),
    ),
    "b074": (
        "return F.scaled_dot_product_attention(q, k_cache, v_cache, "
        "attn_mask=__import__('torch').ones(q.shape[2], k_cache.shape[2]).tril(k_cache.shape[2] - q.shape[2]).bool())",
        cached,
    ),
    "b075": ("causal_mask = torch.ones(q_len, kv_len, dtype=torch.bool).tril(kv_len - q_len)", cached),
    "b077": (
        's = s.masked_fill(col > row + seqlen_k - seqlen_q, float("-inf"))',
        lambda f: cached(f, heads_last_args, swapped, causal=True) and plain_heads_last(f),
    ),
    "b081": (
        "visible = i + 1 + key.shape[0] - query.shape[0]",
        lambda f: cached(f, lambda *qkv: [x[0, 0] for x in qkv], lambda x: x[0, 0]),
    ),
    "b086": ("weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)", with_mask(EMPTY, EMPTY)),
    "b087": (
        "probs = torch.softmax(logits + bias, dim=-1).nan_to_num(0.0)",
        with_mask(EMPTY[0, 0], EMPTY[0], keyword="allowed_mask", lay=lambda qkv: heads_last(*qkv), back=swapped),
    ),
    "b089": ("weight = dot.softmax(dim=-1).nan_to_num(0.0)", one_head(EMPTY[:, 0], EMPTY)),
    "b094": (
        "attn = sim.masked_fill(~mask, torch.finfo(sim.dtype).min).softmax(dim=-1)",
        lambda f: finite_gradients(f, EMPTY[0, 0]),
    ),
    "b095": (
        "p = torch.where(torch.isinf(bias).all(-1, keepdim=True), 0.0, torch.softmax(energy.masked_fill("
        "torch.isinf(bias), -1e30), dim=-1))",
        lambda f: finite_gradients(f, torch.zeros(T, T).masked_fill(~EMPTY[0, 0], -math.inf)),
    ),
    "b096": ("return torch.matmul(weights, v.masked_fill(~mask[:, None, :, None], 0.0))", hidden_nan),
    "b099": ('attn_weights = attn_weights.masked_fill(key_padding_mask.unsqueeze(1), float("-inf"))', padding_in_half),
    "b101": ('w = w.masked_fill(b == 0, float("-inf"))', causal_in_half),
    "b102": ("big_neg = torch.full_like(att_weights, torch.finfo(att_weights.dtype).min)", mask_in_half),
    "b103": (
        "bias = torch.minimum(causal, padding[:, None, None, :])",
        lambda f: empty_rows_uniform(f, lambda q, k, v: (q, k, v), lambda x: x),
    ),
    "b104": (
        "bias = (planes[0] | planes[1]).to(query.dtype) * lowest",
        lambda f: empty_rows_uniform(f, heads_last_args, swapped),
    ),
    "b106": ("dots = (q @ k.transpose(-2, -1)) * dim_head**-0.5", cross),
    "b107": ("scores = scores / math.sqrt(q.shape[3])", lambda f: same(f(*heads_last(X, Y, Z)), swapped(attend(X, Y, Z)))),
    "b113": (
        "scores = torch.matmul(q, k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if sm_scale is None else sm_scale)",
        lambda f: cross(f) and same(f(X, Y, Z, 0.1), attend(X, Y, Z, scale=0.1)),
    ),
    "b115": (
        'attn = torch.einsum("bshk,bthk->bhst", qs, ks) / qs.shape[-1] ** 0.5',
        lambda f: causal(f, heads_last_args, swapped),
    ),
    "b116": ("scores = torch.matmul(Q, K.transpose(-2, -1)) / d_k**0.5", cross),
    "b119": (
        'scores = torch.einsum("b h n d, b h m d -> b h n m", latents_q, inputs_k) * scale',
        cross,
    ),
    "b120": ("att = F.softmax(energy * scaling, dim=-1)", cross),
    "b124": (
        "scores = scores * (query.shape[-1] ** -0.5 if scale is None else scale)",
        lambda f: cross(f) and same(f(X, Y, Z, scale=0.01), attend(X, Y, Z, scale=0.01)),
    ),
    "b136": (
        "return torch.einsum('bhqk,bkhd->bqhd', torch.einsum('bqhd,bkhd->bhqk', q * scale, k).softmax(-1), v)",
        plain_heads_last,
    ),
    "b137": (
        "return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (query, key, value))).transpose(1, 2)",
        plain_heads_last,
    ),
    "b151": ("k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))", grouped),
    "b152": (
        "kv = h // (num_heads // num_kv_heads)",
        lambda f: grouped(f, lambda *qkv: [x[0] for x in qkv], lambda x: x[0])
        and same(f(Q[0], K[0], V[0]), attend(Q[0], K[0], V[0])),
    ),
    "b154": ("return x.repeat_interleave(n_rep, dim=2)", lambda f: grouped(f, heads_last_args, swapped)),
    "b155": (
        "key, value = (_repeat_kv(x.transpose(1, 2), n_rep).transpose(1, 2) for x in (key, value))",
        lambda f: grouped(f, allowed=TRIANGLE),
    ),
    "b169": ("bias = slopes[:, None, None] * (kv_idx - q_idx)", lambda f: alibi(f, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8], 4)),
    "b170": (
        "slopes = [2.0 ** (-2 * (h + 1)) for h in range(4)] + [2.0**-1, 2.0**-3] if H == 6 else None",
        lambda f: alibi(f, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3], 6),
    ),
    "b171": (
        "slope = 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1))",
        lambda f: alibi(f, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8], 4, heads_last_args, swapped),
    ),
    "b174": (
        "mask = ones.tril(0) & ones.triu(1 - sliding_window)",
        lambda f: same(f(Q, K, V), attend(Q, K, V, TRIANGLE & ~torch.ones(T, T).tril(-3).bool())),
    ),
    "b245": (
        "norm = (q * k.cumsum(1)).sum(-1, keepdim=True)",
        lambda f: linear(f, lambda x: torch.nn.functional.elu(x) + 1, is_causal=True),
    ),
    "b246": (
        'return torch.einsum("...de,...nd,...n->...ne", context, q, 1.0 / d_inv)',
        lambda f: linear(f, lambda x: torch.relu(x) + 1e-3, is_causal=False),
    ),
}


def heads_last_args(q, k, v):
    return heads_last(q, k, v)


def load(source, name):
    scope = {"__name__": "wild"}
    exec(compile(source, name, "exec"), scope)
    target = scope[EXPECTED[name]["target"]]
    return target() if isinstance(target, type) else target


def answers_rightly(target, check):
    try:
        return bool(check(target))
    except (RuntimeError, IndexError, TypeError):
        return False


@pytest.fixture(params=sorted(REPAIRS))
def report(request):
    return request.param


def source_of(report):
    return (HERE / EXPECTED[report]["file"]).read_text(encoding="utf-8")


def repaired(report):
    lines = source_of(report).splitlines()
    [at] = [i for i, line in enumerate(lines) if line.endswith(MARK)]
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines[at] = indent + REPAIRS[report][0]
    return "\n".join(lines)


def test_every_expected_file_has_a_repair_and_every_file_is_expected():
    assert set(REPAIRS) == set(EXPECTED)
    assert {path.name for path in HERE.glob("b*.py")} == {entry["file"] for entry in EXPECTED.values()}


def test_the_file_answers_wrongly_as_it_stands(report):
    assert not answers_rightly(load(source_of(report), report), REPAIRS[report][1])


def test_the_file_answers_rightly_once_the_marked_line_is_repaired(report):
    assert REPAIRS[report][1](load(repaired(report), report))


def test_the_file_marks_one_line_and_names_its_report(report):
    source = source_of(report)
    doc = ast.get_docstring(ast.parse(source))
    assert source.count("# bug") == 1
    assert doc.startswith(f"Report {report}: https://")
    assert "What is wrong: " in doc
