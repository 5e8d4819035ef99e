"""What a page holds: weights to a stated error, in few bytes, safe whatever tokens are; it loads nothing."""

import re

import pytest
import torch
from hand_made_maps import TOKENS, one_layer, random_maps
from pages_read import facts_of, map_of, mask_of

from softlookup import SoftlookupError, view
from softlookup.masks import causal
from softlookup.viewer.token_text import shown

HOSTILE = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt; -->",
    "x" * 10_000,
    "שלום",
    "\u202eevil\u202c",
    "a\0b\n\r\tc",
    "\ud800",
]


@pytest.mark.parametrize("hide_later", [False, True])
def test_every_weight_is_read_back_within_the_stated_error(hide_later):
    weights = random_maps(2, 3, 40, 40, causal=hide_later)
    html = view(weights).html
    for layer, said in enumerate(facts_of(html)["layers"]):
        for head in range(3):
            gap = (map_of(html, said["maps"], head) - weights[layer, head]).abs().max()
            assert gap <= said["maps"]["error"] + 1e-6
        assert said["maps"]["error"] < 0.004


def test_small_weights_keep_their_order_of_size():
    row = torch.tensor([0.0001, 0.001, 0.01, 0.1])
    weights = torch.cat([row, (1 - row.sum())[None]]).expand(1, 5, 5)
    html = view(weights).html
    read = map_of(html, facts_of(html)["layers"][0]["maps"], 0)[0]
    assert torch.allclose(read[:4], row, rtol=0.45)
    assert torch.allclose(read[1:4], row[1:], rtol=0.13)


@pytest.mark.parametrize("hide_later", [False, True], ids=["dense", "causal"])
def test_twelve_layers_of_twelve_heads_of_128_tokens_take_at_most_2_mb(hide_later):
    html = view(random_maps(12, 12, 128, 128, causal=hide_later), tokens=[" word"] * 128).html
    assert len(html.encode("utf-8")) <= 2_000_000
    assert all(it["maps"]["error"] < 0.008 for it in facts_of(html)["layers"])


def test_twelve_maps_of_1024_squared_are_held_whole_in_at_most_20_mb():
    html = view(random_maps(12, 1024, 1024)).html
    assert facts_of(html)["layers"][0]["form"] == "whole"
    assert len(html.encode("utf-8")) <= 20_000_000


