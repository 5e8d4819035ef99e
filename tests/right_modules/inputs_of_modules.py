"""What the proofs of the right modules are asked: seeded inputs, sizes, and masks whose True may be seen."""

from types import SimpleNamespace

import torch

B, T, S, H, H_KV, WIDTH, D, MEMORY = 3, 9, 7, 6, 3, 48, 8, 40

REAL = torch.arange(T) < torch.tensor([[5], [T], [7]])  # [B, T], padding on the right
REAL_S = torch.arange(S) < torch.tensor([[4], [S], [6]])
KEYS, KEYS_S = REAL[:, None, None], REAL_S[:, None, None]
TRIANGLE = torch.ones(T, T).bool().tril()
BACK = torch.arange(T)[:, None] - torch.arange(T)  # how far behind the query a key is
EARLIER = (BACK > 0) | (torch.arange(T * T).view(T, T) == 0)  # strictly causal; the first token sees itself
SPARSE = torch.arange(T) != torch.tensor(
    [[4], [0], [8]]
)  # so little padding that each window holds a real key
SIZES = SimpleNamespace(
    **dict.fromkeys(("n_embd", "hidden_size", "d_model", "width", "dim"), WIDTH),
    **dict.fromkeys(("n_head", "num_attention_heads", "n_heads", "num_heads"), H),
    **dict.fromkeys(("num_key_value_heads", "n_kv_heads"), H_KV),
    **dict.fromkeys(("head_dim", "d_head"), D),
    **dict.fromkeys(("block_size", "max_position_embeddings"), 20),
    **dict.fromkeys(
        ("dropout", "attn_pdrop", "resid_pdrop", "attention_probs_dropout_prob", "dropout_rate"), 0.25
    ),
    bias=True,
    query_pre_attn_scalar=12.0,
    attn_logit_softcapping=1.5,
    model=SimpleNamespace(width=WIDTH, attention=SimpleNamespace(heads=H, dropout=0.25)),
)


class Problem:
    """Seeded inputs of one dtype."""

    def __init__(self, dtype):
        generator = torch.Generator().manual_seed(7)
        draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)  # noqa: E731
        self.dtype = dtype
        self.x, self.y, self.z = draw(B, T, WIDTH), draw(B, S, WIDTH), draw(B, S, WIDTH)
        self.memory = draw(B, S, MEMORY)
        self.image = draw(B, WIDTH, 3, 3)
        self.bias = draw(1, H, T, T)

    def followed(self):
        """Ask for the gradients of the inputs, which are all that a module without weights has."""
        return [t.requires_grad_() for t in (self.x, self.y, self.z, self.memory, self.image)]
