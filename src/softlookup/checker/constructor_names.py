"""What the arguments of a constructor are called: from a name to its meaning.

To teach a new name, add it to ``_MEANINGS``; ``constructor_values.py`` says what a meaning is built with.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_SHORT = {
    "NUM": r"(?:(?:n|num|nb|no|number|number_of|no_of|total)_?)",
    "SIZE": r"_?(?:size|len|length)",
    "WIDTH": r"_?(?:d|dims?|size|width|channels?|features?|feats?|units|embd|embeds?|emb|embed_dims?|planes)",
    "SIDE": r"(?:q|query|attn|attention|self_attn|self_attention|cross_attn|cross_attention|encoder|decoder)",
    "MEMORY": r"(?:memory|mem|context|ctx|cond|condition|conditioning|source|src|text|image|img|vision|visual"
    r"|media|audio|cross|cross_attention|enc|encoder|kv|kv_in|kv_input|key_value)",
    "HIDDEN": r"(?:feature|hidden|embed|emb|attention|input|in)",
}

#: meaning -> patterns of what an argument of that meaning is called, one a word. The first meaning wins.
_MEANINGS = {
    # switches; those without an own meaning are off
    "bias": "(?:use_|add_)?(?:qkv|qk|q|k|v|kv|attn|attention|proj|out|o|linear)?_?(?:proj_)?bias(?:es)?",
    "batch_first": "batch_first",
    "mask": "masks? attn_mask attention_mask causal_mask",
    "flag": """
        (?:use|is|has|with|return|need|enable|add|apply|do|allow|share|skip|force|compute|store)_.*
        output_(?:attentions?|weights|scores|hidden_states) .*_flag flash.* (?:.*_)?causal masked
        autoregressive training verbose debug inplace (?:gradient_)?checkpointing cross_attention residual""",
    "nothing": """
        device rope_scaling clip_qkv quant(?:ization)?_config cache_config process_group .*_?softcap(?:ping)?
        logit_cap generator rng logger pad_token_id padding_idx layer_types""",
    "dtype": "(?:torch_|params?_)?dtype",
    # rates
    "skipped_layers": ".*(?:drop_?path|path_drop|stochastic_depth|layer_?drop).*",
    "kept": "keep_(?:prob|rate|p) retain_prob",
    "dropout": ".*drop.* p attn_p p_attn",
    # sizes
    "kv_heads": """
        NUM?(?:local_)?(?:kv|key_value|k_v)_?(?:heads?|groups?) NUM?heads?_?(?:kv|k) n_?kv num_kv kv_h h_kv
        (?:n|num)_query_groups multi_query_group_num""",
    "d_head": """
        d_?head dim_?heads? heads?_?(?:dim|size|width|channels|features|hidden_dim) d_h dh
        (?:dim|size|channels|features|width)_per_head hidden_size_per_(?:attention_)?head num_head_channels
        (?:v|value|kv|qk|q|k|query|attn|attention)_?head_(?:dim|size) qk_nope_head_dim kv_channels
        d_kv d_qk qk_dim dim_qk query_pre_attn_scalar""",
    "half_head": "(?:qk_)?rope_head_dim d_rope",
    "rotary": "(?:rotary|rope|rot)_?(?:dims?|n_?dims|size) n_rot",
    "heads": """
        NUM?(?:SIDE_?)*heads? heads?_?(?:num|number|count|cnt) h n_h multi_heads?""",
    "memory": """
        MEMORY_?(?:(?:output|out|HIDDEN)_)?(?:dims?|width|channels|features|embed_dim|hidden_size|hidden_dim)
        (?:d|dim)_MEMORY memory_size (?:encoder|enc|cross_attention)_(?:hidden_)?size enc_hid_dim
        kdim vdim""",
    "head_or_width": """
        (?:key|value|k|v|qkv)_?(?:dim|size|depth|channels|features|width)
        d_?(?:k|v|key|value|q|qkv) dim_?(?:k|v|key|value|q|qkv)""",
    "rank": """
        r (?:(?:.*_)?lora_|low_?)?rank(?:_dim)? proj_k linformer_k num_landmarks nb_features
        num_random_features""",
    "intermediate": """
        intermediate_(?:size|dim) d_?ff (?:ff|ffn|mlp|feed_?forward)_(?:hidden_)?(?:dim|size) ffn_embed_dim
        dim_(?:feedforward|ff) d_mlp d_inner n_inner mlp_hidden""",
    "length": """
        (?:max|maximum|n|num)?_?(?:ctx|context|seq|sequence|text|position|pos|token|source|target|src|tgt)s?SIZE
        (?:max|maximum|n|num)_?(?:source_|target_)?(?:positions?|tokens?|patches|position_embeddings|pos|context|seq)
        block_size context_window context ctx n_?ctx max_?len(?:gth)? max_?t tmax seq_?len
        (?:original_)?max_position_embeddings""",
    "window": """
        (?:(?:sliding|local|attn|attention|left|lookback)_?)*window(?:_size|_len|_length|_left|s)?
        (?:local_|attn_|attention_)?span look_?back local_size kernel_size neighborhood_size""",
    "chunk": "(?:q_|k_|kv_|query_|key_|attn_)?(?:chunk|tile|bucket)SIZE? nb_?block b[rc]",
    "layer_index": "(?:layer|block|attn|attention)_?(?:idx|index|id|number|no|i) layer layer_num",
    "layers": "NUM(?:hidden_|attn_|encoder_|decoder_|transformer_)?(?:layers?|blocks?) depth layers",
    "groups": "NUM?(?:norm_)?groups? norm_num_groups",
    "buckets": "(?:(?:relative_attention|rel_pos|relative|rel|position)_)?NUM?(?:rel_|relative_)?buckets",
    "distance": """
        (?:relative_attention_|rel_|rel_pos_)?max_?(?:distance|dist) clip(?:ping)?_distance
        max_(?:rel|relative)_?(?:positions?|pos|distance|dist)?""",
    "vocab": "(?:n|num|src|tgt|trg|source|target)?_?vocab(?:ulary)?(?:_size)? num_embeddings ntokens?",
    "slots": "(?:n|num)_?(?:slots|latents|inducing_points|inducing|inds|seeds|registers)",
    "rounds": "iters (?:n|num)_?(?:iters?|iterations) n_hashes num_hashes",
    "square": "(?:fmap|feature_map|feat|img|image|spatial)_size (?:input_)?resolution fmap",
    "one": """
        stride dilation sr_ratio expansion dim_mult reduction ratio (?:attn|downsample)_(?:ratio|rate)
        partial_rotary_factor rotary_pct world_size (?:tensor_)?(?:model_)?parallel_size tp_size
        pretraining_tp""",
    "d_model": """
        (?:NUM|in_|out_|input_|output_)WIDTH (?:in|out|input|output|inp)WIDTH? dims? d e c ch width size
        channels? features? feats? units hidden num_hiddens? embd embed emb embedding emsize ninp nhid nx
        [hex]_?dim in_?planes planes
        (?:d|dim|n)_?(?:model|embed|embedding|embd|emb|hidden|hid|state|dim|in|out|input|output|inner)
        (?:d|dim|n)_?(?:attn|attention|query|latent)
        (?:model|embd|embeds?|embedding|emb|hidden|hid|inner|proj|qkv|latent|feature|feat|token|state)WIDTH
        (?:attn|attention|att|query|q|key_query|all_head|slot|base|transformer)WIDTH attn_hidden_dim
        (?:decoder|dec|target|tgt|x|encoder_embed|decoder_embed)WIDTH""",
    # numbers that are no size
    "scale": "(?:(?:softmax|sm|attn|attention|qk|score)_)?(?:scale|scaling)(?:_factor)? attention_multiplier",
    "temperature": "temperature temp tau softmax_temp(?:erature)?",
    "epsilon": "(?:.*_)?eps(?:ilon)?",
    "theta": "(?:rope_|rotary_|rotary_emb_)?(?:theta|base) max_period",
    "alpha": "(?:lora_)?alpha",
    "deviation": "init(?:ializer)?_(?:std|range) init_scale",
    # things that are called, and words
    "norm": "(?:q_|k_|qk_)?norm(?:_layer|_cls|_class|_module|_fn)? layer_?norm",
    "linear": "(?:linear|proj|projection)(?:_layer|_cls|_class|_module)",
    "activation_name": "hidden_act (?:hidden_)?activation_function act_name",
    "activation_class": "(?:act|activation)_(?:layer|cls|class)",
    "activation": "(?:.*_)?(?:act|activation)(?:_fn|_func)? nonlinearity feature_map kernel_fn phi",
    "implementation": "_?attn_implementation attention_(?:implementation|backend)",
    "name": "name prefix layer_name",
    "attention_type": "attn_type attention_type",
    "position_type": "position_embedding_type",
}

#: What a class without weights means: its inputs are heads already, and ``dim`` is the width of one.
_WEIGHTLESS_MEANINGS = {
    "dropout": ".*drop.*",
    "d_head": """
        (?:d|dim|head|hidden|depth)(?:_?(?:dim|size))?
        d_k dk d_head d_qk head_dim dim_head head_size key_dim""",
    "heads": ".*heads?",
    "length": ".*(?:max_len|max_seq|block_size|context|ctx).*",
    "window": ".*window.*",
    "chunk": ".*(?:block|chunk|tile).*",
}


def _compiled(table: dict[str, str]) -> dict[str, re.Pattern[str]]:
    def one(words: str) -> str:
        for short, pattern in _SHORT.items():
            words = words.replace(short, pattern)
        return "|".join(words.split())

    return {meaning: re.compile(one(words)) for meaning, words in table.items()}


_PATTERNS = _compiled(_MEANINGS)
_WEIGHTLESS_PATTERNS = _compiled(_WEIGHTLESS_MEANINGS)


@dataclass(frozen=True)
class Surroundings:
    """What is beside a name and helps to understand it.

    names: the other arguments, or the attributes that are read from a config
    source: of the class that uses the name
    class_name: of the class that is built
    weightless: it takes heads, not tokens
    """

    names: Collection[str] = ()
    source: str = ""
    class_name: str = ""
    weightless: bool = False


def meaning_of(name: str, around: Surroundings = Surroundings()) -> str | None:
    """Return what an argument of this name means, or None.

    >>> meaning_of("n_embd"), meaning_of("attn_pdrop"), meaning_of("sigma")
    ('d_model', 'dropout', None)
    """
    plain = _plain(name)
    tables = [_WEIGHTLESS_PATTERNS, _PATTERNS] if around.weightless else [_PATTERNS]
    patterns = (pair for table in tables for pair in table.items())
    found = next((meaning for meaning, pattern in patterns if pattern.fullmatch(plain)), None)
    if found == "head_or_width":
        return _head_or_width(name, around)
    if found == "groups" and _groups_share_keys(around):
        return "kv_heads"
    if found == "memory" and plain.startswith("enc") and not _others(around, "d_model", name):
        return "d_model"
    turns_heads = re.search(r"rotary|rope", around.class_name, re.I) and not _others(around, "heads", name)
    if found == "d_model" and turns_heads:
        return "d_head"
    if found is None and plain == "k":
        return "rank" if _others(around, "d_model", name) else "d_model"
    return found


def _plain(name: str) -> str:
    """Return the name in snake case: ``numHeads`` is ``num_heads``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).strip("_").lower()


