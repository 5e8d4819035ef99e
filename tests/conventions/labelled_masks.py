"""Masks as they are really made, each with what it means and its axes: (name, tensor, sizes, kind, axes)."""

import itertools
import math

import torch

INF = math.inf
SIZES = [(1, 6), (2, 8), (3, 12), (4, 5), (8, 16), (5, 33)]  # B, T


def lengths_of(B, T):
    """Real tokens of each sample; the longest fills the batch, as tokenizers pad."""
    return torch.tensor([T - (3 * n) % (T - 1) for n in range(B)])


def keep(B, T, side):
    j = torch.arange(T)
    lengths = lengths_of(B, T)[:, None]
    return j < lengths if side == "right" else j >= T - lengths


def labelled():
    yield from causal_masks()
    yield from padding_masks()
    yield from both()
    yield from additive()
    yield from windows_and_documents()
    yield from crossed()
    yield from no_entries()


def causal_masks():
    for T in (3, 5, 8, 17, 64):
        lower = torch.ones(T, T).tril().bool()
        known = {"q_len": T, "k_len": T}
        yield f"torch.tril bool {T}", lower, known, "allowed", "T_q T_k"
        yield f"torch.triu(1) bool {T}", ~lower, known, "blocked", "T_q T_k"
        yield f"register_buffer bias 1 1 {T}", lower[None, None].float(), known, "allowed", "1 1 T_q T_k"
        yield f"flax make_causal_mask {T}", lower[None, None].float(), known, "allowed", "1 1 T_q T_k"
        yield f"tril int64 {T}", lower.long(), known, "allowed", "T_q T_k"
        yield f"triu(1) uint8 {T}", (~lower).to(torch.uint8), known, "blocked", "T_q T_k"
        made = torch.nn.Transformer.generate_square_subsequent_mask(T)
        yield f"generate_square_subsequent_mask {T}", made, known, "additive", "T_q T_k"
        yield f"4-D tril bool {T}", lower[None, None], known, "allowed", "1 1 T_q T_k"
        yield f"strictly lower {T}", torch.ones(T, T).tril(-1).bool(), known, "allowed", "T_q T_k"
        yield f"backward {T}", torch.ones(T, T).triu().bool(), known, "allowed", "T_q T_k"


def padding_masks():
    for (B, T), side in itertools.product(SIZES, ("right", "left")):
        kept = keep(B, T, side)
        known = {"batch_size": B, "k_len": T}
        full = {**known, "q_len": T}
        name = f"{side} padding {B} x {T}"
        yield f"tokenizer {name}", kept.long(), known, "allowed", "B T_k"
        yield f"tokenizer without sizes {name}", kept.long(), {}, "allowed", "B T_k"
        yield f"bool keep {name}", kept, known, "allowed", "B T_k"
        yield f"key_padding_mask {name}", ~kept, known, "blocked", "B T_k"
        yield f"key_padding_mask without sizes {name}", ~kept, {}, "blocked", "B T_k"
        yield f"1 = pad floats {name}", (~kept).float(), known, "blocked", "B T_k"
        yield f"uint8 keep {name}", kept.to(torch.uint8), known, "allowed", "B T_k"
        yield f"TransformerEngine {name}", ~kept[:, None, None], full, "blocked", axes(B, 1, 1)
        yield f"sdpa keys {name}", kept[:, None, None], full, "allowed", axes(B, 1, 1)
        extended = (1.0 - kept[:, None, None].float()) * -10000.0
        yield f"BERT extended {name}", extended, full, "additive", axes(B, 1, 1)
        yield f"float 0/1 keys {name}", kept[:, None, None].float(), full, "allowed", axes(B, 1, 1)
        longer = torch.cat([kept, kept.new_zeros(B, 3)], 1)  # padded to a multiple, nobody fills it
        yield f"padded beyond {name}", longer, {"batch_size": B, "k_len": T + 3}, "allowed", "B T_k"
        yield f"hidden beyond {name}", ~longer, {"batch_size": B, "k_len": T + 3}, "blocked", "B T_k"


def both():
    for (B, T), side in itertools.product(SIZES, ("right", "left")):
        allowed = keep(B, T, side)[:, None, None] & torch.ones(T, T).tril().bool()
        full = {"batch_size": B, "q_len": T, "k_len": T}
        name = f"causal and {side} padding {B} x {T}"
        yield f"sdpa {name}", allowed, full, "allowed", axes(B, 1, T)
        yield f"without sizes {name}", allowed, {}, "allowed", axes(B, 1, T)
        yield f"TransformerEngine {name}", ~allowed, full, "blocked", axes(B, 1, T)
        least = torch.finfo(torch.float32).min
        yield (
            f"eager {name}",
            torch.zeros(allowed.shape).masked_fill(~allowed, least),
            full,
            "additive",
            axes(B, 1, T),
        )
        yield f"Keras {name}", allowed[:, 0], {**full, "num_heads": B + 1}, "allowed", three(B)
        per_head = (~allowed).expand(B, 3, T, T).flatten(0, 1)
        yield f"MultiheadAttention 3-D {name}", per_head, {**full, "num_heads": 3}, "blocked", "B*H T_q T_k"
        square = keep(B, T, side)[:, None, :, None] & keep(B, T, side)[:, None, None]
        yield f"outer product {name}", square, full, "allowed", axes(B, 1, T)


