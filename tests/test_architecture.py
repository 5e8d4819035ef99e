"""The listing in ARCHITECTURE.md is the architecture, and these tests hold the code to it.

``LAYERS`` is the one table. A module imports only strictly lower layers; equals never import each other. A
package is one layer to the outside; the second number orders the files inside it.
"""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent
SRC = HERE / "src"

#: Module or "package.*" -> (layer, order inside its package). The most exact entry counts.
LAYERS = {
    "softlookup.terms": (0, 0),
    "softlookup.audited": (1, 0),
    "softlookup.catalog": (1, 0),
    "softlookup.file_search": (1, 0),
    "softlookup.remembering": (1, 0),
    "softlookup.selection": (2, 0),
    "softlookup.attention_inputs": (2, 0),
    "softlookup.multihead_inputs": (2, 0),
    "softlookup.portable_weights": (2, 0),
    "softlookup.sdpa_backends": (2, 0),
    "softlookup.masks.predicate": (2, 0),
    "softlookup.masks.accept": (2, 0),
    "softlookup.masks.*": (2, 1),  # one file a rule, and discover, which finds them
    "softlookup.masks.questions": (2, 1),
    "softlookup.masks.algebra": (2, 2),
    "softlookup.masks.bias": (2, 3),
    "softlookup.masks.rule": (2, 3),
    "softlookup.masks.builders": (2, 4),
    "softlookup.masks": (2, 5),
    "softlookup.masks.numbered": (2, 1),
    "softlookup.masks.runs": (2, 0),
    "softlookup.masks.spans": (2, 6),
    "softlookup.masks.expression": (2, 6),
    "softlookup.masks.written_text": (2, 5),
    "softlookup.report.matrices": (2, 0),
    "softlookup.report.plain_words": (2, 0),
    "softlookup.report.finding_parts": (2, 1),
    "softlookup.report.rule_page": (2, 1),
    "softlookup.report.mask_panels": (2, 0),
    "softlookup.report.png_file": (2, 0),
    "softlookup.report.svg_text": (2, 1),
    "softlookup.report.watch_view": (2, 1),
    "softlookup.report.*": (2, 2),  # one file a form
    "softlookup.report.forms": (2, 3),
    "softlookup.report": (2, 4),
    "softlookup.attention": (3, 0),
    "softlookup.fused.fused_kernel": (3, 0),
    "softlookup.fused.folding": (3, 0),
    "softlookup.fused.glance": (3, 0),
    "softlookup.fused.occupancy": (3, 0),
    "softlookup.fused.pieces": (3, 0),
    "softlookup.fused.tiles": (3, 1),
    "softlookup.fused.running": (3, 1),
    "softlookup.fused.from_blocks": (3, 2),
    "softlookup.fused.from_spans": (3, 2),
    "softlookup.fused.differentiable": (3, 2),
    "softlookup.fused.segments": (3, 2),
    "softlookup.fused.flex": (3, 2),
    "softlookup.fused.cuda": (3, 3),
    "softlookup.fused.planning": (3, 3),
    "softlookup.fused.compiled": (3, 4),
    "softlookup.fused.paths": (3, 5),
    "softlookup.fused.explaining_paths": (3, 6),
    "softlookup.fused.attending": (3, 7),
    "softlookup.fused": (3, 8),
    "softlookup.path_cost": (5, 0),
    "softlookup.mask_cells": (5, 0),
    "softlookup.mask_files": (5, 0),
    "softlookup.mask_answers": (6, 0),
    "softlookup.statistics.adding_up": (4, 0),
    "softlookup.statistics.moments": (4, 0),
    "softlookup.statistics.pooled": (4, 0),
    "softlookup.statistics.ranks": (4, 0),
    "softlookup.statistics.rows": (4, 0),
    "softlookup.statistics.seen_keys": (4, 0),
    "softlookup.statistics.reading": (4, 1),
    "softlookup.statistics.showing": (4, 1),
    "softlookup.statistics.recovering": (4, 2),
    "softlookup.statistics.row_sampling": (4, 1),
    "softlookup.statistics.kept_memory": (4, 0),
    "softlookup.statistics.summary": (4, 2),
    "softlookup.statistics.tiling": (4, 2),
    "softlookup.statistics.wanted": (4, 2),
    "softlookup.statistics.distributed": (4, 3),
    "softlookup.statistics.measuring": (4, 3),
    "softlookup.statistics.streaming": (4, 4),
    "softlookup.statistics.augmented": (4, 4),
    "softlookup.statistics.observing": (4, 5),
    "softlookup.statistics.ring": (4, 6),
    "softlookup.statistics": (4, 7),
    "softlookup.conventions.spelling": (4, 0),
    "softlookup.conventions.tensors": (4, 1),
    "softlookup.conventions.parts": (4, 2),
    "softlookup.conventions.packed_lengths": (4, 1),
    "softlookup.conventions.plain_axes": (4, 2),
    "softlookup.conventions.varlen_rows": (4, 4),
    "softlookup.conventions.marks": (4, 2),
    "softlookup.conventions.array_flags": (4, 3),
    "softlookup.conventions.flax_layers": (4, 4),
    "softlookup.conventions.flex_positions": (4, 2),
    "softlookup.conventions.torch_bare_layers": (4, 2),
    "softlookup.conventions.torch_blocked": (4, 4),
    "softlookup.conventions.transformers_calls": (4, 2),
    "softlookup.conventions.transformers_keys": (4, 3),
    "softlookup.conventions.transformers_layers": (4, 2),
    "softlookup.conventions.recognising": (4, 3),
    "softlookup.conventions.*": (4, 5),  # one file an API
    "softlookup.conventions.discover": (4, 6),
    "softlookup.conventions.drawing": (4, 7),
    "softlookup.conventions.measuring": (4, 7),
    "softlookup.conventions.converting": (4, 7),
    "softlookup.conventions.plausible": (4, 4),
    "softlookup.conventions.meanings": (4, 2),
    "softlookup.conventions.candidates": (4, 7),
    "softlookup.conventions.dangers": (4, 8),
    "softlookup.conventions.right_calls": (4, 8),
    "softlookup.conventions.identifying": (4, 9),
    "softlookup.conventions": (4, 10),
    "softlookup.multihead": (4, 0),
    "softlookup.cost": (4, 0),
    "softlookup.training_masks": (4, 0),
    "softlookup.checker.arrays": (5, 0),
    "softlookup.checker.calls": (5, 0),
    "softlookup.checker.causal_words": (5, 2),
    "softlookup.checker.class_sources": (5, 0),
    "softlookup.checker.config_objects": (5, 0),
    "softlookup.checker.constructor_names": (5, 0),
    "softlookup.checker.constructor_values": (5, 0),
    "softlookup.checker.devices": (5, 0),
    "softlookup.checker.ending": (5, 0),
    "softlookup.checker.frames": (5, 0),
    "softlookup.checker.surroundings": (5, 1),
    "softlookup.checker.fused_rows": (5, 0),
    "softlookup.checker.given_tables": (5, 0),
    "softlookup.checker.keeping": (5, 0),
    "softlookup.checker.layouts": (5, 0),
    "softlookup.checker.model_files": (5, 0),
    "softlookup.checker.refusing": (5, 0),
    "softlookup.checker.remembering": (5, 0),
    "softlookup.checker.written_with": (5, 0),
    "softlookup.checker.callee": (5, 1),
    "softlookup.checker.constructor_arguments": (5, 1),
    "softlookup.checker.docstrings": (5, 1),
    "softlookup.checker.guard": (5, 2),
    "softlookup.checker.inside": (5, 1),
    "softlookup.checker.lazy_weights": (5, 2),
    "softlookup.checker.parameter_roles": (5, 1),
    "softlookup.checker.plain_values": (5, 1),
    "softlookup.checker.recorder": (5, 1),
    "softlookup.checker.results": (5, 1),
    "softlookup.checker.scales": (5, 1),
    "softlookup.checker.source_lines": (5, 1),
    "softlookup.checker.spelling": (5, 1),
    "softlookup.checker.wire": (5, 1),
    "softlookup.checker.wiring": (5, 1),
    "softlookup.checker.abilities": (5, 2),
    "softlookup.checker.calling": (5, 2),
    "softlookup.checker.frameworks": (5, 2),
    "softlookup.checker.frameworks.keras_layers": (5, 2),
    "softlookup.checker.frameworks.onnx_models": (5, 2),
    "softlookup.checker.frameworks.torch_compiled": (5, 2),
    "softlookup.checker.frameworks.torch_script": (5, 2),
    "softlookup.checker.projecting": (5, 2),
    "softlookup.checker.reading": (5, 3),
    "softlookup.checker.ways": (5, 2),
    "softlookup.checker.cases": (5, 3),
    "softlookup.checker.constructing": (5, 3),
    "softlookup.checker.evidence": (5, 3),
    "softlookup.checker.frameworks.numpy_functions": (5, 3),
    "softlookup.checker.jax_calls": (5, 3),
    "softlookup.checker.perturbing": (5, 3),
    "softlookup.checker.sketching": (5, 3),
    "softlookup.checker.weight_names": (5, 3),
    "softlookup.checker.dataflow": (5, 4),
    "softlookup.checker.written_calls": (5, 5),
    "softlookup.checker.dropping": (5, 4),
    "softlookup.checker.find_way": (5, 4),
    "softlookup.checker.find_wiring": (5, 4),
    "softlookup.checker.fitting": (5, 4),
    "softlookup.checker.frameworks.flax_linen": (5, 4),
    "softlookup.checker.frameworks.flax_nnx": (5, 4),
    "softlookup.checker.frameworks.jax_functions": (5, 4),
    "softlookup.checker.hypotheses": (5, 4),
    "softlookup.checker.plan": (5, 4),
    "softlookup.checker.probes": (5, 4),
    "softlookup.checker.rotations": (5, 4),
    "softlookup.checker.measured_rotations": (5, 5),
    "softlookup.checker.serving": (5, 4),
    "softlookup.checker.target": (5, 4),
    "softlookup.checker.caching": (5, 5),
    "softlookup.checker.call_steps": (5, 5),
    "softlookup.checker.child": (5, 5),
    "softlookup.checker.exhibit": (5, 5),
    "softlookup.checker.layer_plan": (5, 5),
    "softlookup.checker.other_paths": (5, 5),
    "softlookup.checker.rules.*": (5, 5),
    "softlookup.checker.lengths": (5, 5),
    "softlookup.checker.other_step": (5, 5),
    "softlookup.checker.sieve": (5, 5),
    "softlookup.checker.trying": (5, 5),
    "softlookup.checker.variants.*": (5, 6),
    "softlookup.checker.explaining": (5, 6),
    "softlookup.checker.find_masks": (5, 6),
    "softlookup.checker.find_rules": (5, 6),
    "softlookup.checker.find_tables": (5, 6),
    "softlookup.checker.locate_projections": (5, 6),
    "softlookup.checker.own_weights": (5, 6),
    "softlookup.checker.promised_biases": (5, 4),
    "softlookup.checker.find_layout": (5, 7),
    "softlookup.checker.hiding": (5, 7),
    "softlookup.checker.inner_norms": (5, 7),
    "softlookup.checker.locate": (5, 7),
    "softlookup.checker.find_layer": (5, 8),
    "softlookup.checker.findings": (5, 8),
    "softlookup.checker.observed": (5, 8),
    "softlookup.checker.adapt": (5, 9),
    "softlookup.checker.looks": (5, 9),
    "softlookup.checker.behaviour": (5, 10),
    "softlookup.checker.diagnose": (5, 11),
    "softlookup.checker.files": (5, 12),
    "softlookup.checker.rules": (5, 5),
    "softlookup.checker.variants": (5, 6),
    "softlookup.checker": (5, 13),
    "softlookup.live.layer_outputs": (5, 0),
    "softlookup.live.record": (5, 0),
    "softlookup.live.limits": (5, 0),
    "softlookup.live.around": (5, 0),
    "softlookup.live.compiled_calls": (5, 0),
    "softlookup.live.coverage": (5, 0),
    "softlookup.live.uncopied": (5, 0),
    "softlookup.live.declared": (5, 1),
    "softlookup.live.kept_answers": (4, 8),  # before problem, which most of live builds on
    "softlookup.live.problem": (5, 0),
    "softlookup.live.measuring_calls": (5, 1),
    "softlookup.live.products": (5, 0),
    "softlookup.live.value_products": (5, 0),
    "softlookup.live.followed_weights": (5, 1),
    "softlookup.live.naming_calls": (5, 1),
    "softlookup.live.past": (5, 1),
    "softlookup.live.projections": (5, 1),
    "softlookup.live.rules_of_layers": (5, 1),
    "softlookup.live.alarms": (5, 2),
    "softlookup.live.alarms.*": (5, 2),  # one file an alarm, found by judging
    "softlookup.live.doors": (5, 2),
    "softlookup.live.doors.*": (5, 2),  # one file a way to compute attention, found by door_files
    "softlookup.live.door_files": (5, 3),
    "softlookup.live.judging": (5, 3),
    "softlookup.live.tap": (5, 4),
    "softlookup.live.trace": (5, 4),
    "softlookup.live.steps": (5, 5),
    "softlookup.live.ear": (5, 6),
    "softlookup.live.watching": (5, 7),
    "softlookup.live.watching_scripts": (5, 8),
    "softlookup.live.trace_files": (5, 0),
    "softlookup.live.step_encoding": (5, 1),
    "softlookup.live.numbers_of_heads": (5, 1),
    "softlookup.live.thinned_series": (5, 2),
    "softlookup.live.logging_to": (5, 2),
    "softlookup.live.showing_live": (5, 2),
    "softlookup.live.heads_by_rank": (5, 1),
    "softlookup.live.history": (5, 3),
    "softlookup.live.merging_ranks": (5, 4),
    "softlookup.live.across_ranks": (5, 5),
    "softlookup.live.outlet": (5, 3),
    "softlookup.live.callbacks": (5, 8),
    "softlookup.live.stored": (5, 2),
    "softlookup.live.storing": (5, 2),
    "softlookup.live.multihead_drop_in": (5, 0),
    "softlookup.live.transformers_masks": (5, 0),
    "softlookup.live.transformers_attention": (5, 1),
    "softlookup.live": (5, 20),
    "softlookup.auditing.question": (6, 0),
    "softlookup.auditing.planting": (6, 0),
    "softlookup.auditing.untouched": (6, 0),
    "softlookup.auditing.rules.*": (6, 1),  # one file a fault that only a whole model can have
    "softlookup.auditing.rules": (6, 2),
    "softlookup.auditing.by_name": (6, 1),
    "softlookup.auditing.torch_layers": (6, 1),
    "softlookup.auditing.inputs": (6, 2),
    "softlookup.auditing.subject": (6, 3),
    "softlookup.auditing.comparing": (6, 4),
    "softlookup.auditing.loss": (6, 4),
    "softlookup.auditing.findings": (6, 5),
    "softlookup.auditing.padding": (6, 5),
    "softlookup.auditing.cached_steps": (6, 6),
    "softlookup.auditing.paths": (6, 6),
    "softlookup.auditing.checks.*": (6, 7),  # one file a check, found by discover
    "softlookup.auditing.checks": (6, 7),
    "softlookup.auditing.discover": (6, 8),
    "softlookup.auditing.loading": (6, 0),
    "softlookup.auditing.running": (6, 9),
    "softlookup.auditing": (6, 20),
    "softlookup.lint.source": (5, 0),
    "softlookup.lint.hit": (5, 0),
    "softlookup.lint.suppression": (5, 0),
    "softlookup.lint.values": (5, 1),
    "softlookup.lint.gates": (5, 2),
    "softlookup.lint.mask_meaning": (5, 2),
    "softlookup.lint.products": (5, 2),
    "softlookup.lint.torch_modules": (5, 2),
    "softlookup.lint.unpacked_shapes": (5, 2),
    "softlookup.lint.axes": (5, 3),
    "softlookup.lint.fills": (5, 3),
    "softlookup.lint.views": (5, 4),
    "softlookup.lint.rules.*": (5, 5),  # one file a lint, found by discover
    "softlookup.lint.rules": (5, 5),
    "softlookup.lint.discover": (5, 6),
    "softlookup.lint.choosing": (5, 7),
    "softlookup.lint.running": (5, 7),
    "softlookup.lint.showing": (5, 8),
    "softlookup.lint": (5, 9),
    "softlookup.recording.recorded_call": (6, 0),
    "softlookup.recording.one_forward": (6, 1),
    "softlookup.recording": (6, 2),
    "softlookup.experiments.fast_paths": (6, 2),
    "softlookup.experiments.intervention": (6, 2),
    "softlookup.experiments.stepping": (6, 3),
    "softlookup.experiments.wrong_places": (6, 3),
    "softlookup.experiments.interventions.recorded_rows": (6, 3),
    "softlookup.experiments.interventions.*": (6, 4),  # one file an intervention
    "softlookup.experiments.interventions": (6, 4),
    "softlookup.experiments.answered_problem": (6, 4),
    "softlookup.experiments.answering": (6, 5),
    "softlookup.experiments.intervening": (6, 6),
    "softlookup.experiments.one_input": (6, 0),
    "softlookup.experiments.ranking": (6, 0),
    "softlookup.experiments.resampling": (6, 0),
    "softlookup.experiments.row_facts": (6, 0),
    "softlookup.experiments.outputs": (6, 1),
    "softlookup.experiments.judging": (6, 1),
    "softlookup.experiments.metrics": (6, 2),
    "softlookup.experiments.verdicts": (6, 2),
    "softlookup.experiments.value_norms": (6, 3),
    "softlookup.experiments.changed_row": (6, 7),
    "softlookup.experiments.effects": (6, 7),
    "softlookup.experiments.slopes": (6, 7),
    "softlookup.experiments.removing": (6, 8),
    "softlookup.experiments.asking_rows": (6, 9),
    "softlookup.experiments": (6, 10),
    "softlookup.experiment_spelling": (6, 11),
    "softlookup.experiment_run": (6, 12),
    "softlookup.promises": (6, 0),
    "softlookup.testing.closeness": (6, 0),
    "softlookup.testing.strategies": (6, 0),
    "softlookup.testing.drawn_rows": (6, 0),
    "softlookup.testing.looked_at": (6, 1),
    "softlookup.testing.visibility": (6, 2),
    "softlookup.testing": (6, 3),
    "softlookup.console": (6, 0),
    "softlookup.viewer.colours": (6, 3),
    "softlookup.viewer.head_measures": (6, 3),
    "softlookup.viewer.html_page": (6, 4),
    "softlookup.viewer.map_layers": (6, 3),
    "softlookup.viewer.measuring_maps": (6, 4),
    "softlookup.viewer.packing": (6, 3),
    "softlookup.viewer.page_facts": (6, 5),
    "softlookup.viewer.pictures": (6, 4),
    "softlookup.viewer.planning_pages": (6, 4),
    "softlookup.viewer.run_tokens": (6, 4),
    "softlookup.viewer.subjects": (6, 5),
    "softlookup.viewer.token_text": (6, 3),
    "softlookup.viewer.watch_facts": (6, 4),
    "softlookup.viewer.viewing": (6, 6),
    "softlookup.viewer": (6, 7),
    "softlookup.pytest_plugin": (7, 0),
    "softlookup.configuration": (6, 0),
    "softlookup.learn.lessons": (6, 1),
    "softlookup.learn.judgement": (6, 1),
    "softlookup.learn.outcomes": (6, 1),
    "softlookup.learn.exercise": (6, 2),
    "softlookup.learn.mistakes": (6, 2),
    "softlookup.learn.progress": (6, 2),
    "softlookup.learn.quiz.question": (6, 2),
    "softlookup.learn.parts": (6, 3),
    "softlookup.learn.place": (6, 3),
    "softlookup.learn.quiz.*": (6, 3),  # one file of questions a lesson, found by question
    "softlookup.learn.repetition": (6, 3),
    "softlookup.learn.asking": (6, 4),
    "softlookup.learn.judging": (6, 4),
    "softlookup.learn.notebooks": (6, 4),
    "softlookup.learn.planted": (6, 4),
    "softlookup.learn.predicted": (6, 4),
    "softlookup.learn.showing": (6, 4),
    "softlookup.learn.traced": (6, 4),
    "softlookup.learn.quiz": (6, 4),
    "softlookup.learn.exercises.l4e3_reading_maps.maps": (6, 4),
    "softlookup.learn.exercises.l5e5_dropout.dropped": (6, 4),
    "softlookup.learn.exercises.*": (6, 5),  # one folder an exercise, found by exercise
    "softlookup.learn.exercises": (6, 5),
    "softlookup.learn.grading": (6, 5),
    "softlookup.learn.jupyter": (6, 5),
    "softlookup.learn.watching": (6, 5),
    "softlookup.learn": (6, 6),
    "softlookup.file_checks": (6, 1),
    "softlookup.check_run": (6, 2),
    "softlookup.lab.asked": (6, 8),
    "softlookup.lab.guarding": (6, 8),
    "softlookup.lab.jobs": (6, 8),
    "softlookup.model_texts": (6, 8),
    "softlookup.lab.outcomes": (6, 9),
    "softlookup.lab.serving": (6, 9),
    "softlookup.lab.readings": (6, 10),
    "softlookup.lab.changes": (6, 11),
    "softlookup.lab.verdicts": (6, 11),
    "softlookup.lab.python_script": (6, 12),
    "softlookup.lab.session": (6, 13),
    "softlookup.lab.app": (6, 14),
    "softlookup.lab": (6, 15),
    "softlookup.commands.*": (7, 0),  # one file a command; cli finds them by file name
    "softlookup.commands": (7, 1),
    "softlookup.cli": (8, 0),
    "softlookup.__main__": (9, 0),
}
DOOR = "softlookup"  # imports nothing at run time, so everybody may read its version

