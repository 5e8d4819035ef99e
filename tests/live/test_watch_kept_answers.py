"""A mask that every layer asks is read once for all of them, and again after it was written to."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from softlookup import watch
from softlookup.live import kept_answers

T = 6


class Layer(nn.Module):
    def forward(self, x, allowed_mask):
        return x + scaled_dot_product_attention(x, x, x, attn_mask=allowed_mask)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.ModuleList([Layer(), Layer(), Layer()])

    def forward(self, x, masks):
        for layer, mask in zip(self.attention, masks, strict=True):
            x = layer(x, mask)
        return x


@pytest.fixture
def times_read(monkeypatch):
    times = []
    read = kept_answers.read_seen
    monkeypatch.setattr(kept_answers, "read_seen", lambda *given: times.append(1) or read(*given))
    return times


def visible(masks, between=lambda: None):
    """How many pairs the watch says each layer sees, and the model's masks may be changed on the way."""
    model, x = Model(), torch.randn(1, 2, T, 4)

    def after_the_first(module, args, output):
        between()  # what a hook returns would stand for the output

    model.attention[0].register_forward_hook(after_the_first)
    with watch(model) as trace, torch.no_grad():
        model(x, masks)
    return [int(it.statistics.visible_pairs[0, 0]) for it in trace.records]


def lower(dtype=torch.bool):
    seen = torch.ones(T, T).tril().bool()
    return seen if dtype == torch.bool else torch.zeros(T, T).masked_fill(~seen, torch.finfo(dtype).min)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_one_mask_of_all_layers_is_read_once(times_read, dtype):
    mask = lower(dtype)
    assert visible([mask, mask, mask[None][0]]) == [21, 21, 21]
    assert len(times_read) == 1


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_a_mask_that_is_written_to_between_layers_is_read_again(dtype):
    mask = lower(dtype)
    assert visible([mask, mask, mask], between=lambda: mask.fill_(dtype == torch.bool)) == [21, 36, 36]


def test_another_mask_of_the_same_shape_is_another_mask():
    assert visible([lower(), torch.ones(T, T, dtype=torch.bool), lower()]) == [21, 36, 21]


def test_a_mask_whose_memory_is_used_again_is_not_taken_for_the_last_one():
    def masks():
        for n in range(3):  # each is gone before the next is made
            yield torch.arange(T)[None].expand(T, T) <= n

    class Lazy(Model):
        def forward(self, x, masks):
            for layer in self.attention:
                x = layer(x, next(masks))
            return x

    model = Lazy()
    with watch(model) as trace, torch.no_grad():
        model(torch.randn(1, 2, T, 4), masks())
    assert [int(it.statistics.visible_pairs[0, 0]) for it in trace.records] == [T, 2 * T, 3 * T]


def test_no_mask_is_held_after_the_watch_nor_into_the_next_step():
    model, x, mask = Model(), torch.randn(1, 2, T, 4), lower()
    held = weakref.ref(mask)
    with watch(model), torch.no_grad():
        model(x, [mask] * 3)
        del mask
        other = lower()
        model(x, [other] * 3)
        gc.collect()
        assert held() is None
        held = weakref.ref(other)
    del other
    gc.collect()
    assert held() is None


def test_masks_of_inference_mode_have_no_version_and_are_read_each_time():
    with torch.inference_mode():
        assert visible([lower()] * 3) == [21, 21, 21]
