"""Right modules that change between calls, or return more than an output, each with a bug of a rule."""

from pathlib import Path

import pytest
import torch
from checker_corpus import load
from module_corpus import diagnosis_of, entries
from torch import nn

import softlookup
from softlookup.checker.constructing import instance_of
from softlookup.checker.lazy_weights import with_its_weights

FOLDER = Path(__file__).parent / "right_modules"
FILES = {entry["file"][:3]: entry for entry in entries("right_modules", "expected.json")}

#: Module, what is right in it, what stands there instead, and the rule that it breaks.
TWINS = [
    ("m70", "@ k.transpose(-2, -1) / q.shape[-1] ** 0.5", "@ k.transpose(-2, -1)", "scale-missing"),
    ("m70", ".triu(1)", ".triu(2)", "next-token-visible"),
    ("m70", ".softmax(dim=-1)", ".softmax(dim=-2)", "softmax-over-queries"),
    ("m38", "mask[:, None] == 0", "mask[:, None] != 0", "mask-inverted"),
    ("m71", "None if mask is None else mask[", "None if mask is None else ~mask[", "mask-inverted"),
    ("m71", "attn_mask=seen)", "attn_mask=seen, scale=C**-0.5)", "scale-wrong-width"),
    ("m72", ".tril(total - new)", ".tril()", "causal-top-left"),
    ("m72", ".tril(total - new)", ".tril(total if total > new else 0)", "cache-mask-misaligned"),
    ("m72", ".softmax(-1)", ".softmax(-2)", "softmax-over-queries"),
    ("m73", "/ math.sqrt(q.shape[-1])", "", "scale-missing"),
    ("m73", "torch.matmul(torch.softmax(logits, dim=-1), v)", "torch.matmul(logits, v)", "softmax-missing"),
    ("m74", "hbqk,hbkd->bqhd", "hbkq,hbkd->bqhd", "weights-transposed"),
    ("m74", "scores.softmax(dim=-1)", "scores.softmax(dim=0)", "softmax-over-heads"),
    ("m75", "(q * q.shape[-1] ** -0.5) @ k", "q @ k", "path-mismatch"),
    (
        "m75",
        "the weights, averaged over the heads: (B, T, T)",
        "the weights of each head",
        "weights-averaged",
    ),
    ("m76", "scores.softmax(dim=2)", "scores.softmax(dim=1)", "softmax-over-queries"),
    ("m76", "scores.softmax(dim=2)", "scores.softmax(dim=-1)", "softmax-over-heads"),
    ("m77", "if not self.folded:", "if True:", "scale-doubled"),
    ("m77", "self.q_proj.weight.mul_(factor)", "pass", "scale-missing"),
]


def checked(folder, key, right, wrong):
    entry = FILES[key]
    text = (FOLDER / entry["file"]).read_text(encoding="utf-8")
    assert right in text
    path = folder / f"{key}.py"
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    return softlookup.check(instance_of(getattr(load(path), entry["target"]), {}))


@pytest.mark.parametrize(("key", "right", "wrong", "rule"), TWINS, ids=[f"{k}-{r}" for k, *_, r in TWINS])
def test_a_bug_in_such_a_module_is_named(key, right, wrong, rule, tmp_path):
    assert checked(tmp_path, key, right, wrong).named() == [rule]


@pytest.mark.parametrize("key", ["m38", *(f"m{number}" for number in range(70, 78))])
def test_the_lookup_of_such_a_module_is_judged_and_not_only_its_behaviour(key):
    assert "not-callable" not in [note.name for note in diagnosis_of(FILES[key], "right_modules").notes]


def test_a_module_that_eval_rewrites_is_given_back_as_it_was():
    module = load(FOLDER / FILES["m77"]["file"]).FoldedScaleAttention(48, 6).train()
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    assert softlookup.check(module).clean
    assert module.training
    assert not module.folded
    assert all(torch.equal(weight, before[name]) for name, weight in module.state_dict().items())


def test_a_lazy_module_of_the_caller_stays_lazy():
    module = load(FOLDER / FILES["m70"]["file"]).LazySelfAttention(6, 8)
    assert softlookup.check(module).clean
    assert isinstance(module.qkv, nn.LazyLinear)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.LazyLinear(6), [6, 6]),
        (nn.LazyConv1d(8, 1), [8, 8, 1]),
        (nn.LazyConv2d(8, 1), [8, 8, 1, 1]),
        (nn.Sequential(nn.LazyLinear(12), nn.Linear(12, 6)), [12, 12]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_lazy_layer_gets_as_many_inputs_as_it_has_outputs(layer, shape):
    made = with_its_weights(layer)
    assert list(next(made.parameters()).shape) == shape


def test_the_random_numbers_of_the_caller_stay_as_they_were():
    state = torch.get_rng_state()
    with_its_weights(nn.LazyLinear(6))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_cache_holds_nothing_of_the_call_that_made_the_weights():
    class Keeping(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj, self.cache = nn.LazyLinear(8), None

        def forward(self, x):
            self.cache = self.proj(x)
            return self.cache

    assert with_its_weights(Keeping()).cache is None