#: Modules that must load without torch.
NO_TORCH = (
    "softlookup",
    "softlookup.terms",
    "softlookup.catalog",
    "softlookup.selection",
    "softlookup.pytest_plugin",
    "softlookup.cli",
)
#: The child is a program of its own, and a script that is watched has the argv it would have.
MAY_EXIT_OR_READ_ARGV = {"softlookup.cli", "softlookup.checker.child", "softlookup.live.watching_scripts"}
REQUIRED_LIBRARIES = {"torch", "click", "rich", "safetensors"}
LOADED_BY = {"softlookup.pytest_plugin": {"pytest"}}  # who loads the module is there already
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "core", "base", "manager"}

MOST_LINES = 300
MOST_PARAMETERS = 6
NOT_COUNTED = {"self", "cls", "i", "j", "q_len", "k_len"}  # the last four: what every mask predicate is given
#: Functions whose parameters are many for a reason.
MANY_PARAMETERS = {
    "softlookup.conventions.converting.convert": "the sizes of a mask, each where it cannot be seen",
    "softlookup.fused.attending.attend": "torch's own signature, and empty_rows",
    "softlookup.fused.attending.attend_with_lse": "torch's own signature, and empty_rows",
    "softlookup.fused.attending._explain": "those of attend, whose call it explains",
    "softlookup.fused.compiled.look_up_numbered_backward": "an operator takes nothing but flat arguments",
    "softlookup.fused.compiled._": "an operator takes nothing but flat arguments",
    "softlookup.statistics.recovering.weights_of": "those of attend, and which rows",
    "softlookup.statistics.observing.observe_shard": "those of attend, and where the shard stands",
    "softlookup.statistics.observing.observe": "those of attend, and what is to be measured",
    "softlookup.live.compiled_calls.heard_products": "an operator takes nothing but flat arguments",
    "softlookup.experiments.interventions.ablated_head.ablate": "where, as all, and what stands in for it",
    "softlookup.live.watching.watch": "what is measured, how often, and where it goes",
    "softlookup.attention.scaled_dot_product_attention": "torch's own signature, and empty_rows",
    "softlookup.live.multihead_drop_in.forward": "those of torch.nn.MultiheadAttention",
    "softlookup.multihead.__init__": "torch's own options of such a module",
    "softlookup.experiments.asking_rows.faithfulness": "which row of which head, and how it is asked",
    "softlookup.testing.visibility.assert_allowed": "a place in a mask, its lengths, and whose mask it is",
    "softlookup.testing.visibility.assert_hidden": "those of assert_allowed",
    "softlookup.testing.visibility.assert_row": "those of assert_allowed",
    "softlookup.viewer.viewing.view": "what is shown, of which run, and where it goes",
    "softlookup.testing.closeness.assert_attention_close": "an output, and the problem as users have it",
}


