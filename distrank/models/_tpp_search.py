"""The search for the domains: several starts, moves that regroup domains, signs; each fit by EM (`_tpp_em`).

The best solution so far is kept aside; a start or a move that ends below it is forgotten: the objective never falls.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.contract import PARTS, Run
from distrank.kernels.normal import lower_tails
from distrank.models import _tpp_steps as steps
from distrank.models._tpp_em import ascend, at, evaluation, reshare, shown, shown_to_parts, split_of, survey
from distrank.records import Array, Record, scalar

HEATS = (8.0, 4.0, 2.0, 1.0, 1.0, 1.0)  # of the looks at the domains in a new start
EXPLORING = 6  # steps between two looks in a new start
LOOKS = 3  # at the domains after a move
CLIMBING = 12  # steps between two looks near the end
FIRST = 80  # steps of the common fit, at most
SETTLED = 1e-5  # a fit is good enough to build on when this is left of its value, relatively
TRUTHFUL = 0.8  # share of truthful annotators, a priori
JUDGED = 1e-6  # share of a tau's prior variance that judgments take away at least
GOLD_ODDS = 2.0  # a pair of known order is right in the result with odds e^2


# Signs. --------------------------------------------------------------------------------------------------------------


def sign_odds(theta: Record) -> Array:
    """Logarithm of the odds that a domain is the right way round, against all its tau and scores with the other sign.

    The likelihood is the same both ways. Gold decides where a domain has any, and else that most annotators are
    truthful: each who judged in the domain counts log(TRUTHFUL / (1 - TRUTHFUL)) for the sign of its tau, less where
    that is open. (The sum of tau would let one keen liar outvote several fair annotators.)
    """
    variance = tau_variance(theta)
    sure = 2.0 * lower_tails(-theta["tau"] / np.sqrt(variance)) - 1.0
    known = variance < (1.0 - JUDGED) * theta["expertise_prior"][1] ** 2
    votes = math.log(TRUTHFUL / (1.0 - TRUTHFUL)) * (known * sure).sum(axis=0)
    return np.where(theta["gold_votes"] != 0.0, GOLD_ODDS * theta["gold_votes"], votes)


def tau_variance(theta: Record) -> Array:
    """How far off every tau may be, given scores and domains: the inverse of its information, prior included."""
    if "tau_deviation" in theta:
        return np.asarray(theta["tau_deviation"] ** 2)
    return np.asarray(theta["shared.inverse"][: theta["tau"].size].reshape(theta["tau"].shape))


def with_signs(run: Run, theta: Record) -> Record:
    """Every domain the way round that the odds favour, and every query the way round that fits its domain."""
    if bool(theta["has_gold"]):
        theta = {**theta, "gold_votes": gold_votes(run, theta)}
    sign = np.where(sign_odds(theta) < 0.0, -1.0, 1.0)
    log_share, size = np.log(theta["share"]), theta["tau"].size
    theta = at(theta, np.concatenate([(theta["tau"] * sign).ravel(), theta["shared.point"][size:]]))
    theta["gold_votes"] = theta["gold_votes"] * sign
    score, hardness = split_of(theta)
    shown_here = shown_to_parts(theta)
    upright = run(steps.survey_parts, shown_here, on=PARTS)
    turned = run(steps.survey_parts, shown_here | {"split.score": -score}, on=PARTS)
    if upright:
        way = steps.signs(upright["likelihood"], turned["likelihood"], log_share)
        score = score * np.repeat(way, np.diff(theta["split.offsets"]))
        theta = at(theta, np.concatenate([theta["tau"].ravel(), score, hardness]))
    return evaluation(run, theta, steps.turn_units, log_share=log_share)


def gold_votes(run: Run, theta: Record) -> Array:
    """Pairs of different relevance that the scores order rightly, minus those they order wrongly, by domain."""
    votes = np.zeros(len(theta["share"]))
    for sums in (run(steps.vote_units, {}), run(steps.vote_parts, shown_to_parts(theta), on=PARTS)):
        if sums:
            votes = votes + sums["votes"]
    return votes


# Whole fits. ---------------------------------------------------------------------------------------------------------


def common_fit(run: Run, theta: Record) -> Record:
    """All queries in one domain; then that domain's tau in all of them, and the first solution to keep."""
    split = np.zeros(int(theta["split.offsets"][-1]) + len(theta["split.offsets"]) - 1)
    theta = at(theta, np.concatenate([theta["tau"].ravel(), split]))
    theta = evaluation(run, theta, steps.begin_units)
    for _ in range(FIRST // CLIMBING):
        theta = ascend(run, theta, CLIMBING, SETTLED * abs(float(theta["value"])))
        if float(theta["promised"]) <= SETTLED * abs(float(theta["value"])):
            break
    tau = np.repeat(theta["tau"][:, :1], theta["tau"].shape[1], axis=1)
    theta = at(theta, np.concatenate([tau.ravel(), theta["shared.point"][tau.size :]]))
    theta = survey(run, with_signs(run, survey(run, theta)))
    return {**remembered(run, theta), "common": theta["shared.point"]}


def explore(run: Run, theta: Record) -> Record:
    """A new start: random domains, then EM that is cooled step by step. Kept if it ends above the best so far."""
    theta = at(theta, theta["common"])
    theta["share"] = np.full(len(theta["share"]), 1.0 / len(theta["share"]))
    parts = run(steps.scatter_parts, shown_to_parts(theta), on=PARTS)
    if parts:
        theta["split.posterior"] = parts["posterior"]
    theta = evaluation(run, theta, steps.scatter_units)
    for heat in HEATS:
        theta = ascend(run, theta, EXPLORING)
        theta = reshare(survey(run, theta, heat))
        theta = with_signs(run, theta)
    theta = survey(run, theta)
    if float(theta["objective"]) > float(theta["kept.objective"]):
        return remembered(run, theta)
    return recalled(run, theta)


def regroup(run: Run, theta: Record) -> Record:
    """Try one move on the best solution: free the domain that matters least for a half of one that looks like two.

    Moves that failed before (`failures`, since the last that helped) are not tried again: the next pair is.
    """
    failures = int(theta["failures"])
    shares = {"log_share": np.log(theta["share"]), "expertise_prior": theta["expertise_prior"]}
    parts = run(steps.inspect_parts, shown_to_parts(theta) | shares, on=PARTS)
    units = run(steps.inspect_units, shown(theta) | shares)
    loss, excess = np.zeros(len(theta["share"])), np.zeros(len(theta["share"]))
    if parts:
        loss, excess = steps.losses(parts["likelihood"] + shares["log_share"]), parts["excess"]
    if units:
        loss, excess = loss + units["loss"], excess + units["excess"]
    divided, vacated = _move(loss, excess, failures)
    move = {**shares, "vacated": scalar(vacated), "divided": scalar(divided)}
    if parts:
        theta = {**theta, "split.posterior": steps.rearranged(parts["likelihood"], parts["coin"] > 0.0, move)}
    tau = theta["tau"].copy()
    tau[:, vacated] = tau[:, divided]
    theta = at(theta, np.concatenate([tau.ravel(), theta["shared.point"][tau.size :]]))
    theta = evaluation(run, theta, steps.rearrange_units, **move)
    for _ in range(LOOKS):
        theta = reshare(survey(run, ascend(run, theta, EXPLORING)))
        theta = with_signs(run, theta)
    theta = survey(run, theta)
    if float(theta["objective"]) > float(theta["kept.objective"]):
        return {**remembered(run, theta), "failures": scalar(0)}
    return {**recalled(run, theta), "failures": scalar(failures + 1)}


def _move(loss: Array, excess: Array, failures: int) -> tuple[int, int]:
    """Which domain to divide and which to vacate: the most promising pair that has not failed yet."""
    domains = len(loss)
    by_excess, by_loss = np.argsort(-excess, kind="stable"), np.argsort(loss, kind="stable")
    pairs = sorted(
        (
            (i + j, i, int(by_excess[i]), int(by_loss[j]))
            for i in range(domains)
            for j in range(domains)
            if by_excess[i] != by_loss[j]
        ),
    )
    _, _, divided, vacated = pairs[failures % len(pairs)]
    return divided, vacated


def polish(run: Run, theta: Record) -> Record:
    """One iteration of EM: the M-step, then the E-step."""
    theta = ascend(run, theta, CLIMBING)
    return survey(run, reshare(theta))


def remembered(run: Run, theta: Record) -> Record:
    """Keep the solution at hand."""
    run(steps.remember_units, {})
    names = ("shared.point", "split.posterior", "share", "objective", "members")
    return {**theta, **{f"kept.{name}": theta[name] for name in names}}


def recalled(run: Run, theta: Record) -> Record:
    """Back to the solution that was kept."""
    names = ("split.posterior", "share", "members", "objective")
    theta = {**at(theta, theta["kept.shared.point"]), **{name: theta[f"kept.{name}"] for name in names}}
    objective = theta["objective"]
    return {**evaluation(run, theta, steps.recall_units), "objective": objective}


def concluded_search(run: Run, theta: Record) -> Record:
    """What outlives the fit: scores, log delta^2, posteriors, tau and how sure it is."""
    run(steps.unpack_units, {})
    score, hardness = split_of(theta)
    deviation = np.sqrt(tau_variance(theta))
    kept = {name: array for name, array in theta.items() if not name.startswith(("shared.", "kept.", "common"))}
    return {**kept, "split.score": score, "split.hardness": hardness, "tau_deviation": deviation}
