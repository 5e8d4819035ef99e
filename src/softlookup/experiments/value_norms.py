"""How long the value of each key is, seen through the head's share of the output projection."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from softlookup.recording import RecordedCall

#: What output projections are called, inside an attention layer or in the module around it.
_NAMES = ("o_proj", "out_proj", "c_proj", "to_out", "to_out.0", "wo", "dense", "proj", "o", "out_lin")
_NAMES_AROUND = ("output.dense", "out_proj", "o_proj", "dense", "to_out")


def norms_of_values(model: nn.Module, call: RecordedCall, head: int) -> tuple[Tensor | None, str]:
    """Return float64 [T_k]: |v| or, where the output projection is found, |W v| with the head's columns W.

    Also returns the words for it: why there are none, or that the projection was not found.
    """
    if call.values is None:
        return None, "the values do not show where this layer computes attention"
    group = head // (call.call.num_heads // call.call.num_kv_heads)
    values = call.values[0, group].detach().double().cpu()  # [T_k, d_v]
    share = _share_of(model, call, head, values.shape[-1])
    if share is None:
        return values.norm(dim=-1), "|a v|: no output projection was found"
    return (values @ share.T).norm(dim=-1), ""


def _share_of(model: nn.Module, call: RecordedCall, head: int, width: int) -> Tensor | None:
    """[d_model, d_v]: the columns of the output projection that read this head."""
    whole = call.call.num_heads * width
    columns = slice(head * width, (head + 1) * width)
    for module in _candidates(model, call.call.layer):
        weight = getattr(module, "weight", None)
        if not isinstance(weight, Tensor) or weight.dim() != 2:
            continue
        if type(module).__name__ == "Conv1D":  # of transformers: [in, out]
            weight = weight.T
        if weight.shape[1] == whole:
            return weight.detach().double().cpu()[:, columns]
    return None


def _candidates(model: nn.Module, layer: str) -> Iterator[nn.Module]:
    modules = dict(model.named_modules())
    parent = layer.rpartition(".")[0]
    for path, names in ((layer, _NAMES), (parent, _NAMES_AROUND)):
        for name in names if path != layer or layer else _NAMES:
            module = modules.get(f"{path}.{name}" if path else name)
            if module is not None:
                yield module
