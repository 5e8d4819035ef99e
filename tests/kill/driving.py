"""How each style is called, what it can be asked, and the cases it is asked."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from softlookup.terms import Case

Outputs = tuple[
    list[Tensor], Tensor | None
]  # outputs [B, H, T_q, d_v] of every path, weights [B, H, T_q, T_k]
_serial = count()


@dataclass(frozen=True)
class Style:
    """What a style can be asked, and how.

    features: of "mask", "keys mask", "integer mask", "causal", "rectangular", "grouped", "bias", "scale",
        "window", "documents", "slopes"; the others ("always causal", "isolated", ...) are facts about it
    corner: what is_causal means when T_q != T_k
    tokens_first: the file takes (B, T, H, d)
    """

    call: Callable[[ModuleType, Case], Outputs]
    features: frozenset[str]
    corner: str = "top-left"
    tokens_first: bool = False


def load(path: Path) -> ModuleType:
    """Import the file as a fresh module."""
    spec = importlib.util.spec_from_file_location(f"kill_{next(_serial)}", path)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _heads_first(name: str, *options: str) -> Callable[[ModuleType, Case], Outputs]:
    """Return how to call a function that takes (B, H, T, d) and may be asked the named options."""

    def call(module: ModuleType, case: Case) -> Outputs:
        said = {
            "allowed_mask": case.allowed_mask,
            "attn_bias": case.additive_bias,
            "is_causal": case.causal is not None,
            "causal": case.causal is not None,
            "window": case.window,
            "document_ids": case.document_ids,
            "scale": case.scale,
        }
        result = getattr(module, name)(case.q, case.k, case.v, **{option: said[option] for option in options})
        return ([result[0]], result[1]) if isinstance(result, tuple) else ([result], None)

    return call


def _matmul_bthd(module: ModuleType, case: Case) -> Outputs:
    q, k, v = (x.transpose(1, 2) for x in (case.q, case.k, case.v))
    blocked = None if case.allowed_mask is None else ~case.allowed_mask
    output, weights = module.multihead_lookup(q, k, v, blocked, case.causal is not None)
    return [output.transpose(1, 2)], weights


def _packed_documents(module: ModuleType, case: Case) -> Outputs:
    q, k, v = (x.transpose(1, 2) for x in (case.q, case.k, case.v))
    output = module.packed_attention(q, k, v, case.document_ids, case.causal is not None)
    return [output.transpose(1, 2)], None


def _fast_path(module: ModuleType, case: Case) -> Outputs:
    q, k, v = (x.transpose(1, 2) for x in (case.q, case.k, case.v))
    fused = module.attend(q, k, v, case.allowed_mask)
    manual, weights = module.attend(q, k, v, case.allowed_mask, need_weights=True)
    return [fused.transpose(1, 2), manual.transpose(1, 2)], weights


def _keys(case: Case) -> Tensor | None:
    return None if case.allowed_mask is None else case.allowed_mask[:, 0, 0]  # [B, T_k]


def _negated(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else (mask == 0).to(mask.dtype)


def _class_wrapped(module: ModuleType, case: Case) -> Outputs:
    layer = module.CausalAttention()
    output, weights = layer.eval()(case.q, case.k, case.v, _negated(_keys(case)))
    trained, _ = layer.train()(case.q, case.k, case.v, _negated(_keys(case)))
    return [output, trained], weights


def _with_scale(module: ModuleType, case: Case) -> Outputs:
    output, weights = module.scaled_attention(
        case.q[:, 0], case.k[:, 0], case.v[:, 0], _keys(case), case.scale
    )
    return [output[:, None]], weights[:, None] if weights.dim() == 3 else None


def _unpadded(module: ModuleType, case: Case) -> Outputs:
    return [module.attend(case.q, case.k, case.v, _negated(_keys(case)))], None


def _folded_bmm(module: ModuleType, case: Case) -> Outputs:
    mask = case.allowed_mask
    if mask is not None:
        size = (case.q.shape[0], 1, case.q.shape[2], case.k.shape[2])
        mask = mask if mask.shape == size else mask.expand(size).contiguous()
        mask = mask[:, 0]
    return [module.folded_attention(case.q, case.k, case.v, mask)], None


def _alibi_slopes(module: ModuleType, case: Case) -> Outputs:
    slopes = case.q.new_tensor([0.5, 0.1, 0.02])[: case.q.shape[1]]
    return [module.attend(case.q, case.k, case.v, slopes, case.causal is not None)], None


def _features(text: str) -> frozenset[str]:
    return frozenset(text.split(", "))


STYLES = {
    "einsum_bhtd": Style(
        _heads_first("attend", "allowed_mask", "is_causal", "scale"),
        _features("mask, keys mask, causal, rectangular, grouped, scale"),
        "bottom-right",
    ),
    "loops": Style(
        _heads_first("attention", "allowed_mask", "is_causal", "window"),
        _features("mask, keys mask, causal, rectangular, grouped, window, isolated"),
    ),
    "chunked_online_softmax": Style(
        _heads_first("chunked_attention", "allowed_mask", "causal", "window", "scale"),
        _features("mask, keys mask, causal, rectangular, grouped, window, scale"),
        "bottom-right",
    ),
    "class_wrapped": Style(_class_wrapped, _features("keys mask, integer mask, always causal")),
    "matmul_bthd": Style(
        _matmul_bthd, _features("mask, keys mask, causal, rectangular"), "bottom-right", True
    ),
    "windowed": Style(
        _heads_first("sliding_window_attention", "window", "allowed_mask"),
        _features("mask, keys mask, window, always causal"),
    ),
    "packed_documents": Style(_packed_documents, _features("documents, causal"), tokens_first=True),
    "packed_by_document": Style(
        _heads_first("attend_documents", "document_ids"), _features("documents, always documents, isolated")
    ),
    "grouped": Style(
        _heads_first("grouped_query_attention", "attn_bias", "is_causal"),
        _features("bias, causal, rectangular, grouped"),
    ),
    "with_bias": Style(
        _heads_first("biased_attention", "attn_bias", "is_causal"), _features("bias, causal, rectangular")
    ),
    "with_scale": Style(_with_scale, _features("keys mask, rectangular, scale, one head")),
    "folded_bmm": Style(_folded_bmm, _features("mask, keys mask, integer mask, rectangular")),
    "fast_path": Style(_fast_path, _features("mask, keys mask, rectangular"), tokens_first=True),
    "manual_softmax": Style(
        _heads_first("soft_lookup", "allowed_mask", "is_causal"),
        _features("mask, keys mask, integer mask, causal, rectangular"),
    ),
    "autograd_function": Style(
        _heads_first("attend", "allowed_mask", "is_causal"), _features("mask, keys mask, causal, rectangular")
    ),
    "alibi": Style(_heads_first("alibi_attention"), _features("slopes, always causal")),
    "alibi_slopes": Style(_alibi_slopes, _features("slopes, causal")),
    "unpadded": Style(_unpadded, _features("keys mask, rectangular, isolated")),
}


def cases(style: Style) -> list[Case]:
    """Return every case that the style can be asked: sizes all different, then sizes that hide a swap."""
    has = style.features.__contains__
    torch.manual_seed(0)
    found = [_case("plain", style)]
    causal = style.corner if has("causal") else None
    if causal:
        found.append(_case("causal", style, causal=causal))
    if has("rectangular"):
        found.append(_case("more keys", style, T_k=9, causal=causal))
        found.append(_case("fewer keys", style, T_k=5))
    for name in ("mask", "keys mask"):
        if not has(name):
            continue
        wide = name == "keys mask"
        found.append(_case(name, style).but(allowed_mask=_mask(2, 7, 7, wide)))
        found.append(_case(name + ", causal", style, causal=causal).but(allowed_mask=_mask(2, 7, 7, wide)))
        empty = _mask(2, 7, 7, wide)
        empty[1, :, 0] = False
        found.append(_case(name + ", empty row", style, causal=causal).but(allowed_mask=empty))
        found.append(_case(name + ", B == H", style, B=3, T=5).but(allowed_mask=_mask(3, 5, 5, wide)))
        found.append(_case(name + ", B == T", style, B=5, T=5).but(allowed_mask=_mask(5, 5, 5, wide)))
        zero = _case(name + ", a score of 0", style, causal=causal).but(allowed_mask=_mask(2, 7, 7, wide))
        zero.k[:, :, 0] = 0
        found.append(zero)
    if has("integer mask"):
        found.append(_case("integer mask", style).but(allowed_mask=_mask(2, 7, 7, True).long()))
    if has("bias"):
        bias = torch.randn(2, 3, 7, 7)
        hiding = torch.randn(1, 3, 7, 7).masked_fill(~_mask(1, 7, 7, True), -math.inf)
        hiding[0, 1, 2] = -math.inf
        found += [_case("bias", style).but(additive_bias=bias)]
        found += [_case("bias, causal", style, causal=causal).but(additive_bias=hiding)]
        found += [_case("bias of one map", style, causal=causal).but(additive_bias=bias[0, 0])]
    if has("grouped"):
        found.append(_case("grouped", style, H=6, H_kv=2, causal=causal))
    if has("window"):
        found.append(_case("window", style, T=13, window=4))
        found.append(_case("window of one block", style, T=12, window=3))
    if has("documents"):
        ids = torch.tensor([[0, 0, 0, 1, 1, 2, 2], [4, 4, 4, 4, 4, 4, 7]])
        found.append(_case("documents", style, causal=causal).but(document_ids=ids))
        ids = torch.tensor([[0, 0, 1], [0, 1, 1], [0, 0, 0]])
        found.append(_case("documents, B == H", style, B=3, T=3).but(document_ids=ids))
    if has("scale"):
        found.append(_case("scale", style).but(scale=0.3))
    loud = _case("large scores", style, T=13, causal=causal)
    found.append(loud.but(q=loud.q * 40))
    found.append(_case("T == H", style, T=3, d_v=4, causal=causal))
    if has("always documents"):
        found = [
            c if c.document_ids is not None else c.but(document_ids=torch.zeros(*c.q.shape[::2][:2]).long())
            for c in found
        ]
    if has("always causal"):
        found = [case.but(causal="top-left") for case in found]
    return found


def _case(
    name: str,
    style: Style,
    *,
    B: int = 2,
    H: int = 3,
    H_kv: int | None = None,
    T: int = 7,
    T_k: int | None = None,
    d_v: int = 5,
    causal: str | None = None,
    window: int | None = None,
) -> Case:
    H = 1 if "one head" in style.features else H
    H_kv, T_k = H_kv or H, T_k or T
    q, k, v = torch.randn(B, H, T, 4), torch.randn(B, H_kv, T_k, 4), torch.randn(B, H_kv, T_k, d_v)
    return Case(q, k, v, causal=causal, window=window, name=name)  # type: ignore[arg-type]


def _mask(B: int, T_q: int, T_k: int, keys_only: bool) -> Tensor:
    """[B, 1, T_q or 1, T_k] bool: the first key is visible, every sample hides others."""
    mask = torch.rand(B, 1, 1 if keys_only else T_q, T_k) > 0.4
    mask[..., 0], mask[..., -1] = True, False
    return mask


def expected(case: Case, style: Style) -> Tensor:
    """[B, H, T_q, d_v]: PyTorch's own answer, zeros for queries that may look nowhere."""
    T_q, T_k = case.q.shape[-2], case.k.shape[-2]
    i, j = torch.arange(T_q)[:, None], torch.arange(T_k)[None, :]
    here = i + (T_k - T_q if case.causal == "bottom-right" else 0)
    allowed = torch.ones(case.q.shape[0], 1, T_q, T_k, dtype=torch.bool)
    if case.allowed_mask is not None:
        allowed = allowed & case.allowed_mask.bool()
    if case.causal is not None:
        allowed = allowed & (j <= here)
    if case.window is not None:
        allowed = allowed & (j <= here) & (here - j < case.window)
    if case.document_ids is not None:
        allowed = allowed & (case.document_ids[:, None, :, None] == case.document_ids[:, None, None, :])
    bias = (
        torch.zeros(case.q.shape[1], T_q, T_k, dtype=case.q.dtype)
        if case.additive_bias is None
        else case.additive_bias
    )
    if "slopes" in style.features:
        H = case.q.shape[1]
        slopes = (
            [0.5, 0.1, 0.02][:H]
            if style.call is _alibi_slopes
            else [2 ** (-8 * (h + 1) / H) for h in range(H)]
        )
        bias = -torch.tensor(slopes, dtype=case.q.dtype)[:, None, None] * (i - j).abs()
    bias = bias.to(case.q.dtype).masked_fill(~allowed, -math.inf)
    empty = (bias == -math.inf).all(dim=-1, keepdim=True)
    answer = F.scaled_dot_product_attention(
        case.q, case.k, case.v, attn_mask=bias.masked_fill(empty, 0.0), scale=case.scale, enable_gqa=True
    )
    return answer.masked_fill(empty, 0.0)
