"""What the lab says of a text and of a change is what the model does, and so is the Python it saves."""

import base64
import contextlib
import functools
import io
import re
import subprocess
import sys
from unittest import mock

import pytest
import torch

pytest.importorskip("transformers", reason="the models of these tests are from transformers")

from lab_models import save_bert, save_factory, save_llama, save_t5

from softlookup.auditing.loading import loaded_model
from softlookup.lab.jobs import CancelledError, Progress
from softlookup.lab.session import Session
from softlookup.terms import SoftlookupError

TEXT = "The cat sat on a mat. The dog"
SAVED = {"llama": save_llama, "bert": save_bert, "t5": save_t5, "factory": save_factory}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    opened = {}
    for name, save in SAVED.items():
        path = save(tmp_path_factory.mktemp(name))
        opened[name] = Session(loaded_model(path), path, most_tokens=64)
    yield opened
    for session in opened.values():
        session.close()


@pytest.fixture
def llama(sessions):
    return sessions["llama"]


def do(session, **asked):
    """Do what the page asks for, here and now."""
    _, work = session.work(asked)
    return work(Progress())


def read(session, text=TEXT, **more):
    text = "3 1 4 1 5 9 2 6" if session.texts.tokenizer is None else text
    return do(session, do="read", text=text, **more)


def compare(session, facts, *changes, at=None):
    at = facts["at"] if at is None else at
    return do(session, do="compare", reading=facts["reading"], at=at, changes=list(changes))


def weights_of(facts):
    raw = torch.frombuffer(bytearray(base64.b64decode(facts["codes"])), dtype=torch.uint8).long()
    codes = (raw[0::2] | raw[1::2] << 8).view(facts["rows"], facts["columns"])
    return (codes.double() / 65534).masked_fill(codes == 65535, 0.0), codes == 65535


def logits(session, text=TEXT, **more):
    inputs = session.texts.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        return session.model(**{**inputs, **more}).logits[0]


once = functools.cache(loaded_model)  # scripts may share a model: that it stays as it was is tested


