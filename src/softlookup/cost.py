"""What attention costs, in numbers one can check by hand: logits, bytes, FLOPs, what a fused kernel avoids.

Counted for self-attention (T_q = T_k = T), forward, without biases. One multiply and one add are two FLOPs.
torch is needed only when the choice of a kernel is asked for.

Source: section 4 of Vaswani et al. 2017, arXiv 1706.03762; memory traffic: Dao et al. 2022, FlashAttention,
arXiv 2205.14135.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from softlookup.terms import SoftlookupError

_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
_LOG_SUM_EXP_BYTES = 4  # fused kernels keep one float32 for each row


@dataclass(frozen=True)
class Workload:
    """One layer of self-attention: B = batch, H = heads, T = tokens, d_head = head_dim; kv_heads None is H.

    Raises: SoftlookupError for a size below 1, heads that are no multiple of kv_heads, an unknown dtype,
    and a dropout that is no probability.
    """

    batch: int
    heads: int
    tokens: int
    head_dim: int
    dtype: str = "bfloat16"
    kv_heads: int | None = None
    causal: bool = False
    mask: bool = False  # a dense mask tensor is handed over
    dropout_p: float = 0.0

    def __post_init__(self) -> None:
        sizes = {name: getattr(self, name) for name in ("batch", "heads", "tokens", "head_dim")}
        sizes["kv_heads"] = self.shared_heads
        for name, size in sizes.items():
            if size < 1:
                raise SoftlookupError(f"cost: {name} counts something.", expected="1 or more", got=str(size))
        if self.heads % self.shared_heads:
            raise SoftlookupError(
                "cost: query heads share key/value heads in groups of equal size.",
                expected="heads a multiple of kv_heads",
                got=f"{self.heads} and {self.shared_heads}",
            )
        if self.dtype not in _BYTES:
            raise SoftlookupError("cost: unknown dtype.", expected=", ".join(_BYTES), got=repr(self.dtype))
        if not 0 <= self.dropout_p <= 1:
            raise SoftlookupError(
                "cost: dropout is a probability.", expected="0 to 1", got=str(self.dropout_p)
            )

    @property
    def shared_heads(self) -> int:
        """H_kv: the number of key/value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads


@dataclass(frozen=True)
class Cost:
    """What one forward pass of the layer computes and stores. Sizes in bytes carry it in their name."""

    d_model: int
    logits: int  # B * H * T * T
    visible_logits: int  # those that a causal rule leaves: T (T + 1) / 2 of T * T
    score_matrix_bytes: int  # one matrix of logits; the plain formula holds two at once, scores and weights
    q_bytes: int
    k_bytes: int
    v_bytes: int
    output_bytes: int
    mask_bytes: int  # a bool mask [1, 1, T, T]; 0 when none is handed over
    score_flops: int  # q k^T
    mix_flops: int  # weights v
    projection_parameters: int  # q, k, v and out, without biases
    projection_flops: int
    balance_tokens: float  # at this T, scores and mix cost as many FLOPs as the projections
    fused_row_bytes: int  # what a fused kernel keeps instead of the weights: a log-sum-exp for each row
    avoided_traffic_bytes: int  # scores written and read, weights written and read: four passes


