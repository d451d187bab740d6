"""Whether one run is better than another beyond the luck of the queries: paired tests over the queries that both have.

    t-test          differences over queries against 0, two-sided: Student's t with n - 1 degrees of freedom
    randomisation   were the two runs exchangeable, every difference could have had the other sign: the share of all
                    sign flips with a mean difference at least as large. All 2^n of them for up to EXACT queries,
                    otherwise random ones; the observed one counts among them, so that p is never 0  [Smucker07]

The random flips come from counters (seed, flip, query): the same seed, the same p. Queries where a metric is not
defined for one of the two runs are left out. Nothing is corrected for the number of comparisons.

[Smucker07] Smucker, Allan, Carterette: A comparison of statistical significance tests for IR evaluation. CIKM 2007.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from distrank.errors import UsageError
from distrank.evaluate.evaluation import Comparison
from distrank.kernels import kernel
from distrank.kernels.random import round_key, threefry
from distrank.records import Array

EXACT = 14  # queries up to which all sign flips are tried
FLIPS = 10_000
_ROUNDING = 1e-12  # relative: sums of the same numbers in another order


@dataclass(frozen=True)
class PairedTest:
    """One run against another on one metric."""

    queries: int
    difference: float  # mean over queries
    t: float  # NaN where the differences do not vary
    p_t: float
    p_randomisation: float


def paired_test(first: Array, second: Array, *, flips: int = FLIPS, seed: int = 0) -> PairedTest:
    """Is `first` different from `second`? Values per query, in the same order; NaN where not defined."""
    if flips < 1:
        raise UsageError(f"flips={flips}: at least one is needed")
    difference = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    difference = difference[~np.isnan(difference)]
    count = len(difference)
    if count == 0:
        return PairedTest(0, math.nan, math.nan, math.nan, math.nan)
    mean = float(difference.mean())
    t, p_t = _student(difference)
    key = round_key(seed, 0, 0, 0, "randomisation test")
    return PairedTest(count, mean, t, p_t, _randomised(difference, flips, count <= EXACT, key))


def significance(comparison: Comparison, base: str | None = None, *, flips: int = FLIPS, seed: int = 0) -> pa.Table:
    """Every run against the base (the first, unless named), metric by metric."""
    base = next(iter(comparison.runs)) if base is None else base
    rows: dict[str, list[object]] = {
        name: [] for name in ("metric", "run", "base", "queries", "difference", "t", "p_t", "p_randomisation")
    }
    for metric in comparison.metrics:
        table = comparison.differences(metric, base)
        for run in comparison.runs:
            if run == base:
                continue
            found = paired_test(table[run].to_numpy(), np.zeros(table.num_rows), flips=flips, seed=seed)
            values = (metric, run, base, found.queries, found.difference, found.t, found.p_t, found.p_randomisation)
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    return pa.table(rows)


def _student(difference: Array) -> tuple[float, float]:
    """t and its two-sided p; not defined for one query, or for differences that are all the same."""
    from scipy.special import stdtr  # noqa: PLC0415 (nothing heavy is imported before it is needed)

    count, spread = len(difference), float(difference.std(ddof=1)) if len(difference) > 1 else 0.0
    if spread <= _ROUNDING * float(np.abs(difference).max()):
        return math.nan, 1.0 if not difference.any() else math.nan
    t = float(difference.mean()) / (spread / math.sqrt(count))
    return t, float(2.0 * stdtr(count - 1, -abs(t)))


@kernel
def _randomised(difference: Array, flips: int, exact: bool, key: Array) -> float:
    """The share of sign flips whose sum is at least as far from 0 as the observed one."""
    count, observed, scale = len(difference), 0.0, 0.0
    for q in range(count):
        observed += difference[q]
        scale += abs(difference[q])
    limit = abs(observed) - _ROUNDING * scale
    tries = 1 << count if exact else flips
    extreme = 0
    for flip in range(tries):
        total, word = 0.0, np.uint64(0)
        for q in range(count):
            if exact:
                heads = (flip >> q) & 1 == 1
            else:
                if q % 64 == 0:
                    word, _ = threefry(key[0], key[1], np.uint64(flip), np.uint64(q))
                heads = (word >> np.uint64(q % 64)) & np.uint64(1) == np.uint64(1)
            total += difference[q] if heads else -difference[q]
        if abs(total) >= limit:
            extreme += 1
    return extreme / tries if exact else (extreme + 1.0) / (tries + 1.0)
