"""What every part shares: medians, crowds in memory, one fit."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

REPEATS = 5


def median_seconds(function: Callable[[], Any], repeats: int = REPEATS, warm: bool = True) -> tuple[float, float, Any]:
    """Median wall and CPU seconds of a call, and its last result."""
    result = function() if warm else None
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        result = function()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return statistics.median(walls), statistics.median(cpus), result


def crowd(rows: int, **changes: Any) -> Any:
    """One query, 1,000 items, 1,000 annotators of quality Beta(5, 1), equation 5: integer columns in memory."""
    from distrank.simulate import CrowdBTSimulation, crowd_bt_codes

    settings = {"items": 1000, "annotators": 1000, "quality": "beta:5,1", "law": "model", "seed": 1, **changes}
    return crowd_bt_codes(CrowdBTSimulation(judgments=rows, **settings))


def sharded_of(codes: Any) -> Any:
    """Integer columns as shards: dictionary, canonical order, layout."""
    import pyarrow as pa

    from distrank.tables.read import judgments_from_frame
    from distrank.tables.shards import build_shards

    columns = {name: pa.array(getattr(codes, name)) for name in ("query", "annotator", "winner", "loser")}
    return build_shards(judgments_from_frame(pa.table(columns)), form="preferences")


def fit_once(engine: Any, name: str, sharded: Any, source: Any = None, **settings: Any) -> Any:
    """A fit without intervals, which peers do not give, unless asked for."""
    from distrank.fit import fit
    from distrank.models import get_model, make_model

    plain = {"interval": "none"} if hasattr(get_model(name).Settings(), "interval") else {}
    model = make_model(name, {**plain, **settings})
    main = partial(fit, model=model, info=sharded.info)
    return engine.execute(main, source or sharded.source, model, lambda _: None)


def pa_text(prefix: str, codes: Any) -> Any:
    import pyarrow as pa

    return pa.array([f"{prefix}{code:06d}" for code in codes])
