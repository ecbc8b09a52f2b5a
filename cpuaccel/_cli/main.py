"""The command line `python -m cpuaccel`: info, explain, plan and tune."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from rich.console import Console

from cpuaccel._cli.explain import LoadError, add_explain, run_explain
from cpuaccel._cli.info import print_info
from cpuaccel._cli.plan.command import add_plan, run_plan
from cpuaccel._cli.tune.command import add_tune, run_tune

_PIPE_WIDTH = 10_000
"""Columns for output that is not a terminal: nothing wraps, so that grep finds whole lines."""

_FILE_ERRORS = (OSError, RuntimeError, ValueError)
_COMMANDS = {
    "explain": (run_explain, (LoadError,)),
    "plan": (run_plan, _FILE_ERRORS),
    "tune": (run_tune, _FILE_ERRORS),
}
"""The function of each command, and the exceptions that end it with a message."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, or 2 if a file or an argument is bad."""
    options = _parser().parse_args(arguments)
    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console = Console(width=_PIPE_WIDTH)
    if options.command == "info":
        print_info(console)
        return 0
    run, errors = _COMMANDS[options.command]
    try:
        return run(console, options)
    except errors as error:
        _fail(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cpuaccel",
        description="Show what cpuaccel does on this machine, or measure matrix products for it.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "info",
        help="versions, CPU features, on or off, every setting",
        description="Print versions, CPU features, whether cpuaccel is on, and every setting.",
    )
    add_explain(commands)
    add_plan(commands)
    add_tune(commands)
    return parser


def _fail(message: str) -> NoReturn:
    print(f"python -m cpuaccel: error: {message}", file=sys.stderr)
    raise SystemExit(2)
