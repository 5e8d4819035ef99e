"""What it means for each kind of wild target to answer rightly: its inputs, and the answer worked out independently."""

import math

import torch

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


def heads_last_args(q, k, v):
    return heads_last(q, k, v)
