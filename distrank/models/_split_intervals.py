"""The equations of `_sampled` for split queries: a product is a round over their parts.

An annotator of a split query is one unknown for each of its queries, a *member*, numbered query * annotators + code:
members are met part by part, and their sums are sparse.
"""

from __future__ import annotations

import numpy as np

from distrank.contract import PARTS, Run
from distrank.kernels import information as kernels
from distrank.kernels.leave_out import NODES, question_runs
from distrank.kernels.random import round_key
from distrank.kernels.small_units import virtual_diagonal
from distrank.models._pairwise import by_annotator, fitted_rows, split_slice
from distrank.models._sampled import FEWEST_DRAWS, Judged, Span, variances
from distrank.records import Array, Record, scalar


def split_shown(theta: Record) -> Record:
    """The split queries' items, without what comes after them (the parameter of ties)."""
    offsets = theta["split.offsets"]
    return {"split.offsets": offsets, "split.score": theta["split.score"][: int(offsets[-1])]}


def split_variances(run: Run, shown: Record, annotators: int) -> Array:
    """The variance of every item of the split queries."""
    offsets, score = shown["split.offsets"], shown["split.score"]
    shown = shown | {"count": scalar(annotators)}
    begun = run(begin_parts, shown, on=PARTS)
    if not begun:
        return np.zeros(len(score))
    extra = virtual_diagonal(score, float(shown["strength"]), int(shown["law"]))
    diagonal, right = begun["diagonal"], begun["noise"].copy()
    members = begun.get("member/index", np.zeros(0, np.int64))
    if len(members):
        elsewhere = np.maximum(shown["known"][members % annotators] - begun["member/own"], 0.0)
        diagonal = np.concatenate([diagonal, begun["member/own"]])
        right = np.concatenate([right, begun["member/noise"]])
        extra = np.concatenate([extra, elsewhere])
        shown = shown | {"members": members}
    kernels.extra_noise(extra, round_key(0, 0, 0, 0, "split_variances"), np.uint64(0), right)

    def product(vectors: Array) -> Array:
        found = run(multiply_parts, shown | {"vectors": vectors}, on=PARTS)
        parts = [found["product"], found["member/product"]] if len(members) else [found["product"]]
        return np.concatenate(parts) + extra[:, None] * vectors

    return variances(product, right, diagonal + extra, offsets)


def inform_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step over parts: the information in every annotator's parameter."""
    here, codes = split_slice(shard, theta["split.offsets"]), shard["annotator.code"]
    score, parameter, known = theta["split.score"][here], theta["parameter"][codes], np.zeros(len(codes))
    kernels.annotator_information(*fitted_rows(shard), score, parameter, int(theta["law"]), known)
    return None, by_annotator(shard, len(theta["parameter"]), known=known)


def question_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step over parts: what their judgments say of the annotators' quality, given `split.variance`."""
    here, codes = split_slice(shard, theta["split.offsets"]), shard["annotator.code"]
    score, parameter, variance = theta["split.score"][here], theta["parameter"][codes], theta["split.variance"][here]
    answers, window = np.zeros((len(codes), NODES)), theta["window"][codes]
    judged, span = (*fitted_rows(shard), score, parameter, int(theta["law"])), _span(shard)
    question_runs(*judged, *span, np.zeros((0, 0)), variance, window, answers)
    return None, by_annotator(shard, len(theta["parameter"]), answers=answers)


def begin_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step over parts: the diagonal, and the random right-hand sides."""
    here, judged = _judged(shard, theta)
    members = _members(shard, theta)
    items = here.stop - here.start
    diagonal, noise = np.zeros(items + len(members)), np.zeros((items + len(members), FEWEST_DRAWS))
    stream = shard["unit.hash"][0] + np.uint64(int(shard["part.number"]))
    kernels.noise(*judged, *_span(shard), key, stream, diagonal, noise)
    return None, {
        **_placed(theta, here, diagonal=diagonal[:items], noise=noise[:items]),
        **_of_members(theta, members, own=diagonal[items:], noise=noise[items:]),
    }


def multiply_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step over parts: the information times `vectors`."""
    here, judged = _judged(shard, theta)
    members, vectors = _members(shard, theta), theta["vectors"]
    items = here.stop - here.start
    mine = vectors[here]
    if len(members):
        places = len(theta["split.score"]) + np.searchsorted(theta["members"], members)
        mine = np.concatenate([mine, vectors[places]])
    result = np.zeros_like(mine)
    kernels.product(*judged, *_span(shard), mine, result)
    return None, {
        **_placed(theta, here, product=result[:items]),
        **_of_members(theta, members, product=result[items:]),
    }


def _span(shard: Record) -> Span:
    return Span(0, len(shard["pair.owner"]), 0)


def _judged(shard: Record, theta: Record) -> tuple[slice, Judged]:
    """The part's items in theta, and its preferences."""
    here = split_slice(shard, theta["split.offsets"])
    parameter = theta["parameter"][shard["annotator.code"]] if "parameter" in theta else None
    return here, Judged(*fitted_rows(shard), theta["split.score"][here], parameter, int(theta["law"]))


def _members(shard: Record, theta: Record) -> Array:
    """The members of a part's runs, in the order of annotators; none where annotators have no parameter."""
    if "parameter" not in theta:
        return np.zeros(0, np.int64)
    codes: Array = shard["annotator.code"][shard["pair.owner"]]
    return int(shard["part.unit"]) * int(theta["count"]) + codes


def _placed(theta: Record, here: slice, **columns: Array) -> Record:
    """Columns of a part's items among those of all split queries."""
    placed: Record = {}
    for name, column in columns.items():
        placed[name] = np.zeros((len(theta["split.score"]), *column.shape[1:]))
        placed[name][here] = column
    return placed


def _of_members(theta: Record, members: Array, **columns: Array) -> Record:
    """Columns of members as a sparse group, where annotators have a parameter."""
    if "parameter" not in theta:
        return {}
    return {"member/index": members, **{f"member/{name}": column for name, column in columns.items()}}
