"""Prints the comparison's table on the terminal, in Markdown and as a bar chart."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import _plot
from benchmarks._report import Report, Row, show_ratio
from benchmarks._timing import Sample
from benchmarks.models.comparison.cases import BOUND, OPENVINO
from benchmarks.models.comparison.outcome import Group, Outcome, groups, present

_CPUACCEL = "cpuaccel"
_TITLE = "cpuaccel beside other runtimes, geometric means of the models"
_HEADINGS = {"torch": "torch eager", "inductor": "Inductor", "onnxruntime": "ONNX Runtime",
             "openvino": "OpenVINO"}  # fmt: skip

Cells = tuple[str, ...]


def print_table(console: Console, rows: Sequence[Outcome]) -> None:
    """Prints a line per case, and under each group its geometric mean, lowest and targets."""
    peers = present(rows)
    table = Table()
    for number, heading in enumerate(_headings(peers)):
        table.add_column(heading, justify="left" if number in (0, 1, 3) else "right")
    for group in groups(rows):
        for cells in _lines(group, peers, show_ratio):
            table.add_row(*cells, style="bold" if cells[0].startswith("geomean") else None)
        table.add_section()
    console.print(table)


def markdown(rows: Sequence[Outcome]) -> str:
    """The same table in Markdown."""
    peers = present(rows)
    headings = _headings(peers)
    lines = [headings, ("---",) * len(headings)]
    for group in groups(rows):
        lines += _lines(group, peers, _plain)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def summary(rows: Sequence[Outcome]) -> str:
    """The groups only, in Markdown: geometric means with the lowest in brackets."""
    peers = present(rows)
    headings = ("", "models", *(_heading(peer) for peer in peers))
    lines = [headings, ("---",) * len(headings)]
    for group in groups(rows):
        cells = (_mean_and_lowest(group, peer) for peer in peers)
        lines.append((_name(group), str(len(group.rows)), *cells))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def plot(rows: Sequence[Outcome], facts: dict[str, str], path: Path) -> None:
    """Draws the speedups of cpuaccel and the other peers over OpenVINO, for each group."""
    peers = [name for name in present(rows) if name != BOUND]
    report = Report(
        _TITLE, facts, [OPENVINO, _CPUACCEL, *(name for name in peers if name != OPENVINO)]
    )
    for group in groups(rows):
        # Speeds relative to OpenVINO.
        speeds = {OPENVINO: 1.0, _CPUACCEL: group.mean(OPENVINO)}
        speeds |= {name: group.mean(OPENVINO, of=name) for name in peers if name != OPENVINO}
        samples = {name: Sample((1 / speed,)) for name, speed in speeds.items() if speed}
        report.rows.append(Row(_name(group), samples))
    _plot.write_plot(report, path, OPENVINO, mean=False)


def _name(group: Group) -> str:
    kind, type_, batch, threads = group.rows[0].case.group
    return f"{kind}, {type_}, batch {batch}, {_threads(threads)}"


def _headings(peers: Sequence[str]) -> Cells:
    return ("", "type", "ms", "by", "first call s", *map(_heading, peers))


def _heading(peer: str) -> str:
    return "of the bound" if peer == BOUND else f"over {_HEADINGS.get(peer, peer)}"


def _lines(group: Group, peers: Sequence[str], show: Callable[[float | None], str]) -> list[Cells]:
    """The cells of a group's rows, and of the summary rows below them."""
    _, type_, batch, threads = group.rows[0].case.group
    lines = [
        (
            row.case.name,
            row.case.type,
            "-" if row.time is None else f"{row.time:.2f}",
            row.by.removeprefix("cpuaccel+"),
            "-" if row.first is None else f"{row.first:.1f}",
            *(_cell(row.over(peer), peer, show) for peer in peers),
        )
        for row in group.rows
    ]
    what = (type_, "", f"batch {batch}, {_threads(threads)}", "")
    means = (_cell(group.mean(peer), peer, show) for peer in peers)
    lowest = (_cell(group.lowest(peer), peer, show) for peer in peers)
    aims = (_aim(group, peer) for peer in peers)
    lines.append((f"geomean of {len(group.rows)}", *what, *means))
    if len(group.rows) > 1:
        lines.append(("lowest", *what, *lowest))
    return [*lines, ("aim", *what, *aims)]


def _cell(value: float | str | None, peer: str, show: Callable[[float | None], str]) -> str:
    if isinstance(value, str):
        return value
    if peer == BOUND:
        return "-" if value is None else f"{value:.0%}"
    return show(value)


def _aim(group: Group, peer: str) -> str:
    aim = group.aim(peer)
    if aim is None:
        return ""
    if not group.values(peer):
        return str(aim)
    return f"{aim}: {'met' if group.is_met(aim) else 'missed'}"


def _mean_and_lowest(group: Group, peer: str) -> str:
    mean, lowest = group.mean(peer), group.lowest(peer)
    if mean is None or lowest is None:
        return ""
    shown = f"{mean:.0%} ({lowest:.0%})" if peer == BOUND else f"{mean:.2f} ({lowest:.2f})"
    return shown if len(group.rows) > 1 else shown.partition(" ")[0]


def _threads(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