def test_longer_maps_are_pooled_and_their_windows_are_exact():
    weights = random_maps(2, 300, 300, causal=True)
    html = view(weights, max_mb=0.1, windows=[(0, 0), (250, 240)]).html
    (layer,) = facts_of(html)["layers"]
    assert layer["form"] == "pooled"
    q, k = layer["grid"]
    pooled = map_of(html, layer["maps"], 1)
    rows = -(-300 // q)
    assert list(pooled.shape) == [rows, -(-300 // k)]
    assert torch.allclose(pooled[1, 0], weights[1, q : 2 * q, :k].sum(-1).mean(), atol=layer["maps"]["error"])
    assert torch.allclose(pooled.sum(-1), torch.ones(rows), atol=0.05)
    for window in layer["windows"]:
        exact = weights[1, slice(*window["q"]), slice(*window["k"])]
        assert torch.allclose(map_of(html, window["maps"], 1), exact, atol=window["maps"]["error"] + 1e-6)
    assert layer["windows"][1]["q"][0] <= 250 < layer["windows"][1]["q"][1]


def test_of_very_long_maps_some_queries_are_looked_at_and_that_is_said(monkeypatch):
    monkeypatch.setattr("softlookup.viewer.planning_pages._LOOKED_AT", 2 * 300 * 100)
    weights = random_maps(2, 300, 300, causal=True)
    (layer,) = facts_of(view(weights, max_mb=0.1).html)["layers"]
    assert 30 <= layer["looked"] <= 100
    exact = facts_of(view(weights, max_mb=3).html)["layers"][0]
    assert layer["numbers"]["uniform"][0] == pytest.approx(exact["numbers"]["uniform"][0], abs=0.05)


def test_a_page_that_can_hold_nothing_is_refused_with_the_size_that_would_do():
    with pytest.raises(SoftlookupError, match=r"do not fit into 0\.01 MB(.|\n)*at least 0\.\d MB"):
        view(random_maps(40, 60, 60), max_mb=0.01)


def test_a_window_that_begins_outside_is_refused():
    with pytest.raises(SoftlookupError, match="no window of 0 begins at query 300"):
        view(random_maps(2, 300, 300), max_mb=0.1, windows=[(300, 0)])


def test_the_mask_is_in_the_page_once_for_all_layers_that_have_it():
    weights = random_maps(3, 2, 20, 20, causal=True)
    html = view(weights, allowed_mask=causal()).html
    layers = facts_of(html)["layers"]
    assert {it["mask"]["id"] for it in layers} == {"mask-0"}
    assert torch.equal(
        mask_of(html, layers[0]["mask"], (20, 20))[0], torch.ones(20, 20, dtype=torch.bool).tril()
    )


def test_zeros_above_the_diagonal_are_taken_as_the_causal_mask_and_nothing_else_is():
    (layer,) = facts_of(view(random_maps(1, 8, 8, causal=True)).html)["layers"]
    assert layer["mask"]["id"] == "mask-0"
    (layer,) = facts_of(view(random_maps(1, 8, 8)).html)["layers"]
    assert layer["mask"] is None


def test_weight_on_a_hidden_key_is_pointed_at():
    weights = random_maps(2, 6, 6, causal=True).clone()
    weights[1, 2] = torch.tensor([0.5, 0, 0, 0, 0.5, 0])
    notes = facts_of(view({"h.0": weights}, allowed_mask=causal()).html)["notes"]
    assert notes == ["h.0, head 1: query 2 puts 0.5 on key 4, which the mask hides."]


def test_differences_are_the_other_runs_weights_less_these():
    ours, theirs = random_maps(2, 12, 12), random_maps(2, 12, 12, seed=1)
    html = view(ours, compare=theirs, tokens=list("abcdefghijkl"), compare_tokens=list("abcdefghijkX")).html
    facts = facts_of(html)
    (layer,) = facts["layers"]
    gaps = map_of(html, layer["gaps"], 1, gaps=True)
    assert torch.allclose(gaps, theirs[1] - ours[1], atol=layer["gaps"]["error"] + 1e-6)
    assert layer["gaps"]["error"] < 0.008
    assert facts["tokens"][0][-1] == "l → X"
    assert layer["otherNumbers"]["one key"] == facts_of(view(theirs).html)["layers"][0]["numbers"]["one key"]


def test_small_differences_are_not_lost_in_the_steps_of_the_weights():
    ours = torch.tensor([[[0.9, 0.1], [0.5, 0.5]]])
    theirs = ours + torch.tensor([[[1e-4, -1e-4], [0.0, 0.0]]])
    html = view(ours, compare=theirs).html
    gaps = map_of(html, facts_of(html)["layers"][0]["gaps"], 0, gaps=True)
    assert torch.allclose(gaps[0], torch.tensor([1e-4, -1e-4]), rtol=0.02)
    assert gaps[1].tolist() == [0.0, 0.0]


def test_runs_of_other_sizes_are_not_compared():
    with pytest.raises(SoftlookupError, match=r"differs in size(.|\n)*\[2, 5, 5\](.|\n)*\[2, 6, 6\]"):
        view(random_maps(2, 5, 5), compare=random_maps(2, 6, 6))
    with pytest.raises(SoftlookupError, match="same layers"):
        view(random_maps(2, 2, 5, 5), compare=random_maps(1, 2, 5, 5))


def test_hostile_tokens_are_data_and_nothing_of_them_is_markup():
    html = view(random_maps(2, 8, 8), tokens=HOSTILE, title="<b>&</title><script>", to=None).html
    for token in HOSTILE[:3]:
        assert token not in html
    assert html.count("<script") == html.count("</script>")
    assert "<b>&" not in html
    html.encode("utf-8")  # the lone surrogate too
    (tokens,) = facts_of(html)["tokens"]
    assert tokens[0] == HOSTILE[0]
    assert tokens[3].startswith("xxx")
    assert tokens[3].endswith("… (10,000 characters)")
    assert tokens[6] == "a⟨00⟩b↵⟨0D⟩⇥c"
    assert tokens[7] == "⟨D800⟩"
    assert tokens[5] == "⟨202E⟩evil⟨202C⟩"


def test_spaces_at_the_ends_of_a_token_can_be_seen():
    assert [shown(it) for it in (" the", "a b", "  ", "")] == ["·the", "a b", "··", "∅"]


def test_the_policy_lets_this_script_and_this_style_run_and_nothing_be_loaded():
    html = view(one_layer(), tokens=TOKENS).html
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.findall(r'(?:src|href)\s*=\s*["\'](?!data:)', html)
    assert not re.findall(
        r"\b(?:fetch|XMLHttpRequest|WebSocket|importScripts|eval|Function)\(|innerHTML", html
    )
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in html


def test_the_page_says_what_a_map_is_and_what_it_is_not():
    html = view(one_layer()).html
    assert "A map records one routing step" in html
    assert "softlookup.experiments" in html


def test_a_notebook_shows_the_page_in_a_frame_that_reaches_nothing():
    frame = view(one_layer(), tokens=TOKENS)._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;!doctype html')
    assert '"' not in re.search(r'srcdoc="([^"]*)"', frame)[1]


def test_a_head_is_opened_by_number_or_path():
    weights = {"h.0": one_layer(), "h.1": one_layer()}
    assert facts_of(view(weights, head=("h.1", 2)).html)["open"] == [1, 2]
    for wrong in ((2, 0), ("h.9", 0), (0, 6)):
        with pytest.raises(SoftlookupError, match="no such head"):
            view(weights, head=wrong)


def test_nothing_that_is_shown_is_changed():
    weights = one_layer()
    before = weights.clone()
    view(weights, compare=weights.clone(), tokens=TOKENS)
    assert torch.equal(weights, before)
