"""Multi-head attention: the lookup of ``attention.py`` between four linear layers, written as named steps.

    q, k, v = project(x)                      what I look for, how I am found, what I carry
    heads   = split_heads(q), ...             d_model becomes num_heads pieces of d_head, not num_heads copies
    context = scaled_dot_product_attention    every head looks up for itself
    output  = project_out(merge_heads(context))

Each step is a method, so that one step can be replaced in a subclass.

Source: section 3.2.2 of Vaswani et al. 2017, "Attention Is All You Need", arXiv 1706.03762.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from softlookup.attention import scaled_dot_product_attention
from softlookup.attention_inputs import check_options
from softlookup.multihead_inputs import check_sizes, check_tokens, with_four_axes
from softlookup.portable_weights import read_torch_module, write_torch_module
from softlookup.terms import MaskLike, SoftlookupError

if TYPE_CHECKING:
    from typing_extensions import Self


def merge_heads(context: Tensor) -> Tensor:
    """[B, H, T, d_head] -> [B, T, H * d_head]: tokens first again, then the heads of each side by side."""
    B, H, T, d_head = context.shape
    return context.transpose(1, 2).contiguous().view(B, T, H * d_head)


class _ProjectedAttention(nn.Module):
    """What self- and cross-attention share: everything but where keys and values come from."""

    def __init__(self, d_model: int, num_heads: int, d_memory: int, dropout: float, **options: Any) -> None:
        super().__init__()
        num_kv_heads: int | None = options.pop("num_kv_heads")
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_sizes(type(self).__name__, d_model, num_heads, num_kv_heads)
        check_options(dropout_p=dropout)
        self.d_model = d_model
        self.d_memory = d_memory
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.d_head = d_model // num_heads
        self.dropout = dropout
        d_kv = num_kv_heads * self.d_head  # d_model unless key/value heads are shared
        self.q_proj = nn.Linear(d_model, d_model, **options)
        self.k_proj = nn.Linear(d_memory, d_kv, **options)
        self.v_proj = nn.Linear(d_memory, d_kv, **options)
        self.out_proj = nn.Linear(d_model, d_model, **options)

    def project(self, queries_from: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[B, T_q, d_model], [B, T_k, d_memory] -> q [B, T_q, d_model], k and v [B, T_k, H_kv * d_head]."""
        return self.q_proj(queries_from), self.k_proj(memory), self.v_proj(memory)

    def split_heads(self, projected: Tensor) -> Tensor:
        """[B, T, heads * d_head] -> [B, heads, T, d_head]: cut each token, then bring the heads forward."""
        B, T, _ = projected.shape
        return projected.view(B, T, -1, self.d_head).transpose(1, 2)

    def merge_heads(self, context: Tensor) -> Tensor:
        """[B, H, T, d_head] -> [B, T, d_model]: the way back; view alone would mix heads with positions.

        Raises: SoftlookupError when context has another number or width of heads.
        """
        if context.dim() != 4 or context.shape[1] != self.num_heads or context.shape[3] != self.d_head:
            raise SoftlookupError(
                "merge_heads: the heads do not fit together to d_model.",
                expected=f"[B, {self.num_heads}, T, {self.d_head}]",
                got=f"shape {tuple(context.shape)}",
                sizes={"d_model": self.d_model, "num_heads": self.num_heads, "d_head": self.d_head},
            )
        return merge_heads(context)

    def project_out(self, merged: Tensor) -> Tensor:
        """[B, T, d_model] -> [B, T, d_model]: lets the heads exchange what they found."""
        output: Tensor = self.out_proj(merged)
        return output

    def _attend(
        self, queries_from: Tensor, memory: Tensor, mask: Tensor | MaskLike | None
    ) -> tuple[Tensor, Tensor]:
        q, k, v = self.project(queries_from, memory)  # [B, T_q, d_model], [B, T_k, H_kv * d_head] twice
        q = self.split_heads(q)  # [B, H, T_q, d_head]
        k = self.split_heads(k)  # [B, H_kv, T_k, d_head]
        v = self.split_heads(v)  # [B, H_kv, T_k, d_head]
        context, weights = scaled_dot_product_attention(  # [B, H, T_q, d_head], [B, H, T_q, T_k]
            q,
            k,
            v,
            mask,
            dropout_p=self.dropout if self.training else 0.0,
            enable_gqa=self.num_kv_heads != self.num_heads,
        )
        return self.project_out(self.merge_heads(context)), weights  # [B, T_q, d_model]

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> Self:
        """Return this layer with copies of the parameters of ``module``; for the same input, the same output.

        Tensors here are always batch first, also when ``module`` is not, and masks say True = allowed.

        Raises: SoftlookupError when the module does what this layer does not: add_bias_kv, add_zero_attn,
        other widths of keys and values.
        """
        description, state = read_torch_module(module)
        layer = cls._shaped_like(**description)
        layer.load_state_dict(state)
        return layer.train(module.training)

    @classmethod
    def _shaped_like(cls, *, d_model: int, num_heads: int, d_key: int, d_value: int, **options: Any) -> Self:
        raise NotImplementedError

    def to_torch(self) -> nn.MultiheadAttention:
        """Return an ``nn.MultiheadAttention(batch_first=True)`` with copies of these parameters.

        Its masks say True = blocked: hand it ``~allowed_mask``.

        Raises: SoftlookupError when key/value heads are shared (num_kv_heads < num_heads).
        """
        return write_torch_module(self)

    def extra_repr(self) -> str:
        """Say the sizes when the layer is printed."""
        shared = "" if self.num_kv_heads == self.num_heads else f", num_kv_heads={self.num_kv_heads}"
        return f"num_heads={self.num_heads}, d_head={self.d_head}{shared}, dropout={self.dropout}"


