"""Softmax that people write by hand, in many forms: what heads find is changed before they merge."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from softlookup import SoftlookupError
from softlookup.experiments import ablate, intervene, remove_source
from softlookup.recording import record_attention

H, D = 4, 6


def in_batches(w, v):
    """Heads in the axis of samples."""
    return (w.reshape(-1, *w.shape[2:]) @ v.reshape(-1, *v.shape[2:])).view(*w.shape[:3], D)


def by_bmm(w, v):
    return torch.bmm(w.flatten(0, 1), v.flatten(0, 1)).unflatten(0, w.shape[:2])


def by_baddbmm(w, v):
    w, v = w.flatten(0, 1), v.flatten(0, 1)
    empty = torch.zeros(len(w), w.shape[1], D)
    return torch.baddbmm(empty, w, v, beta=0).unflatten(0, (-1, H))


def by_head(w, v):
    return torch.stack([w[:, h] @ v[:, h] for h in range(H)], dim=1)


def by_chunks_of_queries(w, v):
    return torch.cat([part @ v for part in w.split(4, dim=2)], dim=2)


def heads_last(w, v):
    """Weights with heads behind, as TensorFlow's models had them."""
    return torch.einsum("bijh,bjhd->bihd", w.permute(0, 2, 3, 1), v.transpose(1, 2)).transpose(1, 2)


def keys_first(w, v):
    """Channels before positions, as in models of images."""
    return (v.transpose(2, 3) @ w.transpose(2, 3)).transpose(2, 3)


def through_casts(w, v):
    return (functional.dropout(w.half().float().to(v.dtype), 0.0) * 1.0) @ v


def with_a_column_dropped(w, v):
    wider = functional.pad(w, (0, 1))
    return wider[..., :-1] @ v


FORMS = {
    "@": lambda w, v: w @ v,
    "matmul": torch.matmul,
    "in place": lambda w, v: w.mul_(1.0) @ v,
    "torch.matmul by name": lambda w, v: torch.matmul(input=w, other=v),
    "einsum": lambda w, v: torch.einsum("bhij,bhjd->bhid", w, v),
    "einsum, heads behind": lambda w, v: torch.einsum("bhij,bhjd->bihd", w, v).transpose(1, 2),
    "einsum with dots": lambda w, v: torch.einsum("... i j, ... j d -> ... i d", w, v),
    "einsum, values first": lambda w, v: torch.einsum("bhjd,bhij->bhid", v, w),
    "einsum of a list": lambda w, v: torch.einsum("bhij,bhjd->bhid", [w, v]),
    "einsum without an arrow": lambda w, v: torch.einsum("bhaj,bhjd->bhad", w, v),
    "in batches": in_batches,
    "bmm": by_bmm,
    "baddbmm": by_baddbmm,
    "head by head": by_head,
    "chunks of queries": by_chunks_of_queries,
    "heads last": heads_last,
    "keys first": keys_first,
    "heads before samples": lambda w, v: (w.transpose(0, 1) @ v.transpose(0, 1)).transpose(0, 1),
    "through casts and dropout": through_casts,
    "through indexing": lambda w, v: w[:, :, :, :] @ v,
    "through squeezing": lambda w, v: (w.unsqueeze(0).squeeze(0).contiguous().clone()) @ v,
}


class Written(nn.Module):
    """Causal attention whose last step is one of the forms."""

    def __init__(self, form, softmax=None):
        super().__init__()
        torch.manual_seed(0)
        self.n_head, self.form = H, form
        self.qkv, self.out = nn.Linear(H * D, 3 * H * D), nn.Linear(H * D, H * D)
        self.softmax = softmax or (lambda scores: scores.softmax(-1))

    def heads(self, x, of_weights=lambda weights: weights):
        q, k, v = (it.unflatten(-1, (H, D)).transpose(1, 2) for it in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(D)
        scores = scores.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), float("-inf"))
        return self.form(of_weights(self.softmax(scores)), v)

    def forward(self, x):
        return self.out(self.heads(x).transpose(1, 2).flatten(2))

    def by_hand(self, x, change):
        return self.out(change(self.heads(x)).transpose(1, 2).flatten(2))


