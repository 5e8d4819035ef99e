"""After an experiment the model, torch and everything else are what they were, bit for bit."""

import contextlib
import copy
import sys
import threading

import pytest
import torch
from reference_attention import first_tensor
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as torch_module
from torch.utils.checkpoint import checkpoint
from watched_models import Fused, HandWritten, Small, tokens

from softlookup import SoftlookupError, watch
from softlookup.experiments import ablate, change_token, intervene, remove_source, uniform_map
from softlookup.live import tap
from softlookup.recording import record_attention

try:
    import transformers  # noqa: F401
    from watched_models import FAMILIES
except ImportError:
    FAMILIES = {}


def encoder():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    return nn.TransformerEncoder(layer, 2).eval(), (torch.randn(2, 9, 32),)


def small(kind):
    torch.manual_seed(0)
    return Small(kind).eval(), (tokens(),)


MODELS = {
    "hand-written": lambda: small(HandWritten),
    "fused": lambda: small(Fused),
    "nn.TransformerEncoder": encoder,
}


def of_transformers(family, implementation):
    def build():
        model, inputs = FAMILIES[family](implementation)
        return model, (inputs["input_ids"],)

    return build


MODELS |= {
    f"{family}, {way}": of_transformers(family, way)
    for family in ("llama", "gpt2", "bert")
    for way in ("sdpa", "eager")
    if family in FAMILIES
}


def everything_around(model):
    """What could be left behind in a model, in torch, and in modules that hold a name of ours."""
    of_modules = {
        path: {
            name: dict(it) if isinstance(it, dict) else it
            for name, it in vars(module).items()
            if name not in ("_parameters", "_buffers")
        }
        for path, module in model.named_modules()
    }
    names = [
        (functional, "scaled_dot_product_attention"),
        (functional, "softmax"),
        (torch, "softmax"),
        (torch.Tensor, "softmax"),
        (torch, "_native_multi_head_attention"),
    ]
    hooks = [
        getattr(torch_module, name)
        for name in (
            "_global_forward_hooks",
            "_global_forward_pre_hooks",
            "_global_forward_hooks_always_called",
        )
    ]
    return (
        of_modules,
        {name: (it.data_ptr(), it.clone()) for name, it in model.state_dict().items()},
        [getattr(owner, name) for owner, name in names],
        [dict(it) for it in hooks],
        torch.backends.mha.get_fastpath_enabled(),
        list(tap.listeners()),
    )


def assert_same(before, after):
    assert before[0] == after[0]
    assert before[1].keys() == after[1].keys()
    for name, (place, numbers) in before[1].items():
        assert place == after[1][name][0]
        assert torch.equal(numbers, after[1][name][1])
    assert before[2:] == after[2:]


@pytest.mark.parametrize("ending", ["well", "with an exception", "one inside another"])
@pytest.mark.parametrize("name", MODELS)
def test_everything_is_as_it_was(name, ending):
    model, inputs = MODELS[name]()
    with torch.no_grad():
        plain = first_tensor(model(*inputs)).clone()
    before = everything_around(model)
    doing = (ablate(layer="*", head=1), remove_source(0, layer="*", head=2), uniform_map(layer="*", head=0))
    with contextlib.suppress(RuntimeError), torch.no_grad(), intervene(model, *doing):
        if ending == "one inside another":
            with intervene(model, doing[0]):
                model(*inputs)
        changed = first_tensor(model(*inputs))
        if ending == "with an exception":
            raise RuntimeError
    assert not torch.equal(changed, plain)
    assert_same(before, everything_around(model))
    with torch.no_grad():
        assert torch.equal(first_tensor(model(*inputs)), plain)


def test_names_that_others_have_bound_are_given_back():
    module = sys.modules[__name__]
    before = module.functional.scaled_dot_product_attention
    module.bound_early = before
    model, _ = small(Fused)
    with intervene(model):
        assert module.bound_early is not before
    assert module.bound_early is before
    assert functional.scaled_dot_product_attention is before


@pytest.mark.parametrize("before", [True, False])
def test_the_fast_path_is_off_inside_and_then_as_it_was_set(before):
    model, _ = encoder()
    torch.backends.mha.set_fastpath_enabled(before)
    try:
        with intervene(model):
            assert not torch.backends.mha.get_fastpath_enabled()
            with intervene(model):
                pass
            assert not torch.backends.mha.get_fastpath_enabled()
        assert torch.backends.mha.get_fastpath_enabled() == before
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_the_fast_path_of_torch_is_compared_with_the_plain_way():
    """A baseline inside an empty block differs from the fast path by rounding, and an ablation by more."""
    model, (x,) = encoder()
    with torch.no_grad():
        fast = model(x)
        with intervene(model):
            plain = model(x)
        with intervene(model, ablate(layer="layers.0.self_attn", head=1)):
            ablated = model(x)
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-5)
    assert (ablated - plain).abs().max() > 1e-2


def test_a_model_is_copied_without_what_runs_on_it():
    model, inputs = small(Fused)
    with intervene(model, ablate(layer="blocks.0", head=0)):
        copied = copy.deepcopy(model)
        changed = model(*inputs)
        assert not torch.equal(copied(*inputs), changed)


