"""`distrank submit`: a job on a Ray cluster, followed to its end."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from distrank.cli.options import add_output_options, parse_set
from distrank.cli.terminal import say
from distrank.errors import UsageError
from distrank.text import shown

_HELP = """\
Submit a job to the job server of a Ray cluster, follow its log, and end as it ended.

  distrank submit -- python jobs/aggregate.py /shared/judgments --out /shared/out
  distrank submit --night /shared/nightly.yaml              the night of this config, at most once
  distrank submit --address https://head:8265 --night ...   another machine: a token is needed

The exit code is the job's own (3: published, not converged); a job that was stopped, or whose end is not known, is
never taken for success. With --night the submission id is nightly-NAME-DATE-ATTEMPT: the cluster takes an id once, so
that two machines never run the same night, and a new attempt is made only after the last one failed or was stopped.
Paths are those of the cluster: input, config and output must lie where all nodes see them.

Ctrl-C leaves the job running, or stops it with --on-interrupt stop.
"""


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "submit",
        help="run a job on a Ray cluster and end as it ends",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--address", help="of the job server (default RAY_API_SERVER_ADDRESS or http://127.0.0.1:8265)")
    parser.add_argument("--night", metavar="CONFIG", help="submit `distrank nightly CONFIG`, once per night")
    parser.add_argument("--date", metavar="YYYY-MM-DD", help="of the night (default today, UTC)")
    parser.add_argument("--submission-id", metavar="ID", help="a name for the job; a cluster takes each once")
    parser.add_argument("--working-dir", type=Path, metavar="DIR", help="a folder to send along (default: none)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="environment of the job")
    parser.add_argument("--no-wait", action="store_true", help="do not follow the job")
    parser.add_argument(
        "--on-interrupt", choices=("leave", "stop"), default="leave", help="what Ctrl-C does to the job (default leave)"
    )
    parser.add_argument("--insecure", action="store_true", help="talk to another machine without a token")
    add_output_options(parser)
    parser.add_argument("job", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help="what the job runs")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    from distrank.engine.ray.submission import ADDRESS, Job, JobServer, night_id

    command = options.job[1:] if options.job[:1] == ["--"] else options.job
    if bool(command) == bool(options.night):
        raise UsageError("give either --night CONFIG or, after --, the command of the job")
    address = options.address or os.environ.get("RAY_API_SERVER_ADDRESS") or ADDRESS
    server = JobServer(address, insecure=options.insecure)
    submission_id = options.submission_id
    if options.night:
        command = ["python", "-m", "distrank.cli", "nightly", options.night]
        submission_id, reason = night_id(server, _night_name(options.night), _date(options.date))
        if submission_id is None:
            _say(options, f"nothing to do: {reason}")
            return 0
    environment = {name: str(value) for name, value in parse_set(options.env, None).items()}
    job = Job(command, address, submission_id, options.working_dir, environment, options.insecure)
    submission_id = server.submit(job)
    _say(options, f"submitted {submission_id} to {address}")
    if options.no_wait:
        return 0
    try:
        ended = server.follow(submission_id, _pass_on)
    except KeyboardInterrupt:
        if options.on_interrupt == "stop":
            server.stop(submission_id)
        left = "was stopped" if options.on_interrupt == "stop" else f"goes on: ray job logs --follow {submission_id}"
        sys.stderr.write(f"distrank: interrupted; the job {submission_id} {left}\n")
        return 130
    sys.stderr.write(f"distrank: {shown(f'{submission_id} {ended.status}, exit code {ended.exit_code}')}\n")
    if ended.exit_code:
        sys.stderr.write(f"distrank: {shown(ended.message, 2000)}\n")
    return ended.exit_code


def _night_name(config: str) -> str:
    """From the config, which this machine must see as well."""
    from distrank.nightly.config import read_config

    return read_config(Path(config)).name


def _date(text: str | None) -> str:
    if text is None:
        return datetime.now(UTC).date().isoformat()
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date().isoformat()
    except ValueError:
        raise UsageError(f"--date {text!r}: expected YYYY-MM-DD") from None


def _pass_on(text: str) -> None:
    """What the job printed: it may show ids, so control characters stay visible."""
    sys.stdout.write(shown(text.expandtabs()))
    sys.stdout.flush()


def _say(options: argparse.Namespace, text: str) -> None:
    if not options.quiet:
        say(text)
