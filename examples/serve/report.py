"""Formats the results of a load test as a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from examples.serve.clients import Result
from examples.serve.latency import Latency


@dataclass(frozen=True)
class Figures:
    """The results of one load, or the medians of several."""

    rate: float
    latency: Latency | None
    """None if nothing was answered."""
    workers: str
    """Answers of each worker, in percent."""
    refused: int


@dataclass(frozen=True)
class Row:
    """A server in the table; only compare.py sets `memory`."""

    name: str
    figures: Figures
    least_cosine: float
    memory: tuple[float, float] | None = None
    """Private MiB of a worker, and MiB of all processes together."""


def figures(result: Result) -> Figures:
    """From the results of the clients."""
    answered = len(result.latencies)
    shares = (f"{result.workers[name] / answered:.0%}" for name in sorted(result.workers))
    return Figures(
        answered / result.seconds,
        Latency.of(result.latencies) if answered else None,
        " ".join(shares),
        result.refused,
    )


def table(rows: Sequence[Row], title: str) -> Table:
    """A table with requests per second and latencies in ms."""
    found = Table(title=title, title_justify="left")
    found.add_column("server")
    headings = ["requests/s", "p50 ms", "p90 ms", "p99 ms", "503", "by worker", "least cosine"]
    memory = any(row.memory for row in rows)
    if memory:
        headings += ["MiB of a worker alone", "MiB of all"]
    for heading in headings:
        found.add_column(heading, justify="right")
    for row in rows:
        found.add_row(row.name, *_cells(row, memory))
    return found


def _cells(row: Row, memory: bool) -> Iterator[str]:
    latency = row.figures.latency
    yield f"{row.figures.rate:.1f}"
    for value in (latency.p50, latency.p90, latency.p99) if latency else (None,) * 3:
        yield "-" if value is None else f"{value:.1f}"
    yield str(row.figures.refused)
    yield row.figures.workers
    yield f"{row.least_cosine:.6f}"
    if memory:
        yield from (f"{each:.0f}" for each in row.memory or ())


def troubles(result: Result) -> Iterator[str]:
    """What went wrong, one line for each kind."""
    for what, count in sorted(result.errors.items()):
        yield f"{count} times: {what}"
    for server, count in sorted(result.left.items()):
        yield f"{server} did not answer {count} times: the next one was asked"
