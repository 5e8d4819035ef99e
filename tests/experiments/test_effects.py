"""Effects: against differences computed by hand, honest about few inputs, and refusing what cannot be."""

import functools
import json
import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from softlookup import MultiHeadAttention, SoftlookupError
from softlookup.experiments import ablate, change_token, effect, metrics, remove_source, uniform_map
from softlookup.experiments.one_input import Input, read_inputs
from softlookup.experiments.outputs import sample_of


@dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


class TinyLM(nn.Module):
    """Ids to logits by one layer of our attention."""

    def __init__(self, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(11, 8)
        self.attention = MultiHeadAttention(8, num_heads=2)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(8, 11)

    def forward(self, input_ids, attention_mask=None):
        x = self.embed(input_ids)
        seen = torch.ones(x.shape[1], x.shape[1]).tril().bool()
        return Output(self.head(self.dropout(x + 3 * self.attention(x, seen)[0])))


@pytest.fixture
def model():
    return TinyLM().eval()


@pytest.fixture
def texts():
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(11, (1, 6), generator=draw) for _ in range(8)]


def without_head(model, ids, head):
    """The logits when a head finds zeros: written with the output projection, not with an intervention."""
    kept = model.attention.out_proj.weight.clone()
    with torch.no_grad():
        model.attention.out_proj.weight[:, head * 4 : (head + 1) * 4] = 0
        logits = model(ids).logits
        model.attention.out_proj.weight.copy_(kept)
    return logits[0, -1].double()


def test_the_effect_of_an_ablated_head_is_the_difference_of_the_logits_by_hand(model, texts):
    found = effect(model, texts, ablate(layer="attention", head=1))
    for ids, before, value in zip(texts, found.unchanged, found.values, strict=True):
        plain = model(ids).logits[0, -1].detach().double()
        best, second = plain.topk(2).indices.tolist()
        changed = without_head(model, ids, 1)
        assert before == pytest.approx(float(plain[best] - plain[second]), abs=1e-5)
        assert value == pytest.approx(float(changed[best] - changed[second]) - before, abs=1e-5)
    assert found.mean == pytest.approx(sum(found.values) / 8)


def test_tokens_can_be_given_one_for_all_inputs_or_one_each(model, texts):
    head = ablate(layer="attention", head=0)
    one = effect(model, texts, head, metric=metrics.logit_difference(3, 5))
    each = effect(model, texts, head, metric=metrics.logit_difference([3] * 8, [5] * 8))
    assert one.values == each.values
    changed = without_head(model, texts[2], 0)
    assert one.unchanged[2] + one.values[2] == pytest.approx(float(changed[3] - changed[5]), abs=1e-5)


@pytest.mark.parametrize("metric", ["kl", "total_variation"])
def test_distances_of_predictions_are_those_of_their_definitions(model, texts, metric):
    found = effect(model, texts, ablate(layer="attention", head=1), metric=metric)
    p = model(texts[0]).logits[0, -1].double().softmax(-1)
    q = without_head(model, texts[0], 1).softmax(-1)
    by_hand = {"kl": (p * (p / q).log()).sum(), "total_variation": (p - q).abs().sum() / 2}[metric]
    assert found.values[0] == pytest.approx(float(by_hand.detach()), rel=1e-3)
    assert found.unchanged[0] == 0


def test_the_loss_is_that_of_the_next_tokens_and_leaves_padding_out(model):
    ids = torch.tensor([[1, 2, 3, 4, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]])
    found = effect(
        model, [{"input_ids": ids, "attention_mask": mask}], ablate(layer="attention", head=0), metric="loss"
    )
    logits = model(ids).logits[0, :3].double()
    assert found.unchanged[0] == pytest.approx(
        float(nn.functional.cross_entropy(logits.detach(), torch.tensor([2, 3, 4]))), abs=1e-5
    )


def test_the_last_position_is_that_of_the_last_token_and_not_of_padding(model):
    ids = torch.tensor([[1, 2, 3, 4, 0, 0]])
    padded = {"input_ids": ids, "attention_mask": torch.tensor([[1, 1, 1, 1, 0, 0]])}
    head = ablate(layer="attention", head=1)
    assert effect(model, [padded], head).values[0] == pytest.approx(
        effect(model, [ids[:, :4]], head).values[0], abs=1e-5
    )


def test_an_intervention_that_does_nothing_has_no_effect(model, texts):
    nobody = remove_source(5, layer="attention", query=[0, 1, 2])  # which do not see it
    found = effect(model, texts, nobody)
    assert found.values == (0.0,) * 8
    assert found.interval == (0.0, 0.0)
    assert found.p_value == 1.0
    assert "No effect is shown" in found.words


def test_a_control_is_subtracted_input_by_input(model, texts):
    done, control = ablate(layer="attention", head=0), ablate(layer="attention", head=1)
    found = effect(model, texts, done, metric="kl", control=control)
    alone = effect(model, texts, control, metric="kl")
    assert found.control_values == alone.values
    difference = sum(a - b for a, b in zip(found.values, alone.values, strict=True)) / 8
    assert found.against_control.mean == pytest.approx(difference)
    assert found.p_value == found.against_control.p_value


def test_a_distance_has_no_p_value_without_a_control(model, texts):
    found = effect(model, texts, ablate(layer="attention", head=0), metric="kl")
    assert found.p_value is None
    assert "give a control" in found.words


def test_one_input_is_said_to_say_nothing_about_others(model, texts):
    found = effect(model, texts[:1], ablate(layer="attention", head=0))
    assert found.interval is None
    assert found.p_value is None
    assert "says nothing about others" in found.words


