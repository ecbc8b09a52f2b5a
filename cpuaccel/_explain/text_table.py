"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def aligned(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Lay `lines` out under `header` as plain text, every column as wide as it needs."""
    table = [tuple(header), *(tuple(line) for line in lines)]
    widths = [max(len(line[i]) for line in table) for i in range(len(header))]
    table.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )
