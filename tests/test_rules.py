"""Every rule file: its name, its page, and that its mutant is a bug of its own."""

import ast
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from softlookup import catalog
from softlookup.attention import STEPS, Steps
from softlookup.checker.calls import Failure
from softlookup.checker.evidence import AROUND, Evidence, Judgement, Observation
from softlookup.terms import Case, Contract

#: The rules that a black-box function can show. The names are the contract with users.
FUNCTION_RULES = """
SL101 future-visible
SL102 next-token-visible
SL103 self-hidden
SL104 causal-top-left
SL105 mask-ignored
SL106 mask-inverted
SL107 mask-after-softmax
SL108 mask-added-as-number
SL109 mask-multiplies-scores
SL110 mask-fill-too-weak
SL111 mask-hides-queries
SL112 mask-shared-across-batch
SL113 mask-batch-head-order
SL114 causal-dropped-with-mask
SL115 mask-dropped-with-causal
SL116 window-off-by-one
SL117 window-ignored
SL118 zero-scores-hidden
SL119 integer-mask-negated-bitwise
SL120 documents-leak
SL121 causal-unwanted
SL122 caller-mask-changed
SL201 scale-missing
SL202 scale-not-rooted
SL203 scale-inverted
SL204 scale-wrong-width
SL205 scale-doubled
SL206 scale-after-softmax
SL207 scale-hits-bias
SL208 scale-argument-ignored
SL211 softmax-over-queries
SL212 softmax-over-heads
SL213 softmax-over-batch
SL214 softmax-without-max
SL215 softmax-twice
SL216 softmax-denominator-plus-one
SL217 scores-transposed
SL218 keys-used-as-values
SL219 weights-transposed
SL220 softmax-missing
SL303 kv-heads-tiled
SL304 heads-attend-to-heads
SL305 batch-sequence-swapped
SL315 weights-averaged
SL401 empty-row-nan
SL402 empty-row-uniform
SL403 empty-row-nan-gradient
SL404 hidden-nan-leaks
SL504 alibi-sign-flipped
SL701 mask-overflows-half
SL702 error-above-plain
SL703 non-contiguous-misread
SL704 block-remainder-dropped
SL705 path-mismatch
SL801 dropout-in-eval
SL805 gradient-wrong
SL905 batch-neighbours-leak
"""
NAMES = [tuple(line.split()) for line in FUNCTION_RULES.split("\n") if line]
STEP_NAMES = tuple(Steps.__dataclass_fields__)
RULES = {entry.name: entry for entry in catalog.rules()}
sys.path.append(str(Path(__file__).parent / "kill"))
from module_mutants import MUTANTS as MODULE_MUTANTS  # noqa: E402


def _defined_here(module: ModuleType, name: str) -> bool:
    """What a rule imports is no step of its own."""
    return getattr(vars(module).get(name), "__module__", "") == module.__name__


FORWARD = [
    name
    for name, entry in RULES.items()
    if any(_defined_here(entry.load(), step) for step in ("around", *STEP_NAMES))
]
#: Rules about what a module does before and after the lookup; tests/kill shows them on modules.
AROUND_IT = [
    name for name, entry in RULES.items() if any(_defined_here(entry.load(), step) for step in AROUND)
]
JUDGED = [name for name, entry in RULES.items() if hasattr(entry.load(), "judge")]
SHOWN = [name for name, entry in RULES.items() if hasattr(entry.load(), "mutant")]

PLAIN = Contract()
Run = Callable[[Case], tuple[Tensor, Tensor]]


# --- the cases on which mutants are compared ---------------------------------------------------------------


def _case(sizes: str, seed: int, **rules: object) -> Case:
    """sizes: "B H H_kv T_q T_k d_head d_v"."""
    B, H, H_kv, T_q, T_k, d_head, d_v = map(int, sizes.split())
    generator = torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    q, k, v = numbers(B, H, T_q, d_head), numbers(B, H_kv, T_k, d_head), numbers(B, H_kv, T_k, d_v)
    return Case(q, k, v, **rules)  # type: ignore[arg-type]


def _padding(lengths: list[int], k_len: int) -> Tensor:
    """[B, 1, 1, T_k]."""
    return (torch.arange(k_len) < torch.tensor(lengths)[:, None])[:, None, None, :]


def _distance(heads: int, q_len: int, k_len: int) -> Tensor:
    """[H, T_q, T_k]: a bias that falls with distance."""
    steps = (torch.arange(q_len)[:, None] - torch.arange(k_len)).abs()
    return -steps * 2.0 ** -torch.arange(1, heads + 1)[:, None, None]


