"""transformers' own models, compiled and checkpointed: watched or not, the same bits; every layer is seen."""

import pytest
import torch
from test_watch_untouched import assert_untouched
from watched_models import FAMILIES

try:
    import transformers  # noqa: F401
except ImportError:
    FAMILIES = {}

#: Attention of which only a softmax method is seen is not heard in compiled code: its coverage says so.
FUSED = [it for it in FAMILIES if it not in ("bloom", "gpt_oss", "gemma2")]
IN_EVERY_RUN = ("llama",)  # a compiler takes its time


def layers_of(trace):
    return {it.call.layer for it in trace.records}


@pytest.mark.parametrize("family", FAMILIES)
def test_checkpointed_models_are_untouched_and_counted_once(family):
    for implementation in ("eager", "sdpa") if family in FUSED else ("eager",):
        model, inputs = FAMILIES[family](implementation)
        if not model.supports_gradient_checkpointing:
            pytest.skip(f"transformers does not checkpoint {type(model).__name__}")
        model.config.use_cache = False
        plain = assert_untouched(lambda m=model, i=inputs: m(**i), model, training=True)
        model.gradient_checkpointing_enable({"use_reentrant": False})
        trace = assert_untouched(lambda m=model, i=inputs: m(**i), model, training=True)
        assert [it.call.layer for it in trace.records] == [it.call.layer for it in plain.records]


def compiled_is_untouched(family, training, backend):
    torch.compiler.reset()
    model, inputs = FAMILIES[family]("sdpa")
    model.config.use_cache = False
    seen = assert_untouched(lambda: model(**inputs), model, training=training)
    compiled = torch.compile(model, backend=backend, dynamic=False)
    trace = assert_untouched(lambda: compiled(**inputs), model, training=training, watched=compiled)
    assert layers_of(trace) == layers_of(seen)
    torch.compiler.reset()


@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize(
    "family", [it if it in IN_EVERY_RUN else pytest.param(it, marks=pytest.mark.long) for it in FUSED]
)
def test_compiled_models_are_untouched_and_all_their_layers_are_seen(family, training):
    compiled_is_untouched(family, training, "aot_eager")


@pytest.mark.long
@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize("family", [it for it in ("llama", "gpt2", "bert") if it in FUSED])
def test_models_compiled_to_kernels_are_untouched_and_all_their_layers_are_seen(family, training):
    compiled_is_untouched(family, training, "inductor")
