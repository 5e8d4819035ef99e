"""attn_implementation="softlookup": models of transformers give what "eager" gives, by ``attend``."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import softlookup
from softlookup import SoftlookupError
from softlookup.conventions.tensors import shows_all
from softlookup.fused import attending
from softlookup.live import transformers_attention
from softlookup.live.transformers_attention import register_attention, unregister_attention
from softlookup.live.transformers_masks import RuleMask, mask_for_layers
from softlookup.masks import causal

transformers = pytest.importorskip("transformers", reason="the models are those of transformers")
from transformers import masking_utils  # noqa: E402

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
BART = {
    "vocab_size": 50,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
TWO_KINDS = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"], "head_dim": 8}

DECODERS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "mistral, window 4": lambda: transformers.MistralConfig(**SIZES, sliding_window=4),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=50, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, pad_token_id=0
    ),
    "gemma2 without softcap": lambda: transformers.Gemma2Config(
        **SIZES, **TWO_KINDS, attn_logit_softcapping=None, query_pre_attn_scalar=8
    ),
    "gemma3": lambda: transformers.Gemma3TextConfig(**SIZES, **TWO_KINDS),
    "gpt-oss": lambda: transformers.GptOssConfig(
        **SIZES, **TWO_KINDS, num_local_experts=2, num_experts_per_tok=1
    ),
}
BOTH_SIDES = {
    "t5": lambda: transformers.T5Config(
        vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
    ),
    "bart": lambda: transformers.BartConfig(**BART, max_position_embeddings=64),
}


@pytest.fixture(autouse=True)
def registered():
    register_attention()
    yield
    unregister_attention()


@pytest.fixture
def calls(monkeypatch):
    """Every call of attend: (mask, T_q, T_k)."""
    seen = []
    original = attending.attend

    def noting(q, k, v, mask=None, **options):
        seen.append((mask, q.shape[-2], k.shape[-2]))
        return original(q, k, v, mask, **options)

    monkeypatch.setattr(attending, "attend", noting)
    return seen


def made(build, auto="AutoModelForCausalLM"):
    """A tiny random model that attends eagerly, its sinks and biases away from 0."""
    torch.manual_seed(0)
    model = getattr(transformers, auto).from_config(build(), attn_implementation="eager").eval()
    for name, parameter in model.named_parameters():
        if "sinks" in name or "relative_attention_bias" in name:
            torch.nn.init.normal_(parameter)
    return model


def tokens(side, batch=3, length=9):
    """input_ids, attention_mask and position_ids; padding of 0, 2 and 5 tokens on one side."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 50, (batch, length), generator=generator)
    keep = torch.ones(batch, length, dtype=torch.long)
    for sample, padded in enumerate((0, 2, 5)):
        if side and padded:
            keep[sample, slice(length - padded, None) if side == "right" else slice(padded)] = 0
    return {"input_ids": ids * keep, "attention_mask": keep}


def with_gradients(model, implementation, inputs, real):
    """Logits of the real tokens, and the gradients of every parameter."""
    model.set_attn_implementation(implementation)
    model.zero_grad()
    logits = model(**inputs).logits[real]
    weights = torch.linspace(-1, 1, logits.numel()).reshape(logits.shape)
    (logits * weights).sum().backward()
    return logits.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def assert_same(model, inputs, real):
    logits, gradients = with_gradients(model, "eager", inputs, real)
    ours, our_gradients = with_gradients(model, "softlookup", inputs, real)
    torch.testing.assert_close(ours, logits, atol=1e-5, rtol=0)
    assert our_gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        largest = max(1.0, float(gradient.abs().max()))
        torch.testing.assert_close(our_gradients[name], gradient, atol=1e-5 * largest, rtol=0, msg=name)


@pytest.mark.parametrize("side", [None, "right", "left"])
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_gives_the_logits_and_gradients_of_eager(name, side, calls):
    inputs = tokens(side)
    positions = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    assert_same(made(DECODERS[name]), {**inputs, "position_ids": positions}, inputs["attention_mask"].bool())
    assert len(calls) == 2, "one call a layer"


