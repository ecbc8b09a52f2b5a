"""What commands print."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text


def table(header: Iterable[str], lines: Iterable[Iterable[str]]) -> Table:
    """Return lines under a header, folded where the terminal is too narrow for them."""
    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        found.add_column(name, overflow="fold")
    for line in lines:
        # Text, because square brackets in a layer's path would be read as markup.
        found.add_row(*(Text(cell) for cell in line))
    return found
