"""TPP by Gibbs sampling: Algorithm 1 of [Wang16], as stochastic EM with chains that go on from iteration to iteration.

An iteration is SWEEPS sweeps over all latent variables (the E-step), then closed forms for scores, difficulty, shares
(18-20), one Newton step for every tau (21, 22), and the rescaling (16). The first `burn_in` iterations are thrown away;
scores, difficulty, expertise and domains are averaged over the next `samples`.

    gibbs             domains given the noisy differences (8): valid, but the differences remember the old domain;
                      no priors, as printed, and so without a finite maximum on some data: bounds keep it finite
    gibbs-collapsed   domains with the differences integrated out (6), which mixes far better; priors as in `marginal`,
                      which also set the unit of length

Converged: the mean log-likelihoods of the two halves of the samples differ by no more than chance explains; otherwise
the samples are thrown away and taken anew.

Deviation: one Newton step of tau per iteration, on the mean of the sweeps; the paper has its own loop in every M-step.
The hazard function is exact; the paper's approximation for x > 8 (25) is not.

Intervals are those of the sandwich, at the means: the samples are of perceived scores and domains, given estimates of
all else. Their spread, taken for that of the scores, covered 20 to 50 % where 90 % were promised.

[Wang16] Wang, Wang, Jie, Zhai, Chang: Blind men and the elephant. ICDM 2016.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.contract import PARTS, Info, Run
from distrank.models import _tpp_chains as chains
from distrank.models._pairwise import shares
from distrank.models._tpp_chains import START_SPAN, SWEEPS
from distrank.models._tpp_steps import HARDNESS_SPREAD, centred
from distrank.models.borda import count_part_wins, count_wins
from distrank.records import Array, Record, scalar
from distrank.stats import dense

SMALLEST, LARGEST = 1e-3, 500.0  # of |tau|: separable data has no finite maximum
LONGEST_STEP = 1.0  # of Newton's method in tau, on top of |tau| itself
DRIFT = 4.0  # standard errors between the halves of the samples
INFLATION = 3.0  # of a standard error by the memory of the chain


def begin_chains(run: Run, theta: Record, info: Info, *, collapsed: bool, samples: int) -> Record:
    """Chains at their start, and one M-step of tau, so that domains are not all alike."""
    units, items = len(info.split_items), sum(info.split_items)
    run(count_wins, {})
    parts = run(count_part_wins, {"split.offsets": theta["split.offsets"]}, on=PARTS)
    score = START_SPAN * (shares(parts["split.wins"]) - 0.5) if parts else np.zeros(items)
    theta = {
        **theta,
        "collapsed": scalar(collapsed),
        "spread": theta["score_spread"] if collapsed else scalar(math.inf),
        "stiffness": scalar(HARDNESS_SPREAD**-2 if collapsed else 0.0),
        "split.score": centred(score, theta["split.offsets"]),
        "split.hardness": np.zeros(units),
        "split.count": np.zeros(items),
        "split.domain": np.zeros(units, np.int64),
        "queries": scalar(float(info.queries)),
        "taken": scalar(0),
        "history": np.zeros(samples),
        "tau_information": np.zeros(theta["tau"].shape),
        "total.tau": np.zeros(theta["tau"].shape),
        "total.share": np.zeros(len(theta["share"])),
        "total.score": np.zeros(items),
        "total.hardness": np.zeros(units),
        "total.posterior": np.zeros((units, len(theta["share"]))),
    }
    run(chains.start_units, {"tau": theta["tau"]})
    parts = run(chains.start_parts, _to_parts(theta), on=PARTS)
    if parts:
        theta |= {"split.count": parts["count"], "split.domain": parts["domain"]}
    return iterated(run, theta, sampling=False, mixing=False)


def iterated(run: Run, theta: Record, *, sampling: bool, mixing: bool = True, restart: bool = False) -> Record:
    """One iteration: E-step, M-step, rescaling, and a sample where asked for."""
    shown = {"tau": theta["tau"], "log_share": np.log(theta["share"]), "mixing": scalar(mixing)}
    shown["collapsed"] = theta["collapsed"]
    slope, curvature = np.zeros(theta["tau"].shape), np.zeros(theta["tau"].shape)
    members = np.zeros(len(theta["share"]))
    items = len(theta["split.score"])
    sums, squares, value = np.zeros(items), np.zeros(items), 0.0
    for _ in range(SWEEPS):
        more = _to_parts(theta) | shown
        weights = run(chains.weigh_parts, more, on=PARTS) if mixing else {}
        more["split.weights"] = weights.get("weights", np.zeros((len(theta["split.hardness"]), len(members))))
        units, parts = run(chains.sweep_units, shown), run(chains.sweep_parts, more, on=PARTS)
        value = 0.0
        for found in (units, parts):
            if found:
                slope = slope + dense(found, "annotator/slope", len(slope)) / SWEEPS
                curvature = curvature + dense(found, "annotator/curvature", len(slope)) / SWEEPS
                value += float(found["value"])
        if units:
            members = members + units["members"] / SWEEPS
        if parts:
            sums, squares = sums + parts["sums"], squares + parts["squares"]
            members = members + np.bincount(parts["domain"], minlength=len(members)) / SWEEPS
            theta = {**theta, "split.domain": parts["domain"]}
    centre, deviation = theta["expertise_prior"]
    trust = deviation**-2 if bool(theta["collapsed"]) else 0.0
    tau = newton(theta["tau"], slope - trust * (theta["tau"] - centre), curvature + trust)
    theta = {**theta, "tau": tau, "tau_information": curvature}
    theta["share"] = (members + 1.0) / (members + 1.0).sum()  # (20), with one query more in every domain
    theta["objective"] = scalar(value)
    theta = _updated(run, theta, sums, squares)
    return _rescale(run, theta, sampling=sampling, restart=restart)


def newton(tau: Array, slope: Array, curvature: Array) -> Array:
    """One step of Newton's method, none where nothing is known; |tau| stays within bounds."""
    reach = LONGEST_STEP + np.abs(tau)
    step = np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0.0)
    moved = np.clip(tau + np.clip(step, -reach, reach), -LARGEST, LARGEST)
    return np.where(np.abs(moved) < SMALLEST, np.where(moved < 0.0, -SMALLEST, SMALLEST), moved)


