"""What a module says about the causal rule: its words, and what this instance was built with."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import softlookup
from softlookup.checker.causal_words import mask_decides_alone

H, D = 3, 8


class MaskOrCausal(nn.Module):
    """Self-attention of a decoder."""

    def __init__(self, is_causal=True):
        super().__init__()
        self.is_causal = is_causal
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(H * D, H * D) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (
            p(x).unflatten(-1, (H, D)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        causal = bool(mask is None and self.is_causal)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.spread(mask), is_causal=causal)
        return self.out_proj(y.transpose(1, 2).flatten(2))

    def spread(self, mask):
        return None if mask is None else mask[:, None]


class Documented(MaskOrCausal):
    """Causal self-attention.

    mask: [B, T, T] bool, True = may look. If no mask is given, a causal mask is used.
    """


class Undocumented(MaskOrCausal):
    """Causal self-attention.

    mask: [B, T, T] bool, True = may look.
    """


class DocumentedWithPadding(MaskOrCausal):
    """Causal self-attention.

    mask: [B, T] bool, True = a real token. If no mask is given, a causal mask is used.
    """

    def spread(self, mask):
        return None if mask is None else mask[:, None, None]


class CachesWhenAsked(MaskOrCausal):
    """Self-attention.

    decode: Whether to prepare and use an autoregressive cache.
    """

    def __init__(self, decode=False):
        super().__init__(is_causal=None)  # says nothing
        self.decode = decode


def checked(module):
    torch.manual_seed(0)
    diagnosis = softlookup.check(module.eval())
    return diagnosis.named(), [note.name for note in diagnosis.notes]


def test_a_full_mask_that_replaces_the_causal_rule_as_documented_is_a_note():
    named, notes = checked(Documented())
    assert named == []
    assert "causal-dropped-with-mask" in notes


def test_a_full_mask_that_replaces_a_promised_causal_rule_without_a_word_is_named():
    assert checked(Undocumented())[0] == ["causal-dropped-with-mask"]


def test_a_padding_mask_cannot_take_the_place_of_the_causal_rule_whatever_the_words_say():
    assert checked(DocumentedWithPadding())[0] == ["causal-dropped-with-mask"]


def test_a_padding_mask_that_drops_a_causal_rule_nobody_declared_is_named():
    class Attention(DocumentedWithPadding):
        """mask: [B, T] bool, True = a real token."""

    assert checked(Attention())[0] == ["causal-dropped-with-mask"]


@pytest.mark.parametrize("cls", [Documented, Undocumented, DocumentedWithPadding])
def test_an_instance_that_was_built_without_the_causal_rule_promises_none(cls):
    named, notes = checked(cls(is_causal=False))
    assert named == []
    assert "causal-dropped-with-mask" not in notes


def test_an_instance_whose_causal_rule_cannot_be_switched_off_is_named():
    class Stubborn(Undocumented):
        """Self-attention."""

        def forward(self, x):
            self.__dict__["is_causal"], told = True, self.is_causal
            try:
                return super().forward(x)
            finally:
                self.is_causal = told

    assert checked(Stubborn(is_causal=False))[0] == ["causal-unwanted"]


def test_words_about_a_switch_that_is_off_promise_nothing():
    assert checked(CachesWhenAsked())[0] == []


@pytest.mark.parametrize(
    "words",
    [
        "If no mask is specified, a causal mask\n    is used by default.",
        "is_causal: sets the default mask to causal when no mask is provided",
        "Causal unless a mask is given.",
        "Without a mask it is causal.",
        "A mask that is given replaces the causal one.",
    ],
)
def test_words_that_let_a_given_mask_decide_alone(words):
    assert mask_decides_alone(words)


@pytest.mark.parametrize(
    "words",
    [
        "Causal self-attention. mask: True = may look; None: no padding.",
        "The mask is combined with the causal rule.",
        "Causal. If no mask is given. every token is real",
    ],
)
def test_words_that_promise_both_the_mask_and_the_causal_rule(words):
    assert not mask_decides_alone(words)
