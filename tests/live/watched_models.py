"""Tiny random models of many families: how each is built, and what it is given."""

import math

import torch
from torch import nn

T = 9
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}


def tokens(vocabulary=50, batch=2, length=T):
    return torch.randint(3, vocabulary, (batch, length), generator=torch.Generator().manual_seed(1))


def padded(side="right"):
    mask = torch.ones(2, T, dtype=torch.long)
    mask[1, slice(T - 3, None) if side == "right" else slice(0, 3)] = 0
    return mask


def _built(name, config, implementation):
    import transformers

    torch.manual_seed(0)
    kind = getattr(transformers, name)
    model = kind._from_config(config, attn_implementation=implementation)
    for parameter in model.parameters():  # larger scores than a fresh model has, so that weights differ
        if parameter.dim() == 2:
            parameter.data.mul_(4)
    return model.eval()


def _config(name, **more):
    import transformers

    return getattr(transformers, name)(vocab_size=50, pad_token_id=0, bos_token_id=1, eos_token_id=2, **more)


def text(kind, config, **more):
    """A model of token ids, with one sample that is padded."""

    def build(implementation, **changes):
        model = _built(kind, _config(config, **more, **changes), implementation)
        return model, {"input_ids": tokens(), "attention_mask": padded()}

    return build


def _encoder_decoder(kind, config, **more):
    def build(implementation, **changes):
        model = _built(kind, _config(config, decoder_start_token_id=1, **more, **changes), implementation)
        return model, {
            "input_ids": tokens(),
            "attention_mask": padded(),
            "decoder_input_ids": tokens(length=7),
        }

    return build


def _whisper(implementation):
    more = {"num_mel_bins": 8, "max_source_positions": 6, "decoder_start_token_id": 1}
    config = _config("WhisperConfig", **HALVES, **more)
    model = _built("WhisperForConditionalGeneration", config, implementation)
    features = torch.randn(2, 8, 12, generator=torch.Generator().manual_seed(2))
    return model, {"input_features": features, "decoder_input_ids": tokens(length=5)}


def _vit(implementation):
    import transformers

    config = transformers.ViTConfig(**SMALL, image_size=12, patch_size=4, num_channels=1)
    model = _built("ViTModel", config, implementation)
    return model, {"pixel_values": torch.randn(2, 1, 12, 12, generator=torch.Generator().manual_seed(2))}


GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 8}
HALVES = {
    **{
        f"{part}_{what}": n
        for part in ("encoder", "decoder")
        for what, n in (("layers", 2), ("attention_heads", 4))
    },
    **{f"{part}_ffn_dim": 48 for part in ("encoder", "decoder")},
    "d_model": 32,
}
GPT_OSS = {**GROUPED, "sliding_window": 4, "num_local_experts": 2, "num_experts_per_tok": 1}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}

#: By family: build(implementation) -> a model in eval mode, and the arguments of its forward.
FAMILIES = {
    "llama": text("LlamaForCausalLM", "LlamaConfig", **GROUPED),
    "mistral": text("MistralForCausalLM", "MistralConfig", **GROUPED, sliding_window=4),
    "gemma": text("GemmaForCausalLM", "GemmaConfig", **SMALL, num_key_value_heads=1, head_dim=8),
    "gemma2": text("Gemma2ForCausalLM", "Gemma2Config", **GROUPED, sliding_window=4),
    "gpt2": text("GPT2LMHeadModel", "GPT2Config", n_embd=32, n_layer=2, n_head=4, n_positions=32),
    "gpt_oss": text("GptOssForCausalLM", "GptOssConfig", **GPT_OSS),
    "bloom": text("BloomForCausalLM", "BloomConfig", hidden_size=32, n_layer=2, n_head=4),
    "bert": text("BertModel", "BertConfig", **SMALL),
    "t5": _encoder_decoder("T5ForConditionalGeneration", "T5Config", **T5),
    "bart": _encoder_decoder(
        "BartForConditionalGeneration", "BartConfig", **HALVES, max_position_embeddings=32
    ),
    "whisper": _whisper,
    "vit": _vit,
}


#: In transformers itself: the bias of T5 has no axis of samples, and sinks need a log-sum-exp, not on CPUs.
FAILS_IN_FLEX = ("t5", "gpt_oss")


def implementations(family):
    """Return the implementations of attention that transformers has for a family."""
    found = ["eager"]
    for name in ("sdpa", "flex_attention"):
        if name == "flex_attention" and family in FAILS_IN_FLEX:
            continue
        try:
            FAMILIES[family](name)
        except ValueError:  # how transformers refuses one
            continue
        found.append(name)
    return found


class HandWritten(nn.Module):
    """Causal attention as in many small repositories: a masked fill and a softmax method."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.n_head = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.attn_dropout = nn.Dropout(0.0)

    def forward(self, x):
        q, k, v = (
            it.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for it in self.c_attn(x).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        weights = self.attn_dropout(scores.masked_fill(later, float("-inf")).softmax(dim=-1))
        return self.c_proj((weights @ v).transpose(1, 2).flatten(2))


class Fused(HandWritten):
    """The same by the fused function."""

    def forward(self, x):
        q, k, v = (
            it.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for it in self.c_attn(x).chunk(3, dim=-1)
        )
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Small(nn.Module):
    """A small language model around one kind of attention."""

    def __init__(self, attention=HandWritten, layers=2, width=32):
        super().__init__()
        self.wte, self.head = nn.Embedding(50, width), nn.Linear(width, 50)
        self.blocks = nn.ModuleList(attention(width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))

    def forward(self, ids):
        x = self.wte(ids)
        for norm, block in zip(self.norms, self.blocks, strict=True):
            x = x + block(norm(x))
        return self.head(x)
