"""softlookup experiment: from a model and texts to effects, verdicts and the Python that does the same."""

import json

import pytest
from click.testing import CliRunner

from softlookup import SoftlookupError
from softlookup.cli import main
from softlookup.experiment_spelling import read_place

MODEL = """
import torch
from dataclasses import dataclass
from torch import nn
from softlookup import MultiHeadAttention

@dataclass
class Output:
    logits: torch.Tensor

class TinyLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.attention = MultiHeadAttention(8, num_heads=2)
        self.head = nn.Linear(8, 11)

    def forward(self, ids):
        x = self.embed(ids)
        seen = torch.ones(x.shape[1], x.shape[1]).tril().bool()
        return Output(self.head(x + 3 * self.attention(x, seen)[0]))

def make_model():
    torch.manual_seed(0)
    return TinyLM()
"""
TEXTS = ["1 2 3 4 5", "5 4 3 2 1", "0 9 8 1 2 3", "7 7 2 1", "4 9 4 9 4", "10 0 1 2 6"]


@pytest.fixture
def model(tmp_path):
    (tmp_path / "tiny.py").write_text(MODEL, encoding="utf-8")
    return f"{tmp_path / 'tiny.py'}:make_model"


def run(model, *more, texts=TEXTS):
    given = [part for text in texts for part in ("--text", text)]
    return CliRunner().invoke(main, ["experiment", model, *given, *more])


def facts(model, *more, **texts):
    done = run(model, *more, "--format", "json", **texts)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_a_head_may_be_spelled_as_pages_of_maps_name_it(model):
    spelled = [facts(model, "--ablate", it, "--verdict", f"{it}:2") for it in ("0.1", "0:1")]
    assert spelled[0] == spelled[1]


def test_a_path_of_two_numbers_stays_a_path():
    assert read_place("0.1:3", ["0.0", "0.1"], "--ablate") == ("0.1", (3,))
    with pytest.raises(SoftlookupError, match=r"LAYER:HEAD, e\.g\. 3:5"):
        read_place("0.1", ["0.0", "0.1"], "--ablate")


def test_an_ablated_head_is_reported_for_people_with_interval_and_python(model):
    done = run(model, "--ablate", "0:1", "--control", "0:0")
    assert done.exit_code == 0, done.output
    assert "ablate(layer='attention', head=1)" in done.output
    assert "on average over 6 inputs (95 % between" in done.output
    assert "The control changes it by" in done.output
    assert "print(effect(model, inputs, done, metric='logit_difference', control=control))" in done.output


def test_the_python_that_is_printed_runs_and_says_the_same(model, capsys):
    found = facts(model, "--ablate", "0:1", "--ablate", "0:0:mean", "--verdict", "0:1:-1", texts=TEXTS[:1])
    exec(compile(found["python"], "printed", "exec"), {})
    printed = capsys.readouterr().out
    assert found["effect"]["words"] in printed
    assert found["verdicts"][0]["words"] in printed


@pytest.mark.parametrize(
    ("option", "value", "made"),
    [
        ("--remove", "2", "remove_source(2, layer='*')"),
        ("--remove", "2@0", "remove_source(2, layer='attention')"),
        ("--remove", "2@0:1", "remove_source(2, layer='attention', head=1)"),
        ("--map", "uniform@0:1", "uniform_map(layer='attention', head=1)"),
        ("--map", "previous@attention:1", "previous_token_map(layer='attention', head=1)"),
        ("--map", "permuted@0:1", "permuted_map(0, layer='attention', head=1)"),
        ("--scale", "0.5@0:1", "scale_logits(0.5, layer='attention', head=1)"),
        ("--token", "2=6", "change_token(inputs, position=2, token=6)"),
    ],
)
def test_every_intervention_has_a_spelling(model, option, value, made):
    assert facts(model, option, value, texts=TEXTS[:2])["effect"]["interventions"] == [made]


def test_a_verdict_needs_no_intervention_and_shows_the_keys(model):
    done = run(model, "--verdict", "0:1:-1", texts=TEXTS[:1])
    assert done.exit_code == 0, done.output
    assert "attention, head 1, query 4 '5'" in done.output
    assert "norm-weighted" in done.output
    assert "over keys" in done.output


def test_texts_come_from_a_file_line_by_line(model, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join([*TEXTS, ""]), encoding="utf-8")
    found = facts(model, "--texts", str(tmp_path / "texts.txt"), "--ablate", "0:0", texts=[])
    assert [it["text"] for it in found["inputs"]] == TEXTS


def test_tokens_whose_logits_are_compared_can_be_named(model):
    found = facts(model, "--ablate", "0:0", "--target", "3", "--against", "5")
    assert found["effect"]["metric"] == "logit of token 3 less that of token 5, at the last position"
    assert "metrics.logit_difference(target=3, against=5)" in found["python"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "nothing is asked"),
        (["--ablate", "1:0"], "a layer that the model does not have"),
        (["--ablate", "0"], "LAYER:HEAD"),
        (["--ablate", "0:9"], "head"),
        (["--remove", "x@0"], "POSITION"),
        (["--remove", "77"], "77"),
        (["--map", "even@0:1"], "uniform, previous, permuted"),
        (["--scale", "x@0:1"], "FACTOR@LAYER:HEAD"),
        (["--token", "3"], "POSITION=TOKEN"),
        (["--token", "3=1", "--control", "0:0"], "done to no head"),
        (["--verdict", "0:0"], "LAYER:HEAD:QUERY"),
        (["--ablate", "0:0", "--metric", "kl", "--target", "3"], "--metric logit_difference"),
        (["--ablate", "0:0", "--level", "2"], "level"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_status_2(model, more, words):
    done = run(model, *more)
    assert done.exit_code == 2, done.output
    assert words in done.output


def test_a_model_or_text_that_is_not_there_is_refused_in_words_of_this_command(model, tmp_path):
    done = run(str(tmp_path / "nowhere"), "--ablate", "0:0")
    assert done.exit_code == 2
    assert done.output.startswith("experiment: no model was found")
    assert "no ids" in run(model, "--ablate", "0:0", texts=["Paris"]).output
    assert "there is no text" in run(model, "--ablate", "0:0", texts=[]).output
    assert "could not be read" in run(model, "--texts", str(tmp_path / "none.txt"), texts=[]).output
