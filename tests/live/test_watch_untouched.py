"""Watched or not: the same outputs and gradients, bit for bit, and nothing is left behind."""

import contextlib
import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from watched_models import FAMILIES, Fused, HandWritten, Small, implementations, tokens

from softlookup import watch
from softlookup.masks import causal

try:
    import transformers  # noqa: F401
except ImportError:
    FAMILIES = {}

OWN = {
    "hand-written": lambda: (Small(HandWritten), (tokens(),)),
    "fused": lambda: (Small(Fused), (tokens(),)),
    "nn.TransformerEncoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 48, 0.1, batch_first=True), 2),
        (torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(3)),),
    ),
    "nn.TransformerEncoder, norm first": lambda: (
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 4, 48, 0.1, batch_first=True, norm_first=True),
            2,
            enable_nested_tensor=False,
        ),
        (torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(3)),),
    ),
    "nn.TransformerDecoder": lambda: (
        nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 48, 0.1, batch_first=True), 2),
        tuple(torch.randn(2, n, 32, generator=torch.Generator().manual_seed(n)) for n in (7, 9)),
    ),
    "nn.MultiheadAttention": lambda: (
        nn.MultiheadAttention(32, 4, 0.1, batch_first=True),
        tuple(torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(3)) for _ in range(3)),
    ),
}


def first_tensor(output):
    if isinstance(output, torch.Tensor):
        return output
    if isinstance(output, tuple):
        return output[0]
    return next(iter(output.values()))


def run(call, model, *, training, autocast, seed=0):
    """Outputs and gradients of one pass."""
    model.train(training)
    model.zero_grad()
    torch.manual_seed(seed)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), torch.set_grad_enabled(training):
        output = first_tensor(call())
    gradients = []
    if training:
        output.float().square().mean().backward()
        gradients = [it.grad.clone() for it in model.parameters() if it.grad is not None]
    return output.detach().clone(), gradients, torch.get_rng_state()


def assert_untouched(call, model, *, training, autocast=False, watched=None, records=True):
    plain = run(call, model, training=training, autocast=autocast)
    with watch(model if watched is None else watched, rule=causal(), queries=16) as trace:
        seen = run(call, model, training=training, autocast=autocast)
    again = run(call, model, training=training, autocast=autocast)
    assert bool(trace.records) == records, trace.coverage
    assert "not observable" not in trace.coverage
    for other in (seen, again):
        assert torch.equal(plain[0], other[0])
        assert len(plain[1]) == len(other[1])
        assert all(torch.equal(a, b) for a, b in zip(plain[1], other[1], strict=True))
        assert torch.equal(plain[2], other[2])
    return trace


@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize("family", FAMILIES)
def test_models_of_transformers_are_untouched(family, training, autocast):
    for implementation in implementations(family):
        if implementation == "flex_attention" and (training or autocast):
            continue  # transformers gives it no dropout, and torch no uncompiled backward in autocast
        model, inputs = FAMILIES[family](implementation)
        with torch.compiler.set_stance("force_eager"):
            assert_untouched(lambda m=model, i=inputs: m(**i), model, training=training, autocast=autocast)


@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize("name", OWN)
def test_plain_modules_are_untouched(name, training, autocast):
    model, inputs = OWN[name]()
    assert_untouched(lambda: model(*inputs), model, training=training, autocast=autocast)


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_fast_path_stays_the_fast_path(padded, norm_first, monkeypatch):
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=padded and not norm_first).eval()
    called = []
    fused = torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(
        torch, "_transformer_encoder_layer_fwd", lambda *args: called.append(1) or fused(*args)
    )
    x = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(3))
    hidden = torch.zeros(2, 9, dtype=torch.bool)
    hidden[1, 6:] = padded
    given = {"src_key_padding_mask": hidden} if padded else {}
    trace = assert_untouched(lambda: model(x, **given), model, training=False)
    assert len(called) == 6  # two layers: before, watched, after
    assert {it.call.way for it in trace.records} == {"encoder_layer_fast"}
    if padded:
        assert trace.records[0].statistics.masked_fraction.mean() == pytest.approx(3 / 18)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize("kind", [HandWritten, Fused])
