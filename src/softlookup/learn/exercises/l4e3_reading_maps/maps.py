"""Small maps in which a fact holds, or barely does not: a row for each query, a column for each key."""

import torch

from softlookup.learn.outcomes import Given

_RIGHT = torch.tensor([[1.0, 0, 0], [0.4, 0.6, 0], [0.2, 0.3, 0.5]])
_UP = torch.tensor([[0.2, 0.3, 0.5], [0, 0.6, 0.4], [0, 0, 1.0]])  # only looks ahead, and rows sum to one
_AHEAD = torch.tensor([[0.9, 0.1, 0], [0.4, 0.6, 0], [0.2, 0.3, 0.5]])  # one key too far
_FAR = torch.tensor([[0.9, 0, 0.1], [0.4, 0.6, 0], [0.2, 0.3, 0.5]])
_TRACE = torch.tensor([[1.0, 1e-9, 0], [0.4, 0.6, 0], [0.2, 0.3, 0.5]])
_COLUMNS = torch.tensor([[0.5, 0, 0.3], [0.3, 0.6, 0.3], [0.2, 0.4, 0.4]])  # columns sum to one
_CHANCE = torch.tensor([[1.0, 0, 0], [0.5, 0.9, 0], [0.1, 0, 0.5]])  # rows of 1, 1.4 and 0.6
_LOST = torch.tensor([[1.0, 0, 0], [0.4, 0.2, 0], [0.2, 0.3, 0.495]])
_NOWHERE_ONE = torch.tensor([[0.8, 0, 0], [0.4, 0.9, 0], [0.2, 0.3, 0.3]])
_CLOSELY = torch.tensor([[1.0, 0, 0], [0.4, 0.6, 0], [0.2, 0.3, 0.495]])
_ROUNDED = torch.tensor([[0.333333, 0.333333, 0.333333], [0.7, 0.1, 0.2], [0.6, 0.3, 0.1000001]])

_END = torch.tensor([True, True, False])
_FRONT = torch.tensor([False, True, True])
_NONE = torch.tensor([True, True, True])
_NO_END = torch.tensor([[1.0, 0, 0], [0.4, 0.6, 0], [0.3, 0.7, 0]])
_NO_FRONT = torch.tensor([[0, 0.5, 0.5], [0, 1.0, 0], [0, 0.4, 0.6]])
_END_ROW = torch.tensor([[1.0, 0, 0], [0.4, 0.6, 0], [0, 0, 0]])
_END_TRACE = torch.tensor([[1.0, 0, 1e-9], [0.4, 0.6, 0], [0.3, 0.7, 0]])
_END_SEEN = torch.tensor([[0.5, 0, 0.5], [0.4, 0.4, 0.2], [0, 0, 0]])


def _heads(*maps):
    """Return them as the heads of one sample: (1, H, T, T)."""
    return torch.stack(maps)[None]


FOR_ROWS = (
    *(Given(it) for it in (_RIGHT, _COLUMNS, _LOST, _CHANCE, _NOWHERE_ONE, _CLOSELY, _UP, _ROUNDED)),
    Given(_heads(_RIGHT, _LOST)),
    Given(_heads(_RIGHT, _UP)),
)
FOR_FUTURE = (
    *(Given(it) for it in (_RIGHT, _UP, _AHEAD, _FAR, _TRACE, _RIGHT.diag().diag())),
    Given(_heads(_RIGHT, _AHEAD)),
    Given(_heads(_RIGHT, _NO_END)),
)
FOR_PADDING = (
    Given(_NO_END, _END),
    Given(_RIGHT, _END),
    Given(_NO_FRONT, _FRONT),
    Given(_RIGHT, _FRONT),
    Given(_END_ROW, _END),
    Given(_END_SEEN, _END),
    Given(_RIGHT, _NONE),
    Given(_END_TRACE, _END),
    Given(_heads(_NO_END, _RIGHT), _END),
)
