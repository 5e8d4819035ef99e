"""Heads specialise: two layers of attention are trained from scratch, watched, viewed and tested.

The task is to copy. A sequence begins with letters that are all different; then the last few of them come
again and again. Where a letter has stood before, the next one can be known: the one that followed it then.

    H C J E B   J E B   J E B   J E ...

No single head can do that: it compares a query with one key at a time, and what followed the earlier J
stands beside it. Two heads can, one after the other: a *previous-token head* of layer 0 writes into each
position which letter came before it, and an *induction head* of layer 1 looks for the position that says
"before me was a J".

    python examples/previous_token.py --seed 0 --out shown
"""

import argparse
import string
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import softlookup
from softlookup.experiments import ablate, effect, faithfulness, freeze_map, previous_token_map, uniform_map
from softlookup.live.numbers_of_heads import head_numbers
from softlookup.live.trace import Trace
from softlookup.masks import causal
from softlookup.recording import record_attention

VOCABULARY, LENGTH, BATCH = 24, 24, 32
D_MODEL, HEADS, LAYERS = 64, 4, 2
TESTED = 64  # sequences that the model was not trained on
Place = tuple[int, int]  # layer and head


# The task ----------------------------------------------------------------------------------------------


def sequences(count: int, draw: torch.Generator) -> Tensor:
    """-> tokens [count, LENGTH]: new ones, and then the last 3 or more of them, again and again."""
    new = torch.randint(LENGTH // 4, LENGTH * 7 // 8 + 1, (count, 1), generator=draw)
    period = 3 + (torch.rand(count, 1, generator=draw) * (new - 2)).long()  # 3 to new
    different = torch.rand(count, VOCABULARY, generator=draw).argsort(dim=-1)
    place = torch.arange(LENGTH)
    return different.gather(-1, torch.where(place < new, place, new - period + (place - new) % period))


def stood_before(tokens: Tensor) -> Tensor:
    """[B, T] -> bool [B, T]: the token stood earlier too, so that the next one can be known."""
    return (tokens[:, :, None] == tokens[:, None, :]).tril(-1).any(dim=-1)


def loss_of_copies(logits: Tensor, tokens: Tensor) -> Tensor:
    """Cross-entropy, in nats, of the next tokens that can be known."""
    known = stood_before(tokens[:, :-1])
    return functional.cross_entropy(logits[:, :-1][known], tokens[:, 1:][known])


def copied(logits: Tensor, tokens: Tensor) -> float:
    """Share of the next tokens that can be known which are right; of guesses, 1 in VOCABULARY is."""
    known = stood_before(tokens[:, :-1])
    return float((logits[:, :-1].argmax(dim=-1) == tokens[:, 1:])[known].float().mean())


# The model and its training ----------------------------------------------------------------------------


class AttentionOnly(nn.Module):
    """Two layers of attention with nothing between them."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, D_MODEL)
        self.positions = nn.Embedding(LENGTH, D_MODEL)
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(LAYERS + 1))
        self.attention = nn.ModuleList(softlookup.MultiHeadAttention(D_MODEL, HEADS) for _ in range(LAYERS))
        self.out = nn.Linear(D_MODEL, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, T] -> logits [B, T, VOCABULARY]."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for norm, attention in zip(self.norms, self.attention, strict=False):
            x = x + attention(norm(x), causal())[0]
        return self.out(self.norms[-1](x))


def train(model: nn.Module, steps: int, draw: torch.Generator, *, every: int) -> Trace:
    """Train with strong weight decay first and without it at the end; watch one step of ``every``.

    At first several heads of a layer learn the same job. Weight decay makes each of them cost something,
    until one is left for each job. Without it, these become sharp.
    """
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98))
    with softlookup.watch(model, rule=causal(), every=every, queries=None) as trace:
        for step in range(steps):
            rate = 0.01 * min(1, (step + 1) / 50, (steps - step) / (0.3 * steps))
            decay = 2.0 if step < 0.65 * steps else 0.0
            optimizer.param_groups[0].update(lr=rate, weight_decay=decay)
            tokens = sequences(BATCH, draw)
            loss = loss_of_copies(model(tokens), tokens)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return trace


# What heads look at ------------------------------------------------------------------------------------


def head_measures(model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """-> [LAYERS, HEADS] twice: mean weight on the token before, and on what followed the same token earlier.

    The first is over queries of new tokens, the second over queries of tokens that stood before.
    """
    recording = record_attention(model, tokens)
    of_layers = [[recording[it].weights(b) for b in range(len(tokens))] for it in recording.layers]
    weights = torch.stack([torch.stack(it) for it in of_layers])  # [LAYERS, B, HEADS, T_q, T_k]
    again = stood_before(tokens)  # [B, T]
    followed = functional.pad(tokens[:, :, None] == tokens[:, None, :-1], (1, 0)).tril()  # [B, T_q, T_k]
    previous = torch.ones(LENGTH, LENGTH).tril(-1).triu(-1)  # [T_q, T_k]
    on_previous = (weights * previous).sum(-1)  # [LAYERS, B, HEADS, T_q]
    on_followed = (weights * followed[:, None]).sum(-1)
    new = ~again & (torch.arange(LENGTH) > 0)  # nothing comes before position 0
    return mean_over(on_previous, new), mean_over(on_followed, again)


def mean_over(numbers: Tensor, queries: Tensor) -> Tensor:
    """[LAYERS, B, HEADS, T_q], bool [B, T_q] -> [LAYERS, HEADS]."""
    return (numbers * queries[:, None]).sum((1, 3)) / queries.sum()


# What they are for -------------------------------------------------------------------------------------


def interventions(model: nn.Module, other: Tensor, before: Place, induction: Place) -> dict[str, list]:
    """-> what is done, by its words. other: a sequence [1, T] from which maps are taken."""

    def at(place: Place) -> dict:
        return {"layer": f"attention.{place[0]}", "head": place[1]}

    others = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    others = [it for it in others if it not in (before, induction)]
    elsewhere = record_attention(model, other)
    return {
        f"{words(induction)} ablated, the induction head": [ablate(**at(induction))],
        **{f"{words(it)} ablated, beside it": [ablate(**at(it))] for it in others if it[0] == induction[0]},
        f"all {len(others)} other heads ablated together": [ablate(**at(it)) for it in others],
        f"{words(before)} ablated, the previous-token head": [ablate(**at(before))],
        f"{words(before)}: map = the token before, exactly": [previous_token_map(**at(before))],
        f"{words(before)}: map = all tokens alike": [uniform_map(**at(before))],
        f"{words(before)}: map of another sequence": [freeze_map(elsewhere, **at(before))],
        f"{words(induction)}: map of another sequence": [freeze_map(elsewhere, **at(induction))],
    }


# The report --------------------------------------------------------------------------------------------


def words(place: Place) -> str:
    """-> e.g. "head 1.3": head 3 of layer 1."""
    return f"head {place[0]}.{place[1]}"


def show_training(trace: Trace) -> None:
    """Print how far heads looked, and how broadly, at some steps of the training."""
    print("\nWatched while it trained: how many tokens away a head looks, and how broadly (1: alike at all)")
    print(" " * 20 + "".join(f"{f'head {head}':>15}" for head in range(HEADS)))
    for layer in range(LAYERS):
        seen = [it for it in trace.records if it.call.layer == f"attention.{layer}"]
        for record in [seen[round(part * (len(seen) - 1))] for part in (0, 0.05, 0.1, 0.3, 0.6, 0.8, 1)]:
            numbers = head_numbers(record.statistics)
            pairs = zip(numbers["distance_tokens"][0], numbers["entropy_share"][0], strict=True)
            heads = "".join(f"{far:9.1f} {broad:5.2f}" for far, broad in pairs)
            print(f"  layer {layer}, step {record.call.step:4}{heads}")
    alarms = "; ".join(f"{it.name}: {it.words}" for it in trace.alarms)
    print(f"  {trace.coverage}; alarms: {alarms or 'none'}")


def look_and_test(model: nn.Module, unseen: Tensor) -> tuple[Place, Place]:
    """Print what heads look at and what they are for -> the previous-token head, the induction head."""
    previous, following = head_measures(model, unseen)
    before: Place = (0, int(previous[0].argmax()))
    induction: Place = (1, int(following[1].argmax()))
    print("\nWeight of a head    on the token before    on what followed the same token earlier")
    for place in [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]:
        job = {before: "  previous-token head", induction: "  induction head"}.get(place, "")
        print(f"  {words(place):18}{previous[place]:18.2f}{following[place]:25.2f}{job}")

    inputs, other = unseen[:-1], unseen[-1:]
    print(f"\nTested on {len(inputs)} sequences: change of the share that is copied, with its 95 % interval")
    for done, them in interventions(model, other, before, induction).items():
        found = effect(model, inputs, them, metric=copied)
        print(f"  {done:48}{found.mean:+7.3f}  [{found.interval[0]:+.3f}, {found.interval[1]:+.3f}]")

    print("\nDo the weights of the induction head say which keys matter to the last query?")
    layer = f"attention.{induction[0]}"
    print(faithfulness(model, unseen[:16], layer=layer, head=induction[1], metric="logit_difference"))
    return before, induction


def main() -> None:
    """Train, look, test, and print what came out."""
    parser = argparse.ArgumentParser(description="Heads specialise: trained, watched, viewed, tested.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--out", type=Path, help="folder for the pages maps.html and training.html")
    options = parser.parse_args()

    torch.set_num_threads(1)  # the tensors are small: a second thread brings nothing
    torch.manual_seed(options.seed)
    draw = torch.Generator().manual_seed(options.seed)
    model = AttentionOnly()
    unseen = sequences(TESTED, torch.Generator().manual_seed(1_000_000 + options.seed))

    def measured() -> str:
        with torch.no_grad():
            logits = model(unseen)
        return f"loss {loss_of_copies(logits, unseen):.3f} nats, {copied(logits, unseen):.1%} copied"

    print(f"Before training: {measured()}")
    wall, cpu = time.perf_counter(), time.process_time()
    trace = train(model, options.steps, draw, every=max(1, options.steps // 100))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    took = f"{wall:.0f} s, {cpu:.0f} s of processor time, one thread"
    print(f"After {options.steps} steps: {measured()}; {took}")
    show_training(trace)

    model.eval()
    before, induction = look_and_test(model, unseen)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        letters = [string.ascii_uppercase[it] for it in unseen[0]]
        recording = record_attention(model, unseen[:1])
        maps = softlookup.view(recording, tokens=letters, head=(f"attention.{induction[0]}", induction[1]))
        print(maps.save(options.out / "maps.html"))
        shown = softlookup.view(trace, head=(f"attention.{before[0]}", before[1]))
        print(shown.save(options.out / "training.html"))


if __name__ == "__main__":
    main()