def run(python):
    """Run a saved script in this process and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), mock.patch("softlookup.auditing.loading.loaded_model", once):
        exec(compile(python, "saved.py", "exec"), {"__name__": "__main__"})
    return out.getvalue()


def eager_maps(session):
    inputs = session.texts.tokenizer(TEXT, return_tensors="pt")
    model = loaded_model(session.path)
    model.set_attn_implementation("eager")
    names = set(session.texts.names)
    with torch.no_grad():
        return model(**{k: v for k, v in inputs.items() if k in names}, output_attentions=True).attentions


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_the_maps_are_those_that_the_model_itself_returns(sessions, name):
    session = sessions[name]
    facts = read(session)
    for place, wanted in enumerate(eager_maps(session)):
        for head in range(4):
            shown = do(session, do="map", reading=facts["reading"], place=place, head=head)
            weights, hidden = weights_of(shown)
            torch.testing.assert_close(weights, wanted[0, head].double(), atol=2e-5, rtol=0)
            assert bool(hidden[0, -1]) == (name == "llama")


def test_small_maps_are_the_means_of_buckets(llama):
    text = "the cat sat on a mat . " * 6
    facts = read(llama, text)
    layer = facts["layers"][0]
    a, b = layer["cells"]
    assert a < layer["size"][0]
    codes = torch.frombuffer(bytearray(base64.b64decode(layer["codes"])), dtype=torch.uint8).view(-1, a, b)
    exact, _ = weights_of(do(llama, do="map", reading=facts["reading"], place=0, head=1))
    wide = -(-layer["size"][0] // a)
    wanted = exact[:wide, :wide].mean()
    assert float((codes[1, 0, 0] / 255.0) ** 2) == pytest.approx(float(wanted), abs=0.01)


def test_a_cross_map_has_the_written_tokens_as_queries_and_the_text_as_keys(sessions):
    facts = read(sessions["t5"], target="The dog")
    kinds = {it["kind"]: it for it in facts["layers"]}
    cross = kinds["cross"]
    assert (cross["queries_are"], cross["keys_are"]) == ("tokens", "source")
    assert cross["size"] == [len(facts["tokens"]["ids"]), len(facts["source"]["ids"])]
    encoder = facts["layers"][0]
    assert (encoder["queries_are"], encoder["keys_are"]) == ("source", "source")


def test_removing_a_key_everywhere_is_what_an_attention_mask_does(llama):
    facts = read(llama)
    found = compare(llama, facts, {"kind": "remove_source", "layer": "*", "key": 3})
    mask = torch.ones(1, len(facts["tokens"]["ids"]), dtype=torch.long)
    mask[0, 3] = 0
    p, q = (it[-1].double().log_softmax(-1) for it in (logits(llama), logits(llama, attention_mask=mask)))
    assert found["kl_nats"] == pytest.approx(float((p.exp() * (p - q)).sum()), rel=1e-3)
    assert found["kl_nats"] > 1e-3
    best, second = p.topk(2).indices.tolist()
    assert found["logit_difference"][1] == pytest.approx(float(q[best] - q[second]), abs=1e-3)
    assert found["after"][0]["id"] == int(q.argmax())


def test_a_changed_token_is_the_run_of_the_other_text(llama):
    facts = read(llama, "The cat sat on a mat")
    found = compare(llama, facts, {"kind": "change_token", "position": 1, "text": "dog"})
    other = logits(llama, "The dog sat on a mat")[-1].softmax(-1)
    assert found["after"][0]["p"] == pytest.approx(float(other.max()), rel=1e-4)
    assert "change_token(position=1" in found["changes"][0]


def test_what_changes_nothing_is_said_to_be_the_unchanged_run(llama):
    facts = read(llama)
    layer = facts["layers"][0]["layer"]
    same = {"from": facts["reading"], "layer": layer, "head": 1}
    frozen = compare(llama, facts, {"kind": "freeze_map", **same})
    assert frozen["kl_nats"] < 1e-6
    out_of_sight = {"kind": "remove_source", "layer": layer, "key": 5, "query": 2}  # in the future
    found = compare(llama, facts, out_of_sight)
    assert found["identical"]
    assert found["kl_nats"] == 0


def test_the_effect_of_an_encoder_without_logits_is_a_distance(sessions):
    facts = read(sessions["bert"])
    assert facts["outcome"] == "states"
    found = compare(sessions["bert"], facts, {"kind": "ablate", "how": "zero", "layer": "*"})
    assert found["kind"] == "states"
    assert 0 < found["cosine_distance"] <= 2
    assert len(found["by_token"]) == len(facts["tokens"]["ids"])


ONE_OF_EACH = {
    "remove": {"kind": "remove_source", "key": 2, "query": 4, "head": 1},
    "zero": {"kind": "ablate", "how": "zero", "head": 1},
    "mean": {"kind": "ablate", "how": "mean", "head": 1, "from": "before"},
    "resample": {"kind": "ablate", "how": "resample", "head": 0, "from": "before"},
    "freeze": {"kind": "freeze_map", "head": 1, "from": "before"},
    "uniform": {"kind": "replace_map", "by": "uniform", "head": 0},
    "permuted": {"kind": "replace_map", "by": "permuted", "head": 0},
    "previous": {"kind": "replace_map", "by": "previous token", "head": 0},
    "scale": {"kind": "scale_logits", "factor": 0.5, "head": 1},
}


@pytest.mark.parametrize("model", SAVED)
@pytest.mark.parametrize("change", ONE_OF_EACH)
def test_every_change_can_be_made_and_its_script_finds_the_same_effect(sessions, model, change):
    session = sessions[model]
    before = read(session, "The dog ran on a mat. The cat" if model != "factory" else TEXT)
    facts = read(session)
    asked = {"layer": facts["layers"][-1 if model != "t5" else 0]["layer"]} | ONE_OF_EACH[change]
    if "from" in asked:
        asked["from"] = before["reading"]
    found = compare(session, facts, asked)
    printed = run(found["python"])
    if found["kind"] == "states":
        said = float(re.search(r"relative change: (\S+)", printed)[1])
        assert said == pytest.approx(found["pooled_change"], rel=1e-3, abs=1e-6)
    else:
        said = float(re.search(r"KL divergence: (\S+) nats", printed)[1])
        assert said == pytest.approx(found["kl_nats"], rel=1e-2, abs=1e-6)


def test_changes_add_up(llama):
    facts = read(llama)
    layers = [it["layer"] for it in facts["layers"]]
    one, other = ({"kind": "ablate", "how": "zero", "layer": it, "head": 0} for it in layers)
    token = {"kind": "change_token", "position": 1, "text": "dog"}
    alone = {compare(llama, facts, it)["kl_nats"] for it in (one, other, token)}
    together = compare(llama, facts, one, other, token)
    assert together["kl_nats"] not in alone
    assert len(together["changes"]) == 3
    said = float(re.search(r"KL divergence: (\S+) nats", run(together["python"]))[1])
    assert said == pytest.approx(together["kl_nats"], rel=1e-3)


def test_the_changed_map_can_be_seen_beside_the_unchanged_one(llama):
    facts = read(llama)
    place = {"reading": facts["reading"], "place": 1, "head": 2}
    before, _ = weights_of(do(llama, do="map", **place))
    compare(
        llama,
        facts,
        {"kind": "replace_map", "by": "uniform", "layer": facts["layers"][1]["layer"], "head": 2},
    )
    same, _ = weights_of(do(llama, do="map", **place))
    after, hidden = weights_of(do(llama, do="map", which="changed", **place))
    assert torch.equal(before, same)
    wanted = (~hidden).double() / (~hidden).sum(-1, keepdim=True)
    torch.testing.assert_close(after, wanted, atol=2e-5, rtol=0)


@pytest.mark.parametrize("model", ["llama", "bert", "factory"])
def test_the_verdict_has_a_word_and_its_script_the_same_one(sessions, model):
    session = sessions[model]
    facts = read(session)
    asked = {"reading": facts["reading"], "place": 0, "head": 1, "query": 6, "at": facts["at"]}
    found = do(session, do="verdict", **asked)
    assert found["word"] in ("faithful", "not shown", "misleading")
    assert found["variants"][0][0] == "weight"
    assert sum(it["weight"] for it in found["keys"]) == pytest.approx(1, abs=1e-4)
    assert run(found["python"]).strip() == found["text"]


def test_a_verdict_says_how_far_it_is_and_ends_between_two_forwards(llama):
    facts = read(llama)
    progress = Progress()
    said, forwards = [], 0
    tell = progress.said

    def told(words, done=0, of=0):
        said.append((done, of))
        if done == 5:
            progress.cancel()
        tell(words, done, of)

    def counted(*args, **kwargs):
        nonlocal forwards
        forwards += 1
        return own(*args, **kwargs)

    progress.said = told
    own, llama.model.forward = llama.model.forward, counted
    _, work = llama.work(
        {"do": "verdict", "reading": facts["reading"], "place": 0, "head": 0, "query": 5, "at": facts["at"]}
    )
    try:
        with pytest.raises(CancelledError):
            work(progress)
    finally:
        del llama.model.forward
    assert said[-1][0] == 5
    assert said[-1][1] > 100
    assert forwards < 8
    assert compare(llama, facts, {"kind": "scale_logits", "factor": 1, "layer": "*"})["kl_nats"] < 1e-6


@pytest.mark.long  # a new process that loads torch; the other tests run the scripts in this one
def test_a_saved_script_is_a_program(sessions, tmp_path):
    session = sessions["factory"]
    facts = read(session)
    found = compare(session, facts, {"kind": "ablate", "how": "zero", "layer": "attention", "head": 0})
    file = tmp_path / "result.py"
    file.write_text(found["python"], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "KL divergence: " in done.stdout


def test_the_script_of_a_text_holds_it_as_a_literal_and_nothing_else(llama):
    hostile = 'a"""\nraise SystemExit\n# \u202e \x00 \' \\'
    facts = read(llama, hostile)
    assert "\u202e" not in facts["python"]
    assert "\x00" not in facts["python"]
    assert "torch.Size" in run(facts["python"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "ablate", "how": "zero", "layer": "no.such"}, "no layer 'no.such'"),
        ({"kind": "ablate", "how": "zero", "layer": "model.layers.0.self_attn", "head": 4}, "from 0 to 3"),
        ({"kind": "ablate", "how": "drop", "layer": "*"}, "zero, mean, resample"),
        ({"kind": "remove_source", "layer": "*", "key": 500}, "'key' of changes[0]"),
        ({"kind": "remove_source", "layer": "*", "key": "1"}, "a whole number"),
        ({"kind": "scale_logits", "layer": "*", "factor": float("nan")}, "a number from -100 to 100"),
        ({"kind": "change_token", "position": 1, "text": "several words"}, "one token"),
        ({"kind": "freeze_map", "layer": "*", "from": 10**8}, "no longer kept"),
        ({"kind": "remove"}, "remove_source"),
    ],
)
def test_changes_that_cannot_be_made_are_refused_in_words(llama, change, words):
    facts = read(llama)
    with pytest.raises(SoftlookupError, match=re.escape(words)):
        compare(llama, facts, change)


