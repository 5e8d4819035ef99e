"""Tiny random models of the families that an audit has to understand, by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
BART: dict[str, Any] = {
    "vocab_size": 64,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}
DECODER: dict[str, Any] = {
    **SIZES,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
BERT: dict[str, Any] = {**SIZES, "max_position_embeddings": 64}
WHISPER: dict[str, Any] = {
    **BART,
    "max_source_positions": 30,
    "max_target_positions": 64,
    "num_mel_bins": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
}

#: name -> (model class, config class, arguments of the config)
TRANSFORMERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**DECODER, "attention_dropout": 0.1}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**DECODER, "sliding_window": 5}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", {**DECODER, "num_key_value_heads": 1, "head_dim": 8}),
    "gpt-oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        {**DECODER, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5},
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": 64, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
        | {"bos_token_id": 1, "eos_token_id": 2},
    ),
    "bloom": (
        "BloomForCausalLM",
        "BloomConfig",
        {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4, "attention_dropout": 0.1},
    ),
    "bert": ("BertModel", "BertConfig", BERT),
    "bert-masked": ("BertForMaskedLM", "BertConfig", BERT),
    "bert-classifier": ("BertForSequenceClassification", "BertConfig", BERT),
    "roberta": ("RobertaModel", "RobertaConfig", BERT),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
        | {"decoder_start_token_id": 0},
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", {**BART, "max_position_embeddings": 64}),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", WHISPER),
    "vit": ("ViTModel", "ViTConfig", {**SIZES, "image_size": 16, "patch_size": 4}),
}


def transformers_model(name: str, **changes: Any) -> nn.Module:
    """Return a tiny random model of transformers. The last family has no vocabulary."""
    import transformers

    model_class, config_class, arguments = TRANSFORMERS[name]
    if name == "vit":
        arguments = {key: value for key, value in arguments.items() if key != "vocab_size"}
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(**{**arguments, **changes})
    return getattr(transformers, model_class)(config)


def torch_encoder(batch_first: bool = True) -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=batch_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=batch_first)


def torch_decoder() -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 48), 2)


def torch_both() -> nn.Module:
    torch.manual_seed(0)
    return nn.Transformer(32, 4, 2, 2, 48, batch_first=True)


class CausalSelfAttention(nn.Module):
    """As in nanoGPT."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.heads, self.dropout = heads, dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q, k, v = (it.view(B, T, self.heads, -1).transpose(1, 2) for it in self.c_attn(x).split(C, 2))
        dropped = self.dropout if self.training else 0.0
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropped, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, dropout)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    """A language model written as nanoGPT is: ``forward(idx, targets=None)`` returns logits and loss."""

    def __init__(self, block_size: int = 32, dropout: float = 0.1) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(64, 32), nn.Embedding(block_size, 32)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList([Block(32, 4, dropout) for _ in range(2)])
        self.lm_head = nn.Linear(32, 64, bias=False)

    def forward(self, idx: torch.Tensor, targets: torch.Tensor | None = None) -> Any:
        x = self.drop(self.wte(idx) + self.wpe(torch.arange(idx.shape[1])))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(x)
        if targets is None:
            return logits, None
        loss = functional.cross_entropy(logits.view(-1, 64), targets.reshape(-1), ignore_index=-1)
        return logits, loss

    def generate(self, idx: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            idx = torch.cat([idx, self(idx)[0][:, -1:].argmax(-1)], 1)
        return idx


def nanogpt(**changes: Any) -> nn.Module:
    torch.manual_seed(0)
    return NanoGPT(**changes)


OTHERS = {
    "nn.TransformerEncoder": torch_encoder,
    "nn.TransformerEncoder, batch second": lambda: torch_encoder(batch_first=False),
    "nn.TransformerDecoder": torch_decoder,
    "nn.Transformer": torch_both,
    "nanoGPT": nanogpt,
}


def tiny(name: str) -> nn.Module:
    """Return one of all tiny models."""
    return OTHERS[name]() if name in OTHERS else transformers_model(name)


NAMES = [*TRANSFORMERS, *OTHERS]
