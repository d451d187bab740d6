"""What happened so far: published runs with their figures and failed nights with their reasons, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from distrank.errors import StoreError
from distrank.nightly.failures import failures
from distrank.store.progress import running
from distrank.store.publish import OutputFolder, PublishedRun


def history(root: Path) -> list[dict[str, Any]]:
    """One entry per run or failure."""
    entries = [_run_entry(run) for run in existing(root).runs()]
    entries += [
        {
            "time": failure["finished"],
            "state": "failed",
            "stage": failure["stage"],
            "error": f"{failure['error']['kind']}: {failure['error']['text']}",
            "record": failure["record"],
        }
        for failure in failures(root)
    ]
    return sorted(entries, key=lambda entry: entry["time"], reverse=True)


def status(root: Path) -> dict[str, Any]:
    """What is under way in an output folder, its latest run, and the last failure if it is newer than that."""
    output = existing(root)
    latest = output.latest()
    entry = _run_entry(latest) if latest is not None else None
    failed = next((one for one in history(root) if one["state"] == "failed"), None)
    if failed is not None and entry is not None and failed["time"] < entry["time"]:
        failed = None
    return {"running": running(root), "latest": entry, "failed": failed}


def existing(root: Path) -> OutputFolder:
    """An output folder that is there already; looking at one makes none."""
    if not (root / "runs").is_dir():
        raise StoreError(f"{root} is not an output folder: it has no runs/")
    return OutputFolder(root)


def _run_entry(run: PublishedRun) -> dict[str, Any]:
    facts = run.facts()
    data, convergence, night = facts["input"], facts["convergence"], facts.get("night") or {}
    since = night.get("since") or {}
    partitions = {name: len(paths) for name, paths in night.get("partitions", {}).items() if name != "same"}
    start = facts["settings"].get("start")
    return {
        "time": run.manifest["published"],
        "state": "published" if convergence["converged"] else "not converged",
        "run": run.run_id,
        "method": facts["method"],
        "judgments": data["judgments"],
        "rejected": data["rejected"],
        "annotators": data["annotators"],
        "items": data["items"],
        "iterations": convergence["iterations"],
        "seconds": sum(value for name, value in facts["execution"]["seconds"].items() if name != "engine"),
        "previous": run.manifest["previous"],
        "start": facts.get("parent", start),
        "partitions": partitions or None,
        "largest_rank_change": since.get("ranks", {}).get("largest"),
        "new_suspects": since.get("suspects", {}).get("new"),
        "warnings": len(facts["warnings"]),
    }
