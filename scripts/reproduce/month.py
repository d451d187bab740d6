"""A month of nights: a partition of preferences arrives every day, `nightly` runs every night.

    python scripts/reproduce/month.py [--days 30] [--rows 200000] [--out docs/results/month.md]

The crowd: 200 queries of 50 items, scores from a normal distribution, 400 annotators (30 % with quality 0.95, 50 % 0.8,
15 % spammers, 5 % liars with 0.1); every judgment is a random pair of a random query by a random annotator. On day 12
the file arrives cut in half and the night fails; on day 13 it is whole, and the night takes both days.

Every night is also run cold (from ones) in another folder, to compare iterations and seconds of the fit; the last night
is compared with the cold run on all data, score by score.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distrank.engine.local import LocalEngine
from distrank.errors import DistrankError
from distrank.nightly.config import parse_config
from distrank.nightly.night import Night, nightly
from distrank.runs import Published, Request, aggregate

QUERIES, ITEMS, ANNOTATORS = 200, 50, 400
CORRUPT, REPAIRED = 12, 13
KINDS = {0.95: 0.3, 0.8: 0.5, 0.5: 0.15, 0.1: 0.05}


class Crowd:
    """The truth, and days of judgments."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.score = self.random.normal(size=(QUERIES, ITEMS))
        self.quality = self.random.choice(list(KINDS), p=list(KINDS.values()), size=ANNOTATORS)

    def day(self, rows: int) -> pa.Table:
        random = self.random
        query, annotator = random.integers(0, QUERIES, rows), random.integers(0, ANNOTATORS, rows)
        one = random.integers(0, ITEMS, rows)
        other = (one + random.integers(1, ITEMS, rows)) % ITEMS
        wins = random.random(rows) < 1.0 / (1.0 + np.exp(self.score[query, other] - self.score[query, one]))
        wins ^= random.random(rows) > self.quality[annotator]
        columns = {"query": query, "annotator": annotator}
        return pa.table({**columns, "winner": np.where(wins, one, other), "loser": np.where(wins, other, one)})


def scores(run: Published) -> np.ndarray[Any, Any]:
    table = pq.read_table(run.run.path("rankings.parquet"))
    return table.sort_by([("query", "ascending"), ("item", "ascending")])["score"].to_numpy()


def figures(run: Published) -> dict[str, float]:
    seconds = run.facts["execution"]["seconds"]
    return {"iterations": run.facts["convergence"]["iterations"], "rounds": run.facts["execution"]["rounds"], **seconds}


def one_night(folder: Path, config: Any, engine: LocalEngine) -> tuple[Night | None, Published | None, float, str]:
    """A night, and the cold run beside it; None and the reason where it failed."""
    clock = time.perf_counter()
    try:
        night = nightly(config, lambda _: None)
    except DistrankError as error:
        return None, None, time.perf_counter() - clock, str(error)
    seconds = time.perf_counter() - clock
    cold = aggregate(Request(str(folder / "judgments"), folder / "cold"), engine, lambda _: None)
    return night, cold, seconds, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs/results/month.md"))
    options = parser.parse_args()
    crowd, lines, ratios = Crowd(options.seed), [], []
    with tempfile.TemporaryDirectory() as name, LocalEngine() as engine:
        folder = Path(name)
        (folder / "judgments").mkdir()
        text = "{name: month, input: judgments, out: out, engine: {name: local}, keep: {runs: 3}}"
        config = parse_config(text, "month.yaml", folder)
        night, cold = None, None
        for day in range(1, options.days + 1):
            path = folder / "judgments" / f"day={day:02d}.parquet"
            pq.write_table(crowd.day(options.rows), path)
            if day == CORRUPT:
                whole = path.read_bytes()
                path.write_bytes(whole[: len(whole) // 2])
            if day == REPAIRED:
                path.with_name(f"day={CORRUPT:02d}.parquet").write_bytes(whole)
            tonight, beside, seconds, reason = one_night(folder, config, engine)
            if tonight is None or beside is None or tonight.published is None:
                print(f"night {day}: failed: {reason}", flush=True)
                lines.append(f"| {day} | failed: {reason.replace(str(folder), '')[:80]} | | | | | | |")
                continue
            night, cold = tonight, beside
            warm, other = figures(night.published), figures(beside)
            ratios += [(day, warm["iterations"] / other["iterations"])]
            moved = night.changes.ranks["largest"] if night.changes is not None else ""
            lines.append(
                f"| {day} | {night.published.facts['input']['judgments']:,} | {seconds:.1f} | {warm['iterations']} | "
                f"{other['iterations']} | {warm['fit']:.2f} | {other['fit']:.2f} | {moved} |"
            )
            print(lines[-1], flush=True)
        again = nightly(config, lambda _: None)
        if night is None or night.published is None or cold is None:
            raise SystemExit("no night was published")
        difference = float(np.abs(scores(night.published) - scores(cold)).max())
    settled = [ratio for day, ratio in ratios if day >= 10]
    median = float(np.median(settled)) if settled else float("nan")
    write_page(options, lines, median, difference, again.outcome)
    print(f"median ratio of iterations {median:.2f}, largest score difference {difference:.1e}, again: {again.outcome}")
    return 0 if difference <= 1e-3 and (median <= 0.5 or not settled) and again.outcome == "unchanged" else 1


def write_page(options: argparse.Namespace, lines: list[str], median: float, difference: float, again: str) -> None:
    command = f"python scripts/reproduce/month.py --days {options.days} --rows {options.rows} --seed {options.seed}"
    page = f"""# A month of nights

Made with `{command}`. {options.days} partitions of {options.rows:,} preferences, one a day, and `distrank nightly`
(crowd-bt, local engine) every night; {QUERIES} queries of {ITEMS} items, {ANNOTATORS} annotators. The file of day
{CORRUPT} arrives cut in half: that night fails and leaves the latest run; on day {REPAIRED} it is whole again.

- iterations of the warm start as a share of those of a cold one, median over nights 10 to {options.days}:
  **{median:.2f}** (target: at most 0.5)
- largest difference between a score of the last night and of one cold run on all data:
  **{difference:.1e}** (target: 1e-3)
- a second night on the same day: {again}

`seconds` is the whole night, reading and comparing included; `fit` the seconds of the fit alone. The machine was shared
with other work, so seconds are rough; iterations are exact.

| night | judgments | seconds | iterations | cold | fit | cold fit | largest rank change |
|---|---|---|---|---|---|---|---|
"""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
