"""EM over the domains, several starts: what happens between the rounds of `_tpp_steps`.

    value       expected log-likelihood under the posterior at hand
    prior       logarithm of the priors of scores, difficulties and expertise
    objective   log-likelihood with all priors: what EM climbs, what the starts are compared by

The best solution so far is kept aside; a start that ends below it is forgotten, so the objective never falls.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.contract import PARTS, Run
from distrank.kernels.expertise import posterior_of
from distrank.kernels.lbfgs import PAIRS, dot
from distrank.kernels.normal import lower_tails
from distrank.models import _tpp_steps as steps
from distrank.models._vectors import BLOCK, SHRINK, SUFFICIENT, evaluated, fresh_block, moved, onward, shorter
from distrank.records import Array, Record, scalar
from distrank.stats import dense

HEATS = (8.0, 4.0, 2.0, 1.0, 1.0, 1.0)  # of the looks at the domains in a new start
EXPLORING = 6  # steps between two looks in a new start
LOOKS = 3  # at the domains after a move
CLIMBING = 12  # steps between two looks near the end
FIRST = 80  # steps of the common fit, at most
SETTLED = 1e-5  # a fit is good enough to build on when this is left of its value, relatively
MOVED = 0.01  # per query: a posterior that changed by more makes older slopes useless
TRUTHFUL = 0.8  # share of truthful annotators, a priori
JUDGED = 1e-6  # share of a tau's prior variance that judgments take away at least
GOLD_ODDS = 2.0  # a pair of known order is right in the result with odds e^2
DOMAIN_WEIGHT = 1.0  # queries that every domain has a priori


def split_of(theta: Record) -> tuple[Array, Array]:
    """Scores and log delta^2 of split queries."""
    after = theta["shared.point"][theta["tau"].size :]
    items = int(theta["split.offsets"][-1])
    return after[:items], after[items:]


def shown(theta: Record, **more: Array) -> Record:
    """What the steps over whole queries need of theta."""
    names = ("tau", "score_spread", "uniform_difficulty", "refresh")
    return {name: theta[name] for name in names} | more


def shown_to_parts(theta: Record) -> Record:
    """What the steps over parts need on top."""
    score, hardness = split_of(theta)
    places = {name: theta[name] for name in ("split.offsets", "split.posterior")}
    return shown(theta, **places, **{"split.score": score, "split.hardness": hardness})


def at(theta: Record, point: Array) -> Record:
    """Theta with its shared block at a point, without memory of others."""
    block = fresh_block(point)
    return _with_block(theta, block) | {"pairs": scalar(0), "steps": scalar(0), "refresh": scalar(True)}


def settled(theta: Record, units: Record, parts: Record) -> Record:
    """Theta with the sums of a round: value, inner products, and its own block evaluated, priors included."""
    tau, (score, hardness) = theta["tau"], split_of(theta)
    items, (centre, spread) = len(score), theta["expertise_prior"]
    refresh = bool(theta["refresh"])

    def of_tau(name: str) -> Array:
        both = [dense(sums, f"annotator/{name}", len(tau)) for sums in (units, parts) if sums]
        return sum(both, np.zeros(tau.shape))

    empty = np.zeros(items), np.zeros(len(hardness))
    found = steps.Found(0.0, *empty, {}, *(empty if refresh else (None, None)))
    if parts:
        curvatures = (parts["score_curvature"], parts["hardness_curvature"]) if refresh else (None, None)
        found = steps.Found(float(parts["value"]), parts["score"], parts["hardness"], {}, *curvatures)
    split = steps.believed(np.concatenate([score, hardness]), items, theta, found)
    away = (tau - centre) / spread
    slope = np.concatenate([(of_tau("slope") - away / spread).ravel(), split.slope])
    curvature = None
    if split.curvature is not None:
        curvature = np.concatenate([(of_tau("curvature") + spread**-2).ravel(), split.curvature])
    block, products = evaluated({name: theta[f"shared.{name}"] for name in BLOCK}, slope, curvature)
    prior = split.prior - 0.5 * dot(away.ravel(), away.ravel())
    sums = {"value": found.value, "prior": prior, "products": products}
    if units:
        sums = {name: value + units[name] for name, value in sums.items()}
    return _with_block(theta, block) | {name: np.asarray(value) for name, value in sums.items()}


def evaluation(run: Run, theta: Record, step: object, **more: Array) -> Record:
    """A round of a step over whole queries, and the same evaluation over parts."""
    units = run(step, shown(theta, **more))  # type: ignore[arg-type]
    parts = run(steps.evaluate_parts, shown_to_parts(theta), on=PARTS)
    return settled(theta, units, parts)


def survey(run: Run, theta: Record, heat: float = 1.0) -> Record:
    """The E-step: the domains of all queries anew, and the objective."""
    theta = {**theta, "refresh": scalar(True)}
    parts = run(steps.survey_parts, shown_to_parts(theta), on=PARTS)
    log_share = np.log(theta["share"])
    changed, total, energy = 0.0, 0.0, 0.0
    members = np.zeros(len(log_share))
    if parts:
        posterior = np.empty_like(parts["likelihood"])
        total, energy = posterior_of(parts["likelihood"], log_share, heat, posterior)
        changed, members = float(np.abs(posterior - theta["split.posterior"]).sum()), posterior.sum(axis=0)
        theta = {**theta, "split.posterior": posterior}
    units = run(steps.survey_units, shown(theta, heat=scalar(heat), log_share=log_share))
    parts = run(steps.evaluate_parts, shown_to_parts(theta), on=PARTS)
    theta = settled(theta, units, parts)
    if units:
        changed, members = changed + float(units["changed"]), members + units["members"]
        total, energy = total + float(units["likelihood"]), energy + float(units["energy"])
    queries = members.sum()
    if changed > MOVED * queries:
        theta["pairs"] = scalar(0)
    theta |= {
        "objective": scalar(total + float(theta["prior"]) + _belief_in_shares(theta)),
        "changed": scalar(changed / max(queries, 1.0)),
    }
    theta["members"], theta["energy"] = members, scalar(energy)
    return theta


def reshare(theta: Record) -> Record:
    """The shares of the domains, from the posteriors of the last look."""
    counts = theta["members"] + DOMAIN_WEIGHT
    return {**theta, "share": counts / counts.sum()}


def _belief_in_shares(theta: Record) -> float:
    return DOMAIN_WEIGHT * float(np.log(theta["share"]).sum())


def ascend(run: Run, theta: Record, count: int, goal: float = 0.0) -> Record:
    """The M-step: up to `count` steps of L-BFGS; ends when a step promises less than `goal`, or none climbs."""
    for _ in range(count):
        control, promised = onward(theta["products"], int(theta["pairs"]))
        if promised <= goal:
            break
        fresh = int(theta["pairs"]) == 0
        theta, climbed = _step(run, theta, control, promised)
        if fresh and not climbed:
            break
    return {**theta, "promised": scalar(onward(theta["products"], int(theta["pairs"]))[1])}


def _step(run: Run, theta: Record, control: Record, promised: float) -> tuple[Record, bool]:
    """One step that climbs; where none does, back to where it began and without memory."""
    before, number = height(theta), int(theta["steps"]) + 1
    theta = {**theta, "steps": scalar(number), "pairs": scalar(min(int(theta["pairs"]) + 1, PAIRS))}
    theta["refresh"] = scalar(number in (1, 4, 16) or number % 64 == 0)
    for shrink in SHRINK:
        theta = _advanced(run, theta, control)
        if height(theta) - before >= SUFFICIENT * promised:
            return theta, True
        promised *= shrink
        control = shorter(control, shrink)
    return _advanced(run, theta, shorter(control, 0.0)) | {"pairs": scalar(0)}, False


def height(theta: Record) -> float:
    """What a step of L-BFGS climbs: the expected log-likelihood and the priors of what moves."""
    return float(theta["value"] + theta["prior"])


def _advanced(run: Run, theta: Record, control: Record) -> Record:
    """All blocks moved, and evaluated there."""
    block = moved({name: theta[f"shared.{name}"] for name in BLOCK}, control)
    size, items = theta["tau"].size, int(theta["split.offsets"][-1])
    point = block["point"]
    score = steps.centred(point[size : size + items], theta["split.offsets"])
    point = np.concatenate([point[:size], score, point[size + items :]])
    theta = _with_block(theta, {**block, "point": point})
    return evaluation(run, theta, steps.advance_units, **control)


def _with_block(theta: Record, block: Record) -> Record:
    tau = theta["tau"]
    moved_tau = block["point"][: tau.size].reshape(tau.shape)
    return {**theta, **{f"shared.{name}": block[name] for name in BLOCK}, "tau": moved_tau}


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