def additive():
    for T, dtype in itertools.product((4, 9), (torch.float32, torch.float16, torch.bfloat16)):
        hidden = torch.ones(T, T).triu(1).bool()
        for fill in (-INF, torch.finfo(dtype).min, -1e4):
            made = torch.zeros(T, T, dtype=dtype).masked_fill(hidden, fill)
            yield f"{dtype} fill {fill} {T}", made, {"q_len": T, "k_len": T}, "additive", "T_q T_k"
    distance = (torch.arange(7) - torch.arange(7)[:, None]).float()
    yield (
        "ALiBi",
        -distance.abs() * torch.tensor([0.5, 0.25])[:, None, None],
        {"num_heads": 2, "batch_size": 3},
        "additive",
        "H T_q T_k",
    )
    yield "T5 bias", torch.randn(1, 4, 6, 6), {}, "additive", "1 H T_q T_k"
    yield "no padding, additive", torch.zeros(2, 1, 1, 6), {}, "additive", "B 1 1 T_k"


def windows_and_documents():
    for T, w in ((8, 2), (16, 4), (64, 8)):
        near = (torch.arange(T) - torch.arange(T)[:, None]).abs()
        known = {"q_len": T, "k_len": T}
        window = torch.ones(T, T).tril().bool() & (near < w)
        yield f"Mistral window {T}", window, known, "allowed", "T_q T_k"
        yield f"attention-gym window hidden {T}", ~window, known, "blocked", "T_q T_k"
        yield f"Longformer window {T}", near <= w, known, "allowed", "T_q T_k"
        ids = torch.arange(T) // (T // 3)
        same = ids[:, None] == ids
        yield (
            f"packed documents {T}",
            (same & torch.ones(T, T).tril().bool())[None, None],
            known,
            "allowed",
            "1 1 T_q T_k",
        )
        yield f"packed both ways {T}", same, known, "allowed", "T_q T_k"
        yield f"packed, hidden {T}", ~same, known, "blocked", "T_q T_k"
        yield f"document ids {T}", ids[None].long(), {"batch_size": 1, "k_len": T}, "document ids", "B T_k"
        prefix = torch.ones(T, T).tril().bool() | (torch.arange(T) < w)
        yield f"prefix {T}", prefix, known, "allowed", "T_q T_k"
        heads = torch.stack([window, torch.ones(T, T).tril().bool()])[None]
        yield f"different heads {T}", heads, known, "allowed", "1 H T_q T_k"
        yield (
            f"ViT, all visible {T}",
            torch.ones(T, T, dtype=torch.bool),
            {**known, "batch_size": 1},
            "allowed",
            "T_q T_k",
        )


def crossed():
    for q_len, k_len in ((4, 7), (3, 16), (7, 4), (2, 9)):
        known = {"q_len": q_len, "k_len": k_len, "batch_size": 2}
        bottom = torch.ones(q_len, k_len).tril(max(k_len - q_len, 0)).bool()
        yield f"cached causal {q_len} {k_len}", bottom, known, "allowed", "T_q T_k"
        yield f"cached causal hidden {q_len} {k_len}", ~bottom, known, "blocked", "T_q T_k"
        memory = keep(2, k_len, "right")[:, None, None].expand(2, 1, q_len, k_len)
        yield f"memory {q_len} {k_len}", memory, known, "allowed", "B 1 T_q T_k"
        yield f"memory hidden {q_len} {k_len}", ~memory, known, "blocked", "B 1 T_q T_k"
    for k_len in (6, 12):
        row = torch.arange(k_len) < 4
        yield f"static cache {k_len}", row[None, None, None], {"q_len": 1}, "allowed", "1 1 1 T_k"
        yield (
            f"growing cache {k_len}",
            torch.ones(2, 1, 1, k_len, dtype=torch.bool),
            {"q_len": 1},
            "allowed",
            "B 1 1 T_k",
        )
        yield f"one row {k_len}", row, {}, "allowed", "T_k"
        yield f"one row hidden {k_len}", ~row, {}, "blocked", "T_k"


def no_entries():
    for n in (3, 5, 8):
        lengths = torch.arange(n, 0, -1) + 4
        known = {"batch_size": n, "k_len": n + 4}
        yield f"lengths {n}", lengths, known, "lengths", "B"
        yield f"key_value_seq_lengths {n}", lengths.int(), known, "lengths", "B"
        bounds = torch.cat([torch.zeros(1), lengths.cumsum(0)]).int()
        yield f"cu_seqlens {n}", bounds, {"k_len": int(bounds[-1])}, "bounds", "documents+1"
        yield f"cu_seqlens without sizes {n}", bounds, {}, "bounds", "documents+1"
        yield f"input_ids {n}", torch.randint(2, 30_000, (n, 9)), {}, "token ids", "B T_k"
        yield f"position ids {n}", torch.arange(9).expand(n, 9), {}, "token ids", "B T_k"
        segments = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2]).expand(n, 9)
        yield f"segment ids {n}", segments, {"batch_size": n, "k_len": 9}, "document ids", "B T_k"


def axes(*sizes):
    return " ".join(
        ["1" if size == 1 else name for name, size in zip(("B", "H", "T_q"), sizes, strict=False)] + ["T_k"]
    )


def three(B):
    return "1 T_q T_k" if B == 1 else "B T_q T_k"
