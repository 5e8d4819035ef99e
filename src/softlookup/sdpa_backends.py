"""Which kernel F.scaled_dot_product_attention would run, and why the others refuse, found by asking PyTorch.

Nothing is looked up in a table: every kernel is tried alone on tiny tensors with the same properties (dtype,
width, groups of heads, mask, dropout, and the length modulo 64, on which alignment depends), and PyTorch says
why it refuses.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from softlookup.terms import SoftlookupError

#: Our name, PyTorch's, the first word of PyTorch's explanation, the switch that turns it off everywhere.
_KERNELS = (
    ("flash", SDPBackend.FLASH_ATTENTION, "flash", "flash_sdp_enabled"),
    ("memory-efficient", SDPBackend.EFFICIENT_ATTENTION, "memory", "mem_efficient_sdp_enabled"),
    ("cuDNN", SDPBackend.CUDNN_ATTENTION, "cudnn", "cudnn_sdp_enabled"),
    ("math", SDPBackend.MATH, "math", "math_sdp_enabled"),
)
_HEADER = re.compile(r"^(\w+).*kernel not used because", re.I)


@dataclass(frozen=True)
class Properties:
    """What the choice of a kernel depends on. Names as in the shapes: q [.., heads, tokens, head_dim]."""

    heads: int
    kv_heads: int
    tokens: int
    head_dim: int
    dtype: str
    causal: bool = False
    mask: bool = False
    dropout_p: float = 0.0


@dataclass(frozen=True)
class Choice:
    """The kernel that would run, and for every other one why it does not: refused, or passed over."""

    device: str
    chosen: str
    others: dict[str, str]


def choose_backend(properties: Properties, device: str = "cpu") -> Choice:
    """Return the kernel that PyTorch would pick on this device.

    A mask and ``causal`` together are asked as one mask: only some kernels accept both at once.

    Raises: SoftlookupError when the device is not there.

    >>> dropping = Properties(heads=4, kv_heads=4, tokens=16, head_dim=8, dtype="float32", dropout_p=0.1)
    >>> choose_backend(dropping).chosen
    'math'
    """
    q, k, v = _tiny_tensors(properties, device)
    mask = (
        torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device) if properties.mask else None
    )
    causal = properties.causal and mask is None
    grouped = properties.kv_heads != properties.heads
    number = torch._fused_sdp_choice(
        q, k, v, mask, properties.dropout_p, causal, scale=None, enable_gqa=grouped
    )
    picked = next((name for name, backend, _, _ in _KERNELS if backend.value == number), f"backend {number}")
    others = {}
    for name, backend, word, switch in _KERNELS:
        if name == picked:
            continue
        refusal = _try_alone(backend, word, (q, k, v, mask), (properties.dropout_p, causal, grouped))
        if refusal is not None:
            others[name] = "refuses: " + refusal
        elif not getattr(torch.backends.cuda, switch)():
            others[name] = "would run, but is switched off in torch.backends.cuda"
        else:
            others[name] = f"would run, but {picked} comes first"
    return Choice(device=str(q.device), chosen=picked, others=others)


def _tiny_tensors(properties: Properties, device: str) -> tuple[Tensor, Tensor, Tensor]:
    tokens = properties.tokens if properties.tokens <= 128 else 64 + properties.tokens % 64
    kv_heads = min(properties.kv_heads, 2)
    heads = kv_heads * (properties.heads // properties.kv_heads)
    try:
        q = torch.zeros(
            2, heads, tokens, properties.head_dim, dtype=getattr(torch, properties.dtype), device=device
        )
    except (RuntimeError, AssertionError) as error:
        raise SoftlookupError(
            f"cost: no tensor can be made on device {device!r}.",
            expected="a device that this PyTorch can use",
            got=str(error).splitlines()[0],
            hint="--device cpu",
        ) from error
    k = q.new_zeros(2, kv_heads, tokens, properties.head_dim)
    return q, k, k.clone()


def _try_alone(
    backend: SDPBackend,
    word: str,
    tensors: tuple[Tensor, Tensor, Tensor, Tensor | None],
    options: tuple[float, bool, bool],
) -> str | None:
    """Run this kernel and no other: None when it runs, else why it does not."""
    q, k, v, mask = tensors
    dropout_p, causal, grouped = options
    with warnings.catch_warnings(record=True) as said, sdpa_kernel(backend):
        warnings.simplefilter("always")
        try:
            torch_attention(q, k, v, mask, dropout_p, causal, enable_gqa=grouped)
        except RuntimeError as error:
            reasons = read_reasons([str(warning.message) for warning in said], word)
            if not reasons and q.device.type == "cpu" and word != "flash":
                return "it has no kernel for the CPU"
            return "; ".join(reasons) or str(error).splitlines()[0]
    return None


def read_reasons(messages: list[str], word: str) -> list[str]:
    """Return PyTorch's reasons against one kernel.

    They come as warnings: a header for each kernel, then the reasons against it.

    >>> said = ["Flash attention kernel not used because:", "Too wide."]
    >>> said += ["CuDNN attention kernel not used because:", "CuDNN attention has been runtime disabled."]
    >>> read_reasons(said, "flash")
    ['Too wide.']
    """
    reasons: list[str] = []
    about = ""
    for message in messages:
        message = re.sub(r"\s*\(Triggered internally at .*?\)\s*", " ", message, flags=re.S).strip()
        header = _HEADER.match(message)
        if header:
            about = header[1].lower()
        elif about == word and message not in reasons:
            reasons.append(message)
    return reasons
