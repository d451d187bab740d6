"""The rules behind the same bytes: kernels fresh and cached, numerical threads, CPU features of numpy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_FIT = """
import numpy as np
from distrank import CrowdBT
from distrank.records import digest
from distrank.simulate import simulate_crowd_bt

table = simulate_crowd_bt(queries=7, items=9, annotators=11, pairs=20, annotators_per_pair=3, law="model", seed=4)
result = CrowdBT().fit(table["preferences"])
columns = [{name: frame[name].to_numpy() for name in frame.select_dtypes("number")} for frame in
           (result.rankings, result.annotators, result.queries)]
print(digest(columns))
"""


def digest_of_a_fit(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _FIT], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def expected() -> str:
    return digest_of_a_fit()


@pytest.mark.slow
def test_kernels_give_the_same_bytes_fresh_and_from_the_cache(expected: str, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert digest_of_a_fit(NUMBA_CACHE_DIR=cache) == expected  # compiled now
    assert any((tmp_path / "cache").rglob("*.nbc"))
    assert digest_of_a_fit(NUMBA_CACHE_DIR=cache) == expected  # read back


@pytest.mark.parametrize("threads", ["1", "2"])
def test_numerical_threads_do_not_matter(threads: str, expected: str) -> None:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    assert digest_of_a_fit(**dict.fromkeys(names, threads)) == expected


def test_numpy_cpu_features_do_not_matter_to_pairwise_models(expected: str) -> None:
    """Their numerics are in our kernels: numpy without its fastest instructions gives the same bytes."""
    import numpy as np

    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    if not found:
        pytest.skip("numpy found no CPU features beyond its baseline, so none can be switched off")
    assert digest_of_a_fit(NPY_DISABLE_CPU_FEATURES=" ".join(found)) == expected


@pytest.mark.parametrize("seed", ["0", "1234"])
def test_the_hash_seed_of_python_does_not_matter(seed: str, expected: str) -> None:
    assert digest_of_a_fit(PYTHONHASHSEED=seed) == expected
