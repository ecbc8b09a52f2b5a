"""Types of command line arguments that the benchmarks share."""

import argparse
from collections.abc import Sequence


def names(text: str) -> list[str]:
    """A list from "a,b,c"."""
    return [name for name in text.split(",") if name]


def some_of(known: Sequence[str], text: str) -> list[str]:
    """A list from "a,b,c", of `known` names."""
    found = names(text)
    unknown = [name for name in found if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown {unknown[0]!r}; known: {', '.join(known)}")
    return found


def positive(text: str) -> int:
    """An integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value


def add_rounds(parser: argparse.ArgumentParser, rounds: int, budget: float, of: str) -> None:
    """Adds --rounds and --budget, the seconds of each `of`, with these defaults."""
    parser.add_argument(
        "--rounds", type=positive, default=rounds, help=f"at most (default: {rounds})"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=budget,
        help=f"seconds of rounds {of} (default: {budget:g})",
    )