@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("name", DECODERS)
def test_greedy_generation_is_that_of_eager(name, cache, side, calls):
    model = made(DECODERS[name])
    how = {**tokens(side), "max_new_tokens": 7, "min_new_tokens": 7, "do_sample": False, "pad_token_id": 0}
    if cache:
        how |= {"cache_implementation": cache, "disable_compile": True}
    expected = model.generate(**how)
    model.set_attn_implementation("softlookup")
    assert torch.equal(model.generate(**how), expected)
    assert any(q_len == 1 for _, q_len, _ in calls), "decoding goes one token a step"


@pytest.mark.parametrize("side", [None, "right", "left"])
@pytest.mark.parametrize("name", BOTH_SIDES)
def test_an_encoder_and_decoder_give_the_logits_gradients_and_tokens_of_eager(name, side, calls):
    model = made(BOTH_SIDES[name], "AutoModelForSeq2SeqLM")
    inputs = tokens(side)
    target = tokens(None, length=6)["input_ids"]
    real = torch.ones_like(target).bool()
    assert_same(model, {**inputs, "decoder_input_ids": target}, real)
    assert {(q_len, k_len) for _, q_len, k_len in calls} == {(9, 9), (6, 6), (6, 9)}
    how = {**inputs, "max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    model.set_attn_implementation("eager")
    expected = model.generate(**how)
    model.set_attn_implementation("softlookup")
    assert torch.equal(model.generate(**how), expected)


@pytest.mark.parametrize("side", [None, "right", "left"])
def test_bert_gives_the_logits_and_gradients_of_eager(side, calls):
    config = {name: size for name, size in SIZES.items() if name != "num_key_value_heads"}
    model = made(lambda: transformers.BertConfig(**config), "AutoModelForMaskedLM")
    inputs = tokens(side)
    assert_same(model, inputs, inputs["attention_mask"].bool())
    assert len(calls) == 2
    assert all(mask is None or mask.axes <= {"B", "T_k"} for mask, _, _ in calls), "padding, never causal"


def test_vit_gives_the_logits_and_gradients_of_eager(calls):
    config = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = made(
        lambda: transformers.ViTConfig(**config, image_size=16, patch_size=8),
        "AutoModelForImageClassification",
    )
    image = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    assert_same(model, {"pixel_values": image}, torch.ones(2, dtype=torch.bool))
    assert [mask for mask, _, _ in calls] == [None, None]


def test_whisper_gives_the_logits_and_gradients_of_eager(calls):
    config = {**BART, "max_target_positions": 32, "max_source_positions": 10, "num_mel_bins": 8}
    model = made(lambda: transformers.WhisperConfig(**config), "AutoModelForSpeechSeq2Seq")
    sound = torch.randn(2, 8, 20, generator=torch.Generator().manual_seed(0))
    target = tokens(None, batch=2, length=6)["input_ids"]
    real = torch.ones_like(target).bool()
    assert_same(model, {"input_features": sound, "decoder_input_ids": target}, real)
    assert {(q_len, k_len) for _, q_len, k_len in calls} == {(10, 10), (6, 6), (6, 10)}


def test_a_watch_hears_every_layer_once():
    model = made(DECODERS["gpt-oss"])
    model.set_attn_implementation("softlookup")
    with softlookup.watch(model) as trace:
        model(**tokens("left"))
    assert "2 of 2 attention layers seen, 2 calls measured" in str(trace)


def test_packed_documents_stay_apart_and_reach_attend_as_rules(calls):
    model = made(DECODERS["llama"])
    ids = tokens(None)["input_ids"]
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 0, 1, 2]]).expand(3, -1)
    packed = {"input_ids": ids, "position_ids": positions, "use_cache": False}
    assert_same(model, packed, torch.ones_like(ids).bool())
    names = {leaf.name for leaf in calls[0][0].leaves()}
    assert names == {"causal_top_left", "same_document"}


