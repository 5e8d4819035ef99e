# === hidden-scores-counted
def largest_score(scores, allowed_mask):
    return float(scores.abs().amax())


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === sign-kept
def largest_score(scores, allowed_mask):
    seen = scores[allowed_mask.expand(scores.shape)]
    return max(0.0, seen.max().item())


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === infinity-of-hidden
def largest_score(scores, allowed_mask):
    seen = torch.where(allowed_mask, scores, torch.tensor(-math.inf)).abs()
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === hidden-scores-only: the mask is read the other way
def largest_score(scores, allowed_mask):
    seen = scores.abs() * ~allowed_mask
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === scores-averaged
def largest_score(scores, allowed_mask):
    seen = scores[allowed_mask.broadcast_to(scores.shape)]
    return seen.abs().mean().item()


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === allowed-share
def largest_score(scores, allowed_mask):
    seen = scores.abs().masked_fill(~allowed_mask, 0.0)
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return allowed_mask.expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === hidden-counted-in-small-mask
def largest_score(scores, allowed_mask):
    seen = scores.abs().masked_fill(~allowed_mask, 0.0)
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return torch.count_nonzero(allowed_mask.logical_not()).item() / scores.numel()


def row_sum_error(weights):
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === zeros-counted: as in scores that are hidden already
def largest_score(scores, allowed_mask):
    seen = scores.abs().masked_fill(~allowed_mask, 0.0)
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return scores.isinf().float().mean().item()


def row_sum_error(weights):
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === columns-summed
def largest_score(scores, allowed_mask):
    seen = scores.abs().masked_fill(~allowed_mask, 0.0)
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return (weights.sum(dim=2) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === too-little-not-seen
def largest_score(scores, allowed_mask):
    seen = scores.abs().masked_fill(~allowed_mask, 0.0)
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return max((torch.einsum("bhqk->bhq", weights) - 1).flatten().tolist())


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === too-much-makes-up-for-too-little
def largest_score(scores, allowed_mask):
    seen = scores.abs().masked_fill(~allowed_mask, 0.0)
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return abs(weights.sum().item() / weights[..., 0].numel() - 1)


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === first-sample-only
def largest_score(scores, allowed_mask):
    seen = scores.abs().masked_fill(~allowed_mask, 0.0)
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return (weights[0].sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


# === largest-allowed
def largest_score(scores, allowed_mask):
    seen = scores.abs().masked_fill(~allowed_mask, 0.0)
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(~allowed_mask, 0.0).max().item()


# === only-future-looked-at
def largest_score(scores, allowed_mask):
    seen = scores.abs().masked_fill(~allowed_mask, 0.0)
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return torch.triu(weights, diagonal=1).max().item()


# === stops-where-nothing-is-hidden
def largest_score(scores, allowed_mask):
    seen = scores.abs().masked_fill(~allowed_mask, 0.0)
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    return weights[~allowed_mask.expand_as(weights)].max().item()
