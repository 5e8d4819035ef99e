"""The Python that does what the page did: a whole script, which runs as it is and can be edited.

Texts stand in it as literals, in which nothing invisible is left as it is.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

from softlookup.lab.changes import Changes
from softlookup.lab.outcomes import Outcome
from softlookup.lab.readings import Reading
from softlookup.lab.verdicts import Place, metric_written
from softlookup.model_texts import Texts


@dataclass(frozen=True, eq=False)
class Script:
    """Writes scripts about one reading. path: where the model came from."""

    path: str
    texts: Texts
    reading_of: Reading

    def reading(self) -> str:
        """Return the script that records the attention of the text."""
        call = self.reading_of.calls[0].call
        return self._script(
            "the attention of one text",
            ["from softlookup.recording import record_attention"],
            f"""\
            recording = record_attention(model, {self._call})
            print(recording.layers)
            weights = recording[{call.layer!r}].weights()  # [H, T_q, T_k]
            print(weights.shape)
            """,
        )

    def comparison(self, changes: Changes, at: int) -> str:
        """Return the script that runs the model with and without changes, and prints the difference."""
        every = (*changes.tokens, *changes.steps)
        names = sorted({"intervene", *(it.function for it in every)})
        others = {it.number: it for change in every for it in change.readings()}
        imports = [f"from softlookup.experiments import {', '.join(names)}"]
        if others:
            imports.append("from softlookup.recording import record_attention")
        outcome = self.reading_of.outcome
        body = [
            *(line for it in others.values() for line in self._recorded(it)),
            *self._changed_inputs(changes),
            "changes = [",
            *(f"    {it.written()}," for it in changes.steps),
            "]",
            "",
            "with torch.no_grad():",
            f"    output = model({self._call})",
            f"    before = {_values(outcome, at)}",
            "    with intervene(model, *changes):",
            f"        output = model({self._changed_call if changes.tokens else self._call})",
            f"    after = {_values(outcome, at)}",
            "",
            _COMPARED_STATES if outcome.kind == "states" else _COMPARED_LOGITS + self._likeliest(outcome),
        ]
        return self._script("a run that was changed, beside the unchanged one", imports, "\n".join(body))

    def _changed_inputs(self, changes: Changes) -> list[str]:
        """Return lines that change tokens, one after another."""
        by_name = bool(self.reading_of.encoded.kwargs)
        lines, before = [], "dict(inputs)" if by_name else "ids"
        for it in changes.tokens:
            position, token = it.arguments["position"], it.arguments["token"]
            lines.append(
                f"changed = change_token({before}, {position}, {token})  # {self.texts.token(token)!a}"
            )
            before = "changed"
        return [*lines, ""] if lines else []

    def _likeliest(self, outcome: Outcome) -> str:
        tokens = self._tokenizer and outcome.kind == "tokens"
        return _LIKELIEST.replace("NAME", "repr(tokenizer.decode([it]))" if tokens else "it")

    def verdict(self, row: Place) -> str:
        """Return the script that asks whether the weights of a query tell which keys matter."""
        metric, made = metric_written(self.reading_of.outcome, row.at)
        given = "dict(inputs)" if self.reading_of.encoded.kwargs else "(ids,)"
        return self._script(
            "whether the weights of a query tell which keys matter",
            [
                "from softlookup.experiments import faithfulness",
                f"from softlookup.experiments.metrics import {metric}",
            ],
            f"""\
            verdict = faithfulness(
                model,
                [{given}],
                layer={row.layer!r},
                head={row.head},
                query={row.query},
                metric={made},
            )
            print(verdict)
            """,
        )

    @property
    def _tokenizer(self) -> bool:
        return self.texts.tokenizer is not None

    @property
    def _call(self) -> str:
        return "**inputs" if self.reading_of.encoded.kwargs else "ids"

    @property
    def _changed_call(self) -> str:
        return "**changed" if self.reading_of.encoded.kwargs else "changed"

    def _script(self, what: str, imports: list[str], body: str) -> str:
        reading = self.reading_of
        inputs = "inputs" if reading.encoded.kwargs else "ids"
        lines = [f'"""Saved from softlookup lab: {what}."""', "", "import torch"]
        lines += ["from transformers import AutoTokenizer"] if self._tokenizer else []
        lines += ["", *sorted(["from softlookup.auditing.loading import loaded_model", *imports]), ""]
        lines.append(f"model = loaded_model({self._absolute()!r}).eval()")
        lines += self._made_inputs(reading, inputs)
        return "\n".join([*lines, "", textwrap.dedent(body).strip(), ""])

    def _made_inputs(self, reading: Reading, name: str, tokenizer: bool = True) -> list[str]:
        """Return lines that make what the model is given for a text."""
        if not self._tokenizer:
            row = f"torch.tensor([{list(reading.encoded.ids)}])"
            if self.texts.encoder_decoder or reading.encoded.kwargs:
                pairs = [
                    f"{key!r}: torch.tensor({it.tolist()})" for key, it in reading.encoded.kwargs.items()
                ]
                row = f"{{{', '.join(pairs)}}}"
            return [f"{name} = {row}"]
        lines = [self._made_tokenizer()] if tokenizer else []
        lines.append(f'{name} = tokenizer({reading.text!r}, return_tensors="pt")')
        read = self.texts.tokenizer(reading.text)
        dropped = [it for it in read if it not in reading.encoded.kwargs]
        lines += [f"del {name}[{it!r}]  # the model does not take it" for it in dropped]
        if self.texts.encoder_decoder:
            written = reading.encoded.kwargs["decoder_input_ids"].tolist()
            lines.append(f'{name}["decoder_input_ids"] = torch.tensor({written})')
        return lines

    def _made_tokenizer(self) -> str:
        place = Path(self._absolute())
        if place.suffix == ".gguf":
            return (
                f"tokenizer = AutoTokenizer.from_pretrained({str(place.parent)!r}, gguf_file={place.name!r})"
            )
        return f"tokenizer = AutoTokenizer.from_pretrained({str(place)!r})"

    def _recorded(self, other: Reading) -> list[str]:
        """Return lines that record another text."""
        name = f"inputs_{other.number}"
        call = f"**{name}" if other.encoded.kwargs else name
        return [
            *self._made_inputs(other, name, tokenizer=False),
            f"recording_{other.number} = record_attention(model, {call})",
            "",
        ]

    def _absolute(self) -> str:
        """Return the path so that the script runs in any folder."""
        file, colon, name = self.path.rpartition(":")
        if colon and file.endswith(".py"):
            return f"{Path(file).resolve()}:{name}"
        return str(Path(self.path).resolve())


def _values(outcome: Outcome, at: int) -> str:
    """Return where the compared numbers stand, as Python."""
    place = {"tokens": f"[0, {at}]", "classes": "[0]", "states": "[0]"}[outcome.kind]
    return f"{outcome.written}{place}"


_COMPARED_LOGITS = """\
log_p, log_q = before.log_softmax(-1), after.log_softmax(-1)
best, second = before.topk(2).indices.tolist()
print(f"KL divergence: {float((log_p.exp() * (log_p - log_q)).sum()):.6g} nats")
print(f"logit difference: {float(before[best] - before[second]):.6g} before,", end=" ")
print(f"{float(after[best] - after[second]):.6g} after")
"""
_LIKELIEST = """\
for it in after.topk(min(6, len(after))).indices.tolist():
    print(f"{float(log_q[it].exp()):.4f} (before {float(log_p[it].exp()):.4f})", NAME)
"""
_COMPARED_STATES = """\
p, q = before.double().mean(0), after.double().mean(0)  # pooled over the tokens
print(f"cosine distance: {float(1 - p @ q / (p.norm() * q.norm())):.6g}")
print(f"relative change: {float((q - p).norm() / p.norm()):.6g}")
"""
