"""The same parameters in our layers and in ``nn.MultiheadAttention``: where each one lies, read and written.

There, q, k and v of one width are packed into ``in_proj_weight`` [3 * d_model, d_model] in this order, and
kept as three tensors when kdim or vdim differ; the three biases are always packed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from softlookup.terms import SoftlookupError


def read_torch_module(module: nn.MultiheadAttention) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return how the module is built, and its parameters under our names.

    Raises: SoftlookupError when it is no nn.MultiheadAttention, or adds keys of its own.
    """
    if not isinstance(module, nn.MultiheadAttention):
        raise SoftlookupError(
            "from_torch: parameters are read from a layer of PyTorch.",
            expected="an nn.MultiheadAttention",
            got=type(module).__name__,
        )
    for name, present in (
        ("add_bias_kv", module.bias_k is not None),
        ("add_zero_attn", module.add_zero_attn),
    ):
        if present:
            raise SoftlookupError(
                f"from_torch: {name} adds a key that stands for no token; there is no such key here.",
                expected=f"nn.MultiheadAttention(..., {name}=False)",
                got=f"{name}=True",
            )
    weights = module.in_proj_weight
    q, k, v = (
        weights.chunk(3)
        if weights is not None
        else (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    )
    out = module.out_proj
    state = {"q_proj.weight": q, "k_proj.weight": k, "v_proj.weight": v, "out_proj.weight": out.weight}
    if module.in_proj_bias is not None:
        q_bias, k_bias, v_bias = module.in_proj_bias.chunk(3)
        state |= {
            "q_proj.bias": q_bias,
            "k_proj.bias": k_bias,
            "v_proj.bias": v_bias,
            "out_proj.bias": out.bias,
        }
    description = {
        "d_model": module.embed_dim,
        "num_heads": module.num_heads,
        "d_key": module.kdim,
        "d_value": module.vdim,
        "dropout": module.dropout,
        "bias": module.in_proj_bias is not None,
        "device": out.weight.device,
        "dtype": out.weight.dtype,
    }
    return description, {name: tensor.detach() for name, tensor in state.items()}


def write_torch_module(layer: Any) -> nn.MultiheadAttention:
    """Return an nn.MultiheadAttention with copies of the parameters of ``layer``, one of ours.

    Raises: SoftlookupError when key/value heads are shared: there, every query head has its own.
    """
    if layer.num_kv_heads != layer.num_heads:
        raise SoftlookupError(
            "to_torch: nn.MultiheadAttention gives every query head a key/value head of its own.",
            expected="num_kv_heads equal to num_heads",
            got=f"{layer.num_kv_heads} key/value heads for {layer.num_heads} query heads",
        )
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    has_bias = layer.q_proj.bias is not None
    module = nn.MultiheadAttention(
        layer.d_model,
        layer.num_heads,
        dropout=layer.dropout,
        bias=has_bias,
        kdim=layer.d_memory,
        vdim=layer.d_memory,
        batch_first=True,
        device=layer.q_proj.weight.device,
        dtype=layer.q_proj.weight.dtype,
    )
    state = {"out_proj.weight": layer.out_proj.weight}
    if layer.d_memory == layer.d_model:
        state["in_proj_weight"] = torch.cat([projection.weight for projection in projections])
    else:
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        state |= {name: projection.weight for name, projection in zip(names, projections, strict=True)}
    if has_bias:
        state["in_proj_bias"] = torch.cat([projection.bias for projection in projections])
        state["out_proj.bias"] = layer.out_proj.bias
    module.load_state_dict(state)
    return module.train(layer.training)
