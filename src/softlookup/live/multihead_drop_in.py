"""torch.nn.MultiheadAttention that runs ``attend``, and how it takes the place of those in a model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from softlookup.fused import attending
from softlookup.terms import SoftlookupError

_DOING = "AttendMultiheadAttention:"


class AttendMultiheadAttention(nn.MultiheadAttention):
    """Attend as ``torch.nn.MultiheadAttention`` does, by ``softlookup.attend``.

    Constructor, parameters, ``state_dict``, arguments and shapes are those of ``nn.MultiheadAttention``, and
    so are the results, but for this:

    - A query that may look at no key gets zeros before the output projection, and zero gradients, also where
      weights are asked for. PyTorch's returns NaN then, and its gradient is NaN in every sample.
    - Asking for weights does not change the output. They are those of before dropout.
    - ``is_causal`` is not trusted: ``attn_mask`` says who sees whom, as the flag requires it anyway.
    - Nested tensors are refused.

    Raises: SoftlookupError for masks of another shape, and as ``attend`` does.

    >>> import torch
    >>> layer = AttendMultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(3, 5, 8)
    >>> output, weights = layer(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    @wraps(nn.MultiheadAttention.__init__)  # type: ignore[misc]
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _keep_to_forward(self)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output [B, T_q, d_model], and the weights [B, T_q, T_k] or None.

        query: [B, T_q, d_model]   key: [B, T_k, kdim]   value: [B, T_k, vdim]; [T, B, ...] where the layer is
            not ``batch_first``, and without B for one sequence
        key_padding_mask: [B, T_k], bool (True = hidden) or float, added to the scores
        attn_mask: [T_q, T_k] or [B * H, T_q, T_k], bool (True = hidden) or float, added to the scores
        average_attn_weights: False keeps the heads of the weights: [B, H, T_q, T_k]

        Raises: SoftlookupError for masks of another shape, and as ``attend`` does.
        """
        if is_causal and attn_mask is None:
            raise SoftlookupError(
                f"{_DOING} is_causal says that attn_mask is causal.",
                expected="an attn_mask beside it",
                got="attn_mask=None",
                hint="nn.Transformer.generate_square_subsequent_mask(T)",
            )
        _refuse_nested(query, key, value)
        batched = query.dim() == 3
        if query is key is value:
            query = key = value = self._batch_first(query)
        else:
            query, key, value = map(self._batch_first, (query, key, value))
        if key_padding_mask is not None and not batched:
            key_padding_mask = key_padding_mask[None]
        mask = _merged(
            key_padding_mask, attn_mask, (query.shape[0], self.num_heads, query.shape[1], key.shape[1])
        )
        q, k, v = self._heads(query, key, value)
        mask = _showing_more(mask, k.shape[2] - key.shape[1])
        dropout_p = self.dropout if self.training else 0.0
        mixed = attending.attend(q, k, v, mask, dropout_p=dropout_p, empty_rows="zero")
        output = linear(mixed.transpose(1, 2).flatten(2), self.out_proj.weight, self.out_proj.bias)
        weights = None
        if need_weights:
            weights = _weights(q, k, mask)
            weights = weights.mean(dim=1) if average_attn_weights else weights
        if not batched:
            return output[0], None if weights is None else weights[0]
        return output if self.batch_first else output.transpose(0, 1), weights

    def _batch_first(self, tokens: Tensor) -> Tensor:
        """[B, T, d], [T, B, d] or [T, d] -> [B, T, d]."""
        if tokens.dim() == 2:
            return tokens[None]
        return tokens if self.batch_first else tokens.transpose(0, 1)

    def _heads(self, query: Tensor, key: Tensor, value: Tensor) -> Iterator[Tensor]:
        """[B, T, width] each -> q, k, v [B, H, T, d_head], with the layer's own keys at the end."""
        batch = query.shape[0]
        q, k, v = self._projected(query, key, value)
        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat([k, self.bias_k.expand(batch, -1, -1)], dim=1)
            v = torch.cat([v, self.bias_v.expand(batch, -1, -1)], dim=1)
        if self.add_zero_attn:
            k, v = pad(k, (0, 0, 0, 1)), pad(v, (0, 0, 0, 1))
        return (x.reshape(batch, -1, self.num_heads, self.head_dim).transpose(1, 2) for x in (q, k, v))

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        bias = self.in_proj_bias
        weights: tuple[Tensor, ...]
        if not _in_one_weight(self):
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        elif query is key is value:
            return linear(query, self.in_proj_weight, bias).chunk(3, dim=-1)
        else:
            weights = self.in_proj_weight.chunk(3)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        return tuple(map(linear, (query, key, value), weights, biases))


class use_attend(AbstractContextManager[list[str]]):  # noqa: N801  (called like a function)
    """Let every ``nn.MultiheadAttention`` of a model run ``attend``, with the very same parameters.

    model: any module; layers of a class of its own that is derived from ``nn.MultiheadAttention`` are left as
        they are, for nobody knows what they changed

    As a context manager it hands out the paths of the layers and restores them at the end, also after an
    exception. Called without ``with`` it stays until ``restore()``. ``nn.TransformerEncoderLayer`` in
    evaluation goes past its attention layer by one fused call, and ``nn.TransformerEncoder`` makes nested
    tensors for that; both take the plain way meanwhile. So what comes out at padded queries differs: the
    fused call of an encoder gives zeros there, or what attention gives.

    Raises: SoftlookupError when there is no such layer.

    >>> import torch
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    >>> with use_attend(model) as layers:
    ...     layers
    ['self_attn']
    """

    def __init__(self, model: nn.Module) -> None:
        found = {path: it for path, it in model.named_modules() if isinstance(it, nn.MultiheadAttention)}
        self._layers = {path: it for path, it in found.items() if type(it) is nn.MultiheadAttention}
        self._nesting: list[nn.TransformerEncoder] = []
        if not self._layers:
            raise SoftlookupError(
                "use_attend: there is no layer to replace.",
                expected="a model with torch.nn.MultiheadAttention",
                got=", ".join(f"{path or 'the model'}: {type(it).__name__}" for path, it in found.items())
                or "none",
            )
        for layer in self._layers.values():
            layer.__class__ = AttendMultiheadAttention
            _keep_to_forward(layer)
        for module in model.modules():
            if isinstance(module, nn.TransformerEncoder) and getattr(module, "use_nested_tensor", False):
                self._nesting.append(module)
                module.use_nested_tensor = False

    def __enter__(self) -> list[str]:
        return list(self._layers)

    def __exit__(self, *raised: object) -> None:
        self.restore()

    def restore(self) -> None:
        """Make the layers what they were; a second time it does nothing."""
        for layer in self._layers.values():
            layer.__class__ = nn.MultiheadAttention
            layer._qkv_same_embed_dim = _in_one_weight(layer)
        for encoder in self._nesting:
            encoder.use_nested_tensor = True
        self._layers, self._nesting = {}, []


def _in_one_weight(layer: nn.MultiheadAttention) -> bool:
    return bool(layer.kdim == layer.vdim == layer.embed_dim)


def _keep_to_forward(layer: nn.MultiheadAttention) -> None:
    """Close the way around ``forward``, which nn.TransformerEncoderLayer takes for layers that say this."""
    layer._qkv_same_embed_dim = False


def _refuse_nested(*tokens: Tensor) -> None:
    if any(x.is_nested for x in tokens):
        raise SoftlookupError(
            f"{_DOING} it takes no nested tensors.",
            expected="padded tensors",
            got="a nested tensor",
            hint="use_attend(model) also keeps nn.TransformerEncoder from making them",
        )


def _merged(padding: Tensor | None, mask: Tensor | None, sizes: tuple[int, int, int, int]) -> Tensor | None:
    """Return one mask [B or 1, H or 1, T_q or 1, T_k]: bool, True = may look, or float to be added.

    sizes: B, H, T_q, T_k

    Raises: SoftlookupError for another shape.
    """
    batch, heads, q_len, k_len = sizes
    parts = []
    if padding is not None:
        _check_shape("key_padding_mask", padding, {"[B, T_k]": (batch, k_len)})
        parts.append(padding[:, None, None, :])
    if mask is not None:
        shapes = {"[T_q, T_k]": (q_len, k_len), "[B * H, T_q, T_k]": (batch * heads, q_len, k_len)}
        _check_shape("attn_mask", mask, shapes)
        parts.append(mask[None, None] if mask.dim() == 2 else mask.reshape(batch, heads, q_len, k_len))
    if not parts:
        return None
    if all(part.dtype == torch.bool for part in parts):
        return ~(parts[0] if len(parts) == 1 else parts[0] | parts[1])
    added = [_added(part) if part.dtype == torch.bool else part for part in parts]
    return added[0] if len(added) == 1 else added[0] + added[1]


def _weights(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    """[B, H, T_q, T_k]: zeros for a query without keys, whose gradient is zero too. No branch on values.

    No softmax is called: a watch would take it for a second call of attention.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is None:
        return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
    hidden = ~mask if mask.dtype == torch.bool else mask == -math.inf
    if mask.dtype != torch.bool:
        scores = scores + mask.masked_fill(hidden, 0.0)
    no_key = hidden.all(dim=-1, keepdim=True)  # shares of nothing are NaN: such a query sees all, for now
    scores = scores.masked_fill(hidden & ~no_key, -math.inf)
    return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp().masked_fill(no_key, 0.0)


def _check_shape(name: str, mask: Tensor, shapes: dict[str, tuple[int, ...]]) -> None:
    if tuple(mask.shape) not in shapes.values():
        raise SoftlookupError(
            f"{_DOING} {name} does not fit.",
            expected=" or ".join(f"{what} = {list(shape)}" for what, shape in shapes.items()),
            got=str(list(mask.shape)),
        )


def _added(hidden: Tensor) -> Tensor:
    return torch.zeros(hidden.shape, device=hidden.device).masked_fill(hidden, -math.inf)


def _showing_more(mask: Tensor | None, more: int) -> Tensor | None:
    """Show the layer's own keys at the end to every query."""
    if mask is None or more == 0:
        return mask
    return pad(mask, (0, more), value=True if mask.dtype == torch.bool else 0.0)