def test_cu_seq_lens_that_no_mask_follows_are_refused():
    model = made(DECODERS["llama"])
    model.set_attn_implementation("softlookup")
    starts = torch.tensor([0, 4, 9], dtype=torch.int32)
    ids = tokens(None, batch=1)["input_ids"]
    with pytest.raises(SoftlookupError, match="packed documents would see each other"):
        model(ids, cu_seq_lens_q=starts, cu_seq_lens_k=starts)
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])
    model(ids, cu_seq_lens_q=starts, cu_seq_lens_k=starts, position_ids=positions, use_cache=False)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_a_mask_of_four_axes_goes_to_attend_as_it_is(dtype, calls):
    model = made(DECODERS["llama"])
    allowed = torch.ones(9, 9, dtype=torch.bool).tril()
    allowed[5, 2] = False
    numbers = torch.zeros(9, 9).masked_fill(~allowed, torch.finfo(torch.float32).min)
    ids = tokens(None, batch=1)["input_ids"]
    expected = model(ids, attention_mask=numbers[None, None]).logits
    model.set_attn_implementation("softlookup")
    given_mask = (allowed if dtype == torch.bool else numbers)[None, None]
    torch.testing.assert_close(model(ids, attention_mask=given_mask).logits, expected, atol=1e-5, rtol=0)


def test_is_causal_false_lets_all_tokens_see_each_other(calls):
    model = made(DECODERS["llama"])
    ids = tokens(None)["input_ids"]
    expected = model(ids, is_causal=False).logits
    model.set_attn_implementation("softlookup")
    torch.testing.assert_close(model(ids, is_causal=False).logits, expected, atol=1e-5, rtol=0)
    assert [mask for mask, _, _ in calls] == [None, None]


def test_a_sample_of_nothing_but_padding_gives_no_nan():
    model = made(DECODERS["llama"])
    model.set_attn_implementation("softlookup")
    inputs = tokens("left")
    inputs["attention_mask"][1] = 0
    model(**inputs).logits.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    found = model.model.layers[0].self_attn(
        torch.randn(3, 9, 32),
        position_embeddings=(torch.ones(1, 9, 8), torch.zeros(1, 9, 8)),
        attention_mask=mask_for_layers(3, 9, 9, attention_mask=inputs["attention_mask"].bool()),
    )[0]
    assert (found[1] == 0).all()


def test_dropout_acts_in_training_and_not_in_evaluation():
    model = made(lambda: transformers.LlamaConfig(**SIZES, attention_dropout=0.5))
    model.set_attn_implementation("softlookup")
    ids = tokens("left")
    assert torch.equal(model(**ids).logits, model(**ids).logits)
    model.train()
    assert not torch.equal(model(**ids).logits, model(**ids).logits)


def test_chunked_prefill_is_that_of_eager(calls):
    model = made(DECODERS["mistral, window 4"])
    ids = tokens(None)["input_ids"]

    def in_chunks(implementation):
        model.set_attn_implementation(implementation)
        cache = transformers.DynamicCache(config=model.config)
        return torch.cat(
            [model(part, cache=cache, use_cache=True).logits for part in ids.split(4, dim=1)], dim=1
        )

    torch.testing.assert_close(in_chunks("softlookup"), in_chunks("eager"), atol=1e-5, rtol=0)
    assert all(mask is None or not isinstance(mask, torch.Tensor) for mask, _, _ in calls), (
        "rules, all of them"
    )


def test_it_works_under_autocast_checkpointing_and_compile():
    model = made(DECODERS["mistral, window 4"])
    inputs = tokens("right")
    real = inputs["attention_mask"].bool()
    plain, gradients = with_gradients(model, "softlookup", inputs, real)
    compiled = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(compiled(**inputs).logits[real], plain, atol=1e-5, rtol=0)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(model(**inputs).logits[real].float(), plain, atol=0.05, rtol=0)
    model.train()
    model.gradient_checkpointing_enable()
    _, again = with_gradients(model, "softlookup", inputs, real)
    for name, gradient in gradients.items():
        torch.testing.assert_close(again[name], gradient, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "option", ["softcap", "sinks", "indices", "block_indices", "cache", "output_attentions"]
)
def test_what_attend_cannot_say_is_refused(option):
    q = torch.randn(1, 2, 3, 4)
    with pytest.raises(SoftlookupError, match=f"(?s)asks for what attend cannot say.*{option}"):
        transformers_attention.attention_of_layer(torch.nn.Module(), q, q, q, None, **{option: 1})


def test_gemma2_with_its_softcap_is_refused_at_its_first_layer():
    model = made(lambda: transformers.Gemma2Config(**SIZES, **TWO_KINDS))
    model.set_attn_implementation("softlookup")
    with pytest.raises(SoftlookupError, match="softcap"):
        model(**tokens(None))