def test_maps_of_a_text_of_another_length_are_refused(llama):
    other = read(llama, "The cat")
    facts = read(llama)
    asked = {"kind": "freeze_map", "layer": "*", "from": other["reading"]}
    with pytest.raises(SoftlookupError, match="as many tokens"):
        compare(llama, facts, asked)


def test_ids_are_typed_where_there_is_no_tokenizer(sessions):
    session = sessions["factory"]
    assert do(session, do="read", text="3, 1 4")["tokens"]["ids"] == [3, 1, 4]
    for text in ("12", "the cat", "-1", "1e3", "٣", ""):
        with pytest.raises(SoftlookupError, match="lab: "):
            do(session, do="read", text=text)


def test_a_model_of_images_is_refused_as_it_is_opened():
    from transformers import ViTConfig, ViTModel

    small = ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, image_size=8
    )
    with pytest.raises(SoftlookupError, match=r"ViTModel reads no text(.|\n)*pixel_values"):
        Session(ViTModel(small), "vit")


def test_experiments_leave_the_model_as_it_was(llama):
    before = {name: it.clone() for name, it in llama.model.state_dict().items()}
    plain = logits(llama)
    facts = read(llama)
    compare(llama, facts, {"kind": "ablate", "how": "zero", "layer": "*"})
    assert torch.equal(logits(llama), plain)
    assert all(torch.equal(it, before[name]) for name, it in llama.model.state_dict().items())
    assert not llama.model.training
