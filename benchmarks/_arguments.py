"""Command-line options that the benchmarks share."""

import argparse
import inspect
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path


def make_parser(spec: ModuleSpec | None, doc: str | None) -> argparse.ArgumentParser:
    """The parser of a program, from its module's `__spec__` and `__doc__`.

    `--help` prints the command that runs the module and its whole docstring.
    """
    name = spec.name.removesuffix(".__main__") if spec else "benchmarks"
    return argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=inspect.cleandoc(doc or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def names(text: str) -> list[str]:
    """Splits "a,b,c" into a list of names."""
    return [name for name in text.split(",") if name]


def positive(text: str) -> int:
    """An integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value


def positives(text: str) -> list[int]:
    """Splits "1,2,4" into a list of integers of at least 1."""
    return [positive(each) for each in names(text)]


def check_known(found: Iterable[str], known: Iterable[str], kind: str) -> None:
    """Checks that every name in `found` is a `known` name of a `kind`, such as "model".

    Raises:
        ValueError: one is not; the message lists the known names.
    """
    known = list(known)
    for name in found:
        if name not in known:
            raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(known)}")


def require_known(found: Iterable[str], known: Iterable[str], kind: str) -> None:
    """As `check_known`, but exits with the message."""
    try:
        check_known(found, known, kind)
    except ValueError as error:
        raise SystemExit(str(error)) from None


def add_names(
    parser: argparse.ArgumentParser, option: str, known: Sequence[str], kind: str
) -> None:
    """Adds `option`, a comma-separated list of `known` names of a `kind`; the default is all."""
    add_checked_names(
        parser,
        option,
        lambda name: check_known([name], known, kind),
        default=list(known),
        help=f"names from {','.join(known)} (default: all)",
    )


def add_checked_names(
    parser: argparse.ArgumentParser,
    option: str,
    check: Callable[[str], object],
    *,
    default: list[str] | None,
    help: str,
) -> None:
    """Adds `option`, a comma-separated list of names for which `check` raises no ValueError."""

    def checked(text: str) -> list[str]:
        found = names(text)
        try:
            for name in found:
                check(name)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return found

    parser.add_argument(option, type=checked, default=default, metavar="A,B", help=help)


def add_rounds(parser: argparse.ArgumentParser, rounds: int, budget: float, of: str) -> None:
    """Adds --rounds and --budget (seconds for each `of`) with these defaults."""
    parser.add_argument(
        "--rounds", type=positive, default=rounds, help=f"most rounds of {of} (default: {rounds})"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=budget,
        metavar="SECONDS",
        help=f"no new round of {of} starts after SECONDS (default: {budget:g})",
    )


def add_processes(parser: argparse.ArgumentParser, rounds: int) -> None:
    """Adds --rounds for benchmarks that start a new process for each measurement."""
    parser.add_argument(
        "--rounds",
        type=positive,
        default=rounds,
        help=f"processes for each time (default: {rounds})",
    )


def add_threads(parser: argparse.ArgumentParser, default: int | None = None) -> None:
    """Adds --threads; the default None leaves torch's own number."""
    shown = "torch's own choice" if default is None else str(default)
    parser.add_argument(
        "--threads", type=positive, default=default, help=f"threads of torch (default: {shown})"
    )


CLOCK_TITLES = {"wall": "latency", "cpu": "CPU time of all threads"}
"""What a clock of `add_clock` measures, for titles."""


def add_clock(parser: argparse.ArgumentParser) -> None:
    """Adds --clock."""
    parser.add_argument(
        "--clock",
        choices=list(CLOCK_TITLES),
        default="wall",
        help="cpu counts this process alone, for busy machines and one thread (default: wall)",
    )


def add_batch(parser: argparse.ArgumentParser, default: int, inputs: str) -> None:
    """Adds --batch, the number of `inputs` per call, such as "images"."""
    parser.add_argument(
        "--batch", type=positive, default=default, help=f"{inputs} per call (default: {default})"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds --json."""
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write all results to FILE as JSON"
    )


def add_results(parser: argparse.ArgumentParser, default: Path) -> None:
    """Adds --results, the file of `_results.ResultsFile`, --resume and --markdown."""
    parser.add_argument(
        "--results",
        type=Path,
        default=default,
        metavar="FILE",
        help=f"each result is written to FILE as soon as it is measured (default: {default})",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="use the results that an interrupted run wrote to --results",
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE.md", help="also write the table to FILE.md"
    )


def add_plot(parser: argparse.ArgumentParser) -> None:
    """Adds --plot."""
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="also draw the results to FILE.png"
    )
