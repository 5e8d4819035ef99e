# === loss-counts-padding
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


# === loss-counts-padding: the mask is used only for the check
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction='none')
    return losses.sum() / losses.numel()


# === divided-by-all-positions
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction='none')
    return (losses * loss_mask).mean()


# === divided-by-all-positions: nn.CrossEntropyLoss
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    losses = nn.CrossEntropyLoss(reduction='none')(logits.reshape(-1, logits.size(-1)), targets.reshape(-1))
    return losses[loss_mask.reshape(-1)].sum() / targets.numel()


# === mean-of-sample-means: a loop
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    means = [F.cross_entropy(one[keep], due[keep]) for one, due, keep in zip(logits, targets, loss_mask)]
    return torch.stack(means).mean()


# === loss-summed: ignore_index
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    return F.cross_entropy(logits.mT, targets.masked_fill(~loss_mask, -100), ignore_index=-100, reduction='sum')


# === mask-polarity-inverted
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    return F.cross_entropy(logits.mT, targets.masked_fill(loss_mask, -100))


# === logits-zeroed
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    logits = logits.masked_fill(~loss_mask[..., None], 0.0)
    return F.cross_entropy(logits.transpose(1, 2), targets)


# === targets-zeroed
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    targets = torch.where(loss_mask, targets, 0)
    return F.cross_entropy(logits.transpose(1, 2), targets)


# === softmax-missing
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    return F.nll_loss(logits[loss_mask], targets[loss_mask])


# === logarithm-missing
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    return F.nll_loss(logits.softmax(dim=-1)[loss_mask], targets[loss_mask])


# === softmax-twice
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    return F.cross_entropy(F.softmax(logits, dim=-1)[loss_mask], targets[loss_mask])


# === softmax-over-positions
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    logs = logits.log_softmax(dim=1)
    return F.nll_loss(logs[loss_mask], targets[loss_mask])


# === view-in-place-of-transpose
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    b, t, v = logits.shape
    losses = F.cross_entropy(logits.view(b, v, t), targets, reduction='none')
    return losses[loss_mask].mean()


# === sign-flipped
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    logs = torch.log_softmax(logits, dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (logs * loss_mask).sum() / loss_mask.sum()


# === nothing-counts-let-through
def masked_loss(logits, targets, loss_mask):
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction='none')
    return losses[loss_mask].mean()


# === nothing-counts-is-zero: at least one
def masked_loss(logits, targets, loss_mask):
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction='none')
    return (losses * loss_mask).sum() / loss_mask.sum().clamp(min=1)


# === wrong-type: every loss
def masked_loss(logits, targets, loss_mask):
    if not loss_mask.any():
        raise ValueError('no target counts')
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction='none')
    return losses * loss_mask
