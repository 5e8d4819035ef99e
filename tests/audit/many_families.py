"""Every text model of transformers that a handful of sizes makes tiny, by the name of its family."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

#: Sizes under all the names that families have for them; a config takes those that it knows.
SIZES: dict[str, Any] = {
    **dict.fromkeys(("vocab_size",), 99),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size"), 32),
    **dict.fromkeys(("encoder_hidden_size", "word_embed_proj_dim", "moe_intermediate_size"), 32),
    **dict.fromkeys(("intermediate_size", "d_ff", "n_inner", "hidden_dim", "ffn_dim"), 64),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_encoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("encoder_num_hidden_layers", "decoder_num_hidden_layers", "num_experts_per_tok"), 2),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_head", "n_heads", "num_key_value_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_encoder_attention_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_num_attention_heads", "decoder_num_attention_heads"), 4),
    **dict.fromkeys(("encoder_num_key_value_heads", "decoder_num_key_value_heads"), 4),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "rotary_dim"), 4),
    **dict.fromkeys(("head_dim", "d_kv", "num_mel_bins", "qk_rope_head_dim", "qk_nope_head_dim"), 8),
    **dict.fromkeys(("v_head_dim",), 8),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len"), 64),
    **dict.fromkeys(("max_source_positions", "max_target_positions"), 60),
    "first_k_dense_replace": 1,
    "layer_types": None,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
_MOST_PARAMETERS = 20_000_000


def families() -> dict[str, str]:
    """Return the class of each family: of its encoder-decoder, else its decoder, else its masked model."""
    from transformers.models.auto import modeling_auto as kinds

    found = {
        **kinds.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        **kinds.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        **kinds.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
        **kinds.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    }
    return {name: it if isinstance(it, str) else it[0] for name, it in found.items()}


def built_tiny(family: str) -> nn.Module | str:
    """Return a tiny random model, or why these sizes do not make one."""
    import transformers

    try:
        known = transformers.AutoConfig.for_model(family)
        config = type(known)(**{name: value for name, value in SIZES.items() if hasattr(known, name)})
        model_class = getattr(transformers, families()[family])
        with torch.device("meta"):
            parameters = sum(it.numel() for it in model_class(config).parameters())
        if parameters > _MOST_PARAMETERS:
            return f"{parameters / 1e6:.0f} M parameters with these sizes"
        torch.manual_seed(0)
        return model_class(config).eval()
    except Exception as problem:  # sizes that a family does not take in this combination
        return f"{type(problem).__name__}: {problem}".splitlines()[0]