def test_asking_for_weights_is_refused():
    model = made(DECODERS["llama"])
    model.set_attn_implementation("softlookup")
    with pytest.raises(SoftlookupError, match=r"(?s)output_attentions.*weights_of"):
        model(**tokens(None), output_attentions=True)
    with pytest.raises(ValueError, match="Please set it to 'eager' instead"):  # transformers itself
        model.config.output_attentions = True


def test_bloom_keeps_its_own_attention_and_transformers_says_so(caplog):
    config = {"vocab_size": 50, "hidden_size": 32, "n_layer": 2, "n_head": 4}
    model = made(lambda: transformers.BloomConfig(**config))
    transformers.logging.enable_propagation()
    model.set_attn_implementation("softlookup")
    assert "does not support setting its attention implementation" in caplog.text
    assert model.config._attn_implementation == "eager"


def test_bloom_is_refused_where_transformers_would_let_it_add_a_bool_mask():
    config = transformers.BloomConfig(vocab_size=50, hidden_size=32, n_layer=2, n_head=4)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="softlookup")
    with pytest.raises(SoftlookupError, match=r"(?s)does not ask for it.*BloomConfig"):
        model(**tokens(None))


def test_a_layer_that_adds_the_mask_to_its_scores_is_refused():
    mask = mask_for_layers(1, 4, 4)
    for add in (lambda: torch.randn(1, 2, 4, 4) + mask, lambda: mask + torch.randn(1, 2, 4, 4)):
        with pytest.raises(SoftlookupError, match="adds its mask to scores"):
            add()


def test_falcon_is_refused_by_transformers():
    config = transformers.FalconConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        bos_token_id=1,
        eos_token_id=2,
    )
    with pytest.raises(KeyError, match="softlookup"):
        transformers.AutoModelForCausalLM.from_config(config, attn_implementation="softlookup")


def test_a_flag_without_a_mask_is_taken_only_where_it_is_clear():
    layer = torch.nn.Module()
    layer.is_causal = True
    q, k = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4)
    attend = transformers_attention.attention_of_layer
    expected = attending.attend(q, q, q, causal()).transpose(1, 2)
    assert torch.equal(attend(layer, q, q, q, None)[0], expected)
    with pytest.raises(SoftlookupError, match="where the queries stand"):
        attend(layer, q, k, k, None)
    with pytest.raises(SoftlookupError, match="where the queries stand"):
        attend(torch.nn.Module(), q, k, k, None, sliding_window=4)
    whole = attending.attend(q, k, k).transpose(1, 2)
    assert torch.equal(attend(torch.nn.Module(), q, k, k, None)[0], whole), (
        "a layer that does not say is not causal"
    )


def test_registering_twice_is_registering_once_and_both_registries_are_restored():
    from transformers import AttentionInterface, AttentionMaskInterface

    mappings = [AttentionInterface._global_mapping, AttentionMaskInterface._global_mapping]
    unregister_attention()
    before = [dict(mapping) for mapping in mappings]
    assert register_attention() == register_attention() == "softlookup"
    assert all("softlookup" in mapping for mapping in mappings)
    unregister_attention()
    assert [dict(mapping) for mapping in mappings] == before
    unregister_attention()
    theirs = lambda *a, **k: None  # noqa: E731
    AttentionInterface.register("softlookup", theirs)
    register_attention()
    unregister_attention()
    assert mappings[0].pop("softlookup") is theirs


def test_a_function_in_the_attention_registry_alone_is_given_no_mask():
    """Why both registries are needed."""
    from transformers import AttentionInterface

    seen = []

    def noting(module, query, key, value, attention_mask, **options):
        seen.append(attention_mask)
        return query.transpose(1, 2), None

    AttentionInterface.register("only half", noting)
    try:
        model = made(DECODERS["llama"])
        model.set_attn_implementation("only half")
        model(**tokens("left"))
    finally:
        del AttentionInterface._global_mapping["only half"]
    assert seen == [None, None]


