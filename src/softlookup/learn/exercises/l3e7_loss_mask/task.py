"""3.7 The loss has a mask of its own.

Three masks are easily taken for each other. The data mask says which tokens of a batch are real; the attention
mask says who may look at whom; the loss mask says which targets count. Hiding a padded key does not take its
target out of the loss: the model would still be praised for predicting padding.
"""

import torch
import torch.nn.functional as F


def masked_loss(logits, targets, loss_mask):
    """Return the mean cross-entropy over the targets that count.

    logits: (B, T, V), before the softmax   targets: (B, T) integers   loss_mask: (B, T) boolean, True = counts

    Returns: one number; every target that counts has the same weight, whichever sample it is in

    Raises: ValueError when no target counts.
    """
    raise NotImplementedError("TODO: one loss for each target, then the mean of those that count")


if __name__ == "__main__":
    torch.manual_seed(0)
    targets = torch.tensor([[4, 2, 0, 0], [1, 3, 2, 4]])  # 0 is padding
    logits = torch.randn(2, 4, 5)
    logits[0, 2:, 0] += 9  # it predicts padding very well
    everything = torch.ones(2, 4, dtype=torch.bool)
    print("with padding:   ", masked_loss(logits, targets, everything))
    print("without padding:", masked_loss(logits, targets, targets != 0))
