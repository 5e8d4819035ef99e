"""The real call with the written mask gives the reference output, in every library that is installed."""

import pytest
import torch

import softlookup
from softlookup.conventions import conventions
from softlookup.conventions.converting import write_mask
from softlookup.conventions.measuring import problem
from softlookup.conventions.spelling import Sizes
from softlookup.masks import Mask
from softlookup.masks.expression import read_mask_expression

B, H = 2, 2
RUNNING = [it for it in conventions() if it.run is not None]
EVERY_FORM = [(it, form) for it in RUNNING for form in it.forms]

IN_WORDS = [
    "causal",
    'causal("bottom-right")',
    "padding([3, 6])",
    'padding([3, 6], "left")',
    "causal & padding([3, 6])",
    'causal & padding([3, 6], "left")',
    "sliding_window(3)",
    'sliding_window(2, "each side")',
    "documents([[0, 0, 1, 1, 1, 2], [4, 4, 4, 4, 4, 4]]) & causal",
    "packed([0, 2, 6]) & causal",
    "prefix_lm([1, 4])",
]


def samples_and_heads_differ() -> Mask:
    allowed = torch.rand(B, H, 6, 6, generator=torch.Generator().manual_seed(1)) > 0.5
    return Mask.from_tensor(allowed | torch.eye(6, dtype=torch.bool))


MASKS = {words: read_mask_expression(words) for words in IN_WORDS} | {
    "a tensor that differs by sample and head": samples_and_heads_differ(),
    "a tensor that differs by sample": Mask.from_tensor(samples_and_heads_differ().dense(6, 6)[:, :1]),
    "a tensor that is the same for all": Mask.from_tensor(samples_and_heads_differ().dense(6, 6)[:1, :1]),
}


@pytest.mark.parametrize(
    ("convention", "form"), EVERY_FORM, ids=[f"{it.name}[{form}]" for it, form in EVERY_FORM]
)
@pytest.mark.parametrize("words", MASKS)
def test_the_real_call_gives_the_reference_output(convention, form, words):
    if not convention.installed:
        pytest.skip(f"{' and '.join(convention.needs)} not installed")
    mask, ran = MASKS[words], 0
    for q_len in (6, 4):
        if q_len == 4 and (mask.sizes["T_q"] == 6 or "documents" in words or "packed" in words):
            continue
        sizes = Sizes(q_len, 6, B, H)
        written = write_mask(mask, f"{convention.name}[{form}]", sizes)
        if written.lost:
            continue  # refused by convert; test_round_trip says so
        ran += 1
        check_output(convention, written.arguments, mask, sizes)
    if not ran:
        pytest.skip(f"this form cannot say it: {written.lost[0]}")


def check_output(convention, arguments, mask, sizes):
    q, k, v = problem(sizes)
    allowed = mask.dense(sizes.q_len, sizes.k_len).expand(B, H, -1, -1)
    wanted, _ = softlookup.scaled_dot_product_attention(q, k, v, allowed, empty_rows="zero")
    found = convention.run(q, k, v, arguments)
    seeing = allowed.any(-1)  # what a row without keys returns is the library's own choice: see the chart
    torch.testing.assert_close(found[seeing], wanted[seeing], atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("convention", RUNNING, ids=[it.name for it in RUNNING])
def test_every_installed_library_was_really_called(convention):
    """At least one form of each says causal, so no library passes by skipping."""
    said = [
        write_mask(MASKS["causal & padding([3, 6])"], f"{convention.name}[{f}]", Sizes(6, 6, B, H)).lost
        for f in convention.forms
    ]
    said += [
        write_mask(MASKS["padding([3, 6])"], f"{convention.name}[{f}]", Sizes(6, 6, B, H)).lost
        for f in convention.forms
    ]
    assert any(not lost for lost in said)
