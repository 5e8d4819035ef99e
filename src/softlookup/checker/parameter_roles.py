"""What a parameter is for, told by its name."""

from __future__ import annotations

import re

from softlookup.checker.calls import Parameter

#: What may follow the name of q, k or v.
_FORM = r"_states?|_layer|_heads?|_proj|_vecs?|s|_in|_h|_tensor|h"

#: role -> what a parameter of that role is called. The first match wins, so the order matters.
_ROLES = {
    "qkv": r"(packed_?)?(qkv|q_k_v)(_packed|_states)?|packed",
    "need_weights": r"(return|need|output|with|get)_(attn_|attention_)?"
    r"(weights?|attn|attentions?|scores|probs|maps?|p)",
    "kv_heads": r"(n|num|nb|number_of)_?(kv|key_value)_?heads?|h_?kv|kv_heads",
    "heads": r"(n|num|nb|number_of)_?(q_)?_?heads?|heads|nhead|h|num_q_heads",
    "training": r"(is_)?train(ing)?|deterministic",
    "dropout": r"(attn_|attention_)?(dropout|drop|p_?drop)(_p|_rate|_prob|_ratio)?|p|drop_prob",
    "gqa": r"enable_gqa|gqa",
    "causal": r"(is_|use_|apply_)?(causal)|(is_|use_|apply_)causal_?(mask|masking)|autoregressive|is_decoder",
    "temperature": r"temperature|temp|tau",
    "scale": r"(softmax_|sm_|attn_|attention_|qk_|score_|logit_)?(scale|scaling)(_factor)?",
    "window": r"(sliding_|local_|attn_|attention_|left_)?(window)(_size|_len|_length|_left)?|w",
    "documents": r"(q_|kv_)?(doc|document|seg|segment|seq|sequence|example|sample|pack)"
    r"_?(ids?|idx|index|indices)|documents|segments",
    "lengths": r"(key_|k_|kv_|seq_|src_|source_|memory_|mem_|valid_|actual_|x_)?_?"
    r"(lens?|lengths?|seq_?lens?)|seqlens?(_k)?",
    "sink": r".*sinks?(_.*)?",
    "unused": r"(attn_|attention_)?drop(out)?_mask|(layer_)?head_mask|rng|generator|seed",
    "target_mask": r"(query|queries|q|tgt|trg|target|dec|decoder)_?(valid_)?(lens?|lengths?|seq_?lens?)",
    "mask": r".*mask.*|keep|visible|allowed|valid|is_pad|is_real|blocked|not_pad|pad",
    "bias": r"(attn_|attention_|position_|pos_|rel_pos_|relative_|rel_|additive_|score_|alibi_)?_?bias|alibi",
    "slopes": r"(alibi_)?slopes?",
    "block": r"(q_|k_|kv_|key_|query_)?(block|chunk|tile)(_size|_len|_q|_k|_m|_n)?|b[rc]",
    "layer": r"module|layer|attn_module|attn_layer|mod",
    "q": rf"(x|h|inputs?)?_?(q|query|queries|qs)({_FORM})?|targets?|tgt|query_input",
    "k": rf"(x|h|inputs?)?_?(k|key|keys|ks)({_FORM}|_cache|t|_t|_transposed)?",
    "v": rf"(x|h|inputs?)?_?(v|value|values|vs)({_FORM}|_cache)?",
    "x": r"x|z|inputs?|hidden(_states?)?|embeddings?|tokens|embeds|input_tensor|(input_)?features|feats?",
    "cos": r"(rope_|rotary_)?(freqs_)?cos(_cached|ine)?",
    "sin": r"(rope_|rotary_)?(freqs_)?sin(_cached|e)?",
    "rotary": r"(pos|position|rotary|rope)_?(pos_?)?(emb|embs|embeddings?|freqs)|rope|freqs(_cis)?",
    "positions": r"((cache|input)_)?pos(ition)?s?(_?(ids?|idx|index|indices))?|start_pos(ition)?|offset",
    "memory": r"(encoder|enc|memory|mem|context|ctx|cross|source|src|cond|image|text|key_value|kv|media)"
    r"(_?(hidden_?states?|states?|outputs?|out|seq|sequence|tokens|embeds?|embeddings?|features?|inputs?"
    r"|x|bank|hidden))?|(x|inputs?)_(kv|context|memory|src|source|enc)|y",
    "cache": r".*(cache|past).*|incremental_state",
    "residual": r"(skip_|x_)?(residual|shortcut)|identity",
}
_ROLE_PATTERNS = {role: re.compile(pattern, re.I) for role, pattern in _ROLES.items()}


def role_of(name: str) -> str | None:
    """Return what a parameter of this name is for, or None."""
    plain = name.strip("_")
    for role, pattern in _ROLE_PATTERNS.items():
        if pattern.fullmatch(plain):
            return role
    return None


def roles_of(parameters: tuple[Parameter, ...], wired: bool) -> dict[str, str]:
    """Return parameter -> role; ``wired`` of a module with projections, which has inputs of its own kinds."""
    roles: dict[str, str] = {}
    for parameter in parameters:
        role = role_of(parameter.name)
        if role == "causal" and parameter.default in {"", "None"} and "mask" in parameter.name:
            role = "mask"  # `causal_mask=None` is a tensor
        if role == "heads" and parameter.name == "h" and parameter.required and wired:
            role = "x"  # hidden states: a module knows the number of its heads
        if role is None or (role == "x" and not wired):
            continue
        if role in {"cos", "sin", "rotary", "positions", "memory", "cache", "residual"} and not wired:
            continue
        if role == "residual" and (
            not parameter.required or parameter is parameters[0]
        ):  # a switch, an input
            continue
        if role == "mask" and parameter.default in {"True", "False"}:
            role = "causal" if "causal" in parameter.name or parameter.name in {"mask", "masked"} else None
        if role and (role not in roles.values() or role in {"mask", "block", "need_weights"}):
            roles[parameter.name] = role
    return roles if wired else _masks_apart(roles)


def _masks_apart(roles: dict[str, str]) -> dict[str, str]:
    """Take the masks of the queries' own tokens for what they are: f(q, k, v, q_mask, kv_mask)."""
    masks = [name for name, role in roles.items() if role == "mask"]
    of_queries = [name for name in masks if re.match(r"(q|query|queries)_", name, re.I)]
    of_keys = [name for name in masks if re.match(r"(k|kv|key|keys)_", name, re.I)]
    return roles | dict.fromkeys(of_queries if of_keys else [], "target_mask")