def test_functions_of_the_user_are_measured(model, texts):
    def top(output, inputs):
        assert inputs.shape == (1, 6)
        return output.logits[0, -1].max()

    def moved(unchanged, changed):
        return (unchanged.logits - changed.logits).abs().max()

    head = ablate(layer="attention", head=0)
    assert effect(model, texts, head, metric=top).metric == "top(output, input)"
    assert effect(model, texts, head, metric=metrics.compare(moved, distance=True)).mean > 0


def test_another_token_is_a_change_of_the_input_itself(model, texts):
    changed = functools.partial(change_token, position=2, token=9)
    found = effect(model, texts[:1], changed, metric="change")
    ids = texts[0].clone()
    ids[0, 2] = 9
    before, after = model(texts[0]).logits, model(ids).logits
    assert found.values[0] == pytest.approx(
        float(((after - before).norm() / before.norm()).detach()), rel=1e-5
    )
    assert found.interventions == ("change_token(inputs, position=2, token=9)",)


def test_several_interventions_act_together(model, texts):
    both = [ablate(layer="attention", head=0), ablate(layer="attention", head=1)]
    found = effect(model, texts, both, metric="change")
    x = model.embed(texts[0])
    by_hand = model.head(x)  # nothing is added
    plain = model(texts[0]).logits
    assert found.values[0] == pytest.approx(
        float(((by_hand - plain).norm() / plain.norm()).detach()), rel=1e-4
    )


def test_a_result_is_json_and_words(model, texts):
    found = effect(model, texts, uniform_map(layer="attention", head=0))
    told = json.loads(json.dumps(found.as_dict()))
    assert told["n"] == 8
    assert told["mean"] == found.mean
    assert found.words in str(found)
    assert "uniform_map" in str(found)


def test_the_model_and_the_global_generator_are_left_as_they_were(model, texts):
    before = {name: it.clone() for name, it in model.state_dict().items()}
    state = torch.random.get_rng_state()
    effect(model, texts, ablate(layer="attention", head=0))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(it, before[name]) for name, it in model.state_dict().items())
    assert all(it.grad is None for it in model.parameters())


def test_a_model_that_drops_out_at_random_is_refused(texts):
    with pytest.raises(SoftlookupError, match=r"two unchanged runs.*(?s:.*)model\.eval\(\)"):
        effect(TinyLM(dropout=0.5).train(), texts, ablate(layer="attention", head=0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"interventions": []}, "at least one intervention"),
        ({"inputs": []}, "no input"),
        ({"inputs": "a text"}, "tokenizer"),
        ({"inputs": [3.5]}, "float"),
        ({"metric": "logits"}, "has no 'logits'"),
        ({"metric": 3}, "this is no metric"),
        ({"metric": lambda output, _: output.logits}, "must give one number"),
        ({"metric": metrics.logit_difference(99)}, r"an id in 0\.\.10"),
        ({"metric": metrics.logit_difference(position=17)}, "the position to measure at"),
        ({"metric": metrics.loss(torch.zeros(1, 3, dtype=torch.long))}, "labels do not fit"),
        ({"inputs": [torch.zeros(2, 6, dtype=torch.long)]}, "of one sample"),
        ({"interventions": ablate(layer="nowhere", head=0)}, "nowhere"),
    ],
)
def test_what_cannot_be_measured_is_refused(model, texts, change, words):
    asked = {"inputs": texts, "interventions": ablate(layer="attention", head=0)} | change
    with pytest.raises(SoftlookupError, match=words):
        effect(model, **asked)


def test_a_model_without_logits_is_told_what_to_measure():
    @dataclass
    class States:
        last_hidden_state: torch.Tensor

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = MultiHeadAttention(8, num_heads=2)

        def forward(self, x):
            return States(self.attention(x)[0])

    with pytest.raises(SoftlookupError, match='metric="change"'):
        effect(Encoder().eval(), [torch.randn(1, 4, 8)], ablate(layer="attention", head=0))


def test_inputs_are_read_as_they_come():
    assert len(read_inputs(torch.zeros(3, 5, dtype=torch.long))) == 3
    assert len(read_inputs({"input_ids": torch.zeros(3, 5), "attention_mask": torch.ones(3, 5)})) == 3
    assert len(read_inputs({"x": torch.zeros(1, 5), "use_cache": False})) == 1
    assert read_inputs([[1, 2, 3]])[0].args[0].tolist() == [[1, 2, 3]]
    assert read_inputs([(torch.zeros(1, 2), 7)])[0].args[1] == 7


def test_a_sample_is_cut_out_of_whatever_a_model_returns():
    batch = torch.arange(6.0).view(3, 2)
    output = {"a": batch, "b": (batch, torch.tensor(1.0)), "c": Output(batch)}
    cut = sample_of(output, 1, 3)
    assert cut["a"].tolist() == [[2.0, 3.0]]
    assert cut["b"][0].tolist() == [[2.0, 3.0]]
    assert float(cut["b"][1]) == 1.0
    assert cut["c"].logits.tolist() == [[2.0, 3.0]]


def test_only_tensors_of_one_sample_are_repeated():
    given = Input((torch.zeros(1, 4), torch.zeros(4)), {"flag": True}).repeated(3)
    assert [list(it.shape) for it in given.args] == [[3, 4], [4]]
    assert given.kwargs == {"flag": True}


def test_sizes_grow_evenly_with_small_changes():
    p = torch.zeros(1, 1, 5)
    small, twice = (p + s * torch.tensor([1.0, 0, 0, 0, 0]) for s in (1e-2, 2e-2))
    for make in (metrics.kl, metrics.total_variation, metrics.change):
        plain = torch.ones(1, 1, 5) if make is metrics.change else p
        given = Input(())
        one, two = (make("all").size(plain + it, plain, plain, given) for it in (small, twice))
        assert two / one == pytest.approx(2, rel=0.02), make
    assert math.isfinite(one)
