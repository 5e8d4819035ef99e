"""softlookup view: weights in files, traces, models."""

import pytest
import torch
from click.testing import CliRunner
from hand_made_maps import one_layer
from pages_read import facts_of
from safetensors.torch import save_file
from torch import nn

from softlookup import watch
from softlookup.cli import main

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(10, 8)
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, input_ids):
        x = self.table(input_ids)
        return self.attn(x, x, x, need_weights=False)[0]
"""


def run(*arguments):
    return CliRunner().invoke(main, ["view", *map(str, arguments)])


@pytest.mark.parametrize("head", ["1.2", "1:2"])
def test_weights_in_a_file(tmp_path, head):
    save_file({"h.0": one_layer(), "h.1": one_layer()}, tmp_path / "w.safetensors")
    done = run(tmp_path / "w.safetensors", "--to", tmp_path / "page.html", "--head", head, "--layers", "h.*")
    assert done.exit_code == 0, done.output
    assert "2 layers × 6 heads, 10 × 10" in done.output
    facts = facts_of((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [it["name"] for it in facts["layers"]] == ["h.0", "h.1"]
    assert facts["open"] == [1, 2]


def test_a_model_on_ids_and_compared(tmp_path):
    (tmp_path / "m.py").write_text(MODEL, encoding="utf-8")
    done = run(f"{tmp_path}/m.py:Model", "--text", "1 2 3", "--compare", "1 2 4", "--to", tmp_path / "p.html")
    assert done.exit_code == 0, done.output
    facts = facts_of((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert facts["tokens"] == [["1", "2", "3 → 4"]]
    assert "gaps" in facts["layers"][0]


def test_a_trace(tmp_path):
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval()
    with watch(layer, save_to=tmp_path / "t"), torch.no_grad():
        layer(torch.randn(1, 4, 8))
    for folder in (tmp_path / "t", tmp_path):  # as watch(save_to=) makes it, and softlookup watch --save-to
        done = run(folder, "--to", tmp_path / "p.html")
        assert done.exit_code == 0, done.output
        assert facts_of((tmp_path / "p.html").read_text(encoding="utf-8"))["form"] == "trace"
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")  # a model, with a trace beside it
    assert "expected: --text" in run(tmp_path, "--to", tmp_path / "p.html").output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "--text", "1"], "no model was found at 'nowhere'"),
        (["m.py:Model"], "--text"),
        (["w.safetensors", "--head", "first"], "--head names no head"),
        (["w.safetensors", "--to", "page.pdf"], "no file that a view can be"),
        (["w.safetensors", "--layers", "x"], "no layer matches"),
    ],
)
def test_what_cannot_be_carried_out_ends_with_2(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(MODEL, encoding="utf-8")
    save_file({"h.0": one_layer()}, tmp_path / "w.safetensors")
    done = run(*arguments)
    assert done.exit_code == 2
    assert words in done.output
    assert not (tmp_path / "view.html").exists()
