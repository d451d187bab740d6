"""What gold says: who answered it right, and whether the scores agree with it.

Gold is graded items (`node.gold`; pairs of different relevance count) or pairs of known order (`gold.winner`,
`gold.loser`). The grades of a split query are on its first part alone, its pairs on every part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distrank.contract import PARTS, Info, Run
from distrank.kernels import preferences as kernels
from distrank.kernels.pair_counts import count_by_query
from distrank.models._pairwise import by_annotator, rows_of, shares, split_slice
from distrank.records import Array, Record, scalar
from distrank.stats import dense


class GoldAgreement(NamedTuple):
    """Gold pairs that the scores have in the true order, in the opposite one, and all of them."""

    right: int
    wrong: int
    pairs: int


def gold_start(run: Run, info: Info, theta: Record) -> tuple[Array, float]:
    """Every annotator's share of right answers on gold pairs (1 without such answers), and the number of answers."""
    shown = {"count": scalar(info.annotators), "split.offsets": theta["split.offsets"]}
    shown["split.gold"] = run(collect_grades, shown, on=PARTS).get("split.gold", np.zeros(0))
    answers = np.zeros((info.annotators, 2))
    for sums in (run(answer_gold, shown), run(answer_part_gold, shown, on=PARTS)):
        if sums:
            answers = answers + dense(sums, "annotator/answers", info.annotators)
    return shares(answers, 1.0), float(answers[:, 1].sum())


def gold_agreement(run: Run, theta: Record) -> GoldAgreement:
    """How the scores at hand agree with gold."""
    shown = {name: theta[name] for name in ("split.offsets", "split.score")}
    total = np.zeros(3, np.int64)
    for sums in (run(agree_with_gold, {}), run(agree_with_part_gold, shown, on=PARTS)):
        total = total + sums.get("gold", 0)
    return GoldAgreement(*total.tolist())


# Steps. --------------------------------------------------------------------------------------------------------------


def answer_gold(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """Right answers and answers of the shard's annotators."""
    return None, _answers(shard, shard["node.gold"], int(theta["count"]))


def collect_grades(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """Relevance of the items of split queries, for all their parts."""
    gold = np.zeros(int(theta["split.offsets"][-1]))
    if bool(shard["part.first"]):
        gold[split_slice(shard, theta["split.offsets"])] = shard["node.gold"]
    return None, {"split.gold": gold}


def answer_part_gold(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """The same as `answer_gold` on a part of a split query."""
    grades = theta["split.gold"][split_slice(shard, theta["split.offsets"])]
    return None, _answers(shard, grades, int(theta["count"]))


def agree_with_gold(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """Gold pairs that the scores of whole queries have right, wrong, and all of them."""
    return None, {"gold": _agreement(shard, local["score"])}


def agree_with_part_gold(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """The same for a split query, on its first part."""
    if not bool(shard["part.first"]):
        return None, {"gold": np.zeros(3, np.int64)}
    return None, {"gold": _agreement(shard, theta["split.score"][split_slice(shard, theta["split.offsets"])])}


def _answers(shard: Record, grades: Array, count: int) -> Record:
    rows, answers = rows_of(shard), np.zeros((len(shard["annotator.code"]), 2))
    kernels.gold_answers(*rows, grades, answers)
    if "gold.winner" in shard:
        answers += _pair_answers(shard, len(grades), len(answers))
    return by_annotator(shard, count, answers=answers)


def _pair_answers(shard: Record, nodes: int, annotators: int) -> Array:
    """Right answers and answers on listed pairs, by annotator of the shard."""
    rows = rows_of(shard)
    weight = np.ones(len(rows.winner)) if rows.weight is None else rows.weight
    listed = _pair_keys(shard["gold.winner"], shard["gold.loser"], nodes)
    order = np.argsort(listed, kind="stable")
    asked = _pair_keys(rows.winner, rows.loser, nodes)
    place = order[np.minimum(np.searchsorted(listed, asked, sorter=order), len(listed) - 1)] if len(listed) else asked
    answered = listed[place] == asked if len(listed) else np.zeros(len(asked), bool)
    right = answered.copy()
    right[answered] = shard["gold.winner"][place[answered]] == rows.winner[answered]
    owner = np.repeat(rows.owner, np.diff(rows.run))
    return np.stack([np.bincount(owner, weight * kind, annotators) for kind in (right, answered)], axis=1)


def _pair_keys(one: Array, other: Array, nodes: int) -> Array:
    """One number for every pair of nodes, whatever their order."""
    low, high = np.minimum(one, other).astype(np.int64), np.maximum(one, other).astype(np.int64)
    return low * nodes + high


def _agreement(shard: Record, score: Array) -> Array:
    right, wrong, pairs, _ = count_by_query(shard["unit.nodes"], score, shard["node.gold"]).sum(axis=1)
    if "gold.winner" in shard:
        lead = score[shard["gold.winner"]] - score[shard["gold.loser"]]
        right, wrong, pairs = right + (lead > 0.0).sum(), wrong + (lead < 0.0).sum(), pairs + len(lead)
    return np.array([right, wrong, pairs], np.int64)
