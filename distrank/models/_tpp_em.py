"""One iteration of EM over the domains: the E-step, the M-step by L-BFGS, and the sums between the rounds.

value       expected log-likelihood under the posterior at hand
prior       logarithm of the priors of scores, difficulties and expertise
objective   log-likelihood with all priors: what EM climbs, what starts are compared by
"""

from __future__ import annotations

import numpy as np

from distrank.contract import PARTS, Run, Step
from distrank.kernels.expertise import posterior_of
from distrank.kernels.lbfgs import PAIRS, dot
from distrank.models import _tpp_steps as steps
from distrank.models._vectors import BLOCK, SHRINK, SUFFICIENT, evaluated, fresh_block, moved, onward, shorter
from distrank.records import Array, Record, scalar
from distrank.stats import dense

MOVED = 0.01  # per query: a posterior that changed by more makes older slopes useless
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


def evaluation(run: Run, theta: Record, step: Step, **more: Array) -> Record:
    """A round of a step over whole queries, and the same evaluation over parts."""
    units = run(step, shown(theta, **more))
    parts = run(steps.evaluate_parts, shown_to_parts(theta), on=PARTS)
    return settled(theta, units, parts)


def survey(run: Run, theta: Record, heat: float = 1.0) -> Record:
    """The E-step: the domains of all queries anew, and the objective."""
    theta = {**theta, "refresh": scalar(True)}
    parts = run(steps.survey_parts, shown_to_parts(theta), on=PARTS)
    log_share = np.log(theta["share"])
    changed, total = 0.0, 0.0
    members = np.zeros(len(log_share))
    if parts:
        posterior = np.empty_like(parts["likelihood"])
        total = posterior_of(parts["likelihood"], log_share, heat, posterior)
        changed, members = float(np.abs(posterior - theta["split.posterior"]).sum()), posterior.sum(axis=0)
        theta = {**theta, "split.posterior": posterior}
    units = run(steps.survey_units, shown(theta, heat=scalar(heat), log_share=log_share))
    parts = run(steps.evaluate_parts, shown_to_parts(theta), on=PARTS)
    theta = settled(theta, units, parts)
    if units:
        changed, members = changed + float(units["changed"]), members + units["members"]
        total = total + float(units["likelihood"])
    if changed > MOVED * members.sum():
        theta["pairs"] = scalar(0)
    objective = total + float(theta["prior"]) + DOMAIN_WEIGHT * float(log_share.sum())
    return {**theta, "members": members, "objective": scalar(objective)}


def reshare(theta: Record) -> Record:
    """The shares of the domains, from the posteriors of the last look."""
    counts = theta["members"] + DOMAIN_WEIGHT
    return {**theta, "share": counts / counts.sum()}


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
