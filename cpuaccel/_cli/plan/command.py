"""The command `python -m cpuaccel plan`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console


def add_plan(commands: Any) -> None:
    """Add the command to `python -m cpuaccel`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "plan",
        help="the plan in a file of cpuaccel.save or cpuaccel.aot_compile, step by step",
        description="Print the call that a file was made for and the steps of its plans: kernel,"
        " sizes, time, rate, and share of this machine's peak. Runs the model on random inputs for"
        " about a second.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="ends in .pt2")
    parser.add_argument(
        "--no-run", action="store_true", help="print only what the file contains, do not run it"
    )
    parser.add_argument(
        "--svg", type=Path, metavar="OUT", help="also draw the graph into a file that ends in .svg"
    )


def run_plan(console: Console, options: argparse.Namespace) -> int:
    """Print the plan, and draw it if asked to; return the exit code.

    Raises:
        OSError: FILE cannot be read, or OUT cannot be written.
        ValueError: cpuaccel.load rejects FILE, or OUT does not end in .svg.
        RuntimeError: the compiled module cannot be used; the model does not run on random inputs;
            or pygraphviz, which draws, is not installed.
    """
    if options.svg is not None and options.svg.suffix != ".svg":
        raise ValueError(f"--svg: expected a file that ends in .svg, got {options.svg}")
    # Imported here because it needs the compiled module, unlike the other commands.
    from cpuaccel._cli.plan.show import show

    show(console, options.file, run=not options.no_run, svg=options.svg)
    return 0