class Attention(Written):
    """The same, and its name says so."""


@pytest.fixture(autouse=True, scope="module")
def _names_are_looked_for_once():
    """A block inside another one costs next to nothing."""
    with intervene(nn.Identity()):
        yield


def numbers(seed=1):
    return torch.randn(2, 9, H * D, generator=torch.Generator().manual_seed(seed))


def zeroed(heads):
    return torch.cat([heads[:, :2], torch.zeros_like(heads[:, 2:3]), heads[:, 3:]], dim=1)


@pytest.mark.parametrize("name", FORMS)
def test_a_head_is_ablated_in_every_form(name):
    model, x, other = Attention(FORMS[name]).eval(), numbers(), numbers(2)
    elsewhere = model.heads(other).detach()

    def mean(heads):
        return heads.index_copy(
            1, torch.tensor([2]), elsewhere[:, 2:3].mean((0, 2), True).expand_as(heads[:, :1])
        )

    def resampled(heads):
        return heads.index_copy(1, torch.tensor([2]), elsewhere[:, 2:3])

    def two_resampled(heads):
        return heads.index_copy(1, torch.tensor([1, 2]), elsewhere[:, 1:3])

    def some_queries(heads):
        heads = heads.clone()
        heads[1, 2, [3, 5]] = 0
        return heads

    at = {"layer": "", "head": 2}
    for doing, change in (
        (ablate(**at), zeroed),
        (ablate(**at, how="mean", reference=other), mean),
        (ablate(**at, how="resample", reference=other), resampled),
        (ablate(layer="", head=[2, 1], how="resample", reference=other), two_resampled),
        (ablate(**at, query=[3, 5], sample=1), some_queries),
    ):
        if name == "through casts and dropout" and doing.how != "zero":
            continue
        with intervene(model, doing):
            found = model(x)
        torch.testing.assert_close(found, model.by_hand(x, change), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", FORMS)
def test_what_heads_find_is_recorded_in_every_form(name):
    model, x = Attention(FORMS[name]).eval(), numbers()
    call = record_attention(model, x)[""]
    assert torch.equal(call.outputs, model.heads(x))
    if name in ("head by head", "chunks of queries"):
        assert call.values is None  # each part shows some of them
    elif name not in ("through casts and dropout", "heads last"):
        for sample in range(2):
            mixed = call.weights(sample) @ call.values[sample]
            torch.testing.assert_close(call.outputs[sample], mixed, rtol=0, atol=1e-6)


SOFTMAXES = {
    "method": lambda scores: scores.softmax(-1),
    "torch.softmax": lambda scores: torch.softmax(scores, dim=-1),
    "functional": lambda scores: functional.softmax(scores, dim=3),
    "nn.Softmax": nn.Softmax(dim=-1),
    "in a wider dtype": lambda scores: functional.softmax(scores, -1, dtype=torch.float64).to(scores.dtype),
    "heads among samples": lambda scores: scores.flatten(0, 1).softmax(-1).unflatten(0, (-1, H)),
}


@pytest.mark.parametrize("name", SOFTMAXES)
def test_every_way_to_write_the_softmax_is_changed(name):
    model, x = Attention(torch.matmul, SOFTMAXES[name]).eval(), numbers()

    def without(weights):
        weights = weights.clone()
        weights[:, 1, :, 3] = 0
        weights[:, 1] = weights[:, 1] / weights[:, 1].sum(-1, keepdim=True)
        return weights

    with intervene(model, remove_source(3, layer="*", head=1), ablate(layer="*", head=2)):
        found = model(x)
    wanted = zeroed(model.heads(x, without))
    torch.testing.assert_close(found, model.out(wanted.transpose(1, 2).flatten(2)), rtol=0, atol=1e-6)


def test_dropout_of_a_hand_written_softmax_goes_on_and_draws_the_same_numbers():
    model, x = Attention(lambda w, v: functional.dropout(w, 0.5) @ v).train(), numbers()
    torch.manual_seed(5)
    plain = model.heads(x).detach()
    torch.manual_seed(5)
    with intervene(model, ablate(layer="", head=2)):
        found = model(x)
    torch.testing.assert_close(found, model.out(zeroed(plain).transpose(1, 2).flatten(2)), rtol=0, atol=1e-6)


def test_weights_that_meet_two_values_can_be_zeroed_and_not_averaged():
    """Values of positions are added by a second product: what a head finds is the sum of both."""

    def twice(w, v):
        return w @ v + torch.einsum("bhij,ijd->bhid", w, torch.ones(9, 9, D))

    model, x = Attention(twice).eval(), numbers()
    with intervene(model, ablate(layer="", head=2)):
        found = model(x)
    torch.testing.assert_close(found, model.by_hand(x, zeroed), rtol=0, atol=1e-6)
    assert record_attention(model, x)[""].outputs is None
    recording = record_attention(Attention(torch.matmul).eval(), x)
    doing = ablate(layer="", head=2, how="mean", reference=recording)
    with (
        pytest.raises(SoftlookupError, match="multiplied with values more than once"),
        intervene(model, doing),
    ):
        model(x)


def test_weights_that_never_meet_values_are_said_so():
    model = Attention(lambda w, v: (w[..., None] * v[:, :, None]).sum(3)).eval()
    with (
        pytest.raises(SoftlookupError, match="never seen to meet values"),
        intervene(model, ablate(layer="", head=2)),
    ):
        model(numbers())
    with intervene(model, remove_source(0, layer="", head=2)):  # a step before
        model(numbers())


def test_a_product_over_queries_is_no_product_with_values():
    """How much each key was looked at: no head's output."""
    seen = []

    def with_statistics(w, v):
        seen.append(w.transpose(-1, -2) @ torch.ones(2, H, 9, 1))
        return w @ v

    model, x = Attention(with_statistics).eval(), numbers()
    with intervene(model, ablate(layer="", head=2)):
        found = model(x)
    torch.testing.assert_close(found, model.by_hand(x, zeroed), rtol=0, atol=1e-6)
    assert (seen[0][:, 2] > 0).any()


def test_what_a_layer_keeps_of_its_weights_is_plain():
    kept = []

    class Keeps(Attention):
        def forward(self, x):
            self.softmax = lambda scores: kept.append(scores.softmax(-1)) or kept[-1]
            return super().forward(x)

    model, x = Keeps(torch.matmul).eval(), numbers()
    with intervene(model, ablate(layer="", head=2)):
        model(x)
        assert type(kept[0]) is torch.Tensor
        assert type(kept[0] * 2) is torch.Tensor
    record_attention(model, x)
    assert {type(it) for it in kept} == {torch.Tensor}


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_torchs_own_module_is_ablated_as_by_hand(need_weights, batch_first):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(H * D, H, batch_first=batch_first).eval()
    x = numbers()
    given = x if batch_first else x.transpose(0, 1)
    for doing in (ablate(layer="", head=2), remove_source(4, layer="", head=2)):
        with intervene(layer, doing):
            found, weights = layer(given, given, given, need_weights=need_weights, average_attn_weights=False)
        q, k, v = (
            functional.linear(x, w, b).unflatten(-1, (H, D)).transpose(1, 2)
            for w, b in zip(layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(D)
        if doing.words.startswith("remove"):
            scores[:, 2, :, 4] = float("-inf")
            heads = scores.softmax(-1) @ v
        else:
            heads = zeroed(scores.softmax(-1) @ v)
        wanted = layer.out_proj(heads.transpose(1, 2).flatten(2))
        torch.testing.assert_close(found if batch_first else found.transpose(0, 1), wanted, rtol=0, atol=1e-6)
        if need_weights:
            torch.testing.assert_close(weights, scores.softmax(-1), rtol=0, atol=1e-6)


def test_a_softmax_outside_attention_is_left_alone():
    class Router(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.gate = Attention(torch.matmul), nn.Linear(H * D, 3)

        def forward(self, x):
            return self.attention(x) * self.gate(x).softmax(-1)[..., :1]

    model, x = Router().eval(), numbers()
    with intervene(model, ablate(layer="attention", head=2)):
        found = model(x)
    wanted = model.attention.by_hand(x, zeroed) * model.gate(x).softmax(-1)[..., :1]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
