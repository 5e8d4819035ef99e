"""The kill table: every bug class that a function can show, written into right files of several styles.

``MUTANTS[rule]`` lists the patches, ``build`` writes one and says which line is wrong, ``PAIRS`` names two
bugs for one file, ``EXPECT_UNRECOGNISED`` holds wrong code that no rule describes.
"""

from __future__ import annotations

from pathlib import Path

from mutants_arithmetic import ARITHMETIC
from mutants_causal import CAUSAL
from mutants_layout import EMPTY_ROWS, LAYOUT
from mutants_masks import MASKS
from mutants_precision import PRECISION, TRAINING
from patching import Mutant, mutant_in, patch, source, write

FAMILIES = {
    "visibility": CAUSAL | MASKS,
    "arithmetic": ARITHMETIC,
    "layout": LAYOUT,
    "empty rows": EMPTY_ROWS,
    "precision and paths": PRECISION,
    "training and neighbours": TRAINING,
}

MUTANTS: dict[str, list[Mutant]] = {
    rule: patches for family in FAMILIES.values() for rule, patches in family.items()
}

#: (two rules from different steps, the style that holds both)
PAIRS: list[tuple[tuple[str, str], str]] = [
    (("scale-missing", "softmax-over-queries"), "matmul_bthd"),
    (("scale-missing", "softmax-over-queries"), "folded_bmm"),
    (("mask-ignored", "scale-not-rooted"), "loops"),
    (("future-visible", "kv-heads-tiled"), "loops"),
    (("future-visible", "kv-heads-tiled"), "einsum_bhtd"),
    (("mask-inverted", "scale-missing"), "matmul_bthd"),
    (("next-token-visible", "scale-inverted"), "einsum_bhtd"),
    (("mask-shared-across-batch", "scale-missing"), "class_wrapped"),
    (("softmax-over-queries", "keys-used-as-values"), "class_wrapped"),
    (("scale-not-rooted", "kv-heads-tiled"), "chunked_online_softmax"),
    (("mask-dropped-with-causal", "scale-wrong-width"), "matmul_bthd"),
    (("next-token-visible", "scale-missing"), "with_bias"),
    (("mask-fill-too-weak", "scale-missing"), "folded_bmm"),
    (("window-off-by-one", "scale-not-rooted"), "loops"),
    (("mask-inverted", "softmax-over-heads"), "unpadded"),
]

#: Wrong, and of no known kind: the checker must say so and not guess a name.
EXPECT_UNRECOGNISED: dict[str, list[Mutant]] = {
    "running maximum changes, total is not rescaled": [
        patch("chunked_online_softmax", "total = total * shrink +", "total = total +"),
    ],
    "running maximum changes, output is not rescaled": [
        patch("chunked_online_softmax", "output = output * shrink +", "output = output +"),
    ],
    "each block of keys has a softmax of its own": [
        patch(
            "chunked_online_softmax",
            "shares = torch.exp(scores - base)",
            "shares = torch.softmax(scores.masked_fill(scores.isneginf(), -1e30), dim=-1)",
        ),
    ],
    "tanh on the scores that nobody declared": [
        patch("matmul_bthd", "scores = scores / d**0.5", "scores = torch.tanh(scores / d**0.5)"),
    ],
    "values are shifted by one position": [
        patch("with_bias", "torch.matmul(probs, v)", "torch.matmul(probs, v.roll(1, dims=-2))"),
    ],
}


def mutant_of(rule: str, style: str) -> Mutant:
    """Return the patch that writes this bug into this style."""
    return mutant_in(MUTANTS | EXPECT_UNRECOGNISED, rule, style)


def build(rule: str, style: str, folder: Path) -> tuple[Path, int]:
    """Write the wrong file into ``folder``; return its path and the line marked ``# bug``."""
    path, (line,) = build_all((rule,), style, folder)
    return path, line


def build_all(rules: tuple[str, ...], style: str, folder: Path) -> tuple[Path, tuple[int, ...]]:
    """Write a file with several bugs; return its path and the wrong lines, from the top of the file."""
    return write(source(style), {rule: mutant_of(rule, style) for rule in rules}, folder)
