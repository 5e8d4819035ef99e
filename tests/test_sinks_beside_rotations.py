"""A learned sink and rotary positions in one module: each hides the other until both are assumed."""

import torch
from torch import nn

import softlookup

H, D = 3, 8


class SinksAndRotation(nn.Module):
    """Self-attention: queries and keys turn by their positions, a logit of each head joins the softmax.

    mask: [T, T] float, added to the scores: 0 or -inf
    """

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(H * D, H * D) for _ in range(4))
        self.sinks = nn.Parameter(torch.linspace(-1.0, 1.0, H))

    def forward(self, x, mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (H, D)).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = self.rotated(q) @ self.rotated(k).mT * D**-0.5
        if mask is not None:
            scores = scores + mask
        column = self.sinks[None, :, None, None].expand(*scores.shape[:-1], 1)
        weights = torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1]
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))

    def rotated(self, x):
        angles = torch.outer(torch.arange(x.shape[-2]), 10_000 ** (-torch.arange(0, D, 2) / D))
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-second, first], dim=-1) * sin


class TurnsQueriesOnly(SinksAndRotation):
    __doc__ = SinksAndRotation.__doc__

    def forward(self, x, mask=None):
        self.asked = 0
        return super().forward(x, mask)

    def rotated(self, x):
        self.asked += 1
        return super().rotated(x) if self.asked == 1 else x


def checked(module):
    torch.manual_seed(0)
    return softlookup.check(module.eval())


def test_a_sink_beside_rotated_positions_is_right_and_both_are_noted():
    diagnosis = checked(SinksAndRotation())
    assert diagnosis.clean
    assert {"attention-sink", "rotary-positions"} <= {note.name for note in diagnosis.notes}


def test_a_sink_beside_a_rotation_of_the_queries_alone_is_not_right():
    assert not checked(TurnsQueriesOnly()).clean