def cases() -> list[Case]:
    square, long, short = "2 6 3 5 5 8 7", "3 4 2 3 7 8 6", "2 2 2 4 4 8 8"
    pad = _padding([5, 3], 5)
    scattered = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(3)) > 0.4
    scattered |= torch.eye(5, dtype=torch.bool)
    cut = torch.zeros(2, 1, 5, 5).masked_fill(~scattered, -math.inf)
    loud = _case(short, 5, causal="top-left")
    low = _case(short, 13, allowed_mask=_padding([3, 2], 4))  # every visible score lies near -300
    low.q[..., 0], low.k[..., 0] = 30.0, -30.0
    zero = _case(short, 6, causal="top-left")
    zero.q[:, :, 2] = 0.0
    documents = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]])
    found = {
        "plain": _case(square, 0),
        "causal": _case(square, 1, causal="top-left"),
        "cross": _case(long, 2),
        "cross causal": _case(long, 2, causal="bottom-right"),
        "padding": _case(square, 3, allowed_mask=pad),
        "scattered": _case(square, 4, allowed_mask=scattered),
        "causal padding": _case(square, 4, allowed_mask=pad, causal="top-left"),
        "causal scattered": _case(square, 4, allowed_mask=scattered, causal="top-left"),
        "loud": loud.but(q=loud.q * 400),
        "low padding": low,
        "zero": zero,
        "zero padding": zero.but(causal=None, allowed_mask=_padding([4, 3], 4)),
        "batch equals heads": _case(short, 7, allowed_mask=_padding([4, 2], 4)),
        "bias": _case(square, 8, additive_bias=_distance(6, 5, 5), causal="top-left"),
        "cutting bias": _case(square, 8, additive_bias=cut),
        "window": _case(square, 9, window=3, causal="top-left"),
        "window alone": _case(square, 9, window=3),
        "window padding": _case(square, 9, window=3, causal="top-left", allowed_mask=pad),
        "documents": _case(square, 10, document_ids=documents, causal="top-left"),
        "scale": _case(square, 11, scale=0.9),
        "masked target": _case(square, 14, target_mask=_padding([2, 4], 5)[:, 0, 0]),
        "both masked": _case(square, 14, target_mask=_padding([2, 4], 5)[:, 0, 0], allowed_mask=pad),
        "cached": _case("2 2 2 2 5 8 8", 15, causal="bottom-right", past=3),
        "long": _case("1 2 1 269 269 8 4", 12),
    }
    return [case.but(name=name) for name, case in found.items()]


CASES = cases()


# --- running rules -----------------------------------------------------------------------------------------


def evidence_of(run: Run, *, contract: Contract = PLAIN) -> Evidence:
    seen = []
    for case in CASES:
        try:
            seen.append(Observation(case.name, case, *run(case)))
        except (RuntimeError, IndexError, ValueError):
            seen.append(Observation(case.name, case))
    return Evidence(contract, tuple(seen))


def _filled_with_one(scores: Tensor, allowed: Tensor | None, case: Case) -> Tensor:
    return scores if allowed is None else scores.masked_fill(~allowed, -1.0)


def mutants(name: str) -> Iterator[Run]:
    """Every variant of a rule, as a whole lookup."""
    module = RULES[name].load()
    variants = getattr(module, "VARIANTS", (None,))
    if callable(variants):  # measured from a target's answers: here one that fills with -1
        variants = variants(evidence_of(STEPS.but(hide=_filled_with_one)))
    for variant in variants:
        steps = {step: vars(module)[step] for step in STEP_NAMES if _defined_here(module, step)}
        if variant is not None:
            steps = {
                step: partial(wrong, variant=variant) if "variant" in signature(wrong).parameters else wrong
                for step, wrong in steps.items()
            }
        run: Run = STEPS.but(**steps)
        yield partial(module.around, run) if hasattr(module, "around") else run


def answer(run: Run, case: Case) -> Tensor | None:
    """The rows that may look somewhere; None where the lookup raises."""
    try:
        output = run(case)[0]
    except (RuntimeError, IndexError, ValueError):
        return None
    return output[Observation("", case).real_rows] if output.shape[:-1] == case.q.shape[:-1] else output


def same(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)


# --- names and pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "name"), NAMES)
def test_every_rule_that_a_function_can_show_has_a_file(code, name):
    assert (RULES[name].code, RULES[name].name) == (code, name)


