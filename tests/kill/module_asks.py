"""What each module style is asked: sizes all different, then sizes that hide a swap."""

from __future__ import annotations

import math

import torch
from module_calls import Ask
from module_driving import Style
from torch import Tensor


def asks(style: Style) -> list[Ask]:
    """Return every ask that the style understands."""
    torch.manual_seed(0)
    can = style.can.__contains__
    found = [_ask("plain", style), _ask("T == H", style, T=style.heads), _ask("B == T", style, B=5, T=5)]
    found += [_ask("T beyond blocks", style, T=13), _ask("T of whole blocks", style, T=8)]
    loud = _ask("large scores", style)
    found.append(loud.but(x=loud.x * 60))
    found += _padded(style) if can("keys") else []
    found.append(_zero_token(style))
    if can("mask"):
        found.append(_ask("mask", style).but(mask=mask(2, 7, 7)))
        found.append(_ask("mask, B == T == H", style, B=3, T=3).but(mask=mask(3, 3, 3)))
        empty = mask(2, 7, 7)
        empty[1, :, 2] = False
        found.append(_ask("mask, empty row", style).but(mask=empty))
    if can("causal"):
        found.append(_ask("causal", style).but(causal=True))
        found.append(_ask("causal, keys", style).but(causal=True, keys=keys(2, 7)))
    if can("memory"):
        found.append(_ask("memory", style, T_k=9))
        found.append(_ask("memory of equal length", style, T_k=7))
        found.append(_ask("memory, keys", style, T_k=9).but(keys=keys(2, 9)))
    if can("always memory"):
        found.append(_ask("memory of equal length", style, T_k=7))
    if can("causal") and can("mask"):
        found.append(_ask("causal, mask", style).but(causal=True, mask=mask(2, 7, 7)))
    if can("memory") and can("causal"):
        found.append(_ask("causal memory", style, T_k=9).but(causal=True))
    if can("queries"):
        for name, T_k in (("queries", 9), ("queries of equal length", 7)):
            both = _ask(name, style, T_k=T_k).but(queries=keys(2, 7), keys=keys(2, T_k))
            found.append(both if T_k == 7 else _lengths(both))
    if can("bias"):
        found.append(_ask("bias", style).but(bias=torch.randn(7, 7)))
    if can("documents"):
        ids = torch.tensor([[0, 0, 0, 1, 1, 2, 2], [4, 4, 4, 4, 4, 4, 7]])
        found.append(_ask("documents", style).but(documents=ids))
    if can("past"):
        found += [_ask("past", style).but(past=4), _ask("one new token", style).but(past=6)]
    if can("scale argument"):
        found.append(_ask("scale", style).but(scale=0.3))
    if can("scale"):
        name = {"cross_attention": "scale", "Attention": "qk_scale"}.get(style.name, "scale")
        name = {"GroupedQueryAttention": "softmax_scale"}.get(style.name, name)
        found.append(_ask("scale", style).but(options={name: 0.3}))
    if style.window:
        found.append(_ask("window", style, T=13).but(options={style.window: 3}))
    return [_lengths(ask) for ask in found] if can("lengths") else found


def _padded(style: Style) -> list[Ask]:
    causal = "always causal" in style.can
    found = [_ask("keys", style).but(keys=keys(2, _keys_for(style)))]
    found.append(
        _ask("keys, B == H", style, B=style.heads, T=5).but(keys=keys(style.heads, _keys_for(style, 5)))
    )
    empty = keys(2, _keys_for(style))
    empty[1] = False
    found.append(_ask("keys, empty sample", style).but(keys=empty))
    if causal:
        left = torch.ones(2, 7, dtype=torch.bool)
        left[1, :3] = False
        found.append(_ask("padding on the left", style).but(keys=left))
    if "integer keys" in style.can:
        found.append(_ask("integer keys", style).but(keys=keys(2, _keys_for(style)).long()))
    return found


def _zero_token(style: Style) -> Ask:
    """Token 1 is all zeros and no layer has a bias: every score with it is 0."""
    ask = _ask("a score of 0", style).but(unbiased=True)
    for tokens in (ask.x, ask.memory):
        if tokens is not None:
            tokens[:, 1] = 0
    return ask.but(keys=keys(2, _keys_for(style))) if "keys" in style.can else ask


def _keys_for(style: Style, T: int = 7) -> int:
    return T + 2 if "always memory" in style.can else T


def _ask(name: str, style: Style, B: int = 2, T: int = 7, T_k: int | None = None) -> Ask:
    memory = None
    if T_k is None and "always memory" in style.can:
        T_k = _keys_for(style, T)
    if T_k is not None:
        memory = torch.randn(B, T_k, style.d_memory)
    return Ask(name, torch.randn(B, T, style.d_model), memory)


def keys(B: int, T_k: int) -> Tensor:
    """Real keys, bool [B, T_k]: most are, at least one in each sample, and not the same in all samples."""
    real = torch.rand(B, T_k) > 0.35
    real[:, 0] = True
    real[0, -2:] = False
    return real


def mask(B: int, T_q: int, T_k: int) -> Tensor:
    """Who may look at whom, bool [B, 1, T_q, T_k]; every query has a key."""
    allowed = torch.rand(B, 1, T_q, T_k) > 0.4
    allowed[..., 0] = True
    return allowed


def _lengths(ask: Ask) -> Ask:
    """Return the ask with its real tokens first."""
    moved = {
        name: given.sort(dim=1, descending=True).values
        for name in ("keys", "queries")
        if (given := getattr(ask, name)) is not None
    }
    return ask.but(**moved)


def hidden_nan(ask: Ask) -> Ask | None:
    """Return the ask with NaN in every key that nobody may see, or None when there is none."""
    if ask.keys is None:
        return None
    tokens = ask.source.masked_fill(~ask.keys.bool()[..., None], math.nan)
    return ask.but(x=tokens) if ask.memory is None else ask.but(memory=tokens)


def other_neighbours(ask: Ask) -> Ask:
    """Return the ask with other tokens in all samples but the first."""
    changed = {"x": ask.x, "memory": ask.memory}
    for name, tokens in changed.items():
        if tokens is not None:
            changed[name] = torch.cat([tokens[:1], tokens[1:] * 2 + 1])
    return ask.but(**changed)


def other_padding(ask: Ask) -> Ask | None:
    """Return the ask with other tokens where the keys are padding."""
    if ask.keys is None:
        return None
    tokens = ask.source.where(ask.keys.bool()[..., None], ask.source * 2 + 1)
    return ask.but(x=tokens) if ask.memory is None else ask.but(memory=tokens)
