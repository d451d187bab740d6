"""The scores of all items at once, by L-BFGS whose vectors stay where their items live.

A *block* is a record of vectors over some items: the local state of a shard of whole queries, or the `split.*`
entries of theta for all split queries. A round moves every block by the same coefficients, passes over the preferences,
and adds up the objective and the inner products from which the next coefficients follow (`kernels.lbfgs`). So all
queries, whole or split, are one optimisation; where they are cut changes nothing but the order of sums.

    score, gradient         the point last evaluated: the accepted one, between iterations
    base, base_gradient     the point before, from which it was reached
    score.i, gradient.i     points before that, oldest first
    inverse                 H: inverse of the expected curvature (Fisher information and virtual games)

What belongs to no item, the parameter of ties (`kernels.ties`), comes after the items of the split queries: it is one
more coordinate, with virtual games of its own that keep it finite where nothing or everything was tied.

A vector that stays the same keeps its array, also where it changes its name: engines send only what is new.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from distrank.contract import PARTS, Run
from distrank.kernels import lbfgs, virtual
from distrank.models._pairwise import split_slice
from distrank.models._passes import evaluate, evaluate_quality
from distrank.models._priors import believed
from distrank.records import Array, Record, frozen, scalar
from distrank.stats import dense

SCORES = (*(f"score.{i}" for i in range(lbfgs.PAIRS - 1)), "base", "score")
GRADIENTS = (*(f"gradient.{i}" for i in range(lbfgs.PAIRS - 1)), "base_gradient", "gradient")
BLOCK = (*SCORES, *GRADIENTS, "inverse")
SHRINK = (0.5, 0.5, 0.2, 0.1, 0.1, 0.1, 0.01)  # of a step that does not climb, again and again
SUFFICIENT = 1e-4  # share of the promised increase that a step must bring
FARTHEST = 2.0  # no score moves by more in one step: one item far out must not hold up ten thousand queries
RESOLUTION = 1e-13  # relative rounding of the objective: below it, steps are judged by their slope

Control: TypeAlias = Record  # how to move: "accepted", "coefficients", "shrink"
Profile: TypeAlias = Callable[[Run, Record, Control, float], Record]  # (run, theta, control, goal) -> moved theta

# back to the base
BACK: Control = {"accepted": scalar(False), "shrink": scalar(0.0), "coefficients": np.zeros(2 * lbfgs.PAIRS + 1)}


def fresh_block(items: int) -> Record:
    """All scores 0."""
    return frozen(dict.fromkeys(BLOCK, np.zeros(items)))


def first_block(shard: Record) -> Record:
    """The scores of an earlier run where the shard has them, and 0 for all other items."""
    return started_block(int(shard["unit.nodes"][-1]), shard.get("node.start"))


def started_block(items: int, start: Array | None) -> Record:
    """A block at the given scores; what they do not cover, or do not know, is at 0."""
    block = fresh_block(items)
    if start is None:
        return block
    score = np.zeros(items)
    score[: len(start)] = np.where(np.isnan(start), 0.0, start)
    return frozen({**block, "base": score, "score": score})


def path_of(block: Record) -> lbfgs.Path:
    """The last points, as the kernels take them."""
    return tuple(block[name] for name in (*SCORES, *GRADIENTS))


def moved_block(block: Record, control: Control, units: Array, law: int) -> Record:
    """The block at its next point: a new step from the accepted one, or a shorter step from the same base.

    `units` are the offsets of queries into the block: the scores of each are centred.
    """
    if bool(control["accepted"]):
        score = lbfgs.moved(path_of(block), block["inverse"], control["coefficients"], FARTHEST)
        older = {name: block[newer] for names in (SCORES, GRADIENTS) for name, newer in pairwise(names)}
        block = {**block, **older}
    else:
        score = block["base"] + control["shrink"] * (block["score"] - block["base"])
    virtual.centre(score, units, law)
    return frozen({**block, "score": score})


def evaluated_block(
    block: Record, strength: float, law: int, objective: float, gradient: Array, curvature: Array | None
) -> tuple[Record, Record]:
    """The block with what the passes found at its point, and its share of the sums; virtual games are added here."""
    score, gradient, inverse = block["score"], gradient.copy(), block["inverse"]
    objective = objective + virtual.virtual_games(score, strength, law, gradient)
    if curvature is not None:
        curvature = curvature.copy()
        virtual.virtual_information(score, strength, law, curvature)
        # an item that only won ends where its wins pull as hard as lambda, and there they also curve about as much
        inverse = 1.0 / np.maximum(curvature, 0.5 * strength)
    block = frozen({**block, "gradient": gradient, "inverse": inverse})
    sums = {
        "objective": np.asarray(objective),
        "products": lbfgs.inner_products(path_of(block), block["inverse"]),
        "squares": np.asarray(lbfgs.dot(block["gradient"], block["gradient"])),
    }
    return block, sums


# Steps over whole queries. -------------------------------------------------------------------------------------------


def advance_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """Move, then evaluate."""
    block = moved_block(_block(shard, local), theta, shard["unit.nodes"], int(theta["law"]))
    return evaluate_units(shard, block, theta, key)


def evaluate_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """Evaluate where the block is."""
    strength, law = float(theta["strength"]), int(theta["law"])
    refresh, log_nu = bool(theta["refresh"]), theta.get("log_nu")
    found = evaluate(shard, local["score"], theta.get("quality"), law, curvature=refresh, log_nu=log_nu)
    block, sums = evaluated_block(local, strength, law, found.objective, found.gradient, found.curvature)
    return block, {**sums, **found.annotators, **found.ties}


def forget_scores(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """Back to the beginning."""
    return {}, {}


def turn_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """All scores reversed."""
    return {**local, "score": -local["score"]}, {}


def move_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """Move, then look at the annotators' quality alone."""
    block = moved_block(_block(shard, local), theta, shard["unit.nodes"], int(theta["law"]))
    return block, judge_units(shard, block, theta, key)[1]


