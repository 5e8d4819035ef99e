"""Controlled experiments: a model runs with some steps of its attention done otherwise."""

from softlookup.experiments import metrics
from softlookup.experiments.asking_rows import attention_gradients, faithfulness
from softlookup.experiments.effects import Effect, effect
from softlookup.experiments.intervening import intervene
from softlookup.experiments.interventions.ablated_head import ablate
from softlookup.experiments.interventions.changed_token import change_token
from softlookup.experiments.interventions.frozen_map import freeze_map
from softlookup.experiments.interventions.frozen_mask import freeze_mask
from softlookup.experiments.interventions.permuted_weights import permuted_map
from softlookup.experiments.interventions.previous_token_weights import previous_token_map
from softlookup.experiments.interventions.removed_source import remove_source
from softlookup.experiments.interventions.scaled_logits import scale_logits
from softlookup.experiments.interventions.uniform_weights import uniform_map
from softlookup.experiments.removing import Removal
from softlookup.experiments.resampling import Resampling
from softlookup.experiments.verdicts import Verdict

__all__ = [
    "Effect",
    "Removal",
    "Resampling",
    "Verdict",
    "ablate",
    "attention_gradients",
    "change_token",
    "effect",
    "faithfulness",
    "freeze_map",
    "freeze_mask",
    "intervene",
    "metrics",
    "permuted_map",
    "previous_token_map",
    "remove_source",
    "scale_logits",
    "uniform_map",
]