FUNCTIONS = {
    "causal": lambda: masking_utils.causal_mask_function,
    "window": lambda: masking_utils.sliding_window_causal_mask_function(3),
    "both ways": lambda: masking_utils.bidirectional_mask_function,
    "window both ways": lambda: masking_utils.sliding_window_bidirectional_mask_function(2),
    "chunks": lambda: masking_utils.chunked_causal_mask_function(3, torch.zeros(2, dtype=torch.int)),
    "two windows": lambda: masking_utils.and_masks(
        masking_utils.sliding_window_causal_mask_function(3),
        masking_utils.sliding_window_causal_mask_function(2),
    ),
    "window without causal": lambda: masking_utils.sliding_window_overlay(2),
    "chunks that start later": lambda: masking_utils.chunked_causal_mask_function(3, torch.tensor([0, 1])),
    "causal or first keys": lambda: masking_utils.or_masks(
        masking_utils.causal_mask_function, lambda b, h, q, k: k < 2
    ),
}
NO_RULES = {"two windows", "window without causal", "chunks that start later", "causal or first keys"}


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.integers(1, 6),
    st.integers(0, 5),
    st.integers(0, 4),
    st.sampled_from(["none", "right", "left", "holes"]),
    st.data(),
)
def test_a_rule_shows_what_the_function_shows(name, q_len, q_offset, kv_offset, padded, data):
    k_len = data.draw(st.integers(max(1, q_offset - kv_offset), q_offset + q_len + 2))
    options = {"mask_function": FUNCTIONS[name]()}
    total = kv_offset + k_len
    if padded != "none":
        real = data.draw(st.lists(st.integers(0, total), min_size=2, max_size=2))
        places = torch.arange(total)
        keep = torch.stack([places < n if padded == "right" else places >= total - n for n in real])
        options["attention_mask"] = keep ^ (places % 3 == 1) if padded == "holes" else keep
    ours = mask_for_layers(2, q_len, k_len, q_offset, kv_offset, **options)
    theirs = masking_utils.sdpa_mask(
        2, q_len, k_len, q_offset, kv_offset, allow_is_causal_skip=False, **options
    )
    assert torch.equal(ours.dense() if isinstance(ours, RuleMask) else ours, theirs)
    if name in NO_RULES or q_offset - kv_offset not in (0, k_len - q_len):
        assert not isinstance(ours, RuleMask)
    elif name != "chunks" or kv_offset == 0:
        assert isinstance(ours, RuleMask)


def test_a_rule_mask_is_a_tensor_to_everybody_else():
    rule_mask = mask_for_layers(2, 4, 6, 2, mask_function=masking_utils.causal_mask_function)
    dense = rule_mask.dense()
    assert isinstance(rule_mask, torch.Tensor)
    assert (rule_mask.shape, rule_mask.dtype) == ((2, 1, 4, 6), torch.bool)
    for of in (
        lambda x: x[..., :3],
        lambda x: ~x,
        lambda x: x.to(torch.float32),
        lambda x: x.expand(2, 3, 4, 6),
    ):
        assert torch.equal(of(rule_mask), of(dense))
        assert type(of(rule_mask)) is torch.Tensor


def test_the_last_token_alone_sees_all_without_a_mask():
    assert shows_all(mask_for_layers(1, 1, 7, 6).rule)
    assert not isinstance(mask_for_layers(1, 1, 7, 5), RuleMask), "one key is later than the query"


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_sinks_count_in_the_softmax_and_take_nothing_along(kv_heads):
    q_heads = 4
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, 5, 8, dtype=torch.float64) for heads in (q_heads, kv_heads, kv_heads))
    sinks = torch.randn(q_heads, dtype=torch.float64, requires_grad=True)
    allowed = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril()
    full_k, full_v = (x.repeat_interleave(q_heads // kv_heads, dim=1) for x in (k, v))
    scores = (q @ full_k.transpose(-2, -1) * 0.3).masked_fill(~allowed, -torch.inf)
    with_sink = torch.cat([scores, sinks.reshape(1, -1, 1, 1).expand(2, -1, 5, 1)], dim=-1)
    expected = (with_sink.softmax(dim=-1)[..., :-1] @ full_v).transpose(1, 2)
    attend = transformers_attention.attention_of_layer
    output, _ = attend(torch.nn.Module(), q, k, v, allowed, scaling=0.3, s_aux=sinks)
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)
    (ours,) = torch.autograd.grad(output.square().sum(), sinks)
    (theirs,) = torch.autograd.grad(expected.square().sum(), sinks)
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