def judge_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """Look at the annotators' quality where the block is."""
    return None, evaluate_quality(shard, local["score"], theta["quality"], int(theta["law"]))


def _block(shard: Record, local: Record) -> Record:
    return local if "score" in local else first_block(shard)


# Steps over the parts of split queries: their block is in theta. ---------------------------------------------------


def evaluate_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """What a part adds to the objective and to the derivatives of its query."""
    here = split_slice(shard, theta["split.offsets"])
    quality, law, refresh, log_nu = theta.get("quality"), int(theta["law"]), bool(theta["refresh"]), theta.get("log_nu")
    found = evaluate(shard, theta["split.score"][here], quality, law, curvature=refresh, log_nu=log_nu)
    sums: Record = {"objective": np.asarray(found.objective), "gradient": np.zeros(len(theta["split.score"]))}
    sums["gradient"][here] = found.gradient
    if found.curvature is not None:
        sums["curvature"] = np.zeros(len(theta["split.score"]))
        sums["curvature"][here] = found.curvature
    return None, {**sums, **found.annotators, **found.ties}


def judge_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """What a part says about the annotators' quality."""
    here = split_slice(shard, theta["split.offsets"])
    return None, evaluate_quality(shard, theta["split.score"][here], theta["quality"], int(theta["law"]))


def collect_starts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """Where the items of split queries start; their first part knows."""
    start = np.zeros(int(theta["split.offsets"][-1]))
    if bool(shard["part.first"]):
        start[split_slice(shard, theta["split.offsets"])] = shard["node.start"]
    return None, {"split.start": start}


# Between rounds. -----------------------------------------------------------------------------------------------------


def first_evaluation(run: Run, theta: Record, strength: float, law: int, *, ties: bool = False) -> Record:
    """Theta at its start, ready for `ascend`; `theta` holds `split.offsets`, and `quality` unless it is 1.

    Scores start at 0, or where an earlier run left them (`node.start` of the shards, `split.start` in theta).

    `law` is one of `kernels.laws`; `quality` is the annotators' parameter in it, and `prior` a belief about it. `ties`
    says whether ties are an outcome of their own.
    """
    items = int(theta["split.offsets"][-1]) + int(ties)
    block = {f"split.{name}": array for name, array in started_block(items, theta.get("split.start")).items()}
    theta = {**theta, **block, "pairs": scalar(0), "steps": scalar(0), "strength": scalar(strength)}
    theta["law"] = scalar(law)
    return evaluation(run, theta, BACK)


def evaluation(run: Run, theta: Record, control: Control | None) -> Record:
    """A round that evaluates where the blocks are, after moving them where a control is given."""
    if control is not None:
        theta = _split_moved(theta, control)
    refresh = scalar(_refreshes(theta))
    shown = {name: theta[name] for name in ("strength", "law", "quality") if name in theta} | {"refresh": refresh}
    shown |= tie_parameter(theta)
    units = run(evaluate_units, shown) if control is None else run(advance_units, shown | control)
    parts = run(evaluate_parts, shown | _split_shown(theta), on=PARTS)
    theta, sums = _split_evaluated(theta, units, parts)
    for name in ("objective", "products", "squares"):
        theta[name] = sums[name] + units[name] if units else sums[name]
    if "quality" in theta:
        theta |= annotator_sums(units, parts, theta)
        if "prior" in theta:
            theta["objective"] = theta["objective"] + believed(theta["prior"], theta["quality"]).total
    return theta


