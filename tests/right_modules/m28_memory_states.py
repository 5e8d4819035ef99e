"""Decoder to encoder: the memory has a width of its own and a mask of real positions."""

from torch import Tensor, nn


class MemoryAttention(nn.Module):
    """Cross-attention from a decoder to the memory of an encoder."""

    def __init__(self, d_model: int, d_memory: int, num_heads: int):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} is no multiple of num_heads {num_heads}")
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_memory, d_model)
        self.value = nn.Linear(d_memory, d_model)
        self.output = nn.Linear(d_model, d_model)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, query_states: Tensor, memory_states: Tensor, memory_mask: Tensor | None = None) -> Tensor:
        """
        query_states: (B, T, d_model)
        memory_states: (B, S, d_memory)
        memory_mask: bool (B, S), True = this memory position may be looked at
        """
        q = self._heads(self.query(query_states))
        k = self._heads(self.key(memory_states))
        v = self._heads(self.value(memory_states))
        allowed = None if memory_mask is None else memory_mask[:, None, None, :]
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.output(y.transpose(1, 2).flatten(2))
