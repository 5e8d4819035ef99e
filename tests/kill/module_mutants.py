"""The kill table of modules: every bug class that a module can show, written into right modules.

``MUTANTS[rule]`` lists the patches, ``build`` writes one and says which line is wrong, ``PAIRS_ACROSS`` names
two bugs of different steps of a module for one file.
"""

from __future__ import annotations

from pathlib import Path

from module_mutants_causal import CAUSAL
from module_mutants_heads import HEADS, PROJECTIONS
from module_mutants_masks import MASKS
from module_mutants_precision import PRECISION
from module_mutants_rows import EMPTY_ROWS, POSITIONS
from module_mutants_scale import SCALE
from module_mutants_softmax import MIX, SOFTMAX
from module_mutants_training import TRAINING
from patching import MODULES, Mutant, mutant_in, source, write

FAMILIES = {
    "visibility": CAUSAL | MASKS,
    "arithmetic": SCALE | SOFTMAX | MIX,
    "heads and layout": HEADS,
    "projections": PROJECTIONS,
    "empty rows": EMPTY_ROWS,
    "positions": POSITIONS,
    "precision and paths": PRECISION,
    "training and neighbours": TRAINING,
}

MUTANTS: dict[str, list[Mutant]] = {
    rule: patches for family in FAMILIES.values() for rule, patches in family.items()
}

#: (two rules from different steps of a module, the style that holds both)
PAIRS_ACROSS: list[tuple[tuple[str, str], str]] = [
    (("heads-merged-by-view", "scale-missing"), "separate_projections"),
    (("heads-merged-by-view", "scale-missing"), "cross_attention"),
    (("projection-reused", "mask-inverted"), "separate_projections"),
    (("projection-reused", "mask-ignored"), "post_norm_residual"),
    (("fused-qkv-misread", "softmax-over-queries"), "cross_attention"),
    (("fused-qkv-misread", "mask-hides-queries"), "gpt_fused"),
    (("fused-qkv-misread", "alibi-sign-flipped"), "alibi_interleaved"),
    (("value-unprojected", "causal-dropped-with-mask"), "alibi_causal"),
    (("output-projection-missing", "next-token-visible"), "head_list"),
    (("output-projection-missing", "scale-inverted"), "vit_qkv"),
    (("heads-split-by-view", "scale-not-rooted"), "cached_causal"),
    (("heads-summed", "softmax-twice"), "head_list"),
    (("cross-values-from-target", "scale-wrong-width"), "post_norm_residual"),
    (("kv-heads-tiled", "future-visible"), "grouped_rotary"),
    (("rope-pairing-mixed", "mask-hides-queries"), "grouped_rotary"),
    (("heads-split-by-view", "documents-leak"), "chunked_keys"),
    (("value-unprojected", "scale-doubled"), "mha_like"),
    (("window-off-by-one", "heads-merged-by-view"), "alibi_window"),
]


def mutant_of(rule: str, style: str) -> Mutant:
    """Return the patch that writes this bug into this style."""
    return mutant_in(MUTANTS, rule, style)


def build(rule: str, style: str, folder: Path) -> tuple[Path, int]:
    """Write the wrong file into ``folder``; return its path and the line marked ``# bug``."""
    path, (line,) = build_all((rule,), style, folder)
    return path, line


def build_all(rules: tuple[str, ...], style: str, folder: Path) -> tuple[Path, tuple[int, ...]]:
    """Write a file with several bugs; return its path and the wrong lines, from the top of the file."""
    return write(source(style, MODULES), {rule: mutant_of(rule, style) for rule in rules}, folder)
