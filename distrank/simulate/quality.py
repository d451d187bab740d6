"""How good the simulated annotators are.

    beta:A,B     quality ~ Beta(A, B)
    fixed:Q      everyone has quality Q
    mixture      kinds with shares, `mixture:expert=0.3,average=0.4,spammer=0.2,malicious=0.1` (these are the defaults;
                 kinds not named have none), each uniform in its range of RANGES; the counts are exact, not random

Quality is the probability that an annotator reports the true order: 0.5 is a spammer, 0 someone who always lies.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.errors import UsageError
from distrank.records import Array
from distrank.tables.outputs import KINDS

RANGES = {"expert": (0.9, 1.0), "average": (0.65, 0.85), "spammer": (0.45, 0.55), "malicious": (0.0, 0.25)}
SHARES = {"expert": 0.3, "average": 0.4, "spammer": 0.2, "malicious": 0.1}


def draw_quality(text: str, annotators: int, malicious: float, generator: np.random.Generator) -> Array:
    """The quality of every annotator; a share `malicious` of them, picked at random, gets 1 - quality instead."""
    law, _, parameters = text.partition(":")
    if law == "beta":
        a, b = _numbers(text, parameters, 2)
        if a <= 0 or b <= 0:
            raise UsageError(f"quality={text!r}: both parameters of beta must be above 0")
        quality = generator.beta(a, b, annotators)
    elif law == "fixed":
        (value,) = _numbers(text, parameters, 1)
        if not 0 <= value <= 1:
            raise UsageError(f"quality={text!r}: a quality lies between 0 and 1")
        quality = np.full(annotators, value)
    elif law == "mixture":
        if malicious:
            raise UsageError("quality=mixture has its own malicious share: leave the setting malicious at 0")
        quality = _mixture(_shares(text, parameters), annotators, generator)
    else:
        raise UsageError(f"quality={text!r}: expected beta:A,B or fixed:Q or mixture, for example beta:5,1")
    liars = generator.permutation(annotators)[: round(malicious * annotators)]
    quality[liars] = 1.0 - quality[liars]
    return quality


def kinds_of(quality: Array) -> list[str]:
    """The kind of every annotator by true quality, with the limits that the results use (nobody is unknown here)."""
    return [next(kind for low, kind in KINDS if value >= low) for value in quality.tolist()]


def _mixture(shares: dict[str, float], annotators: int, generator: np.random.Generator) -> Array:
    """Each kind's whole number of annotators (largest remainders round up), in random order."""
    exact = np.array(list(shares.values())) * annotators
    counts = np.floor(exact + 1e-9).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: annotators - counts.sum()]] += 1
    low, high = np.repeat([RANGES[kind] for kind in shares], counts, axis=0).T
    return generator.permutation(generator.uniform(low, high))


def _shares(text: str, parameters: str) -> dict[str, float]:
    if not parameters:
        return SHARES
    shares = {}
    for part in parameters.split(","):
        kind, _, share = part.partition("=")
        if kind not in RANGES or kind in shares:
            raise UsageError(f"quality={text!r}: {kind!r} is not one of {', '.join(RANGES)}, each at most once")
        (shares[kind],) = _numbers(text, share, 1)
    if min(shares.values()) < 0 or not math.isclose(sum(shares.values()), 1.0, abs_tol=1e-9):
        raise UsageError(f"quality={text!r}: the shares must not be negative and must add up to 1")
    return shares


def _numbers(text: str, parameters: str, count: int) -> list[float]:
    try:
        numbers = [float(part) for part in parameters.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(math.isfinite(number) for number in numbers):
        wanted = "one number" if count == 1 else f"{count} numbers"
        raise UsageError(f"quality={text!r}: expected {wanted} where {parameters!r} stands, for example beta:5,1")
    return numbers
