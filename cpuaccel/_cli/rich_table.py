"""Tables that the commands of `python -m cpuaccel` print."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text


def table(header: Iterable[str], lines: Iterable[Iterable[str]]) -> Table:
    """Return a table of `lines` under `header`; cells wrap if the terminal is too narrow."""
    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        found.add_column(name, overflow="fold")
    for line in lines:
        # As Text, because rich would read square brackets in a layer's path as markup.
        found.add_row(*(Text(cell) for cell in line))
    return found
