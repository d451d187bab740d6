"""What models of labels share: labels as the kernels take them, soft labels, agreement, honeypots, outputs.

The unit is an item. Its soft label, P(true grade | labels), is in `local["posterior"]` when a model ends; its score is
the expected grade. Items whose grade the gold table gives are honeypots: models of annotators take their grade as
known.

The quality of an annotator is the probability that the labels of two items of different true grade come in the right
order (a tie counts half): 0.5 for someone who guesses, 0 for someone who turns every order around. With two grades it
is the mean of the shares of right labels on both.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from distrank.contract import Info, Model, Run, Tables
from distrank.kernels import labels as kernels
from distrank.models._pairwise import UNKNOWN, by_annotator, distinct_codes, shares
from distrank.records import Array, Record, scalar
from distrank.stats import dense

DOUBTFUL = 0.1  # share of judgments from annotators worse than guessing at which the direction is in doubt


class Labels(NamedTuple):
    """The labels of a shard, in the order in which kernels take them."""

    rows: Array
    cell: Array
    weight: Array | None
    known: Array


def labels_of(shard: Record) -> Labels:
    """The arrays that `prepared` made; no weight where every label counts once."""
    return Labels(shard["unit.rows"], shard["label.cell"], shard.get("label.weight"), shard["node.grade"])


def grades_of(shard: Record) -> int:
    return len(shard["grade.values"])


def prepared(shard: Record) -> Record:
    """The shard with cells (annotator * K + grade) in place of rows; labels without weight are left out."""
    annotator, grade, weight = shard["row.annotator"], shard["row.grade"], shard.get("row.weight")
    rows = shard["unit.rows"]
    if weight is not None:
        counts = weight > 0.0
        rows = np.concatenate([[0], np.cumsum(counts)])[rows]
        annotator, grade, weight = annotator[counts], grade[counts], weight[counts]
        if (weight == 1.0).all():
            weight = None
    codes, owner = distinct_codes(annotator)
    kept = {name: array for name, array in shard.items() if not name.startswith("row.")}
    cell = owner * np.uint32(grades_of(shard)) + grade
    return {
        **kept,
        "unit.rows": rows.astype(np.int64, copy=False),
        "label.cell": cell,
        "label.count": np.bincount(cell, weight, minlength=grades_of(shard) * len(codes)).astype(np.float64),
        **({} if weight is None else {"label.weight": weight}),
        "annotator.code": codes,
    }


def by_cell(shard: Record, count: int, **sums: Array) -> Record:
    """Sums by cell (annotator and label) as statistics by annotator: tables of label by grade."""
    codes, grades = shard["annotator.code"], grades_of(shard)
    return by_annotator(
        shard, count, **{name: table.reshape(len(codes), grades, grades) for name, table in sums.items()}
    )


def count_answers(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: right answers and answers on honeypots, by annotator."""
    rows, cell, _, known = labels_of(shard)
    answers = np.zeros((len(shard["annotator.code"]), 2))
    kernels.honeypot_answers(rows, cell, known, grades_of(shard), answers)
    return None, by_annotator(shard, int(theta["count"]), answers=answers)


