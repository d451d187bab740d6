"""Counter-based random numbers: Threefry-2x64 with 20 rounds.  [Salmon11]

A draw is a function of (key, counter) and of nothing else: no generator is made, stored or passed on, and a unit's
draws are the same alone and in any shard. The key says which step of which round this is (`round_key`); the counter
is (stable hash of the unit's id, number of the draw).

[Salmon11] Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel

_PARITY = np.uint64(0x1BD11BDAA9FC1A22)
_ROTATIONS = np.array([16, 42, 12, 31, 16, 32, 24, 21], dtype=np.uint64)
_WORD = np.uint64(64)
_TO_UNIT = 1.0 / 9007199254740992.0  # 2**-53
_DROP = np.uint64(11)


def round_key(seed: int, start: int, iteration: int, number: int, step: str) -> NDArray[np.uint64]:
    """The key of one step in one round of one iteration of one start."""
    text = f"{seed}|{start}|{iteration}|{number}|{step}".encode()
    return np.frombuffer(hashlib.sha256(text).digest()[:16], dtype="<u8").astype(np.uint64)


@kernel
def threefry(key0: np.uint64, key1: np.uint64, counter0: np.uint64, counter1: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Two random 64-bit words for a key and a counter."""
    key2 = _PARITY ^ key0 ^ key1
    x0, x1 = counter0 + key0, counter1 + key1
    for block in range(5):
        for turn in range(4):
            rotation = _ROTATIONS[4 * (block % 2) + turn]
            x0 = x0 + x1
            x1 = ((x1 << rotation) | (x1 >> (_WORD - rotation))) ^ x0
        # key injection after every fourth round
        if block % 3 == 0:
            x0, x1 = x0 + key1, x1 + key2
        elif block % 3 == 1:
            x0, x1 = x0 + key2, x1 + key0
        else:
            x0, x1 = x0 + key0, x1 + key1
        x1 = x1 + np.uint64(block + 1)
    return x0, x1


@kernel
def uniform(key0: np.uint64, key1: np.uint64, counter0: np.uint64, counter1: np.uint64) -> float:
    """A number in [0, 1) with 53 random bits."""
    word, _ = threefry(key0, key1, counter0, counter1)
    return np.float64(word >> _DROP) * _TO_UNIT
