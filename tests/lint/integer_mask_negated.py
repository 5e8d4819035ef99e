"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch


def cast(mask, scores):
    mask = mask.long()
    return scores.masked_fill(~mask, float("-inf"))  # wrong


def cast_at_once(mask, scores):
    return scores.masked_fill(~mask.int(), float("-inf"))  # wrong


def cast_by_to(mask):
    mask = mask.to(torch.uint8).unsqueeze(1)
    return ~mask  # wrong


def made(T):
    mask = torch.ones(T, T, dtype=torch.long)
    return ~mask  # wrong


def tokenized(tokenizer, texts):
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    padding = ~batch["attention_mask"]  # wrong
    return padding


def tokenized_attribute(tokenizer, texts):
    inputs = tokenizer(texts, return_tensors="pt")
    mask = inputs.attention_mask
    return ~mask  # wrong


def annotated(mask: torch.ByteTensor):
    return ~mask  # wrong


def annotated_boolean(mask: torch.BoolTensor):
    return ~mask


def boolean(mask):
    mask = mask.bool()
    return ~mask


def boolean_after_all(mask):
    mask = mask.long()
    return ~mask.bool()


def compared(mask):
    mask = mask.long()
    return ~(mask == 1)


def unknown(mask):
    return ~mask


def either(mask, flag):
    if flag:
        mask = mask.long()
    return ~mask


def bits(x: int):
    return ~int(x)
