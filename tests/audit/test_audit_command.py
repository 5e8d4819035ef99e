"""softlookup audit: what it loads, what it prints, its exit status, and what it refuses."""

import json

import pytest
from click.testing import CliRunner
from tiny_models import transformers_model

import softlookup
from softlookup import SoftlookupError
from softlookup.audited import Audit, Found, Noted, place
from softlookup.auditing.loading import loaded_model
from softlookup.cli import main
from softlookup.console import plain_text
from softlookup.report.audit_json import audit_object
from softlookup.report.audit_text import audit_renderable, closing_words

MODEL_FILE = """
import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.causal = causal

    def forward(self, x):
        q, k, v = (it.view(*x.shape[:2], 2, 8).transpose(1, 2) for it in self.qkv(x).split(16, -1))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return out.transpose(1, 2).flatten(2)


class Decoder(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(50, 16)
        self.attention = Attention(causal)
        self.head = nn.Linear(16, 50)

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.head(x + self.attention(x))

    def generate(self, tokens):
        return tokens


def right():
    return Decoder()


def wrong():
    return Decoder(causal=False)


def no_model():
    return 3


def fails():
    raise RuntimeError("no weights here")
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_model.py"
    path.write_text(MODEL_FILE)
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["audit", *map(str, arguments)])


def test_a_right_model_is_clean_and_the_status_is_0(file):
    done = run(f"{file}:right")
    assert done.exit_code == 0, done.output
    assert "nothing wrong in" in done.output
    assert done.output.startswith("Decoder  called by the names of its arguments, 3 samples, 12 tokens\n")


def test_a_class_without_arguments_is_a_factory(file):
    assert run(f"{file}:Decoder").exit_code == 0


def test_a_wrong_model_gives_rule_layer_numbers_and_fix_and_status_1(file):
    done = run(f"{file}:wrong")
    assert done.exit_code == 1
    assert "SL101 future-visible  causality" in done.output
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert "layer attention" in lines
    assert "rows compared 18" in lines
    assert any(line.startswith("fix ") for line in lines)
    assert lines[-1].startswith("1 finding in ")


def test_json_says_the_same(file):
    done = run(f"{file}:wrong", "--format", "json")
    assert done.exit_code == 1
    facts = json.loads(done.output)
    assert facts["verdict"] == "named"
    assert facts["path"] == f"{file}:wrong"
    assert [(it["code"], it["layer"]) for it in facts["findings"]] == [("SL101", "attention")]
    assert list(facts) == [
        *("softlookup", "path", "model", "called", "sizes", "verdict", "findings", "notes", "asked"),
        *("not_asked", "failed", "seconds"),
    ]


def test_a_promise_on_the_command_line_counts(file):
    assert run(f"{file}:wrong", "--not-causal").exit_code == 0
    assert run(f"{file}:wrong", "--causal").exit_code == 1


def test_all_names_every_check(file):
    output = run(f"{file}:right", "--all").output
    assert "Asked" in output
    assert "it takes no padding mask" in output


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("{file}", "a Python file without a name"),
        ("{file}:rihgt", "did you mean right"),
        ("{file}:no_model", "a torch.nn.Module"),
        ("{file}:fails", "RuntimeError: no weights here"),
        ("nowhere.py:right", "there is no file 'nowhere.py'"),
        ("nowhere", "a folder with a config.json"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_words_with_status_2(file, path, words):
    done = run(path.format(file=file))
    assert done.exit_code == 2
    assert words in done.output


def test_a_folder_of_hugging_face_is_loaded_as_the_class_that_it_names(tmp_path):
    pytest.importorskip("transformers", reason="the folder is one of transformers")
    transformers_model("gpt2").save_pretrained(tmp_path)
    assert type(loaded_model(str(tmp_path))).__name__ == "GPT2LMHeadModel"


def test_a_folder_that_is_broken_is_refused(tmp_path):
    pytest.importorskip("transformers", reason="the folder is one of transformers")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SoftlookupError, match="could not be loaded"):
        loaded_model(str(tmp_path))


def test_the_module_of_the_user_is_not_left_in_the_way(file):
    import sys

    before = set(sys.modules), list(sys.path)
    loaded_model(f"{file}:right")
    assert (set(sys.modules), list(sys.path)) == before


EXAMPLE = Audit(
    "Model",
    "by the names of its arguments",
    {"samples": 3, "tokens": 12},
    (Found("SL101", "future-visible", "causality", "it moves", "hide it", "", {"moved by": float("inf")}),),
    (Noted("left padding", "it counts from the left", "SL505"),),
    ("causality", "left padding"),
    {"loss shift": "it takes no labels"},
    {"half precision": "RuntimeError: no"},
    1.25,
)


def test_numbers_that_json_cannot_write_are_texts():
    assert audit_object(EXAMPLE)["findings"][0]["measured"] == {"moved by": "inf"}
    json.dumps(audit_object(EXAMPLE), allow_nan=False)


def test_the_text_says_what_could_not_be_asked():
    text = plain_text(audit_renderable(EXAMPLE))
    assert "Could not be asked: the model raised" in text
    assert place("") in text
    assert "it takes no labels" not in text
    assert "it takes no labels" in plain_text(audit_renderable(EXAMPLE, every=True))
    words = "1 finding in 2 checks, 1 could not be asked; 1 made no sense here (1.2 s)"
    assert closing_words(EXAMPLE) == words


def test_the_result_is_text_too():
    assert str(EXAMPLE).startswith("SL101 future-visible in the model itself")
    assert softlookup.audit.__module__ == "softlookup.auditing.running"


@pytest.mark.parametrize("code", ["SL503", "SL601", "SL808", "SL902"])
def test_rules_of_whole_models_have_a_page_and_are_listed(code):
    assert code in CliRunner().invoke(main, ["rules"]).output
    page = CliRunner().invoke(main, ["explain", code]).output
    assert page.startswith(code)
    assert "Fix" in page
