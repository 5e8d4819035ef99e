"""What the plain arguments of a call are given: numbers, switches, and a stand-in for a layer."""

from __future__ import annotations

import math

import torch

from softlookup.checker.calls import StandIn, Value
from softlookup.checker.given_tables import FORMS, TABLES, tables_by_role
from softlookup.masks.linear_distance import slopes
from softlookup.terms import Case


def values_by_role(name: str, case: Case) -> dict[str, Value]:
    """Return role -> what the parameter ``name`` gets in that role, so that it means what the case asks."""
    positions = torch.arange(case.q.shape[-2])
    tables = tables_by_role(case)
    return {
        "heads": case.q.shape[1],
        "kv_heads": case.k.shape[1],
        "training": name == "deterministic",
        "dropout": 0.0,
        "gqa": case.k.shape[1] != case.q.shape[1],
        "causal": case.causal is not None,
        "scale": case.scale,
        "temperature": 1 / case.scale if case.scale else math.sqrt(case.q.shape[-1]),
        "sink": torch.zeros(case.q.shape[1], dtype=case.q.dtype),
        "block": 4,
        "layer": StandIn(
            training=False,
            num_key_value_groups=case.q.shape[1] // case.k.shape[1],
            num_heads=case.q.shape[1],
            num_attention_heads=case.q.shape[1],
            num_key_value_heads=case.k.shape[1],
            head_dim=case.q.shape[-1],
            scaling=case.scale or 1 / math.sqrt(case.q.shape[-1]),
            scale=case.scale or 1 / math.sqrt(case.q.shape[-1]),
            is_causal=False,
            layer_idx=0,
            sliding_window=None,
            attention_dropout=0.0,
        ),
        "positions": positions[None].expand(case.q.shape[0], -1),
        **{role: tables[f"{role} {FORMS[0]}"] for role in TABLES},
        **tables,
        "slopes": torch.tensor(slopes(case.q.shape[1]), dtype=case.q.dtype),
    }
