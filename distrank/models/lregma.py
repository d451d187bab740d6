"""LRegMA: linear regression on places in lists, with the precision of every annotator.  [Raykar10]

    y_ij    score that annotator j gives item i: items below it in j's list          tau_j   precision of j
    y_ij ~ Normal(w x_i + b, 1 / tau_j)

The log-likelihood, with a ridge on w, climbs by turns: w and b by weighted least squares (the judgments of an item
weigh the sum of their tau), then every tau from the squared errors. A baseline of [Wu16]: places are taken for scores.

[Raykar10] Raykar, Yu, Zhao, Valadez, Florin, Bogoni, Moy: Learning from crowds. JMLR 11, 2010.
[Wu16] Wu, You, Xia, Ma, Hu: Listwise learning to rank from crowds. ACM TKDD 11(1), 2016.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Run, Traits
from distrank.kernels.regression import normal_equations, rank_targets
from distrank.models import _ranker
from distrank.models._linear import LinearModel
from distrank.models._lists import by_annotator, prepared_lists, total_by_annotator
from distrank.models.ltrma import RankerSettings
from distrank.records import Array, Record, scalar
from distrank.settings import setting

FINEST = 1e-3  # variance below which no annotator is taken to be: three lists without an error are not proof


@dataclass(frozen=True)
class LRegMASettings(RankerSettings):
    """Settings of `lregma`."""

    tolerance: float = setting(1e-9, "converged when the objective gains less than this times its size", above=0.0)


class LRegMA(LinearModel):
    """Weighted least squares and precisions by turns."""

    name = "lregma"
    title = "LRegMA: regression on ranks, with annotator precision"
    paper = "Raykar et al.: Learning from crowds. JMLR 2010"
    estimates = "ranker, annotator precision"
    traits = Traits(
        weighted=False,
        opted_out={
            "weights": "a ranking is one judgment of all its items; rows of it cannot count more than others",
            "splitting": "places in the list of a query are counted in the whole list",
        },
    )
    Settings = LRegMASettings

    def prepare(self, shard: Record) -> Record:
        shard = prepared_lists(shard, None)
        target = np.empty(len(shard["item.level"]))
        rank_targets(shard["list.rows"], shard["item.level"], target)
        unit = np.repeat(np.arange(len(shard["unit.nodes"]) - 1), np.diff(shard["unit.lists"]))
        lengths = np.diff(shard["list.rows"])
        node = shard["item.place"] + np.repeat(shard["unit.nodes"][:-1][unit], lengths)
        return {
            **shard,
            "item.target": target,
            "item.node": node,
            "item.owner": np.repeat(shard["list.owner"], lengths),
        }

    def begin(self, run: Run, info: Info) -> Record:
        _ranker.require_features(info, self.name)
        theta = {
            **_ranker.fresh_ranker(run, info),
            "intercept": scalar(0.0),
            "precision": np.ones(info.annotators),
            "agreement": np.full(info.annotators, 0.5),
            "queries": scalar(info.queries),
            "converged": scalar(False),
        }
        return self.weighed(run, theta)

    def iterate(self, run: Run, theta: Record) -> Record:
        before = float(theta["objective"])
        shown = {**_ranker.shown_ranker(theta), "precision": theta["precision"]}
        found = run(sum_equations, shown)
        matrix = found["matrix"] + np.tril(found["matrix"], -1).T
        strength = self.settings.ridge * int(theta["queries"])
        penalty = np.append(np.full(len(theta["w"]), max(strength, 1e-9)), 1e-9)
        solution = np.linalg.solve(matrix + np.diag(penalty), found["vector"])
        theta = self.weighed(run, {**theta, "w": solution[:-1], "intercept": scalar(solution[-1])})
        gain = float(theta["objective"]) - before
        return {**theta, "converged": scalar(gain <= self.settings.tolerance * (1.0 + abs(before)))}

    def weighed(self, run: Run, theta: Record) -> Record:
        """The precision of every annotator at these weights, and the objective there."""
        found = run(sum_errors, {**_ranker.shown_ranker(theta), "intercept": theta["intercept"]})
        count = len(theta["precision"])
        errors, rows = total_by_annotator(found, "error", count), total_by_annotator(found, "rows", count)
        variance = np.maximum(errors / np.maximum(rows, 1.0), FINEST)
        precision = np.where(rows > 0.0, 1.0 / variance, theta["precision"])
        value = 0.5 * (rows * np.log(precision) - precision * errors).sum()
        value -= _ranker.penalty(theta, self.settings.ridge, int(theta["queries"]))
        return {**theta, "precision": precision, "objective": scalar(float(value))}

    def annotators(self, theta: Record, info: Info) -> Record:
        return {**super().annotators(theta, info), "precision": theta["precision"]}


def sum_equations(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: the normal equations of the weighted least squares."""
    nodes, width = int(shard["unit.nodes"][-1]), len(theta["w"]) + 1
    precision = theta["precision"][shard["annotator.code"]][shard["item.owner"]]
    weight = np.bincount(shard["item.node"], precision, minlength=nodes)
    target = np.bincount(shard["item.node"], precision * shard["item.target"], minlength=nodes)
    matrix, vector = np.zeros((width, width)), np.zeros(width)
    normal_equations(shard[_ranker.FEATURES], theta["mean"], theta["scale"], weight, target, matrix, vector)
    return None, {"matrix": matrix, "vector": vector}


def sum_errors(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: squared errors and rows of every annotator."""
    score = _ranker.item_scores(shard, theta) + theta["intercept"]
    error = (shard["item.target"] - score[shard["item.node"]]) ** 2
    owners, owner = len(shard["annotator.code"]), shard["item.owner"]
    rows = np.bincount(owner, minlength=owners).astype(np.float64)
    return None, by_annotator(shard, error=np.bincount(owner, error, minlength=owners), rows=rows)