def module_name(path):
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def handed_out(path):
    """Say whether a file is an exercise or its solution: text that is never imported."""
    return path.parent.parent.name == "exercises" and path.name in {"task.py", "solution.py"}


MODULES = {module_name(path): path for path in sorted(SRC.rglob("*.py")) if not handed_out(path)}


@functools.cache
def tree(module):
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def layer(module):
    entries = [module, *(f"{module.rsplit('.', n)[0]}.*" for n in range(1, module.count(".") + 1))]
    return next((LAYERS[entry] for entry in entries if entry in LAYERS), None)


def only_for_types(module):
    """Return every node under ``if TYPE_CHECKING``."""
    blocks = [
        node
        for node in ast.walk(tree(module))
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    ]
    return {inner for block in blocks for statement in block.body for inner in ast.walk(statement)}


def imported(node):
    """Return the full names that an import statement may bind a module from."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "write imports in full"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def own_imports(module):
    """Return the modules of ours that a module imports, wherever the import stands."""
    for node in ast.walk(tree(module)):
        for name in imported(node):
            if name.split(".")[0] == "softlookup":
                yield name if name in MODULES else name.rpartition(".")[0]


def top_imports(module):
    """Return the full names imported when the module loads: outside functions, and not only for types."""
    for_types = only_for_types(module)
    inside = {
        inner
        for node in ast.walk(tree(module))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree(module)):
        if node not in for_types and node not in inside:
            yield from imported(node)


def functions(module):
    return [
        node for node in ast.walk(tree(module)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def of_every_module(*, but=()):
    """Make one test of a check of a module: it asks all of them, and says each that fails."""

    def as_test(check):
        def test():
            wrong = []
            for module in MODULES:
                try:
                    if module not in but:
                        check(module)
                except AssertionError as error:
                    wrong.append(f"{module}: {error}")
            assert not wrong, "\n".join(wrong)

        test.__name__ = check.__name__
        return test

    return as_test


def in_fresh_python(code):
    """Run code in a new interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@of_every_module(but={DOOR})