def measure_labels(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: the expected share of labels that are the true grade, by annotator and by item."""
    rows, cell, weight, _ = labels_of(shard)
    agreed, items = np.zeros((len(shard["annotator.code"]), 2)), np.empty(len(rows) - 1)
    kernels.expected_agreement(rows, cell, weight, local["posterior"], agreed, items)
    return {**local, "agreement": items}, by_annotator(shard, int(theta["count"]), agreed=agreed)


def order_quality(confusion: Array, grade_weight: Array) -> Array:
    """P(labels in the order of the true grades | the grades differ), a tie counting half.

    `confusion` is P(label | true grade) by annotator; `grade_weight` how often grades occur, for all or by annotator.
    """
    grades = confusion.shape[1]
    weight = np.broadcast_to(grade_weight, confusion.shape[:2])
    below = np.cumsum(confusion, axis=2) - 0.5 * confusion  # P(label lower) + P(the same label) / 2
    agreed, total = np.zeros(len(confusion)), np.zeros(len(confusion))
    for low in range(grades):
        for high in range(low + 1, grades):
            both = weight[:, low] * weight[:, high]
            agreed += both * (confusion[:, high] * below[:, low]).sum(axis=1)
            total += both
    return np.where(total > 0.0, np.clip(agreed / np.where(total > 0.0, total, 1.0), 0.0, 1.0), UNKNOWN)


def soft_label_names(shard: Record) -> list[str]:
    """Columns of the soft labels: p_ and the rating, or the number of the grade where grades were cut."""
    if bool(shard["grade.cut"]):
        return [f"p_grade{number + 1}" for number in range(grades_of(shard))]
    return [f"p_{int(value) if value == int(value) else value}" for value in shard["grade.values"].tolist()]


class LabelModel(Model):
    """Soft labels from ratings. A subclass leaves `posterior` in local; `begin` calls `common_theta`."""

    form = "ratings"
    accepts = ("ratings",)
    unit = "item"
    split = "never"
    graded = True

    def prepare(self, shard: Record) -> Record:
        return prepared(shard)

    @abstractmethod
    def begin(self, run: Run, info: Info) -> Record: ...

    def common_theta(self, run: Run, info: Info) -> Record:
        """What the outputs rely on, honeypots counted."""
        count = info.annotators
        answers = np.zeros((count, 2))
        if info.honeypots:
            answers = dense(run(count_answers, {"count": scalar(count)}), "annotator/answers", count)
        return {"count": scalar(count), "honeypots": answers, "agreement": np.full(count, UNKNOWN)}

    def conclude(self, run: Run, theta: Record) -> Record:
        """One more round: the agreement of annotators and items with the consensus."""
        sums = run(measure_labels, {"count": theta["count"]})
        return {**theta, "agreement": shares(dense(sums, "annotator/agreed", int(theta["count"])))}

    def score(self, shard: Record, local: Record) -> Array:
        """The expected grade."""
        return (local["posterior"] * shard["grade.values"]).sum(axis=1)

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:  # noqa: ARG002 (local has all)
        posterior = local["posterior"]
        columns = {"score": self.score(shard, local), "label": shard["grade.values"][posterior.argmax(axis=1)]}
        for place, name in enumerate(soft_label_names(shard)):
            columns[name] = posterior[:, place].copy()
        return {"rankings": columns, "queries": {"agreement": local["agreement"]}}

    def annotators(self, theta: Record, info: Info) -> Record:
        columns = {"quality": self.quality(theta), "agreement": theta["agreement"]}
        if info.honeypots:
            right, asked = theta["honeypots"].T
            columns |= {"honeypots": asked.astype(np.int64), "honeypots_right": right.astype(np.int64)}
        return columns

    @abstractmethod
    def quality(self, theta: Record) -> Array:
        """By annotator, as `order_quality` says it."""

    def warnings(self, theta: Record, info: Info) -> list[str]:
        found = []
        if len(info.grades) == 1:
            found.append(f"all ratings are {info.grades[0]:g}: there is nothing to tell items or annotators apart by")
        against = float(info.annotator_judgments[self.quality(theta) < 0.5].sum()) / max(info.judgments, 1)
        if against > DOUBTFUL and not theta["honeypots"][:, 1].any():
            found.append(
                f"{against:.1%} of the judgments are from annotators that come out worse than guessing: which end of "
                "the grades is the upper one may be turned around. Honeypots (--gold) decide it"
            )
        return found

    def diagnosis(self, theta: Record) -> dict[str, float]:
        asked = float(theta["honeypots"][:, 1].sum())
        if not asked:
            return {}
        return {"honeypot_answers": asked, "honeypot_accuracy": float(theta["honeypots"][:, 0].sum()) / asked}