def _to_parts(theta: Record) -> Record:
    names = ("tau", "collapsed", "split.offsets", "split.score", "split.hardness")
    return {name: theta[name] for name in names}


def _updated(run: Run, theta: Record, sums: Array, squares: Array) -> Record:
    """Scores and difficulty, and the scale at which the mean delta^2 is 1."""
    shown = {name: theta[name] for name in ("uniform_difficulty", "spread", "stiffness")}
    units = run(chains.update_units, shown)
    split = theta["split.score"], theta["split.hardness"], theta["split.offsets"]
    score, hardness = chains.maximised(*split, sums, squares, theta["split.count"], shown)
    total = float(np.exp(hardness).sum()) + (float(units["variance"]) if units else 0.0)
    believed = bool(theta["collapsed"]) or bool(theta["uniform_difficulty"])  # what is believed sets the scale
    scale = 1.0 if believed else 1.0 / math.sqrt(total / float(theta["queries"]))  # (16), for the mean
    return {**theta, "split.score": score, "split.hardness": hardness, "scale": scalar(scale)}


def _rescale(run: Run, theta: Record, *, sampling: bool, restart: bool) -> Record:
    scale = float(theta["scale"])
    score, hardness = scale * theta["split.score"], theta["split.hardness"] + 2.0 * math.log(scale)
    zeroed = centred(score, theta["split.offsets"])
    tau = theta["tau"] / scale
    flags = {"scale": theta["scale"], "sampling": scalar(sampling), "restart": scalar(restart), "tau": tau}
    run(chains.rescale_units, flags)
    run(
        chains.rescale_parts, flags | {"split.offsets": theta["split.offsets"], "split.shift": zeroed - score}, on=PARTS
    )
    theta = {**theta, "split.score": zeroed, "split.hardness": hardness, "tau": tau}
    theta["tau_information"] = theta["tau_information"] * scale**2
    if restart:
        theta |= {name: np.zeros_like(array) for name, array in theta.items() if name.startswith("total.")}
        theta["taken"] = scalar(0)
    if not sampling:
        return theta
    sample = {"score": zeroed, "hardness": hardness, "tau": tau, "share": theta["share"]}
    sample["posterior"] = chains.one_hot(theta["split.domain"], theta)
    theta |= {f"total.{name}": theta[f"total.{name}"] + value for name, value in sample.items()}
    history = theta["history"].copy()
    history[int(theta["taken"])] = float(theta["objective"])
    return {**theta, "history": history, "taken": theta["taken"] + 1}


def settled(history: Array) -> bool:
    """Whether the two halves of the samples have the same mean, as far as chance can tell."""
    first, second = np.array_split(history, 2)
    error = math.sqrt(first.var() / len(first) + second.var() / len(second))
    return bool(abs(first.mean() - second.mean()) <= DRIFT * INFLATION * error + 1e-9 * abs(history.mean()))


def concluded_chains(run: Run, theta: Record) -> Record:
    """Means over the samples in place of the last state (which is all there is before the first sample)."""
    taken = float(theta["taken"])
    run(chains.conclude_chain, {"taken": theta["taken"], "tau": theta["tau"]})
    if taken == 0.0:
        return {**theta, "split.posterior": chains.one_hot(theta["split.domain"], theta)}
    means = {name: theta[f"total.{name}"] / taken for name in ("tau", "share", *chains.AVERAGED)}
    split = {f"split.{name}": means[name] for name in chains.AVERAGED}
    return {**theta, "tau": means["tau"], "share": means["share"], **split}
