"""Days of judgments in a folder, and nights over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from distrank.nightly.config import NightlyConfig, parse_config
from distrank.nightly.night import Night, nightly
from distrank.simulate import simulate_crowd_bt

DAYS = 6


def days(seed: int = 0) -> list[pd.DataFrame]:
    """A dense crowd whose judgments arrive over several days."""
    crowd = {"queries": 6, "items": 8, "annotators": 16, "pairs": 28, "annotators_per_pair": 12}
    table = simulate_crowd_bt(**crowd, law="model", quality="mixture", seed=seed)["preferences"].to_pandas().astype(str)
    order = np.random.default_rng(seed).permutation(len(table))
    return [table.iloc[part] for part in np.array_split(order, DAYS)]


class Nights:
    """An input folder that fills, and a config for it."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.folder, self.judgments, self.out = folder, folder / "judgments", folder / "out"
        self.judgments.mkdir(parents=True)
        self.content = {
            "name": "test",
            "input": "judgments",
            "out": "out",
            "engine": {"name": "local", "workers": 2},
            **config,
        }
        self.days = days()

    def arrive(self, day: int) -> Path:
        path = self.judgments / f"day-{day:02d}.parquet"
        self.days[day].to_parquet(path)
        return path

    def config(self, **changed: Any) -> NightlyConfig:
        return parse_config(yaml.safe_dump({**self.content, **changed}), "test.yaml", self.folder)

    def night(self, **changed: Any) -> Night:
        return nightly(self.config(**changed), lambda _: None)

    def runs(self) -> list[str]:
        return sorted(path.name for path in (self.out / "runs").iterdir())

    def failures(self) -> list[Path]:
        return sorted(self.out.glob("failures/*/run.json"))