def _others(around: Surroundings, meaning: str, name: str) -> list[str]:
    pattern = _PATTERNS[meaning]
    return [other for other in around.names if other != name and pattern.fullmatch(_plain(other))]


def _head_or_width(name: str, around: Surroundings) -> str:
    """Decide what ``d_k`` or ``key_dim`` is: the width of one head, of all heads, or of the keys' input."""
    word, source = rf"(?:self\.)?{re.escape(name)}", around.source
    taken = re.search(rf"Linear\(\s*(?:in_features\s*=\s*)?{word}\s*,", source)
    made = re.search(rf"Linear\([^()]*,\s*(?:out_features\s*=\s*)?{word}\s*[,)]", source)
    if taken and not made:
        return "memory" if re.search("key|value|^[kv]_", name) else "d_head"
    if re.search(rf"{word}\s*(?://|%|/)\s*(?:self\.)?\w*(?:head|\bh\b)", source):
        return "d_model"
    if not source and any(_plain(other) in {"query_dim", "q_dim"} for other in around.names):
        return "memory"
    return "d_head"


def _groups_share_keys(around: Surroundings) -> bool:
    """Say whether ``num_groups`` counts key/value heads: not where channels are normalized in groups."""
    return bool(_others(around, "heads", "")) and not re.search(
        r"group_?norm|groups\s*=", around.source, re.I
    )
