"""The numbers of the watch are those of the weights that eager attention returns, for every call."""

import pytest
import torch

from softlookup import watch

pytest.importorskip("transformers", reason="transformers is not installed")

from watched_models import FAMILIES, implementations, tokens

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def numbers_of(weights, first_position=0):
    """What weights [B, H, T_q, T_k] say, in float64, by definition; queries without weights do not count."""
    weights = weights.double()
    keys = torch.arange(weights.shape[-1], dtype=torch.float64)
    queries = torch.arange(weights.shape[-2]) + first_position
    real = weights.sum(-1) > 0
    entropy = torch.special.entr(weights).sum(-1)
    distance = queries - weights @ keys
    own = torch.where(queries[:, None] == torch.arange(weights.shape[-1]), weights, 0.0).sum(-1)
    found = {
        "entropy_nats": entropy,
        "distance_tokens": distance,
        "self_mass": own,
        "first_mass": weights[..., 0],
    }
    return {name: torch.stack([_mean(it, real, h) for h in range(it.shape[1])]) for name, it in found.items()}


def _mean(values, real, head):
    return values[:, head][real[:, head]].mean()


def flat(outputs):
    """All attention weights of a transformers output, in the order in which layers are called."""
    found = []
    for name in ("encoder_attentions", "attentions", "decoder_attentions", "cross_attentions"):
        found.append(list(outputs.get(name) or ()))
    encoder, plain, decoder, cross = found
    pairs = [it for pair in zip(decoder, cross, strict=True) for it in pair] if cross else decoder
    return encoder + plain + pairs


@pytest.mark.parametrize("family", FAMILIES)
def test_every_call_has_the_numbers_of_the_eager_weights(family):
    model, inputs = FAMILIES[family]("eager")
    with torch.no_grad():
        wanted = flat(model(**inputs, output_attentions=True))
    for implementation in implementations(family):
        model, inputs = FAMILIES[family](implementation)
        with torch.compiler.set_stance("force_eager"), watch(model, queries=None) as trace, torch.no_grad():
            model(**inputs)
        assert len(trace.records) == len(wanted), (implementation, trace.coverage)
        assert "not observable" not in trace.coverage
        for record, weights in zip(trace.records, wanted, strict=True):
            assert record.finite
            for name, numbers in numbers_of(weights).items():
                found = record.statistics.moments[name].mean[0]
                torch.testing.assert_close(found, numbers, **CLOSE)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("family", ["llama", "mistral", "gpt2", "bloom", "gpt_oss"])
def test_calls_of_cached_decoding_have_the_numbers_of_the_full_pass(family, implementation):
    """Left padding, a prompt, and single tokens after it: the last query of each is that of the whole."""
    if implementation not in implementations(family):
        pytest.skip(f"transformers has no {implementation} for {family}")
    model, _ = FAMILIES[family](implementation)
    ids, mask = tokens(batch=2, length=12), torch.ones(2, 12, dtype=torch.long)
    mask[1, :3] = 0
    eager, _ = FAMILIES[family]("eager")
    with torch.no_grad(), watch(model, queries=None) as trace:
        cache = model(ids[:, :9], attention_mask=mask[:, :9], use_cache=True).past_key_values
        for t in range(9, 12):
            out = model(
                ids[:, t : t + 1], attention_mask=mask[:, : t + 1], past_key_values=cache, use_cache=True
            )
            cache = out.past_key_values
    with torch.no_grad():
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        given = {} if family == "bloom" else {"position_ids": positions}
        wanted = eager(ids, attention_mask=mask, output_attentions=True, use_cache=False, **given).attentions
    last = [it for it in trace.records if it.call.step == 3]
    assert [it.call.kind for it in last] == ["cached"] * len(wanted)
    assert all(it.call.num_heads == 4 and it.call.q_len == 1 for it in last)
    if family in ("llama", "mistral", "gpt_oss"):  # rotary positions: only distances count
        for record, weights in zip(last, wanted, strict=True):
            whole = weights[:, :, -1:]
            if record.call.k_len < 12:  # the cache of a window holds no more
                whole = whole[..., -record.call.k_len :]
            numbers = numbers_of(whole, record.call.k_len - 1)
            for name in ("entropy_nats", "distance_tokens", "self_mass"):
                torch.testing.assert_close(record.statistics.moments[name].mean[0], numbers[name], **CLOSE)