def test_every_module_has_a_layer_and_imports_only_lower_ones(module):
    own = layer(module)
    assert own is not None, f"{module} is missing in LAYERS"
    for other in own_imports(module):
        if other == DOOR:
            continue
        assert layer(other) is not None, f"{module} imports {other}, which is missing in LAYERS"
        assert layer(other) < own, f"{module} {own} imports {other} {layer(other)}"


def test_the_table_lists_nothing_that_is_gone():
    gone = [name for name in LAYERS if name.removesuffix(".*") not in MODULES]
    assert not gone


def test_the_page_lists_the_layers_of_the_table():
    page = (HERE / "ARCHITECTURE.md").read_text(encoding="utf-8")
    block = re.search(r"```\nsrc/softlookup/\n(.*?)```", page, re.S)[1]
    listed = {}
    for name, number in re.findall(r"^  (\w+(?:\.py|/))\s+(\d)\s", block, re.M):
        listed[f"softlookup.{name.removesuffix('.py').removesuffix('/')}"] = int(number)
    table = {name: layer(name)[0] for name in MODULES if name.count(".") == 1}
    assert listed == table


def test_the_page_lists_every_file_of_the_checker():
    page = (HERE / "ARCHITECTURE.md").read_text(encoding="utf-8")
    files = {path.name for path in (SRC / "softlookup" / "checker").glob("*.py")} - {"__init__.py"}
    assert not [name for name in sorted(files) if name not in page]


