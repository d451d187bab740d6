"""What tpp finds: the truth on simulated crowds, signs, domains, outputs; and that where it runs changes nothing."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "contract"))
from crowds import crowd, degenerate
from harness import Outcome, run_model

from distrank import TPP
from distrank.engine.local import LocalEngine
from distrank.errors import UsageError
from distrank.simulate import simulate_tpp
from distrank.store.checkpoints import CheckpointFolder

INFERENCES = ["marginal", "gibbs", "gibbs-collapsed"]
SHORT = {"burn_in": 4, "samples": 4, "domains": 3}


def simulated(seed: int = 1, **settings: Any) -> Any:
    return simulate_tpp(**{"dataset": "DOC5SR1.0DEMO1", "queries": 40, "domains": 2, **settings}, seed=seed)


def accuracy(rankings: pd.DataFrame, tables: Any) -> float:
    """Share of the pairs of items in the true order."""
    both = tables["gold"].to_pandas().merge(rankings, on=["query", "item"])
    right, pairs = 0, 0
    for _, query in both.groupby("query"):
        truth = np.sign(np.subtract.outer(query["relevance"].to_numpy(), query["relevance"].to_numpy()))
        found = np.sign(np.subtract.outer(query["score"].to_numpy(), query["score"].to_numpy()))
        right, pairs = right + (truth * found > 0).sum(), pairs + (truth != 0).sum()
    return right / pairs


def domain_accuracy(outcome: Any, tables: Any) -> float:
    both = outcome.queries.merge(tables["queries"].to_pandas(), on="query")
    same = (both["domain_x"] == both["domain_y"]).mean()
    return max(same, 1.0 - same)  # two domains: labels mean nothing


def gold_of(tables: Any, queries: int) -> pd.DataFrame:
    gold = tables["gold"].to_pandas().astype({"query": str, "item": str})
    return gold[gold["query"].isin(sorted(set(gold["query"]))[:queries])]


def fitted(tables: Any, **settings: Any) -> Outcome:
    return run_model("tpp", tables["preferences"].to_pandas().astype(str), settings=settings)


@pytest.mark.parametrize(("inference", "least"), [("marginal", 0.96), ("gibbs-collapsed", 0.95), ("gibbs", 0.85)])
def test_scores_and_domains_are_recovered(inference: str, least: float) -> None:
    tables = simulated()
    outcome = fitted(tables, domains=2, inference=inference)
    assert outcome.fit.converged
    assert accuracy(outcome.rankings, tables) > least
    if inference != "gibbs":
        assert domain_accuracy(outcome, tables) >= 0.97


def test_expertise_is_recovered_up_to_the_unit_of_length() -> None:
    tables = simulated(3, domains=1, annotators=20)
    outcome = fitted(tables, domains=1)
    truth = tables["expertise"].to_pandas().set_index("annotator")["tau"]
    found = outcome.annotators.set_index("annotator")
    assert np.corrcoef(truth, found.loc[truth.index, "tau.0"])[0, 1] > 0.9
    malicious = truth < 0
    assert (found.loc[truth.index[malicious], "malicious.0"] > 0.9).all()
    assert (found.loc[truth.index[truth > 1], "malicious.0"] < 0.1).all()
    assert (found.loc[truth.index[malicious], "kind"] == "malicious").all()


def test_the_three_inferences_agree_in_the_order_of_the_scores_when_the_domains_are_given() -> None:
    """One domain for all: nothing but scores, difficulty and expertise is left to find."""
    tables = simulated(4, domains=1)
    frame, gold = tables["preferences"].to_pandas().astype(str), gold_of(tables, 10)  # and their sign
    settings = [{"domains": 1, "inference": name} for name in INFERENCES]
    rankings = [run_model("tpp", frame, settings=given, gold=gold).rankings for given in settings]
    first = rankings[0].set_index(["query", "item"])["score"]
    for other in rankings[1:]:
        second = other.set_index(["query", "item"])["score"].loc[first.index]
        agreement = []
        for query in first.index.unique("query"):
            one, two = first[query].to_numpy(), second[query].to_numpy()
            same = np.sign(np.subtract.outer(one, one)) == np.sign(np.subtract.outer(two, two))
            agreement.append(same[np.triu_indices(len(one), 1)].mean())
        assert np.mean(agreement) > 0.97


def test_uniform_variants_are_special_cases() -> None:
    tables = simulated(5)
    alike = fitted(tables, domains=2, uniform_expertise=True)
    assert np.ptp(alike.annotators["tau.0"].to_numpy()) == 0.0
    equal = fitted(tables, domains=2, uniform_difficulty=True)
    assert (equal.queries["difficulty"] == 1.0).all()
    best = float(fitted(tables, domains=2).fit.theta["objective"])
    assert best > float(alike.fit.theta["objective"])
    assert best > float(equal.fit.theta["objective"])


# Signs and labels. ---------------------------------------------------------------------------------------------------


def turned(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns={"winner": "loser", "loser": "winner"})


@pytest.mark.parametrize("inference", ["marginal", "gibbs-collapsed"])
def test_a_malicious_majority_is_reversed_without_gold_and_right_with_it(inference: str) -> None:
    tables = simulated(6)
    frame = turned(tables["preferences"].to_pandas().astype(str))
    settings = {"domains": 2, "inference": inference}
    alone = run_model("tpp", frame, settings=settings)
    helped = run_model("tpp", frame, settings=settings, gold=gold_of(tables, 10))
    assert accuracy(alone.rankings, tables) < 0.1
    assert accuracy(helped.rankings, tables) > 0.9
    assert (helped.annotators["quality"] < 0.5).sum() > (alone.annotators["quality"] < 0.5).sum()
    assert (helped.queries["sign_probability"] > 0.95).all()


def test_undecided_signs_are_said() -> None:
    """Two truthful annotators and two liars: nothing tells which are which."""
    tables = simulated(8, domains=1, annotators=4, dataset="DOC5SR1.0DEMO1")
    frame = tables["preferences"].to_pandas().astype(str)
    names = sorted(set(frame["annotator"]))
    liars = frame["annotator"].isin(names[:2])
    honest = simulated(8, domains=1, annotators=4)["preferences"].to_pandas().astype(str)
    mixed = pd.concat([honest[~liars], turned(honest[liars])])
    result = TPP(domains=1).fit(mixed)
    assert (result.queries["sign_probability"] < 0.95).all()
    assert any("undecided" in warning for warning in result.warnings)
    assert result.diagnosis["domains"][0]["sign_probability"] < 0.95


def test_turning_all_judgments_round_mirrors_the_objective_of_the_likelihood() -> None:
    """The prior alone tells the two apart, and it turns the scores, not the annotators."""
    tables = simulated(9, domains=1)
    frame = tables["preferences"].to_pandas().astype(str)
    one, other = (run_model("tpp", rows, settings={"domains": 1}) for rows in (frame, turned(frame)))
    for key, score in one.scores().items():
        assert other.scores()[key] == pytest.approx(-score, abs=2e-2)
    assert float(one.fit.theta["objective"]) == pytest.approx(float(other.fit.theta["objective"]), rel=1e-6)


# Where it runs, how it is cut. ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["gibbs", "gibbs-collapsed"])
@pytest.mark.parametrize("cut", [250_000, 150, 40], ids=["one shard", "many shards", "split queries"])
def test_chains_do_not_depend_on_workers_and_resume_where_they_stopped(
    inference: str, cut: int, tmp_path: Path
) -> None:
    frame, settings = crowd(1), {**SHORT, "inference": inference}
    digests = set()
    for workers in (1, 3):
        with LocalEngine(workers) as engine:
            outcome = run_model("tpp", frame, settings=settings, rows_per_shard=cut, engine=engine)
            digests.add(outcome.bytes())
    folder = CheckpointFolder(tmp_path, "run", {"law": "resume"}, seconds=1e9, iterations=3)
    run_model("tpp", frame, settings={**settings, "max_iterations": 5}, rows_per_shard=cut, checkpoints=folder)
    resumed = run_model("tpp", frame, settings=settings, rows_per_shard=cut, checkpoints=folder, resume=True)
    assert resumed.fit.facts["resumed_from"] == 3
    assert {resumed.bytes()} == digests


def test_a_chain_draws_the_same_in_any_shard() -> None:
    """The draws hang on query and annotator, not on the shard; only the order of sums differs."""
    frame, settings = crowd(2), {**SHORT, "inference": "gibbs-collapsed", "burn_in": 1}
    one, many = (run_model("tpp", frame, settings=settings, rows_per_shard=cut) for cut in (250_000, 150))
    for key, score in one.scores().items():
        assert many.scores()[key] == pytest.approx(score, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("domains", [1, 3])
def test_a_split_query_has_the_scores_and_intervals_of_a_whole_one(domains: int) -> None:
    frame = crowd(7, queries=3, rows=400)
    settings = {"domains": domains, "tolerance": 1e-12}
    whole, split = (run_model("tpp", frame, settings=settings, rows_per_shard=cut) for cut in (250_000, 60))
    one, two = (outcome.rankings.set_index(["query", "item"]) for outcome in (whole, split))
    for name in ("score", "score_low", "score_high", "rank_low", "rank_high"):
        np.testing.assert_allclose(two.loc[one.index, name], one[name], rtol=1e-4, atol=1e-4)


def test_very_large_queries_have_intervals_whole_or_split() -> None:
    """Above 300 items every score is taken for itself."""
    frame = crowd(8, queries=1, items=320, rows=3000)
    settings = {"domains": 1, "tolerance": 1e-10}
    whole, split = (run_model("tpp", frame, settings=settings, rows_per_shard=cut) for cut in (250_000, 800))
    one, two = (outcome.rankings.set_index(["query", "item"]) for outcome in (whole, split))
    assert (one["score_sd"] > 0.0).all()
    for name in ("score", "score_low", "score_high"):
        np.testing.assert_allclose(two.loc[one.index, name], one[name], rtol=1e-3, atol=1e-3)


def test_a_weight_of_two_is_two_rows() -> None:
    frame = crowd(6)
    twice = np.arange(len(frame)) % 3 == 0
    settings = {"domains": 1, "tolerance": 1e-13}
    weighted = run_model("tpp", frame.assign(weight=np.where(twice, 2.0, 1.0)), settings=settings)
    repeated = run_model("tpp", pd.concat([frame, frame[twice]]), settings=settings)
    assert float(weighted.fit.theta["objective"]) == pytest.approx(float(repeated.fit.theta["objective"]), rel=1e-9)
    for key, score in repeated.scores().items():
        assert weighted.scores()[key] == pytest.approx(score, abs=1e-3)


def test_the_objective_never_falls_over_starts_moves_and_iterations() -> None:
    trace = [entry["objective"] for entry in fitted(simulated(10, domains=5), domains=5).fit.trace]
    assert len(trace) > 8
    assert all(after >= before for before, after in pairwise(trace))
    assert trace[-1] > trace[0] + 1.0


@pytest.mark.parametrize("case", degenerate().keys())
@pytest.mark.parametrize("inference", ["gibbs", "gibbs-collapsed"])
def test_chains_stay_finite_on_degenerate_data(inference: str, case: str) -> None:
    outcome = run_model("tpp", degenerate()[case], settings={**SHORT, "inference": inference})
    for frame in (outcome.rankings, outcome.annotators, outcome.queries):
        assert np.isfinite(frame.select_dtypes("number").to_numpy(dtype=float)).all()


# Outputs. ------------------------------------------------------------------------------------------------------------


def test_the_tables_have_the_columns_that_the_documentation_names() -> None:
    outcome = fitted(simulated(11), domains=2)
    assert list(outcome.rankings) == [
        *("query", "item", "rank", "score"),
        *("score_low", "score_high", "rank_low", "rank_high", "score_sd"),
    ]
    assert list(outcome.annotators) == [
        *("annotator", "judgments", "quality", "kind", "agreement", "quality_low", "quality_high"),
        *("malicious", "tau.0", "tau.1", "malicious.0", "malicious.1"),
    ]
    assert list(outcome.queries) == [
        *("query", "items", "annotators", "judgments", "components", "agreement", "difficulty"),
        *("domain", "domain_probability", "sign_probability", "posterior.0", "posterior.1"),
    ]
    posterior = outcome.queries[["posterior.0", "posterior.1"]].to_numpy()
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    assert (outcome.queries["domain"] == posterior.argmax(axis=1)).all()
    counts = outcome.queries["domain"].value_counts()
    assert counts[0] >= counts[1]  # the largest domain is number 0
    ranks = outcome.rankings
    assert ((ranks["rank_low"] <= ranks["rank"]) & (ranks["rank"] <= ranks["rank_high"])).all()
    people = outcome.annotators
    assert (people["quality_low"] <= people["quality"]).all()
    assert (people["quality"] <= people["quality_high"]).all()


def test_intervals_can_be_left_out() -> None:
    outcome = fitted(simulated(11), domains=2, interval=None)
    assert "score_low" not in outcome.rankings
    assert "quality_low" not in outcome.annotators


def test_few_queries_for_many_domains_are_said() -> None:
    result = TPP().fit(crowd(1))
    assert any("few for 10 domains" in warning for warning in result.warnings)


def test_settings_are_checked() -> None:
    with pytest.raises(UsageError, match="inference"):
        TPP(inference="magic")
    with pytest.raises(UsageError, match="domains"):
        TPP(domains=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "inference", "low", "high"),
    [
        ("DOC5SR0.5DEMO1", "marginal", 0.86, 0.95),
        ("DOC30SR0.1DEMO1", "marginal", 0.86, 0.96),
        ("ANNO100SR0.01", "marginal", 0.82, 0.95),
        ("DOC5SR0.5DEMO1", "gibbs-collapsed", 0.75, 0.97),
    ],
)
def test_90_percent_intervals_cover_about_90_percent(dataset: str, inference: str, low: float, high: float) -> None:
    """True scores in the unit of length of the fit (one factor for the whole data set), about the mean of the query."""
    inside = []
    for seed in range(3):
        tables = simulate_tpp(dataset=dataset, seed=seed)
        outcome = fitted(tables, inference=inference)
        gold = tables["gold"].to_pandas().astype({"query": str, "item": str})
        both = outcome.rankings.merge(gold, on=["query", "item"])
        truth = both["relevance"] - both.groupby("query")["relevance"].transform("mean")
        truth = truth * (both["score"] ** 2).sum() / (both["score"] * truth).sum()
        inside.append(((truth >= both["score_low"]) & (truth <= both["score_high"])).mean())
    assert low <= np.mean(inside) <= high
