"""`distrank simulate-active`: the loop of active learning against a simulated crowd."""

from __future__ import annotations

import argparse
from typing import Any

from distrank.cli.options import add_output_options
from distrank.cli.terminal import Reporter, print_json, print_table, say
from distrank.errors import UsageError

_HELP = """\
Play active learning against a crowd of known quality: choose, ask, learn, choose again. Prints the accuracy (share of
pairs in the true order) after so many answers, by the online beliefs and by a batch crowd-bt fit on the same answers
that starts from the online quality.

  distrank simulate-active
  distrank simulate-active --policies random,0,1,5 --after 500,1000,2000,3000 --seeds 10
  distrank simulate-active --policies random,1 --batch 50 --per-annotator 2 --quality beta:5,1 --refit-every 200

A policy is `random` or a number, the weight gamma of what is learned about annotators.
"""


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "simulate-active",
        help="try policies of asking on a simulated crowd",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--policies", default="random,2", help="random, or values of gamma (default random,2)")
    parser.add_argument("--after", default="500,1000,2000", help="answers after which accuracy is measured")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="crowds to play with (default 3)")
    parser.add_argument("--items", metavar="N", help="items with a true order (default 100)")
    parser.add_argument("--annotators", metavar="N", help="annotators (default 100)")
    parser.add_argument(
        "--quality", metavar="LAW", help="true quality: beta:A,B, fixed:Q, mixture:... (default beta:2,1)"
    )
    parser.add_argument("--quality-prior", metavar="A,B", help="what is believed of quality at first (default 10,1)")
    parser.add_argument(
        "--gold-pairs", metavar="N", help="gold pairs that everyone answers first, in place of the prior"
    )
    parser.add_argument("--batch", metavar="N", help="questions asked at a time (default 1)")
    parser.add_argument("--per-annotator", metavar="N", help="most questions of a batch to one annotator")
    parser.add_argument("--epsilon", metavar="SHARE", help="share of questions drawn at random (default 0)")
    parser.add_argument("--gamma-decay", action="store_const", const=True, help="halve gamma after every quarter")
    parser.add_argument("--refit-every", metavar="N", help="answers between batch fits that correct the beliefs")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default 0)")
    add_output_options(parser)
    parser.set_defaults(command=run)


_NAMES = ("items", "annotators", "quality", "quality_prior", "gold_pairs", "batch", "per_annotator", "epsilon",
          "gamma_decay", "refit_every")  # fmt: skip


def run(options: argparse.Namespace) -> int:
    import numpy as np

    from distrank.active.play import PlaySettings, play
    from distrank.settings import parse_settings

    after = _numbers(options.after)
    if options.seeds < 1:
        raise UsageError(f"--seeds {options.seeds}: at least one")
    given = {name: value for name in _NAMES if (value := getattr(options, name)) is not None}
    given["answers"] = max(after)
    policies = [policy.strip() for policy in options.policies.split(",")]
    settings = {policy: parse_settings(PlaySettings, {**given, **_policy(policy)}) for policy in policies}
    result = []
    with Reporter(options.quiet or options.json) as report:
        for policy in policies:
            games = []
            for seed in range(options.seed, options.seed + options.seeds):
                values = {**given, **_policy(policy), "seed": seed}
                games.append(play(parse_settings(PlaySettings, values), after))
                report({"stage": "play", "policy": policy, "games": len(games), "of": options.seeds})
            online, refitted = (np.array([getattr(game, name) for game in games]) for name in ("accuracy", "refitted"))
            for place, count in enumerate(sorted(set(after))):
                result.append(
                    {
                        "policy": policy,
                        "answers": count,
                        "accuracy": float(online[:, place].mean()),
                        "worst": float(online[:, place].min()),
                        "batch_fit": float(refitted[:, place].mean()),
                        "batch_fit_worst": float(refitted[:, place].min()),
                    }
                )
    if options.json:
        print_json({"seeds": options.seeds, "results": result})
        return 0
    shown = settings[policies[0]]
    columns = ("policy", "answers", "accuracy", "worst", "batch fit", "worst of it")
    title = f"{shown.items} items, {shown.annotators} annotators of quality {shown.quality}, {options.seeds} crowds"
    print_table(title, columns, [list(row.values()) for row in result])
    say("accuracy: by the online beliefs; batch fit: crowd-bt on the same answers, started from the online quality")
    return 0


def _policy(text: str) -> dict[str, Any]:
    if text == "random":
        return {"policy": "random"}
    try:
        return {"policy": "active", "gamma": float(text)}
    except ValueError:
        raise UsageError(f"--policies {text!r}: expected random or a number (gamma)") from None


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UsageError(f"--after {text!r}: expected numbers of answers, for example 500,1000")
    return numbers
