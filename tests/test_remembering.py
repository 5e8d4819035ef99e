"""What is remembered of a mask in a transform of torch.func serves all calls when the transform has ended."""

import pytest
import torch

from softlookup import attend, masks, observe, scaled_dot_product_attention

T = 40
MASKS = [
    lambda: masks.sliding_window(9),
    lambda: masks.sliding_window(9) | masks.padding(2),
    lambda: masks.causal("bottom-right") & masks.padding([T, 30]),
    lambda: masks.prefix_lm([3, 20]),
    lambda: masks.dilated(5, 2),
    lambda: masks.alibi(2),
]
each_mask = pytest.mark.parametrize("build", MASKS)


def tensors():
    torch.manual_seed(0)
    return torch.randn(3, 2, 2, T, 8)


@each_mask
@pytest.mark.parametrize("transform", ["grad", "vmap", "vmap of grad", "vjp"])
def test_attend_first_met_in_a_transform_answers_alike_afterwards(build, transform):
    (q, k, v), mask = tensors(), build()

    def summed(q):
        return attend(q, k, v, mask).sum()

    if transform == "grad":
        torch.func.grad(summed)(q)
    elif transform == "vmap":
        torch.vmap(lambda q: attend(q, k, v, mask))(torch.stack([q, q]))
    elif transform == "vmap of grad":
        torch.vmap(torch.func.grad(summed))(torch.stack([q, q]))
    else:
        torch.func.vjp(summed, q)
    wanted, _ = scaled_dot_product_attention(q, k, v, mask)
    torch.testing.assert_close(attend(q, k, v, mask), wanted, rtol=1e-5, atol=1e-6)
    leaf = q.clone().requires_grad_()
    attend(leaf, k, v, mask).sum().backward()
    assert leaf.grad.isfinite().all()
    compiled = torch.compile(lambda q: attend(q, k, v, mask), fullgraph=True, backend="aot_eager")
    with torch.no_grad():  # where a tensor of a transform that has ended cannot be read
        torch.testing.assert_close(compiled(q), wanted, rtol=1e-5, atol=1e-6)


@each_mask
def test_observe_first_met_in_a_transform_answers_alike_afterwards(build):
    (q, k, v), mask = tensors(), build()
    torch.func.grad(lambda q: observe(q, k, v, mask)[0].sum())(q)
    _, found = observe(q, k, v, mask)
    _, wanted = observe(q, k, v, build())
    assert torch.equal(found.entropy_nats, wanted.entropy_nats)
    assert torch.equal(found.distance_tokens, wanted.distance_tokens)