def test_checkpointed_layers_are_counted_once(kind, training):
    class Checkpointed(Small):
        def forward(self, ids):
            x = self.wte(ids)
            for norm, block in zip(self.norms, self.blocks, strict=True):
                x = x + checkpoint(lambda y, n=norm, b=block: b(n(y)), x, use_reentrant=False)
            return self.head(x)

    model = Checkpointed(kind)
    trace = assert_untouched(lambda: model(tokens()), model, training=training)
    assert [it.call.layer for it in trace.records] == ["blocks.0", "blocks.1"]


@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize("when", ["before the watch", "inside the watch"])
def test_compiled_models_are_untouched_and_seen(training, when):
    torch.compiler.reset()
    model = Small(Fused)
    backend = "inductor" if training else "aot_eager"  # kernels take ten times as long to make
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
    ids = tokens()
    if when == "inside the watch":
        with watch(model) as trace:
            run(lambda: compiled(ids), model, training=training, autocast=False)
        assert [it.call.layer for it in trace.records] == ["blocks.0", "blocks.1"]
    trace = assert_untouched(lambda: compiled(ids), model, training=training, watched=compiled)
    assert [it.call.layer for it in trace.records] == ["blocks.0", "blocks.1"]


class WithDropout(Fused):
    def forward(self, x):
        q, k, v = (
            it.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for it in self.c_attn(x).chunk(3, dim=-1)
        )
        allowed_mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        y = functional.scaled_dot_product_attention(q, k, v, allowed_mask, 0.1 * self.training)
        return self.c_proj(y.transpose(1, 2).flatten(2))


def test_functions_that_the_compiler_runs_itself_are_not_calls_of_the_model():
    """It takes attention with a mask and dropout apart by a softmax in Python, while it traces."""
    torch.compiler.reset()
    model = Small(WithDropout, layers=1)
    compiled = torch.compile(model, backend="aot_eager_decomp_partition", dynamic=False)
    ids = tokens()
    trace = assert_untouched(lambda: compiled(ids), model, training=True, watched=compiled)
    assert [(it.call.layer, it.call.way) for it in trace.records] == [("blocks.0", "sdpa")]


@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 12),
    kind=st.sampled_from([HandWritten, Fused]),
    training=st.booleans(),
    autocast=st.booleans(),
    queries=st.sampled_from([None, 1, 7]),
)
@settings(max_examples=40, deadline=None)
def test_any_shape_is_untouched(batch, length, kind, training, autocast, queries):
    model = Small(kind, layers=1)
    ids = tokens(batch=batch, length=length)
    plain = run(lambda: model(ids), model, training=training, autocast=autocast)
    with watch(model, queries=queries, rule=causal()) as trace:
        seen = run(lambda: model(ids), model, training=training, autocast=autocast)
    assert torch.equal(plain[0], seen[0])
    assert all(torch.equal(a, b) for a, b in zip(plain[1], seen[1], strict=True))
    assert trace.alarms == []
    assert len(trace.records) == 1


NAMES = (
    (functional, "scaled_dot_product_attention"),
    (functional, "softmax"),
    (torch, "softmax"),
    (torch, "_native_multi_head_attention"),
    (torch, "_transformer_encoder_layer_fwd"),
)


@pytest.mark.parametrize("ending", ["well", "with an exception", "one inside another"])
def test_nothing_is_left_behind(ending):
    before = [getattr(owner, name) for owner, name in NAMES]
    model = Small()
    state = {name: dict(vars(module)) for name, module in model.named_modules()}
    with contextlib.suppress(RuntimeError), watch(model) as trace:
        if ending == "one inside another":
            with watch(model) as inner:
                model(tokens())
            assert len(inner.records) == 2
            assert functional.scaled_dot_product_attention is not before[0]
        model(tokens())
        if ending == "with an exception":
            raise RuntimeError
    assert trace.records
    assert [getattr(owner, name) for owner, name in NAMES] == before
    assert "softmax" not in vars(torch.Tensor)
    assert not model._forward_pre_hooks
    assert {name: dict(vars(module)) for name, module in model.named_modules()} == state
    seen = len(trace.records)
    model(tokens())
    assert len(trace.records) == seen


