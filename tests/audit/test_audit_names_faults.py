"""Faults that are planted in tiny models are named with the first wrong layer; untouched ones are clean."""

import faults
import pytest
from tiny_models import tiny, transformers_model

import softlookup
from softlookup import catalog
from softlookup.auditing.planting import replaced

pytest.importorskip("transformers", reason="the faults are planted in models of transformers")

RULES = [entry for entry in catalog.model_rules() if entry.path.parent.parent.name == "auditing"]

#: fault in a Llama -> its rule, the first wrong layer (None: none can be told), the check that finds it
IN_LLAMA = {
    "mask_dropped": ("SL101", "model.layers.0.self_attn", "causality"),
    "mask_dropped_in_layer_1": ("SL101", "model.layers.1.self_attn", "causality"),
    "mask_inverted": ("SL106", "model.layers.0.self_attn", "causality"),
    "next_token_visible": ("SL102", "model.layers.0.self_attn", "causality"),
    "padding_mask_ignored": ("SL105", "model.layers.0.self_attn", "left padding"),
    "padding_mask_on_queries": ("SL111", "model.layers.0.self_attn", "left padding"),
    "mask_of_the_first_sample": ("SL112", "model.layers.0.self_attn", "mixed lengths"),
    "position_stuck": ("SL503", "model.layers.0.self_attn", "cached decode"),
    "chunks_see_their_future": ("SL602", "model.layers.0.self_attn", "chunked prefill"),
    "packed_leak": ("SL120", "model.layers.0.self_attn", "packed documents"),
    "neighbours_averaged": ("SL905", "model.layers.1.mlp", "batch neighbours"),
    "dropout_in_eval": ("SL801", "model.layers.0.mlp", "eval twice"),
    "dropout_inactive": ("SL802", "model.layers.0.self_attn", "training dropout"),
    "gradient_leaks": ("SL805", None, "gradient causality"),
    "sums_lose_digits": ("SL702", None, "half precision"),
    "eager_forgets_scale": ("SL705", "model.layers.1.self_attn", "attention paths"),
    "nan_in_layer": ("SL000", "model.layers.1.mlp", "finite answers"),
}

#: fault in another family -> the family, its rule, the first wrong layer
ELSEWHERE = {
    "bert_padding_mask_on_queries": ("bert", "SL111", "encoder.layer.0.attention.self"),
    "gpt2_position_stuck": ("gpt2", "SL503", "transformer"),
    "nanogpt_sees_everything": ("nanoGPT", "SL101", "h.1.attn"),
    "encoder_mean_over_tokens": ("nn.TransformerEncoder, batch second", "SL906", "layers.1"),
    "bart_source_padding_seen": ("bart", "SL123", "model.decoder.layers.0.encoder_attn"),
    "bart_cross_attention_causal": ("bart", "SL121", "model.decoder.layers.1.encoder_attn"),
    "t5_cross_attention_causal": ("t5", "SL121", "decoder.block.0.layer.1.EncDecAttention"),
    "whisper_cross_attention_causal": ("whisper", "SL121", "model.decoder.layers.0.encoder_attn"),
    "t5_labels_not_shifted": ("t5", "SL807", ""),
}


@pytest.mark.parametrize("fault", IN_LLAMA)
def test_a_fault_in_a_llama_is_named_with_its_layer_and_nothing_else(fault):
    model = transformers_model("llama", attention_dropout=0.1)
    with getattr(faults, fault)(model):
        findings = softlookup.audit(model).findings
    assert [(it.code, it.layer, it.check) for it in findings] == [IN_LLAMA[fault]]
    assert softlookup.audit(model).clean


@pytest.mark.parametrize("fault", ELSEWHERE)
def test_a_fault_in_another_family_is_named_with_its_layer_and_nothing_else(fault):
    family, code, layer = ELSEWHERE[fault]
    model = tiny(family)
    with getattr(faults, fault)(model):
        findings = softlookup.audit(model).findings
    assert [(it.code, it.layer) for it in findings] == [(code, layer)]
    assert softlookup.audit(model).clean


@pytest.mark.parametrize("entry", RULES, ids=lambda entry: entry.code)
def test_a_fault_of_whole_models_is_named_and_nothing_else(entry):
    model = transformers_model("llama")
    with entry.load().plant(model):
        assert softlookup.audit(model).named() == [entry.name]
    assert softlookup.audit(model).clean


@pytest.mark.parametrize("entry", RULES, ids=lambda entry: entry.code)
def test_a_page_says_why_it_is_missed_and_how_it_is_fixed(entry):
    assert all(entry.part(title) for title in ("Missed because", "Training", "Ask", "Fix", "Seen in"))
    assert entry.part("Ask").endswith("?")
    assert softlookup.explain(entry.code) == f"{entry.code} {entry.name}\n\n{entry.page}"


def test_rules_of_whole_models_are_no_hypotheses_of_the_checker():
    assert not {entry.code for entry in catalog.model_rules()} & {entry.code for entry in catalog.rules()}
    expected = {"SL503", "SL505", "SL601", "SL603", "SL806", "SL807", "SL808", "SL902"}
    assert {entry.code for entry in RULES} == expected


def test_a_finding_shows_the_numbers_and_a_fix():
    model = transformers_model("llama")
    with faults.mask_dropped(model):
        finding = softlookup.audit(model).findings[0]
    assert finding.measured["rows compared"] == 18  # three samples, the six tokens before the replaced ones
    assert finding.measured["moved by"] > 0.01
    assert finding.fix == catalog.find_rule("SL101").part("Fix")


def test_packing_that_the_user_promises_is_held_against_a_model_that_leaks():
    model = transformers_model("gpt-oss")  # it makes its masks without position ids
    assert softlookup.audit(model).clean
    assert softlookup.audit(model, packed=True).named() == ["documents-leak"]


def test_causality_that_the_user_promises_is_held_against_an_encoder():
    assert "future-visible" in softlookup.audit(tiny("bert"), causal=True).named()


def test_nan_of_torch_is_noted_where_a_causal_mask_meets_padding_on_the_left():
    """Its fast path gives NaN for tokens that may look nowhere, and the next layer spreads it."""
    result = softlookup.audit(tiny("nn.TransformerEncoder"), causal=True)
    assert "causality" in result.asked  # it is handed the mask
    assert result.clean
    assert ("SL401", "left padding") in [(it.code, it.check) for it in result.notes]


def test_nan_is_a_fault_of_a_model_that_generates():
    model = transformers_model("llama")
    with faults.empty_rows_are_nan(model):
        findings = softlookup.audit(model).findings
    assert [(it.code, it.layer, it.check) for it in findings] == [
        ("SL401", "model.layers.1.self_attn", "left padding")
    ]


def test_a_check_in_which_the_model_raises_is_said_to_have_failed():
    model = tiny("nn.TransformerEncoder")

    def no_padding(right, src, *more, src_key_padding_mask=None, **named):
        if src_key_padding_mask is not None:
            raise RuntimeError("no padding here")
        return right(src, *more, **named)

    with replaced(model, no_padding):
        failed = softlookup.audit(model).failed
    assert failed["right padding"] == "RuntimeError: no padding here"
