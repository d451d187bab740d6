"""TPP: Thurstonian pairwise preference, with query difficulty, domains and expertise by domain.  [Wang16]

    s_li      score of item i in query l                       delta_l^2   difficulty of query l
    m_l       domain of query l, P(m_l = m) = theta_m          tau_km      expertise of annotator k in domain m;
                                                                           negative: malicious, near 0: a spammer

    perceived  p_lik ~ N(s_li, delta_l^2)                        how k sees item i, the same in all comparisons
    noisy      n_i ~ N(sgn(tau_km) p_lik, tau_km^-2)             anew in every comparison; i over j if n_i > n_j   (2)

`inference=marginal` integrates perceived and noisy scores out pair by pair,

    P(k prefers i to j in l | m_l = m) = Phi(tau_km (s_li - s_lj) / sqrt(2 (1 + tau_km^2 delta_l^2))),

and climbs by EM over the domains (`_tpp_search`), with all else by L-BFGS. It is a composite likelihood: the pairs of
an annotator in a query share perceived scores, which its intervals account for (`kernels.clusters`). `gibbs` and
`gibbs-collapsed` sample everything (`_tpp_gibbs`), as the paper does.

Unit of length: the usual delta is 1 (log delta^2 is N(0, 1) a priori).
Deviation: the paper has sum delta_l^2 = 1 (16), by which scores would shrink as queries are added.
Deviation: scores have mean 0 in every query, the paper has min 0 (17).
Deviation: the paper has no priors; here scores, difficulty and expertise have normal ones, for data that says little.

Signs: the likelihood stays the same when all tau of a domain and the scores of its queries change their sign. Gold
decides where a domain has any; else that most annotators are truthful a priori. `sign_probability` says how sure that
is. Domains are numbered by size, the largest is 0; the numbers mean nothing from run to run.

[Wang16] Wang, Wang, Jie, Zhai, Chang: Blind men and the elephant: Thurstonian pairwise preference for ranking in
         crowdsourcing. ICDM 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from distrank.contract import Info, Run, Tables, Traits
from distrank.models import _tpp_gibbs as gibbs
from distrank.models import _tpp_search as search
from distrank.models._pairwise import PairwiseModel
from distrank.models._tpp_chains import with_slots
from distrank.models._tpp_intervals import half_width
from distrank.models._tpp_results import (
    annotator_columns,
    concluded,
    decided_gold,
    finalized,
    in_order,
    shown_to_all,
)
from distrank.models._tpp_steps import HARDNESS_SPREAD
from distrank.records import Record, scalar
from distrank.settings import setting

PATIENCE = 6  # moves that may fail in a row before the domains are taken as settled
FEWEST = 3  # queries per domain, below which the number of domains is too large for the data
SURE = 0.95  # below this probability the sign of a domain is undecided


@dataclass(frozen=True)
class TPPSettings:
    """Settings of `tpp`."""

    domains: int = setting(10, "number of domains M; 1 is the paper's UNIDOM", low=1, high=1000)
    uniform_difficulty: bool = setting(False, "all queries equally difficult (the paper's UNIDIFF)")
    uniform_expertise: bool = setting(False, "all annotators alike within a domain (the paper's UNIEXP)")
    inference: str = setting(
        "marginal",
        "marginal: EM with perceived scores integrated out; gibbs: the paper's sampler; gibbs-collapsed: the same with "
        "domains drawn without the noisy differences, which mixes far better",
        choices=("marginal", "gibbs", "gibbs-collapsed"),
    )
    starts: int = setting(
        4, "marginal: random assignments of queries to domains; the best by likelihood is kept", low=1
    )
    burn_in: int = setting(50, "gibbs: iterations before the first that counts", low=1)
    samples: int = setting(50, "gibbs: iterations that are averaged", low=2)
    expertise_prior: tuple[float, float] = setting(
        (1.0, 1.5), "mean and standard deviation of tau a priori, in units of 1 / usual delta"
    )
    score_spread: float = setting(3.5, "standard deviation of scores a priori, in units of the usual delta", above=0.0)
    interval: float | None = setting(
        0.9, "level of the intervals of scores, ranks and quality; none leaves them out", above=0.0, high=0.999
    )
    ties: str = setting("half", "a tie is half a win each way, or is left out", choices=("half", "drop"))
    tolerance: float = setting(
        1e-6, "marginal: converged when an iteration gains less than this, relatively", above=0.0
    )
    max_iterations: int = setting(500, "most iterations (starts, moves, EM) before it ends without convergence", low=1)


class TPP(PairwiseModel):
    """EM over domains, or Gibbs sampling; the outputs are the same."""

    name = "tpp"
    title = "TPP: scores with query difficulty, domains and expertise by domain"
    paper = "Wang et al., ICDM 2016"
    estimates = "scores, expertise by domain, query difficulty, query domains"
    split = "annotator"
    traits = Traits(sampled=True)
    Settings = TPPSettings

    @property
    def samples(self) -> bool:
        """Whether the latent variables are sampled."""
        return bool(self.settings.inference != "marginal")

    def prepare(self, shard: Record) -> Record:
        shard = super().prepare(shard)
        return with_slots(shard) if self.samples else shard

    def begin(self, run: Run, info: Info) -> Record:
        settings, theta = self.settings, self.empty_theta(info)
        rows, units = 1 if settings.uniform_expertise else info.annotators, len(info.split_items)
        theta |= {
            "tau": np.full((rows, settings.domains), settings.expertise_prior[0]),
            "share": np.full(settings.domains, 1.0 / settings.domains),
            "expertise_prior": np.array(settings.expertise_prior),
            "score_spread": scalar(settings.score_spread),
            "uniform_difficulty": scalar(settings.uniform_difficulty),
            "split.posterior": np.eye(1, settings.domains).repeat(units, axis=0),
            "has_gold": scalar(info.gold),
            "gold_votes": np.zeros(settings.domains),
            "iterations": scalar(0),
            "starts": scalar(0 if settings.domains > 1 else settings.starts),
            "failures": scalar(0 if settings.domains > 1 else PATIENCE),
        }
        if self.samples:
            collapsed = settings.inference == "gibbs-collapsed"
            theta = gibbs.begin_chains(run, theta, info, collapsed=collapsed, samples=settings.samples)
        else:
            theta = search.common_fit(run, theta)
        return {**theta, "converged": scalar(False)}

    def iterate(self, run: Run, theta: Record) -> Record:
        """A sample; or a new start, a move that regroups domains, or one iteration of EM on the best solution."""
        if self.samples:
            return self._sampled(run, theta)
        if int(theta["starts"]) < self.settings.starts:
            theta = search.explore(run, theta)
            return {**theta, "starts": theta["starts"] + 1, "converged": scalar(False)}
        if int(theta["failures"]) < PATIENCE:
            return {**search.regroup(run, theta), "converged": scalar(False)}
        before = float(theta["objective"])
        theta = search.polish(run, theta)
        goal = self.settings.tolerance * abs(before)
        near = float(theta["objective"]) - before <= goal and float(theta["promised"]) <= goal
        return {**theta, "converged": scalar(near), "objective": np.maximum(theta["objective"], before)}

    def _sampled(self, run: Run, theta: Record) -> Record:
        settings, done = self.settings, int(theta["iterations"]) + 1
        full = int(theta["taken"]) == settings.samples  # but they drifted: take them anew
        theta = gibbs.iterated(run, theta, sampling=done > settings.burn_in, restart=full)
        near = int(theta["taken"]) == settings.samples and gibbs.settled(theta["history"])
        return {**theta, "iterations": scalar(done), "converged": scalar(near)}

    def conclude(self, run: Run, theta: Record) -> Record:
        """Domains by size, each the right way round; agreement, implied quality and intervals."""
        stiffness = self.settings.expertise_prior[1] ** -2
        if self.samples:
            theta = gibbs.concluded_chains(run, theta)
            theta["tau_deviation"] = (theta["tau_information"] + stiffness) ** -0.5
        else:
            theta = search.concluded_search(run, theta)
        if bool(theta["has_gold"]):
            theta["gold_votes"] = decided_gold(run, theta)
        theta, order = in_order(theta, search.sign_odds(theta))
        precision = (self.settings.score_spread**-2, HARDNESS_SPREAD**-2)
        return concluded(run, theta, shown_to_all(theta, order, half_width(self.settings.interval), precision))

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:
        return finalized(shard, local, theta)

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002 (all that is needed is in theta)
        return annotator_columns(theta, half_width(self.settings.interval))

    def warnings(self, theta: Record, info: Info) -> list[str]:
        found = super().warnings(theta, info)
        if info.queries < FEWEST * self.settings.domains > FEWEST:
            found.append(
                f"{info.queries:,} queries are few for {self.settings.domains} domains: expertise by domain rests on "
                f"little. Set domains to {max(info.queries // FEWEST, 1)} or less"
            )
        used = theta["share"] * info.queries > 1.0
        undecided = np.flatnonzero(used & (theta["sign_probability"] < SURE))
        if len(undecided):
            names = ", ".join(str(m) for m in undecided)
            found.append(
                f"the sign of {len(undecided)} of {int(used.sum())} domains is undecided ({names}): all their tau and "
                "the order of all their queries turned round fit the judgments as well. A few gold pairs in queries of "
                "these domains would decide (column sign_probability of queries.parquet)"
            )
        return found

    def diagnosis(self, theta: Record) -> dict[str, Any]:
        names = ("share", "sign_probability", "gold_votes")
        rows = zip(*(theta[name].tolist() for name in names), strict=True)
        return {"domains": [dict(zip(names, row, strict=True)) for row in rows]}