def test_somebody_else_who_replaced_the_function_keeps_it(monkeypatch):
    original, others = functional.scaled_dot_product_attention, []
    model = Small(Fused)
    with watch(model) as trace:
        ours = functional.scaled_dot_product_attention
        theirs = lambda *args, **kwargs: others.append(1) or ours(*args, **kwargs)  # noqa: E731
        functional.scaled_dot_product_attention = theirs
        model(tokens())
    try:
        assert len(trace.records) == len(others) == 2
        assert functional.scaled_dot_product_attention is theirs
        model(tokens())  # through theirs and ours, which does nothing now
        assert (len(trace.records), len(others)) == (2, 4)
    finally:
        functional.scaled_dot_product_attention = original


def test_models_are_copied_and_pickled_while_watched():
    model = Small(Fused)
    with watch(model) as trace:
        twins = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        for twin in twins:
            twin(tokens())
        assert (len(trace.records), trace.steps) == (0, 0)
        model(tokens())
    assert len(trace.records) == 2


def test_names_bound_early_are_heard():
    import types

    module = types.ModuleType("a_module_of_somebody")
    exec("from torch.nn.functional import scaled_dot_product_attention as sdpa", vars(module))
    original = module.sdpa

    class Early(nn.Module):
        def forward(self, x):
            return module.sdpa(x, x, x)

    import sys

    sys.modules[module.__name__] = module
    try:
        model, x = Early(), torch.randn(1, 2, 5, 8)
        with watch(model) as trace:
            model(x)
        assert len(trace.records) == 1
        assert module.sdpa is original
    finally:
        del sys.modules[module.__name__]


def test_declared_modules_are_heard_and_left_as_they_were():
    """Attention by exp and sums, which no known function computes."""

    class ByHand(HandWritten):
        def forward(self, x):
            q, k, v = (
                it.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for it in self.c_attn(x).chunk(3, dim=-1)
            )
            e = (q @ k.transpose(-2, -1) / 8**0.5).exp().tril()
            self.last = q.detach(), k.detach()
            return self.c_proj((e / e.sum(-1, keepdim=True) @ v).transpose(1, 2).flatten(2))

    def declare(module, args, kwargs, output):
        q, k = module.last
        return {"q": q, "k": k, "mask": causal()}

    model, ids = Small(ByHand), tokens()
    plain = model(ids)
    with watch(model) as unheard:
        model(ids)
    assert unheard.coverage.startswith("0 of 0")  # nothing says that it is attention
    with watch(model, declare={"ByHand": declare}, queries=None) as trace:
        assert torch.equal(model(ids), plain)
        copy.deepcopy(model)(ids)
    assert [it.call.way for it in trace.records] == ["declared"] * 2
    assert trace.coverage == "2 of 2 attention layers seen, 2 calls measured"
    assert not any(it._forward_hooks for it in model.modules())


def test_what_cannot_be_looked_at_is_counted_and_said():
    model = Small(Fused)
    with watch(model) as trace:
        torch.func.vmap(model)(tokens()[:, None])
    assert trace.records == ()
    assert "2 calls not observable: 2 x inside vmap" in trace.coverage


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ([1], {}, "there is no model to watch"),
        (None, {"every": 0}, "every"),
        (None, {"queries": 0}, "queries"),
        (None, {"log_to": 3}, "log"),
    ],
)
def test_bad_options_are_refused_in_words(model, options, words):
    from softlookup import SoftlookupError

    with pytest.raises(SoftlookupError, match=words), watch(Small() if model is None else model, **options):
        pass
