"""Tiny models with random weights for the lab, saved as folders, with a tokenizer of words and bytes."""

import torch

WORDS = (
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "dog",
    "ran",
    "to",
    "and",
    ".",
    ",",
    "Paris",
    "is",
    "in",
    "The",
)


def tokenizer_of_words():
    """Return a byte-level tokenizer that also knows some whole words: every text can be read."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {it: i for i, it in enumerate(["<s>", "</s>", *alphabet])}
    merges = []
    for word in [*(f"Ġ{it}" for it in WORDS), *WORDS]:
        for end in range(2, len(word) + 1):
            pair = (word[: end - 1], word[end - 1])
            if pair not in merges:
                merges.append(pair)
            vocabulary.setdefault(word[:end], len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


def save_llama(folder, layers=2):
    """Save a decoder with logits."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = tokenizer_of_words()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.5,
    )
    return _saved(LlamaForCausalLM(config), tokenizer, folder)


def save_bert(folder):
    """Save an encoder without logits."""
    from transformers import BertConfig, BertModel

    tokenizer = tokenizer_of_words()
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    return _saved(BertModel(config), tokenizer, folder)


def save_t5(folder):
    """Save an encoder-decoder."""
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = tokenizer_of_words()
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        initializer_factor=3.0,
    )
    return _saved(T5ForConditionalGeneration(config), tokenizer, folder)


def _saved(model, tokenizer, folder):
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


FACTORY = '''
import torch
from torch import nn


class Reader(nn.Module):
    """A model of one's own: ids to logits, without a tokenizer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(12, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.out = nn.Linear(16, 12)

    def forward(self, ids):
        x = self.embed(ids)
        hidden = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        found, _ = self.attention(x, x, x, attn_mask=hidden, need_weights=False)
        return self.out(x + found)
'''


def save_factory(folder):
    """Write a Python file with a model."""
    file = folder / "own_model.py"
    file.write_text(FACTORY, encoding="utf-8")
    return f"{file}:Reader"
