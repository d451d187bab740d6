"""TPP: Thurstonian pairwise preference, with query difficulty, domains and expertise by domain.  [Wang16]

    s_li        score of item i in query l             delta_l^2   difficulty of query l
    m_l         domain of query l, P(m) = theta_m      tau_km      expertise of annotator k in domain m, < 0: malicious

[Wang16] Wang, Wang, Jie, Zhai, Chang: Blind men and the elephant: Thurstonian pairwise preference for ranking in
         crowdsourcing. ICDM 2016.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Run, Tables, Traits
from distrank.models import _tpp_search as search
from distrank.models._pairwise import PairwiseModel
from distrank.records import Record, scalar
from distrank.settings import setting


PATIENCE = 6


@dataclass(frozen=True)
class TPPSettings:
    """Settings of `tpp`."""

    domains: int = setting(10, "number of domains M; 1 is the paper's UNIDOM", low=1)
    uniform_difficulty: bool = setting(False, "all queries equally difficult (the paper's UNIDIFF)")
    uniform_expertise: bool = setting(False, "all annotators alike within a domain (the paper's UNIEXP)")
    inference: str = setting("marginal", "how", choices=("marginal", "gibbs", "gibbs-collapsed"))
    starts: int = setting(4, "random assignments of queries to domains to start from; the best is kept", low=1)
    expertise_prior: tuple[float, float] = setting((1.0, 1.5), "mean, sd")
    score_spread: float = setting(3.5, "sd", above=0.0)
    ties: str = setting("half", "a tie is half a win each way, or is left out", choices=("half", "drop"))
    tolerance: float = setting(1e-6, "relative", above=0.0)
    max_iterations: int = setting(200, "iterations", low=1)


class TPP(PairwiseModel):
    name = "tpp"
    title = "TPP"
    split = "annotator"
    traits = Traits(sampled=True)
    Settings = TPPSettings

    def begin(self, run: Run, info: Info) -> Record:
        settings = self.settings
        rows = 1 if settings.uniform_expertise else info.annotators
        theta = self.empty_theta(info)
        tau = np.full((rows, settings.domains), settings.expertise_prior[0])
        theta |= {
            "tau": tau,
            "share": np.full(settings.domains, 1.0 / settings.domains),
            "score_spread": scalar(settings.score_spread),
            "expertise_prior": np.array(settings.expertise_prior),
            "uniform_difficulty": scalar(settings.uniform_difficulty),
            "split.posterior": np.eye(1, settings.domains).repeat(len(info.split_items), axis=0),
            "shared.point": np.concatenate([tau.ravel(), np.zeros(sum(info.split_items) + len(info.split_items))]),
            "starts": scalar(0),
            "failures": scalar(0),
            "has_gold": scalar(info.gold),
            "gold_votes": np.zeros(settings.domains),
        }
        return {**search.common_fit(run, theta), "converged": scalar(False)}

    def iterate(self, run: Run, theta: Record) -> Record:
        if self.settings.domains > 1 and int(theta["starts"]) < self.settings.starts:
            theta = search.explore(run, theta)
            return {**theta, "starts": theta["starts"] + 1, "converged": scalar(False)}
        if self.settings.domains > 1 and int(theta["failures"]) < PATIENCE:
            return {**search.regroup(run, theta), "converged": scalar(False)}
        before = float(theta["objective"])
        theta = search.polish(run, theta)
        goal = self.settings.tolerance * abs(before)
        near = float(theta["objective"]) - before <= goal and float(theta["promised"]) <= goal
        return {**theta, "converged": scalar(near)}