def judgement(run: Run, theta: Record, control: Control | None) -> Record:
    """A round that looks at the annotators' quality alone, after moving the blocks where a control is given."""
    if control is not None:
        theta = _split_moved(theta, control)
    shown = {name: theta[name] for name in ("law", "quality")}
    units = run(judge_units, shown) if control is None else run(move_units, shown | control)
    parts = run(judge_parts, shown | _split_shown(theta), on=PARTS)
    return {**theta, **annotator_sums(units, parts, theta)}


def ascend(run: Run, theta: Record, profile: Profile | None = None) -> Record:
    """One iteration: a step of L-BFGS that climbs, or none where no step does.

    `profile` moves the blocks and fits what else there is to fit at the new point, before it is evaluated.
    """
    coefficients, slope = lbfgs.direction(theta["products"], int(theta["pairs"]))
    before = float(theta["objective"])
    control = {"accepted": scalar(True), "coefficients": coefficients, "shrink": scalar(1.0)}
    theta = {**theta, "pairs": scalar(min(int(theta["pairs"]) + 1, lbfgs.PAIRS)), "steps": theta["steps"] + 1}
    start = theta
    for shrink in SHRINK:
        promised = slope  # how much a short step would rise, to first order
        if profile is None:
            theta = evaluation(run, theta, control)
        else:
            theta = evaluation(run, profile(run, {**theta, **_quality_of(start)}, control, promised), None)
        if _climbs(theta, before, promised):
            return {**theta, "objective": np.maximum(theta["objective"], before)}
        slope *= shrink
        control = {**control, "accepted": scalar(False), "shrink": scalar(shrink)}
    theta = evaluation(run, {**theta, **_quality_of(start)}, BACK)
    return {**theta, "pairs": scalar(0)}


def decrement(theta: Record) -> float:
    """How far the objective is below its maximum over the scores, as L-BFGS knows it: half of g . H g."""
    return 0.5 * lbfgs.direction(theta["products"], int(theta["pairs"]))[1]


def annotator_sums(units: Record, parts: Record, theta: Record) -> Record:
    """Derivatives in the quality of every annotator, from both sets of shards and from what is believed of it."""
    count, sums = len(theta["quality"]), {}
    for name in ("first", "second"):
        sums[name] = dense(units, f"annotator/{name}", count) + dense(parts, f"annotator/{name}", count)
    if "prior" in theta:
        belief = believed(theta["prior"], theta["quality"])
        sums = {"first": sums["first"] + belief.first, "second": sums["second"] + belief.second}
    return sums


def _climbs(theta: Record, before: float, promised: float) -> bool:
    """Whether a step rose enough; where the rise drowns in rounding, whether it flattened the slope."""
    risen = float(theta["objective"]) - before
    if risen >= SUFFICIENT * promised:
        return True
    after = float(theta["products"][lbfgs.PAIRS - 1, lbfgs.PAIRS])  # the step . the new gradient
    return risen >= -RESOLUTION * abs(before) and abs(after) <= 0.9 * promised <= 10.0 * RESOLUTION * abs(before)


def _quality_of(theta: Record) -> Record:
    return {name: theta[name] for name in ("quality", "first", "second") if name in theta}


def _refreshes(theta: Record) -> bool:
    """When to measure the curvature again: at steps 0, 1, 4, 16, ..."""
    steps = int(theta["steps"])
    return steps == 0 or (steps & (steps - 1) == 0 and steps.bit_length() % 2 == 1)


def _split_shown(theta: Record) -> Record:
    return {name: theta[name] for name in ("split.offsets", "split.score")}


def _split_moved(theta: Record, control: Control) -> Record:
    block = moved_block(
        {name: theta[f"split.{name}"] for name in BLOCK}, control, theta["split.offsets"], int(theta["law"])
    )
    return {**theta, **{f"split.{name}": block[name] for name in BLOCK}}


def tie_parameter(theta: Record) -> Record:
    """`log_nu`, where ties are an outcome of their own."""
    items = int(theta["split.offsets"][-1])
    return {"log_nu": np.asarray(theta["split.score"][items])} if len(theta["split.score"]) > items else {}


def _split_evaluated(theta: Record, units: Record, parts: Record) -> tuple[Record, Record]:
    """Theta with what was found about its block, and the sums of that block."""
    block = {name: theta[f"split.{name}"] for name in BLOCK}
    nothing = np.zeros(len(block["score"]))
    objective, gradient = float(parts.get("objective", np.asarray(0.0))), parts.get("gradient", nothing).copy()
    strength, law = float(theta["strength"]), int(theta["law"])
    curvature = parts.get("curvature", nothing).copy() if _refreshes(theta) else None
    if len(nothing) > int(theta["split.offsets"][-1]):
        for sums in (units, parts):
            slope, bend = sums.get("ties", np.zeros(2))
            gradient[-1] += slope
            if curvature is not None:
                curvature[-1] += bend
    block, sums = evaluated_block(block, strength, law, objective, gradient, curvature)
    return {**theta, **{f"split.{name}": block[name] for name in BLOCK}}, sums
