"""From simulated crowds to tuned weights and relevance values: laws of the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from distrank.engine.base import Engine
from distrank.engine.local import LocalEngine
from distrank.errors import UsageError
from distrank.records import digest
from distrank.remap.consensus import Consensus, fit_consensus
from distrank.remap.data import Samples, samples_of
from distrank.remap.label_features import PAPER, RAW, LabelFeatures, label_features
from distrank.remap.model import RemapSettings
from distrank.remap.train import Trained, train
from distrank.simulate import Simulated, simulate
from distrank.tables.feature_shards import FeatureShards, build_feature_shards
from distrank.tables.features import features_from_frame
from distrank.tables.gold import gold_from_frame
from distrank.tables.judgments import Judgments
from distrank.tables.read import judgments_from_frame

QUIET: Any = lambda _: None  # noqa: E731


def loaded(tables: Simulated, seed: int | None = None) -> tuple[Judgments, Samples, FeatureShards]:
    frames = {name: table.to_pandas() for name, table in tables.tables.items()}
    if seed is not None:
        frames = {name: frame.sample(frac=1.0, random_state=seed) for name, frame in frames.items()}
    judgments, features = judgments_from_frame(frames["ratings"]), features_from_frame(frames["features"])
    honeypots = gold_from_frame(frames["honeypots"]) if "honeypots" in frames else None
    target = build_feature_shards(features, gold_from_frame(frames["gold"]))
    return judgments, samples_of(judgments, features, honeypots), target


def simulated_crowd(**changes: int) -> Simulated:
    sizes = {"queries": 60, "items": 8, "annotators": 25, "honeypots": 0, "target_queries": 50, "features": 6}
    return simulate("remap", {"preset": "crowd", **sizes, **changes})


def experiment(preset: str, seed: int, **settings: Any) -> tuple[Trained, pd.DataFrame]:
    """Simulated experiments 1 and 2 with their four indicators."""
    tables = simulate("remap", {"preset": preset, "seed": seed})
    judgments, samples, target = loaded(tables)
    truth = tables["annotators"].to_pandas().set_index("annotator")["truth"]
    kind = truth.loc[judgments.annotators.to_pylist()].to_numpy()[samples.annotator]
    counted = samples.rating == 1 if preset == "exp1" else np.ones(len(samples), bool)
    values = np.stack([(kind == value) & counted for value in sorted(set(truth))], axis=1).astype(float)
    y = LabelFeatures(("a", "b", "c", "d"), values, np.ones(4))
    label, start = (None, np.ones(4)) if preset == "exp1" else (samples.rating / 4.0, np.zeros(4))
    chosen = RemapSettings(**{"steps": 40, "patience": 40, **settings})
    with LocalEngine(2) as engine:
        method: Any = "remap" if preset == "exp1" else "reweight"
        return train(samples, y, target, method, chosen, engine, QUIET, label=label, start=start), tables


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_weights_grow_with_the_quality_of_annotators(seed: int) -> None:
    """Simulated experiment 2, Figure 3: quality one half is worth next to nothing."""
    trained, _ = experiment("exp2", seed, scale_free=False)
    weights = sigmoid(trained.fit.theta["alpha"])
    assert (np.diff(weights) > 0).all()
    assert weights[1] < 0.1
    assert weights[3] > 0.8
    trace = trained.fit.trace
    assert trained.validation > trace[0]["validation"]
    assert trained.validation == max(entry["validation"] for entry in trace)


def test_as_printed_all_relevance_values_drift_to_one() -> None:
    """Simulated experiment 1: the smoothed measure likes every spread of the scores."""
    printed, _ = experiment("exp1", 0, scale_free=False, steps=60, patience=60)
    assert (sigmoid(printed.fit.theta["beta"]) > 0.93).all()
    free, _ = experiment("exp1", 0, scale_free=True, steps=60, patience=60)
    assert (sigmoid(free.fit.theta["beta"]) < 0.93).all()


@pytest.fixture(scope="module")
def crowd() -> tuple[Judgments, Samples, FeatureShards, Consensus]:
    judgments, samples, target = loaded(simulated_crowd())
    with LocalEngine(2) as engine:
        return judgments, samples, target, fit_consensus(judgments, None, engine, QUIET)


def features_of(samples: Samples, consensus: Consensus, **more: Any) -> LabelFeatures:
    label = (samples.rating == consensus.grades[1]).astype(int)
    return label_features(consensus, samples.annotator, samples.number[samples.item], label, **more)


def test_the_29_features_are_those_of_table_1(crowd: Any) -> None:
    """Every one by its definition, in the documented order, for some labels."""
    _, samples, _, consensus = crowd
    y = features_of(samples, consensus, soft=False)
    assert y.names == PAPER
    assert len(PAPER) == 29
    for r in range(0, len(samples), 97):
        w, item, one = samples.annotator[r], samples.number[samples.item[r]], samples.rating[r] == 1
        pi, ds, glad = consensus.confusion[w], consensus.dawid_skene[item], consensus.glad[item]
        right = sigmoid(consensus.ability[w] * consensus.easiness[item])
        says = {"ds": ds * pi[1, 1] + (1 - ds) * pi[0, 1], "glad": glad * right + (1 - glad) * (1 - right)}
        mine = samples.rating[samples.annotator == w]
        raw = {
            **{f"pi_{c}{k}": pi[c, k] for c in (0, 1) for k in (0, 1)},
            "ability": consensus.ability[w],
            "correct_ds": ds if one else 1 - ds,
            "correct_glad": glad if one else 1 - glad,
            **{f"one_{name}": value for name, value in says.items()},
            **{f"zero_{name}": 1 - value for name, value in says.items()},
            "log_judgments": np.log(consensus.judgments[w]),
            "share_0": consensus.lower[w],
            "honeypots": consensus.honeypots[w],
        }
        assert tuple(raw) == (*RAW[:7], "one_ds", "one_glad", "zero_ds", "zero_glad", *RAW[11:])
        found = dict(zip(y.names, y.values[r] * y.scale, strict=True))
        assert found["cl"] == float(one)
        for name, value in raw.items():
            assert found[f"{name}|{int(one)}"] == pytest.approx(value, abs=1e-12)
            assert found[f"{name}|{int(not one)}"] == 0.0
        assert mine.size <= consensus.judgments[w]
    assert np.abs(y.values).max() == 1.0


def test_the_start_is_the_soft_label(crowd: Any) -> None:
    _, samples, _, consensus = crowd
    y = features_of(samples, consensus)
    soft = consensus.dawid_skene[samples.number[samples.item]]
    inside = np.clip(soft, sigmoid(np.array(-6.0)), sigmoid(np.array(6.0)))
    np.testing.assert_allclose(sigmoid(y.values @ y.start()), inside, atol=1e-12)
    plain = features_of(samples, consensus, soft=False)
    np.testing.assert_allclose(sigmoid(plain.values @ plain.start()), sigmoid(samples.rating), atol=1e-12)


def test_more_than_two_grades_are_refused() -> None:
    frame = pd.DataFrame({"item": list("xyz"), "annotator": "a", "rating": [0, 1, 2]})
    with LocalEngine(1) as engine, pytest.raises(UsageError, match="two grades, and the ratings are 0, 1, 2"):
        fit_consensus(judgments_from_frame(frame), None, engine, QUIET)


def test_honeypots_do_not_enter_the_source() -> None:
    tables = simulated_crowd(honeypots=9)
    honeypots = set(tables["honeypots"]["item"].to_pylist())
    ratings = tables["ratings"].to_pandas()
    _, samples, _ = loaded(tables)
    assert len(samples) == (~ratings["item"].isin(honeypots)).sum() < len(ratings)


def tuned(samples: Samples, target: FeatureShards, y: LabelFeatures, engine: Engine) -> Trained:
    return train(samples, y, target, "both", RemapSettings(steps=5), engine, QUIET)


@pytest.mark.parametrize("per_shard", [16_384, 60])
def test_workers_and_the_order_of_rows_do_not_matter(per_shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distrank.remap.data.ITEMS_PER_SHARD", per_shard)
    found = set()
    for workers, seed in ((1, None), (2, 1), (4, 2)):
        judgments, samples, target = loaded(simulated_crowd(), seed)
        with LocalEngine(workers) as engine:
            y = features_of(samples, fit_consensus(judgments, None, engine, QUIET))
            found.add(digest([dict(tuned(samples, target, y, engine).fit.theta)]))
    assert len(found) == 1


@pytest.mark.ray
def test_ray_gives_the_same_bytes(crowd: Any, ray_engine: Engine, tmp_path: Path) -> None:
    judgments, samples, target, consensus = crowd
    y = features_of(samples, consensus)
    other = features_of(samples, fit_consensus(judgments, None, ray_engine, QUIET, tmp_path / "consensus"))
    np.testing.assert_array_equal(other.values, y.values)
    with LocalEngine(2) as engine:
        local = tuned(samples, target, y, engine)
    on_ray = train(samples, y, target, "both", RemapSettings(steps=5), ray_engine, QUIET, work=tmp_path)
    assert digest([dict(on_ray.fit.theta)]) == digest([dict(local.fit.theta)])


def test_reweighting_leaves_values_alone_and_remapping_weights(crowd: Any) -> None:
    _, samples, target, consensus = crowd
    y = features_of(samples, consensus)
    with LocalEngine(2) as engine:
        weights = train(samples, y, target, "reweight", RemapSettings(steps=3), engine, QUIET).fit.theta
        values = train(samples, y, target, "remap", RemapSettings(steps=3), engine, QUIET).fit.theta
    np.testing.assert_array_equal(weights["beta"], y.start())
    np.testing.assert_array_equal(values["alpha"], 0.0)
    assert np.abs(weights["alpha"]).max() > 0.1
    assert np.abs(values["beta"] - y.start()).max() > 0.1
