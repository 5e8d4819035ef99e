"""Prove the corpus itself: every file here gives the answer of its definition, in three dtypes and with finite gradients."""

import json
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

HERE = Path(__file__).parent
EXPECTED = {entry["file"][:3]: entry for entry in json.loads((HERE / "expected.json").read_text(encoding="utf-8"))}
DTYPES = {torch.float32: 2e-5, torch.float64: 2e-5, torch.bfloat16: 6e-2, torch.float16: 1e-2}
B, H, T, S, D = 2, 4, 11, 13, 8

REAL = torch.arange(T) < torch.tensor([[8], [T]])  # [B, T], padding on the right
REAL_S = torch.arange(S) < torch.tensor([[9], [S]])
SQUARE = torch.ones(T, T).bool()
TRIANGLE = SQUARE.tril()
SOME = TRIANGLE | SQUARE.triu(3)
PAIRS = SOME[None] & REAL[:, None]  # [B, T, T], every row has a key
IDS = torch.tensor([[0] * 4 + [1] * 7, [0] * 6 + [1] * 5])


class Problem:
    """Seeded tensors of one dtype: self-attention in q, k, v, cross-attention in x, y, z, two key/value heads in k2, v2."""

    def __init__(self, dtype):
        torch.manual_seed(123)
        self.dtype = dtype
        self.q, self.k, self.v, self.x = (torch.randn(B, H, T, D).to(dtype) for _ in range(4))
        self.y, self.z = torch.randn(B, H, S, D).to(dtype), torch.randn(B, H, S, 5).to(dtype)
        self.k2, self.v2 = torch.randn(B, 2, T, D).to(dtype), torch.randn(B, 2, T, D).to(dtype)
        for name in ("q", "k", "v", "x", "y", "z", "k2", "v2"):
            getattr(self, name).requires_grad_()

    @property
    def self_(self):
        return self.q, self.k, self.v

    @property
    def cross(self):
        return self.x, self.y, self.z


def fused(q, k, v, allowed=None, scale=None, bias=None):
    """PyTorch's own answer in float64."""
    mask = allowed if bias is None else bias.double().masked_fill(~allowed, -math.inf) if allowed is not None else bias.double()
    return F.scaled_dot_product_attention(q.double(), k.double(), v.double(), attn_mask=mask, scale=scale)


def by_weights(weights, v):
    return weights.double() @ v.double()


def scores(q, k):
    return (q.double() @ k.double().mT) / q.shape[-1] ** 0.5


def last(*tensors):
    """Heads first to heads last, or back."""
    moved = [x.transpose(1, 2) for x in tensors]
    return moved if len(moved) > 1 else moved[0]


def one(*tensors):
    """The first head alone."""
    return [x[:, 0] for x in tensors]


def bias_of(allowed, low=-math.inf):
    return torch.zeros(allowed.shape).masked_fill(~allowed, low)


def folded(*tensors):
    return [x.flatten(0, 1) for x in tensors]


KEYS, KEYS_S = REAL[:, None, None], REAL_S[:, None, None]
NO_KEY = PAIRS.clone()
NO_KEY[0, 2] = False
ALIBI_BIAS = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])[:, None, None] * (torch.arange(T) - torch.arange(T)[:, None])


def sinks_reference(p, logit):
    e = scores(*p.self_[:2]).exp()
    return by_weights(e / (e.sum(-1, keepdim=True) + logit), p.v)


def linear_reference(q, k, v, causal):
    w = (F.elu(q.double()) + 1) @ (F.elu(k.double()) + 1).mT
    w = w.tril() if causal else w
    return by_weights(w / w.sum(-1, keepdim=True), v)


