"""Bradley-Terry: scores from preferences, every annotator trusted alike.  [Chen13], equations 1 and 3

    s_i     score of item i          P(i beats j) = sigma(s_i - s_j)                                       (1)

The likelihood (3) is joined by one win and one loss of every item, of strength `regularization`, against a virtual item
of score 0 (section 3.2): lambda * sum_i log sigma(s_i) + log sigma(-s_i). With it the maximum exists, is unique, and no
sum of scores has to be fixed.

A tie is half a win each way, or (`ties=davidson`) an outcome of its own, likelier between even items; how likely is
one parameter nu for all, estimated with the scores (`kernels.ties`).

`start=RUN` begins at the scores of an earlier run, joined by id (new items at 0). The maximum is unique, so it is
reached all the same, in fewer iterations if the data has changed little.

`regularization=auto` takes the strength whose scores agree best with gold (`_selection`). Gold has no other part in
the fit; how well the scores agree with it is in the result.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from distrank.contract import PARTS, Info, Run, Start, Traits
from distrank.errors import UsageError
from distrank.kernels.laws import LOGISTIC
from distrank.kernels.surprise import heaviest_in_runs
from distrank.models import _selection as selection
from distrank.models._ascent import (
    ascend,
    collect_starts,
    decrement,
    first_evaluation,
    forget_scores,
    tie_parameter,
    turn_units,
)
from distrank.models._evidence import as_record, empty_lists, places, typical_parameter
from distrank.models._gold import GoldAgreement, gold_agreement
from distrank.models._intervals import with_intervals
from distrank.models._pairwise import PairwiseModel, rows_of, split_slice
from distrank.records import Array, Record, scalar
from distrank.settings import setting


@dataclass(frozen=True)
class BradleyTerrySettings:
    """Settings of `bradley-terry`."""

    regularization: float | Literal["auto"] = setting(
        selection.DEFAULT,
        "strength lambda of a virtual win and loss of every item, or auto: the one that agrees best with gold",
        above=0.0,
    )
    start: str = setting(
        "ones", "where scores start: ones (all items alike), or a RUN, from whose result the fit goes on"
    )
    ties: str = setting(
        "half",
        "a tie is half a win each way, is left out, or is an outcome of its own (Davidson's model)",
        choices=("half", "drop", "davidson"),
    )
    tolerance: float = setting(
        1e-12, "ends once the objective is this near to its maximum, as a share of itself", low=1e-24
    )
    max_iterations: int = setting(2000, "iterations after which the fit ends without convergence", low=0)
    interval: float | None = setting(
        0.9, "level of the intervals of scores, ranks and quality; none leaves them out", above=0.0, high=0.999
    )


class BradleyTerry(PairwiseModel):
    """Maximum of the regularised likelihood, by L-BFGS."""

    name = "bradley-terry"
    title = "Bradley-Terry: scores, all annotators trusted alike"
    paper = "Chen13"
    estimates = "scores"
    traits = Traits()
    Settings = BradleyTerrySettings
    start_words: ClassVar[tuple[str, ...]] = ("ones",)
    law: ClassVar[int] = LOGISTIC  # of a judgment
    diagnostics = ("objective", "gradient", "decrement")
    gives_evidence = True

    def begin(self, run: Run, info: Info) -> Record:
        theta = {**self.empty_theta(info), "gold": scalar(info.gold)}
        if info.start is not None:
            theta |= self.earlier(run, info.start, theta)
        theta |= self.starts(run, info, theta)
        if self.settings.regularization != selection.AUTO:
            return self.begin_fit(run, theta, 0, self.settings.regularization)
        if not info.gold:
            raise UsageError(
                "setting regularization='auto' needs a gold table (--gold) to choose on; without one give a number "
                f"(the default is {selection.DEFAULT})"
            )
        theta |= selection.fresh_trials(len(theta.get("starts", "1")))
        return self.begin_fit(run, theta, *selection.current(theta))

    def starts(self, run: Run, info: Info, theta: Record) -> Record:  # noqa: ARG002 (scores alone start at 0)
        """Entries of theta from which fits can begin; `starts` has a row for each where there are several."""
        return {}

    def earlier(self, run: Run, start: Start, theta: Record) -> Record:
        """Where an earlier run left the items of split queries, and the parameter of ties after them."""
        known = run(collect_starts, {"split.offsets": theta["split.offsets"]}, on=PARTS).get("split.start", np.zeros(0))
        return {"split.start": np.append(known, start.facts.get("log_nu", 0.0) if self.has_tie_parameter else [])}

    @property
    def has_tie_parameter(self) -> bool:
        return bool(self.settings.ties == "davidson")

    def begin_fit(self, run: Run, theta: Record, start: int, strength: float) -> Record:  # noqa: ARG002
        """Theta at the first scores."""
        return self.checked(first_evaluation(run, theta, strength, self.law, ties=self.has_tie_parameter))

    def iterate(self, run: Run, theta: Record) -> Record:
        theta = self.climbed(run, theta)
        if not (selection.is_choosing(theta) and bool(theta["converged"])):
            return theta
        found = gold_agreement(run, theta)
        theta = selection.with_trial(theta, max(found.right, found.wrong) if self.mirrors else found.right)
        run(forget_scores, {})
        return self.begin_fit(run, theta, *selection.current(theta))

    def climbed(self, run: Run, theta: Record) -> Record:
        """One step up."""
        return self.checked(ascend(run, theta))

    def evidence(self, shard: Record, local: Record, theta: Record, suspects: Array) -> Record:
        law = int(theta["law"])
        typical = typical_parameter(theta.get("quality"), theta["judged"], law)
        parts = "part.unit" in shard
        score = theta["split.score"][split_slice(shard, theta["split.offsets"])] if parts else local["score"]
        rows, (weights, found) = rows_of(shard), empty_lists(suspects)
        place = places(shard["annotator.code"], suspects)
        heaviest_in_runs(*rows, score, law, typical, place, weights, found)
        return as_record(suspects, rows.winner, rows.loser, weights, found)

    def checked(self, theta: Record) -> Record:
        """Theta with its distance to the optimum, and whether that is small enough.

        `gradient` is the 2-norm of the gradient, `decrement` the estimated distance of the objective to its maximum.
        """
        distance, norm = decrement(theta), math.sqrt(float(theta["squares"]))
        near = scalar(self.is_near(theta, distance))
        return {**theta, "gradient": scalar(norm), "decrement": scalar(distance), "converged": near}

    def is_near(self, theta: Record, distance: float) -> bool:
        """Whether the objective is near enough to its maximum."""
        tolerance = self.settings.tolerance
        if selection.is_choosing(theta):
            tolerance = max(tolerance, selection.ROUGH)
        return bool(distance <= tolerance * abs(float(theta["objective"])))

    @property
    def mirrors(self) -> bool:
        """Whether reversed scores, with annotators turned around, fit exactly as well."""
        return False

    def mirrored(self, run: Run, theta: Record) -> Record:
        """All scores reversed; a model with a mirror image turns its annotators around as well."""
        run(turn_units, {})
        items, score = int(theta["split.offsets"][-1]), theta["split.score"].copy()
        score[:items] *= -1.0
        return {**theta, "split.score": score}

    def conclude(self, run: Run, theta: Record) -> Record:
        """Gold decides between a solution and its mirror image."""
        if bool(theta["gold"]):
            found = gold_agreement(run, theta)
            if self.mirrors and bool(theta["released"]) and found.wrong > found.right:
                theta, found = self.mirrored(run, theta), GoldAgreement(found.wrong, found.right, found.pairs)
                theta = {**theta, "reversed": scalar(True)}
            theta = {**theta, "gold.agreement": np.array(found)}
        theta = super().conclude(run, theta)
        return theta if self.settings.interval is None else with_intervals(run, theta, self.settings.interval)

    def warnings(self, theta: Record, info: Info) -> list[str]:
        found, gold = super().warnings(theta, info), gold_of(theta)
        if gold.wrong > gold.right:
            found.append(
                f"the scores have {gold.wrong:,} of {gold.pairs:,} gold pairs in the opposite order and only "
                f"{gold.right:,} in the true one: most judgments may be wrong or malicious"
            )
        return found

    def diagnosis(self, theta: Record) -> dict[str, Any]:
        found: dict[str, Any] = {
            "projected_gradient_norm": float(theta["gradient"]),
            "distance_to_optimum": float(theta["decrement"]),
        }
        found |= {name: float(value) for name, value in tie_parameter(theta).items()}
        if "gold.agreement" in theta:
            found["gold"] = gold_of(theta)._asdict() | {"reversed": "reversed" in theta}
        return found | ({"chosen": self.chosen(theta)} if "trial" in theta else {})

    def chosen(self, theta: Record) -> dict[str, Any]:
        """What `regularization=auto` took."""
        return {"regularization": float(theta["strength"])}


def gold_of(theta: Record) -> GoldAgreement:
    """How the final scores agree with gold; all 0 without gold."""
    return GoldAgreement(*theta.get("gold.agreement", np.zeros(3, np.int64)).tolist())
