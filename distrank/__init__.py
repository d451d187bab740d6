"""distrank: consensus rankings, annotator quality and trained rankers from crowd judgments.

    from distrank import CrowdBT

    result = CrowdBT(regularization=0.5).fit(frame)     # a DataFrame: query, annotator, winner, loser
    result.rankings, result.annotators, result.queries  # DataFrames
    result.converged, result.trace, result.warnings

Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distrank.api import (
        LTRMA,
        MPM,
        SVP,
        TPP,
        TRM,
        Average,
        Borda,
        BradleyTerry,
        Condorcet,
        CrowdAgg,
        CrowdBT,
        CrowdBTOnline,
        DawidSkene,
        EMElo,
        Glad,
        GreedyOrder,
        ListMLE,
        LRegMA,
        LTRMADirect,
        Majority,
        MajorityBT,
        Mallows,
        MedianRank,
        PlackettLuce,
        Result,
        Thurstone,
        TrueSkill,
        VarianceBT,
    )

__all__ = [
    "LTRMA",
    "MPM",
    "SVP",
    "TPP",
    "TRM",
    "Average",
    "Borda",
    "BradleyTerry",
    "Condorcet",
    "CrowdAgg",
    "CrowdBT",
    "CrowdBTOnline",
    "DawidSkene",
    "EMElo",
    "Glad",
    "GreedyOrder",
    "LRegMA",
    "LTRMADirect",
    "ListMLE",
    "Majority",
    "MajorityBT",
    "Mallows",
    "MedianRank",
    "PlackettLuce",
    "Result",
    "Thurstone",
    "TrueSkill",
    "VarianceBT",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from distrank import api

        return getattr(api, name)
    raise AttributeError(f"module 'distrank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
