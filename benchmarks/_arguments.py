"""argparse types and options that the benchmarks share."""

import argparse
from collections.abc import Sequence


def names(text: str) -> list[str]:
    """Splits "a,b,c" into a list of names."""
    return [name for name in text.split(",") if name]


def add_some(parser: argparse.ArgumentParser, option: str, known: Sequence[str], kind: str) -> None:
    """Adds `option`, a comma-separated list of `known` names of a `kind`; the default is all."""

    def some(text: str) -> list[str]:
        found = names(text)
        for name in found:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"unknown {kind} {name!r}; known: {', '.join(known)}"
                )
        return found

    parser.add_argument(
        option,
        type=some,
        default=list(known),
        metavar="A,B",
        help=f"of {','.join(known)} (default: all)",
    )


def positive(text: str) -> int:
    """An integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value


def add_rounds(parser: argparse.ArgumentParser, rounds: int, budget: float, of: str) -> None:
    """Adds --rounds and --budget (seconds for each `of`) with these defaults."""
    parser.add_argument(
        "--rounds", type=positive, default=rounds, help=f"at most (default: {rounds})"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=budget,
        help=f"seconds of rounds {of} (default: {budget:g})",
    )
