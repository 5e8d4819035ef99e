"""What users give to ``view``, made into layers of maps and their tokens."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.recording import Recording, record_attention
from softlookup.terms import SoftlookupError, did_you_mean
from softlookup.viewer.map_layers import MapLayer, RecordedLayer, tensor_layers
from softlookup.viewer.run_tokens import RunTokens


@dataclass(frozen=True, eq=False)
class Asked:
    """What of a run is shown, and in which words.

    text, inputs, tokenizer: what a model is called with;  tokens: of the run, where they are known
    layers: patterns of paths;  sample: of the batch;  allowed_mask: of tensors of weights
    """

    text: str | None = None
    inputs: Any = None
    tokens: Any = None
    tokenizer: Any = None
    layers: str | Sequence[str] = "*"
    sample: int = 0
    allowed_mask: Any = None


@dataclass(frozen=True, eq=False)
class Run:
    """The maps of one run. words: where they come from."""

    layers: list[MapLayer]
    tokens: RunTokens
    words: str = ""


def run_of(what: Any, asked: Asked) -> Run:
    """Return the maps of a model with inputs, a Recording, or tensors of weights.

    Raises: SoftlookupError for anything else, and where a model is given no inputs.
    """
    if isinstance(what, nn.Module):
        recording, tokens = _recorded(what, asked)
        return Run(_recorded_layers(recording, asked), RunTokens.of(tokens), type(what).__name__)
    if isinstance(what, Recording):
        tokens = asked.tokens if asked.text is None else _encoded(asked)[1]
        return Run(_recorded_layers(what, asked), RunTokens.of(tokens))
    if isinstance(what, (Tensor, Mapping, list, tuple)):
        if not isinstance(what, Tensor):
            what = _one_sample(what, asked.sample)
        layers = [it for it in tensor_layers(what, asked.allowed_mask) if _wanted(it.name, asked.layers)]
        if not layers:
            raise _no_layers(asked, [])
        return Run(layers, RunTokens.of(asked.tokens))
    raise SoftlookupError(
        "view: there is nothing to show.",
        expected="a model with text= or inputs=, a Recording, weights [H, T_q, T_k] or [L, H, T_q, T_k] or"
        " a dict of these, a Trace, or the folder of one",
        got=type(what).__name__,
    )


def other_run(compare: Any, tokens: Any, first: tuple[Any, Asked]) -> Run:
    """Return the run that is compared with a first one: another of its kind, or another text or other inputs.

    tokens: of this run, where they are known to be others;  first: what was asked for
    """
    what, asked = first
    if isinstance(compare, (nn.Module, Recording)) or not isinstance(what, nn.Module):
        if isinstance(compare, str):
            raise SoftlookupError(
                "view: a text is compared by the model that reads it.",
                expected="a model, and another text for it",
                got=type(what).__name__,
            )
        same = isinstance(compare, nn.Module)  # reads the same
        return run_of(compare, asked if same else replace(asked, text=None, tokens=tokens or asked.tokens))
    if isinstance(compare, str):
        return run_of(what, replace(asked, text=compare, inputs=None, tokens=tokens))
    return run_of(what, replace(asked, text=None, inputs=compare, tokens=tokens))


def refuse_other_sizes(ours: Run, theirs: Run) -> None:
    """Refuse to compare runs whose layers differ.

    Raises: SoftlookupError with the first difference.
    """
    names, others = ([it.name for it in run.layers] for run in (ours, theirs))
    if len(names) != len(others):
        raise SoftlookupError(
            "view: the two runs do not have the same layers.",
            expected=f"{len(names)} layers",
            got=str(len(others)),
        )
    for a, b in zip(ours.layers, theirs.layers, strict=True):
        sizes, other_sizes = ((it.num_heads, it.q_len, it.k_len) for it in (a, b))
        if sizes != other_sizes:
            raise SoftlookupError(
                f"view: layer {a.name or '(the model)'} differs in size between the two runs.",
                expected=f"[H, T_q, T_k] = {list(sizes)}",
                got=str(list(other_sizes)),
                hint="texts are compared token by token: both need as many tokens",
            )


def _recorded(model: nn.Module, asked: Asked) -> tuple[Recording, Any]:
    """Run a model once; return what was recorded, and its tokens."""
    if asked.text is not None:
        inputs, tokens = _encoded(asked)
    elif asked.inputs is not None:
        inputs, tokens = asked.inputs, asked.tokens
        if tokens is None:
            tokens = _tokens_of_inputs(inputs, asked)
    else:
        name = type(model).__name__
        raise SoftlookupError(
            f"view: {name} was given nothing to read.",
            expected="text= with a tokenizer=, or inputs=",
            got="neither",
        )
    device = next((it.device for it in model.parameters()), torch.device("cpu"))
    args, kwargs = _call_of(inputs, device)
    if "layers" in kwargs:
        raise SoftlookupError("view: an input of a model cannot be called layers.")
    return record_attention(model, *args, layers=asked.layers, **kwargs), tokens


def _call_of(inputs: Any, device: torch.device) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call: a tensor, a tuple of arguments, or arguments by name."""

    def there(it: Any) -> Any:
        return it.to(device) if isinstance(it, Tensor) else it

    if isinstance(inputs, Mapping):
        return (), {name: there(it) for name, it in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(there(it) for it in inputs), {}
    return (there(inputs),), {}


def _encoded(asked: Asked) -> tuple[Any, Any]:
    """Return what a tokenizer makes of the text, and one token for each id."""
    if asked.tokenizer is None:
        raise SoftlookupError(
            "view: a text needs a tokenizer.",
            expected="tokenizer=, e.g. transformers.AutoTokenizer.from_pretrained(...)",
            got="none",
            hint="or inputs=, with tokens= to show beside the maps",
        )
    encoded = asked.tokenizer(asked.text, return_tensors="pt")
    return encoded, asked.tokens or _decoded(encoded["input_ids"][0], asked.tokenizer)


def _decoded(ids: Tensor, tokenizer: Any) -> list[str]:
    """Return each id as the text that it stands for: spaces stay where they are."""
    if ids.dim() != 1 or ids.is_floating_point():
        return []
    if tokenizer is None or not hasattr(tokenizer, "decode"):
        return [str(it) for it in ids.tolist()]
    return [str(tokenizer.decode([it])) for it in ids.tolist()]


def _tokens_of_inputs(inputs: Any, asked: Asked) -> Any:
    """Return the tokens of the ids that a model is given; None where there are none."""
    named = inputs if isinstance(inputs, Mapping) else {}
    first = named.get("input_ids", inputs[0] if isinstance(inputs, tuple) and inputs else inputs)
    lists = [
        _decoded(it[asked.sample], asked.tokenizer)
        for it in (named.get("decoder_input_ids"), first)
        if isinstance(it, Tensor) and it.dim() == 2 and asked.sample < len(it) and not it.is_floating_point()
    ]
    if not lists:
        return None
    return lists[0] if len(lists) == 1 else (lists[0], lists[1])


def _recorded_layers(recording: Recording, asked: Asked) -> list[MapLayer]:
    layers: list[MapLayer] = [
        RecordedLayer(it, asked.sample) for it in recording.calls if _wanted(it.call.layer, asked.layers)
    ]
    if not layers:
        raise _no_layers(asked, list(recording.layers))
    return layers


def _one_sample(what: Any, sample: int) -> Any:
    """Return the maps of one sample where there is a batch before the heads, as models return attentions."""

    def one(it: Any) -> Any:
        return it[sample] if isinstance(it, Tensor) and it.dim() == 4 and sample < len(it) else it

    return {k: one(it) for k, it in what.items()} if isinstance(what, Mapping) else [one(it) for it in what]


def _wanted(path: str, patterns: str | Sequence[str]) -> bool:
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatch.fnmatchcase(path, it) for it in patterns)


def _no_layers(asked: Asked, known: list[str]) -> SoftlookupError:
    return SoftlookupError(
        f"view: no layer matches {asked.layers!r}.",
        hint=did_you_mean(str(asked.layers), known, ", ".join(known)),
    )
