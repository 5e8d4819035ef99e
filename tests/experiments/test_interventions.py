"""An intervention does what attention does that is written anew with that one thing changed."""

import functools
import sys

import pytest
import torch
from reference_attention import (
    Given,
    GivenMask,
    Keeping,
    Outputs,
    PreviousToken,
    Reference,
    Scaled,
    Uniform,
    WithoutKey,
    first_tensor,
)

from softlookup.experiments import (
    ablate,
    freeze_map,
    freeze_mask,
    intervene,
    previous_token_map,
    remove_source,
    scale_logits,
    uniform_map,
)
from softlookup.recording import record_attention

transformers = pytest.importorskip("transformers")
from watched_models import FAMILIES, implementations, padded  # noqa: E402  (found through reference_attention)

#: By family: the layer that the experiments are about, and the side on which a sample is padded.
LAYERS = {
    "llama": ("model.layers.1.self_attn", "right"),
    "llama, not padded": ("model.layers.0.self_attn", None),
    "gpt2": ("transformer.h.1.attn", "right"),
    "gpt2, padded on the left": ("transformer.h.1.attn", "left"),
    "bert": ("encoder.layer.1.attention.self", "right"),
    "t5": ("encoder.block.1.layer.0.SelfAttention", "right"),
    "t5, cross": ("decoder.block.0.layer.1.EncDecAttention", "right"),
    "t5, decoder": ("decoder.block.1.layer.0.SelfAttention", "right"),
}
WAYS = [(name, way) for name in LAYERS for way in implementations(name.partition(",")[0])]
HEAD, KEY = 2, 3


@pytest.fixture(autouse=True, scope="module")
def _eagerly():
    """flex_attention as it is written, not compiled; names are looked for once for all experiments."""
    with torch.compiler.set_stance("force_eager"), intervene(torch.nn.Identity()):
        yield


@functools.cache  # no experiment leaves a trace in a model
def model_of(name, implementation):
    """A model in float64, its inputs, the layer, and the module of transformers where it is written."""
    family = name.partition(",")[0]
    path, side = LAYERS[name]
    model, inputs = FAMILIES[family](implementation)
    inputs = {key: it for key, it in inputs.items() if key != "attention_mask" or side}
    if side == "left":
        inputs["attention_mask"] = padded("left")
    model = model.double()
    layer = model.get_submodule(path)
    return model, inputs, path, sys.modules[type(layer).__module__], layer


@functools.cache
def by_hand(name, what):
    """The answer of the model when one layer attends by hand, and the attention that did it."""
    model, inputs, _, module, layer = model_of(name, "eager")
    reference = Reference(module, layer, expected(name, what) if what else None)
    with reference.in_place(), torch.no_grad():
        return first_tensor(model(**inputs)), reference


def other_inputs(inputs):
    """The same sizes, other tokens."""
    return {key: it.flip(0) if key == "input_ids" else it for key, it in inputs.items()}


@functools.cache
def elsewhere(name):
    """Weights, heads and visibility of the layer on other inputs, by hand."""
    model, inputs, _, module, layer = model_of(name, "eager")
    reference = Reference(module, layer, Keeping())
    with reference.in_place(), torch.no_grad():
        model(**other_inputs(inputs))
    return reference.change.kept, reference.heads, reference.seen


def mean_over_queries(heads, seen):
    sees = seen.any(-1)[..., None]
    return (heads * sees).sum((0, 2)) / sees.sum((0, 2))


def expected(name, what):
    """The change by hand that goes with an intervention."""
    weights, heads, seen = elsewhere(name)
    return {
        "remove_source": WithoutKey(KEY, HEAD),
        "scale_logits": Scaled(0.5, HEAD),
        "uniform_map": Uniform(HEAD),
        "previous_token_map": PreviousToken(HEAD),
        "freeze_map": Given(weights, HEAD),
        "freeze_mask": GivenMask(seen, HEAD),
        "zero": Outputs(torch.zeros_like, HEAD),
        "mean": Outputs(mean_over_queries(heads, seen)[HEAD].expand_as, HEAD),
        "resample": Outputs(lambda it: heads[:, HEAD], HEAD),
    }[what]


def intervention(what, model, inputs, path):
    at = {"layer": path, "head": HEAD}
    if what == "remove_source":
        return remove_source(KEY, **at)
    if what == "scale_logits":
        return scale_logits(0.5, **at)
    if what in ("freeze_map", "freeze_mask"):
        recording = record_attention(model, **other_inputs(inputs))
        return {"freeze_map": freeze_map, "freeze_mask": freeze_mask}[what](recording, **at)
    if what in ("mean", "resample"):
        return ablate(**at, how=what, reference=other_inputs(inputs))
    return {"uniform_map": uniform_map, "previous_token_map": previous_token_map, "zero": ablate}[what](**at)


WHAT = (
    "remove_source",
    "scale_logits",
    "uniform_map",
    "previous_token_map",
    "freeze_map",
    "freeze_mask",
    "zero",
    "mean",
    "resample",
)
SOME = ("remove_source", "freeze_map", "mean")  # one for each step, where the rest is the same
CASES = [
    (name, way, what)
    for name, way in WAYS
    for what in (SOME if "," in name or way == "flex_attention" else WHAT)
]


@pytest.mark.parametrize(("name", "way", "what"), CASES, ids=[" - ".join(it) for it in CASES])
def test_it_is_attention_written_anew_with_one_thing_changed(name, way, what):
    model, inputs, path, _, _ = model_of(name, way)
    plain, _ = by_hand(name, None)
    wanted, _ = by_hand(name, what)
    with torch.no_grad(), intervene(model, intervention(what, model, inputs, path)):
        found = first_tensor(model(**inputs))
    # Rows of padding are for nobody, and each way fills them with something else.
    real = inputs["attention_mask"].bool() if "attention_mask" in inputs and name[:2] != "t5" else slice(None)
    close = 1e-6 if name.startswith("llama") else 1e-10  # its own softmax is always in float32
    torch.testing.assert_close(found[real], wanted[real], rtol=0, atol=close)
    if what != "freeze_mask":  # here, the same padding: the same mask
        assert (found[real] - plain[real]).abs().max() > 1e-3
