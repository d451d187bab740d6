"""The schedules that we ship: they parse, they start what exists, tokens are on, nothing is exposed or reported."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

import distrank
from distrank.cli import build_parser

ROOT = Path(distrank.__file__).parent.parent
# The fields of RayJobSpec and of RayCronJobSpec, as KubeRay documents them (ray.io/v1).
RAY_JOB = {
    "entrypoint", "runtimeEnvYAML", "jobId", "submissionMode", "entrypointResources", "entrypointNumCpus",
    "entrypointNumGpus", "ttlSecondsAfterFinished", "shutdownAfterJobFinishes", "suspend", "rayClusterSpec",
    "clusterSelector", "submitterConfig", "managedBy", "deletionStrategy", "backoffLimit", "activeDeadlineSeconds",
    "submitterPodTemplate", "metadata",
}  # fmt: skip
RAY_CRON_JOB = {"schedule", "suspend", "jobTemplate", "timeZone"}
RAY_CLUSTER = {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs", "enableInTreeAutoscaling"}
WORKER_GROUP = {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}


def manifest(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "kuberay" / f"{name}.yaml").read_text()))


def job_spec(name: str) -> dict[str, Any]:
    spec = manifest(name)["spec"]
    return spec["jobTemplate"] if name == "raycronjob" else spec


def command_of(words: list[str]) -> None:
    """The command line of distrank must take these words."""
    build_parser().parse_args(words)


@pytest.mark.parametrize("name", ["rayjob", "raycronjob"])
def test_manifests_have_the_documented_fields(name: str) -> None:
    found = manifest(name)
    assert found["apiVersion"] == "ray.io/v1"
    assert found["kind"] == {"rayjob": "RayJob", "raycronjob": "RayCronJob"}[name]
    spec = job_spec(name)
    assert spec.keys() <= RAY_JOB
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["submissionMode"] in ("K8sJobMode", "HTTPMode", "SidecarMode")
    assert spec["activeDeadlineSeconds"] > 0  # a night that hangs ends before the next one
    cluster = spec["rayClusterSpec"]
    assert cluster.keys() <= RAY_CLUSTER
    assert cluster["authOptions"] == {"mode": "token"}
    assert all(group.keys() <= WORKER_GROUP for group in cluster["workerGroupSpecs"])
    for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]:
        (container,) = group["template"]["spec"]["containers"]
        variables = {entry["name"]: entry["value"] for entry in container["env"]}
        assert variables["RAY_USAGE_STATS_ENABLED"] == "0"
        assert variables["RAY_USAGE_STATS_REPORT_URL"] == "http://127.0.0.1:9"
        assert container["resources"]["limits"] == container["resources"]["requests"]
        assert container["volumeMounts"][0]["name"] == group["template"]["spec"]["volumes"][0]["name"]
    python, flag, module, *words = shlex.split(spec["entrypoint"])
    assert (python, flag, module) == ("python", "-m", "distrank.cli")
    command_of(words)


def test_the_cron_job_has_a_schedule() -> None:
    spec = manifest("raycronjob")["spec"]
    assert spec.keys() <= RAY_CRON_JOB
    assert len(spec["schedule"].split()) == 5
    assert job_spec("raycronjob") == job_spec("rayjob")


def test_the_ray_version_is_the_locked_one() -> None:
    locked = dict(line.split("==") for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line)
    assert job_spec("rayjob")["rayClusterSpec"]["rayVersion"] == locked["ray"]


def test_the_crontab_starts_what_exists() -> None:
    lines = [line for line in (ROOT / "scripts" / "nightly.cron").read_text().splitlines() if line]
    jobs = [line.lstrip("#") for line in lines if line.lstrip("#")[:4] == "15 2"]
    assert len(jobs) == 2
    for line in jobs:
        *when, user, program, command = line.split(maxsplit=7)
        assert len(when) == 5
        assert (user, program) == ("distrank", "distrank")
        command_of(shlex.split(command.partition(">")[0]))
        assert "%" not in command  # cron would take it for a line break
    settings = dict(line.split("=", 1) for line in lines if "=" in line and line[0] not in "#1")
    assert settings["RAY_AUTH_MODE"] == "token"
    assert settings["RAY_USAGE_STATS_ENABLED"] == "0"


def test_the_systemd_units_start_what_exists() -> None:
    units = {}
    for kind in ("service", "timer"):
        units[kind] = configparser.ConfigParser(strict=False, interpolation=None)
        units[kind].optionxform = str  # type: ignore[assignment]
        units[kind].read(ROOT / "scripts" / "systemd" / f"distrank-nightly.{kind}")
    service, timer = units["service"]["Service"], units["timer"]["Timer"]
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).name == "distrank"
    command_of(words)
    assert service["Type"] == "oneshot"
    assert "RAY_AUTH_MODE=token" in service["Environment"]
    assert timer["OnCalendar"]
    assert timer["Persistent"] == "true"
    assert units["timer"]["Install"]["WantedBy"] == "timers.target"


def test_the_upload_of_a_job_stays_small() -> None:
    """What `ray job submit --working-dir .` would send along."""
    ignored = set((ROOT / ".rayignore").read_text().split())
    assert {".git", ".venv", "docs", "tests", "out"} <= ignored
    sent = [
        path
        for folder in ROOT.iterdir()
        if folder.name not in ignored
        for path in ([folder] if folder.is_file() else folder.rglob("*"))
        if path.is_file() and not ignored & set(path.relative_to(ROOT).parts)
    ]
    assert sum(path.stat().st_size for path in sent) < 5_000_000