def attention_cost(workload: Workload) -> Cost:
    """Return the cost of one forward pass.

    Source: section 4 of Vaswani et al. 2017, arXiv 1706.03762.

    >>> cost = attention_cost(Workload(batch=8, heads=32, tokens=8192, head_dim=128, dtype="bfloat16"))
    >>> cost.logits, cost.score_matrix_bytes // 2**30
    (17179869184, 32)
    """
    B, H, T, d_head = workload.batch, workload.heads, workload.tokens, workload.head_dim
    H_kv, itemsize = workload.shared_heads, _BYTES[workload.dtype]
    d_model = H * d_head
    logits = B * H * T * T
    parameters = 2 * d_model * d_model + 2 * d_model * H_kv * d_head  # q and out; k and v
    score_matrix_bytes = logits * itemsize
    return Cost(
        d_model=d_model,
        logits=logits,
        visible_logits=B * H * (T * (T + 1) // 2) if workload.causal else logits,
        score_matrix_bytes=score_matrix_bytes,
        q_bytes=B * H * T * d_head * itemsize,
        k_bytes=B * H_kv * T * d_head * itemsize,
        v_bytes=B * H_kv * T * d_head * itemsize,
        output_bytes=B * H * T * d_head * itemsize,
        mask_bytes=T * T if workload.mask else 0,
        score_flops=2 * logits * d_head,
        mix_flops=2 * logits * d_head,
        projection_parameters=parameters,
        projection_flops=2 * B * T * parameters,
        balance_tokens=parameters / (2 * d_model),
        fused_row_bytes=B * H * T * _LOG_SUM_EXP_BYTES,
        avoided_traffic_bytes=4 * score_matrix_bytes,
    )


def cost_json(workload: Workload, device: str = "cpu") -> dict[str, Any]:
    """Return the workload, its cost, that of twice the tokens and the kernel PyTorch picks, as JSON values.

    Raises: SoftlookupError when the device is not there.
    """
    import torch

    from softlookup.sdpa_backends import Properties, choose_backend

    choice = choose_backend(
        Properties(
            heads=workload.heads,
            kv_heads=workload.shared_heads,
            tokens=workload.tokens,
            head_dim=workload.head_dim,
            dtype=workload.dtype,
            causal=workload.causal,
            mask=workload.mask,
            dropout_p=workload.dropout_p,
        ),
        device,
    )
    return {
        "workload": {**asdict(workload), "kv_heads": workload.shared_heads},
        "cost": asdict(attention_cost(workload)),
        "doubled_tokens": asdict(attention_cost(_doubled(workload))),
        "backend": {"torch": torch.__version__, **asdict(choice)},
    }


def cost_report(workload: Workload, device: str = "cpu") -> str:
    """Return the same as text.

    Raises: SoftlookupError when the device is not there.
    """
    facts = cost_json(workload, device)
    sections = (
        _title(workload),
        facts_table("The layer stores and computes", _layer_rows(workload)),
        facts_table("Twice the tokens", _doubling_rows(workload)),
        facts_table("A fused kernel computes the same function, and", _fused_rows(workload)),
        _backend_section(workload, facts["backend"]),
    )
    return "\n\n".join(sections)


def _doubled(workload: Workload) -> Workload:
    return Workload(**{**asdict(workload), "tokens": 2 * workload.tokens})


def _title(workload: Workload) -> str:
    sizes = f"B={workload.batch}, H={workload.heads}, T={workload.tokens}, d_head={workload.head_dim}"
    if workload.shared_heads != workload.heads:
        sizes += f", H_kv={workload.shared_heads}"
    rules = [word for word, asked in (("causal", workload.causal), ("mask given", workload.mask)) if asked]
    return f"Self-attention in {workload.dtype}, forward: " + ", ".join([sizes, *rules])


def _layer_rows(workload: Workload) -> list[tuple[str, str, str]]:
    cost = attention_cost(workload)
    rows = [
        ("logits", f"{cost.logits:,}", "B * H * T * T"),
        ("score matrix", bytes_in_words(cost.score_matrix_bytes), "and as much again for the weights"),
        ("q, output", bytes_in_words(cost.q_bytes), "each, B * H * T * d_head"),
        ("k, v", bytes_in_words(cost.k_bytes), "each, B * H_kv * T * d_head"),
        ("scores q k^T", flops_in_words(cost.score_flops), "2 * B * H * T^2 * d_head"),
        ("mix of the values", flops_in_words(cost.mix_flops), "the same again"),
        ("projections", f"{cost.projection_parameters:,} parameters", "q, k, v, out; heads do not add any"),
        (
            "",
            flops_in_words(cost.projection_flops),
            f"below T = {cost.balance_tokens:,.0f} these cost more than the rest",
        ),
    ]
    if workload.causal:
        share = cost.visible_logits / cost.logits
        rows.append(
            ("visible logits", f"{share:.1%}", "causal; the plain formula computes all and hides the rest")
        )
    if workload.mask:
        rows.append(
            ("bool mask [T, T]", bytes_in_words(cost.mask_bytes), "times B, if it differs between samples")
        )
    return rows


def _doubling_rows(workload: Workload) -> list[tuple[str, str, str]]:
    now, then = attention_cost(workload), attention_cost(_doubled(workload))
    rows: list[tuple[str, str, str]] = []
    for title, name, read in (
        ("score matrix", "score_matrix_bytes", bytes_in_words),
        ("scores and mix", "score_flops", lambda flops: flops_in_words(2 * flops)),
        ("projections", "projection_flops", flops_in_words),
    ):
        before, after = getattr(now, name), getattr(then, name)
        rows.append((title, read(after), f"{after / before:.0f} times as much"))
    return rows


def _fused_rows(workload: Workload) -> list[tuple[str, str, str]]:
    cost = attention_cost(workload)
    return [
        ("never stores", bytes_in_words(2 * cost.score_matrix_bytes), "scores and weights"),
        (
            "never moves",
            bytes_in_words(cost.avoided_traffic_bytes),
            "each written once and read once, at least",
        ),
        (
            "keeps",
            bytes_in_words(cost.fused_row_bytes),
            "one log-sum-exp a row, in float32, for the gradient",
        ),
    ]


def _backend_section(workload: Workload, backend: dict[str, Any]) -> str:
    lines = [f"PyTorch {backend['torch']} on {backend['device']} would pick: {backend['chosen']}"]
    lines += [f"  {name:<17} {why}" for name, why in backend["others"].items()]
    if workload.mask and workload.causal:
        lines.append(
            "  Asked as one mask that holds both rules: the math kernel refuses attn_mask and is_causal"
        )
        lines.append("  together, and PyTorch may pick it.")
    return "\n".join(lines)


def facts_table(title: str, rows: list[tuple[str, str, str]]) -> str:
    """Return a title and below it names, numbers and notes in columns."""
    left = max(len(name) for name, _, _ in rows)
    middle = max(len(value) for _, value, _ in rows)
    return "\n".join([title, *(f"  {name:<{left}}  {value:>{middle}}  {note}" for name, value, note in rows)])


def bytes_in_words(count: float) -> str:
    """Return a number of bytes as a person says it.

    >>> bytes_in_words(34359738368)
    '32 GiB'
    """
    return _in_units(count, 1024, ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"))


def flops_in_words(count: float) -> str:
    """Return a number of floating point operations as a person says it.

    >>> flops_in_words(4398046511104)
    '4.4 TFLOP'
    """
    return _in_units(count, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"))


def _in_units(count: float, step: int, units: tuple[str, ...]) -> str:
    power = 0
    while count >= step and power < len(units) - 1:
        count /= step
        power += 1
    return f"{count:.3g} {units[power]}" if count < 1000 else f"{count:,.0f} {units[power]}"
