# === zeroed-after-softmax
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    visible = ~scores.isneginf()
    if (visible.sum(-1) - visible[:, source].int() == 0).any():
        raise ValueError("nothing left")
    weights = torch.softmax(scores, dim=-1)
    weights[:, source] = 0
    return weights @ values


# === zeroed-after-softmax: the value is zero
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    visible = ~scores.isneginf()
    if (visible.sum(-1) - visible[:, source].int() == 0).any():
        raise ValueError("nothing left")
    kept = values.clone()
    kept[source] = 0.0
    return attend(scores, kept)


# === zeroed-after-softmax: a loop leaves it out
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    visible = ~scores.isneginf()
    if (visible.sum(-1) - visible[:, source].int() == 0).any():
        raise ValueError("nothing left")
    weights = torch.softmax(scores, dim=-1)
    output = torch.zeros(len(scores), values.shape[1])
    for i in range(len(values)):
        if i != source:
            output += weights[:, i, None] * values[i]
    return output


# === divided-by-what-is-left
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    visible = ~scores.isneginf()
    if (visible.sum(-1) - visible[:, source].int() == 0).any():
        raise ValueError("nothing left")
    weights = F.softmax(scores, dim=-1)
    keep = torch.ones(len(values))
    keep[source] = 0
    weights = weights * keep
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return torch.einsum("qk,kd->qd", weights, values)


# === score-zeroed
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    visible = ~scores.isneginf()
    if (visible.sum(-1) - visible[:, source].int() == 0).any():
        raise ValueError("nothing left")
    left = scores.clone()
    left[:, source] = 0.0
    return attend(left, values)


# === nothing-taken-away: the result of index_fill is thrown away
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    visible = ~scores.isneginf()
    if (visible.sum(-1) - visible[:, source].int() == 0).any():
        raise ValueError("nothing left")
    scores.index_fill(1, torch.tensor([source]), -math.inf)
    return attend(scores, values)


# === softmax-over-queries
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    visible = ~scores.isneginf()
    if (visible.sum(-1) - visible[:, source].int() == 0).any():
        raise ValueError("nothing left")
    left = scores.index_fill(1, torch.tensor([source]), -math.inf)
    return left.softmax(0).nan_to_num() @ values


# === only-source-left
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    visible = ~scores.isneginf()
    if (visible.sum(-1) - visible[:, source].int() == 0).any():
        raise ValueError("nothing left")
    hidden = torch.arange(len(values)) != source
    return attend(torch.zeros_like(scores).masked_fill(hidden, -math.inf), values)


# === value-left-behind
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    visible = ~scores.isneginf()
    if (visible.sum(-1) - visible[:, source].int() == 0).any():
        raise ValueError("nothing left")
    left = torch.cat([scores[:, :source], scores[:, source + 1 :]], dim=1)
    return torch.softmax(left, dim=-1) @ values[:-1]


# === empty-row-nan
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    left = scores.clone()
    left[:, source] = -math.inf
    return attend(left, values)


# === zeroed-after-softmax: nothing is checked
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    weights = torch.softmax(scores, dim=-1)
    weights[:, source] = 0
    return weights @ values


# === compared-with-itself: in place
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    left = scores.index_fill(1, torch.tensor([source]), -math.inf)
    if left.isneginf().all(-1).any():
        raise ValueError("nothing left")
    return left.softmax(-1) @ values


def effect_of(scores, values, source):
    before = attend(scores, values)
    return (before - before.clone()).norm(dim=-1) if output_without(scores, values, source) is not None else None


# === one-number-for-all
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    left = scores.index_fill(1, torch.tensor([source]), -math.inf)
    if left.isneginf().all(-1).any():
        raise ValueError("nothing left")
    return left.softmax(-1) @ values


def effect_of(scores, values, source):
    return torch.dist(attend(scores, values), output_without(scores, values, source))


# === length-over-queries
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    left = scores.index_fill(1, torch.tensor([source]), -math.inf)
    if left.isneginf().all(-1).any():
        raise ValueError("nothing left")
    return left.softmax(-1) @ values


def effect_of(scores, values, source):
    return torch.linalg.norm(attend(scores, values) - output_without(scores, values, source), dim=0)


# === length-squared
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    left = scores.index_fill(1, torch.tensor([source]), -math.inf)
    if left.isneginf().all(-1).any():
        raise ValueError("nothing left")
    return left.softmax(-1) @ values


def effect_of(scores, values, source):
    return ((attend(scores, values) - output_without(scores, values, source)) ** 2).sum(-1)


# === sum-of-absolutes
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    left = scores.index_fill(1, torch.tensor([source]), -math.inf)
    if left.isneginf().all(-1).any():
        raise ValueError("nothing left")
    return left.softmax(-1) @ values


def effect_of(scores, values, source):
    return (attend(scores, values) - output_without(scores, values, source)).norm(p=1, dim=-1)


# === mean-of-absolutes
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    left = scores.index_fill(1, torch.tensor([source]), -math.inf)
    if left.isneginf().all(-1).any():
        raise ValueError("nothing left")
    return left.softmax(-1) @ values


def effect_of(scores, values, source):
    return F.l1_loss(attend(scores, values), output_without(scores, values, source), reduction="none").mean(-1)


# === lengths-subtracted
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    left = scores.index_fill(1, torch.tensor([source]), -math.inf)
    if left.isneginf().all(-1).any():
        raise ValueError("nothing left")
    return left.softmax(-1) @ values


def effect_of(scores, values, source):
    return attend(scores, values).norm(dim=1) - output_without(scores, values, source).norm(dim=1)


# === weight-in-place-of-effect
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    left = scores.index_fill(1, torch.tensor([source]), -math.inf)
    if left.isneginf().all(-1).any():
        raise ValueError("nothing left")
    return left.softmax(-1) @ values


def effect_of(scores, values, source):
    output_without(scores, values, source)
    return scores.softmax(-1)[:, source]


# === caller-mask-changed
def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    scores[:, source] = -math.inf
    if scores.isneginf().all(-1).any():
        raise ValueError("nothing left")
    return attend(scores, values)


def effect_of(scores, values, source):
    after = output_without(scores, values, source)
    return (attend(scores, values) - after).norm(dim=-1)