class MultiHeadAttention(_ProjectedAttention):
    """Self-attention in ``num_heads`` heads of width d_head = d_model / num_heads.

    The four projections hold all parameters: 4 * d_model^2 without biases, however many heads there are.
    ``num_kv_heads`` lets groups of query heads share a key/value head. Dropout acts on the weights, and only
    in training.

    Raises: SoftlookupError (a ValueError) when d_model is no multiple of num_heads, or num_heads no multiple
    of num_kv_heads.

    Source: section 3.2.2 of Vaswani et al. 2017, arXiv 1706.03762; shared key/value heads: Ainslie et al.
    2023, arXiv 2305.13245.

    >>> layer = MultiHeadAttention(d_model=32, num_heads=4)
    >>> causal = torch.ones(5, 5).tril().bool()
    >>> output, weights = layer(torch.randn(2, 5, 32), causal)
    >>> output.shape, weights.shape
    (torch.Size([2, 5, 32]), torch.Size([2, 4, 5, 5]))
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dropout: float = 0.0,
        *,
        num_kv_heads: int | None = None,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = {"num_kv_heads": num_kv_heads, "bias": bias, "device": device, "dtype": dtype}
        super().__init__(d_model, num_heads, d_model, dropout, **options)

    def forward(self, x: Tensor, attention_mask: Tensor | MaskLike | None = None) -> tuple[Tensor, Tensor]:
        """Let every token look at the tokens of its own sequence.

        x: [B, T, d_model]
        attention_mask: [T, T], [B, T, T] or 4 axes that broadcast to [B, H, T, T]: bool (True = may look),
            float (added to the scores), or a ``Mask``

        Returns: output [B, T, d_model] and weights [B, H, T, T].

        Raises: SoftlookupError for other shapes, and for a mask that leaves a token with nothing to look at.
        """
        check_tokens("x", x, self.d_model)
        sizes = {"B": len(x), "H": self.num_heads, "T": x.shape[1]}
        mask = with_four_axes(attention_mask, "T T", "B T T", sizes)
        return self._attend(x, x, mask)

    @classmethod
    def _shaped_like(cls, *, d_model: int, num_heads: int, d_key: int, d_value: int, **options: Any) -> Self:
        if (d_key, d_value) != (d_model, d_model):
            raise SoftlookupError(
                "MultiHeadAttention.from_torch: keys and values come from x, which has width d_model.",
                expected="kdim and vdim equal to embed_dim",
                got=f"kdim {d_key}, vdim {d_value}",
                sizes={"d_model": d_model},
                hint="CrossAttention.from_torch",
            )
        return cls(d_model, num_heads, **options)


class CrossAttention(_ProjectedAttention):
    """Attention from a target to a source: queries from one sequence, keys and values from the memory.

    d_memory: width of a source token; None is d_model. The other options are those of ``MultiHeadAttention``.

    Raises: SoftlookupError (a ValueError) when d_model is no multiple of num_heads, or num_heads no multiple
    of num_kv_heads.

    Source: section 3.2.3 of Vaswani et al. 2017, arXiv 1706.03762.

    >>> layer = CrossAttention(d_model=32, num_heads=4, d_memory=48)
    >>> output, weights = layer(torch.randn(2, 4, 32), torch.randn(2, 7, 48))
    >>> output.shape, weights.shape
    (torch.Size([2, 4, 32]), torch.Size([2, 4, 4, 7]))
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_memory: int | None = None,
        dropout: float = 0.0,
        *,
        num_kv_heads: int | None = None,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = {"num_kv_heads": num_kv_heads, "bias": bias, "device": device, "dtype": dtype}
        super().__init__(d_model, num_heads, d_model if d_memory is None else d_memory, dropout, **options)

    def forward(
        self, query_states: Tensor, memory_states: Tensor, memory_mask: Tensor | MaskLike | None = None
    ) -> tuple[Tensor, Tensor]:
        """Let every target token look at the source tokens.

        query_states: [B, T_target, d_model]
        memory_states: [B, T_source, d_memory]
        memory_mask: [B, T_source] (the source's padding), [B, T_target, T_source], or 4 axes that broadcast
            to [B, H, T_target, T_source]: bool (True = may look), float (added to the scores), or a ``Mask``

        Returns: output [B, T_target, d_model] and weights [B, H, T_target, T_source].

        Raises: SoftlookupError for other shapes, and for a mask that leaves a token with nothing to look at.
        """
        check_tokens("query_states", query_states, self.d_model)
        check_tokens("memory_states", memory_states, self.d_memory)
        sizes = {"B": len(query_states), "H": self.num_heads}
        sizes |= {"T_target": query_states.shape[1], "T_source": memory_states.shape[1]}
        mask = with_four_axes(memory_mask, "B T_source", "B T_target T_source", sizes)
        return self._attend(query_states, memory_states, mask)

    @classmethod
    def _shaped_like(cls, *, d_model: int, num_heads: int, d_key: int, d_value: int, **options: Any) -> Self:
        if d_key != d_value:
            raise SoftlookupError(
                "CrossAttention.from_torch: keys and values come from one memory.",
                expected="kdim equal to vdim",
                got=f"kdim {d_key}, vdim {d_value}",
                sizes={"d_model": d_model},
            )
        return cls(d_model, num_heads, d_key, **options)
