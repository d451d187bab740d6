"""Simulated crowds with a known truth. One registry: a simulator is one file here and one line below."""

from collections.abc import Mapping
from typing import Any

from distrank.errors import UsageError
from distrank.settings import parse_settings
from distrank.simulate import crowd_agg, crowd_bt, ltrma, remap, tpp
from distrank.simulate.crowd_agg import CrowdAggSimulation, simulate_crowd_agg
from distrank.simulate.crowd_bt import CrowdBTCodes, CrowdBTSimulation, crowd_bt_codes, simulate_crowd_bt
from distrank.simulate.ltrma import LTRMASimulation, simulate_ltrma
from distrank.simulate.output import Simulated, Simulator
from distrank.simulate.tpp import TPPCodes, TPPSimulation, simulate_tpp, tpp_codes

SIMULATIONS: dict[str, Simulator] = {
    "crowd-agg": crowd_agg.SIMULATOR,
    "crowd-bt": crowd_bt.SIMULATOR,
    "ltrma": ltrma.SIMULATOR,
    "tpp": tpp.SIMULATOR,
    "remap": remap.SIMULATOR,
}


def simulate(name: str, settings: Mapping[str, Any]) -> Simulated:
    """Run the simulator of this name; values may be text, as on a command line."""
    if name not in SIMULATIONS:
        raise UsageError(f"unknown simulation {name!r}; known: {', '.join(SIMULATIONS)}")
    simulator = SIMULATIONS[name]
    return simulator.run(parse_settings(simulator.Settings, settings))


__all__ = [
    "SIMULATIONS",
    "CrowdAggSimulation",
    "CrowdBTCodes",
    "CrowdBTSimulation",
    "LTRMASimulation",
    "Simulated",
    "Simulator",
    "TPPCodes",
    "TPPSimulation",
    "crowd_bt_codes",
    "simulate",
    "simulate_crowd_agg",
    "simulate_crowd_bt",
    "simulate_ltrma",
    "simulate_tpp",
    "tpp_codes",
]
