"""One experiment as a command line asks for it: effect, verdicts, and the same as Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from softlookup.auditing.loading import loaded_model
from softlookup.experiment_spelling import (
    Spelled,
    read_ablation,
    read_change,
    read_map,
    read_place,
    read_removal,
    read_scale,
)
from softlookup.experiments import Removal, Resampling, effect, faithfulness, metrics
from softlookup.model_texts import Encoded, texts_for
from softlookup.recording import record_attention
from softlookup.terms import SoftlookupError

_MOST_TOKENS = 4096


class ExperimentRun:
    """Reads what is asked, runs it, and says what came out.

    path: of the model;  texts: the inputs;  asked: the options of ``softlookup experiment``, by name
    """

    def __init__(self, path: str, texts: Sequence[str], asked: Mapping[str, Any]) -> None:
        self.path, self.asked = path, asked
        self.how = Resampling(level=asked["level"])
        self.model = loaded_model(path, doing="experiment").eval()
        self.texts = texts_for(self.model, path, _MOST_TOKENS, doing="experiment")
        self.encoded: list[Encoded] = [self.texts.encode(it) for it in texts]
        self.written_texts = list(texts)
        self.inputs = [it.given for it in self.encoded]
        self.recordings = [record_attention(self.model, *it.args, **it.kwargs) for it in self.encoded]
        self.layers = self.recordings[0].layers
        self.done = self._interventions()
        self.metric, self.written_metric = self._metric()

    def facts(self, say: Callable[[str], None]) -> dict[str, Any]:
        """Return what ``experiment_renderable`` shows, as JSON values. say: told what is at work"""
        return {
            "model": f"{self.path}: {type(self.model).__name__}",
            "layers": len(self.layers),
            "inputs": [
                {"text": text, "tokens": list(it.tokens), "predicts": self._predicts(number)}
                for number, (text, it) in enumerate(zip(self.written_texts, self.encoded, strict=True))
            ],
            "effect": self._effect(say) if self.done else None,
            "verdicts": [self._verdict(it, say) for it in self.asked["verdicts"]],
            "python": self._python(),
        }

    def _interventions(self) -> list[Spelled]:
        asked = self.asked
        done = [read_ablation(it, self.layers, self.recordings) for it in asked["ablate"]]
        done += [read_removal(it, self.layers) for it in asked["remove"]]
        done += [read_map(it, self.layers) for it in asked["maps"]]
        done += [read_scale(it, self.layers) for it in asked["scale"]]
        done += [read_change(it, self._token) for it in asked["token"]]
        if not done and not asked["verdicts"]:
            has = (
                f"{len(self.layers)} layers, the first of {self.recordings[0].calls[0].call.num_heads} heads"
            )
            raise SoftlookupError(
                "experiment: nothing is asked.",
                expected="--ablate, --remove, --map, --scale, --token or --verdict",
                got="none of them",
                hint=f"--ablate 0:0; the model has {has}",
            )
        return done

    def _control(self) -> list[Spelled]:
        if self.asked["control"] is None:
            return []
        layer, (head,) = read_place(self.asked["control"], self.layers, "--control")
        moved = [it.at(layer, head) for it in self.done if "layer" in it.arguments]
        if len(moved) != len(self.done):
            raise SoftlookupError(
                "experiment: --control does the same to another head, and --token is done to no head.",
                expected="--ablate, --remove, --map or --scale",
                got="--token",
            )
        return moved

    def _metric(self) -> tuple[Any, str]:
        name = self.asked["metric"]
        tokens = {it: self.asked[it] for it in ("target", "against") if self.asked[it] is not None}
        if tokens and name not in (None, "logit_difference"):
            raise SoftlookupError(
                "experiment: --target and --against are tokens whose logits are compared.",
                expected="--metric logit_difference",
                got=f"--metric {name}",
            )
        if name is None:
            has_logits = hasattr(self.recordings[0].output, "logits")
            name = "logit_difference" if has_logits or tokens else "change"
        if not tokens:
            return name, repr(name)
        ids = {it: self._token(text) for it, text in tokens.items()}
        written = ", ".join(f"{it}={number}" for it, number in ids.items())
        return metrics.logit_difference(**ids), f"metrics.logit_difference({written})"

    def _predicts(self, number: int) -> list[str]:
        """The two likeliest tokens at the last position, where their logits are what is measured."""
        logits = getattr(self.recordings[number].output, "logits", None)
        if self.metric != "logit_difference" or logits is None or logits.dim() != 3:
            return []
        return [self.texts.token(it) for it in logits[0, -1].topk(2).indices.tolist()]

    def _token(self, text: str) -> int:
        return self.texts.single(text, " ")

    def _row(self, text: str) -> tuple[str, int, int]:
        layer, (head, query) = read_place(text, self.layers, "--verdict", parts=3)
        return layer, head, query

    def _effect(self, say: Callable[[str], None]) -> dict[str, Any]:
        say(f"effect on {len(self.inputs)} inputs")
        found = effect(
            self.model,
            self.inputs,
            [it.made() for it in self.done],
            metric=self.metric,
            control=[it.made() for it in self._control()],
            resampling=self.how,
        )
        return found.as_dict()

    def _verdict(self, row: str, say: Callable[[str], None]) -> dict[str, Any]:
        say(f"verdict {row} on {len(self.inputs)} inputs")
        layer, head, query = self._row(row)
        metric = self.metric if self.asked["metric"] else None
        how = Removal(resampling=self.how)
        found = faithfulness(
            self.model, self.inputs, layer=layer, head=head, query=query, metric=metric, how=how
        )
        return found.as_dict()

    def _python(self) -> str:
        """Return a script that does the same."""
        done, control = self.done, self._control()
        names = {it.function for it in [*done, *control]}
        names |= {"effect"} if done else set()
        names |= {"faithfulness"} if self.asked["verdicts"] else set()
        names |= {"metrics"} if self.written_metric.startswith("metrics.") else set()
        lines = ["import functools"] if any(it.function == "change_token" for it in done) else []
        lines += (
            ["import torch"] if self.texts.tokenizer is None else ["from transformers import AutoTokenizer"]
        )
        lines += [
            "from softlookup.auditing.loading import loaded_model",
            f"from softlookup.experiments import {', '.join(sorted(names))}",
        ]
        lines += ["from softlookup.recording import record_attention"] if self._records() else []
        lines += ["", f"model = loaded_model({self.path!r}).eval()", *self._made_inputs()]
        if done:
            lines += ["done = [", *(f"    {it.written()}," for it in done), "]"]
            lines += ["control = [", *(f"    {it.written()}," for it in control), "]"] if control else []
            beside = ", control=control" if control else ""
            lines.append(f"print(effect(model, inputs, done, metric={self.written_metric}{beside}))")
        for it in self.asked["verdicts"]:
            layer, head, query = self._row(it)
            metric = f", metric={self.written_metric}" if self.asked["metric"] else ""
            lines.append(
                f"print(faithfulness(model, inputs, layer={layer!r}, head={head}, query={query}{metric}))"
            )
        return "\n".join(lines)

    def _records(self) -> bool:
        return any(it.variables for it in self.done)

    def _made_inputs(self) -> list[str]:
        given = self.encoded[0]
        if self.texts.tokenizer is None:
            rows = ", ".join(f"torch.tensor([{list(it.ids)}])" for it in self.encoded)
            lines = [f"inputs = [{rows}]"]
            if given.kwargs:
                lines = [f"inputs = [{{'input_ids': it}} for it in [{rows}]]"]
        else:
            place = Path(self.path)
            folder = (
                f"{str(place.parent)!r}, gguf_file={place.name!r}"
                if place.suffix == ".gguf"
                else repr(str(place))
            )
            lines = [
                f"tokenizer = AutoTokenizer.from_pretrained({folder})",
                "texts = [",
                *(f"    {it!r}," for it in self.written_texts),
                "]",
                'inputs = [tokenizer(it, return_tensors="pt") for it in texts]',
            ]
        if self._records():
            call = "**it" if given.kwargs else "it"
            lines.append(f"recordings = [record_attention(model, {call}) for it in inputs]")
        return lines
