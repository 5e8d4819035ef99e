"""Views of what runs: recordings, models with inputs and texts, traces; and the pictures."""

import math
import struct
import zlib

import pytest
import torch
from hand_made_maps import TOKENS, one_layer
from pages_read import facts_of, map_of, mask_of
from torch import nn
from torch.nn import functional

from softlookup import SoftlookupError, view, watch
from softlookup.live.problem import from_scores
from softlookup.live.record import Call
from softlookup.live.storing import TraceWriter
from softlookup.recording import RecordedCall, Recording, record_attention
from softlookup.viewer.colours import weight_colours


class Words:
    """A tokenizer of words, as transformers' are called."""

    def __call__(self, text, return_tensors):
        return {"input_ids": torch.tensor([[len(it) for it in text.split()]])}

    def decode(self, ids):
        return f" {'x' * ids[0]}"


class Reader(nn.Module):
    """Ids in, one causal self-attention, and one that reads a memory."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(20, 16)
        self.own = nn.MultiheadAttention(16, 4, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, input_ids, decoder_input_ids=None):
        x = self.table(input_ids)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = x + self.own(x, x, x, attn_mask=hidden, need_weights=False)[0]
        if decoder_input_ids is None:
            return x
        y = self.table(decoder_input_ids)
        return self.cross_attn(y, x, x, need_weights=False)[0]


@pytest.fixture
def model():
    return Reader().eval()


def test_a_recording_shows_its_own_weights_and_masks(model):
    recording = record_attention(model, torch.tensor([[1, 2, 3, 4, 5]]))
    html = view(recording).html
    (layer,) = facts_of(html)["layers"]
    exact = recording["own"].weights()
    for head in range(4):
        assert torch.allclose(
            map_of(html, layer["maps"], head), exact[head], atol=layer["maps"]["error"] + 1e-6
        )
    assert torch.equal(mask_of(html, layer["mask"], (5, 5))[0], torch.ones(5, 5, dtype=torch.bool).tril())


def test_a_model_is_viewed_on_a_text_and_compared_on_another(model):
    html = view(model, text="a bb ccc", compare="a bb dddd", tokenizer=Words()).html
    facts = facts_of(html)
    assert facts["tokens"] == [["·x", "·xx", "·xxx →  xxxx"]]
    assert facts["title"] == "Reader"
    gaps = map_of(html, facts["layers"][0]["gaps"], 0, gaps=True)
    assert gaps[:2].abs().max() == 0  # earlier queries see the same
    assert gaps[2].abs().max() > 0


@pytest.mark.parametrize(
    "inputs",
    [torch.tensor([[1, 2, 3]]), (torch.tensor([[1, 2, 3]]),), {"input_ids": torch.tensor([[1, 2, 3]])}],
)
def test_a_model_is_viewed_on_inputs_in_each_form(model, inputs):
    facts = facts_of(view(model, inputs=inputs).html)
    assert facts["tokens"] == [["1", "2", "3"]]
    assert [it["kind"] for it in facts["layers"]] == ["self"]


def test_cross_attention_shows_the_tokens_of_both_sides(model):
    ids = {"input_ids": torch.tensor([[1, 2, 3, 4]]), "decoder_input_ids": torch.tensor([[7, 8, 9]])}
    facts = facts_of(view(model, inputs=ids, layers="cross*").html)
    (layer,) = facts["layers"]
    assert layer["kind"] == "cross"
    assert facts["tokens"][layer["queries"]] == ["7", "8", "9"]
    assert facts["tokens"][layer["keys"]] == ["1", "2", "3", "4"]


def test_in_cross_attention_of_equal_lengths_the_source_stands_at_the_keys():
    facts = facts_of(view({"cross": torch.full((1, 2, 3), 1 / 3)}, tokens=(["x", "y"], ["a", "b", "c"])).html)
    assert facts["tokens"][facts["layers"][0]["keys"]] == ["a", "b", "c"]
    encoder = {"encoder.0": torch.eye(2)[None], "decoder.0": torch.eye(2)[None]}
    facts = facts_of(view(encoder, tokens=(["x", "y"], ["a", "b"])).html)
    assert [facts["tokens"][it["keys"]] for it in facts["layers"]] == [["a", "b"], ["x", "y"]]


def test_a_model_is_as_it_was(model):
    before = {name: it.clone() for name, it in model.state_dict().items()}
    view(model, text="a bb", tokenizer=Words())
    assert all(torch.equal(it, before[name]) for name, it in model.state_dict().items())
    assert functional.scaled_dot_product_attention.__module__ != "softlookup.live.tap"


def test_what_a_model_lacks_is_said(model):
    with pytest.raises(SoftlookupError, match="given nothing to read"):
        view(model)
    with pytest.raises(SoftlookupError, match="a text needs a tokenizer"):
        view(model, text="a")
    with pytest.raises(SoftlookupError, match="both need as many tokens"):
        view(model, text="a b", compare="a b c", tokenizer=Words())
    recording = record_attention(model, torch.tensor([[1, 2]]))
    with pytest.raises(SoftlookupError, match="no layer matches"):
        view(recording, layers="nothing")
    with pytest.raises(SoftlookupError, match="no sample 3"):
        view(recording, sample=3)


def test_rows_of_a_layer_with_sinks_sum_to_less_and_are_let_through():
    call = Call(0, "h", 0, "softmax", "self", False, 1, 1, 1, 4, 4)
    problem = from_scores(
        torch.zeros(1, 1, 4, 4), sinks=torch.zeros(1, 1, 4, 1)
    )  # a fifth of each row is on the sink
    html = view(Recording((RecordedCall(call, None, None, problem),), None)).html
    weights = map_of(html, facts_of(html)["layers"][0]["maps"], 0)
    assert torch.allclose(weights, torch.full((4, 4), 0.2), atol=0.002)


@pytest.fixture
def watched():
    layer = nn.TransformerEncoderLayer(16, 2, 16, batch_first=True, dropout=0.0).eval()
    with watch(layer, queries=None) as trace, torch.no_grad():
        for step in range(4):
            layer(torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(step)))
        layer(torch.full((1, 6, 16), math.nan))
    return trace


def test_a_trace_shows_numbers_over_the_steps_alarms_and_no_maps(watched):
    facts = facts_of(view(watched).html)
    (layer,) = facts["layers"]
    assert facts["form"] == "trace"
    assert layer["heads"] == 2
    went = layer["series"]["mean"]["entropy_share"]
    assert len(went) == len(layer["series"]["steps"]) == 5
    assert all(0.5 < it <= 1 for heads in went[:4] for it in heads)
    assert went[4] == [None, None]  # where NaN came in, nothing was measured
    assert layer["numbers"]["nan_count"] > [0, 0]
    assert "maps" not in layer
    assert "no maps" in view(watched).html
    assert facts["alarms"][0]["layer"] == "self_attn"
    assert {it["name"] for it in facts["measures"]} >= {"entropy_share", "first_mass", "self_mass"}


def test_a_trace_on_disk_shows_the_same(watched, tmp_path):
    with TraceWriter(tmp_path / "t", meta={}) as writer:
        for record in watched.records:
            writer.append([record])
    facts, stored = facts_of(view(watched).html), facts_of(view(tmp_path / "t").html)
    assert stored["layers"][0]["numbers"] == facts["layers"][0]["numbers"]
    assert facts_of(view(tmp_path).html) == stored  # its only trace
    with TraceWriter(tmp_path / "u", meta={}) as writer:
        writer.append([])
    with pytest.raises(SoftlookupError, match=r"holds several traces.*\n.*\n.*t, u"):
        view(tmp_path)
    with pytest.raises(SoftlookupError, match="holds no trace"):
        view(tmp_path / "elsewhere")


def test_a_trace_without_calls_and_a_picture_of_a_trace_are_refused(watched, tmp_path):
    with watch(nn.Linear(2, 2)) as empty:
        pass
    with pytest.raises(SoftlookupError, match="holds no call"):
        view(empty)
    with pytest.raises(SoftlookupError, match="becomes no picture"):
        view(watched, to=tmp_path / "a.png")


def pixels_of(png):
    """[height][width] of (red, green, blue)."""
    width, height = struct.unpack(">II", png[16:24])
    start = png.index(b"IDAT") + 4
    raw = zlib.decompress(png[start : start + struct.unpack(">I", png[start - 8 : start - 4])[0]])
    lines = [raw[y * (3 * width + 1) + 1 : (y + 1) * (3 * width + 1)] for y in range(height)]
    return [[tuple(line[3 * x : 3 * x + 3]) for x in range(width)] for line in lines]


def test_a_head_as_png_has_the_colour_of_each_weight(tmp_path):
    view(
        one_layer(), to=tmp_path / "head.png", head=(0, 0), allowed_mask=torch.ones(10, 10, dtype=torch.bool)
    )
    pixels = pixels_of((tmp_path / "head.png").read_bytes())
    side = len(pixels) // 10
    colours = weight_colours()
    assert pixels[5 * side + 3][4 * side + 3] == colours[255]  # query 5 looks at key 4
    assert pixels[5 * side + 3][7 * side + 3] == colours[0]


def test_all_heads_as_png_and_svg(tmp_path):
    view(one_layer().expand(3, -1, -1, -1), to=tmp_path / "all.png")
    pixels = pixels_of((tmp_path / "all.png").read_bytes())
    assert len(pixels[0]) > len(pixels)  # 3 layers x 6 heads
    view(one_layer(), to=tmp_path / "all.svg")
    drawn = (tmp_path / "all.svg").read_text(encoding="utf-8")
    assert drawn.count("<image") == 2


def test_tokens_in_an_svg_are_text_and_nothing_else(tmp_path):
    from xml.etree import ElementTree

    tokens = ["</text><script>x</script>", "&", "a\0b", "\ud800", *TOKENS[4:]]
    view(one_layer(), to=tmp_path / "head.svg", head=(0, 1), tokens=tokens)
    tree = ElementTree.parse(tmp_path / "head.svg")
    assert not [it for it in tree.iter() if it.tag.endswith("script")]
    words = [it.text for it in tree.iter() if it.tag.endswith("text")]
    assert "</text><scrip…" in words
    assert "&" in words