@pytest.mark.parametrize("name", RULES)
def test_every_page_says_what_is_wrong_in_one_sentence(name):
    summary = RULES[name].summary
    assert summary[0].isupper() or summary[0] == "`"
    assert summary.endswith(".")
    assert RULES[name].page.splitlines()[1] == "", "the first sentence fits on its line"


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("title", ["Missed because", "Training", "Fix", "Seen in"])
def test_every_page_has_its_parts(name, title):
    assert len(RULES[name].part(title)) > 20


@pytest.mark.parametrize("name", RULES)
def test_every_page_asks_one_question(name):
    question = RULES[name].part("Ask")
    assert question.endswith("?")
    assert RULES[name].part("Fix") not in question


@pytest.mark.parametrize("name", RULES)
def test_every_page_points_to_public_reports_or_says_that_there_are_none(name):
    seen = RULES[name].part("Seen in")
    assert "https://github.com/" in seen or seen.startswith("none of the collected reports")


#: What rules about modules and their positions may build on besides the steps.
MEASURES = {
    f"softlookup.checker.{name}"
    for name in ("projecting", "wiring", "dropping", "rotations", "dataflow", "scales", "fused_rows")
}


@pytest.mark.parametrize("name", RULES)
def test_no_rule_imports_a_rule_or_a_probe(name):
    tree = ast.parse(RULES[name].path.read_text(encoding="utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    ours = {module for module in imported if module.startswith("softlookup") and ".masks." not in module}
    steps = {"softlookup.attention", "softlookup.terms"}
    evidence = {"softlookup.checker.calls", "softlookup.checker.evidence"}
    assert ours <= steps | evidence | MEASURES


@pytest.mark.parametrize("name", RULES)
def test_every_rule_replaces_a_step_or_judges_and_shows_its_bug(name):
    module = RULES[name].load()
    shown = hasattr(module, "mutant") or name in MODULE_MUTANTS  # a function, or modules of the kill table
    assert name in FORWARD + AROUND_IT or (hasattr(module, "judge") and shown)


# --- forward mutants ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORWARD)
def test_every_variant_of_a_wrong_step_changes_some_answer(name):
    for number, run in enumerate(mutants(name)):
        assert any(not same(answer(run, case), answer(STEPS, case)) for case in CASES), f"variant {number}"


#: Mutants that give the same answers on every case, with the reason. The recorded calls decide between them.
TWINS = {
    frozenset({"scale-not-rooted", "scale-doubled"}): "(1 / sqrt(d)) ** 2 is 1 / d",
    frozenset({"mask-multiplies-scores", "mask-fill-too-weak"}): "a score times 0 is a fill with 0",
}


def test_mutants_of_different_rules_differ_on_some_case():
    found = {}
    for name in FORWARD:
        for number, run in enumerate(mutants(name)):
            found[name, number] = [answer(run, case) for case in CASES]
    hidden = set()
    for (name, number), answers in found.items():
        for (other, second), others in found.items():
            if name < other and all(same(a, b) for a, b in zip(answers, others, strict=True)):
                hidden.add((name, number, other, second))
    assert {frozenset({name, other}) for name, _, other, _ in hidden} <= set(TWINS), hidden


# --- rules that judge --------------------------------------------------------------------------------------


def _correct(q, k, v, allowed_mask=None, is_causal=False):
    allowed_mask = None if allowed_mask is None else allowed_mask.bool()
    return STEPS(Case(q, k, v, allowed_mask, causal="top-left" if is_causal else None))


def _single(case: Case, dtype: torch.dtype = torch.float32) -> Case:
    return case.but(q=case.q.to(dtype), k=case.k.to(dtype), v=case.v.to(dtype))


def conduct() -> list[tuple[str, Case]]:
    """The questions beside the forward values, named as the checker names them."""
    sizes = "2 3 3 5 5 8 4"
    plain, masked = _single(_case(sizes, 21)), _single(_case(sizes, 22, allowed_mask=_padding([5, 3], 5)))
    empty = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    empty[0, 0, 2] = False
    left = (torch.arange(5) >= 2).expand(2, 1, 1, 5)  # the first two queries of a causal case see nothing
    hidden = masked.v.masked_fill(~masked.allowed_mask.transpose(-2, -1), math.nan)
    others = [torch.cat([x[:1], 1 - x[1:]]) for x in (plain.q, plain.k, plain.v)]
    return [
        ("plain", plain),
        ("masked", masked),
        ("integer-mask", masked),
        ("empty-row", plain.but(allowed_mask=empty)),
        ("empty-row-causal", plain.but(allowed_mask=left, causal="top-left")),
        ("hidden-nan", masked.but(v=hidden)),
        ("gradients", _single(_case(sizes, 23))),
        ("gradients-empty-row", plain.but(allowed_mask=empty)),
        ("half-float16-masked", _single(masked, torch.float16)),
        ("half-bfloat16", _single(_case("2 3 3 9 33 32 8", 24), torch.bfloat16)),
        ("half-bfloat16-large", _single(_case("2 3 3 9 33 32 8", 25).but(scale=None), torch.bfloat16)),
        ("repeat-1", plain),
        ("repeat-2", plain),
        ("strided", plain),
        ("strided-contiguous", plain),
        ("neighbours", plain.but(q=others[0], k=others[1], v=others[2])),
    ]


def _ask(attend: Callable, name: str, case: Case) -> Observation:
    """Call a target as the checker does and note what a rule may judge by."""
    torch.manual_seed(2 if name == "repeat-2" else 1)
    q, k, v = (x.clone() for x in (case.q, case.k, case.v))
    if name == "strided":
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    if name.startswith("gradients"):
        q, k, v = (x.requires_grad_() for x in (q, k, v))
    mask = None if case.allowed_mask is None else case.allowed_mask.clone()
    mask = mask.long() if name == "integer-mask" else mask
    try:
        result = attend(q, k, v, mask, case.causal is not None)
    except RuntimeError as error:
        return Observation(name, case, failure=Failure("RuntimeError", str(error)))
    output, weights = result if isinstance(result, tuple) else (result, None)
    seen = Observation(name, case, output.detach(), weights)
    if name.startswith("gradients"):
        cotangent = torch.randn(output.shape)
        gradients = torch.autograd.grad((output * cotangent).sum(), (q, k, v))
        return replace(seen, gradients=dict(zip("qkv", gradients, strict=True)), cotangent=cotangent)
    after = {"q": (q, case.q), "k": (k, case.k), "v": (v, case.v), "mask": (mask, case.allowed_mask)}
    changed = [
        n
        for n, (now, then) in after.items()
        if now is not None and not torch.equal(now.nan_to_num(), then.nan_to_num())
    ]
    return replace(seen, changed=tuple(changed))


def judged(attend: Callable, contract: Contract = PLAIN) -> dict[str, Judgement]:
    evidence = Evidence(contract, tuple(_ask(attend, name, case) for name, case in conduct()))
    answers = {name: RULES[name].load().judge(evidence) for name in JUDGED}
    return {name: judgement for name, judgement in answers.items() if judgement is not None}


#: Under this contract every convention that a rule may judge has been promised otherwise.
STRICT = Contract(
    empty_rows="zero",
    hidden_nan="isolated",
    weights="per head",
    half=True,
    declared=frozenset({"empty_rows", "hidden_nan", "weights", "half"}),
)


def test_the_correct_lookup_is_judged_by_nobody():
    assert judged(_correct, STRICT) == {}


def test_fused_attention_is_never_judged_wrong():
    fused = torch.nn.functional.scaled_dot_product_attention

    def attend(q, k, v, allowed_mask=None, is_causal=False):
        causal = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        if is_causal:
            allowed_mask = causal if allowed_mask is None else allowed_mask & causal
        return fused(q, k, v, attn_mask=None if allowed_mask is None else allowed_mask.bool())

    assert [name for name, judgement in judged(attend).items() if judgement.wrong] == []


CONVENTIONS = (
    "weights-averaged",
    "empty-row-nan",
    "empty-row-uniform",
    "hidden-nan-leaks",
    "mask-overflows-half",
)
#: What else a mutant cannot help showing.
COMPANIONS = {"dropout-in-eval": {"error-above-plain"}}


@pytest.mark.parametrize("name", SHOWN)
def test_every_judge_names_its_own_mutant_and_no_other_rule_calls_it_wrong(name):
    answers = judged(RULES[name].load().mutant(), STRICT if name in CONVENTIONS else PLAIN)
    wrong = {rule for rule, judgement in answers.items() if judgement.wrong}
    assert name in wrong
    assert wrong - set(CONVENTIONS) - COMPANIONS.get(name, set()) <= {name}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_convention_that_nobody_promised_is_a_note(name):
    assert not judged(RULES[name].load().mutant())[name].wrong
