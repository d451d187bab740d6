"""A ranker in files: `model/` of its run, JSON, npz without pickle, and LightGBM's text.

remap.json        method, names of features and label features, settings that new data needs
parameters.npz    alpha, beta, their scale, and mean, deviation and weights of every ranker
trees-0.txt ...   the trees of every ranker, where there are some
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from distrank.errors import StoreError
from distrank.records import Array, load_record, save_record
from distrank.remap.extension import Block, Scaling
from distrank.remap.pipeline import Processing, Ranker
from distrank.remap.train import average_score
from distrank.store.files import read_json, write_json
from distrank.store.publish import PublishedRun
from distrank.tables.features import Features

FOLDER, FACTS, PARAMETERS = "model", "remap.json", "parameters.npz"
SCHEMA = 1


@dataclass(frozen=True)
class SavedRanker:
    """A ranker that was published."""

    features: tuple[str, ...]
    processing: Processing
    blocks: tuple[Block, ...]
    weights: Array
    facts: dict[str, Any]

    def score(self, features: Features) -> Array:
        """Scores of all items; their features must be those that the ranker was trained on, in any order."""
        return average_score(self.blocks, self.weights, features.values[:, features.places(self.features)])


def write_ranker(folder: Path, ranker: Ranker, features: tuple[str, ...]) -> list[str]:
    """Write the files into `model/`; their names in the run."""
    (folder / FOLDER).mkdir()
    processing = ranker.processing
    arrays: dict[str, Array] = {
        "alpha": processing.alpha,
        "beta": processing.beta,
        "label_scale": processing.label_scale,
        "weights": ranker.weights,
    }
    names = [FACTS, PARAMETERS]
    for place, block in enumerate(ranker.blocks):
        arrays |= {f"mean-{place}": block.scaling.mean, f"deviation-{place}": block.scaling.deviation}
        if block.trees is not None and block.count:
            names.append(f"trees-{place}.txt")
            (folder / FOLDER / names[-1]).write_text(block.trees, encoding="utf-8")
    save_record(folder / FOLDER / PARAMETERS, arrays)
    write_json(
        folder / FOLDER / FACTS,
        {
            "schema": SCHEMA,
            "method": processing.method,
            "features": list(features),
            "label_features": list(processing.label_names),
            "rankers": len(ranker.blocks),
            "trees": processing.trees,
            "ridge": processing.ridge,
            "soft": processing.soft,
        },
    )
    return [f"{FOLDER}/{name}" for name in names]


def read_ranker(run: PublishedRun) -> SavedRanker:
    """The ranker of a run, its files checked against the manifest."""
    if not run.has(f"{FOLDER}/{FACTS}"):
        raise StoreError(f"run {run.run_id} holds no ranker; train one with `distrank remap`")
    run.verify(f"{FOLDER}/")
    facts = read_json(run.path(f"{FOLDER}/{FACTS}"))
    if facts.get("schema") != SCHEMA:
        raise StoreError(f"the ranker of run {run.run_id} has schema {facts.get('schema')!r}, not {SCHEMA}")
    arrays = load_record(run.path(f"{FOLDER}/{PARAMETERS}"))
    count = int(facts["trees"])
    blocks = []
    for place in range(int(facts["rankers"])):
        name = f"{FOLDER}/trees-{place}.txt"
        text = run.path(name).read_text(encoding="utf-8") if run.has(name) else None
        scaling = Scaling(np.asarray(arrays[f"mean-{place}"]), np.asarray(arrays[f"deviation-{place}"]))
        blocks.append(Block(scaling, text, count if text is not None else 0))
    processing = Processing(
        method=facts["method"],
        alpha=arrays["alpha"],
        beta=arrays["beta"],
        label_names=tuple(facts["label_features"]),
        label_scale=arrays["label_scale"],
        ridge=float(facts["ridge"]),
        trees=count,
        soft=bool(facts["soft"]),
    )
    return SavedRanker(tuple(facts["features"]), processing, tuple(blocks), arrays["weights"], facts)
