"""The registry of models: one line each, imported when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from distrank.contract import Model
from distrank.errors import UsageError
from distrank.settings import parse_settings

MODELS: dict[str, str] = {  # name -> module:class
    "borda": "distrank.models.borda:Borda",
    "bradley-terry": "distrank.models.bradley_terry:BradleyTerry",
    "crowd-bt": "distrank.models.crowd_bt:CrowdBT",
    "majority-bt": "distrank.models.majority_bt:MajorityBT",
    "thurstone": "distrank.models.thurstone:Thurstone",
    "variance-bt": "distrank.models.variance_bt:VarianceBT",
    "tpp": "distrank.models.tpp:TPP",
    "trm": "distrank.models.trm:TRM",
    "crowd-bt-online": "distrank.models.crowd_bt_online:CrowdBTOnline",
    "crowd-agg": "distrank.models.crowd_agg:CrowdAgg",
    "median-rank": "distrank.models.median_rank:MedianRank",
    "condorcet": "distrank.models.condorcet:Condorcet",
    "plackett-luce": "distrank.models.plackett_luce:PlackettLuce",
    "em-elo": "distrank.models.em_elo:EMElo",
    "mpm": "distrank.models.mpm:MPM",
    "mallows": "distrank.models.mallows:Mallows",
    "svp": "distrank.models.svp:SVP",
    "greedy-order": "distrank.models.greedy_order:GreedyOrder",
    "listmle": "distrank.models.listmle:ListMLE",
    "lregma": "distrank.models.lregma:LRegMA",
    "ltrma": "distrank.models.ltrma:LTRMA",
    "ltrma-d": "distrank.models.ltrma_direct:LTRMADirect",
    "trueskill": "distrank.models.trueskill:TrueSkill",
    "majority": "distrank.models.majority:Majority",
    "average": "distrank.models.average:Average",
    "dawid-skene": "distrank.models.dawid_skene:DawidSkene",
    "glad": "distrank.models.glad:Glad",
}


def get_model(name: str) -> type[Model]:
    """The class of a model by its name; an unknown name is an error that lists the known ones."""
    if name not in MODELS:
        raise UsageError(f"unknown method {name!r}; known methods: {', '.join(sorted(MODELS))}")
    module, attribute = MODELS[name].split(":")
    model: type[Model] = getattr(importlib.import_module(module), attribute)
    return model


def make_model(name: str, settings: Mapping[str, Any], others: Sequence[str] = ()) -> Model:
    """A model with its settings, given as text or as values; `others` as in `parse_settings`."""
    kind = get_model(name)
    return kind(parse_settings(kind.Settings, settings, others))