def test_the_door_imports_nothing_of_ours_and_no_library():
    assert set(top_imports(DOOR)) <= {"importlib.import_module", "typing.TYPE_CHECKING", "typing.Any"}


def test_every_name_of_the_door_opens():
    out = in_fresh_python(
        "import softlookup\n"
        "for name in softlookup.__all__:\n"
        "    try: getattr(softlookup, name)\n"
        "    except Exception as error: print(name, error)\n"
    )
    assert out == ""


@pytest.mark.parametrize(
    "module", [*NO_TORCH, *(name for name in MODULES if name.startswith("softlookup.report"))]
)
def test_importing_leaves_torch_out(module):
    assert in_fresh_python(f"import sys, {module}; print('torch' in sys.modules)") == "False\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["check", "--help"],
        ["rules"],
        ["explain", "softmax-over-queries"],
        ["check", "no_such_file.py"],
    ],
    ids=" ".join,
)
def test_a_command_that_runs_no_attention_leaves_torch_out(arguments):
    out = in_fresh_python(
        "import sys\n"
        "from softlookup.cli import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    assert out.splitlines()[-1] == "False"


@of_every_module()
def test_optional_libraries_are_never_imported_at_the_top(module):
    libraries = {name.split(".")[0] for name in top_imports(module)} - set(sys.stdlib_module_names)
    assert libraries <= REQUIRED_LIBRARIES | {"softlookup"} | LOADED_BY.get(module, set())


@of_every_module(but=MAY_EXIT_OR_READ_ARGV)
def test_only_the_command_line_exits_prints_or_reads_argv(module):
    forbidden = {"sys.exit", "os._exit", "exit", "quit", "print", "input"}
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in forbidden, f"line {node.lineno}: {ast.unparse(node.func)}"
        if isinstance(node, ast.Attribute):
            assert ast.unparse(node) != "sys.argv", f"line {node.lineno}"
        if isinstance(node, ast.Raise) and node.exc is not None:
            assert "SystemExit" not in ast.unparse(node.exc), f"line {node.lineno}"


def test_no_file_has_a_name_that_says_nothing():
    parts = {part for module in MODULES for part in module.split(".")}
    assert not parts & FORBIDDEN_NAMES


@of_every_module()
def test_no_public_function_shares_its_name_with_a_module_beside_it(module):
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    beside = {name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == package}
    public = {node.name for node in tree(module).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    if package == "softlookup.masks":
        public -= {"bias"}  # what a mask file must define; nothing re-exports it
    assert not public & beside


def test_the_door_lists_every_name_that_it_knows_the_home_of():
    import softlookup

    assert set(softlookup.__all__) == set(softlookup._HOME)


def test_no_name_of_the_door_is_the_name_of_a_module():
    import softlookup

    assert not set(softlookup.__all__) & {name.rpartition(".")[2] for name in MODULES if name.count(".") == 1}


@of_every_module()
def test_no_file_is_longer_than_300_lines(module):
    assert len(MODULES[module].read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@of_every_module()
def test_no_function_has_more_than_six_parameters(module):
    for node in functions(module):
        everything = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        names = [argument.arg for argument in everything if argument.arg not in NOT_COUNTED]
        if f"{module}.{node.name}" not in MANY_PARAMETERS:
            assert len(names) <= MOST_PARAMETERS, f"{node.name} has {len(names)}"


def test_the_parameter_exceptions_are_still_needed():
    for name in MANY_PARAMETERS:
        module, _, function = name.rpartition(".")
        assert any(node.name == function for node in functions(module))


@of_every_module()
def test_every_rule_file_is_named_by_its_code(module):
    package, _, stem = module.rpartition(".")
    if package == "softlookup.checker.rules":
        assert re.fullmatch(r"sl\d{3}_[a-z0-9_]+", stem)
