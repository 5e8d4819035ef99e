"""Models that nobody has touched give no finding, and an audit leaves them as they were."""

import random

import pytest
import torch
from many_families import built_tiny
from planted_models import Decoder, Encoder, built
from tiny_models import NAMES, OTHERS, TRANSFORMERS, nanogpt, tiny, transformers_model

import softlookup
from softlookup.auditing.discover import all_checks

pytest.importorskip("transformers", reason="the families are those of transformers")


@pytest.mark.parametrize("name", NAMES)
def test_an_untouched_model_gives_no_finding_and_no_check_breaks_off(name):
    result = softlookup.audit(tiny(name))
    assert result.findings == ()
    assert result.failed == {}
    assert not {check: why for check, why in result.not_asked.items() if "raised" in why}


@pytest.mark.parametrize("family", ["ctrl", "fnet", "granitemoe", "mobilebert"])
def test_families_with_habits_of_their_own_give_no_finding(family):
    """A table rounded for good in bfloat16; no mask; use_cache among **kwargs; embeddings of neighbours."""
    result = softlookup.audit(built_tiny(family))
    assert result.findings == ()
    assert {"half precision", "position offset", "packed documents"} & set(result.asked)


def test_that_neighbours_read_hidden_tokens_is_noted():
    notes = [it for it in softlookup.audit(built_tiny("mobilebert")).notes if it.check == "right padding"]
    assert [it.code for it in notes] == ["SL105"]
    assert "with the id to pad with nothing moves: mobilebert.embeddings" in notes[0].words


@pytest.mark.parametrize("name", ["gpt2", "t5", "bart", "mistral", "bloom", "nanoGPT"])
def test_decoders_are_asked_about_causality_and_loss(name):
    asked = softlookup.audit(tiny(name)).asked
    assert {"causality", "gradient causality", "loss shift", "loss padding"} <= set(asked)


@pytest.mark.parametrize("name", ["llama", "gpt2", "t5", "bart", "whisper", "mistral", "gpt-oss"])
def test_decoders_with_a_cache_are_asked_about_it(name):
    asked = softlookup.audit(tiny(name)).asked
    assert {"cached decode", "chunked prefill", "beam reordering", "cached left padding"} <= set(asked)


@pytest.mark.parametrize("name", ["bert", "nn.TransformerEncoder", "roberta"])
def test_encoders_are_not_asked_for_causality(name):
    assert "does not promise" in softlookup.audit(tiny(name)).not_asked["causality"]


@pytest.mark.parametrize(("model_class", "codes"), [(Encoder, {"SL101"}), (Decoder, {""})])
def test_of_a_model_that_does_not_say_whether_it_is_causal_it_is_noted(model_class, codes):
    result = softlookup.audit(built(model_class))
    assert result.clean
    assert {it.code for it in result.notes if it.check == "future seen"} == codes
    of_its_own = built(model_class)
    of_its_own.config.model_type = "something-new"
    assert "future seen" in softlookup.audit(of_its_own).asked
    for promised in (True, False):
        assert "future seen" in softlookup.audit(built(model_class), causal=promised).not_asked


@pytest.mark.parametrize("name", ["llama", "bert", "nn.TransformerEncoder"])
def test_whether_they_are_causal_is_not_asked_of_models_that_say_it(name):
    assert "future seen" in softlookup.audit(tiny(name)).not_asked


def test_every_check_is_asked_of_some_model_or_waits_for_the_user():
    models = [*map(tiny, ("llama", "bert-masked", "bart")), built(Decoder)]
    asked = {check for model in models for check in softlookup.audit(model).asked}
    assert {check.name for check in all_checks()} - asked == {"compiled paths"}


@pytest.mark.parametrize("name", ["llama", "bert", "nanoGPT", "nn.TransformerEncoder"])
def test_an_audit_leaves_no_trace(name):
    model = tiny(name)
    model.train()
    next(iter(model.children())).eval()
    flags = [module.training for module in model.modules()]
    tensors = {key: (value, value.clone()) for key, value in model.state_dict(keep_vars=True).items()}
    model.requires_grad_(True)
    state, other_state = torch.get_rng_state(), random.getstate()
    softlookup.audit(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == other_state
    assert [module.training for module in model.modules()] == flags
    for key, value in model.state_dict(keep_vars=True).items():
        assert value is tensors[key][0]
        assert torch.equal(value, tensors[key][1])
        assert value.grad is None
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not any("forward" in vars(module) for module in model.modules())


def test_a_model_in_bfloat16_is_asked_in_float32_and_stays_in_bfloat16():
    model = transformers_model("llama").to(torch.bfloat16)
    pointers = [it.data_ptr() for it in model.parameters()]
    assert softlookup.audit(model).clean
    assert {it.dtype for it in model.parameters()} == {torch.bfloat16}
    assert [it.data_ptr() for it in model.parameters()] == pointers


class WithTable(Decoder):
    """Positions out of a table that is a buffer, and a norm that takes one dtype only."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(64, self.embedding.embedding_dim))

    def embedded(self, ids, positions):
        return self.embedding(ids) + self.table[positions]


def test_a_table_that_is_added_to_embeddings_is_rounded_with_them_and_put_back():
    model = built(WithTable)
    table = model.table.clone()
    result = softlookup.audit(model, causal=True)
    assert "half precision" in result.asked
    assert result.clean
    assert model.table.dtype == torch.float32
    assert torch.equal(model.table, table)


def test_the_implementation_of_attention_is_put_back():
    model = transformers_model("llama")
    before = model.config._attn_implementation
    assert "attention paths" in softlookup.audit(model).asked
    assert model.config._attn_implementation == before


def test_a_model_that_raises_in_the_middle_is_left_as_it_was():
    model = nanogpt()
    model.train()

    def fail(*arguments, **named):
        raise ValueError("broken")

    model.h[1].attn.forward = fail
    with pytest.raises(softlookup.SoftlookupError, match=r"NanoGPT could not be called") as problem:
        softlookup.audit(model)
    assert "broken" in str(problem.value)
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_what_is_no_model_is_refused_in_words():
    with pytest.raises(softlookup.SoftlookupError, match="this is no model"):
        softlookup.audit("gpt2")


def test_inputs_that_are_no_tensor_are_refused_in_words():
    with pytest.raises(softlookup.SoftlookupError, match="the inputs could not be read"):
        softlookup.audit(nanogpt(), inputs=[1, 2, 3])


def test_tokens_of_the_user_are_what_the_model_reads():
    model, seen = nanogpt(), []
    right = model.wte.forward
    model.wte.forward = lambda ids: seen.append(ids.clone()) or right(ids)
    tokens = torch.arange(20, 32).repeat(3, 1)
    assert softlookup.audit(model, tokens).clean
    assert any(torch.equal(ids, tokens) for ids in seen)


def test_short_contexts_are_respected():
    assert "causality" in softlookup.audit(nanogpt(block_size=12)).asked


def test_encoders_say_in_a_note_that_positions_count_from_the_first_column():
    notes = [it for it in softlookup.audit(tiny("bart")).notes if it.code == "SL505"]
    assert notes
    assert all("first column" in it.words for it in notes)


def test_each_tiny_model_has_one_name():
    assert not set(TRANSFORMERS) & set(OTHERS)