def test_another_model_in_the_same_block_is_left_alone():
    model, inputs = small(Fused)
    other, _ = small(Fused)
    plain = other(*inputs)
    with intervene(model, ablate(layer="*", head=0)):
        model(*inputs)
        assert torch.equal(other(*inputs), plain)


def test_each_thread_has_its_own_model_and_interventions():
    found, wanted = {}, {}
    models = {number: small(Fused if number % 2 else HandWritten)[0] for number in range(4)}
    ids = tokens()
    for number, model in models.items():
        with intervene(model, ablate(layer="blocks.1", head=number, how="zero")):
            wanted[number] = model(ids)
    together = threading.Barrier(4)

    def run(number):
        for _ in range(5):
            with intervene(models[number], ablate(layer="blocks.1", head=number)):
                together.wait()
                found.setdefault(number, []).append(models[number](ids))

    threads = [threading.Thread(target=run, args=(number,)) for number in models]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    for number in models:
        assert all(torch.equal(it, wanted[number]) for it in found[number])
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("kind", [HandWritten, Fused])
def test_layers_that_are_computed_again_in_backward_are_changed_again(kind):
    class Checkpointed(Small):
        def forward(self, ids):
            x = self.wte(ids)
            for norm, block in zip(self.norms, self.blocks, strict=True):
                x = x + checkpoint(lambda y, n=norm, b=block: b(n(y)), x, use_reentrant=False)
            return self.head(x)

    gradients = []
    for model in (Small(kind), Checkpointed(kind)):
        torch.manual_seed(0)
        for it in model.parameters():
            nn.init.normal_(it, std=0.3)
        doing = (remove_source(1, layer="blocks.0"), ablate(layer="blocks.1", head=2))
        with intervene(model, *doing):
            model(tokens()).square().mean().backward()
        gradients.append([it.grad for it in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_a_watch_hears_the_same_calls_with_and_without_a_block():
    model, inputs = small(Fused)
    with watch(model) as alone:
        model(*inputs)
    with watch(model) as trace, intervene(model):
        model(*inputs)
    assert trace.coverage == alone.coverage
    assert [it.call for it in trace.records] == [it.call for it in alone.records]


def test_recording_leaves_a_model_as_it_was():
    for name in MODELS:
        model, inputs = MODELS[name]()
        with torch.no_grad():
            plain = first_tensor(model(*inputs)).clone()
        before = everything_around(model)
        recording = record_attention(model, *inputs)
        assert torch.equal(first_tensor(recording.output), plain), name
        assert_same(before, everything_around(model))


def test_what_the_model_returns_is_plain_tensors():
    """Weights that are followed to the values are handed out by some models."""
    layer = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    x = torch.randn(2, 9, 32)
    with intervene(layer, ablate(layer="", head=1)):
        output, weights = layer(x, x, x, need_weights=True, average_attn_weights=False)
    assert type(output) is type(weights) is torch.Tensor
    plain = layer(x, x, x, need_weights=True, average_attn_weights=False)
    assert torch.equal(weights, plain[1])
    if FAMILIES:
        model, inputs = FAMILIES["bert"]("eager")
        with intervene(model, ablate(layer="*", head=1, how="mean", reference=inputs)):
            found = model(**inputs, output_attentions=True)
            assert {type(it) for it in found.attentions} == {torch.Tensor}


def test_inputs_are_never_changed():
    ids = tokens()
    kept = ids.clone()
    other = change_token(ids, 3, 7, sample=1)
    assert torch.equal(ids, kept)
    assert (other != ids).nonzero().tolist() == [[1, 3]]
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    changed = change_token(given, -1, 7)
    assert given["input_ids"] is ids
    assert changed["attention_mask"] is given["attention_mask"]
    assert changed["input_ids"][0].tolist() == [*ids[0, :-1].tolist(), 7]
    assert type(change_token((ids, 1), 0, 9)) is tuple
    row = torch.zeros(2, 4, 3)
    assert change_token(row, 1, torch.ones(3))[0].tolist() == [[0] * 3, [1] * 3, [0] * 3, [0] * 3]


def test_what_a_tokenizer_returns_stays_what_it_is():
    transformers = pytest.importorskip("transformers")
    given = transformers.BatchEncoding({"input_ids": tokens()})
    kept = given["input_ids"].clone()
    changed = change_token(given, 0, 9)
    assert type(changed) is type(given)
    assert changed.input_ids[0, 0] == 9
    assert torch.equal(given["input_ids"], kept)


def test_an_exception_inside_a_model_ends_what_is_followed():
    class Breaks(HandWritten):
        broken = True

        def forward(self, x):
            found = super().forward(x)
            if self.broken:
                raise RuntimeError("broken")
            return found

    model = Small(Breaks).eval()
    with intervene(model, ablate(layer="blocks.*", head=0)):
        with pytest.raises(RuntimeError, match="broken"):
            model(tokens())
        Breaks.broken = False
        changed = model(tokens())
    assert not torch.equal(changed, model(tokens()))


def test_an_error_of_the_user_is_not_hidden_by_ours():
    model, _ = small(Fused)
    with pytest.raises(ZeroDivisionError), intervene(model, ablate(layer="blocks.0", head=0)):
        1 / 0  # noqa: B018
    with (
        pytest.raises(SoftlookupError, match="met no call"),
        intervene(model, ablate(layer="blocks.0", head=0)),
    ):
        pass
