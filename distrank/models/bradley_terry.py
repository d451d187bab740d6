"""Bradley-Terry: scores from preferences, every annotator trusted alike.  [Chen13], equations 1 and 3

    s_i     score of item i          P(i beats j) = sigma(s_i - s_j)                                       (1)

The likelihood (3) is joined by one win and one loss of every item, of strength `regularization`, against a virtual item
of score 0 (section 3.2): lambda * sum_i log sigma(s_i) + log sigma(-s_i). With it the maximum exists, is unique, and no
sum of scores has to be fixed.

A tie is half a win each way, or (`ties=davidson`) an outcome of its own, likelier between even items; how likely is
one parameter nu for all, estimated with the scores (`kernels.ties`).

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from distrank.contract import Info, Run, Traits
from distrank.kernels.laws import LOGISTIC
from distrank.models._ascent import ascend, decrement, first_evaluation, tie_parameter
from distrank.models._pairwise import PairwiseModel
from distrank.records import Record, scalar
from distrank.settings import setting


@dataclass(frozen=True)
class BradleyTerrySettings:
    """Settings of `bradley-terry`."""

    regularization: float = setting(0.5, "strength lambda of a virtual win and loss of every item", above=0.0)
    ties: str = setting(
        "half",
        "a tie is half a win each way, is left out, or is an outcome of its own (Davidson's model)",
        choices=("half", "drop", "davidson"),
    )
    tolerance: float = setting(
        1e-12, "ends once the objective is this near to its maximum, as a share of itself", low=1e-24
    )
    max_iterations: int = setting(2000, "iterations after which the fit ends without convergence", low=0)


class BradleyTerry(PairwiseModel):
    """Maximum of the regularised likelihood, by L-BFGS."""

    name = "bradley-terry"
    title = "Bradley-Terry: scores, all annotators trusted alike"
    paper = "Chen13"
    estimates = "scores"
    traits = Traits()
    Settings = BradleyTerrySettings
    law: ClassVar[int] = LOGISTIC  # of a judgment
    diagnostics = ("objective", "gradient", "decrement")

    def begin(self, run: Run, info: Info) -> Record:
        return self.checked(self.first_evaluation(run, self.empty_theta(info)))

    def first_evaluation(self, run: Run, theta: Record) -> Record:
        """Theta at scores of 0."""
        ties = self.settings.ties == "davidson"
        return first_evaluation(run, theta, self.settings.regularization, self.law, ties=ties)

    def iterate(self, run: Run, theta: Record) -> Record:
        return self.checked(ascend(run, theta))

    def checked(self, theta: Record) -> Record:
        """Theta with its distance to the optimum, and whether that is small enough.

        `gradient` is the 2-norm of the gradient, `decrement` the estimated distance of the objective to its maximum.
        """
        distance = decrement(theta)
        near = distance <= self.settings.tolerance * abs(float(theta["objective"]))
        norm = math.sqrt(float(theta["squares"]))
        return {**theta, "gradient": scalar(norm), "decrement": scalar(distance), "converged": scalar(near)}

    def diagnosis(self, theta: Record) -> dict[str, Any]:
        found = {
            "projected_gradient_norm": float(theta["gradient"]),
            "distance_to_optimum": float(theta["decrement"]),
        }
        return found | {name: float(value) for name, value in tie_parameter(theta).items()}