def rotary_reference(p, pairs):
    """Rotate complex numbers: feature pairs (a, b) as a + bi, multiplied by exp(i * position * frequency)."""
    turn = torch.polar(
        torch.ones(T, D // 2).double(), torch.outer(torch.arange(T), 10000.0 ** (-torch.arange(0, D, 2) / D)).double()
    )
    rotated = []
    for x in (p.q.double(), p.k.double()):
        a, b = (x[..., : D // 2], x[..., D // 2 :]) if pairs == "halves" else (x[..., 0::2], x[..., 1::2])
        z = torch.complex(a, b) * turn
        rotated.append(torch.cat((z.real, z.imag), -1))
    return fused(rotated[0], rotated[1], p.v)


def grouped(p):
    return p.q, p.k2.repeat_interleave(2, 1), p.v2.repeat_interleave(2, 1)


def averaged(pair, p):
    torch.testing.assert_close(pair[1].double(), scores(*p.self_[:2]).softmax(-1).mean(1), atol=1e-2, rtol=0)
    return pair[0]


def slot_reference(q, k, v):
    w = scores(q, k).softmax(1) + 1e-8
    return by_weights(w / w.sum(-1, keepdim=True), v)


#: file -> what to call, and what must come out
CASES = {
    "r01": lambda f, p: (f(*p.self_, PAIRS[:, None]), fused(*p.self_, PAIRS[:, None])),
    "r02": lambda f, p: (f(*p.self_, PAIRS[:, None])[0], fused(*p.self_, PAIRS[:, None])),
    "r03": lambda f, p: (f(*last(*p.cross), ~KEYS_S), last(fused(*p.cross, KEYS_S))),
    "r04": lambda f, p: (f(*p.cross, REAL_S), fused(*p.cross, KEYS_S)),
    "r05": lambda f, p: (f(*one(*p.cross)), fused(*one(*p.cross))),
    "r06": lambda f, p: (f(*(x[0, 0] for x in p.cross)), fused(*p.cross)[0, 0]),
    "r07": lambda f, p: (f(*p.self_, PAIRS), fused(*p.self_, PAIRS[:, None])),
    "r08": lambda f, p: (f(*(x[0, 0] for x in p.cross)), fused(*p.cross)[0, 0]),
    "r09": lambda f, p: (f(*p.cross), fused(*p.cross)),
    "r10": lambda f, p: (f(*last(*p.self_), causal=True), last(fused(*p.self_, TRIANGLE))),
    "r11": lambda f, p: (f(D**0.5).eval()(*p.self_, PAIRS[:, None].int())[0], fused(*p.self_, PAIRS[:, None])),
    "r12": lambda f, p: (f(*one(p.y, p.z, p.x)), fused(*one(*p.cross))),
    "r13": lambda f, p: (f()(*one(p.x, p.z, p.y), REAL_S), fused(*one(*p.cross), REAL_S[:, None])),
    "r14": lambda f, p: (f(query=p.q, key=p.k, value=p.v, allowed=SOME, scale=0.2), fused(*p.self_, SOME, 0.2)),
    "r15": lambda f, p: (f(torch.stack(last(*p.self_), 2), causal=True), last(fused(*p.self_, TRIANGLE))),
    "r16": lambda f, p: (f(p.x, p.y.mT, p.z), fused(*p.cross)),
    "r17": lambda f, p: (f(*p.self_, ~SOME), fused(*p.self_, SOME)),
    "r18": lambda f, p: (f(*p.self_, bias_of(PAIRS)[:, None]), fused(*p.self_, PAIRS[:, None])),
    "r19": lambda f, p: (f(*p.self_, REAL.long())[0], fused(*p.self_, KEYS)),
    "r20": lambda f, p: (f(*one(*p.cross), REAL_S), fused(*one(*p.cross), REAL_S[:, None])),
    "r21": lambda f, p: (f(*p.cross, KEYS_S.int()), fused(*p.cross, KEYS_S)),
    "r22": lambda f, p: (f(*p.self_, PAIRS[:, None])[0], fused(*p.self_, PAIRS[:, None])),
    "r23": lambda f, p: (f(*p.self_), fused(*p.self_, TRIANGLE)),
    "r24": lambda f, p: (f(*one(*p.self_)), fused(*one(*p.self_), TRIANGLE)),
    "r25": lambda f, p: (f()(*p.self_), fused(*p.self_, TRIANGLE)),
    "r26": lambda f, p: (f(*p.self_), fused(*p.self_, TRIANGLE)),
    "r27": lambda f, p: (f(*p.cross), fused(*p.cross, torch.ones(T, S).tril(S - T).bool())),
    "r28": lambda f, p: (f(*p.cross), fused(*p.cross, torch.ones(T, S).tril().bool())),
    "r29": lambda f, p: (f(*p.cross)[1], fused(*p.cross)),
    "r30": lambda f, p: (f(*last(*p.cross))["context"], last(fused(*p.cross))),
    "r31": lambda f, p: (f(*p.cross, ~REAL_S), fused(*p.cross, KEYS_S)),
    "r32": lambda f, p: (f(*(x.mT for x in one(*p.cross))), fused(*one(*p.cross)).mT),
    "r33": lambda f, p: (f(*p.cross, 0.3), fused(*p.cross, scale=0.3)),
    "r34": lambda f, p: (f(*p.cross), fused(*p.cross, scale=1 / 12)),
    "r35": lambda f, p: (f(p.q, p.k2, p.v2), fused(*grouped(p))),
    "r36": lambda f, p: (f(*last(p.q, p.k2, p.v2), bias_of(TRIANGLE)), last(fused(*grouped(p), TRIANGLE))),
    "r37": lambda f, p: (
        f(p.q[0].transpose(0, 1).unflatten(1, (2, 2)), p.k2[0].transpose(0, 1), p.v2[0].transpose(0, 1)).flatten(1, 2),
        fused(*grouped(p), TRIANGLE)[0].transpose(0, 1),
    ),
    "r38": lambda f, p: (f(*p.self_, window_size=3), fused(*p.self_, TRIANGLE & SQUARE.triu(-2))),
    "r39": lambda f, p: (f(3)(*last(*p.self_)), last(fused(*p.self_, TRIANGLE & SQUARE.triu(-2)))),
    "r40": lambda f, p: (f(*p.self_, SOME), fused(*p.self_, SOME)),
    "r41": lambda f, p: (f(*p.self_, PAIRS[:, None]), fused(*p.self_, PAIRS[:, None])),
    "r42": lambda f, p: (f(*p.cross)[0], fused(*p.cross)),
    "r43": lambda f, p: (f(*p.self_, bias_of(PAIRS)[:, None])[0], last(fused(*p.self_, PAIRS[:, None]))),
    "r44": lambda f, p: (
        f(*p.self_, NO_KEY[:, None])[0],
        fused(*p.self_, NO_KEY[:, None] | ~NO_KEY[:, None].any(-1, keepdim=True)) * NO_KEY[:, None].any(-1, keepdim=True),
    ),
    "r45": lambda f, p: (f(*one(*p.self_), PAIRS), fused(*one(*p.self_), PAIRS)),
    "r46": lambda f, p: (f(*p.self_, SOME), fused(*p.self_, SOME)),
    "r47": lambda f, p: (f(*one(*p.self_), bias_of(PAIRS)), fused(*one(*p.self_), PAIRS)),
    "r48": lambda f, p: (f(*folded(*p.cross), H, ~REAL_S), fused(*p.cross, KEYS_S).flatten(0, 1)),
    "r49": lambda f, p: (f(*folded(*p.cross), REAL_S), fused(*p.cross, KEYS_S).flatten(0, 1)),
    "r50": lambda f, p: (f(*p.self_), sinks_reference(p, 1.0)),
    "r51": lambda f, p: (f(*p.self_, torch.tensor([0.0, 1.0, -1.0, 2.0])), sinks_reference(p, torch.tensor([0.0, 1, -1, 2]).exp()[:, None, None])),
    "r52": lambda f, p: (f(*p.cross, 2.0), by_weights((2 * (scores(*p.cross[:2]) / 2).tanh()).softmax(-1), p.z)),
    "r53": lambda f, p: (f(*p.cross), fused(F.normalize(p.x.double(), dim=-1), F.normalize(p.y.double(), dim=-1), p.z, scale=10.0)),
    "r54": lambda f, p: (f(*one(*p.cross)), slot_reference(*one(*p.cross))),
    "r55": lambda f, p: (f(*last(*p.cross)), last(linear_reference(*p.cross, causal=False))),
    "r56": lambda f, p: (f(*p.self_), linear_reference(*p.self_, causal=True)),
    "r57": lambda f, p: (f(*p.self_), fused(*p.self_, TRIANGLE, bias=ALIBI_BIAS)),
    "r58": lambda f, p: (f(*last(*p.self_)), last(fused(*p.self_, TRIANGLE, bias=ALIBI_BIAS))),
    "r59": lambda f, p: (f(*p.self_), fused(*p.self_, SQUARE.tril(-1) | (torch.arange(T * T).view(T, T) == 0))),
    "r60": lambda f, p: (averaged(f(*p.self_), p), fused(*p.self_)),
    "r61": lambda f, p: (f(*one(*p.cross)), fused(*one(*p.cross))),
    "r62": lambda f, p: (f(torch.stack(last(*p.self_), 3)), last(fused(*p.self_))),
    "r63": lambda f, p: (f(*p.self_), rotary_reference(p, "halves")),
    "r64": lambda f, p: (f(*last(*p.self_)), last(rotary_reference(p, "neighbours"))),
    "r65": lambda f, p: (f(*p.cross), fused(*p.cross)),
    "r66": lambda f, p: (f(*p.self_, REAL), fused(*p.self_, KEYS & TRIANGLE)),
    "r67": lambda f, p: (f(*p.self_, IDS), fused(*p.self_, (IDS[:, None] == IDS[..., None])[:, None] & TRIANGLE)),
    "r68": lambda f, p: (f(*p.cross, 0.5), fused(*p.cross)),
    "r69": lambda f, p: (f(*last(*p.self_), PAIRS), last(fused(*p.self_, PAIRS[:, None]))),
    "r70": lambda f, p: (f(*one(*p.cross), return_weights=True)[0], fused(*one(*p.cross))),
    "r71": lambda f, p: (f(*p.cross), fused(*p.cross)),
    "r72": lambda f, p: (f(*one(*p.cross)), fused(*one(*p.cross))),
    "r73": lambda f, p: (f(*p.self_, ALIBI_BIAS), fused(*p.self_, bias=ALIBI_BIAS)),
    "r74": lambda f, p: (f(*p.self_, PAIRS.long()), fused(*p.self_, PAIRS[:, None])),
    "r75": lambda f, p: (f()(*p.cross, ~REAL_S), fused(*p.cross, KEYS_S)),
    "r76": lambda f, p: (f(*p.cross, S - T), fused(*p.cross, torch.ones(T, S).tril(S - T).bool())),
    "r77": lambda f, p: (f(*p.self_, PAIRS[:, None])[0], fused(*p.self_, PAIRS[:, None])),
    "r78": lambda f, p: (f(H * D, H)(*p.cross), fused(*p.cross)),
    "r79": lambda f, p: (f(p.x, p.y, p.z.masked_fill(~KEYS_S.mT, math.nan), REAL_S), fused(*p.cross, KEYS_S)),
    "r80": lambda f, p: (f(*p.self_, is_causal=True), fused(*p.self_, TRIANGLE)),
}


def load(key):
    scope = {"__name__": "right"}
    source = (HERE / EXPECTED[key]["file"]).read_text(encoding="utf-8")
    exec(compile(source, EXPECTED[key]["file"], "exec"), scope)
    return scope[EXPECTED[key]["target"]]


def gradients(output, problem):
    inputs = [getattr(problem, name) for name in ("q", "k", "v", "x", "y", "z", "k2", "v2")]
    cotangent = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).view(output.shape)
    return torch.autograd.grad((output.double() * cotangent).sum(), inputs, allow_unused=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("key", sorted(CASES))
def test_the_file_gives_the_answer_and_the_gradients_of_its_definition(key, dtype):
    problem = Problem(dtype)
    got, want = CASES[key](load(key), problem)
    assert got.dtype == dtype
    atol = DTYPES[dtype]
    torch.testing.assert_close(got.double(), want.double(), atol=atol, rtol=0)
    for mine, theirs in zip(gradients(got, problem), gradients(want, problem), strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs, atol=2 * atol, rtol=3 * atol)


def test_every_file_is_expected_and_proved():
    assert set(CASES) == set(EXPECTED)
    assert {path.name for path in HERE.glob("r*.py")} == {entry["file"] for entry in EXPECTED.values()}


def test_every_trap_in_a_docstring_is_listed():
    for entry in EXPECTED.values():
        first = (HERE / entry["file"]).read_text(encoding="utf-8").split('"""')[1]
        assert ("Trap " + entry["trap"] in first) if entry.get("trap") else ("Trap" not in first)
