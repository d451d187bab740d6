"""What a model is, and all that it sees of the engine.

Everything that distrank fits is *work per unit* (a query, or an item) + *small global parameters* + *sums*:

    shard   the judgments of some units, and static arrays derived from them     (never changes)
    local   what belongs to the shard's units: item scores, posteriors, chains   (lives where the shard lives)
    theta   the global parameters: annotator quality, w, alpha/beta             (small; handed out every round)
    stats   what a step adds up over all shards                                  (small; summed along a fixed tree)

A *step* is a pure module-level function `step(shard, local, theta, key) -> (local or None, stats)`; None means that
local is unchanged. `key` holds two 64-bit words for counter-based random numbers: the same step of the same round of
the same iteration gets the same key wherever it runs.

A *model* is written against `Run`, in plain blocking code, and knows nothing of threads, Ray, files or frames.

The arrays of a shard of judgments (offsets have one entry more than what they divide):

    unit.hash        stable 64-bit hash of the unit's id           unit.rows, unit.nodes    offsets into rows, nodes
    unit.judgments   judgments, annotators and connected           node.gold                relevance from the gold
    unit.annotators    components of the comparison graph,                                  table, NaN where unknown
    unit.components    of the whole unit (also on a part of it)    node.id.*, unit.id.*     the ids (tables.ids)
    row.annotator    global code of the annotator                  [gold.winner, .loser]    nodes of known order (gold
                                                                                            pairs), also on every part
                                                                   [node.start]             score in the run that we
                                                                                            start from, NaN if unknown
    row.winner, row.loser, [row.tie], [row.weight]    preferences; nodes are numbered within the shard
    row.item, row.rating or row.rank, [row.weight]    ratings, rankings
    row.grade        number of the rating among `grade.values`, where a model is `graded`; node.grade then holds the
                     grade that the gold table gives (a honeypot), -1 where there is none; grade.cut as in `Info`
    node.features    a matrix, one row per node, for models that learn rankers; the nodes of a unit are then all items
                     of the features table, judged or not (`tables.feature_nodes`)

Where features are given (`tables.features`), `node.features` is a matrix of float64 with a row for every node and a
column for every name in `info.features`. Only the first part of a split unit carries it, as it does the ids.

Where the unit is an item, every unit has one node, and the items of a query may lie in several shards. `finalize` gives
columns by item for `rankings` and for `queries`; ranks, and means of the latter over the judgments of a query, are made
when all shards are together (`tables.items`).

A model that reads judgments in time order (`split = "ordered"`) gets one shard with all units, rows in that order
(`tables.sequence`): the rows of units interleave, so there is `row.unit` (its number in the shard) and no `unit.rows`.
Such a run can go on with new judgments and without the old ones (`tables.continuation`). What has to be known of the
old ones for that is in `node.component` (the first node of the connected component) and `pair.unit`, `pair.annotator`
(who judged in which unit). A shard that goes on also has `old.node`, `old.unit`, `old.annotator` (the numbers here of
those of the earlier run) and, as `saved.*`, the arrays that the earlier run saved.

Units too large for a shard are split into parts: shards of the set "parts" with `part.unit` (the number of the split
unit), `part.number` (of the part in it) and `part.first` (its first part, the one that carries the ids of all its
nodes). Nodes of a part are numbered within the whole unit, and the item parameters of a split unit live in theta.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np

from distrank.records import Array, Record

Form: TypeAlias = Literal["preferences", "ratings", "rankings"]
Step: TypeAlias = Callable[[Record, Record, Record, Array], tuple[Record | None, Record]]
Tables: TypeAlias = dict[str, Record]

UNITS = "units"
PARTS = "parts"
EVIDENCE = 5  # judgments that are shown against a suspicious annotator


@dataclass(frozen=True)
class Traits:
    """What laws a model obeys; the contract suite runs those that apply and lists the ones a model opted out of."""

    iterative: bool = True  # has an objective and a convergence test
    monotone: bool = True  # the objective never falls from one iteration to the next
    sampled: bool = False  # draws random numbers: equivariance holds in distribution only
    weighted: bool = True  # a row of weight 2 counts as two rows
    ordered: bool = False  # reads judgments in time order (split = "ordered"): exempt from row-order invariance
    opted_out: dict[str, str] = field(default_factory=dict)  # law -> why it does not apply


@dataclass(frozen=True)
class Start:
    """What an earlier run found, where a fit begins: joined by id, NaN where that run knew nothing.

    The scores of items are with the items, as `node.start` of the shards.
    """

    run: str
    annotators: Record  # the numbers in its table of annotators, by code
    facts: dict[str, Any] = field(default_factory=dict)  # what it says about its convergence


@dataclass(frozen=True)
class Info:
    """What is known about the data before the first step: counts only, never rows."""

    judgments: int
    queries: int
    items: int  # distinct (query, item) pairs
    annotators: int
    annotator_judgments: Array  # judgments of every annotator, by code
    shards: dict[str, int]  # number of shards in every set
    split_items: tuple[int, ...] = ()  # items of every split unit: the blocks of theta that hold their parameters
    gold: bool = False
    disconnected: int = 0  # queries whose comparison graph has more than one component
    start: Start | None = None
    grades: Array = field(default_factory=lambda: np.empty(0))  # values of the grades, ascending, for graded models
    cut: bool = False  # whether these grades were cut from many distinct ratings
    honeypots: int = 0  # items whose grade the gold table gives
    features: tuple[str, ...] = ()  # names of the columns of `node.features`
    annotator_info: Record = field(default_factory=dict)  # statements about annotators (`tables.annotator_info`)


@dataclass(frozen=True)
class Learned:
    """What a fitted model leaves for later use beyond the tables, in `model/` of its run (`store.learned`)."""

    parameters: Record  # global parameters: annotators' beliefs, w
    facts: dict[str, Any] = field(default_factory=dict)  # small and worth reading: counts, names of features
    texts: dict[str, str] = field(default_factory=dict)  # file name -> content, such as trees in LightGBM's own format


class Run(Protocol):
    """One round over all shards of a set: the step is called on every shard and the statistics are summed."""

    def __call__(self, step: Step, theta: Record, *, on: str = UNITS, keep: bool = True) -> Record:
        """Run a step; `keep=False` evaluates without changing local. Sets without shards give an empty record."""
        ...


class Model(ABC):
    """One definition of a model, wherever it runs.

    What outlives an iteration is in theta or local, never on the object. `begin` and `iterate` return theta with at
    least the 0-d entries `objective` (maximised; NaN if there is none) and `converged`; the names in `diagnostics`
    are recorded per iteration in run.json.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str] = ""
    estimates: ClassVar[str] = ""
    form: ClassVar[Form] = "preferences"  # what its shards hold; other forms are turned into it where meaningful
    native: ClassVar[tuple[Form, ...]] = ()  # further forms that its shards may hold, as they were given
    accepts: ClassVar[tuple[Form, ...]] = ("preferences", "ratings", "rankings")
    unit: ClassVar[Literal["query", "item"]] = "query"
    split: ClassVar[Literal["rows", "annotator", "never", "ordered"]] = "rows"  # how units too large are cut
    graded: ClassVar[bool] = False  # whether it takes ratings as one of a few grades
    features: ClassVar[bool] = False  # whether it learns a ranker from features (`distrank learn`)
    traits: ClassVar[Traits] = Traits()
    Settings: ClassVar[type[Any]]
    diagnostics: ClassVar[tuple[str, ...]] = ("objective",)
    start_words: ClassVar[tuple[str, ...]] = ()  # values of `start` besides a RUN; () if it cannot start from a RUN
    gives_evidence: ClassVar[bool] = False  # whether `evidence` knows which judgments weigh against an annotator

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @property
    def max_iterations(self) -> int:
        """Where the loop ends without convergence."""
        return int(getattr(self.settings, "max_iterations", 1))

    @classmethod
    def form_for(cls, given: Form) -> Form:
        """What its shards hold where judgments of a form are given."""
        return given if given in cls.native else cls.form

    def prepare(self, shard: Record) -> Record:
        """Static arrays derived from the shard, made once at loading: neither state nor checkpoint."""
        return shard

    @abstractmethod
    def begin(self, run: Run, info: Info) -> Record:
        """Initial theta; initial local is made by running a step that returns it."""

    def iterate(self, run: Run, theta: Record) -> Record:  # noqa: ARG002 (models that are done at once)
        """One outer iteration, with as many rounds as it needs."""
        return {**theta, "converged": np.asarray(True)}

    def conclude(self, run: Run, theta: Record) -> Record:  # noqa: ARG002 (models that need no last round)
        """Rounds after the loop: what the outputs need beyond the parameters (agreement, intervals)."""
        return theta

    @abstractmethod
    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:
        """`rankings` (columns by node, `score` among them) and `queries` (columns by unit) of one shard.

        A split unit is finalised on its first part, with its parameters in theta.
        """

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002 (models without annotators)
        """Columns by annotator code: `quality` and the model's own parameters; empty if the model has none."""
        return {}

    def learned(self, theta: Record, info: Info) -> Learned | None:  # noqa: ARG002 (models of which nothing is saved)
        """The global part of what is saved with the run; None if nothing is."""
        return None

    def learned_units(self, shard: Record, local: Record, theta: Record) -> Record:  # noqa: ARG002 (as above)
        """What is saved of one shard's units, by the worker that holds them and beside their ids."""
        return {}

    def evidence(self, shard: Record, local: Record, theta: Record, suspects: Array) -> Record:  # noqa: ARG002
        """The judgments of a shard that weigh most against some annotators, given by sorted codes.

        Columns `annotator` (code), `winner`, `loser` (nodes of the shard) and `weight`: at most EVIDENCE per annotator,
        heaviest first, none that speaks for them.
        """
        return {}

    def warnings(self, theta: Record, info: Info) -> list[str]:  # noqa: ARG002 (models without warnings)
        """What a user should know before trusting the result."""
        return []

    def diagnosis(self, theta: Record) -> dict[str, Any]:  # noqa: ARG002 (models without more to say)
        """Further facts about convergence for run.json."""
        return {}
